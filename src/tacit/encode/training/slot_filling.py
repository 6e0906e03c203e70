"""Slots of queries, filled on the device from an answer backwards over facts.

A fact that leads to the answer is drawn first, then one that leads to its source, and so on. A
negated part is filled from a sibling of the answer, an entity that the last fact's source and
relation lead to as well, so that the negation excludes something.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from torch import Tensor

from tacit.errors import PlanError, TrainingError
from tacit.graph.fact_index import FactIndex
from tacit.query.plans.plan import (
    Complement,
    Edge,
    Intersect,
    Node,
    Project,
    Relation,
    Row,
    Union,
)

# facts into an entity that membership tests read; with more a query is invalid
MOST_READ = 128
Hop = tuple[Tensor, Tensor]  # sources and relations of facts


class DeviceFacts:
    """Sorted facts on a device: the keys (entity, relation), and the tails of each key.

    A fact is one number, made of the place of its key and its tail; made of the key itself, it
    would exceed 64 bits where there are many entities and relations. Nothing on the device is of
    the size of all entities.
    """

    def __init__(self, index: FactIndex, num_entities: int, device: torch.device) -> None:
        if not len(index):
            raise TrainingError("there are no train facts to draw queries from")
        self.num_entities = num_entities
        self.num_relations = index.num_relations
        tails = index.all_tails.astype(np.int64)
        sizes = np.diff(index.offsets)
        facts = np.repeat(np.arange(len(index.keys)), sizes) * num_entities + tails
        arrays = (index.keys, index.offsets, tails, np.repeat(index.relations, sizes), facts)
        self.keys, self.offsets, self.tails, self.relations, self.facts = (
            torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays
        )

    def random_source(self, targets: Tensor, arrival: Tensor | None) -> tuple[Hop, Tensor]:
        """A random fact that leads to each target: its source and relation, and if it exists.

        A walk does not go back by the relation of its `arrival`.
        """
        first, last = (
            self.offsets[torch.searchsorted(self.keys, ends * self.num_relations)]
            for ends in (targets, targets + 1)
        )
        excluded, count = (last, 0) if arrival is None else self.span(targets, arrival)
        number = last - first - count
        at = random_place(first, number)
        at = at + torch.where(at >= excluded, count, 0)
        at = at.clamp(max=len(self.tails) - 1)
        return (self.tails[at], self.relations[at] ^ 1), number > 0

    def random_tail(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """A random tail of each head and relation, `[n]`, and whether one exists."""
        first, number = self.span(heads, relations)
        return self.tails[random_place(first, number).clamp(max=len(self.tails) - 1)], number > 0

    def span(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The offset and the number of the tails of each key."""
        at, exists = self._key(heads, relations)
        first = self.offsets[at]
        return first, torch.where(exists, self.offsets[at + 1] - first, 0)

    def contains(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Whether each is a fact."""
        at, exists = self._key(heads, relations)
        return exists & _find(self.facts, at * self.num_entities + tails)[1]

    def _key(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The position of each key, and whether it exists."""
        return _find(self.keys, heads * self.num_relations + relations)


@dataclass(eq=False)
class SlotFilling:
    """The slots of queries of one plan, filled step by step."""

    facts: DeviceFacts
    alive: Tensor  # which queries are answered by the entities met, [n]
    entities: dict[int, Tensor] = field(default_factory=dict)  # by slot, [n]
    relations: dict[int, Tensor] = field(default_factory=dict)

    def at(self, rows: Tensor) -> SlotFilling:
        """The filling of some of the queries."""
        entities, relations = (
            {slot: column[rows] for slot, column in slots.items()}
            for slots in (self.entities, self.relations)
        )
        return SlotFilling(self.facts, self.alive[rows], entities, relations)

    def fill(self, step: Node, targets: Tensor, arrival: Tensor | None = None) -> Hop:
        """Fill a step so that its set holds the targets; return the facts that lead to them.

        As in all shapes, an intersection needs a part that is not negated.
        """
        match step:
            case Row(edge=Relation(slot, flip)) | Project(edge=Relation(slot, flip)):
                hop, exists = self.facts.random_source(targets, arrival)
                self.alive = self.alive & exists
                self.relations[slot] = hop[1] ^ int(flip)
                if isinstance(step, Row):
                    self.entities[step.slot] = hop[0]
                else:
                    self.fill(step.source, *hop)
                return hop
            case Intersect() | Union():
                positive = [part for part in step.parts if not isinstance(part, Complement)]
                negated = [part for part in step.parts if isinstance(part, Complement)]
                first, *_ = [self.fill(part, targets) for part in positive]
                for part in negated:  # last, from siblings by the first hop
                    self._exclude(part.part, targets, first)
                return first
        raise PlanError(
            f"queries with {type(step).__name__} cannot be drawn on a device; give `queries`"
        )

    def _exclude(self, step: Node, targets: Tensor, hop: Hop) -> None:
        """Fill a negated step from siblings of the targets, and drop targets in its set."""
        siblings, _ = self.facts.random_tail(*hop)
        self.fill(step, siblings)
        _, possible = self.membership(step, targets)
        self.alive = self.alive & ~possible

    def random_member(self, step: Node) -> tuple[Tensor, Tensor]:
        """A random entity of the set of a filled step, and whether it surely is one."""
        match step:
            case Row():
                return self.facts.random_tail(self.entities[step.slot], self._along(step.edge))
            case Project():
                starts, sure = self.random_member(step.source)
                ends, exists = self.facts.random_tail(starts, self._along(step.edge))
                return ends, sure & exists
        parts = cast("Intersect[Node] | Union[Node]", step).parts  # `fill` refuses other steps
        first, *others = sorted(parts, key=lambda part: isinstance(part, Complement))
        ends, sure = self.random_member(first)
        for part in others if isinstance(step, Intersect) else ():
            sure = sure & self.membership(part, ends)[0]
        return ends, sure

    def membership(self, step: Node, targets: Tensor) -> Tensor:
        """Whether targets `[n, ...]` surely are, and may be, in a filled set, `[2, n, ...]`."""

        def beside_targets(column: Tensor) -> Tensor:
            return column.view(-1, *(1,) * (targets.dim() - 1)).expand_as(targets)

        match step:
            case Row():
                sources, along = self.entities[step.slot], self._along(step.edge)
                exists = self.facts.contains(
                    beside_targets(sources), beside_targets(along), targets
                )
                return exists.expand(2, *exists.shape)
            case Project():
                tails = self.facts.tails
                inverse = beside_targets(self._along(step.edge)) ^ 1
                first, count = self.facts.span(targets, inverse)
                steps = torch.arange(MOST_READ, device=targets.device)
                at = (first[..., None] + steps).clamp(max=len(tails) - 1)
                low, high = (
                    self.membership(step.source, tails[at]) & (steps < count[..., None])
                ).any(-1)
                return torch.stack((low, high | (count > MOST_READ)))
            case Intersect():
                return torch.stack([self.membership(part, targets) for part in step.parts]).all(0)
            case Union():
                return torch.stack([self.membership(part, targets) for part in step.parts]).any(0)
        denied = cast("Complement[Node]", step).part  # `fill` refuses other steps
        return ~self.membership(denied, targets).flip(0)

    def _along(self, edge: Edge) -> Tensor:
        """The relations that an edge follows."""
        relation = cast(Relation, edge)  # `fill` refuses other edges
        return self.relations[relation.slot] ^ int(relation.flip)


def random_place(first: Tensor, number: Tensor) -> Tensor:
    """A random one of `number` positions from `first` on; `first` where there are none."""
    places = (torch.rand(first.shape, device=first.device) * number).long()
    return first + torch.minimum(places, number - 1).clamp(min=0)


def _find(table: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """The position of each key in a sorted table, and whether it is there."""
    at = torch.searchsorted(table, keys).clamp(max=len(table) - 1)
    return at, table[at] == keys
