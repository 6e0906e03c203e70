"""Fills the slots of a plan backwards from its answers, for a whole batch.

From an answer a relation is drawn among those that lead to it, then an entity it leads from, and so
on down to the entity slots. Negated parts are filled as if they were not negated: then they hold of
an answer of the other parts, which the negation takes away. A walk does not return by the relation
it came by (`r` after `r^-1`), as in BetaE's queries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.graph.fact_index import FactIndex, Flags, Ints, spread
from tacit.graph.value_index import ValueIndex
from tacit.query.plans.fold import EvalContext, Visitor
from tacit.query.plans.plan import (
    At,
    Best,
    Complement,
    Cutset,
    Difference,
    Edge,
    Everything,
    Intersect,
    Loop,
    Node,
    Plan,
    Project,
    Relation,
    Row,
    Source,
    Step,
    Target,
    Unequal,
    Union,
    Within,
    asserted_children,
)

Arrival = tuple[Ints, Ints | None]  # entities, and the relations by which a walk reaches them
Slot = tuple[str, int]  # an entity slot, "e", or a relation slot, "r"
Context = EvalContext[Arrival]


class Grounding(Visitor[Arrival, None]):
    """Fills slots for `B` queries of one plan, so that each query has its target as answer.

    Negations are ignored. `alive` says which rows are filled: entities may lack facts, and pairs of
    entities a relation.
    """

    def __init__(
        self,
        plan: Plan,
        index: FactIndex,
        num_entities: int,
        targets: Ints,
        random: np.random.Generator,
        values: ValueIndex | None = None,
    ) -> None:
        self.plan = plan
        self.values = values
        self.index = index
        self.num_entities = num_entities
        self.random = random
        # keys by head
        self.starts = np.searchsorted(index.keys, np.arange(num_entities + 1) * index.num_relations)
        self.entities = np.zeros((len(targets), plan.num_entities), dtype=np.int32)
        self.relations = np.zeros((len(targets), plan.num_relations), dtype=np.int32)
        self.edges = _Edges(self)
        # slots of cut variables, filled by the first part that meets them
        self.cut: dict[int, Arrival] = {}
        self.alive = np.ones(len(targets), dtype=bool)
        self.of(plan.root, EvalContext(target=(targets, None)))

    def row(self, step: Row, place: Context) -> None:
        sources, _ = self.edges.of(step.edge, replace(place, source=self.cut.get(step.slot)))
        self._fill(step.slot, sources)

    def project(self, step: Project, place: Context) -> None:
        self.of(step.source, EvalContext(target=self.edges.of(step.edge, place)))

    def loop(self, step: Loop, place: Context) -> None:
        targets, _ = place.end
        self.relations[:, step.relation] = self.between(targets, targets)

    def intersect(self, step: Intersect[Node] | Union[Node], place: Context) -> None:
        for part in sorted(step.parts, key=lambda part: isinstance(part, At | Complement)):
            self.of(part, _by_any(place.end))

    union = intersect

    def complement(self, step: Complement[Node], place: Context) -> None:
        self.of(step.part, _by_any(place.end))

    def at(self, step: At, place: Context) -> None:
        arrival = self.cut.get(step.slot) or self.anywhere()
        self._fill(step.slot, arrival[0])
        self.of(step.part, EvalContext(target=arrival))

    def best(self, step: Best, place: Context) -> None:
        self.of(step.part, EvalContext(target=self.anywhere()))

    def cutset(self, step: Cutset, place: Context) -> None:
        self.of(step.body, _by_any(place.end))

    def everything(self, step: Everything, place: Context) -> None:
        pass

    def within(self, step: Within, place: Context) -> None:
        if self.values is not None and not step.minus:
            fits = self.values.within(step.attribute, step.low, step.high)
            self.alive &= fits[place.end[0]]

    def _fill(self, slot: int, entities: Ints) -> None:
        if slot < self.plan.num_entities:
            self.entities[:, slot] = entities
        else:
            self.cut[slot] = entities, None

    def anywhere(self) -> Arrival:
        """Any entities."""
        return self.random.integers(0, self.num_entities, len(self.alive)), None

    def draw(self, targets: Ints, came_by: Ints | None) -> tuple[Ints, Ints]:
        """Draws an entity that leads to each target, by a uniform choice of the relation."""
        keys = self.index.keys
        first = self.starts[targets]
        number = self.starts[targets + 1] - first
        excluded = np.full(len(targets), -1)
        # the walked fact is among those of the entity, whose relation is not drawn again
        if came_by is not None:
            excluded = np.searchsorted(keys, targets * self.index.num_relations + came_by)
            number = number - 1
        self.alive &= number > 0
        at = first + (self.random.random(len(targets)) * number).astype(np.int64)
        at += (excluded >= 0) & (at >= excluded)
        at = np.clip(at, 0, len(keys) - 1)
        begin = self.index.offsets[at]
        end = self.index.offsets[at + 1]
        tail = begin + (self.random.random(len(targets)) * (end - begin)).astype(np.int64)
        relations = keys[at] % self.index.num_relations ^ 1
        return self.index.all_tails[tail].astype(np.int64), relations

    def between(self, sources: Ints, targets: Ints) -> Ints:
        """Draws a relation from each source to its target; rows without one die."""
        rows, at = spread(self.starts[targets], self.starts[targets + 1])
        inverse = self.index.keys[at] % self.index.num_relations
        leads = self.index.contains(targets[rows], inverse, sources[rows])
        # The last write wins: a random relation of those that lead from the source.
        order = np.argsort(self.random.random(len(rows)) + leads)
        relations = np.zeros(len(targets), dtype=np.int64)
        exists = np.zeros(len(targets), dtype=bool)
        relations[rows[order]] = inverse[order] ^ 1
        exists[rows[order]] = leads[order]
        self.alive &= exists
        return relations

    def put_in_order(self, step: Step) -> Flags:
        """Sorts interchangeable parts of a step by their ids; returns which rows repeat one.

        Two queries of one plan in this order are the same if their ids are.
        """
        repeated = np.zeros(len(self.alive), dtype=bool)
        for part in asserted_children(step):
            repeated |= self.put_in_order(part)
        if isinstance(step, Intersect | Union):
            for slots in _interchangeable(step.parts, self.plan.num_entities):
                repeated |= self._sort_columns(slots)
        return repeated

    def _sort_columns(self, parts: Sequence[Sequence[Slot]]) -> Flags:
        tables = {"e": self.entities, "r": self.relations}
        # [parts, slots, B]
        values = np.stack([[tables[kind][:, slot] for kind, slot in part] for part in parts])
        order = np.lexsort(values.transpose(1, 0, 2)[::-1], axis=0)  # [parts, B]
        values = np.take_along_axis(values, order[:, None], axis=0)
        for part, columns in zip(parts, values, strict=True):
            for (kind, slot), column in zip(part, columns, strict=True):
                tables[kind][:, slot] = column
        same: Flags = (values[1:] == values[:-1]).all(axis=1).any(axis=0)
        return same


@dataclass(frozen=True, eq=False)
class _Edges(Visitor[Arrival, Arrival]):
    """Fills edges that lead to entities; returns the sources and the relation."""

    grounding: Grounding

    def relation(self, step: Relation, place: Context) -> Arrival:
        if place.source is None:
            sources, relation = self.grounding.draw(*place.end)
        else:
            sources, _ = place.source
            relation = self.grounding.between(sources, place.end[0])
        self.grounding.relations[:, step.slot] = relation ^ step.flip
        return sources, relation

    def unequal(self, step: Unequal, place: Context) -> Arrival:
        arrival = place.source or self.grounding.anywhere()
        (targets, _) = place.end
        self.grounding.alive &= arrival[0] != targets
        return arrival[0], None

    def difference(self, step: Difference, place: Context) -> Arrival:
        # which pairs have values in the range is left to their answers
        return place.source or self.grounding.anywhere()

    def intersect(self, step: Intersect[Edge] | Union[Edge], place: Context) -> Arrival:
        arrivals = []
        for part in sorted(step.parts, key=_relations_first):
            arrivals.append(self.of(part, place))
            place = replace(place, source=arrivals[0])
        relations = (relation for _, relation in arrivals if relation is not None)
        return arrivals[0][0], next(relations, None)

    union = intersect

    def complement(self, step: Complement[Edge], place: Context) -> Arrival:
        alive = self.grounding.alive.copy()
        sources, _ = self.of(step.part, place)
        self.grounding.alive = alive  # a negated relation need not hold
        return sources, None

    def source(self, step: Source, place: Context) -> Arrival:
        arrival = place.source or self.grounding.anywhere()
        self.grounding.of(step.part, _by_any(arrival))
        return arrival

    def target(self, step: Target, place: Context) -> Arrival:
        self.grounding.of(step.part, _by_any(place.end))
        return place.source or self.grounding.anywhere()


def _by_any(arrival: Arrival) -> Context:
    """The same entities, whatever relation a walk reaches them by."""
    return EvalContext(target=(arrival[0], None))


def _relations_first(part: Edge) -> int:
    return 0 if isinstance(part, Relation) else 1 if isinstance(part, Intersect | Union) else 2


def _interchangeable(parts: Sequence[Step], num_entities: int) -> list[list[list[Slot]]]:
    """Groups the slots of parts that differ only in their slots."""
    groups = defaultdict[tuple[object, ...], list[list[Slot]]](list)
    for part in parts:
        signature: list[object] = []
        slots: list[Slot] = []
        _describe(part, num_entities, signature, slots)
        groups[tuple(signature)].append(slots)
    return [group for group in groups.values() if len(group) > 1 and group[0]]


def _describe(step: Step, num_entities: int, signature: list[object], slots: list[Slot]) -> None:
    """Collects what tells a step apart, and the slots of a query in it."""
    signature.append(type(step))
    for name, value in vars(step).items():
        if name == "relation" or (name == "slot" and isinstance(step, Relation)):
            slots.append(("r", value))
        elif name == "slot" and value < num_entities:
            slots.append(("e", value))
        elif isinstance(value, int | float | str) and name != "variable":
            signature.append(value)
    for inner in asserted_children(step):
        _describe(inner, num_entities, signature, slots)
    signature.append(None)
