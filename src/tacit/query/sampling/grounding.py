"""Fills the slots of a plan backwards from its answers, for a whole batch.

From an answer a relation is drawn among those that lead to it, then an entity it leads from, and so
on down to the entity slots. Negated parts are filled as if they were not, so that they speak of an
answer of the rest: that is what the negation takes away. Where a walk goes on, it does not return
by the relation it came by (`r` after `r^-1`), for that says little; BetaE's queries keep the same
rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from tacit.graph.fact_index import FactIndex, Ints, spread
from tacit.query.plans.fold import EvalContext, Visitor
from tacit.query.plans.plan import (
    At,
    Best,
    Complement,
    Cutset,
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
    asserted_children,
)
from tacit.query.plans.sets import Flags

Met = tuple[Ints, Ints | None]  # entities, and the relations by which a walk has come to them


class Grounding(Visitor[Met, None]):
    """Fills slots for `B` queries of one plan, so that each query has its target as answer.

    Negations are ignored.

    `alive` says which rows could be filled: entities without facts, and relations that cannot be
    had together, leave others dead.
    """

    def __init__(
        self,
        plan: Plan,
        index: FactIndex,
        num_entities: int,
        targets: Ints,
        random: np.random.Generator,
    ) -> None:
        self.plan = plan
        self.index = index
        self.num_entities = num_entities
        self.random = random
        # keys by head
        self.starts = np.searchsorted(index.keys, np.arange(num_entities + 1) * index.num_relations)
        self.entities = np.zeros((len(targets), plan.num_entities), dtype=np.int32)
        self.relations = np.zeros((len(targets), plan.num_relations), dtype=np.int32)
        self.edges = _Edges(self)
        # slots of cut variables, filled by the first part that meets them
        self.cut: dict[int, Met] = {}
        self.alive = np.ones(len(targets), dtype=bool)
        self.of(plan.root, EvalContext(target=(targets, None)))

    def put_in_order(self) -> Flags:
        """Sorts interchangeable parts by their ids; returns which rows repeat one.

        So a question is written one way only, and two queries of one plan are the same where their
        ids are.
        """
        return self._put_in_order(self.plan.root)

    def row(self, step: Row, place: EvalContext[Met]) -> None:
        sources, _ = self.edges.of(step.edge, replace(place, source=self.cut.get(step.slot)))
        self._fill(step.slot, sources)

    def project(self, step: Project, place: EvalContext[Met]) -> None:
        self.of(step.source, EvalContext(target=self.edges.of(step.edge, place)))

    def loop(self, step: Loop, place: EvalContext[Met]) -> None:
        targets, _ = place.end
        self.relations[:, step.relation] = self.between(targets, targets)

    def intersect(self, step: Intersect[Node] | Union[Node], place: EvalContext[Met]) -> None:
        for part in sorted(step.parts, key=lambda part: isinstance(part, At | Complement)):
            self.of(part, _without_relation(place.end))

    union = intersect

    def complement(self, step: Complement[Node], place: EvalContext[Met]) -> None:
        self.of(step.part, _without_relation(place.end))

    def at(self, step: At, place: EvalContext[Met]) -> None:
        met = self.cut.get(step.slot) or self.anywhere()
        self._fill(step.slot, met[0])
        self.of(step.part, EvalContext(target=met))

    def best(self, step: Best, place: EvalContext[Met]) -> None:
        self.of(step.part, EvalContext(target=self.anywhere()))

    def cutset(self, step: Cutset, place: EvalContext[Met]) -> None:
        self.of(step.body, _without_relation(place.end))

    def everything(self, step: Everything, place: EvalContext[Met]) -> None:
        pass

    def _fill(self, slot: int, entities: Ints) -> None:
        if slot < self.plan.num_entities:
            self.entities[:, slot] = entities
        else:
            self.cut[slot] = entities, None

    def anywhere(self) -> Met:
        """Any entities."""
        return self.random.integers(0, self.num_entities, len(self.alive)), None

    def draw(self, targets: Ints, came_by: Ints | None) -> tuple[Ints, Ints]:
        """Draws an entity that leads to each target, by a uniform choice of the relation."""
        keys = self.index.keys
        first = self.starts[targets]
        number = self.starts[targets + 1] - first
        back = np.full(len(targets), -1)
        # the fact just walked is among those of the entity: leave its relation out
        if came_by is not None:
            back = np.searchsorted(keys, targets * self.index.num_relations + came_by)
            number = number - 1
        self.alive &= number > 0
        at = first + (self.random.random(len(targets)) * number).astype(np.int64)
        at += (back >= 0) & (at >= back)
        at = np.clip(at, 0, len(keys) - 1)
        begin = self.index.offsets[at]
        end = self.index.offsets[at + 1]
        picked = begin + (self.random.random(len(targets)) * (end - begin)).astype(np.int64)
        return self.index.all_tails[picked].astype(np.int64), keys[
            at
        ] % self.index.num_relations ^ 1

    def between(self, sources: Ints, targets: Ints) -> Ints:
        """Draws a relation from each source to its target; rows without one die."""
        rows, at = spread(self.starts[targets], self.starts[targets + 1])
        back = self.index.keys[at] % self.index.num_relations
        leads = self.index.contains(targets[rows], back, sources[rows])
        # The last write wins: a random relation of those that lead from the source.
        order = np.argsort(self.random.random(len(rows)) + leads)
        chosen = np.zeros(len(targets), dtype=np.int64)
        leading = np.zeros(len(targets), dtype=bool)
        chosen[rows[order]], leading[rows[order]] = back[order] ^ 1, leads[order]
        self.alive &= leading
        return chosen

    def _put_in_order(self, node: Step) -> Flags:
        twice = np.zeros(len(self.alive), dtype=bool)
        for part in asserted_children(node):
            twice |= self._put_in_order(part)
        if isinstance(node, Intersect | Union):
            for slots in _interchangeable(node.parts, self.plan.num_entities):
                twice |= self._sort_columns(slots)
        return twice

    def _sort_columns(self, parts: Sequence[Sequence[tuple[str, int]]]) -> Flags:
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
class _Edges(Visitor[Met, Met]):
    """Fills edges that lead to given entities; returns the sources and the relation."""

    grounding: Grounding

    def relation(self, step: Relation, place: EvalContext[Met]) -> Met:
        if place.source is None:
            sources, relation = self.grounding.draw(*place.end)
        else:
            sources, _ = place.source
            relation = self.grounding.between(sources, place.end[0])
        self.grounding.relations[:, step.slot] = relation ^ step.flip
        return sources, relation

    def unequal(self, step: Unequal, place: EvalContext[Met]) -> Met:
        met = place.source or self.grounding.anywhere()
        (targets, _) = place.end
        self.grounding.alive &= met[0] != targets
        return met[0], None

    def intersect(self, step: Intersect[Edge] | Union[Edge], place: EvalContext[Met]) -> Met:
        ways = []
        for part in sorted(step.parts, key=_relations_first):
            ways.append(self.of(part, place))
            place = replace(place, source=ways[0])
        return ways[0][0], next((relation for _, relation in ways if relation is not None), None)

    union = intersect

    def complement(self, step: Complement[Edge], place: EvalContext[Met]) -> Met:
        alive = self.grounding.alive.copy()
        sources, _ = self.of(step.part, place)
        # a negated relation need not hold: any that leads to the target will do
        self.grounding.alive = alive
        return sources, None

    def source(self, step: Source, place: EvalContext[Met]) -> Met:
        met = place.source or self.grounding.anywhere()
        self.grounding.of(step.part, _without_relation(met))
        return met

    def target(self, step: Target, place: EvalContext[Met]) -> Met:
        self.grounding.of(step.part, _without_relation(place.end))
        return place.source or self.grounding.anywhere()


def _without_relation(met: Met) -> EvalContext[Met]:
    """The same entities, reached by any relation."""
    return EvalContext(target=(met[0], None))


def _relations_first(part: Edge) -> int:
    return 0 if isinstance(part, Relation) else 1 if isinstance(part, Intersect | Union) else 2


def _interchangeable(parts: Sequence[Step], num_entities: int) -> list[list[list[tuple[str, int]]]]:
    """Groups the slots of parts that differ only in their slots."""
    groups: dict[tuple[object, ...], list[list[tuple[str, int]]]] = {}
    for part in parts:
        marks: list[object] = []
        slots: list[tuple[str, int]] = []
        _describe(part, num_entities, marks, slots)
        groups.setdefault(tuple(marks), []).append(slots)
    return [group for group in groups.values() if len(group) > 1 and group[0]]


def _describe(
    node: Step, num_entities: int, marks: list[object], slots: list[tuple[str, int]]
) -> None:
    marks.append(type(node))
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name == "relation" or (field.name == "slot" and isinstance(node, Relation)):
            slots.append(("r", value))
        elif field.name == "slot" and value < num_entities:
            slots.append(("e", value))
        elif isinstance(value, int) and field.name != "variable":
            marks.append(value)
    for inner in asserted_children(node):
        _describe(inner, num_entities, marks, slots)
    marks.append(None)
