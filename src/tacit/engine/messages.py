"""Exact and beam search: one fuzzy set over all entities per step of a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tacit.engine.atoms import Atoms
from tacit.engine.logic import Logic
from tacit.engine.projection import ZERO, Hop
from tacit.query.plan import (
    Any,
    At,
    Complement,
    Condition,
    Edge,
    Everything,
    Intersect,
    Is,
    Loop,
    Node,
    Project,
    Relation,
    Row,
    Source,
    Target,
    Union,
)

_CACHED = 2**18  # floats whose combination stays in cache


@dataclass(eq=False)
class Messages:
    """Evaluates the nodes of a plan for a batch of queries: `value(node) -> [B, N]` log-scores, or `[B, 1]`.

    `k` candidates are kept for every bound variable; `None` keeps all, which is exact. With `bounds` the batch holds
    every query twice, first for a lower and then for an upper bound of the exact value: what the beam drops can only
    raise the upper one, and a complement swaps the two.
    """

    atoms: Atoms
    logic: Logic
    entities: Tensor  # [B, E]
    relations: Tensor  # [B, R]
    k: int | None
    memory: int  # bytes a step may use
    bounds: bool = False
    copies: int = 1  # with bounds, rows are `copies` times (lower bounds, upper bounds)
    outer: Messages | None = None
    outer_rows: Tensor | None = None  # [B]: the row of `outer` that each row belongs to
    values: dict[Node, Tensor] = field(default_factory=dict)
    keep: bool = False  # remember the value of every node, as explanations need

    @property
    def batch(self) -> int:
        """How many rows there are, B."""
        return len(self.relations)

    def value(self, node: Node) -> Tensor:
        """The fuzzy set of a node."""
        if node in self.values:
            return self.values[node]
        if self.outer is not None and self.outer_rows is not None and not self._uses_own_slots(node):
            return self.outer.remembered(node)[self.outer_rows]
        value = self._compute(node)
        if self.keep:
            self.values[node] = value
        return value

    def remembered(self, node: Node) -> Tensor:
        """The fuzzy set of a node, computed once."""
        if node not in self.values:
            self.values[node] = self.value(node)
        return self.values[node]

    def _compute(self, node: Node) -> Tensor:
        match node:
            case Row(slot, edge):
                return self.edge(edge, self.entities[:, slot])
            case Project():
                return self._project(node)
            case Intersect(parts):
                return by_rows(self.logic.all, [self.value(part) for part in parts])  # type: ignore[arg-type]
            case Union(parts):
                return by_rows(self.logic.any, [self.value(part) for part in parts])  # type: ignore[arg-type]
            case Complement(part):
                return self.complement(self.value(part))  # type: ignore[arg-type]
            case At(part, slot):
                return self.at(part, self.entities[:, slot])
            case Any(_, part):
                return self.full(self.value(part)).amax(dim=1, keepdim=True)
            case Loop(slot):
                return self._loop(self.relations[:, slot])
            case Everything():
                return torch.zeros(self.batch, 1, device=self.atoms.device)
            case Is(slot):
                only = torch.full((self.batch, self.atoms.num_entities), ZERO, device=self.atoms.device)
                return only.scatter_(1, self.entities[:, slot, None], 0.0)
            case Condition():
                return self._condition(node)
        raise TypeError(f"{node} stands for no set")

    def complement(self, value: Tensor) -> Tensor:
        """The negation of a value; of bounds, the lower becomes the upper."""
        value = by_rows(lambda parts: self.logic.negation(parts[0]), [value])
        if not self.bounds:
            return value
        return value.view(self.copies, 2, -1, value.shape[1]).flip(1).reshape(value.shape)

    def at(self, part: Node, entities: Tensor) -> Tensor:
        """The value of a set at one entity a row, `[B, 1]`."""
        match part:
            case Row(slot, Relation(relation, flip)):  # one atom: no need for its row
                heads, ids = self.entities[:, slot], self.relations[:, relation] ^ int(flip)
                return self.atoms.of(heads, ids, entities)[:, None]
            case Intersect(parts):
                return self.logic.all([self.at(p, entities) for p in parts])  # type: ignore[arg-type]
            case Union(parts):
                return self.logic.any([self.at(p, entities) for p in parts])  # type: ignore[arg-type]
            case Complement(inner):
                return self.complement(self.at(inner, entities))  # type: ignore[arg-type]
        if self.outer is not None and self.outer_rows is not None and not self._uses_own_slots(part):
            return self.outer.full(self.outer.remembered(part))[self.outer_rows, entities][:, None]
        return self.full(self.value(part)).gather(1, entities[:, None])

    def edge(self, edge: Edge, heads: Tensor) -> Tensor:
        """The values of an edge from one entity a row to every entity, `[B, N]`."""
        match edge:
            case Relation(slot, flip):
                return self.atoms.rows(heads, self.relations[:, slot] ^ int(flip))
            case Intersect(parts):
                return self.logic.all([self.edge(part, heads) for part in parts])
            case Union(parts):
                return self.logic.any([self.edge(part, heads) for part in parts])
            case Complement(part):
                return self.complement(self.edge(part, heads))
            case Source(part):
                return self.at(part, heads)
            case Target(part):
                return self.value(part)
        return self.value(edge)

    def hop(self, source: Node) -> Hop:
        """How to leave a set: where nothing holds it together a beam has nothing to go by, and all of it is kept."""
        k = self.k if anchored(source) else None
        raised = None
        if self.bounds:
            halves = torch.tensor([False, True], device=self.relations.device)
            raised = halves.repeat_interleave(self.batch // (2 * self.copies)).repeat(self.copies)
        return Hop(self.atoms, self.logic, k, self.memory, raised)

    def _project(self, node: Project) -> Tensor:
        source = self.full(self.value(node.source))
        hop = self.hop(node.source)
        if isinstance(node.edge, Relation):
            return hop.over(source, self.relations[:, node.edge.slot] ^ int(node.edge.flip))
        values, candidates, dropped = hop.candidates(source)
        out = torch.full((self.batch, self.atoms.num_entities), ZERO, device=source.device)
        times = self._at_once(node.edge)
        for start in range(0, candidates.shape[1], times):
            some = candidates[:, start : start + times]  # [B, P]
            rows = self.repeated(some.shape[1]).edge(node.edge, some.t().reshape(-1))  # [P · B, N]
            reached = self.logic.conjunction(values[:, start : start + times].t().reshape(-1, 1), rows)
            out = torch.maximum(out, reached.view(some.shape[1], self.batch, -1).amax(dim=0))
        return hop.raise_bounds(out, dropped)

    def _condition(self, node: Condition) -> Tensor:
        hop = self.hop(node.candidates)
        _, candidates, dropped = hop.candidates(self.full(self.remembered(node.candidates)))
        out = torch.full((self.batch, self.atoms.num_entities), ZERO, device=self.atoms.device)
        times = self._at_once(node.body)
        for start in range(0, candidates.shape[1], times):
            some = candidates[:, start : start + times]
            inner = self.repeated(some.shape[1], node.slot, some.t().reshape(-1))
            best = inner.full(inner.value(node.body)).view(some.shape[1], self.batch, -1).amax(dim=0)
            out = torch.maximum(out, best)
        return hop.raise_bounds(out, dropped)

    def _at_once(self, inner: Edge) -> int:
        """How many candidates to try together, so that half of the memory holds all sets of an inner evaluation."""
        row = 4 * self.atoms.num_entities * self.batch
        return max(1, self.memory // (2 * row * (4 + count_parts(inner))))

    def repeated(self, times: int, slot: int | None = None, filling: Tensor | None = None) -> Messages:
        """These queries `times` over, copy by copy, with an entity slot more where given."""
        rows = torch.arange(self.batch, device=self.relations.device).repeat(times)
        entities = self.entities[rows]
        if slot is not None and filling is not None:
            gap = entities.new_zeros(len(rows), slot - entities.shape[1])
            entities = torch.cat([entities, gap, filling[:, None]], dim=1)
        return Messages(
            self.atoms, self.logic, entities, self.relations[rows], self.k, self.memory // 2,
            self.bounds, self.copies * times, outer=self, outer_rows=rows,
        )  # fmt: skip

    def _loop(self, relations: Tensor) -> Tensor:
        everyone = torch.arange(self.atoms.num_entities, device=self.atoms.device)
        distinct, inverse = torch.unique(relations, return_inverse=True)
        rows = [self.atoms.of(everyone, r.expand(len(everyone)), everyone) for r in distinct]
        return torch.stack(rows)[inverse]

    def full(self, value: Tensor) -> Tensor:
        """A value for every entity, where it may be one for all."""
        return value.expand(self.batch, self.atoms.num_entities)

    def _uses_own_slots(self, node: Node) -> bool:
        """Whether a node reads an entity slot that the outer evaluation does not have."""
        assert self.outer is not None
        return highest_slot(node) >= self.outer.entities.shape[1]


def by_rows(combine: Callable[[list[Tensor]], Tensor], parts: list[Tensor]) -> Tensor:
    """Combine sets entity by entity; on a CPU a few rows at a time, so that what comes between stays in cache."""
    batch, n = len(parts[0]), max(part.shape[1] for part in parts)
    rows = max(1, _CACHED // n)
    if batch <= rows or parts[0].is_cuda or any(part.requires_grad for part in parts):
        return combine(parts)
    out = parts[0].new_empty(batch, n)
    for start in range(0, batch, rows):
        out[start : start + rows] = combine([part[start : start + rows] for part in parts])
    return out


def count_parts(node: Edge) -> int:
    """How many sets are combined in a node: as many may be held at once."""
    match node:
        case Intersect(parts) | Union(parts):
            return sum(map(count_parts, parts))
        case Row(_, part) | Complement(part) | Source(part) | Target(part) | Any(_, part) | At(part, _):
            return count_parts(part)
        case Project(_, source, edge):
            return count_parts(source) + count_parts(edge)
        case Condition(_, _, candidates, body):
            return count_parts(candidates) + count_parts(body)
    return 1


def anchored(node: Edge) -> bool:
    """Whether a set is held together by some atom that must hold; complements alone leave nearly everything in."""
    match node:
        case Everything() | Complement():
            return False
        case Intersect(parts):
            return any(map(anchored, parts))
        case Union(parts):
            return all(map(anchored, parts))
    return True


def highest_slot(node: Edge) -> int:
    """The highest entity slot a node reads, or -1."""
    match node:
        case Row(slot, edge):
            return max(slot, highest_slot(edge))
        case Is(slot):
            return slot
        case At(part, slot):
            return max(slot, highest_slot(part))
        case Project(_, source, edge):
            return max(highest_slot(source), highest_slot(edge))
        case Intersect(parts) | Union(parts):
            return max(map(highest_slot, parts))
        case Complement(part) | Source(part) | Target(part) | Any(_, part):
            return highest_slot(part)
        case Condition(_, _, candidates, body):
            return max(highest_slot(candidates), highest_slot(body))
    return -1
