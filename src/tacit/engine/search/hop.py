"""One hop from a fuzzy set over a relation: `out[t] = max_s source[s] ⊤ c_r(s, t)`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from tacit.distributed.threads import choose_again, spread
from tacit.engine.atoms import hop_kernels as kernels
from tacit.engine.atoms.atoms import Atoms, Block
from tacit.engine.atoms.sharded import whole
from tacit.engine.logic import LOG2_E, ZERO, Logic, exp2_
from tacit.links.precision import STEADY, TILE
from tacit.links.scorer import BilinearScorer

_GPU_ROWS = 2**15  # rows scored at a time on a GPU
_CPU_ROWS = 512  # rows of a product: enough for full speed, few enough to stay in cache
_CPU_PAIRS = 16384  # rows where these come whole: more queries share more rows
_CPU_SCORES = 2**24  # scores of whole rows at a time, at most
_CPU_PIECE = 2**17  # scores of one query that are combined at a time
_CPU_BYTES = 2**21  # size of a block of scores that stays in cache


@dataclass(frozen=True)
class Hop:
    """A hop over some atoms in a logic, with its number of candidates and its memory."""

    atoms: Atoms
    logic: Logic
    k: int | None  # None keeps all candidates
    memory: int  # bytes

    def candidates(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """The best candidates of each row, as values and ids `[B, K]`; ties go to low ids."""
        n = self.atoms.num_entities
        shards = self.atoms.shards
        if self.k is None or self.k >= n:
            return whole(shards, source), torch.arange(n, device=source.device).expand(
                len(source), n
            )
        return shards.top(source, self.k)

    def beyond(self, source: Tensor) -> Tensor | None:
        """The value of the best dropped candidate, `[B]`, which bounds all dropped paths."""
        if self.k is None or self.k >= self.atoms.num_entities:
            return None
        return self.atoms.shards.top(source, self.k + 1)[0][:, -1]

    def over(self, source: Tensor, relations: Tensor) -> Tensor:
        """The hop from `source[B, N]` over one relation a row, `[B, N]`."""
        if self.atoms.differentiable:
            return self._differentiable(source, relations)
        if self._is_uniform(source, relations):
            return self.over(source[:1], relations[:1]).expand_as(source).contiguous()
        return self._expanded(*self.candidates(source), relations)

    def _expanded(self, values: Tensor, ids: Tensor, relations: Tensor) -> Tensor:
        """Expand candidates `[B, K]` to the values of all targets, `[B, N]`."""
        order = relations.argsort(stable=True)  # queries of one relation share rows
        out = torch.full((len(values), self.atoms.width), ZERO, device=values.device)
        if values.shape[1] == self.atoms.num_entities:
            self._from_all(values[order], relations[order], out)
        else:
            width = max(1, int((values != ZERO).any(dim=0).sum()))  # the best come first
            self.from_some(values[order, :width], ids[order, :width], relations[order], out)
        back = torch.empty_like(order).scatter_(
            0, order, torch.arange(len(order), device=order.device)
        )
        return out[back]

    def _is_uniform(self, source: Tensor, relations: Tensor) -> bool:
        """Whether all rows are equal, as in a shared part of queries, so that one is enough."""
        if len(source) < 2 or self.atoms.shards.world > 1:
            return False  # each process sees its own columns only
        same = torch.equal(source[0], source[-1]) and bool((relations == relations[0]).all())
        return same and bool((source == source[:1]).all())

    def from_some(self, values: Tensor, ids: Tensor, relations: Tensor, out: Tensor) -> None:
        """Raise `out[B, N]` by candidates `[B, K]`, queries side by side.

        The distinct `(candidate, relation)` rows of a few queries are scored once.
        """
        if self._from_shared(values, ids, relations, out):
            return
        k = values.shape[1]
        (rows, _) = self.sizes()
        if self._raw:
            for start in range(0, k, rows):
                self._from_pairs(
                    values[:, start : start + rows], ids[:, start : start + rows], relations, out
                )
            return
        # the same for all pieces, whatever their number
        width = self._width(min(rows, values.numel()))

        def follow(part: tuple[slice, slice]) -> None:
            queries, _ = part
            self._raised(values[part], ids[part], relations[queries], out[queries], width)

        if k <= rows and self._is_parallel(rows):
            spread(follow, [(queries, slice(None)) for queries in shares(len(values), k, rows)])
            return
        for part in chunks(len(values), k, rows):
            choose_again()
            follow(part)

    def _is_parallel(self, rows: int) -> bool:
        """Whether several threads can score rows of their own, by products and in memory."""
        atoms = self.atoms
        threads = torch.get_num_threads()
        alone = (
            atoms.device.type == "cpu"
            and atoms.shards.world == 1
            and isinstance(atoms.scorer, BilinearScorer)
        )
        return alone and (atoms.blockwise or threads * rows * 16 * atoms.widest <= self.memory)

    def _raised(
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
        if self._by_odds and self._from_odds(
            heads, along, rows_of if shared else None, weights, out, width
        ):
            return
        for block in pieces(self.atoms.blocks(heads, along, width)):
            values = self._best(block.scores, rows_of.view(weights.shape), weights, shared)
            here = out[:, block.columns]
            torch.maximum(here, values, out=here)

    def _from_shared(self, values: Tensor, ids: Tensor, relations: Tensor, out: Tensor) -> bool:
        """Raise `out` for queries that share most rows, as a cycle's do; False for others.

        Every row is scored once, in blocks that all queries with a candidate among them use.
        """
        atoms = self.atoms
        n = self.atoms.num_entities
        rows = self.sizes()[0]
        if atoms.device.type != "cpu" or atoms.blockwise or values.numel() <= rows:
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
                    self._raise(
                        target_values,
                        scored.scores,
                        places - block * rows,
                        weights[:, None],
                        buffer,
                    )
        return True

    def _raise(
        self, out: Tensor, scores: Tensor, rows: Tensor, weights: Tensor, room: Tensor
    ) -> None:
        """Raise `out[N]` by `max_j weights[j] ⊤ scores[rows[j], t]`, in pieces within cache."""
        width = max(1, len(room) // len(rows))
        for start in range(0, len(out), width):
            piece = scores[:, start : start + width]
            here = out[start : start + width]
            buffer = room[: len(rows) * len(here)].view(len(rows), len(here))
            torch.index_select(piece, 0, rows, out=buffer)
            torch.maximum(here, self._conjunction_(buffer, weights).amax(dim=0), out=here)

    @property
    def _by_odds(self) -> bool:
        """Whether maxima can be taken over odds, which need a single exponential."""
        atoms = self.atoms
        sigmoidal = (
            atoms.calibration.sigmoidal and atoms.blockwise and atoms.ceiling >= atoms.observed
        )
        return sigmoidal and self.logic.norm == "product" and atoms.device.type == "cpu"

    def _from_odds(
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
        for block in self.atoms.logit_blocks(heads, relations, width):
            logits = block.scores if rows is None else block.scores.index_select(0, rows)
            odds = logits.view(*weights.shape, -1)
            odds = exp2_(torch.sub(down, odds, alpha=LOG2_E, out=odds)).add_(against).amin(dim=1)
            finite = math.isfinite(odds.amax())
            if not finite:
                break
            here = out[:, block.columns]
            torch.maximum(here, torch.sub(top, odds.log1p_(), out=odds), out=here)
        return not self.atoms.shards.any(not finite)[0]

    @property
    def _raw(self) -> bool:
        """Whether a kernel can calibrate raw scores; known facts must top predictions."""
        atoms = self.atoms
        ready = kernels.on_gpu(atoms.device, self.logic.norm) and not torch.is_grad_enabled()
        return ready and atoms.calibration.rowwise and atoms.facts_on_top

    def _from_pairs(self, weights: Tensor, ids: Tensor, relations: Tensor, out: Tensor) -> None:
        """Raise `out[B, N]` by candidates `[B, K]` on a GPU, with a single synchronisation.

        As many queries go together as rows fit in memory; rows that several of them need are scored
        once.
        """
        n = self.atoms.num_entities
        (queries, k) = ids.shape
        together = max(1, self.sizes()[0] // k)
        span = n * self.atoms.scorer.num_relations
        group = torch.arange(queries, device=ids.device) // together
        keys = (group * span + relations * n)[:, None] + ids
        distinct, places = torch.unique(keys, return_inverse=True)
        firsts = torch.arange(-(-queries // together) + 1, device=ids.device) * span
        bounds = torch.searchsorted(distinct, firsts).tolist()
        for number, (start, stop) in enumerate(pairwise(bounds)):
            group_rows = slice(number * together, (number + 1) * together)
            row_keys = distinct[start:stop] % span
            self._from_raw(
                row_keys % n,
                row_keys // n,
                places[group_rows] - start,
                weights[group_rows],
                out[group_rows],
            )

    def _from_raw(
        self, heads: Tensor, relations: Tensor, rows: Tensor, weights: Tensor, out: Tensor
    ) -> None:
        """Raise `out[G, N]` by `max_j weights[q, j] ⊤ c(heads[rows[q, j]], t)`.

        Known facts are worth more than any prediction of their rows, so they are not written into
        these.
        """
        atoms = self.atoms
        raw = next(atoms.products(heads, relations, atoms.width, narrow=True)).scores
        by_row = atoms.calibration.by_row(raw, heads, relations)
        torch.maximum(
            out,
            kernels.best_of(raw, rows, weights, self.logic.norm, by_row, atoms.ceiling),
            out=out,
        )
        if atoms.facts is None:
            return
        pairs = rows.reshape(-1)
        which, tails = atoms.known_tails(heads[pairs], relations[pairs])
        worth = self.logic.conjunction(
            weights.reshape(-1)[which], weights.new_full((), atoms.observed)
        )
        out.view(-1).scatter_reduce_(
            0, which // rows.shape[1] * out.shape[1] + tails, worth, "amax"
        )

    def _best(self, scores: Tensor, rows: Tensor, weights: Tensor, shared: bool) -> Tensor:
        """`max_j weights[q, j] ⊤ scores[rows[q, j], t]`, `[G, n]`; it overwrites the scores."""
        if kernels.available(scores, self.logic.norm):
            return kernels.best_of(scores, rows, weights, self.logic.norm)
        if shared and scores.device.type == "cpu":  # query by query, in cache
            buffer = scores.new_empty(rows.shape[1], scores.shape[1])
            values = scores.new_empty(len(rows), scores.shape[1])
            for query, places in enumerate(rows):
                torch.index_select(scores, 0, places, out=buffer)
                values[query] = self._conjunction_(buffer, weights[query, :, None]).amax(dim=0)
            return values
        if shared:
            scores = scores.index_select(0, rows.view(-1))
        return self._conjunction_(scores.view(*weights.shape, -1), weights[:, :, None]).amax(dim=1)

    def _from_all(self, values: Tensor, relations: Tensor, out: Tensor) -> None:
        """Raise `out` by every entity; queries of one relation share streamed rows."""
        distinct, counts = torch.unique_consecutive(relations, return_counts=True)
        sizes = counts.tolist()
        for relation, source, target_values in zip(
            distinct.tolist(), values.split(sizes), out.split(sizes), strict=True
        ):
            # NaN must not get lost.
            useful = (source.amax(dim=0) != ZERO).nonzero()[:, 0]
            self._along(useful, relation, source, target_values)

    def _along(self, heads: Tensor, relation: int, source: Tensor, out: Tensor) -> None:
        """Raise `out[Q, N]` over a relation from some candidates `[P]` of sets `[Q, N]`."""
        rows = self.sizes()[0]
        width = self._width(len(heads))
        if self._raw:
            for chunk in heads.split(rows):
                places = torch.arange(len(chunk), device=chunk.device).expand(len(source), -1)
                self._from_raw(
                    chunk, torch.full_like(chunk, relation), places, source[:, chunk], out
                )
            return
        for start in range(0, len(heads), rows):
            choose_again()
            chunk = heads[start : start + rows]
            for block in pieces(self.atoms.blocks(chunk, torch.full_like(chunk, relation), width)):
                for query, values in enumerate(source):
                    target_values = self.logic.conjunction(block.scores, values[chunk, None])
                    here = out[query, block.columns]
                    torch.maximum(here, target_values.amax(dim=0), out=here)

    def _differentiable(self, source: Tensor, relations: Tensor) -> Tensor:
        """The hop in plain operations, so that gradients reach the calibration."""
        values, ids = self.candidates(source)
        out = []
        for query in range(len(source)):
            scores = self.atoms.rows(ids[query], relations[query].expand(ids.shape[1]))
            out.append(self.logic.conjunction(scores, values[query, :, None]).amax(dim=0))
        return torch.stack(out)

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
        if self.atoms.device.type == "cpu" and self.atoms.blockwise:
            rows = max(1, min(_CPU_ROWS, self.memory // 4096))
            return rows, max(64, min(n, _CPU_BYTES // (4 * rows)))
        # raw scores alone, or scores, their copies and a maximum, 4 bytes each
        each = 5 if self._raw else 16
        whole_rows = self.memory // (each * n)
        at_most = (
            _GPU_ROWS
            if self.atoms.device.type == "cuda"
            else min(_CPU_PAIRS, max(64, _CPU_SCORES // n))
        )
        return max(1, min(whole_rows, at_most)), n


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
