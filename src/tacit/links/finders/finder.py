"""The best tails of rows: the contract of everything that finds them, and the plain way, a scan of the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.distributed.ties import best
from tacit.links.precision import even_product
from tacit.links.scorer import BilinearScorer, Scorer

_SCORES = 2**20  # scores of a block of columns: few enough to stay in cache


@dataclass(frozen=True, eq=False)
class Top:
    """The best tails of some rows `relation(head, ·)`, by falling logit and then by rising id."""

    ids: Tensor  # [B, m], -1 where there are fewer tails
    logits: Tensor  # [B, m], exact; minus infinity where there are fewer tails
    rest: Tensor  # [B]: no tail outside the list has a higher logit; plus infinity where nobody knows


@runtime_checkable
class TopScorer(Protocol):
    """Finds the best tails of rows, and how much all of their tails weigh together."""

    def top(self, heads: Tensor, relations: Tensor, m: int) -> Top:
        """The best `m` tails of rows, `[B] x [B] -> [B, m]`."""

    def log_sums(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """`log Z`, the log of the sum of `e^x` over the logits of each row, and whether it is exact, `[B]` each."""


class ScanTop:
    """The best tails by scoring them all: exact, in one pass over the table, a block of columns at a time."""

    def __init__(self, scorer: Scorer, at_once: int = _SCORES) -> None:
        self.scorer, self.at_once = scorer, at_once

    def top(self, heads: Tensor, relations: Tensor, m: int) -> Top:
        """The best `m` tails of rows, `[B] x [B] -> [B, m]`."""
        return self.scan(heads, relations, m)[0]

    def log_sums(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """`log Z` of each row, which is exact."""
        total = self.scan(heads, relations, 0)[1]
        return total, torch.ones_like(total, dtype=torch.bool)

    @torch.no_grad()
    def scan(self, heads: Tensor, relations: Tensor, m: int) -> tuple[Top, Tensor]:
        """The best `m` tails of rows together with their `log Z`, `[B]`, in one pass."""
        values = torch.empty(len(heads), 0, device=self.scorer.device)
        ids = torch.empty(len(heads), 0, dtype=torch.long, device=self.scorer.device)
        total = torch.full((len(heads),), -torch.inf, device=self.scorer.device)
        for start, logits in self._blocks(heads, relations):
            total = torch.logaddexp(total, logits.logsumexp(dim=1))
            scores, places = best(logits, m + 1)
            # What was found before has lower ids and comes first, so that ties by place are ties by id.
            values, order = best(torch.cat([values, scores], dim=1), m + 1)
            ids = torch.cat([ids, places + start], dim=1).gather(1, order)
        missing = m + 1 - values.shape[1]
        values = F.pad(values, (0, missing), value=-torch.inf)
        ids = F.pad(ids, (0, missing), value=-1)
        return Top(ids[:, :m], values[:, :m], values[:, m]), total

    def _blocks(self, heads: Tensor, relations: Tensor) -> Iterator[tuple[int, Tensor]]:
        """The logits of every tail block by block, each with the id of its first column."""
        if not isinstance(self.scorer, BilinearScorer):
            yield 0, self.scorer.logits(heads, relations)
            return
        queries, keys = self.scorer.queries(heads, relations), self.scorer.keys()
        width = max(1, self.at_once // max(1, len(heads)))
        for start in range(0, self.scorer.num_entities, width):
            yield start, even_product(queries, keys[start : min(start + width, self.scorer.num_entities)])
