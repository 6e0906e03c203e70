"""Which answers a list holds, in which order, and whether bounds on their scores prove it."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.distributed.shards import Shards
from tacit.engine.logic import ZERO, gather_columns

_ROUNDING = 1.0 - 1e-6  # log-scores that differ by less than this factor are one
_BLUR = 1.0 - 3e-6  # by which two searches may differ, in the last bits of logits near 1


@dataclass(frozen=True)
class TopKResult:
    """The best answers to a query, best first, with their log-scores."""

    ids: Sequence[int]
    scores: Sequence[float]
    certified: bool | None = (
        None  # whether these are provably what exact search finds; None where nobody looked
    )
    rows: int | None = None  # how many candidates were expanded; None where nobody counted
    estimated: bool = False  # whether scores rest on sums that were estimated
    leading: int = 0  # how many of the first answers are proven of a list that is not

    @property
    def proven(self) -> int | None:
        """How many of the first answers are proven to be those of exact search, in order.

        None where nobody looked.
        """
        return None if self.certified is None else len(self.ids) if self.certified else self.leading


@dataclass(frozen=True)
class TopKRequest:
    """The number of answers to list, those that go before all others, and those that are none.

    The `first` are worth at least `least`. No answer has a log-score below the `floor`, not even
    one of these; with `only`, there are no others.
    """

    count: int
    first: Sequence[int] = ()
    least: float = ZERO
    without: Sequence[int] = ()
    floor: float = ZERO
    only: bool = False

    def best(
        self,
        scores: Tensor,
        finer: Tensor | None = None,
        bounds: tuple[Tensor, Tensor] | None = None,
    ) -> TopKResult:
        """List the answers by scores `[N]`, certified where bounds of the exact ones allow it.

        `finer` values decide between equal scores of those that do not go first.
        """
        scores = self.lifted(scores)
        finer = self.finer_of_others(finer)
        ids = self.order(scores, finer)
        if bounds is None:
            return TopKResult(ids, scores[ids].tolist())
        lower, upper = map(self.lifted, bounds)
        doubtful = None if bounds[0] is bounds[1] else self.first_doubtful(*bounds, ids)
        certified = doubtful is None and self.blocking_entity(lower, upper, ids) is None
        leading = (
            0
            if certified
            else self._leading(lower, upper, shared(ids, self.order(lower, finer))[:doubtful])
        )
        return TopKResult(ids, scores[ids].tolist(), certified, leading=leading)

    def best_among(
        self,
        ids: Tensor,
        scores: Tensor,
        finer: Tensor | None = None,
        bounds: tuple[Tensor, Tensor] | None = None,
    ) -> TopKResult:
        """List the answers among some entities by rising id, `[n]`."""
        columns = (torch.tensor(group, dtype=torch.long) for group in (self.first, self.without))
        first, without = (torch.isin(ids, group).nonzero()[:, 0].tolist() for group in columns)
        listing = replace(self, first=first, without=without).best(scores, finer, bounds)
        return replace(listing, ids=ids[list(listing.ids)].tolist())

    def finer_of_others(self, finer: Tensor | None) -> Tensor | None:
        """The finer values, with one for all that go first, since exact search ties these."""
        if finer is None or not self.first:
            return finer
        return finer.index_fill(
            0, torch.tensor(self.first, dtype=torch.long, device=finer.device), 0.0
        )

    def lifted(self, scores: Tensor) -> Tensor:
        """Lift the scores of what goes first to `least`, and remove those of what is no answer."""
        if self.without:
            scores = scores.index_fill(0, torch.tensor(self.without, device=scores.device), ZERO)
        ids = torch.tensor(self.first, dtype=torch.long, device=scores.device)
        if self.first:
            scores = scores.index_put((ids,), at_least(self.least, scores[ids]))
        if self.only:
            scores = torch.full_like(scores, ZERO).index_put((ids,), scores[ids])
        return scores if self.floor == ZERO else scores.masked_fill(scores < self.floor, ZERO)

    def order(self, scores: Tensor, finer: Tensor | None = None) -> list[int]:
        """List the ids of the best scores, `first` before all others.

        Equal scores come by their finer values, then by id. What has no score is no answer.
        """
        if not self.count:
            return []
        finer = scores if finer is None else finer
        ahead = torch.tensor(self.first, dtype=torch.long, device=scores.device)
        ids = _sorted(ahead.sort().values, scores, finer)
        if len(ids) < self.count and len(scores):
            others = scores.index_fill(0, ahead, ZERO)
            cut = others.topk(min(self.count - len(ids), len(others))).values[-1]
            above = others >= cut if cut > ZERO else others > ZERO
            ids += _sorted(above.nonzero()[:, 0], others, finer)
        return ids[: self.count]

    def blocking_entity(self, lower: Tensor, upper: Tensor, ids: list[int]) -> int | None:
        """The entity whose score must be known better before a list is proven; None where it is.

        The list is proven where the scores in it are exact and nothing else could come before its
        last, ties by id included. What goes first is known completely.
        """
        if not self.count or not len(lower):
            return None
        rivals = unsettled(lower, upper)
        listed = torch.tensor(ids, dtype=torch.long, device=lower.device)
        inexact = rivals[listed]
        if len(ids) == self.count:
            last = ids[-1]
            places = torch.arange(len(lower), device=lower.device)
            better = (upper * _BLUR > lower[last]) & (
                upper != lower[last]
            )  # whatever rounding does
            better |= (upper == lower[last]) & (places < last)
            ahead = self.ahead(lower)
            rivals &= better & ahead if bool(ahead[last]) else better | ahead
        rivals[listed] = inexact
        highest = int(upper.masked_fill(~rivals, ZERO).argmax())
        return highest if bool(rivals[highest]) else None

    def first_doubtful(self, lower: Tensor, upper: Tensor, ids: list[int]) -> int | None:
        """The place of the first answer that rounding alone sets apart from others or the floor.

        Exact search, which adds in another order, may list such answers the other way round.
        """
        values, upper = map(replace(self, floor=ZERO).lifted, (lower, upper))
        places = list[int]()
        rounded = (upper != values) & ~unsettled(values, upper)
        ahead = self.ahead(values)
        listed = torch.tensor(ids, dtype=torch.long, device=values.device)
        for group in (ahead, ~ahead):
            at = group[listed].nonzero()[:, 0]
            if len(at):
                mine = values[listed[at]]
                near = group & ~(values * _BLUR < mine[-1])
                places += at[
                    torch.isin(mine, blurred(torch.cat([values[near], upper[near & rounded]])))
                ][:1].tolist()
        near = within_rounding(values, values.new_tensor(self.floor)) & (values != self.least)
        if self.floor > ZERO and bool(near.any()):
            places += near[listed].nonzero()[:1, 0].tolist()
            places += [len(ids)] if len(ids) < self.count else []
        return min(places, default=None)

    def blocking_entity_of(self, lower: Tensor, upper: Tensor) -> int | None:
        """The same for the list that lower bounds make, of scores that are not lifted."""
        lower = self.lifted(lower)
        upper = self.lifted(upper)
        return self.blocking_entity(lower, upper, self.order(lower))

    def _leading(self, lower: Tensor, upper: Tensor, ids: list[int]) -> int:
        """How many of the first answers, by falling lower bounds, would be proven as a list."""

        def open_(count: int) -> bool:
            return replace(self, count=count).blocking_entity(lower, upper, ids[:count]) is not None

        return bisect(range(1, len(ids) + 1), False, key=open_)

    def ahead(self, values: Tensor) -> Tensor:
        """Which entities go first, `[N]`."""
        ahead = torch.zeros_like(values, dtype=torch.bool)
        ahead[torch.tensor(self.first, dtype=torch.long, device=values.device)] = True
        return ahead


def shared(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """The longest common prefix of two lists.

    >>> shared([3, 1, 2], [3, 1, 5, 2])
    [3, 1]
    """
    return [
        a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    ]


def unsettled(lower: Tensor, upper: Tensor) -> Tensor:
    """Whether bounds of log-scores leave more open than rounding does."""
    return upper > lower * _ROUNDING


def within_rounding(scores: Tensor, others: Tensor) -> Tensor:
    """Where rounding may have set log-scores apart, if anything has."""
    return torch.maximum(scores, others) <= torch.minimum(scores, others) * _BLUR


def blurred(values: Tensor) -> Tensor:
    """Those of some values that rounding alone may set apart from others of them."""
    levels: Tensor = values.unique()
    near = within_rounding(levels[:-1], levels[1:])
    return levels[F.pad(near, (0, 1)) | F.pad(near, (1, 0))] if len(levels) else levels


def certainly_below(score: float, other: float) -> bool:
    """Whether a log-score is lower than another, whatever rounding does; no score always is."""
    return score == ZERO or score * _BLUR < other


def is_loose(lower: float, upper: float) -> bool:
    """Whether bounds of one value leave more open than rounding does."""
    return bool(unsettled(torch.tensor(lower), torch.tensor(upper)))


def at_least(least: float, scores: Tensor) -> Tensor:
    """Raise scores to a least one, to just that where only rounding differs, so that they tie."""
    return torch.where(unsettled(scores.new_tensor(least), scores), scores, least)


def _sorted(ids: Tensor, scores: Tensor, finer: Tensor) -> list[int]:
    ids = ids[scores[ids] > ZERO]
    ids = ids[finer[ids].argsort(descending=True, stable=True)]
    best: list[int] = ids[scores[ids].argsort(descending=True, stable=True)].tolist()
    return best


def best_answers(
    shards: Shards,
    request: TopKRequest,
    scores: Tensor,
    finer: Tensor | None = None,
    bounds: tuple[Tensor, Tensor] | None = None,
) -> TopKResult:
    """List the answers by sharded scores `[n]`, as `TopKRequest.best` does.

    The best of every process decide as all entities would. Bounds, which are rarely needed, are
    gathered whole.
    """
    if shards.world == 1:
        return request.best(scores, finer, bounds)
    if bounds is not None:
        tables = torch.stack([scores, scores if finer is None else finer, *bounds])
        scores, order, low, high = gather_columns(shards, tables).unbind()
        return request.best(scores, None if finer is None else order, (low, high))
    first, without = (_own_columns(shards, ids) for ids in (request.first, request.without))
    own = replace(request, first=first, without=without)
    columns = torch.tensor(
        own.order(own.lifted(scores), own.finer_of_others(finer)), dtype=torch.long
    )
    rows = torch.stack(
        [table[columns] for table in ([scores] if finer is None else [scores, finer])]
    )
    missing = request.count - len(columns)
    ids = shards.gathered(F.pad(columns + shards.start, (0, missing), value=-1)).flatten()
    values = shards.gathered(F.pad(rows, (0, missing))).transpose(0, 1).flatten(1)
    listed, order = ids.sort()
    order = order[listed >= 0]
    return request.best_among(ids[order], *values[:, order])


def _own_columns(shards: Shards, ids: Sequence[int]) -> list[int]:
    """The columns of the entities that this process holds."""
    local, places = shards.inside(torch.tensor(ids, dtype=torch.long))
    columns: list[int] = places[local].tolist()
    return columns
