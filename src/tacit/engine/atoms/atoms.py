"""Calibrated scores of atoms: rows of a scorer, cut into blocks, with known facts lifted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import torch
from torch import Tensor, nn

from tacit.engine.atoms.calibration import Calibration
from tacit.engine.atoms.known_facts import KnownFacts, KnownTails
from tacit.engine.atoms.possible import Possible
from tacit.engine.atoms.weights_memo import Kept
from tacit.engine.search.sharded import at, widest_share
from tacit.errors import RunError, SettingsError
from tacit.links.finders.codes import Codes, forget_codes, shared_codes
from tacit.links.precision import NARROW, even_product, switched
from tacit.links.scorer import BilinearScorer, Scorer, shards_of
from tacit.links.scratch_memory import Rooms
from tacit.query.plans.plan import Complement, Plan, Step, negated_relation, single_atom

_CACHED = 2**18  # floats that stay in cache beside what a calibration makes of them
_PAIRS = 2**13  # single atoms scored at a time: each takes three vectors
_HELD = 2**24  # floats of whole rows held for the sake of single atoms, or kept while a question is explained
_TABLE = 2**21  # and of a table of rows that is not kept: it is asked for once, for all answers
_LARGE = 2**20  # numbers of a table of keys whose codes are worth their making
_ASKED = 32  # questions after which they are made, which takes as long
OBSERVED = 1.0 - 2.0**-10  # a known fact is nearly certain: its negation stays comparable to others


@dataclass(frozen=True)
class Block:
    """Log-scores of some rows for the entities in `columns`; valid until the next block is asked for."""

    columns: slice
    scores: Tensor  # [rows, n]


class Atoms:
    """The log-scores of atoms `relation(head, ·)`, from a scorer, a calibration and the known facts.

    Rows come whole (`rows`) or in blocks of columns (`blocks`) that stay in a buffer of their own, so that nothing of
    size rows x N is ever written to memory on the way to a maximum. Every thread has its own buffer.

    A known fact has the score `observed`, a prediction `c` is worth `ceiling · c`, and what is not `possible` nothing.

    Where the entities are shared out over processes, N is this process's share: rows, blocks and columns are those of
    its own entities, single atoms are the same everywhere, and every process asks for the same rows at the same time.
    """

    def __init__(
        self,
        scorer: Scorer,
        calibration: Calibration,
        facts: KnownFacts | None = None,
        *,
        observed: float = OBSERVED,
        precision: str = "float32",
        possible: Possible | None = None,
        ceiling: float = 1.0,
        coded: Callable[[BilinearScorer, bool], Codes | None] = shared_codes,
    ) -> None:
        self.scorer, self.calibration, self.facts, self.possible = scorer, calibration, facts, possible
        self.observed, self.ceiling = math.log(observed), math.log(ceiling)
        self.shards = shards_of(scorer)
        if self.shards.world > 1 and not calibration.shareable:
            raise SettingsError(
                f"{calibration.name} looks at the vectors of entities, which shards do not have all of; "
                "leave the adapter out with adapted=False, or ask without shards"
            )
        self.num_entities = scorer.num_entities  # of all processes together
        self.width = self.shards.size  # and of this one: the columns of a row
        self.widest = widest_share(self.shards)
        self.device = scorer.device
        self.precision = precision if self.device.type == "cuda" else "float32"
        self._whole = isinstance(scorer, nn.Module)  # its weights are numbers, and so are its scores
        weights = scorer.parameters() if isinstance(scorer, nn.Module) else ()
        if not all(math.isfinite(float(weight.detach().sum())) for weight in weights):
            raise RunError("the link predictor has weights that are not finite numbers; train it again")
        self._by_products = isinstance(scorer, BilinearScorer)
        if isinstance(scorer, BilinearScorer) and (given := scorer.keys().dtype) != torch.float32:
            raise SettingsError(f"the link predictor has vectors of {given}; scores are float32: use model.float()")
        if (made := torch.get_default_dtype()) != torch.float32:
            raise SettingsError(f"torch makes {made} by default; scores are float32: use torch.set_default_dtype")
        self._rooms = Rooms()
        self._kept = Kept()
        self._coded = coded
        self._asked = 0  # questions that codes could serve
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
        """What no log-score exceeds, known facts included."""
        predicted = self.ceiling + self.calibration.supremum
        return predicted if self.facts is None else max(predicted, self.observed)

    def single(
        self, plan: Plan, entities: Tensor, relations: Tensor, scored: bool = False
    ) -> tuple[Tensor, Tensor | None] | None:
        """What ranks the answers of a plan that is a single atom: raw scores, known facts above all others; and with
        `scored`, their log-scores. None where the plan is more than that, or the calibration may change the order.
        """
        if not self.calibration.monotone or (atom := single_atom(plan.root)) is None:
            return None
        slot, relation = atom
        heads = entities[:, slot].to(self.device).long()
        ids = relations[:, relation.slot].to(self.device).long() ^ int(relation.flip)
        logits = self.logits(heads, ids)
        scores = self._lifted(self._calibrated(logits.clone(), heads, ids), heads, ids) if scored else None
        known = self.known(heads, ids)
        if known is not None:
            logits[known.rows, known.tails] = float("inf")
        return logits, scores

    @property
    def facts_on_top(self) -> bool:
        """Whether no prediction is worth more than a known fact."""
        return self.facts is None or self.ceiling + self.calibration.supremum <= self.observed

    def rows(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every tail, `[B, N]`, in memory of their own; gradients reach the calibration."""
        return self._lifted(self._calibrated(self.logits(heads, relations), heads, relations), heads, relations)

    def logits(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Raw scores of every tail, `[B, N]`; what is impossible is minus infinity."""
        with torch.no_grad():
            if self.precision == "float32":
                return self._scored(heads, relations)
            return next(self.products(heads, relations, self.width)).scores.clone()

    def _scored(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Raw scores of every tail, in memory of their own: what is no product may be what a scorer keeps."""
        logits = self._finite(self.scorer.logits(heads, relations))
        own = logits if self._by_products else logits.to(torch.float32, copy=True)
        return self._ruled(own, heads, relations, slice(0, self.width))

    def _finite(self, logits: Tensor) -> Tensor:
        """Raw scores, refused where they are no numbers; of weights that were looked at, they are."""
        if not self._whole and logits.numel() and not bool(logits.isfinite().all()):
            raise RunError("the link predictor gives scores that are not finite numbers; is the model damaged?")
        return logits

    def _ruled(self, logits: Tensor, heads: Tensor, relations: Tensor, columns: slice) -> Tensor:
        """Raw scores of some rows in some columns, with minus infinity for what is impossible."""
        if self.possible is None:
            return logits
        return self.possible.rule_out(logits, heads, relations, self._entities(columns))

    def loops(self, heads: Tensor, relations: Tensor) -> KnownTails:
        """The places of some rows where they would come back to their head, and cannot."""
        rows = heads[:0] if self.possible is None else self.possible.without_loops[relations].nonzero()[:, 0]
        return KnownTails(*self._own(rows, heads[rows]))

    def of(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Log-scores of single atoms, `[B]`."""
        if not self.calibration.pointwise:
            return self._gathered(heads, relations, tails)
        if len(heads) > _PAIRS:
            parts = zip(heads.split(_PAIRS), relations.split(_PAIRS), tails.split(_PAIRS), strict=True)
            return torch.cat([self.of(*part) for part in parts])
        logits = self._finite(self.scorer.logits_of(heads, relations, tails))
        scores = self.capped(self.calibration(logits[:, None], heads, relations, tails)[:, 0])
        if self.possible is not None:
            scores = scores.masked_fill(self.possible.excluded(heads, relations, tails), -torch.inf)
        if self.facts is not None:
            scores = torch.where(self.facts.contains(heads, relations, tails), self.observed, scores)
        return scores

    def _gathered(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Single atoms of a calibration that needs whole rows: each distinct row is scored once."""
        r, step = self.scorer.num_relations, max(1, min(256, _HELD // self.widest))
        keys, inverse = torch.unique(heads * r + relations, return_inverse=True)
        out = torch.empty(len(heads), device=self.device)
        for start in range(0, len(keys), step):
            part = keys[start : start + step]
            here = ((inverse >= start) & (inverse < start + step)).nonzero()[:, 0]
            out[here] = at(self.shards, self.rows(part // r, part % r), inverse[here] - start, tails[here])
        return out

    def products(self, heads: Tensor, relations: Tensor, width: int, narrow: bool = False) -> Iterator[Block]:
        """Raw scores of every tail, block by block of at most `width` entities, in one reused buffer.

        They may be `narrow`; what is impossible is minus infinity.
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
            padded = min(size + (-size % 128 if self.device.type == "cuda" else 0), len(keys) - start)
            logits = self._times(queries, keys[start : start + padded], narrow)[:, :size]
            yield Block(columns, self._ruled(logits, heads, relations, columns))

    def blocks(self, heads: Tensor, relations: Tensor, width: int) -> Iterator[Block]:
        """Log-scores of every tail, block by block of at most `width` entities, in one reused buffer."""
        known = self.known(heads, relations)
        for block in self.products(heads, relations, width if self.blockwise else self.widest):
            if self.blockwise:
                scores = self.capped(self.calibration(block.scores, heads, relations, self._entities(block.columns)))
            else:
                scores = self._calibrated(block.scores, heads, relations)
            if known is not None:
                known.lift(scores, block.columns, self.observed)
            yield Block(block.columns, scores)

    def logit_blocks(self, heads: Tensor, relations: Tensor, width: int) -> Iterator[Block]:
        """The logits `x` such that `ceiling · σ(x)` are the scores, block by block, known facts included."""
        known = self.known(heads, relations)
        odds_against = math.expm1(self.ceiling - self.observed)
        logit = -math.log(odds_against) if odds_against else math.inf
        for block in self.products(heads, relations, width):
            logits = self.calibration.moved(block.scores, heads, relations, self._entities(block.columns))
            if known is not None:
                known.lift(logits, block.columns, logit)
            yield Block(block.columns, logits)

    def _times(self, queries: Tensor, keys: Tensor, narrow: bool = False) -> Tensor:
        """`queries @ keys.T` in float32, in a buffer: fresh memory costs more to touch than products to compute."""
        if narrow and keys.dtype == torch.float16:  # float32 sums, rounded once; in bfloat16 they would be full of ties
            with switched("allow_fp16_reduced_precision_reduction", False):
                return torch.mm(queries, keys.t())
        if keys.dtype != torch.float32:
            return torch.mm(queries, keys.t(), out_dtype=torch.float32)
        room = self._rooms("scores", (len(queries), len(keys)), self.device)
        if self.device.type == "cpu":
            return even_product(queries, keys, out=room)
        with switched("allow_tf32", self.precision == "tf32"):
            return torch.mm(queries, keys.t(), out=room)

    @property
    def differentiable(self) -> bool:
        """Whether somebody wants gradients of the calibration."""
        return torch.is_grad_enabled() and any(p.requires_grad for p in self.calibration.parameters())

    def _calibrated(self, logits: Tensor, heads: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of whole rows; on a CPU in their own memory, by few rows that stay in cache.

        Processes that share the entities have to agree on what is about a row, and do that once for all rows.
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
        """`log Z` of whole rows of raw scores, `[B]`, kept for the next time."""
        sums = self.calibration.log_sums(logits)
        self.kept.sums.update(zip(self._row_keys(heads, relations), sums.tolist(), strict=True))
        return sums

    def kept_sums(self, heads: Tensor, relations: Tensor) -> Tensor | None:
        """`log Z` of rows that were kept, `[B]`; None where one was not, zeros where nobody needs them."""
        if not self.calibration.by_sum:
            return torch.zeros(len(heads))
        kept = self.kept.sums
        sums = [kept.get(key) for key in self._row_keys(heads, relations)]
        return None if None in sums else torch.tensor(sums)

    @property
    def kept(self) -> Kept:
        """What is kept, as long as nobody writes to the weights and it is not too much."""
        self._kept = self._kept.now(self.scorer)
        return self._kept

    def forget(self) -> None:
        """Keep nothing of weights that were written to unseen; codes of others are this process's alone."""
        self._kept, self._coded, self.forgotten = Kept(), shared_codes, True
        forget_codes(cast(BilinearScorer, self.scorer))

    def _row_keys(self, heads: Tensor, relations: Tensor) -> list[int]:
        keys: list[int] = (heads * self.scorer.num_relations + relations).tolist()
        return keys

    @property
    def listable(self) -> bool:
        """Whether lists of tails can take the place of rows: found by products on a CPU, in the order of logits, and
        calibrated by these and the sum of a row.
        """
        calibrated = self.calibration.monotone and (self.calibration.pointwise or self.calibration.by_sum)
        plain = self.shards.world == 1 and (self.possible is None or not self.possible.typed)
        return calibrated and plain and isinstance(self.scorer, BilinearScorer) and self.device.type == "cpu"

    @cached_property
    def codable(self) -> bool:
        """Whether codes of the keys are worth a look before the keys, whose table is too large to stay in cache."""
        large = self._by_products and self._keys.numel() >= _LARGE
        return large and self.listable and self._whole and not self._keys.is_inference()

    @property
    def longest(self) -> float:
        """The length of the longest key."""
        kept = self.kept
        if kept.longest is None:
            kept.longest = float(torch.linalg.vector_norm(self._keys, dim=1).max())
        return kept.longest

    def codes(self, questions: int) -> Codes | None:
        """Codes of the keys for some questions; None where there are none: they are made once many were asked."""
        self._asked += questions
        if not self.kept.believable:
            self.forget()
        return self._coded(cast(BilinearScorer, self.scorer), self._asked > _ASKED)

    def capped(self, scores: Tensor) -> Tensor:
        """Scores of predictions, less than those of known facts."""
        if not self.ceiling:
            return scores
        return scores + self.ceiling if scores.requires_grad else scores.add_(self.ceiling)

    def _lifted(self, scores: Tensor, heads: Tensor, relations: Tensor) -> Tensor:
        known = self.known(heads, relations)
        if known is None:
            return scores
        put = Tensor.index_put if scores.requires_grad else Tensor.index_put_
        return put(scores, (known.rows, known.tails), scores.new_tensor(self.observed))

    def strength(self, step: Complement[Step], relations: Tensor) -> Tensor | None:
        """The log of how many times more strongly a negation excludes than the logic says, `[B, 1]`, if it does."""
        about = negated_relation(step)
        ids = None if about is None else relations[:, about.slot] ^ int(about.flip)
        strengths = self.calibration.strengths(ids)
        return None if strengths is None else strengths.expand(len(relations))[:, None]

    def known(self, heads: Tensor, relations: Tensor) -> KnownTails | None:
        """The known facts of some rows, or None where there are none."""
        rows, tails = self.known_tails(heads, relations)
        return KnownTails(rows, tails) if len(rows) else None

    def known_tails(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The known facts of some rows: which row each is of, and the column of its tail."""
        return (heads[:0], heads[:0]) if self.facts is None else self._own(*self.facts.tails(heads, relations))

    def _own(self, rows: Tensor, tails: Tensor) -> tuple[Tensor, Tensor]:
        """Those tails that are entities of this process, as columns."""
        if self.shards.world == 1:
            return rows, tails
        held, places = self.shards.inside(tails)
        return rows[held], places[held]

    def _entities(self, columns: slice) -> slice:
        """The entities of some columns."""
        return slice(columns.start + self.shards.start, columns.stop + self.shards.start)


class RememberedAtoms(Atoms):
    """The same atoms while a question is explained, whose answers ask for few rows, and each of them for the same.

    They keep the last tables of rows, to which nobody writes, and are let go with the question.
    """

    def __init__(self, atoms: Atoms) -> None:
        self._tables: dict[tuple[int, ...], Tensor] = {}
        self._atoms, kept = atoms, atoms.kept  # what is known of the weights stays with those that others ask, too
        vars(self).update(vars(atoms) | {"_kept": kept})

    def rows(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every tail, `[B, N]`, as they were scored before where the same rows were asked for."""
        if len(heads) > max(1, _TABLE // self.widest):
            return super().rows(heads, relations)
        asked = tuple(self._row_keys(heads, relations))
        if asked in self._tables:
            return self._tables[asked]
        self._tables[asked] = table = super().rows(heads, relations)
        while sum(map(len, self._tables)) * self.widest > _HELD:
            del self._tables[next(iter(self._tables))]  # the first that came
        return table

    def codes(self, questions: int) -> Codes | None:
        """Codes of the keys, which are made once many questions were asked."""
        return self._atoms.codes(questions)
