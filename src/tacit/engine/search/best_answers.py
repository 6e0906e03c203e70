"""Which answers a list holds, in which order, and whether bounds on their scores prove it."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import torch
from torch import Tensor

from tacit.engine.logic import ZERO

_ROUNDING = 1.0 - 1e-6  # log-scores that differ by less than this factor are one


@dataclass(frozen=True)
class BestAnswers:
    """The best answers to a query, best first, with their log-scores."""

    ids: Sequence[int]
    scores: Sequence[float]
    certified: bool | None = None  # whether these are provably what exact search finds; None where nobody looked
    rows: int | None = None  # how many candidates were followed, each by a row of scores; None where nobody counted
    estimated: bool = False  # whether scores rest on sums that were estimated
    leading: int = 0  # how many of the first answers are proven of a list that is not

    @property
    def proven(self) -> int | None:
        """How many of the first answers are provably those of exact search, in order and with their scores; None where
        nobody looked.
        """
        return None if self.certified is None else len(self.ids) if self.certified else self.leading


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

    def best(
        self, scores: Tensor, finer: Tensor | None = None, bounds: tuple[Tensor, Tensor] | None = None
    ) -> BestAnswers:
        """The answers by scores `[N]`, certified where lower and upper bounds of the exact ones are given and allow it.

        `finer` values decide between equal scores.
        """
        scores = self.lifted(scores)
        ids = self.order(scores, finer)
        if bounds is None:
            return BestAnswers(ids, scores[ids].tolist())
        lower, upper = map(self.lifted, bounds)
        certified = self.in_the_way(lower, upper, ids) is None
        leading = 0 if certified else self._leading(lower, upper, shared(ids, self.order(lower, finer)))
        return BestAnswers(ids, scores[ids].tolist(), certified, leading=leading)

    def best_among(
        self, ids: Tensor, scores: Tensor, finer: Tensor | None = None, bounds: tuple[Tensor, Tensor] | None = None
    ) -> BestAnswers:
        """The answers among some entities by rising id, `[n]`, of which alone anything is known."""
        given = (torch.tensor(group, dtype=torch.long) for group in (self.first, self.without))
        first, without = (torch.isin(ids, group).nonzero()[:, 0].tolist() for group in given)
        listing = replace(self, first=first, without=without).best(scores, finer, bounds)
        return replace(listing, ids=ids[list(listing.ids)].tolist())

    def proven_or_beam(self, scores: Tensor, lower: Tensor, upper: Tensor) -> BestAnswers:
        """The answers that bounds prove; else those of a beam with these scores, whose own order is that of known
        answers which it has dropped: they tie at what they are worth at least.
        """
        listing = self.best(scores, bounds=(lower, upper))
        if listing.certified or not self.first:
            return listing
        beam = self.best(scores, scores)
        return replace(beam, certified=False, leading=len(shared(beam.ids, listing.ids[: listing.leading])))

    def lifted(self, scores: Tensor) -> Tensor:
        """Scores with those that go first at what they are worth at least, whatever a beam has dropped.

        What is not wanted has none.
        """
        if self.without:
            scores = scores.index_fill(0, torch.tensor(self.without, device=scores.device), ZERO)
        ids = torch.tensor(self.first, dtype=torch.long, device=scores.device)
        if self.first:
            scores = scores.index_put((ids,), at_least(self.least, scores[ids]))
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
            ahead = self.ahead(lower)
            rivals &= better & ahead if bool(ahead[last]) else better | ahead
        rivals[listed] = inexact
        highest = int(upper.masked_fill(~rivals, ZERO).argmax())
        return highest if bool(rivals[highest]) else None

    def _leading(self, lower: Tensor, upper: Tensor, ids: list[int]) -> int:
        """How many of the first answers, which are in the order of lower bounds, would be proven as a list."""

        def open_(count: int) -> bool:
            return replace(self, count=count).in_the_way(lower, upper, ids[:count]) is not None

        return bisect(range(1, len(ids) + 1), False, key=open_)

    def ahead(self, values: Tensor) -> Tensor:
        """Which entities go first, `[N]`."""
        ahead = torch.zeros_like(values, dtype=torch.bool)
        ahead[torch.tensor(self.first, dtype=torch.long, device=values.device)] = True
        return ahead


def shared(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """What two lists begin with alike.

    >>> shared([3, 1, 2], [3, 1, 5, 2])
    [3, 1]
    """
    return [a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))]


def unsettled(lower: Tensor, upper: Tensor) -> Tensor:
    """Where bounds of log-scores leave more open than rounding does."""
    return upper > lower * _ROUNDING


def loose(lower: float, upper: float) -> bool:
    """Whether bounds of one value leave more open than rounding does."""
    return bool(unsettled(torch.tensor(lower), torch.tensor(upper)))


def at_least(least: float, scores: Tensor) -> Tensor:
    """Scores of what is worth so much at least, and just that where only rounding tells them apart: they are ties."""
    return torch.where(unsettled(scores.new_tensor(least), scores), scores, least)


def _sorted(ids: Tensor, scores: Tensor, finer: Tensor) -> list[int]:
    ids = ids[scores[ids] > ZERO]
    ids = ids[finer[ids].argsort(descending=True, stable=True)]
    best: list[int] = ids[scores[ids].argsort(descending=True, stable=True)].tolist()
    return best
