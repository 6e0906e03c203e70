"""The contract of retrievers of the best tails, and exact scans of keys or of their codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.distributed.ties import best
from tacit.links.batches import in_batches
from tacit.links.codes import Codes
from tacit.links.precision import even_product
from tacit.links.scorer import BilinearScorer

_SCORES = 2**20  # scores of a block of columns: few enough to stay in cache
_ROUGH = 2**23  # rough scores in memory at a time
_PAIRS = 2**22  # floats of keys gathered at a time to score pairs


@dataclass(frozen=True, eq=False)
class TopK:
    """The best tails of some rows `relation(head, ·)`, by falling logit and then by rising id."""

    ids: Tensor  # [B, m], -1 where there are fewer tails
    logits: Tensor  # [B, m], exact; minus infinity where there are fewer tails
    rest: Tensor  # [B], the highest logit outside the list; plus infinity where it is unknown
    log_sums: Tensor | None = None  # [B], exact, where the search sums rows on its way


@runtime_checkable
class TopKRetriever(Protocol):
    """Finds the best tails of rows, and how much all of their tails weigh together."""

    def top(self, heads: Tensor, relations: Tensor, m: int) -> TopK:
        """The best `m` tails of rows, `[B] x [B] -> [B, m]`."""

    def log_sums(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """`log Z`, the log of the sum of `e^x` over a row, and whether it is exact, `[B]` each."""


class ScanRetriever:
    """The best tails by scoring them all, one block of columns at a time.

    `loopless [R]` marks the relations whose tails never equal their heads.
    """

    def __init__(self, scorer: BilinearScorer, loopless: Tensor) -> None:
        self.scorer = scorer
        self.loopless = loopless

    def log_sums(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The exact `log Z` of each row."""
        total = cast(Tensor, self.top(heads, relations, 0).log_sums)
        return total, torch.ones_like(total, dtype=torch.bool)

    @torch.no_grad()
    def top(self, heads: Tensor, relations: Tensor, m: int) -> TopK:
        """The best `m` tails of rows and their `log Z` in one pass."""
        queries = self.scorer.queries(heads, relations)
        keys = self.scorer.keys()
        loops = self.loopless[relations].nonzero()[:, 0]
        values = queries.new_empty(len(heads), 0)
        ids = heads.new_empty(len(heads), 0)
        total = queries.new_full((len(heads),), -torch.inf)
        width = max(1, _SCORES // max(1, len(heads)))
        for start in range(0, len(keys), width):
            logits = even_product(queries, keys[start : start + width])
            places = heads[loops] - start
            inside = (places >= 0) & (places < logits.shape[1])
            logits[loops[inside], places[inside]] = -torch.inf
            total = torch.logaddexp(total, logits.logsumexp(dim=1))
            scores, columns = best(logits, m + 1)
            # Those of former blocks have lower ids and come first, so that ties by place are ties
            # by id.
            values, order = best(torch.cat([values, scores], dim=1), m + 1)
            ids = torch.cat([ids, columns + start], dim=1).gather(1, order)
        missing = m + 1 - values.shape[1]
        values = F.pad(values, (0, missing), value=-torch.inf)
        ids = F.pad(ids, (0, missing), value=-1)
        ids = ids.masked_fill(values.isneginf(), -1)
        return TopK(ids[:, :m], values[:, :m], values[:, m], total)


class CodeRetriever:
    """The exact best tails by a scan of codes, with candidates rescored from their keys.

    A code is off by at most `|q| |e - e'|` in a product with a query `q`. A tail is no candidate if
    its upper bound is below the lower bounds of enough others.
    """

    def __init__(self, scorer: BilinearScorer, codes: Codes, loopless: Tensor) -> None:
        self.scorer = scorer
        self.codes = codes
        self.loopless = loopless

    @torch.no_grad()
    def top(self, heads: Tensor, relations: Tensor, m: int) -> TopK:
        step = max(1, _ROUGH // self.scorer.num_entities)
        tops = [
            self._top(*part, m)
            for part in zip(heads.split(step), relations.split(step), strict=True)
        ]
        return TopK(
            *(torch.cat([getattr(top, name) for top in tops]) for name in ("ids", "logits", "rest"))
        )

    def _top(self, heads: Tensor, relations: Tensor, m: int) -> TopK:
        queries = self.scorer.queries(heads, relations)
        rough, slack = self.codes.products(queries)
        loops = self.loopless[relations].nonzero()[:, 0]
        rough[loops, heads[loops]] = -torch.inf
        lowest = (rough - slack).topk(min(m + 1, rough.shape[1]), dim=1).values[:, -1]
        rows, ids = (rough + slack >= lowest[:, None]).nonzero(as_tuple=True)
        logits = pair_logits(queries, self.scorer.keys(), rows, ids)
        logits.masked_fill_(rough[rows, ids].isneginf(), -torch.inf)
        return top_of_pairs(rows, ids, logits, len(queries), m)

    def log_sums(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The exact `log Z` of each row, from the keys."""
        return ScanRetriever(self.scorer, self.loopless).log_sums(heads, relations)


def pair_logits(queries: Tensor, keys: Tensor, rows: Tensor, ids: Tensor) -> Tensor:
    """The scores `[P]` of pairs `(row, id)`, independent of the rest of the batch."""
    step = max(1, _PAIRS // queries.shape[1])
    return in_batches(lambda row, id: (queries[row] * keys[id]).sum(-1), step, rows, ids)


def top_of_pairs(rows: Tensor, ids: Tensor, logits: Tensor, batch: int, m: int) -> TopK:
    """The best `m` of pairs `(row, id)` as lists by row, and the best score of the rest.

    Pairs are ordered by row and by rising id.
    """
    sizes = torch.bincount(rows, minlength=batch)
    width = max(m + 1, int(sizes.max()) if batch else 0)
    places = torch.arange(len(rows), device=rows.device) - (sizes.cumsum(0) - sizes)[rows]
    values = logits.new_full((batch, width), -torch.inf).index_put((rows, places), logits)
    tails = ids.new_full((batch, width), -1).index_put((rows, places), ids)
    values, order = best(values, m + 1)
    tails = tails.gather(1, order).masked_fill(values.isneginf(), -1)
    return TopK(tails[:, :m], values[:, :m], values[:, m])
