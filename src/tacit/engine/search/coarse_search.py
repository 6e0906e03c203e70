"""Coarse search: bounds of all scores, then exact scores of the answers they leave open.

It serves questions without hops. The bounds come from codes of the keys, a quarter of the bytes to
read, or from rows of scores. Exact scores are sums that do not depend on what is computed beside
them, so answers are the same to the bit, whatever the bounds came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor

from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import EVERY
from tacit.engine.atoms.derived_weights import row_keys
from tacit.engine.atoms.known_facts import IMPOSSIBLE, KnownTails
from tacit.engine.logic import ZERO, Logic, check_numbers, different
from tacit.engine.search.bounded_evaluator import Bounds, BoundsFold
from tacit.engine.top_k import TopKRequest, TopKResult
from tacit.links.codes import ROUNDING, Codes
from tacit.links.precision import steady_product
from tacit.links.scorer import BilinearScorer
from tacit.query.plans.fold import EvalContext
from tacit.query.plans.plan import (
    Compared,
    Difference,
    Node,
    Relation,
    Unequal,
    Within,
    single_atom,
)

_CACHED = 2**17  # scores of a block of columns: a few such blocks stay in cache
_GATHERED = 2**15  # keys that are gathered at a time
_MANY = 16  # where more than one in so many entities is requested, all of them are scored
_ERROR = 2.0**-18  # relative rounding error of a bound after calibration and logic


@dataclass(frozen=True, eq=False)
class _Leaf:
    """An atom `relation(head, ·)` of each query, `[B]`."""

    heads: Tensor
    relations: Tensor
    queries: Tensor  # [B, D]
    log_sums: Tensor
    loops: KnownTails | None
    known: KnownTails | None
    row: Tensor | None  # [B, N], raw, where codes or the sum of the row are missing


@dataclass(eq=False)
class CoarseSearch:
    """The search for the best answers of B queries, with slots `[B, E]` and `[B, R]`."""

    atoms: Atoms
    logic: Logic
    codes: Codes | None
    entities: Tensor
    relations: Tensor
    leaves: dict[tuple[int, Relation], _Leaf] = field(default_factory=dict)
    comparisons: dict[tuple[int, Compared], Tensor] = field(default_factory=dict)  # [B, N]

    def top(self, root: Node, requests: Sequence[TopKRequest]) -> list[TopKResult]:
        """List the best answers to each query."""
        first = [torch.tensor(each.first, dtype=torch.long) for each in requests]
        ids = torch.cat([self._contenders(root, requests), *first]).unique()
        scores = check_numbers(self._exact(root, ids), self.atoms.shards)
        finer = self._exact(root, ids, raw=True) if single_atom(root) else [None] * len(requests)
        return [
            each.best_among(ids, *values)
            for each, *values in zip(requests, scores, finer, strict=True)
        ]

    def _exact(self, root: Node, ids: Tensor, raw: bool = False) -> Tensor:
        return torch.cat(
            [_InColumns(self, few, raw).of(root).low for few in ids.split(_GATHERED)], dim=1
        )

    def _contenders(self, root: Node, requests: Sequence[TopKRequest]) -> Tensor:
        """The entities that may be an answer to a query, beside those that go first."""
        n = self.atoms.num_entities
        raw = single_atom(root) is not None and self.atoms.facts_on_top
        counts = torch.tensor([max(1, each.count) for each in requests])[:, None]
        if int(counts.max()) > n // _MANY:
            return torch.arange(n)
        aside = [
            (row, i) for row, each in enumerate(requests) for i in (*each.first, *each.without)
        ]
        listed_anyway = KnownTails(*torch.tensor(aside, dtype=torch.long).view(-1, 2).unbind(dim=1))
        lows = list[Tensor]()
        highs = list[Tensor]()
        width = max(1, _CACHED // len(requests))
        for columns in (slice(start, min(start + width, n)) for start in range(0, n, width)):
            bounds = _InColumns(self, columns, raw).of(root)
            for end in (bounds.low, bounds.high):
                listed_anyway.lift(end, columns, ZERO)
            lows.append(bounds.low.topk(min(int(counts.max()), bounds.low.shape[1])).values)
            highs.append(bounds.high)
        last = torch.cat(lows, dim=1).sort(dim=1, descending=True).values.gather(1, counts - 1)
        last = torch.where(last.isfinite(), last - last.abs() * _ERROR, last)
        floors = torch.tensor([ZERO if raw else each.floor for each in requests])[:, None]
        high = torch.cat(highs, dim=1)
        cut = torch.maximum(last, floors)
        return (~(high < cut) & (high != ZERO)).nonzero()[:, 1]  # keeps NaN, which is checked later

    def leaf(self, slot: int, step: Relation) -> _Leaf:
        """The cached data of an atom of all queries."""
        if (slot, step) not in self.leaves:
            atoms = self.atoms
            heads = self.entities[:, slot]
            relations = self.relations[:, step.slot] ^ int(step.flip)
            queries = cast(BilinearScorer, atoms.scorer).queries(heads, relations)
            sums, row = self._sums_and_rows(heads, relations)
            known = atoms.known(heads, relations)
            loops = None if atoms.possible is None else atoms.possible.loops(heads, relations)
            self.leaves[slot, step] = _Leaf(heads, relations, queries, sums, loops, known, row)
        return self.leaves[slot, step]

    def compared(self, step: Compared, slot: int) -> Tensor:
        """The cached scores of a comparison, from the entity of a slot if any, `[B, N]`."""
        if (slot, step) not in self.comparisons:
            comparisons = self.atoms.comparisons
            self.comparisons[slot, step] = (
                comparisons.rows(step, self.entities[:, slot])
                if isinstance(step, Difference)
                else comparisons.row(step).expand(len(self.entities), -1)
            )
        return self.comparisons[slot, step]

    def _sums_and_rows(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor | None]:
        """`log Z` of rows, zeros where nothing needs it, and raw rows where these were read."""
        atoms = self.atoms
        keys = row_keys(atoms.scorer, heads, relations)
        by_sum = atoms.calibration.capabilities.by_sum
        sums = atoms.weights.sums(keys) if by_sum else torch.zeros(len(heads))
        if self.codes is not None and sums is not None:
            return sums, None
        row = atoms.raw.rows(heads, relations)
        if sums is None:
            sums = atoms.calibration.log_sums(row)
            atoms.weights.add_sums(keys, sums)
        return sums, row


class _InColumns(BoundsFold[int]):
    """Values a plan in some columns: bounds in a slice, exact values at rising ids.

    With `raw`, the values order the answers to a single atom: logits, known facts above all.
    """

    def __init__(self, search: CoarseSearch, columns: slice | Tensor, raw: bool) -> None:
        self.search = search
        self.columns = columns
        self.raw = raw
        self.atoms = search.atoms
        self.logic = search.logic
        self.keys = cast(BilinearScorer, self.atoms.scorer).keys()[columns]

    def entity(self, slot: int) -> int:
        return slot

    def relation(self, step: Relation, place: EvalContext[int]) -> Bounds:
        leaf = self.search.leaf(place.start, step)
        if isinstance(self.columns, slice):
            rough, slack = self._bounded(leaf, self.columns)
            return Bounds(self._scored(leaf, rough - slack), self._scored(leaf, rough + slack))
        return Bounds.exactly(self._scored(leaf, steady_product(leaf.queries, self.keys)))

    def unequal(self, step: Unequal, place: EvalContext[int]) -> Bounds:
        columns = self.columns
        if isinstance(columns, slice):
            columns = torch.arange(columns.start, columns.stop)
        return Bounds.exactly(different(self.search.entities[:, place.start, None], columns[None]))

    def difference(self, step: Difference, place: EvalContext[int]) -> Bounds:
        return self._compared(step, place.start)

    def within(self, step: Within, place: EvalContext[int]) -> Bounds:
        return self._compared(step)

    def _compared(self, step: Compared, slot: int = -1) -> Bounds:
        table = self.search.compared(step, slot)
        return Bounds.exactly(table[:, self.columns].clone())  # bounds are written to

    def _bounded(self, leaf: _Leaf, columns: slice) -> tuple[Tensor, Tensor]:
        if leaf.row is None:
            return cast(Codes, self.search.codes).products(leaf.queries, columns)
        lengths = torch.linalg.vector_norm(leaf.queries, dim=1, keepdim=True)
        slack = ROUNDING * leaf.queries.shape[1] * self.atoms.weights.longest
        return leaf.row[:, columns], lengths * slack

    def _scored(self, leaf: _Leaf, logits: Tensor) -> Tensor:
        if leaf.loops is not None:
            leaf.loops.lift(logits, self.columns, IMPOSSIBLE)
        scores = logits
        certain = torch.inf
        if not self.raw:
            calibrated = self.atoms.calibration.summed(
                logits, leaf.heads, leaf.relations, EVERY, leaf.log_sums
            )
            scores = self.atoms.capped(calibrated)
            certain = self.atoms.observed
        if leaf.known is not None:
            leaf.known.lift(scores, self.columns, certain)
        return scores
