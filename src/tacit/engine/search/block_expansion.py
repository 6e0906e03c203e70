"""The expansion of candidates by blocks of calibrated scores, combined in cache."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.distributed.threads import choose_again, spread
from tacit.engine.atoms import hop_kernels
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.raw_scores import Block, Products, entities_of
from tacit.engine.logic import LOG2_E, ZERO, Logic, exp2_
from tacit.links.precision import STEADY, TILE

GPU_ROWS = 2**15  # rows scored at a time on a GPU
_CPU_ROWS = 512  # rows of a product: enough for full speed, few enough to stay in cache
_CPU_PAIRS = 16384  # rows where these are whole: the more queries, the more rows they share
_CPU_SCORES = 2**24  # scores of whole rows at a time, at most
_CPU_PIECE = 2**17  # scores of one query that are combined at a time
_CPU_BYTES = 2**21  # size of a block of scores that stays in cache


@dataclass(frozen=True)
class BlockExpansion:
    """Raises values of targets by rows of candidates, as many together as fit in cache."""

    atoms: Atoms
    logic: Logic
    memory: int  # bytes

    def from_some(self, values: Tensor, ids: Tensor, relations: Tensor, out: Tensor) -> None:
        """Raise `out[B, N]` by candidates `[B, K]`, queries side by side.

        The distinct `(candidate, relation)` rows of a few queries are scored once.
        """
        if self._raise_by_shared_rows(values, ids, relations, out):
            return
        k = values.shape[1]
        rows = self.sizes()[0]
        # the same for all pieces, whatever their number
        width = self._width(min(rows, values.numel()))

        def follow(part: tuple[slice, slice]) -> None:
            queries, _ = part
            self._raise_group(values[part], ids[part], relations[queries], out[queries], width)

        if k <= rows and self._is_parallel(rows):
            spread(follow, [(queries, slice(None)) for queries in shares(len(values), k, rows)])
            return
        for part in chunks(len(values), k, rows):
            choose_again()
            follow(part)

    def from_all(self, values: Tensor, relations: Tensor, out: Tensor) -> None:
        """Raise `out[B, N]` by every entity; relations are in order, and their rows are shared."""
        rows = self.sizes()[0]
        for heads, relation, source, targets in by_relation(values, relations, out):
            width = self._width(len(heads))
            for chunk in heads.split(rows):
                choose_again()
                along = torch.full_like(chunk, relation)
                for block in pieces(self.atoms.blocks(chunk, along, width)):
                    for query, weights in enumerate(source):
                        through = self.logic.conjunction(block.scores, weights[chunk, None])
                        out_part = targets[query, block.columns]
                        torch.maximum(out_part, through.amax(dim=0), out=out_part)

    def _is_parallel(self, rows: int) -> bool:
        """Whether several threads can score rows of their own, by products and in memory."""
        atoms = self.atoms
        threads = torch.get_num_threads()
        alone = atoms.device.type == "cpu" and atoms.shards.world == 1
        by_products = isinstance(atoms.raw, Products)
        in_memory = threads * rows * 16 * atoms.widest <= self.memory
        return alone and by_products and (atoms.capabilities.blockwise or in_memory)

    def _raise_group(
        self, weights: Tensor, ids: Tensor, relations: Tensor, out: Tensor, width: int
    ) -> None:
        """Raise `out[G, N]` by candidates `[G, K]`, whose distinct rows are scored at once."""
        n = self.atoms.num_entities
        keys = (relations[:, None] * n + ids).reshape(-1)  # [G · K]
        distinct, inverse = torch.unique(keys, return_inverse=True)
        shared = len(distinct) < 0.9 * len(keys) and (len(distinct) >= STEADY or len(keys) < STEADY)
        row_keys = distinct if shared else keys
        rows_of = inverse if shared else torch.arange(len(keys), device=keys.device)
        heads = row_keys % n
        along = row_keys // n
        if self._has_odds and self._raise_by_odds(
            heads, along, rows_of if shared else None, weights, out, width
        ):
            return
        for block in pieces(self.atoms.blocks(heads, along, width)):
            scores = block.scores
            rows = rows_of.view(weights.shape)
            out_part = out[:, block.columns]
            if shared and scores.device.type == "cpu":  # query by query, in cache
                buffer = scores.new_empty(weights.shape[1] * scores.shape[1])
                for each in zip(out_part, rows, weights[:, :, None], strict=True):
                    self._raise_query(scores, buffer, *each)
            else:
                best = self._best(scores, rows, weights, shared)
                torch.maximum(out_part, best, out=out_part)

    def _raise_by_shared_rows(
        self, values: Tensor, ids: Tensor, relations: Tensor, out: Tensor
    ) -> bool:
        """Raise `out` for queries that share most rows, as a cycle's do; False for others.

        Every row is scored once, in blocks that all queries with a candidate among them use.
        """
        atoms = self.atoms
        n = self.atoms.num_entities
        rows = self.sizes()[0]
        if atoms.device.type != "cpu" or atoms.capabilities.blockwise or values.numel() <= rows:
            return False
        # [P] pairs; NaN must not get lost
        query, place = (values != ZERO).nonzero(as_tuple=True)
        distinct, row = torch.unique(relations[query] * n + ids[query, place], return_inverse=True)
        if len(distinct) > len(query) // 2:
            return False
        blocks = -(-len(distinct) // rows)
        order = (row // rows).argsort(stable=True)  # by block, then by query
        sizes = torch.bincount(
            row // rows * len(values) + query, minlength=blocks * len(values)
        ).tolist()
        parts = zip(row[order].split(sizes), values[query, place][order].split(sizes), strict=True)
        buffer = values.new_empty(max([_CPU_PIECE, *sizes]))  # even without any pair
        for block in range(blocks):
            choose_again()
            row_keys = distinct[block * rows : (block + 1) * rows]
            (scored,) = atoms.blocks(row_keys % n, row_keys // n, atoms.width)
            for target_values, (places, weights) in zip(out, parts, strict=False):
                if len(places):
                    at = places - block * rows
                    self._raise_query(scored.scores, buffer, target_values, at, weights[:, None])
        return True

    def _raise_query(
        self, scores: Tensor, memory: Tensor, out: Tensor, rows: Tensor, weights: Tensor
    ) -> None:
        """Raise `out[N]` by `max_j weights[j] ⊤ scores[rows[j], t]`, in pieces within cache."""
        width = max(1, len(memory) // len(rows))
        for start in range(0, len(out), width):
            piece = scores[:, start : start + width]
            out_part = out[start : start + width]
            buffer = memory[: len(rows) * len(out_part)].view(len(rows), len(out_part))
            torch.index_select(piece, 0, rows, out=buffer)
            torch.maximum(out_part, self._conjunction_(buffer, weights).amax(dim=0), out=out_part)

    @property
    def _has_odds(self) -> bool:
        """Whether maxima can be taken over odds, which need a single exponential."""
        atoms = self.atoms
        sigmoidal = atoms.calibration.capabilities.sigmoidal and atoms.capabilities.blockwise
        on_cpu = atoms.device.type == "cpu" and self.logic.norm == "product"
        return sigmoidal and on_cpu and atoms.ceiling >= atoms.observed

    def _raise_by_odds(
        self,
        heads: Tensor,
        relations: Tensor,
        rows: Tensor | None,
        weights: Tensor,
        out: Tensor,
        width: int,
    ) -> bool:
        """`max_j log W_j σ(x_j)` by its least odds, `1 / Wσ - 1 = (1/W - 1) + e^-x / W`.

        Both parts are positive, so nothing cancels, and log-scores near 0 keep all their digits.
        False, with `out` still to be completed, where some odds are too large for a float, in this
        process or another.
        """
        weights = weights + self.atoms.ceiling
        top = weights.amax(dim=1, keepdim=True)  # [G, 1]
        down = top - weights  # scaled to W = 1 for the best candidate, which keeps odds small
        against = torch.expm1(down)[:, :, None]
        finite = True
        down = down[:, :, None] * LOG2_E
        for block in self._logits(heads, relations, width):
            logits = block.scores if rows is None else block.scores.index_select(0, rows)
            odds = logits.view(*weights.shape, -1)
            odds = exp2_(torch.sub(down, odds, alpha=LOG2_E, out=odds)).add_(against).amin(dim=1)
            finite = math.isfinite(odds.amax())
            if not finite:
                break
            out_part = out[:, block.columns]
            torch.maximum(out_part, torch.sub(top, odds.log1p_(), out=odds), out=out_part)
        return not self.atoms.shards.any(not finite)[0]

    def _logits(self, heads: Tensor, relations: Tensor, width: int) -> Iterator[Block]:
        """Yield logits `x` with scores `ceiling · σ(x)`, in blocks, known facts included."""
        atoms = self.atoms
        known = atoms.known(heads, relations)
        odds_against = math.expm1(atoms.ceiling - atoms.observed)
        logit = -math.log(odds_against) if odds_against else math.inf
        for block in atoms.raw.blocks(heads, relations, width):
            columns = entities_of(atoms.shards, block.columns)
            logits = atoms.calibration.moved(block.scores, heads, relations, columns)
            if known is not None:
                known.lift(logits, block.columns, logit)
            yield Block(block.columns, logits)

    def _best(self, scores: Tensor, rows: Tensor, weights: Tensor, shared: bool) -> Tensor:
        """`max_j weights[q, j] ⊤ scores[rows[q, j], t]`, `[G, n]`; it overwrites the scores."""
        if hop_kernels.available(scores, self.logic.norm):
            return hop_kernels.best_of(scores, rows, weights, self.logic.norm)
        if shared:
            scores = scores.index_select(0, rows.view(-1))
        return self._conjunction_(scores.view(*weights.shape, -1), weights[:, :, None]).amax(dim=1)

    def _conjunction_(self, scores: Tensor, weights: Tensor) -> Tensor:
        """`scores ⊤ weights` in the memory of the scores where the t-norm allows it."""
        if self.logic.norm == "product":
            return scores.add_(weights)
        if self.logic.norm == "godel":
            return torch.minimum(scores, weights, out=scores)
        return self.logic.conjunction(scores, weights)

    def _width(self, heads: int) -> int:
        """How many columns of so many rows to score at a time: the fewer rows, the more columns.

        They are whole tiles, as the columns beside tiles take a product of their own.
        """
        rows, width = self.sizes()
        if heads >= rows or self.atoms.device.type != "cpu":
            return width
        tiles = _CPU_BYTES // (4 * max(1, heads) * TILE)
        return max(width, min(self.atoms.num_entities, tiles * TILE))

    def sizes(self) -> tuple[int, int]:
        """How many rows to score at once, and how many columns at a time."""
        n = self.atoms.widest
        if self.atoms.device.type == "cpu" and self.atoms.capabilities.blockwise:
            rows = max(1, min(_CPU_ROWS, self.memory // 4096))
            return rows, max(64, min(n, _CPU_BYTES // (4 * rows)))
        in_memory = self.memory // (16 * n)  # scores, their copies and a maximum, 4 bytes each
        most = min(_CPU_PAIRS, max(64, _CPU_SCORES // n))
        if self.atoms.device.type == "cuda":
            most = GPU_ROWS
        return max(1, min(in_memory, most)), n


def by_relation(
    values: Tensor, relations: Tensor, out: Tensor
) -> Iterator[tuple[Tensor, int, Tensor, Tensor]]:
    """Yield the candidates of each relation, the relation, and its rows of values and targets.

    Relations `[B]` are in order.
    """
    distinct, counts = torch.unique_consecutive(relations, return_counts=True)
    sizes = counts.tolist()
    parts = zip(distinct.tolist(), values.split(sizes), out.split(sizes), strict=True)
    for relation, source, targets in parts:
        useful = (source.amax(dim=0) != ZERO).nonzero()[:, 0]  # NaN must not get lost
        if len(useful):
            yield useful, relation, source, targets


def pieces(blocks: Iterator[Block]) -> Iterator[Block]:
    """Yield blocks, on a CPU split again where they are too wide to stay in cache."""
    for block in blocks:
        rows, n = block.scores.shape
        width = max(64, _CPU_BYTES // (4 * rows)) if block.scores.device.type == "cpu" else n
        if width >= n:
            yield block
            continue
        for start in range(0, n, width):
            stop = min(start + width, n)
            at = block.columns.start
            yield Block(slice(at + start, at + stop), block.scores[:, start:stop])


def chunks(queries: int, k: int, rows: int) -> Iterator[tuple[slice, slice]]:
    """Split `queries x k` pairs into rectangles of at most `rows` pairs."""
    together = max(1, rows // k)
    for first in range(0, queries, together):
        for start in range(0, k, rows):
            yield slice(first, min(first + together, queries)), slice(start, min(start + rows, k))


def shares(queries: int, k: int, rows: int) -> list[slice]:
    """Split queries of `k` pairs each evenly over threads, at most `rows` pairs a piece.

    No piece is so small that its products would differ from those of a larger one.
    """
    parts = -(-queries // max(1, rows // k))
    parts = max(parts, min(parts + -parts % torch.get_num_threads(), queries // -(-STEADY // k)))
    return [slice(queries * at // parts, queries * (at + 1) // parts) for at in range(parts)]
