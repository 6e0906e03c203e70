"""Calibrated scores of atoms: raw scores of rows, calibrated, and raised at known facts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tacit.engine.atoms.calibration import Calibration
from tacit.engine.atoms.comparisons import Comparisons
from tacit.engine.atoms.derived_weights import DerivedWeights, row_keys
from tacit.engine.atoms.known_facts import AtomConstraints, KnownFacts, KnownTails
from tacit.engine.atoms.raw_scores import Block, entities_of, raw_scores
from tacit.engine.atoms.sparse_rows import SparseRows
from tacit.engine.logic import at, widest_share
from tacit.errors import PlanError, RunError, SettingsError
from tacit.graph.value_index import ValueIndex
from tacit.links.codes import Codes, shared_codes
from tacit.links.scorer import BilinearScorer, Scorer, SparseScorer, shards_of
from tacit.query.plans.plan import Plan, single_atom

_CACHED = 2**18  # floats that stay in cache beside what a calibration makes of them
_PAIRS = 2**13  # single atoms scored at a time: each takes three vectors
_ROWS_CACHED = 2**24  # floats of rows to gather single atoms from, or to explain by
_TABLE = 2**21  # floats of the largest table that is cached; larger ones are used only once
_LARGE = 2**20  # numbers in a table of keys that is worth coding
OBSERVED = 1.0 - 2.0**-10  # a known fact is nearly certain: its negation stays comparable to others


@dataclass(frozen=True)
class Capabilities:
    """How the scores of some atoms can be computed, beside by whole rows."""

    blockwise: bool  # in blocks of columns, each by itself
    listable: bool  # from lists of tails, which a CPU finds by products in the order of logits
    codable: bool  # by codes of the keys, whose table exceeds the cache
    sparse: bool = False  # by entries, with one score for all other tails of a relation's rows

    @classmethod
    @torch.inference_mode(False)
    def of(
        cls, scorer: Scorer, calibration: Calibration, constraints: AtomConstraints | None
    ) -> Capabilities:
        """The capabilities of a scorer and a calibration."""
        needs = calibration.capabilities
        untyped = constraints is None or not constraints.typed
        if not isinstance(scorer, BilinearScorer):
            by_logit = needs.pointwise and needs.monotone and needs.shareable
            sparse = isinstance(scorer, SparseScorer) and shards_of(scorer).world == 1
            return cls(False, False, False, sparse=sparse and by_logit and untyped)
        alone = scorer.device.type == "cpu" and shards_of(scorer).world == 1
        calibrated = needs.monotone and (needs.pointwise or needs.by_sum)
        listable = calibrated and untyped and alone
        keys = scorer.keys()
        codable = (
            listable
            and keys.numel() >= _LARGE
            and isinstance(scorer, nn.Module)
            and not keys.is_inference()
        )
        return cls(needs.pointwise, listable, codable)


class Atoms:
    """The log-scores of atoms `relation(head, ·)`: a scorer, a calibration and known facts.

    A known fact has the score `observed`, a prediction `c` the score `ceiling · c`, and an atom
    that is not `possible` has score 0. Threads may share an instance.

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
        comparisons: Comparisons | None = None,
    ) -> None:
        _check(scorer, calibration)
        self._comparisons = comparisons
        self.scorer = scorer
        self.calibration = calibration
        self.facts = facts
        self.possible = possible
        self.observed = math.log(observed)
        self.ceiling = math.log(ceiling)
        self.shards = shards_of(scorer)
        self.width = self.shards.size  # the entities of this process: the columns of a row
        self.widest = widest_share(self.shards)
        self.weights = DerivedWeights(scorer, coded)
        self.raw = raw_scores(scorer, possible, self.weights, precision)
        self.capabilities = Capabilities.of(scorer, calibration, possible)

    @property
    def known_values(self) -> ValueIndex | None:
        """The known values of attributes; None where none were given."""
        return None if self._comparisons is None else self._comparisons.known

    @property
    def comparisons(self) -> Comparisons:
        """The scores of comparisons; an error where no values were given."""
        if self._comparisons is None:
            raise PlanError("the question compares values of attributes, and none are at hand here")
        return self._comparisons

    @property
    def num_entities(self) -> int:
        """The number of entities of all processes together."""
        return self.scorer.num_entities

    @property
    def device(self) -> torch.device:
        """The device of scores and ids."""
        return self.scorer.device

    @property
    def supremum(self) -> float:
        """The upper bound of all log-scores, known facts included."""
        predicted = self.ceiling + self.calibration.supremum
        return predicted if self.facts is None else max(predicted, self.observed)

    @property
    def facts_on_top(self) -> bool:
        """Whether no prediction is worth more than a known fact."""
        return self.facts is None or self.supremum <= self.observed

    @property
    def differentiable(self) -> bool:
        """Whether gradients of the calibration are needed."""
        return torch.is_grad_enabled() and any(
            p.requires_grad for p in self.calibration.parameters()
        )

    def rows(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every tail, `[B, N]`, in memory of their own.

        Gradients reach the calibration.
        """
        if self.capabilities.sparse and not self.differentiable:
            return SparseRows(self).table(heads, relations)
        return self._scores(self.raw.rows(heads, relations), heads, relations)

    def single(
        self, plan: Plan, entities: Tensor, relations: Tensor, scored: bool = False
    ) -> tuple[Tensor, Tensor] | None:
        """Raw scores that rank the answers of a single atom, known facts above all others.

        With them come log-scores where `scored`, else the raw ones again. Where the calibration may
        change the order, both are log-scores. None where the plan is more than one atom.
        """
        atom = single_atom(plan.root)
        monotone = self.calibration.capabilities.monotone
        if atom is None or not (monotone or scored):
            return None
        slot, relation = atom
        heads = entities[:, slot].to(self.device).long()
        ids = relations[:, relation.slot].to(self.device).long() ^ int(relation.flip)
        if not monotone:
            scores = self.rows(heads, ids)
            return scores, scores
        logits = self.raw.rows(heads, ids)
        scores = self._scores(logits.clone(), heads, ids) if scored else logits
        known = self.known(heads, ids)
        if known is not None:
            logits[known.rows, known.tails] = float("inf")
        return logits, scores

    def pairs(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Log-scores of single atoms, `[B]`."""
        if not self.calibration.capabilities.pointwise:
            return self._gathered(heads, relations, tails)
        if len(heads) > _PAIRS:
            parts = zip(
                heads.split(_PAIRS), relations.split(_PAIRS), tails.split(_PAIRS), strict=True
            )
            return torch.cat([self.pairs(*part) for part in parts])
        logits = self.raw.pairs(heads, relations, tails)
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
        step = max(1, min(256, _ROWS_CACHED // self.widest))
        keys, inverse = torch.unique(heads * r + relations, return_inverse=True)
        out = torch.empty(len(heads), device=self.device)
        for start in range(0, len(keys), step):
            part = keys[start : start + step]
            places = ((inverse >= start) & (inverse < start + step)).nonzero()[:, 0]
            rows = self.rows(part // r, part % r)
            out[places] = at(self.shards, rows, inverse[places] - start, tails[places])
        return out

    def blocks(self, heads: Tensor, relations: Tensor, width: int) -> Iterator[Block]:
        """Yield log-scores of every tail, in blocks of at most `width` entities, in one buffer.

        It is a single block where the calibration needs whole rows.
        """
        known = self.known(heads, relations)
        blockwise = self.capabilities.blockwise
        for block in self.raw.blocks(heads, relations, width if blockwise else self.widest):
            if blockwise:
                columns = entities_of(self.shards, block.columns)
                scores = self.capped(self.calibration(block.scores, heads, relations, columns))
            else:
                scores = self._calibrated(block.scores, heads, relations)
            if known is not None:
                known.lift(scores, block.columns, self.observed)
            yield Block(block.columns, scores)

    def known(self, heads: Tensor, relations: Tensor) -> KnownTails | None:
        """The known facts of some rows; None where there are none."""
        rows, tails = self.known_tails(heads, relations)
        return KnownTails(rows, tails) if len(rows) else None

    def known_tails(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The known facts of some rows: the row of each, and the column of its tail."""
        if self.facts is None:
            return heads[:0], heads[:0]
        rows, tails = self.facts.tails(heads, relations)
        if self.shards.world == 1:
            return rows, tails
        local, columns = self.shards.inside(tails)
        return rows[local], columns[local]

    def capped(self, scores: Tensor) -> Tensor:
        """Multiply the scores of predictions by the ceiling."""
        if not self.ceiling:
            return scores
        return scores + self.ceiling if scores.requires_grad else scores.add_(self.ceiling)

    def codes(self, questions: int) -> Codes | None:
        """The codes of the keys for some questions; None before many questions were asked."""
        if not self.weights.cache.believable:
            self.forget()
        return self.weights.codes(questions)

    def forget(self) -> None:
        """Drop everything derived from weights that were written to unseen."""
        self.weights.forget()
        self.calibration.forget()

    def _calibrated(self, logits: Tensor, heads: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of whole rows; on a CPU in place, a few rows in cache at a time.

        Sharded processes agree once for all rows on what concerns whole rows.
        """
        step = max(1, _CACHED // self.num_entities)
        at_once = self.device.type != "cpu" or self.shards.world > 1
        if at_once or self.differentiable or not logits.is_contiguous():
            return self.capped(self.calibration(logits, heads, relations))
        for start in range(0, len(logits), step):
            rows = slice(start, start + step)
            logits[rows] = self.capped(self.calibration(logits[rows], heads[rows], relations[rows]))
        return logits

    def _scores(self, logits: Tensor, heads: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of whole rows by raw scores that it may overwrite, known facts included."""
        scores = self._calibrated(logits, heads, relations)
        known = self.known(heads, relations)
        if known is None:
            return scores
        put = Tensor.index_put if scores.requires_grad else Tensor.index_put_
        return put(scores, (known.rows, known.tails), scores.new_tensor(self.observed))


class RememberedAtoms(Atoms):
    """Atoms that cache the last tables of rows, for a question that is explained.

    All answers to a question need few rows, and the same ones. Nobody writes to the tables, and
    they are dropped with the question.
    """

    def __init__(self, atoms: Atoms) -> None:
        vars(self).update(vars(atoms))
        self._tables: dict[tuple[int, ...], Tensor] = {}

    def rows(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every tail, `[B, N]`, from the cache for rows scored before."""
        if len(heads) > max(1, _TABLE // self.widest):
            return super().rows(heads, relations)
        keys = tuple(row_keys(self.scorer, heads, relations))
        if keys in self._tables:
            return self._tables[keys]
        self._tables[keys] = table = super().rows(heads, relations)
        while sum(map(len, self._tables)) * self.widest > _ROWS_CACHED:
            del self._tables[next(iter(self._tables))]  # the oldest
        return table


def _check(scorer: Scorer, calibration: Calibration) -> None:
    """Check that a scorer gives finite float32 scores, which its calibration can work on."""
    if shards_of(scorer).world > 1 and not calibration.capabilities.shareable:
        raise SettingsError(
            f"{calibration.name} looks at the vectors of entities, which shards do not have "
            "all of; leave the adapter out with `adapted=False`, or ask without `shards`"
        )
    weights = scorer.parameters() if isinstance(scorer, nn.Module) else ()
    if not all(math.isfinite(float(weight.detach().sum())) for weight in weights):
        raise RunError("the link predictor has weights that are not finite numbers; train it again")
    if isinstance(scorer, BilinearScorer) and (dtype := scorer.keys().dtype) != torch.float32:
        raise SettingsError(
            f"the link predictor has vectors of {dtype}; scores are float32: use model.float()"
        )
    if (default := torch.get_default_dtype()) != torch.float32:
        raise SettingsError(
            f"torch makes {default} by default; scores are float32: use torch.set_default_dtype"
        )
