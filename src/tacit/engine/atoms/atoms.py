"""Calibrated scores of atoms: rows of a scorer, in blocks, raised at known facts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import torch
from torch import Tensor, nn

from tacit.engine.atoms.calibration import Calibration
from tacit.engine.atoms.constraints import AtomConstraints
from tacit.engine.atoms.known_facts import KnownFacts, KnownTails
from tacit.engine.atoms.sharded import at, widest_share
from tacit.engine.atoms.weight_cache import WeightCache
from tacit.errors import RunError, SettingsError
from tacit.links.codes import Codes, forget_codes, shared_codes
from tacit.links.precision import NARROW, even_product, switched
from tacit.links.scorer import BilinearScorer, Scorer, ScratchBuffers, shards_of
from tacit.query.plans.plan import Plan, single_atom

_CACHED = 2**18  # floats that stay in cache beside what a calibration makes of them
_PAIRS = 2**13  # single atoms scored at a time: each takes three vectors
_HELD = 2**24  # floats of whole rows held to gather single atoms, or cached for an explanation
_TABLE = 2**21  # floats of the largest table that is cached; larger ones are used only once
_LARGE = 2**20  # numbers in a table of keys that is worth coding
_ASKED = 32  # questions after which codes are made, which takes as long as these
OBSERVED = 1.0 - 2.0**-10  # a known fact is nearly certain: its negation stays comparable to others


@dataclass(frozen=True)
class Block:
    """Log-scores of some rows for the entities in `columns`, valid until the next block."""

    columns: slice
    scores: Tensor  # [rows, n]


class Atoms:
    """The log-scores of atoms `relation(head, ·)`: a scorer, a calibration and known facts.

    Rows come whole (`rows`) or in blocks of columns (`blocks`) that stay in a buffer of their own,
    so that nothing of size rows x N is ever written to memory on the way to a maximum. Every thread
    has its own buffer.

    A known fact has the score `observed`, a prediction `c` the score `ceiling · c`, and an atom
    that is not `possible` has score 0.

    With sharded entities N is this process's share: rows, blocks and columns are those of its own
    entities, single atoms are the same everywhere, and every process scores the same rows at the
    same time.
    """

    def __init__(
        self,
        scorer: Scorer,
        calibration: Calibration,
        facts: KnownFacts | None = None,
        *,
        observed: float = OBSERVED,
        precision: str = "float32",
        possible: AtomConstraints | None = None,
        ceiling: float = 1.0,
        coded: Callable[[BilinearScorer, bool], Codes | None] = shared_codes,
    ) -> None:
        self.scorer = scorer
        self.calibration = calibration
        self.facts = facts
        self.possible = possible
        self.observed = math.log(observed)
        self.ceiling = math.log(ceiling)
        self.shards = shards_of(scorer)
        if self.shards.world > 1 and not calibration.shareable:
            raise SettingsError(
                f"{calibration.name} looks at the vectors of entities, which shards do not have "
                "all of; leave the adapter out with `adapted=False`, or ask without `shards`"
            )
        self.num_entities = scorer.num_entities  # of all processes together
        self.width = self.shards.size  # of this process: the columns of a row
        self.widest = widest_share(self.shards)
        self.device = scorer.device
        self.precision = precision if self.device.type == "cuda" else "float32"
        # Its weights are checked to be finite, and so its scores are.
        self._whole = isinstance(scorer, nn.Module)
        weights = scorer.parameters() if isinstance(scorer, nn.Module) else ()
        if not all(math.isfinite(float(weight.detach().sum())) for weight in weights):
            raise RunError(
                "the link predictor has weights that are not finite numbers; train it again"
            )
        self._by_products = isinstance(scorer, BilinearScorer)
        if isinstance(scorer, BilinearScorer) and (dtype := scorer.keys().dtype) != torch.float32:
            raise SettingsError(
                f"the link predictor has vectors of {dtype}; scores are float32: use model.float()"
            )
        if (default := torch.get_default_dtype()) != torch.float32:
            raise SettingsError(
                f"torch makes {default} by default; scores are float32: use torch.set_default_dtype"
            )
        self._buffers = ScratchBuffers()
        self._cache = WeightCache()
        self._coded = coded
        self._questions = 0  # questions that codes could serve
        self.forgotten = False  # whether weights were written to unseen

    @property
    def blockwise(self) -> bool:
        """Whether rows can be scored block by block of columns."""
        return self._by_products and self.calibration.pointwise

    @property
    def _keys(self) -> Tensor:
        """The entity side of the product; on a GPU a copy of it."""
        keys = cast(BilinearScorer, self.scorer).keys().detach()
        if self.device.type != "cuda":
            return keys
        return self.kept.padded(keys, NARROW.get(self.precision, torch.float32))

    @property
    def supremum(self) -> float:
        """The upper bound of all log-scores, known facts included."""
        predicted = self.ceiling + self.calibration.supremum
        return predicted if self.facts is None else max(predicted, self.observed)

    def single(
        self, plan: Plan, entities: Tensor, relations: Tensor, scored: bool = False
    ) -> tuple[Tensor, Tensor | None] | None:
        """Raw scores that rank the answers of a single atom, known facts above all others.

        With `scored`, their log-scores come, too. None where the plan is more than one atom, or the
        calibration may change the order.
        """
        if not self.calibration.monotone or (atom := single_atom(plan.root)) is None:
            return None
        slot, relation = atom
        heads = entities[:, slot].to(self.device).long()
        ids = relations[:, relation.slot].to(self.device).long() ^ int(relation.flip)
        logits = self.logits(heads, ids)
        scores = (
            self._lifted(self._calibrated(logits.clone(), heads, ids), heads, ids)
            if scored
            else None
        )
        known = self.known(heads, ids)
        if known is not None:
            logits[known.rows, known.tails] = float("inf")
        return logits, scores

    @property
    def facts_on_top(self) -> bool:
        """Whether no prediction is worth more than a known fact."""
        return self.facts is None or self.ceiling + self.calibration.supremum <= self.observed

    def rows(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every tail, `[B, N]`, in memory of their own.

        Gradients reach the calibration.
        """
        scores = self._calibrated(self.logits(heads, relations), heads, relations)
        return self._lifted(scores, heads, relations)

    def logits(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Raw scores of every tail, `[B, N]`; impossible ones are minus infinity."""
        with torch.no_grad():
            if self.precision == "float32":
                return self._scored(heads, relations)
            return next(self.products(heads, relations, self.width)).scores.clone()

    def _scored(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Raw scores of every tail, in memory of their own.

        A scorer that does not multiply may return a tensor that it keeps, so that is copied.
        """
        logits = self._finite(self.scorer.logits(heads, relations))
        own = logits if self._by_products else logits.to(torch.float32, copy=True)
        return self._ruled(own, heads, relations, slice(0, self.width))

    def _finite(self, logits: Tensor) -> Tensor:
        """Check that raw scores are finite; scorers with checked weights are trusted."""
        if not self._whole and logits.numel() and not bool(logits.isfinite().all()):
            raise RunError(
                "the link predictor gives scores that are not finite numbers; is the model damaged?"
            )
        return logits

    def _ruled(self, logits: Tensor, heads: Tensor, relations: Tensor, columns: slice) -> Tensor:
        """Set impossible raw scores of some rows and columns to minus infinity."""
        if self.possible is None:
            return logits
        return self.possible.rule_out(logits, heads, relations, self._entities(columns))

    def loops(self, heads: Tensor, relations: Tensor) -> KnownTails:
        """The places in some rows of forbidden loops, where a tail equals its head."""
        rows = (
            heads[:0]
            if self.possible is None
            else self.possible.without_loops[relations].nonzero()[:, 0]
        )
        return KnownTails(*self._own(rows, heads[rows]))

    def of(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Log-scores of single atoms, `[B]`."""
        if not self.calibration.pointwise:
            return self._gathered(heads, relations, tails)
        if len(heads) > _PAIRS:
            parts = zip(
                heads.split(_PAIRS), relations.split(_PAIRS), tails.split(_PAIRS), strict=True
            )
            return torch.cat([self.of(*part) for part in parts])
        logits = self._finite(self.scorer.logits_of(heads, relations, tails))
        scores = self.capped(self.calibration(logits[:, None], heads, relations, tails)[:, 0])
        if self.possible is not None:
            scores = scores.masked_fill(self.possible.excluded(heads, relations, tails), -torch.inf)
        if self.facts is not None:
            scores = torch.where(
                self.facts.contains(heads, relations, tails), self.observed, scores
            )
        return scores

    def _gathered(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Log-scores of single atoms, by whole rows, each distinct one scored once."""
        r = self.scorer.num_relations
        step = max(1, min(256, _HELD // self.widest))
        keys, inverse = torch.unique(heads * r + relations, return_inverse=True)
        out = torch.empty(len(heads), device=self.device)
        for start in range(0, len(keys), step):
            part = keys[start : start + step]
            here = ((inverse >= start) & (inverse < start + step)).nonzero()[:, 0]
            out[here] = at(
                self.shards, self.rows(part // r, part % r), inverse[here] - start, tails[here]
            )
        return out

    def products(
        self, heads: Tensor, relations: Tensor, width: int, narrow: bool = False
    ) -> Iterator[Block]:
        """Yield raw scores of every tail, in blocks of at most `width` entities, in one buffer.

        With `narrow` they may be in 16 bits; impossible ones are minus infinity.
        """
        n = self.width
        if not isinstance(self.scorer, BilinearScorer):
            yield Block(slice(0, n), self._scored(heads, relations))
            return
        keys = self._keys
        queries = self.scorer.queries(heads, relations).detach().to(keys.dtype)
        for start in range(0, n, width):
            columns = slice(start, min(start + width, n))
            size = columns.stop - columns.start
            padded = min(
                size + (-size % 128 if self.device.type == "cuda" else 0), len(keys) - start
            )
            logits = self._times(queries, keys[start : start + padded], narrow)[:, :size]
            yield Block(columns, self._ruled(logits, heads, relations, columns))

    def blocks(self, heads: Tensor, relations: Tensor, width: int) -> Iterator[Block]:
        """Yield log-scores of every tail, in blocks of at most `width` entities, in one buffer."""
        known = self.known(heads, relations)
        for block in self.products(heads, relations, width if self.blockwise else self.widest):
            if self.blockwise:
                scores = self.capped(
                    self.calibration(block.scores, heads, relations, self._entities(block.columns))
                )
            else:
                scores = self._calibrated(block.scores, heads, relations)
            if known is not None:
                known.lift(scores, block.columns, self.observed)
            yield Block(block.columns, scores)

    def logit_blocks(self, heads: Tensor, relations: Tensor, width: int) -> Iterator[Block]:
        """Yield logits `x` with scores `ceiling · σ(x)`, in blocks, known facts included."""
        known = self.known(heads, relations)
        odds_against = math.expm1(self.ceiling - self.observed)
        logit = -math.log(odds_against) if odds_against else math.inf
        for block in self.products(heads, relations, width):
            logits = self.calibration.moved(
                block.scores, heads, relations, self._entities(block.columns)
            )
            if known is not None:
                known.lift(logits, block.columns, logit)
            yield Block(block.columns, logits)

    def _times(self, queries: Tensor, keys: Tensor, narrow: bool = False) -> Tensor:
        """Compute `queries @ keys.T` in float32, in a reused buffer.

        Fresh memory costs more to touch than the products to compute.
        """
        # float32 sums, rounded once; in bfloat16 they would be full of ties
        if narrow and keys.dtype == torch.float16:
            with switched("allow_fp16_reduced_precision_reduction", False):
                return torch.mm(queries, keys.t())
        if keys.dtype != torch.float32:
            return torch.mm(queries, keys.t(), out_dtype=torch.float32)
        buffer = self._buffers("scores", (len(queries), len(keys)), self.device)
        if self.device.type == "cpu":
            return even_product(queries, keys, out=buffer)
        with switched("allow_tf32", self.precision == "tf32"):
            return torch.mm(queries, keys.t(), out=buffer)

    @property
    def differentiable(self) -> bool:
        """Whether gradients of the calibration are needed."""
        return torch.is_grad_enabled() and any(
            p.requires_grad for p in self.calibration.parameters()
        )

    def _calibrated(self, logits: Tensor, heads: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of whole rows; on a CPU in place, a few rows in cache at a time.

        Sharded processes agree once for all rows on what concerns whole rows.
        """
        step = max(1, _CACHED // self.num_entities)
        together = self.device.type != "cpu" or self.shards.world > 1
        if together or self.differentiable or not logits.is_contiguous():
            return self.capped(self.calibration(logits, heads, relations))
        for start in range(0, len(logits), step):
            rows = slice(start, start + step)
            logits[rows] = self.capped(self.calibration(logits[rows], heads[rows], relations[rows]))
        return logits

    def keep_sums(self, logits: Tensor, heads: Tensor, relations: Tensor) -> Tensor:
        """Compute and cache `log Z` of whole rows of raw scores, `[B]`."""
        sums = self.calibration.log_sums(logits)
        self.kept.sums.update(zip(self._row_keys(heads, relations), sums.tolist(), strict=True))
        return sums

    def kept_sums(self, heads: Tensor, relations: Tensor) -> Tensor | None:
        """The cached `log Z` of rows, `[B]`; None where one is missing.

        Zeros where the calibration does not need them.
        """
        if not self.calibration.by_sum:
            return torch.zeros(len(heads))
        cache = self.kept.sums
        sums = [cache.get(key) for key in self._row_keys(heads, relations)]
        return None if None in sums else torch.tensor(sums)

    @property
    def kept(self) -> WeightCache:
        """The cache of values derived from the weights, emptied once these change."""
        self._cache = self._cache.now(self.scorer)
        return self._cache

    def forget(self) -> None:
        """Drop everything derived from weights that were written to unseen.

        Codes of other processes are no longer shared.
        """
        self._cache = WeightCache()
        self._coded = shared_codes
        self.forgotten = True
        self.calibration.forget()
        forget_codes(cast(BilinearScorer, self.scorer))

    def _row_keys(self, heads: Tensor, relations: Tensor) -> list[int]:
        keys: list[int] = (heads * self.scorer.num_relations + relations).tolist()
        return keys

    @property
    def listable(self) -> bool:
        """Whether lists of tails can replace rows.

        They can if tails are found by products on a CPU, in the order of logits, and calibrated by
        these and the sum of a row.
        """
        calibrated = self.calibration.monotone and (
            self.calibration.pointwise or self.calibration.by_sum
        )
        plain = self.shards.world == 1 and (self.possible is None or not self.possible.typed)
        return (
            calibrated
            and plain
            and isinstance(self.scorer, BilinearScorer)
            and self.device.type == "cpu"
        )

    @cached_property
    def codable(self) -> bool:
        """Whether codes are worth reading before keys, whose table exceeds the cache."""
        large = self._by_products and self._keys.numel() >= _LARGE
        return large and self.listable and self._whole and not self._keys.is_inference()

    @property
    def longest(self) -> float:
        """The length of the longest key."""
        cache = self.kept
        if cache.longest is None:
            cache.longest = float(torch.linalg.vector_norm(self._keys, dim=1).max())
        return cache.longest

    def codes(self, questions: int) -> Codes | None:
        """Codes of the keys for some questions; None where there are none.

        They are made once many questions were asked.
        """
        self._questions += questions
        if not self.kept.believable:
            self.forget()
        return self._coded(cast(BilinearScorer, self.scorer), self._questions > _ASKED)

    def capped(self, scores: Tensor) -> Tensor:
        """Multiply the scores of predictions by the ceiling."""
        if not self.ceiling:
            return scores
        return scores + self.ceiling if scores.requires_grad else scores.add_(self.ceiling)

    def _lifted(self, scores: Tensor, heads: Tensor, relations: Tensor) -> Tensor:
        known = self.known(heads, relations)
        if known is None:
            return scores
        put = Tensor.index_put if scores.requires_grad else Tensor.index_put_
        return put(scores, (known.rows, known.tails), scores.new_tensor(self.observed))

    def known(self, heads: Tensor, relations: Tensor) -> KnownTails | None:
        """The known facts of some rows; None where there are none."""
        rows, tails = self.known_tails(heads, relations)
        return KnownTails(rows, tails) if len(rows) else None

    def known_tails(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The known facts of some rows: the row of each, and the column of its tail."""
        return (
            (heads[:0], heads[:0])
            if self.facts is None
            else self._own(*self.facts.tails(heads, relations))
        )

    def _own(self, rows: Tensor, tails: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the tails that are entities of this process, as columns."""
        if self.shards.world == 1:
            return rows, tails
        held, places = self.shards.inside(tails)
        return rows[held], places[held]

    def _entities(self, columns: slice) -> slice:
        """The entities of some columns."""
        return slice(columns.start + self.shards.start, columns.stop + self.shards.start)


class RememberedAtoms(Atoms):
    """Atoms that cache the last tables of rows, for a question that is explained.

    All answers to a question need few rows, and the same ones. Nobody writes to the tables, and
    they are dropped with the question.
    """

    def __init__(self, atoms: Atoms) -> None:
        self._tables: dict[tuple[int, ...], Tensor] = {}
        self._atoms = atoms  # the cache of the weights is shared with it
        cache = atoms.kept
        vars(self).update(vars(atoms) | {"_cache": cache})

    def rows(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every tail, `[B, N]`, from the cache for rows scored before."""
        if len(heads) > max(1, _TABLE // self.widest):
            return super().rows(heads, relations)
        keys = tuple(self._row_keys(heads, relations))
        if keys in self._tables:
            return self._tables[keys]
        self._tables[keys] = table = super().rows(heads, relations)
        while sum(map(len, self._tables)) * self.widest > _HELD:
            del self._tables[next(iter(self._tables))]  # the oldest
        return table

    def codes(self, questions: int) -> Codes | None:
        """Codes of the keys, which are made once many questions were asked."""
        return self._atoms.codes(questions)
