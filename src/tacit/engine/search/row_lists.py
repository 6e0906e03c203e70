"""Calibrated scores of the best tails of rows, and of single atoms, without whole rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from tacit.engine.atoms.atoms import Atoms
from tacit.engine.logic import ZERO, check_numbers
from tacit.engine.search.bounded_evaluator import Bounds
from tacit.links.precision import even_product
from tacit.links.retrievers import TopKRetriever
from tacit.links.scorer import BilinearScorer


@dataclass(frozen=True, eq=False)
class Listing:
    """The best entities of a fuzzy set with bounds of their values, and of all others."""

    ids: Tensor  # [n], distinct
    low: Tensor  # [n]
    high: Tensor  # [n]
    bound: float  # of all others

    @classmethod
    def empty(cls) -> Listing:
        """The list of an empty set."""
        return cls(torch.empty(0, dtype=torch.long), torch.empty(0), torch.empty(0), ZERO)

    def __getitem__(self, places: Tensor | slice) -> Listing:
        return Listing(self.ids[places], self.low[places], self.high[places], self.bound)

    def without(self, ids: Tensor) -> Listing:
        """Return the list without some entities."""
        return self[~torch.isin(self.ids, ids)]

    def at(self, ids: Tensor) -> Bounds:
        """Bound the values of some entities by the list."""
        listed, order = self.ids.sort()
        places = torch.searchsorted(listed, ids).clamp(max=max(0, len(listed) - 1))
        present = torch.zeros_like(ids, dtype=torch.bool)
        if len(listed):
            present = listed[places] == ids
        chosen = order[places[present]]
        low = torch.full(ids.shape, ZERO)
        high = torch.full(ids.shape, self.bound)
        low[present] = self.low[chosen]
        high[present] = self.high[chosen]
        return Bounds(low, high)

    def is_decided(self, count: int) -> bool:
        """Whether no unlisted entity can be among the best `count`."""
        if self.bound == ZERO:
            return True
        return len(self.low) >= count and float(self.low.topk(count).values[-1]) >= self.bound


class RowLists:
    """The listed rows of one question, each retrieved once from a `retriever` of tails.

    `sure` becomes false where a retriever does not bound the tails it leaves out; `estimated`
    becomes true where it estimates some `log Z`.
    """

    def __init__(self, atoms: Atoms, retriever: TopKRetriever) -> None:
        self.atoms = atoms
        self.scorer = cast(BilinearScorer, atoms.scorer)
        self.retriever = retriever
        self.sure = True
        self.estimated = False
        self._rows: dict[tuple[int, int], tuple[int, Listing]] = {}
        self._sums: dict[tuple[int, int], float] = {}

    def of(self, heads: list[int], relation: int, m: int) -> list[Listing]:
        """The best tails of rows over a relation: known ones, then at least `m` predicted ones.

        Predicted ones come by falling logit. Where a retriever does not bound the others, they are
        taken to score no higher.
        """
        missing = [head for head in heads if self._rows.get((head, relation), (0, None))[0] < m]
        if missing:
            rows = self._retrieve(torch.tensor(missing), torch.full((len(missing),), relation), m)
            self._rows |= {
                (head, relation): (m, row) for head, row in zip(missing, rows, strict=True)
            }
        return [self._rows[head, relation][1] for head in heads]

    def scores(self, heads: Tensor, relation: int, tails: Tensor) -> Tensor:
        """The log-scores of all atoms between heads and tails, `[B] x [T] -> [B, T]`."""
        atoms = self.atoms
        relations = torch.full_like(heads, relation)
        shape = (len(heads), len(tails))
        logits = even_product(self.scorer.queries(heads, relations), self.scorer.keys()[tails])
        rows = torch.arange(len(heads)).repeat_interleave(len(tails))
        from_ = heads[rows]
        over = relations[rows]
        to = tails.repeat(len(heads))
        scores = self._calibrated(
            logits.reshape(-1), from_, over, to, self._log_sums(heads, relations)[rows]
        )
        if atoms.possible is not None:
            scores = scores.masked_fill(atoms.possible.excluded(from_, over, to), -torch.inf)
        if atoms.facts is not None:
            scores = torch.where(atoms.facts.contains(from_, over, to), atoms.observed, scores)
        return scores.view(shape)

    def _retrieve(self, heads: Tensor, relations: Tensor, m: int) -> list[Listing]:
        """Retrieve rows that are not cached."""
        top = self.retriever.top(heads, relations, m)
        if top.log_sums is not None:
            self._sums |= zip(_keys(heads, relations), top.log_sums.tolist(), strict=True)
        sums = self._log_sums(heads, relations)
        unknown = top.rest.isposinf()
        self.sure &= not bool(unknown.any())
        lowest = torch.where(top.ids >= 0, top.logits, torch.inf).amin(dim=1)
        beyond = torch.where(unknown, torch.where(lowest.isposinf(), -torch.inf, lowest), top.rest)
        bounds = self._calibrated(beyond, heads, relations, heads, sums).tolist()
        rows, places = (top.ids >= 0).nonzero(as_tuple=True)
        ids = top.ids[rows, places]
        scores = self._calibrated(
            top.logits[rows, places], heads[rows], relations[rows], ids, sums[rows]
        )
        known = self.atoms.known(heads, relations)
        facts = self.atoms.facts
        if known is not None and facts is not None:
            fresh = ~facts.contains(heads[rows], relations[rows], ids)
            lifted = torch.full((len(known.rows),), self.atoms.observed)
            rows = torch.cat([known.rows, rows[fresh]])
            ids = torch.cat([known.tails, ids[fresh]])
            scores = torch.cat([lifted, scores[fresh]])
            order = rows.argsort(stable=True)
            rows = rows[order]
            ids = ids[order]
            scores = scores[order]
        sizes = torch.bincount(rows, minlength=len(heads)).tolist()
        parts = zip(ids.split(sizes), scores.split(sizes), bounds, strict=True)
        return [Listing(ids, scores, scores, bound) for ids, scores, bound in parts]

    def _log_sums(self, heads: Tensor, relations: Tensor) -> Tensor:
        """`log Z` of rows, looked up once each; zeros where the calibration needs none."""
        if not self.atoms.calibration.capabilities.by_sum:
            return torch.zeros(len(heads))
        keys = _keys(heads, relations)
        missing = [i for i, key in enumerate(keys) if key not in self._sums]
        if missing:
            sums, exact = self.retriever.log_sums(heads[missing], relations[missing])
            self.estimated |= not bool(exact.all())
            self._sums |= {keys[i]: value for i, value in zip(missing, sums.tolist(), strict=True)}
        return torch.tensor([self._sums[key] for key in keys])

    def _calibrated(
        self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tensor, sums: Tensor
    ) -> Tensor:
        scores = self.atoms.calibration.summed(logits[:, None], heads, relations, tails, sums)
        return check_numbers(scores[:, 0] + self.atoms.ceiling, self.atoms.shards)


def _keys(heads: Tensor, relations: Tensor) -> list[tuple[int, int]]:
    return list(zip(heads.tolist(), relations.tolist(), strict=True))
