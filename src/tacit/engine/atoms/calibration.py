"""From raw scores of a link predictor to log-scores that can be combined."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.distributed.shards import Shards
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.logic import log_positive
from tacit.engine.search.hop_kernels import log_sums
from tacit.engine.search.sharded import largest

EVERY = slice(None)
Tails = slice | Tensor
_NEARLY_ONE = math.log1p(-(2.0**-10))
_CACHED = 2**18  # floats that stay in cache
_PART = 2048  # of a row that is summed by itself


@dataclass(frozen=True, eq=False)
class ByRow:
    """How each number `x` of some rows becomes a log-score: `log σ(scale · x + shift)`, or `min(x + shift, cap)`.

    With a `lift`, scale and shift are for the log-odds of `min(x + lift, cap)`. It is all that a kernel needs to
    calibrate scores on their way to a maximum.
    """

    shift: Tensor  # [B]
    scale: Tensor | None = None  # [B], 1 where there is none
    cap: float | None = None  # None where scores are sigmoids
    lift: Tensor | None = None  # [B]


class Calibration(nn.Module):
    """Turns rows of logits into log-scores: `forward(logits[B, n], heads[B], relations[B]) -> [B, n]`.

    A *pointwise* calibration needs one logit to give one score, so rows can be cut into blocks of columns; the others
    need whole rows. A *monotone* one keeps the order of every row. A *sigmoidal* one is `log σ` of what `moved` makes
    of the logits; of a *rowwise* one `by_row` says all. All that one *by sum* needs of a row beside single logits is
    `log Z`, the log of the sum of their `e^x`. No log-score is above its `supremum`, which best-first search trusts.
    Where no gradient is asked for, results may use the memory of `logits`.

    Where processes share the entities out, each has a part of a row; one that is *shareable* gets by with that, and
    with what `shards` can tell of the whole row. One that is not reads the vectors of the entities of an atom.

    An adapter moves the logits, or the log-odds of the scores where it is moved *by odds*. One that *rescales*
    every row undoes what is done to the whole of it.
    """

    pointwise = False
    monotone = True
    sigmoidal = False
    rowwise = False
    shareable = True
    by_odds = False
    by_sum = False
    rescales = False
    supremum = 0.0
    name = "calibration"

    def __init__(self, shards: Shards | None = None) -> None:
        super().__init__()
        self.shards = shards or Shards(0)
        self.kind = self.name  # an adapter in it aside
        self.instead: dict[str, Any] = {}  # engine settings that an adapter brings, as they would be without it

    def forward(self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails = EVERY) -> Tensor:
        """The log-scores of atoms `relation(head, ·)`; `tails` are the entities of the columns.

        They are a slice of all entities, or, for single atoms (`n = 1`), one entity a row.
        """
        raise TypeError(f"{type(self).__name__} does not calibrate")

    def moved(self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails = EVERY) -> Tensor:
        """The logits whose sigmoids are the scores."""
        return logits

    def by_row(self, logits: Tensor, heads: Tensor, relations: Tensor) -> ByRow:
        """What makes log-scores of whole rows `[B, N]`, where it is *rowwise*."""
        raise TypeError(f"{type(self).__name__} is not rowwise")

    def log_sums(self, logits: Tensor) -> Tensor:
        """`log Z` of whole rows, `[B, n] -> [B]`."""
        return self.shards.log_total(_log_sums(logits))

    def summed(self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails, log_sums: Tensor) -> Tensor:
        """The log-scores of parts of rows, `[B, n]`, which have the given `log Z`, `[B]`, where it needs it."""
        if not self.pointwise:
            raise TypeError(f"{type(self).__name__} needs whole rows")
        scores: Tensor = self(logits, heads, relations, tails)
        return scores

    def counting(self, facts: KnownFacts, shards: Shards | None = None) -> Calibration:
        """The same calibration with other facts to count, where it counts any, of rows that are shared out so."""
        return self

    def strengths(self, relations: Tensor | None) -> Tensor | None:
        """Logs of how many times more strongly the negation of relations excludes than the logic says, `[B]`.

        Without relations, that of negations which are about no single one, `[]`; None where the logic alone decides.
        """
        return None


class Sigmoid(Calibration):
    """`log σ(x)`."""

    pointwise = True
    sigmoidal = True
    rowwise = True
    name = "sigmoid"

    def forward(self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails = EVERY) -> Tensor:
        """The log of the sigmoid of each logit."""
        return F.logsigmoid(logits)

    def by_row(self, logits: Tensor, heads: Tensor, relations: Tensor) -> ByRow:
        """Sigmoids as they are."""
        return ByRow(torch.zeros(len(logits), device=logits.device))


class MinMax(Calibration):
    """`log (x - min) / (max - min)` over a row, as CQD re-scales scores."""

    rescales = True
    name = "minmax"

    def forward(self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails = EVERY) -> Tensor:
        """The log of each logit re-scaled to [0, 1] within its row."""
        low, high = self._low(logits), largest(self.shards, logits.amax(dim=1, keepdim=True))
        if bool(torch.isneginf(low).any()):  # what is impossible does not stretch the scale
            low = self._low(logits.masked_fill(torch.isneginf(logits), torch.inf))
        span = (high - low).clamp(min=torch.finfo(logits.dtype).tiny)
        share = ((logits - low) / span).clamp(min=0.0)
        return log_positive(share) if share.requires_grad else share.log()

    def _low(self, logits: Tensor) -> Tensor:
        return -largest(self.shards, -logits.amin(dim=1, keepdim=True))

    def counting(self, facts: KnownFacts, shards: Shards | None = None) -> MinMax:
        """The same for rows that are shared out otherwise."""
        return MinMax(shards)


class OfFacts(Calibration):
    """A calibration that shifts whole rows of logits by what the known facts of each say, up to its supremum."""

    facts: KnownFacts
    rowwise = True

    def __init__(self, facts: KnownFacts | None = None, shards: Shards | None = None) -> None:
        super().__init__(shards)
        if facts is not None:
            self.facts = facts

    def counting(self, facts: KnownFacts, shards: Shards | None = None) -> Self:
        """The same with other facts, of rows that are shared out so."""
        return type(self)(facts, shards)

    def _shift(self, logits: Tensor, heads: Tensor, relations: Tensor, log_sums: Tensor) -> Tensor:
        """What is added to each row of logits, `[B]`, by what its known tails and its `log Z` are."""
        raise NotImplementedError

    def forward(self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails = EVERY) -> Tensor:
        """The logits, shifted and clipped."""
        return self.summed(logits, heads, relations, tails, self.log_sums(logits))

    def summed(self, logits: Tensor, heads: Tensor, relations: Tensor, tails: Tails, log_sums: Tensor) -> Tensor:
        """The same by a given `log Z`; in their own memory where no gradient is asked for."""
        shift = self._shift(logits, heads, relations, log_sums)[:, None]
        if torch.is_grad_enabled() and logits.requires_grad:
            return (logits + shift).clamp(max=self.supremum)
        return logits.add_(shift).clamp_(max=self.supremum)

    def by_row(self, logits: Tensor, heads: Tensor, relations: Tensor) -> ByRow:
        """The shift of each row."""
        return ByRow(self._shift(logits, heads, relations, self.log_sums(logits)), cap=self.supremum)


class SoftmaxCount(OfFacts):
    """`log min(1, n · softmax(x))` with `n` the number of known tails of `(head, relation)`, at least 1.

    A softmax row sums to 1 whatever the number of right answers; times that number it reads as a probability.
    """

    by_odds = True
    by_sum = True
    supremum = _NEARLY_ONE
    name = "softmax-count"

    def _shift(self, logits: Tensor, heads: Tensor, relations: Tensor, log_sums: Tensor) -> Tensor:
        """The log of the count of each row, less `log Z`."""
        return self.facts.counts(heads, relations).clamp(min=1).to(log_sums.dtype).log() - _finite(log_sums)


class SoftmaxObserved(OfFacts):
    """`log min(0.999, n · softmax(x) / Σ_T softmax(x))` with `T` the `n` known tails of `(head, relation)`, as in FIT.

    The known tails of a row score 1 in the mean. A row without any is its softmax.
    """

    supremum = math.log1p(-0.001)
    name = "softmax-observed"

    def _shift(self, logits: Tensor, heads: Tensor, relations: Tensor, log_sums: Tensor) -> Tensor:
        """Less the log of the mean `e^x` of each row's known tails, or of its sum where there are none."""
        counts = self.facts.counts(heads, relations)
        known = self.shards.log_total(self._log_known(logits, heads, relations, counts))
        unknown = torch.isneginf(known)  # the sums cancel: only a row without known tails needs its own
        return torch.where(unknown, -_finite(log_sums), counts.clamp(min=1).log() - known.masked_fill(unknown, 0.0))

    def _log_known(self, logits: Tensor, heads: Tensor, relations: Tensor, counts: Tensor) -> Tensor:
        """`log Σ e^x` of the known tails of each row that are columns here, `[B]`; minus infinity where none is."""
        rows, tails = self.facts.tails(heads, relations)
        held, places = (None, tails) if self.shards.world == 1 else self.shards.inside(tails)
        x = logits[rows, places].float()
        if held is not None:
            x = x.masked_fill(~held, -torch.inf)
        top = torch.segment_reduce(x.detach(), "max", lengths=counts, unsafe=True)
        top = top.masked_fill(torch.isneginf(top), 0.0)
        return log_positive(torch.segment_reduce((x - top[rows]).exp(), "sum", lengths=counts, unsafe=True)) + top


def _finite(log_sums: Tensor) -> Tensor:
    return log_sums.masked_fill(torch.isneginf(log_sums), 0.0)  # where nothing is possible


def _log_sums(logits: Tensor) -> Tensor:
    """`log Σ e^x` of each row, `[B, n] -> [B]`; on a CPU by few rows, whose exponentials stay in cache."""
    step = max(1, _CACHED // max(1, logits.shape[1]))
    if logits.is_cuda and not logits.requires_grad:
        return log_sums(logits)
    if logits.requires_grad:
        return torch.logsumexp(logits, dim=1)
    return torch.cat([_steady(rows) for rows in logits.split(step)])


def _steady(logits: Tensor) -> Tensor:
    """`log Σ e^x` of each row by parts that no threads share, so that it does not change with their number."""
    whole = logits.shape[1] - logits.shape[1] % _PART
    parts = logits[:, :whole].unflatten(1, (-1, _PART)).logsumexp(dim=2)
    return torch.cat([parts, logits[:, whole:].logsumexp(dim=1, keepdim=True)], dim=1).logsumexp(dim=1)


CALIBRATIONS: dict[str, type[Calibration]] = {
    kind.name: kind for kind in (Sigmoid, MinMax, SoftmaxCount, SoftmaxObserved)
}


def calibration(name: str, facts: KnownFacts | None = None) -> Calibration:
    """The calibration of a name; `facts` are those that it counts, where it counts any, and may come by `counting`."""
    kind = CALIBRATIONS[name]
    return kind(facts) if issubclass(kind, OfFacts) else kind()
