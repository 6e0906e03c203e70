"""What to compute for a question: a tree of fuzzy sets, with slots where entities and relations go.

Every `Node` stands for one fuzzy set over all entities (a value per entity `t`), or, for `At` and `Best`, for one value
that holds whatever the entity. Queries of one structure share one plan and run as one batch: entity slot `i` of a batch
is column `i` of `entities[B, E]`, relation slot `j` column `j` of `relations[B, R]`, where relation ids are *directed*
(`r ^ 1` is the inverse of `r`).

With `c_r(s, t)` the calibrated score of an atom:

========================== ==========================================================================
`Row(slot, edge)`           `edge(entity of slot, t)`
`Project(v, source, edge)`  `max_s  source[s] ⊤ edge(s, t)`; variable `v` takes the value `s`
`Loop(relation)`            `c_r(t, t)`
`Everything()`              `1`
`Intersect`, `Union`        `⊤`, `⊥` of the parts, entity by entity
`Complement(part)`          `n(part[t])`
`At(part, slot)`            `part[entity of slot]`, whatever `t`
`Best(v, part)`             `max_s part[s]`, whatever `t`; variable `v` takes the value `s`
`Condition(v, slot, from, body)`  `max_x body[t]` with entity `x` in the extra entity slot, over the best `x` of `from`
========================== ==========================================================================

An `Edge` is a formula over the pair `(s, t)`: `Relation(slot, flip)` is `c_r(s, t)` with `r` the id in the slot, or its
inverse where `flip`; `Intersect`, `Union` and `Complement` combine; `Source(node)` and `Target(node)` are the value of
a set at `s` or at `t`. How a plan is walked stands in `tacit.query.plans.fold`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

Part = TypeVar("Part", covariant=True)


@dataclass(frozen=True)
class Relation:
    """`c_r(s, t)` for the relation in a slot, or for its inverse where the atom is walked backwards."""

    slot: int
    flip: bool = False


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
    """The best way to reach each entity over an edge from a set: `max_s source[s] ⊤ edge(s, t)`."""

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
class Condition:
    """The best of `body` over candidates for a cut variable, which fills an extra entity slot.

    A `bounded` body is worth no more than its candidate; else what candidates are worth says which to try, no more.
    """

    variable: int
    slot: int
    candidates: Node
    body: Node
    bounded: bool = True


Node: TypeAlias = (
    "Row | Project | Loop | Everything | At | Best | Condition | Intersect[Node] | Union[Node] | Complement[Node]"
)
Edge: TypeAlias = "Relation | Source | Target | Everything | Intersect[Edge] | Union[Edge] | Complement[Edge]"
Step: TypeAlias = "Node | Edge"
NodeOrEdge = TypeVar("NodeOrEdge", "Node", "Edge")


@dataclass(frozen=True)
class Held:
    """An answer variable beside the last one: its values are tried one by one, each in an entity slot of its own.

    `marginal` is the fuzzy set of its values with the answer variables after it existential; `bound` is what no tuple
    with a value exceeds, by the parts that speak of nothing else. `ranking`, one of the two, says what to try first.
    """

    variable: int
    slot: int
    marginal: Node
    bound: Node

    @property
    def ranking(self) -> Node:
        """The marginal, unless that takes a row for every entity and the bound tells values apart, too."""
        scanned = any(isinstance(step, Project) and not anchored(step.source) for step in walk(self.marginal))
        telling = any(anchored(part) and not isinstance(part, At | Best) for part in conjuncts(self.bound))
        return self.bound if scanned and telling else self.marginal


@dataclass(frozen=True)
class Plan:
    """The structure shared by all queries that differ only in their entities and relations.

    The root is the fuzzy set of the last answer variable, given the others, which are held.
    """

    root: Node
    num_entities: int  # entity slots a query fills; `Held` and `Condition` add slots after these
    num_relations: int  # relation slots a query fills
    num_variables: int
    targets: tuple[int, ...] = (0,)  # the answer variables, as asked for; none where a formula holds or not
    held: tuple[Held, ...] = ()

    def has(self, *kinds: type) -> bool:
        """Whether a step of one of some kinds occurs anywhere."""
        return has(self.root, *kinds)


@dataclass(frozen=True)
class Prepared:
    """A query ready to run: its plan, and the names that fill the plan's slots."""

    plan: Plan
    entities: tuple[str, ...]
    relations: tuple[str, ...]
    variables: tuple[str, ...]  # names of the plan's variables, the target first
    text: str = field(default="", compare=False, repr=False)  # what it was read from, for messages


def children(step: Step) -> tuple[Step, ...]:
    """The steps directly inside a step."""
    values: list[Any] = [getattr(step, f.name) for f in fields(step)]
    parts = [value if isinstance(value, tuple) else (value,) for value in values if not isinstance(value, int)]
    return tuple(part for several in parts for part in several)


def said_inside(step: Step) -> tuple[Step, ...]:
    """What is directly inside a step, each thing once: candidates for a cut variable repeat what its body says."""
    return (step.body,) if isinstance(step, Condition) else children(step)


class StepChange(Protocol):
    """What makes a set of a set, and an edge of an edge."""

    def __call__(self, step: NodeOrEdge, /) -> NodeOrEdge: ...


def map_children(step: NodeOrEdge, change: StepChange) -> NodeOrEdge:
    """The same step with every step directly inside it changed."""
    changed = dict[str, Any]()
    for f in fields(step):
        value = getattr(step, f.name)
        if not isinstance(value, int):
            changed[f.name] = tuple(map(change, value)) if isinstance(value, tuple) else change(value)
    return replace(step, **changed)


def conjuncts(step: NodeOrEdge) -> tuple[NodeOrEdge, ...]:
    """The parts of a conjunction, or the step itself where it is none."""
    return step.parts if isinstance(step, Intersect) else (step,)


def walk(step: Step) -> Iterator[Step]:
    """A step and all steps inside it, from the outside in."""
    yield step
    for inner in children(step):
        yield from walk(inner)


def has(step: Step, *kinds: type) -> bool:
    """Whether a step is of one of some kinds, or one inside it is."""
    return any(isinstance(inner, kinds) for inner in walk(step))


@lru_cache(maxsize=65536)
def reads(step: Step) -> tuple[frozenset[int], frozenset[int]]:
    """The entity slots and the relation slots that a step reads; the slot that a condition fills is its own."""
    entities = {step.slot} if isinstance(step, Row | At) else set[int]()
    relations = {step.slot} if isinstance(step, Relation) else {step.relation} if isinstance(step, Loop) else set[int]()
    for slots, along in map(reads, children(step)):
        entities |= slots
        relations |= along
    return frozenset(entities - {step.slot} if isinstance(step, Condition) else entities), frozenset(relations)


def ends_of(edge: Edge) -> Iterator[Relation | Source | Target | Everything]:
    """What an edge joins: relations, and the sets at its ends."""
    match edge:
        case Intersect(parts) | Union(parts):
            for part in parts:
                yield from ends_of(part)
        case Complement(part):
            yield from ends_of(part)
        case _:
            yield edge


def anchored(step: Step) -> bool:
    """Whether a set is held together by some atom that must hold; complements alone leave nearly everything in."""
    match step:
        case Everything() | Complement():
            return False
        case Intersect(parts):
            return any(map(anchored, parts))
        case Union(parts):
            return all(map(anchored, parts))
    return True


def single_atom(step: Step) -> tuple[int, Relation] | None:
    """The entity slot and the relation of a set that is the row of one atom; None where it is more."""
    return (step.slot, step.edge) if isinstance(step, Row) and isinstance(step.edge, Relation) else None


def negated_relation(step: Complement[Step]) -> Relation | None:
    """The relation that a negation is about: that of the atom it negates, or of the last hop to what it negates.

    None for a negated conjunction, disjunction or negation, which is about no single one.
    """
    match step.part:
        case Relation() as relation:
            return relation
        case Row(_, Relation() as relation) | Project(_, _, Relation() as relation):
            return relation
        case Loop(slot):
            return Relation(slot)
        case At(part, _) | Best(_, part):  # the same atom, between entities or of anybody
            return negated_relation(Complement(part))
    return None
