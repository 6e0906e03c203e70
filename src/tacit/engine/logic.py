"""Fuzzy logic on log-scores: t-norms, their dual t-conorms, and negations.

A value `x` in [0, 1] is kept as `log x`. Near 0 that keeps the order of tiny scores, near 1 `log x
≈ -(1 - x)` keeps the order of nearly certain ones; a float32 in [0, 1] does neither, and the ties
it makes destroy rankings.

With sharded entities a process holds the columns of its own entities, `[B, n]`. Operations on a
whole set receive a few values and ids from the others, the same on every process. One process alone
exchanges nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.distributed.shards import Shards, share
from tacit.errors import RunError

ZERO = float("-inf")  # the log of 0
Binary = Callable[[Tensor, Tensor], Tensor]
_LOG_HALF = -math.log(2.0)
_TINY = -40.0
LOG2_E = 1.0 / math.log(2.0)  # `exp2(LOG2_E * x)` takes a third of the time of `exp(x)` on a CPU
_VECTOR = 32  # numbers in a vector of a CPU, at most
_GRAIN = 2**15  # numbers from which on torch splits a loop over threads


def exp2_(x: Tensor) -> Tensor:
    """`2^x` of contiguous numbers in place, bitwise the same in any batch and thread."""
    return steadily(x, Tensor.exp2_)


def steadily(x: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """Compute contiguous numbers in place, bitwise the same in any batch and on any threads.

    A thread computes the numbers left over after its last full vector in another way. So as many
    numbers are computed as leave none over, and the few behind them in padded memory of their own.
    No other number is written to.
    """
    numbers = x.view(-1)
    body, rest = numbers.tensor_split([_steady_size(len(numbers), torch.get_num_threads())])
    if len(body):
        compute(body)
    if len(rest):
        padded = F.pad(rest, (0, -len(rest) % _VECTOR))
        rest.copy_(compute(padded)[: len(rest)])
    return x


def _steady_size(size: int, threads: int) -> int:
    """The largest size, up to `size`, that leaves nothing over in any thread's share.

    >>> [_steady_size(*pair) for pair in ((64, 2), (65, 2), (31, 2), (2**16 + 40, 2), (10**5, 3))]
    [64, 64, 0, 65536, 99936]
    """
    while size % (step := _VECTOR * max(1, min(threads, -(-size // _GRAIN)))):
        size -= size % step
    return size


class _Log1mExp(torch.autograd.Function):
    """`log(1 - exp(a))` for `a <= 0`, accurate at both ends, with a finite gradient."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        ctx.save_for_backward(a)
        large = torch.expm1(a).neg_().log_()
        small = torch.exp(a).neg_().log1p_()
        return torch.where(a > _LOG_HALF, large, small)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (a,) = ctx.saved_tensors
        slope = -1.0 / torch.expm1(-a.clamp(max=-1e-7))
        return grads[0] * slope


def log1mexp(a: Tensor) -> Tensor:
    """`log(1 - x)` from `a = log x`.

    >>> log1mexp(torch.tensor([0.0, -1e-9, math.log(0.25), -30.0])).exp()
    tensor([0.0000e+00, 1.0000e-09, 7.5000e-01, 1.0000e+00])
    """
    result: Tensor = _Log1mExp.apply(a)  # type: ignore[no-untyped-call]
    return result


def _product_or(a: Tensor, b: Tensor) -> Tensor:
    """`1 - (1 - x)(1 - y)`, or `x + y` where both are tiny and `xy` vanishes."""
    by_complements = log1mexp(log1mexp(a) + log1mexp(b))
    return torch.where(torch.maximum(a, b) > _TINY, by_complements, _log_sum(a, b))


def _log_sum(a: Tensor, b: Tensor) -> Tensor:
    """`log(x + y)`; two zeros have no gradient, where that of `logaddexp` is not a number."""
    if not (torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)):
        return torch.logaddexp(a, b)
    nothing = torch.maximum(a, b) == -torch.inf
    return torch.logaddexp(a.masked_fill(nothing, 0.0), b.masked_fill(nothing, 0.0)).masked_fill(
        nothing, -torch.inf
    )


def log_positive(x: Tensor) -> Tensor:
    """`log max(0, x)`, without a gradient where it is `log 0`, which would be NaN."""
    return torch.where(x > 0.0, x, 1.0).log().masked_fill(x <= 0.0, -torch.inf)


def _lukasiewicz_and(a: Tensor, b: Tensor) -> Tensor:
    """`max(0, x + y - 1)`, computed without loss near 0 and near 1.

    That is `x - (1 - y)` with the larger value complemented, or from both complements near 1.
    """
    low = torch.minimum(a, b)
    high = torch.maximum(a, b)
    short = torch.expm1(low) + torch.expm1(high)  # of both being 1
    near_one = torch.where(short > -1.0, short, 0.0).log1p().masked_fill(short <= -1.0, -torch.inf)
    elsewhere = log_positive(torch.exp(low) + torch.expm1(high))
    # With y = 1 exactly the t-norm is neutral; exp and log would round.
    result = torch.where(low > _LOG_HALF, near_one, elsewhere)
    return torch.where(high == 0.0, low, result)


def _lukasiewicz_or(a: Tensor, b: Tensor) -> Tensor:
    """`min(1, x + y)`."""
    return _log_sum(a, b).clamp(max=0.0)


def _cosine(a: Tensor) -> Tensor:
    """`½(1 + cos πx) = cos²(πx/2)`, from `x` or from `1 - x`, whichever is smaller."""
    small = torch.log1p(-torch.sin(torch.exp(a.clamp(max=_LOG_HALF)) * (math.pi / 2)).square())
    large = 2.0 * log_positive(torch.sin(-torch.expm1(a.clamp(min=_LOG_HALF)) * (math.pi / 2)))
    return torch.where(a > _LOG_HALF, large, small)


def different(left: Tensor, right: Tensor) -> Tensor:
    """The inequality of entities: `log 1` where they differ, `log 0` where they are equal."""
    same = left == right
    return torch.zeros(same.shape, device=same.device).masked_fill_(same, ZERO)


NORMS: dict[str, tuple[Binary, Binary]] = {
    "product": (torch.add, _product_or),
    "godel": (torch.minimum, torch.maximum),
    "lukasiewicz": (_lukasiewicz_and, _lukasiewicz_or),
}
NEGATIONS: dict[str, Callable[[Tensor], Tensor]] = {"standard": log1mexp, "cosine": _cosine}


@dataclass(frozen=True)
class Logic:
    """A t-norm `⊤`, its dual t-conorm `⊥` and a negation `n`, all on log-scores.

    `strength` multiplies a score (capped at 1) before it is negated: link predictors spread their
    belief thinly, so that `1 - x` alone hardly ever excludes anything. It has no part in the
    t-conorm.

    >>> logic = Logic("product")
    >>> x, y = torch.tensor(0.5).log(), torch.tensor(0.4).log()
    >>> values = logic.conjunction(x, y), logic.disjunction(x, y), logic.negation(y)
    >>> [round(value.exp().item(), 4) for value in values]
    [0.2, 0.7, 0.6]
    """

    norm: str = "product"
    negation_name: str = "standard"
    strength: float = 1.0

    def conjunction(self, a: Tensor, b: Tensor) -> Tensor:
        """`x ⊤ y`."""
        return NORMS[self.norm][0](a, b)

    def disjunction(self, a: Tensor, b: Tensor) -> Tensor:
        """`x ⊥ y = 1 - (1 - x) ⊤ (1 - y)`."""
        return NORMS[self.norm][1](a, b)

    def negation(self, a: Tensor) -> Tensor:
        """`n(min(1, strength · x))`."""
        if self.strength != 1.0:
            a = (a + math.log(self.strength)).clamp(max=0.0)
        return NEGATIONS[self.negation_name](a)

    def all(self, parts: Sequence[Tensor]) -> Tensor:
        """The conjunction of all parts."""
        return reduce(self.conjunction, parts)

    def any(self, parts: Sequence[Tensor]) -> Tensor:
        """The disjunction of all parts."""
        return reduce(self.disjunction, parts)


def gather_columns(shards: Shards, values: Tensor) -> Tensor:
    """Gather the values of all entities, `[B, n] -> [B, N]`, as exact search needs."""
    if shards.world == 1:
        return values
    widest = widest_share(shards)
    parts = shards.gathered(F.pad(values, (0, widest - values.shape[1])))  # [W, B, widest]
    spans = (share(shards.total, rank, shards.world) for rank in range(shards.world))
    return torch.cat(
        [part[:, : stop - start] for part, (start, stop) in zip(parts, spans, strict=True)], dim=1
    )


def at(shards: Shards, values: Tensor, rows: Tensor, entities: Tensor) -> Tensor:
    """The values of entities in some rows, `[B, n] x [M] x [M] -> [M]`, from any process."""
    if shards.world == 1:
        return values[rows, entities]
    local, places = shards.inside(entities)
    return shards.sum(torch.where(local, values[rows, places], 0.0))


def largest(shards: Shards, values: Tensor) -> Tensor:
    """The largest of the processes' values at each place."""
    return values if shards.world == 1 else shards.gathered(values).amax(dim=0)


def own_columns(shards: Shards, values: Tensor) -> Tensor:
    """The own columns of a table that every process has whole, `[B, N] -> [B, n]`."""
    return values[:, shards.start : shards.stop]


def check_numbers(scores: Tensor, shards: Shards) -> Tensor:
    """Check that no score is NaN, which maxima and sums propagate."""
    if math.isnan(float(shards.sum(scores.sum()))):
        raise RunError(
            "the link predictor gives scores that are not numbers; is the model damaged? train it "
            "again"
        )
    return scores


def widest_share(shards: Shards) -> int:
    """The largest number of entities of a process, which sets equal step sizes for all."""
    return -(-shards.total // shards.world)
