"""Exact scans of a table of keys: one that leaves loops out, and one that reads a byte where it would read a float."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from tacit.distributed.ties import best
from tacit.links.finders.codes import Codes
from tacit.links.finders.finder import ScanTop, Top
from tacit.links.scorer import BilinearScorer

_HELD = 2**23  # rough scores held at a time
_PAIRS = 2**22  # floats of keys gathered at a time to score pairs


class LooplessScan(ScanTop):
    """A scan of whole rows in which no tail is its own head, for the relations that are `loopless`, `[R]`."""

    def __init__(self, scorer: BilinearScorer, loopless: Tensor) -> None:
        super().__init__(scorer)
        self.loopless = loopless

    def scan(self, heads: Tensor, relations: Tensor, m: int) -> tuple[Top, Tensor]:
        """The best `m` tails of rows together with their `log Z`, `[B]`, in one pass."""
        top, total = super().scan(heads, relations, m)
        return Top(top.ids.masked_fill(top.logits.isneginf(), -1), top.logits, top.rest), total

    def _blocks(self, heads: Tensor, relations: Tensor) -> Iterator[tuple[int, Tensor]]:
        rows = self.loopless[relations].nonzero()[:, 0]
        for start, logits in super()._blocks(heads, relations):
            places = heads[rows] - start
            here = (places >= 0) & (places < logits.shape[1])
            logits[rows[here], places[here]] = -torch.inf
            yield start, logits


class CodedTop:
    """The best tails by a scan of codes: whatever could be among them is scored again from its key, so they are exact.

    A code is off by at most `|q| |e - e'|` in a product with a query `q`. Where the best of the lowest that scores
    can be are above the highest that another can be, it is out.
    """

    def __init__(self, scorer: BilinearScorer, codes: Codes, loopless: Tensor) -> None:
        self.scorer, self.codes, self.loopless = scorer, codes, loopless
        self.scan = LooplessScan(scorer, loopless)

    @torch.no_grad()
    def top(self, heads: Tensor, relations: Tensor, m: int) -> Top:
        """The best `m` tails of rows, `[B] x [B] -> [B, m]`."""
        n, step = self.scorer.num_entities, max(1, _HELD // self.scorer.num_entities)
        tops = []
        for first in range(0, len(heads), step):
            part = slice(first, first + step)
            queries = self.scorer.queries(heads[part], relations[part])
            rough, slack = self.codes.products(queries)
            loops = self.loopless[relations[part]].nonzero()[:, 0]
            rough[loops, heads[part][loops]] = -torch.inf
            lowest = (rough - slack).topk(min(m + 1, n), dim=1).values[:, -1]
            rows, ids = (rough + slack >= lowest[:, None]).nonzero(as_tuple=True)
            logits = pair_logits(queries, self.scorer.keys(), rows, ids)
            logits.masked_fill_(rough[rows, ids].isneginf(), -torch.inf)
            tops.append(listed(rows, ids, logits, len(queries), m))
        return joined(tops, m)

    def log_sums(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """`log Z` of each row, from the keys: a sum over codes would not be exact."""
        return self.scan.log_sums(heads, relations)


def pair_logits(queries: Tensor, keys: Tensor, rows: Tensor, ids: Tensor) -> Tensor:
    """The scores of pairs `(row, id)`, the same whatever they are computed with, `[P]`."""
    step = max(1, _PAIRS // queries.shape[1])
    parts = zip(rows.split(step), ids.split(step), strict=True)
    logits = [(queries[row] * keys[entity]).sum(-1) for row, entity in parts]
    return torch.cat(logits) if logits else queries.new_empty(0)


def listed(rows: Tensor, ids: Tensor, logits: Tensor, batch: int, m: int) -> Top:
    """Pairs `(row, id)`, row by row and by rising id, as lists of the best `m` and the best of the others."""
    sizes = torch.bincount(rows, minlength=batch)
    width = max(m + 1, int(sizes.max()) if batch else 0)
    places = torch.arange(len(rows), device=rows.device) - (sizes.cumsum(0) - sizes)[rows]
    values = logits.new_full((batch, width), -torch.inf).index_put((rows, places), logits)
    tails = ids.new_full((batch, width), -1).index_put((rows, places), ids)
    values, order = best(values, m + 1)
    tails = tails.gather(1, order).masked_fill(values.isneginf(), -1)
    return Top(tails[:, :m], values[:, :m], values[:, m])


def joined(tops: Sequence[Top], m: int) -> Top:
    """The lists of parts of a batch as one."""
    if not tops:
        return Top(torch.empty(0, m, dtype=torch.long), torch.empty(0, m), torch.empty(0))
    ids, logits, rest = zip(*((top.ids, top.logits, top.rest) for top in tops), strict=True)
    return Top(torch.cat(ids), torch.cat(logits), torch.cat(rest))
