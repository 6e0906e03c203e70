"""One hop from a fuzzy set over a relation: `out[t] = max_s source[s] ⊤ c_r(s, t)`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from tacit.distributed.threads import choose_again, spread
from tacit.engine.atoms.atoms import Atoms, Block
from tacit.engine.logic import LOG2_E, ZERO, Logic, exp2_
from tacit.engine.search import hop_kernels as kernels
from tacit.engine.search.sharded import whole
from tacit.links.precision import STEADY, TILE
from tacit.links.scorer import BilinearScorer

_GPU_ROWS = 2**15  # rows scored at a time on a GPU
_CPU_ROWS = 512  # rows a product is computed for at a time: enough for full speed, few enough to stay in cache
_CPU_PAIRS = 16384  # the same where rows come whole: the more queries go together, the more rows they share,
_CPU_SCORES = 2**24  # as long as their scores are not too many
_CPU_PIECE = 2**17  # scores of one query that are combined at a time
_CPU_BYTES = 2**21  # size of a block of scores that stays in cache


@dataclass(frozen=True)
class Hop:
    """How a hop is made: over which atoms, in which logic, keeping how many candidates, in how much memory."""

    atoms: Atoms
    logic: Logic
    k: int | None  # None keeps all candidates
    memory: int  # bytes
    raised: Tensor | None = None  # [B] rows that hold upper bounds

    def candidates(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """The best candidates of each row: their values and ids `[B, K]`, and the best value dropped, `[B]`.

        Of equal ones those with the lowest ids are kept.
        """
        n, shards = self.atoms.num_entities, self.atoms.shards
        if self.k is None or self.k >= n:
            return whole(shards, source), torch.arange(n, device=source.device).expand(len(source), n), None
        if self.raised is None:
            return *shards.top(source, self.k), None
        values, ids = shards.top(source, self.k + 1)
        return values[:, :-1], ids[:, :-1], values[:, -1]

    def raise_bounds(self, out: Tensor, dropped: Tensor | None) -> Tensor:
        """Upper bounds can be no lower than the best candidate dropped, since `x ⊤ y <= x`."""
        if self.raised is None or dropped is None:
            return out
        return torch.where(self.raised[:, None], torch.maximum(out, dropped[:, None]), out)

    def over(self, source: Tensor, relations: Tensor) -> Tensor:
        """The hop from `source[B, N]` over one relation a row, `[B, N]`."""
        if self.atoms.differentiable:
            return self._differentiable(source, relations)
        if self._alike(source, relations):
            return replace(self, raised=None).over(source[:1], relations[:1]).expand_as(source).contiguous()
        if (twins := self._twins(source)) is not None:  # bounds that are one as yet are followed once
            lower, upper = twins
            values, ids, dropped = self.candidates(source[lower])
            reached = torch.empty_like(source, memory_format=torch.contiguous_format)
            reached[lower] = self._followed(values, ids, relations[lower])
            reached[upper] = reached[lower] if dropped is None else torch.maximum(reached[lower], dropped[:, None])
            return reached
        values, ids, dropped = self.candidates(source)
        return self.raise_bounds(self._followed(values, ids, relations), dropped)

    def _followed(self, values: Tensor, ids: Tensor, relations: Tensor) -> Tensor:
        """What candidates `[B, K]` lead to, `[B, N]`."""
        order = relations.argsort(stable=True)  # neighbours share relations, and so rows
        out = torch.full((len(values), self.atoms.width), ZERO, device=values.device)
        if values.shape[1] == self.atoms.num_entities:
            self._from_all(values[order], relations[order], out)
        else:
            width = max(1, int((values != ZERO).any(dim=0).sum()))  # the best come first
            self.from_some(values[order, :width], ids[order, :width], relations[order], out)
        back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        return out[back]

    def _twins(self, source: Tensor) -> tuple[Tensor, Tensor] | None:
        """The rows of lower and of upper bounds, where each of one is the same in the other; None where not."""
        if self.raised is None or self.atoms.shards.world > 1:
            return None
        lower, upper = (~self.raised).nonzero()[:, 0], self.raised.nonzero()[:, 0]
        return (lower, upper) if torch.equal(source[lower], source[upper]) else None

    def _alike(self, source: Tensor, relations: Tensor) -> bool:
        """Whether all rows are one, as where queries that differ elsewhere share a part: it is followed once."""
        if len(source) < 2 or self.atoms.shards.world > 1 or (self.raised is not None and self.k is not None):
            return False  # of several processes, each sees its own columns alone
        same = torch.equal(source[0], source[-1]) and bool((relations == relations[0]).all())
        return same and bool((source == source[:1]).all())

    def from_some(self, values: Tensor, ids: Tensor, relations: Tensor, out: Tensor) -> None:
        """Raise `out[B, N]` by candidates `[B, K]`, queries side by side.

        The distinct `(candidate, relation)` rows of a few queries are scored once.
        """
        if self._from_shared(values, ids, relations, out):
            return
        k, (rows, _) = values.shape[1], self.sizes()
        if self._raw:
            for start in range(0, k, rows):
                self._from_pairs(values[:, start : start + rows], ids[:, start : start + rows], relations, out)
            return
        width = self._width(min(rows, values.numel()))  # the same for all pieces, whatever their number

        def follow(part: tuple[slice, slice]) -> None:
            queries, _ = part
            self._raised(values[part], ids[part], relations[queries], out[queries], width)

        if k <= rows and self._apart(rows):
            spread(follow, [(queries, slice(None)) for queries in shares(len(values), k, rows)])
            return
        for part in chunks(len(values), k, rows):
            choose_again()
            follow(part)

    def _apart(self, rows: int) -> bool:
        """Whether several threads can score rows of their own: by products, and in the memory there is."""
        atoms, threads = self.atoms, torch.get_num_threads()
        alone = atoms.device.type == "cpu" and atoms.shards.world == 1 and isinstance(atoms.scorer, BilinearScorer)
        return alone and (atoms.blockwise or threads * rows * 16 * atoms.widest <= self.memory)

    def _raised(self, weights: Tensor, ids: Tensor, relations: Tensor, out: Tensor, width: int) -> None:
        """Raise `out[G, N]` by candidates `[G, K]`, whose distinct rows are scored at once."""
        n = self.atoms.num_entities
        keys = (relations[:, None] * n + ids).reshape(-1)  # [G · K]
        distinct, inverse = torch.unique(keys, return_inverse=True)
        shared = len(distinct) < 0.9 * len(keys) and (len(distinct) >= STEADY or len(keys) < STEADY)
        wanted = distinct if shared else keys
        rows_of = inverse if shared else torch.arange(len(keys), device=keys.device)
        heads, along = wanted % n, wanted // n
        if self._by_odds and self._from_odds(heads, along, rows_of if shared else None, weights, out, width):
            return
        for block in pieces(self.atoms.blocks(heads, along, width)):
            reached = self._best(block.scores, rows_of.view(weights.shape), weights, shared)
            here = out[:, block.columns]
            torch.maximum(here, reached, out=here)

    def _from_shared(self, values: Tensor, ids: Tensor, relations: Tensor, out: Tensor) -> bool:
        """The same where queries share most of their rows, as those of a cycle's candidates do; False where not.

        Every row is scored once, in blocks that all queries with a candidate among them then look at.
        """
        atoms, n, rows = self.atoms, self.atoms.num_entities, self.sizes()[0]
        if atoms.device.type != "cpu" or atoms.blockwise or values.numel() <= rows:
            return False
        query, place = (values != ZERO).nonzero(as_tuple=True)  # [P] pairs; what is no number must not get lost
        distinct, row = torch.unique(relations[query] * n + ids[query, place], return_inverse=True)
        if len(distinct) > len(query) // 2:
            return False
        blocks = -(-len(distinct) // rows)
        order = (row // rows).argsort(stable=True)  # by block, then by query
        sizes = torch.bincount(row // rows * len(values) + query, minlength=blocks * len(values)).tolist()
        parts = zip(row[order].split(sizes), values[query, place][order].split(sizes), strict=True)
        room = values.new_empty(max([_CPU_PIECE, *sizes]))  # there may be no pair at all
        for block in range(blocks):
            choose_again()
            wanted = distinct[block * rows : (block + 1) * rows]
            (scored,) = atoms.blocks(wanted % n, wanted // n, atoms.width)
            for reached, (places, weights) in zip(out, parts, strict=False):
                if len(places):
                    self._raise(reached, scored.scores, places - block * rows, weights[:, None], room)
        return True

    def _raise(self, out: Tensor, scores: Tensor, rows: Tensor, weights: Tensor, room: Tensor) -> None:
        """Raise `out[N]` by `max_j weights[j] ⊤ scores[rows[j], t]`, in pieces that stay in cache."""
        width = max(1, len(room) // len(rows))
        for start in range(0, len(out), width):
            piece, here = scores[:, start : start + width], out[start : start + width]
            buffer = room[: len(rows) * len(here)].view(len(rows), len(here))
            torch.index_select(piece, 0, rows, out=buffer)
            torch.maximum(here, self._conjunction_(buffer, weights).amax(dim=0), out=here)

    @property
    def _by_odds(self) -> bool:
        """Whether maxima can be taken over odds, which cost one exponential where `log σ` costs more."""
        atoms = self.atoms
        sigmoidal = atoms.calibration.sigmoidal and atoms.blockwise and atoms.ceiling >= atoms.observed
        return sigmoidal and self.logic.norm == "product" and atoms.device.type == "cpu"

    def _from_odds(
        self, heads: Tensor, relations: Tensor, rows: Tensor | None, weights: Tensor, out: Tensor, width: int
    ) -> bool:
        """`max_j log W_j σ(x_j)` by the least odds against it, `1 / Wσ - 1 = (1/W - 1) + e^-x / W`.

        Both parts are positive, so nothing cancels, and log-scores near 0 keep all their digits. False, with `out`
        still to be completed, where some odds are too large for a float, in this process or another.
        """
        weights = weights + self.atoms.ceiling
        top = weights.amax(dim=1, keepdim=True)  # [G, 1]
        down = top - weights  # with the best candidate at W = 1 odds stay as small as they can
        against, finite = torch.expm1(down)[:, :, None], True
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
        """Whether a kernel can calibrate raw scores on their way to the maximum: known facts must top predictions."""
        atoms = self.atoms
        ready = kernels.on_gpu(atoms.device, self.logic.norm) and not torch.is_grad_enabled()
        return ready and atoms.calibration.rowwise and atoms.facts_on_top

    def _from_pairs(self, weights: Tensor, ids: Tensor, relations: Tensor, out: Tensor) -> None:
        """Raise `out[B, N]` by candidates `[B, K]` on a GPU, which is waited for but once.

        As many queries go together as there is room for rows; those that several of them need are scored once.
        """
        n, (queries, k) = self.atoms.num_entities, ids.shape
        together, span = max(1, self.sizes()[0] // k), n * self.atoms.scorer.num_relations
        group = torch.arange(queries, device=ids.device) // together
        keys = (group * span + relations * n)[:, None] + ids
        distinct, places = torch.unique(keys, return_inverse=True)
        firsts = torch.arange(-(-queries // together) + 1, device=ids.device) * span
        bounds = torch.searchsorted(distinct, firsts).tolist()
        for number, (start, stop) in enumerate(pairwise(bounds)):
            group_rows, wanted = slice(number * together, (number + 1) * together), distinct[start:stop] % span
            self._from_raw(wanted % n, wanted // n, places[group_rows] - start, weights[group_rows], out[group_rows])

    def _from_raw(self, heads: Tensor, relations: Tensor, rows: Tensor, weights: Tensor, out: Tensor) -> None:
        """Raise `out[G, N]` by `max_j weights[q, j] ⊤ c(heads[rows[q, j]], t)`.

        Known facts are worth more than what is predicted of their rows, so they need not be written into these.
        """
        atoms = self.atoms
        raw = next(atoms.products(heads, relations, atoms.width, narrow=True)).scores
        by_row = atoms.calibration.by_row(raw, heads, relations)
        torch.maximum(out, kernels.best_of(raw, rows, weights, self.logic.norm, by_row, atoms.ceiling), out=out)
        if atoms.facts is None:
            return
        pairs = rows.reshape(-1)
        which, tails = atoms.known_tails(heads[pairs], relations[pairs])
        worth = self.logic.conjunction(weights.reshape(-1)[which], weights.new_full((), atoms.observed))
        out.view(-1).scatter_reduce_(0, which // rows.shape[1] * out.shape[1] + tails, worth, "amax")

    def _best(self, scores: Tensor, rows: Tensor, weights: Tensor, shared: bool) -> Tensor:
        """`max_j weights[q, j] ⊤ scores[rows[q, j], t]`, `[G, n]`; the scores are used up."""
        if kernels.available(scores, self.logic.norm):
            return kernels.best_of(scores, rows, weights, self.logic.norm)
        if shared and scores.device.type == "cpu":  # query by query, in cache
            buffer = scores.new_empty(rows.shape[1], scores.shape[1])
            reached = scores.new_empty(len(rows), scores.shape[1])
            for query, places in enumerate(rows):
                torch.index_select(scores, 0, places, out=buffer)
                reached[query] = self._conjunction_(buffer, weights[query, :, None]).amax(dim=0)
            return reached
        if shared:
            scores = scores.index_select(0, rows.view(-1))
        return self._conjunction_(scores.view(*weights.shape, -1), weights[:, :, None]).amax(dim=1)

    def _from_all(self, values: Tensor, relations: Tensor, out: Tensor) -> None:
        """Every entity is a candidate: queries of one relation share all rows, which stream by."""
        distinct, counts = torch.unique_consecutive(relations, return_counts=True)
        sizes = counts.tolist()
        for relation, source, reached in zip(distinct.tolist(), values.split(sizes), out.split(sizes), strict=True):
            useful = (source.amax(dim=0) != ZERO).nonzero()[:, 0]  # what is no number must not get lost
            self._along(useful, relation, source, reached)

    def _along(self, heads: Tensor, relation: int, source: Tensor, out: Tensor) -> None:
        """Raise `out[Q, N]` by what a relation leads to from some candidates `[P]` of sets `[Q, N]`."""
        rows, width = self.sizes()[0], self._width(len(heads))
        if self._raw:
            for chunk in heads.split(rows):
                places = torch.arange(len(chunk), device=chunk.device).expand(len(source), -1)
                self._from_raw(chunk, torch.full_like(chunk, relation), places, source[:, chunk], out)
            return
        for start in range(0, len(heads), rows):
            choose_again()
            chunk = heads[start : start + rows]
            for block in pieces(self.atoms.blocks(chunk, torch.full_like(chunk, relation), width)):
                for query, values in enumerate(source):
                    reached = self.logic.conjunction(block.scores, values[chunk, None])
                    here = out[query, block.columns]
                    torch.maximum(here, reached.amax(dim=0), out=here)

    def _differentiable(self, source: Tensor, relations: Tensor) -> Tensor:
        """The same in plain operations, so that gradients reach the calibration."""
        values, ids, dropped = self.candidates(source)
        out = []
        for query in range(len(source)):
            scores = self.atoms.rows(ids[query], relations[query].expand(ids.shape[1]))
            out.append(self.logic.conjunction(scores, values[query, :, None]).amax(dim=0))
        return self.raise_bounds(torch.stack(out), dropped)

    def _conjunction_(self, scores: Tensor, weights: Tensor) -> Tensor:
        """`scores ⊤ weights` in the memory of the scores where the t-norm allows it."""
        if self.logic.norm == "product":
            return scores.add_(weights)
        if self.logic.norm == "godel":
            return torch.minimum(scores, weights, out=scores)
        return self.logic.conjunction(scores, weights)

    def _width(self, heads: int) -> int:
        """How many columns of so many rows to score at a time: of few rows, more columns stay in cache.

        They are whole tiles, as what is left beside these takes a product of its own.
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
        each = 5 if self._raw else 16  # raw scores alone, or scores, their copies and a maximum, 4 bytes each
        whole_rows = self.memory // (each * n)
        at_most = _GPU_ROWS if self.atoms.device.type == "cuda" else min(_CPU_PAIRS, max(64, _CPU_SCORES // n))
        return max(1, min(whole_rows, at_most)), n


def pieces(blocks: Iterator[Block]) -> Iterator[Block]:
    """Blocks as they are on a GPU; on a CPU cut once more where they are too wide to stay in cache."""
    for block in blocks:
        rows, n = block.scores.shape
        width = max(64, _CPU_BYTES // (4 * rows)) if block.scores.device.type == "cpu" else n
        if width >= n:
            yield block
            continue
        for start in range(0, n, width):
            stop, at = min(start + width, n), block.columns.start
            yield Block(slice(at + start, at + stop), block.scores[:, start:stop])


def chunks(queries: int, k: int, rows: int) -> Iterator[tuple[slice, slice]]:
    """Cuts `queries x k` pairs into rectangles of at most `rows` pairs: several queries, or part of one."""
    together = max(1, rows // k)
    for first in range(0, queries, together):
        for start in range(0, k, rows):
            yield slice(first, min(first + together, queries)), slice(start, min(start + rows, k))


def shares(queries: int, k: int, rows: int) -> list[slice]:
    """Cuts queries of `k` pairs each into as many pieces for one thread as for another, of at most `rows` pairs.

    None has so few that products would differ from those of a larger one.
    """
    parts = -(-queries // max(1, rows // k))
    parts = max(parts, min(parts + -parts % torch.get_num_threads(), queries // -(-STEADY // k)))
    return [slice(queries * at // parts, queries * (at + 1) // parts) for at in range(parts)]
