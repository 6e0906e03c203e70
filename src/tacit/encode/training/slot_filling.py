"""Slots of queries that are filled backwards over facts, from an answer down, on the device.

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
    Everything,
    Intersect,
    Node,
    Project,
    Relation,
    Row,
    Union,
)

# facts into an entity that membership tests read; with more a query is invalid
FOLLOWED = 128
Hop = tuple[Tensor, Tensor]  # sources and relations of facts


class DeviceFacts:
    """Sorted facts on a device: the keys (entity, relation), and the tails of each key.

    A fact is one number, by the place of its key and its tail: by the key itself it would not fit
    into 64 bits where many entities meet many relations. Nothing on the device is of the size of
    all entities.
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

    def leading(self, targets: Tensor, came_by: Tensor | None) -> tuple[Hop, Tensor]:
        """A random fact that leads to each target: its source and relation, and if it exists.

        A walk does not go back by the relation it came by.
        """
        first, last = (
            self.offsets[torch.searchsorted(self.keys, ends * self.num_relations)]
            for ends in (targets, targets + 1)
        )
        back, many = (last, last - last) if came_by is None else self.span(targets, came_by)
        number = last - first - many
        at = random_place(first, number)
        at = (at + torch.where(at >= back, many, 0)).clamp(max=len(self.tails) - 1)
        return (self.tails[at], self.relations[at] ^ 1), number > 0

    def sibling(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """A random tail of each head and relation, `[n]`, and whether one exists."""
        first, number = self.span(heads, relations)
        return self.tails[random_place(first, number).clamp(max=len(self.tails) - 1)], number > 0

    def span(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The offset and the number of the tails of each key."""
        at, exists = self._key(heads, relations)
        first = self.offsets[at]
        return first, torch.where(exists, self.offsets[at + 1] - first, 0)

    def holds(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
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

    def fill(self, step: Node, targets: Tensor, came_by: Tensor | None = None) -> Hop | None:
        """Fill a step so that its set holds the targets; the facts that lead to them."""
        match step:
            case Row(edge=Relation(slot, flip)) | Project(edge=Relation(slot, flip)):
                hop, exists = self.facts.leading(targets, came_by)
                self.alive = self.alive & exists
                self.relations[slot] = hop[1] ^ int(flip)
                if isinstance(step, Row):
                    self.entities[step.slot] = hop[0]
                else:
                    self.fill(step.source, *hop)
                return hop
            case Intersect() | Union():
                hops = [
                    self.fill(part, targets)
                    for part in step.parts
                    if not isinstance(part, Complement)
                ]
                first = next(iter(hops), None)
                for part in step.parts:  # negated ones last, from siblings by the first hop
                    if isinstance(part, Complement):
                        self._exclude(part.part, targets, first)
                return first
            case Complement():
                self._exclude(step.part, targets, None)
                return None
            case Everything():
                return None
        raise PlanError(
            f"queries with {type(step).__name__} cannot be drawn on a device; give `queries`"
        )

    def _exclude(self, step: Node, targets: Tensor, hop: Hop | None) -> None:
        """Fill a negated step from siblings of the targets, and drop targets in its set."""
        if hop is None:
            siblings = torch.randint(self.facts.num_entities, targets.shape, device=targets.device)
        else:
            siblings, _ = self.facts.sibling(*hop)
        self.fill(step, siblings)
        _, possible = self.membership(step, targets)
        self.alive = self.alive & ~possible

    def random_member(self, step: Node) -> tuple[Tensor, Tensor]:
        """A random entity of the set of a filled step, and whether it surely is one."""
        match step:
            case Row():
                return self.facts.sibling(self.entities[step.slot], self._along(step.edge))
            case Project():
                starts, sure = self.random_member(step.source)
                ends, exists = self.facts.sibling(starts, self._along(step.edge))
                return ends, sure & exists
            case Intersect() | Union():
                first = min(step.parts, key=lambda part: isinstance(part, Complement))
                ends, sure = self.random_member(first)
                for part in step.parts if isinstance(step, Intersect) else ():
                    sure = sure if part is first else sure & self.membership(part, ends)[0]
                return ends, sure
        nowhere = torch.zeros_like(self.alive, dtype=torch.long)
        return nowhere, nowhere.bool()

    def membership(self, step: Node, targets: Tensor) -> Tensor:
        """Whether targets `[n, ...]` surely are, and may be, in a filled set, `[2, n, ...]`."""

        def beside_targets(column: Tensor) -> Tensor:
            return column.view(-1, *(1,) * (targets.dim() - 1)).expand_as(targets)

        match step:
            case Row():
                sources, along = self.entities[step.slot], self._along(step.edge)
                holds = self.facts.holds(beside_targets(sources), beside_targets(along), targets)
                return holds.expand(2, *holds.shape)
            case Project():
                tails = self.facts.tails
                back = beside_targets(self._along(step.edge)) ^ 1
                first, many = self.facts.span(targets, back)
                steps = torch.arange(FOLLOWED, device=targets.device)
                at = (first[..., None] + steps).clamp(max=len(tails) - 1)
                low, high = (
                    self.membership(step.source, tails[at]) & (steps < many[..., None])
                ).any(-1)
                return torch.stack((low, high | (many > FOLLOWED)))
            case Intersect():
                return torch.stack([self.membership(part, targets) for part in step.parts]).all(0)
            case Union():
                return torch.stack([self.membership(part, targets) for part in step.parts]).any(0)
            case Complement():
                return ~self.membership(step.part, targets).flip(0)
        return torch.ones(2, *targets.shape, dtype=torch.bool, device=targets.device)

    def _along(self, edge: Edge) -> Tensor:
        """The relations that an edge follows."""
        relation = cast(Relation, edge)  # `fill` refuses other edges
        return self.relations[relation.slot] ^ int(relation.flip)


def random_place(first: Tensor, number: Tensor) -> Tensor:
    """A random one of `number` positions from `first` on; `first` where there are none."""
    drawn = (torch.rand(first.shape, device=first.device) * number).long()
    return first + torch.minimum(drawn, number - 1).clamp(min=0)


def _find(table: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """The position of each key in a sorted table, and whether it is there."""
    at = torch.searchsorted(table, keys).clamp(max=len(table) - 1)
    return at, table[at] == keys
