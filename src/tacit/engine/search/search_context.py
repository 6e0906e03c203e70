"""The context of a search, its scores, logic, beam and memory, and a batch of queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tacit.engine.atoms.atoms import Atoms
from tacit.engine.logic import ZERO, Logic
from tacit.engine.search.hop import Hop
from tacit.query.plans.plan import Everything, Node, Relation, Step, anchored, children, reads

_CACHED = 2**18  # floats whose combination stays in cache


@dataclass(frozen=True, eq=False)
class SearchContext:
    """The scores of atoms, the logic that joins them, the size of the beam, and the memory."""

    atoms: Atoms
    logic: Logic
    k: int | None  # candidates of a variable that a beam keeps; None keeps all, which is exact
    memory: int  # bytes

    def halved(self) -> SearchContext:
        """Return the same context with half of the memory."""
        return replace(self, memory=self.memory // 2)

    def hop(self, source: Node) -> Hop:
        """The hop from a set; a set that no atom anchors is not ranked, so it keeps all."""
        return Hop(self.atoms, self.logic, self.k if anchored(source) else None, self.memory)

    def empty(self, rows: int) -> Tensor:
        """Empty sets for a number of rows, `[B, N]`."""
        return torch.full((rows, self.atoms.width), ZERO, device=self.atoms.device)

    def at_once(self, step: Step, rows: int) -> int:
        """How many candidates of so many rows fit into half of the memory with a step."""
        row = 4 * self.atoms.widest * rows
        return max(1, self.memory // (2 * row * (4 + _leaves(step))))


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """The ids that fill the slots of B queries of one plan."""

    entities: Tensor  # [B, E]
    relations: Tensor  # [B, R]
    # whether rows differ in values of variables, which most steps do not read
    repeats: bool = False

    def __len__(self) -> int:
        return len(self.relations)

    def __getitem__(self, rows: Tensor) -> QueryBatch:
        return replace(self, entities=self.entities[rows], relations=self.relations[rows])

    def relation(self, step: Relation) -> Tensor:
        """The directed relation of an atom, `[B]`."""
        return self.relations[:, step.slot] ^ int(step.flip)

    def filled(self, slot: int, values: Tensor) -> QueryBatch:
        """Return the same queries with values `[B]` in one more entity slot."""
        gap = values.new_zeros(len(values), slot - self.entities.shape[1])
        return replace(self, entities=torch.cat([self.entities, gap, values[:, None]], dim=1))

    def groups(self, step: Step, *columns: Tensor) -> RowGroups | None:
        """The groups of rows that are equal in the slots a step reads and in further ids `[B]`.

        None where most rows differ.
        """
        slots, along = reads(step)
        entities = [self.entities[:, slot] for slot in slots]
        relations = [self.relations[:, slot] for slot in along]
        return group_rows([*entities, *relations, *columns], len(self), self.relations.device)


def by_rows(combine: Callable[[Sequence[Tensor]], Tensor], parts: Sequence[Tensor]) -> Tensor:
    """Combine sets entity by entity; on a CPU a few rows at a time, which stay in cache."""
    batch = len(parts[0])
    n = max(part.shape[1] for part in parts)
    rows = max(1, _CACHED // n)
    if batch <= rows or parts[0].is_cuda or any(part.requires_grad for part in parts):
        return combine(parts)
    out = parts[0].new_empty(batch, n)
    for start in range(0, batch, rows):
        out[start : start + rows] = combine([part[start : start + rows] for part in parts])
    return out


def _leaves(step: Step) -> int:
    """How many sets are combined in a step: as many may be held at once."""
    inside = [part for part in children(step) if not isinstance(part, Everything)]
    return sum(map(_leaves, inside)) if inside else 1


@dataclass(frozen=True, eq=False)
class RowGroups:
    """One row of each group of equal rows, and the place of its group for every row."""

    rows: Tensor  # [n]
    back: Tensor  # [B]

    def lowest(self, values: Tensor) -> Tensor:
        """The lowest value of each group, `[B] -> [n]`."""
        out = values.new_full((len(self.rows),), torch.inf)
        return out.scatter_reduce_(0, self.back, values, "amin")


def group_rows(columns: Sequence[Tensor], size: int, device: torch.device) -> RowGroups | None:
    """Group the rows that are equal in all columns, `[B]` each; None where most differ.

    >>> group_rows([torch.tensor([7, 5, 7, 7])], 4, torch.device("cpu"))
    RowGroups(rows=tensor([1, 3]), back=tensor([1, 0, 1, 1]))
    """
    back = torch.zeros(size, dtype=torch.long, device=device)
    for column in columns:
        if not bool((column == column[:1]).all()):
            numbers = back * (int(column.max()) + 1) + column
            back = torch.unique(numbers, return_inverse=True)[1]
    count = int(back.max()) + 1 if size else 0
    if not count or 2 * count > size:
        return None
    last = torch.zeros(count, dtype=torch.long, device=device)
    last.scatter_reduce_(0, back, torch.arange(size, device=device), "amax")
    return RowGroups(last, back)


def undominated(features: Sequence[Tensor]) -> Tensor | None:
    """The places `[B, m]` of candidates that no other matches or exceeds in each feature.

    Features are `[B, P]` each. Rows with fewer such candidates repeat one of theirs. None for more
    than two features, of which most candidates are needed.

    >>> undominated([torch.tensor([[3.0, 2.0, 1.0, 0.0]]), torch.tensor([[1.0, 0.0, 5.0, 5.0]])])
    tensor([[0, 2]])
    """
    if len(features) > 2:
        return None
    first = features[0]
    second = features[-1]
    values, order = first.sort(dim=1, descending=True, stable=True)
    others = values if first is second else second.gather(1, order)
    before = others.cummax(dim=1).values[:, :-1]
    exceeds = ~(others[:, 1:] <= before)  # also where something is no number
    better = torch.cat([torch.ones_like(order[:, :1]).bool(), exceeds], dim=1)
    most = int(better.sum(dim=1).max())
    places = better.to(torch.uint8).sort(dim=1, descending=True, stable=True).indices[:, :most]
    places = torch.where(better.gather(1, places), places, 0)
    return order.gather(1, places)
