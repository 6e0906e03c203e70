"""Which answers a list holds, in which order, and whether bounds on their scores prove it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

ZERO = float("-inf")
_ROUNDING = 1.0 - 1e-6  # log-scores that differ by less than this factor are one


@dataclass(frozen=True)
class Found:
    """The best answers to a query, best first, with their log-scores."""

    ids: Sequence[int]
    scores: Sequence[float]
    certified: bool | None = None  # whether these are provably what exact search finds; None where nobody looked
    rows: int | None = None  # how many candidates were followed, each by a row of scores; None where nobody counted
    estimated: bool = False  # whether scores rest on sums that were estimated


@dataclass(frozen=True)
class Wanted:
    """How many answers are wanted, which of them go before all others, worth at least so much, and which are none.

    Neither is one whose log-score is below the `floor`, not even of the first; with `only`, there are no others.
    """

    count: int
    first: Sequence[int] = ()
    least: float = ZERO
    without: Sequence[int] = ()
    floor: float = ZERO
    only: bool = False

    def found(self, scores: Tensor, finer: Tensor | None = None, bounds: tuple[Tensor, Tensor] | None = None) -> Found:
        """The answers by scores `[N]`, certified where lower and upper bounds of the exact ones are given and allow it.

        `finer` values decide between equal scores.
        """
        scores = self.lifted(scores)
        ids = self.order(scores, finer)
        if bounds is None:
            return Found(ids, scores[ids].tolist())
        lower, upper = map(self.lifted, bounds)
        certified = self.in_the_way(lower, upper, ids) is None
        return Found(ids, scores[ids].tolist(), certified)

    def proven_or_beam(self, scores: Tensor, lower: Tensor, upper: Tensor) -> Found:
        """The answers that bounds prove; else those of a beam with these scores, whose own order is that of known
        answers which it has dropped: they tie at what they are worth at least.
        """
        found = self.found(scores, bounds=(lower, upper))
        return found if found.certified else replace(self.found(scores, scores), certified=False)

    def lifted(self, scores: Tensor) -> Tensor:
        """Scores with those that go first at what they are worth at least, whatever a beam has dropped.

        What is not wanted has none.
        """
        if self.without:
            scores = scores.index_fill(0, torch.tensor(self.without, device=scores.device), ZERO)
        ids = torch.tensor(self.first, dtype=torch.long, device=scores.device)
        if self.first:
            scores = scores.index_put((ids,), scores[ids].clamp(min=self.least))
        if self.only:
            scores = torch.full_like(scores, ZERO).index_put((ids,), scores[ids])
        return scores if self.floor == ZERO else scores.masked_fill(scores < self.floor, ZERO)

    def order(self, scores: Tensor, finer: Tensor | None = None) -> list[int]:
        """The ids of the best scores, those to come first before all others; of equal ones by their finer values,
        then by id. What has no score is no answer.
        """
        if not self.count:
            return []
        finer = scores if finer is None else finer
        ahead = torch.tensor(self.first, dtype=torch.long, device=scores.device)
        ids = _sorted(ahead.sort().values, scores, finer)
        if len(ids) < self.count and len(scores):
            rest = scores.index_fill(0, ahead, ZERO)
            cut = rest.topk(min(self.count - len(ids), len(rest))).values[-1]
            ids += _sorted((rest >= cut).nonzero()[:, 0] if cut > ZERO else (rest > ZERO).nonzero()[:, 0], rest, finer)
        return ids[: self.count]

    def in_the_way(self, lower: Tensor, upper: Tensor, ids: list[int]) -> int | None:
        """The entity whose score must be known better before a list is proven; None where it is.

        The list is proven where the scores in it are exact and nothing else could come before its last, ties by id
        included. What goes first is known completely.
        """
        if not self.count or not len(lower):
            return None
        rivals = unsettled(lower, upper)
        listed = torch.tensor(ids, dtype=torch.long, device=lower.device)
        inexact = rivals[listed]
        if len(ids) == self.count:
            last, places = ids[-1], torch.arange(len(lower), device=lower.device)
            better = (upper > lower[last]) | ((upper == lower[last]) & (places < last))
            ahead = torch.zeros_like(rivals)
            ahead[torch.tensor(self.first, dtype=torch.long, device=lower.device)] = True
            rivals &= better & ahead if bool(ahead[last]) else better | ahead
        rivals[listed] = inexact
        highest = int(upper.masked_fill(~rivals, ZERO).argmax())
        return highest if bool(rivals[highest]) else None


def unsettled(lower: Tensor, upper: Tensor) -> Tensor:
    """Where bounds of log-scores leave more open than rounding does."""
    return upper > lower * _ROUNDING


def _sorted(ids: Tensor, scores: Tensor, finer: Tensor) -> list[int]:
    ids = ids[scores[ids] > ZERO]
    ids = ids[finer[ids].argsort(descending=True, stable=True)]
    best: list[int] = ids[scores[ids].argsort(descending=True, stable=True)].tolist()
    return best
