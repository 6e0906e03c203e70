"""Calibrated scores of the best tails of rows, and of single atoms, without ever a row of all entities."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.engine.atoms.atoms import Atoms
from tacit.engine.search.scores import checked
from tacit.links.finders.finder import TopScorer
from tacit.links.precision import even_product
from tacit.links.scorer import BilinearScorer


@dataclass(frozen=True, eq=False)
class RowList:
    """The best tails of a row `relation(head, ·)` with their log-scores: known ones first, others by falling logit."""

    ids: Tensor  # [n]
    scores: Tensor  # [n]
    rest: float  # no other tail scores higher; where nobody knows, that none does is taken for granted


class RowLists:
    """The rows that one question needs, each found once, from a `finder` of tails.

    `sure` is lost where a finder does not know what it has not found; `estimated` says that some `log Z` was.
    """

    def __init__(self, atoms: Atoms, finder: TopScorer) -> None:
        if not isinstance(atoms.scorer, BilinearScorer):
            raise TypeError("lists of tails are found by products")
        self.atoms, self.scorer, self.finder = atoms, atoms.scorer, finder
        self.sure, self.estimated = True, False
        self._rows: dict[tuple[int, int], tuple[int, RowList]] = {}
        self._sums: dict[tuple[int, int], float] = {}

    def of(self, heads: list[int], relation: int, m: int) -> list[RowList]:
        """The best tails of rows over one relation: those that are known, and at least `m` predicted ones."""
        missing = [head for head in heads if self._rows.get((head, relation), (0, None))[0] < m]
        if missing:
            rows = self._found(torch.tensor(missing), torch.full((len(missing),), relation), m)
            self._rows |= {(head, relation): (m, row) for head, row in zip(missing, rows, strict=True)}
        return [self._rows[head, relation][1] for head in heads]

    def scores(self, heads: Tensor, relation: int, tails: Tensor) -> Tensor:
        """The log-scores of all atoms between heads and tails, `[B] x [T] -> [B, T]`."""
        atoms, relations = self.atoms, torch.full_like(heads, relation)
        shape = (len(heads), len(tails))
        logits = even_product(self.scorer.queries(heads, relations), self.scorer.keys()[tails])
        rows = torch.arange(len(heads)).repeat_interleave(len(tails))
        from_, over, to = heads[rows], relations[rows], tails.repeat(len(heads))
        scores = self._calibrated(logits.reshape(-1), from_, over, to, self._log_sums(heads, relations)[rows])
        if atoms.possible is not None:
            scores = scores.masked_fill(atoms.possible.excluded(from_, over, to), -torch.inf)
        if atoms.facts is not None:
            scores = torch.where(atoms.facts.contains(from_, over, to), atoms.observed, scores)
        return scores.view(shape)

    def _found(self, heads: Tensor, relations: Tensor, m: int) -> list[RowList]:
        """Rows that were not found before."""
        top, sums = self.finder.top(heads, relations, m), self._log_sums(heads, relations)
        unknown = top.rest.isposinf()
        self.sure &= not bool(unknown.any())
        lowest = torch.where(top.ids >= 0, top.logits, torch.inf).amin(dim=1)
        rest = torch.where(unknown, torch.where(lowest.isposinf(), -torch.inf, lowest), top.rest)
        bounds = self._calibrated(rest, heads, relations, heads, sums).tolist()
        rows, places = (top.ids >= 0).nonzero(as_tuple=True)
        ids = top.ids[rows, places]
        scores = self._calibrated(top.logits[rows, places], heads[rows], relations[rows], ids, sums[rows])
        known = self.atoms.known(heads, relations)
        if known is not None:
            fresh = ~self.atoms.facts.contains(heads[rows], relations[rows], ids)  # type: ignore[union-attr]
            lifted = torch.full((len(known.rows),), self.atoms.observed)
            rows, ids = torch.cat([known.rows, rows[fresh]]), torch.cat([known.tails, ids[fresh]])
            scores = torch.cat([lifted, scores[fresh]])
            order = rows.argsort(stable=True)
            rows, ids, scores = rows[order], ids[order], scores[order]
        sizes = torch.bincount(rows, minlength=len(heads)).tolist()
        return [RowList(*row) for row in zip(ids.split(sizes), scores.split(sizes), bounds, strict=True)]

    def _log_sums(self, heads: Tensor, relations: Tensor) -> Tensor:
        """`log Z` of rows, looked up once each; nothing where the calibration needs none."""
        if not self.atoms.calibration.by_sum:
            return torch.zeros(len(heads))
        keys = list(zip(heads.tolist(), relations.tolist(), strict=True))
        missing = [i for i, key in enumerate(keys) if key not in self._sums]
        if missing:
            sums, exact = self.finder.log_sums(heads[missing], relations[missing])
            self.estimated |= not bool(exact.all())
            self._sums |= {keys[i]: value for i, value in zip(missing, sums.tolist(), strict=True)}
        return torch.tensor([self._sums[key] for key in keys])

    def _calibrated(self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tensor, sums: Tensor) -> Tensor:
        scores = self.atoms.calibration.summed(logits[:, None], heads, relations, tails, sums)
        return checked(scores[:, 0] + self.atoms.ceiling, self.atoms.shards)
