"""The plan of a question: a tree of fuzzy sets, with slots for entities and relations.

Every `Node` stands for one fuzzy set over all entities (a value per entity `t`), or, for `At` and
`Best`, for one value that is the same for every entity. Queries of one structure share one plan and
run as one batch: entity slot `i` of a batch is column `i` of `entities[B, E]`, relation slot `j`
column `j` of `relations[B, R]`, where relation ids are *directed* (`r ^ 1` is the inverse of `r`).

With `c_r(s, t)` the calibrated score of an atom:

=========================== =======================================================================
`Row(slot, edge)`           `edge(entity of slot, t)`
`Project(v, source, edge)`  `max_s  source[s] ⊤ edge(s, t)`; variable `v` takes the value `s`
`Loop(relation)`            `c_r(t, t)`
`Everything()`              `1`
`Within(a, low, high)`      `1` where `low <= a(t) <= high`, a value of an attribute, else `0`
`Intersect`, `Union`        `⊤`, `⊥` of the parts, entity by entity
`Complement(part)`          `n(part[t])`
`At(part, slot)`            `part[entity of slot]`, whatever `t`
`Best(v, part)`             `max_s part[s]`, whatever `t`; variable `v` takes the value `s`
`Cutset(v, slot, c, body)`  `max_x body[t]` over the best `x` of `c`, with `x` in an extra slot
=========================== =======================================================================

An `Edge` is a formula over the pair `(s, t)`: `Relation(slot, flip)` is `c_r(s, t)` with `r` the id
in the slot, or its inverse where `flip`; `Unequal()` is 1, or 0 where `s` is `t`; `Difference(a, b,
low, high)` is 1 where `low <= a(s) - b(t) <= high`, else 0; `Intersect`, `Union` and `Complement`
combine; `Source(node)` and `Target(node)` are the value of a set at `s` or at `t`. Where no value
is known, a comparison has the probability of a prediction. How a plan is walked stands in
`tacit.query.plans.fold`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

Part = TypeVar("Part", covariant=True)


@dataclass(frozen=True)
class Relation:
    """`c_r(s, t)` for the relation in a slot, or for its inverse where `flip`."""

    slot: int
    flip: bool = False


@dataclass(frozen=True)
class Unequal:
    """Inside an edge: 1 from every entity to all others, and 0 to itself."""


@dataclass(frozen=True)
class Difference:
    """Inside an edge: whether a value of `s`, less one of `t`, is in a range."""

    left: str  # the attribute of s
    right: str  # the attribute of t
    low: float
    high: float

    @property
    def compared(self) -> tuple[str, str, float, float]:
        """The attributes and the range."""
        return self.left, self.right, self.low, self.high


@dataclass(frozen=True)
class Source:
    """Inside an edge: the value of a set at `s`."""

    part: Node


@dataclass(frozen=True)
class Target:
    """Inside an edge: the value of a set at `t`."""

    part: Node


@dataclass(frozen=True)
class Row:
    """The values of an edge from the entity of a slot to every entity."""

    slot: int
    edge: Edge


@dataclass(frozen=True)
class Project:
    """The best hop to each entity over an edge from a set: `max_s source[s] ⊤ edge(s, t)`."""

    variable: int
    source: Node
    edge: Edge


@dataclass(frozen=True)
class Loop:
    """`c_r(t, t)`: atoms with one variable at both ends."""

    relation: int


@dataclass(frozen=True)
class Everything:
    """The set of all entities."""


@dataclass(frozen=True)
class Within:
    """Whether a value of an entity, less one of another attribute if any, is in a range."""

    attribute: str
    low: float
    high: float
    minus: str = ""


@dataclass(frozen=True)
class Intersect(Generic[Part]):
    """The t-norm of two or more parts."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Union(Generic[Part]):
    """The t-conorm of two or more parts."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Complement(Generic[Part]):
    """The negation of a part."""

    part: Part


@dataclass(frozen=True)
class At:
    """The value of a set at the entity of a slot: one value, whatever the target."""

    part: Node
    slot: int


@dataclass(frozen=True)
class Best:
    """The largest value of a set: one value, whatever the target."""

    variable: int
    part: Node


@dataclass(frozen=True)
class Cutset:
    """The best of `body` over candidates for a cut variable, which fills an extra slot.

    The value of a `bounded` body never exceeds that of its candidate; otherwise the values of the
    candidates only say which to try.
    """

    variable: int
    slot: int
    candidates: Node
    body: Node
    bounded: bool = True


Node: TypeAlias = (
    "Row | Project | Loop | Everything | Within | At | Best | Cutset"
    " | Intersect[Node] | Union[Node] | Complement[Node]"
)
Edge: TypeAlias = (
    "Relation | Unequal | Difference | Source | Target | Everything"
    " | Intersect[Edge] | Union[Edge] | Complement[Edge]"
)
Step: TypeAlias = "Node | Edge"
Compared = Within | Difference  # the steps that compare values
NodeOrEdge = TypeVar("NodeOrEdge", "Node", "Edge")


@dataclass(frozen=True)
class EnumeratedTarget:
    """An answer variable beside the last one, whose values are tried one by one.

    Each value fills an entity slot of its own.

    `marginal` is the fuzzy set of its values with the answer variables after it existential;
    `bound` is an upper bound for every tuple with a value, by the factors of this variable alone.
    `ranking`, one of the two, says what to try first.
    """

    variable: int
    slot: int
    marginal: Node
    bound: Node

    @property
    def ranking(self) -> Node:
        """The marginal, unless it scores every entity and the bound tells values apart."""
        scans = any(
            isinstance(step, Project) and not anchored(step.source) for step in walk(self.marginal)
        )
        selective = any(
            anchored(part) and not isinstance(part, At | Best) for part in conjuncts(self.bound)
        )
        return self.bound if scans and selective else self.marginal


@dataclass(frozen=True)
class Plan:
    """The structure shared by all queries that differ only in their entities and relations.

    The root is the fuzzy set of the last answer variable, for values of the enumerated ones.
    """

    root: Node
    # entity slots a query fills; `EnumeratedTarget` and `Cutset` add slots after these
    num_entities: int
    num_relations: int  # relation slots a query fills
    num_variables: int
    # the answer variables, in the order of the question; none for a yes-or-no question
    targets: tuple[int, ...] = (0,)
    enumerated: tuple[EnumeratedTarget, ...] = ()

    @property
    def roots(self) -> tuple[Node, ...]:
        """The sets whose best members are tried: of each enumerated target, then the root."""
        return (*(target.ranking for target in self.enumerated), self.root)

    def has(self, *kinds: type) -> bool:
        """Whether a step of one of some kinds occurs anywhere in the plan."""
        return has(self.root, *kinds)


@dataclass(frozen=True)
class CompiledQuery:
    """A query ready to run: its plan, and the names that fill the plan's slots."""

    plan: Plan
    entities: tuple[str, ...]
    relations: tuple[str, ...]
    variables: tuple[str, ...]  # names of the plan's variables, the target first
    text: str = field(default="", compare=False, repr=False)  # the source, for messages


def children(step: Step) -> tuple[Step, ...]:
    """The steps directly inside a step."""
    parts = (value for value in vars(step).values() if not isinstance(value, int | float | str))
    return tuple(
        inner for part in parts for inner in (part if isinstance(part, tuple) else (part,))
    )


def asserted_children(step: Step) -> tuple[Step, ...]:
    """The children of a step, without the candidates of a cutset, which its body repeats."""
    return (step.body,) if isinstance(step, Cutset) else children(step)


class StepChange(Protocol):
    """A function from nodes to nodes and from edges to edges."""

    def __call__(self, step: NodeOrEdge, /) -> NodeOrEdge: ...


def map_children(step: NodeOrEdge, change: StepChange) -> NodeOrEdge:
    """Applies `change` to every step directly inside a step."""
    changed: dict[str, Any] = {
        name: tuple(map(change, value)) if isinstance(value, tuple) else change(value)
        for name, value in vars(step).items()
        if not isinstance(value, int | float | str)
    }
    return replace(step, **changed)


def conjuncts(step: NodeOrEdge) -> tuple[NodeOrEdge, ...]:
    """The parts of a conjunction, or the step itself where it is none."""
    return step.parts if isinstance(step, Intersect) else (step,)


def walk(step: Step) -> Iterator[Step]:
    """Yields a step and all steps inside it, from the outside in."""
    yield step
    for inner in children(step):
        yield from walk(inner)


def has(step: Step, *kinds: type) -> bool:
    """Whether a step, or a step inside it, is of one of some kinds."""
    return any(isinstance(inner, kinds) for inner in walk(step))


@lru_cache(maxsize=65536)
def reads(step: Step) -> tuple[frozenset[int], frozenset[int]]:
    """The entity slots and relation slots that a step reads, without those its cutsets fill."""
    entities = set[int]()
    relations = set[int]()
    match step:
        case Row(slot) | At(_, slot):
            entities.add(slot)
        case Relation(slot) | Loop(slot):
            relations.add(slot)
    for inner_entities, inner_relations in map(reads, children(step)):
        entities |= inner_entities
        relations |= inner_relations
    if isinstance(step, Cutset):
        entities.discard(step.slot)
    return frozenset(entities), frozenset(relations)


def ends_of(
    edge: Edge,
) -> Iterator[Relation | Unequal | Difference | Source | Target | Everything]:
    """Yields the leaves of an edge: relations, comparisons, and the sets at its ends."""
    match edge:
        case Intersect(parts) | Union(parts):
            for part in parts:
                yield from ends_of(part)
        case Complement(part):
            yield from ends_of(part)
        case _:
            yield edge


def anchored(step: Step) -> bool:
    """Whether some atom that must hold restricts a set.

    Complements and inequalities alone leave nearly every entity in, and so does a comparison, where
    values may be missing.
    """
    match step:
        case Everything() | Within() | Complement():
            return False
        case Row(_, edge) | Project(_, _, edge) if isinstance(edge, Unequal | Difference):
            return False
        case Intersect(parts):
            return any(map(anchored, parts))
        case Union(parts):
            return all(map(anchored, parts))
    return True


def single_atom(step: Step) -> tuple[int, Relation] | None:
    """The entity slot and the relation of a set that is one atom's row; None for any other."""
    match step:
        case Row(slot, Relation() as relation):
            return slot, relation
    return None
