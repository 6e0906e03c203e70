"""Calibration: raw scores of a link predictor become log-scores that can be combined."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.distributed.shards import Shards
from tacit.engine.atoms.hop_kernels import log_sums
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.logic import largest, log_positive

if TYPE_CHECKING:
    from tacit.engine.atoms.mixture import RuleMixture

EVERY = slice(None)
Tails = slice | Tensor
_NEARLY_ONE = math.log1p(-(2.0**-10))
_CACHED = 2**18  # floats that stay in cache
_PART = 2048  # of a row that is summed by itself


@dataclass(frozen=True, eq=False)
class ByRow:
    """The calibration of some rows: `log σ(scale · x + shift)`, or `min(x + shift, cap)`.

    With a `lift`, scale and shift are for the log-odds of `min(x + lift, cap)`. It is all that a
    kernel needs to calibrate scores on their way to a maximum.
    """

    shift: Tensor  # [B]
    scale: Tensor | None = None  # [B], 1 where there is none
    cap: float | None = None  # None where scores are sigmoids
    lift: Tensor | None = None  # [B]


@dataclass(frozen=True)
class CalibrationCapabilities:
    """What a calibration needs, and what it allows.

    With sharded entities each process has a part of a row. A shareable calibration needs no more
    than that and what `shards` computes of whole rows; others read vectors of an atom's entities.
    """

    pointwise: bool = False  # one logit gives one score, so that rows can be cut into blocks
    by_sum: bool = False  # single logits and `log Z` of their row, the log of the sum of `e^x`
    monotone: bool = True  # it keeps the order of every row
    sigmoidal: bool = False  # it is `log σ` of the logits that `moved` returns
    rowwise: bool = False  # `by_row` describes it
    shareable: bool = True
    by_odds: bool = False  # an adapter moves the log-odds of its scores, not its logits
    rescales: bool = False  # it undoes any change of a whole row


class Calibration(nn.Module):
    """Turns rows of logits into log-scores, `[B, n] -> [B, n]`.

    No log-score is above its `supremum`, which best-first search relies on. Without gradients,
    results may use the memory of `logits`.
    """

    capabilities = CalibrationCapabilities()
    supremum = 0.0
    name = "calibration"

    def __init__(self, shards: Shards | None = None) -> None:
        super().__init__()
        self.shards = shards or Shards(0)
        self.kind = self.name  # without an adapter or rules in it
        self.rules: RuleMixture | None = None  # that are mixed into its scores
        # engine settings that an adapter replaces, as they are without it
        self.unadapted_defaults: dict[str, Any] = {}

    def with_rules(self, rules: RuleMixture | None) -> Calibration:
        """The same calibration with these in the place of its rules, where it has any."""
        return self

    def forward(
        self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails = EVERY
    ) -> Tensor:
        """The log-scores of atoms `relation(head, ·)`, `[B, n]`, where `tails` are the columns.

        They are a slice of all entities, or, for single atoms (`n = 1`), one entity a row.
        """
        raise TypeError(f"{type(self).__name__} does not calibrate")

    def moved(
        self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails = EVERY
    ) -> Tensor:
        """The logits whose sigmoids are the scores."""
        return logits

    def by_row(self, logits: Tensor, heads: Tensor, relations: Tensor) -> ByRow:
        """The calibration of whole rows `[B, N]` in parameters, where it is *rowwise*."""
        raise TypeError(f"{type(self).__name__} is not rowwise")

    def log_sums(self, logits: Tensor) -> Tensor:
        """`log Z` of whole rows, `[B, n] -> [B]`."""
        return self.shards.log_total(_log_sums(logits))

    def summed(
        self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails, log_sums: Tensor
    ) -> Tensor:
        """The log-scores of parts of rows, `[B, n]`, given the rows' `log Z`, `[B]`."""
        if not self.capabilities.pointwise:
            raise TypeError(f"{type(self).__name__} needs whole rows")
        scores: Tensor = self(logits, heads, relations, tails)
        return scores

    def counting(self, facts: KnownFacts, shards: Shards | None = None) -> Calibration:
        """Return the same calibration with other facts to count, over other shards."""
        return self

    def forget(self) -> None:
        """Drop everything derived from weights that were written to unseen."""


class Sigmoid(Calibration):
    """`log σ(x)`."""

    capabilities = CalibrationCapabilities(pointwise=True, sigmoidal=True, rowwise=True)
    name = "sigmoid"

    def forward(
        self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails = EVERY
    ) -> Tensor:
        """The log of the sigmoid of each logit."""
        return F.logsigmoid(logits)

    def by_row(self, logits: Tensor, heads: Tensor, relations: Tensor) -> ByRow:
        """Sigmoids as they are."""
        return ByRow(torch.zeros(len(logits), device=logits.device))


class MinMax(Calibration):
    """`log (x - min) / (max - min)` over a row, as CQD re-scales scores."""

    capabilities = CalibrationCapabilities(rescales=True)
    name = "minmax"

    def forward(
        self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails = EVERY
    ) -> Tensor:
        """The log of each logit re-scaled to [0, 1] within its row."""
        low = self._low(logits)
        high = largest(self.shards, logits.amax(dim=1, keepdim=True))
        if bool(torch.isneginf(low).any()):  # impossible atoms do not stretch the scale
            low = self._low(logits.masked_fill(torch.isneginf(logits), torch.inf))
        span = (high - low).clamp(min=torch.finfo(logits.dtype).tiny)
        share = ((logits - low) / span).clamp(min=0.0)
        return log_positive(share) if share.requires_grad else share.log()

    def _low(self, logits: Tensor) -> Tensor:
        return -largest(self.shards, -logits.amin(dim=1, keepdim=True))

    def counting(self, facts: KnownFacts, shards: Shards | None = None) -> MinMax:
        """Return the same calibration over other shards."""
        return MinMax(shards)


class OfFacts(Calibration):
    """A calibration that shifts whole rows of logits by their known facts, up to a cap."""

    facts: KnownFacts
    capabilities = CalibrationCapabilities(rowwise=True)

    def __init__(self, facts: KnownFacts | None = None, shards: Shards | None = None) -> None:
        super().__init__(shards)
        if facts is not None:
            self.facts = facts

    def counting(self, facts: KnownFacts, shards: Shards | None = None) -> Self:
        """Return the same calibration with other facts, over other shards."""
        return type(self)(facts, shards)

    def _shift(self, logits: Tensor, heads: Tensor, relations: Tensor, log_sums: Tensor) -> Tensor:
        """The number added to each row of logits, `[B]`, by its known tails and its `log Z`."""
        raise NotImplementedError

    def forward(
        self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails = EVERY
    ) -> Tensor:
        """The logits, shifted and clipped."""
        return self.summed(logits, heads, relations, tails, self.log_sums(logits))

    def summed(
        self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails, log_sums: Tensor
    ) -> Tensor:
        """The log-scores by a given `log Z`; in place where no gradient is needed."""
        shift = self._shift(logits, heads, relations, log_sums)[:, None]
        if torch.is_grad_enabled() and logits.requires_grad:
            return (logits + shift).clamp(max=self.supremum)
        return logits.add_(shift).clamp_(max=self.supremum)

    def by_row(self, logits: Tensor, heads: Tensor, relations: Tensor) -> ByRow:
        """The shift of each row."""
        return ByRow(
            self._shift(logits, heads, relations, self.log_sums(logits)), cap=self.supremum
        )


class SoftmaxCount(OfFacts):
    """`log min(1, n · softmax(x))` with `n` the number of known tails, at least 1.

    A softmax row sums to 1 whatever the number of right answers; times that number it reads as a
    probability.
    """

    capabilities = CalibrationCapabilities(rowwise=True, by_odds=True, by_sum=True)
    supremum = _NEARLY_ONE
    name = "softmax-count"

    def _shift(self, logits: Tensor, heads: Tensor, relations: Tensor, log_sums: Tensor) -> Tensor:
        """The log of the count of each row, less `log Z`."""
        counts = self.facts.counts(heads, relations).clamp(min=1)
        return counts.to(log_sums.dtype).log() - _finite(log_sums)


class SoftmaxObserved(OfFacts):
    """`log min(0.999, n · softmax(x) / Σ_T softmax(x))` over `n` known tails `T`, as in FIT.

    The known tails of a row score 1 in the mean. A row without any is its softmax.
    """

    supremum = math.log1p(-0.001)
    name = "softmax-observed"

    def _shift(self, logits: Tensor, heads: Tensor, relations: Tensor, log_sums: Tensor) -> Tensor:
        """Minus the log of the mean `e^x` of a row's known tails, or of its sum without any."""
        counts = self.facts.counts(heads, relations)
        known = self.shards.log_total(self._log_known(logits, heads, relations, counts))
        # Sums cancel, except in rows without known tails.
        unknown = torch.isneginf(known)
        return torch.where(
            unknown, -_finite(log_sums), counts.clamp(min=1).log() - known.masked_fill(unknown, 0.0)
        )

    def _log_known(
        self, logits: Tensor, heads: Tensor, relations: Tensor, counts: Tensor
    ) -> Tensor:
        """`log Σ e^x` of each row's known tails in this shard, `[B]`; `-inf` without any."""
        rows, tails = self.facts.tails(heads, relations)
        local, places = (None, tails) if self.shards.world == 1 else self.shards.inside(tails)
        x = logits[rows, places].float()
        if local is not None:
            x = x.masked_fill(~local, -torch.inf)
        top = torch.segment_reduce(x.detach(), "max", lengths=counts, unsafe=True)
        top = top.masked_fill(torch.isneginf(top), 0.0)
        shares = (x - top[rows]).exp()
        sums = torch.segment_reduce(shares, "sum", lengths=counts, unsafe=True)
        return log_positive(sums) + top


def _finite(log_sums: Tensor) -> Tensor:
    return log_sums.masked_fill(torch.isneginf(log_sums), 0.0)  # rows where nothing is possible


def _log_sums(logits: Tensor) -> Tensor:
    """`log Σ e^x` of each row, `[B, n] -> [B]`; on a CPU a few rows in cache at a time."""
    step = max(1, _CACHED // max(1, logits.shape[1]))
    if logits.is_cuda and not logits.requires_grad:
        return log_sums(logits)
    if logits.requires_grad:
        return torch.logsumexp(logits, dim=1)
    return torch.cat([_steady(rows) for rows in logits.split(step)])


def _steady(logits: Tensor) -> Tensor:
    """`log Σ e^x` of each row, by parts that make it independent of the thread count."""
    size = logits.shape[1] - logits.shape[1] % _PART
    parts = logits[:, :size].unflatten(1, (-1, _PART)).logsumexp(dim=2)
    return torch.cat([parts, logits[:, size:].logsumexp(dim=1, keepdim=True)], dim=1).logsumexp(
        dim=1
    )


CALIBRATIONS: dict[str, type[Calibration]] = {
    kind.name: kind for kind in (Sigmoid, MinMax, SoftmaxCount, SoftmaxObserved)
}


def calibration(name: str, facts: KnownFacts | None = None) -> Calibration:
    """Make the calibration of a name; `facts` are those that it counts, if any."""
    kind = CALIBRATIONS[name]
    return kind(facts) if issubclass(kind, OfFacts) else kind()
