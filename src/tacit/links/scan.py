"""Exact scans of a table of keys: one that leaves loops out, and one that reads a byte where it would read a float."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.distributed.ties import best
from tacit.links.scorer import BilinearScorer
from tacit.links.top import ScanTop, Top

_BLOCK = 2048  # keys whose floats stay in cache
_HELD = 2**23  # rough scores held at a time
_PAIRS = 2**22  # floats of keys gathered at a time to score pairs
_ROUNDING = 2.0**-22  # of a product of two floats and a share of their sum


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


@dataclass(frozen=True, eq=False)
class Codes:
    """Keys in a byte a number: `e ≈ scales · numbers`, and how far each is from its key at most."""

    numbers: Tensor  # [N, D], int8
    scales: Tensor  # [N]
    errors: Tensor  # [N], at least |e - e'|, rounding of a product with a unit vector included

    @classmethod
    @torch.no_grad()
    def of(cls, keys: Tensor) -> Codes:
        """The codes of keys, a scale for each."""
        numbers = torch.empty(keys.shape, dtype=torch.int8)
        scales, errors = torch.empty(len(keys)), torch.empty(len(keys))
        for start in range(0, len(keys), _BLOCK):
            part = slice(start, start + _BLOCK)
            block = keys[part].double()
            # The scale is rounded to a float before it is used, so that the error counts the rounding too.
            scale = (block.abs().amax(dim=1) / 127).clamp(min=torch.finfo(torch.float32).tiny).float()
            code = (block / scale.double()[:, None]).round().clamp(-127, 127)
            numbers[part], scales[part] = code.to(torch.int8), scale
            near = code * scale.double()[:, None]
            lost = torch.linalg.vector_norm(block - near, dim=1)
            rounded = _ROUNDING * keys.shape[1] * torch.linalg.vector_norm(near, dim=1)
            errors[part] = ((lost + rounded) * (1 + 2.0**-20)).float()
        return cls(numbers, scales, errors)


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
            rough = self._rough(queries)
            loops = self.loopless[relations[part]].nonzero()[:, 0]
            rough[loops, heads[part][loops]] = -torch.inf
            slack = torch.outer(torch.linalg.vector_norm(queries, dim=1), self.codes.errors)
            lowest = (rough - slack).topk(min(m + 1, n), dim=1).values[:, -1]
            rows, ids = (rough + slack >= lowest[:, None]).nonzero(as_tuple=True)
            logits = pair_logits(queries, self.scorer.keys(), rows, ids)
            logits.masked_fill_(rough[rows, ids].isneginf(), -torch.inf)
            tops.append(listed(rows, ids, logits, len(queries), m))
        return joined(tops, m)

    def log_sums(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """`log Z` of each row, from the keys: a sum over codes would not be exact."""
        return self.scan.log_sums(heads, relations)

    def _rough(self, queries: Tensor) -> Tensor:
        """Products of queries with all coded keys, `[B, N]`."""
        codes, out = self.codes, queries.new_empty(len(queries), len(self.codes.numbers))
        floats = queries.new_empty(_BLOCK, queries.shape[1])
        for start in range(0, len(codes.numbers), _BLOCK):
            numbers = codes.numbers[start : start + _BLOCK]
            block = floats[: len(numbers)].copy_(numbers)
            torch.mm(queries, block.t(), out=out[:, start : start + _BLOCK])
        return out.mul_(codes.scales)


def pair_logits(queries: Tensor, keys: Tensor, rows: Tensor, ids: Tensor) -> Tensor:
    """The scores of pairs `(row, id)`, the same whatever they are computed with, `[P]`."""
    step = max(1, _PAIRS // queries.shape[1])
    parts = zip(rows.split(step), ids.split(step), strict=True)
    found = [(queries[some] * keys[few]).sum(-1) for some, few in parts]
    return torch.cat(found) if found else queries.new_empty(0)


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
