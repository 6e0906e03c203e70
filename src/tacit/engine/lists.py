"""Best-first search over lists: the algebra of plans over the best entities of every set, never over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from tacit.distributed.ties import best
from tacit.engine.bounds import Bounds, BoundsFold
from tacit.engine.logic import ZERO, Logic
from tacit.engine.row_lists import RowLists
from tacit.query.fold import EVERYWHERE, Place
from tacit.query.plan import (
    Best,
    Complement,
    Condition,
    Intersect,
    Node,
    Plan,
    Project,
    Relation,
    Row,
    Step,
    Union,
    anchored,
    walk,
)

_LISTED = 128  # tails of a row that are looked at
_FIRST = 4  # candidates that are expanded at first; then twice as many each time
_CANDIDATES = 64  # of a variable that are asked for at first; then four times as many each time
_EQUALS = 1024  # that are kept beyond what is asked for
_MOST = 2048  # of a variable that are asked for at all


@dataclass(frozen=True, eq=False)
class Listing:
    """The best entities of a fuzzy set, bounds of their values, and of the value of whatever is not listed."""

    ids: Tensor  # [n], distinct
    low: Tensor  # [n]
    high: Tensor  # [n]
    rest: float

    @classmethod
    def empty(cls) -> Listing:
        """Nothing, where nothing else has any value."""
        return cls(torch.empty(0, dtype=torch.long), torch.empty(0), torch.empty(0), ZERO)

    def leaving_out(self, ids: Tensor) -> Listing:
        """The list without some entities."""
        kept = ~torch.isin(self.ids, ids)
        return Listing(self.ids[kept], self.low[kept], self.high[kept], self.rest)

    def at(self, ids: Tensor) -> Bounds:
        """What the list says of some entities."""
        listed, order = self.ids.sort()
        places = torch.searchsorted(listed, ids).clamp(max=max(0, len(listed) - 1))
        there = listed[places] == ids if len(listed) else torch.zeros_like(ids, dtype=torch.bool)
        low, high = torch.full(ids.shape, ZERO), torch.full(ids.shape, self.rest)
        low[there], high[there] = self.low[order[places[there]]], self.high[order[places[there]]]
        return Bounds(low, high)

    def settled(self, count: int) -> bool:
        """Whether nothing that is not listed can be among the best `count`."""
        if self.rest == ZERO:
            return True
        return len(self.low) >= count and float(self.low.topk(count).values[-1]) >= self.rest


def listable(plan: Plan) -> bool:
    """Whether a plan can be answered over lists: sets held together by atoms, hops over one relation, no denied hop."""
    return anchored(plan.root) and all(map(_plain, walk(plan.root)))


def _hops(step: Step) -> bool:
    return any(isinstance(inner, Project) for inner in walk(step))


def _plain(step: Step) -> bool:
    match step:
        case Row(edge=edge) | Project(edge=edge):
            return isinstance(edge, Relation) and (not isinstance(step, Project) or anchored(step.source))
        case Complement(part):
            return not any(isinstance(inner, Project | Condition | Best) for inner in walk(part))
        case Union(parts):
            return all(map(anchored, parts)) or not any(map(anchored, parts))
        case Intersect() | Relation():
            return True
    return False


@dataclass(eq=False)
class Lists(BoundsFold[Tensor]):
    """Values the steps of a plan for one query: at some entities by the fold, and its best entities by `top`.

    A hop takes candidates by falling value, a few at a time, and stops when those that are left cannot reach what is
    asked for: with `⊤` monotone and no score above `rows.highest`, they reach `source[next] ⊤ highest` at most.
    """

    rows: RowLists
    logic: Logic
    entities: Sequence[int]
    relations: Sequence[int]
    k: int  # candidates of a hop to try at most; with more to do, what is left is not proven
    floor: float = ZERO  # what lower values of entities need not be told apart from
    followed: set[tuple[Node, int]] = field(default_factory=set)  # candidates that were tried, by where they come from

    def top(self, step: Node, count: int) -> Listing:
        """The best `count` entities of a set at least, where there are so many."""
        match step:
            case Row(slot, Relation() as edge):
                row = self.rows.of([self.entities[slot]], self._relation(edge), max(count, _LISTED))[0]
                return Listing(row.ids, row.scores, row.scores, row.rest)
            case Project(_, source, Relation() as edge):
                return self._reached(source, self._relation(edge), count)
            case Intersect(parts) | Union(parts):
                return self._joined(step, parts, count)
        raise TypeError(f"a set that has no list: {step!r}")

    def valued(self, step: Node, ids: Tensor, floor: float = ZERO) -> Bounds:
        """Bounds of the values of a set at some entities; those below a floor need not be told apart from it."""
        return replace(self, floor=floor).of(step, Place(target=ids))

    def of(self, step: Step, place: Place[Tensor] = EVERYWHERE) -> Bounds:
        """The bounds of a step; a disjunction is worth more than its parts, so that floors are none of theirs."""
        lists = replace(self, floor=ZERO) if isinstance(step, Union) else self
        return super(Lists, lists).of(step, place)

    def _joined(self, step: Node, parts: Sequence[Node], count: int) -> Listing:
        """What is best in one of the parts, valued in all of them; the parts list more until that is enough."""
        asked, place = max(count, _LISTED), EVERYWHERE
        combine = self.all if isinstance(step, Intersect) else self.any
        while True:
            listed = [self.top(part, asked) if anchored(part) else None for part in parts]
            ids = torch.cat([listing.ids for listing in listed if listing is not None]).unique()
            # A hop is worth what its list says, at first; what may yet be among the best is valued by itself.
            known = [
                self.valued(part, ids) if listing is None or not _hops(part) else listing.at(ids)
                for part, listing in zip(parts, listed, strict=True)
            ]
            value = combine(known, place)
            cut = float(value.low.topk(count).values[-1]) if len(ids) >= count else ZERO
            open_ = ((value.high > value.low) & (value.high >= cut)).nonzero()[:, 0]
            if len(open_):
                closer = self.valued(step, ids[open_], cut)
                value = Bounds(value.low.index_put((open_,), closer.low), value.high.index_put((open_,), closer.high))
            rests = [torch.tensor(0.0 if listing is None else listing.rest) for listing in listed]
            rest = combine([Bounds(bound, bound) for bound in rests], place).high
            joined = Listing(ids, value.low, value.high, float(rest))
            if joined.settled(count) or asked >= _MOST:
                return joined
            asked *= 4

    def _reached(self, source: Node, relation: int, count: int) -> Listing:
        """The best targets of a hop: found in the lists of candidates, then valued from all candidates tried."""
        hop = _Expansion(self, source)
        ids, values, beyond = torch.empty(0, dtype=torch.long), torch.empty(0), ZERO
        while True:
            enough = len(values) >= count
            if hop.exhausted or (enough and hop.reach <= float(values.topk(count).values[-1])):
                break
            few, low, high = hop.next()
            if not len(few):
                continue
            found = self.rows.of(few.tolist(), relation, max(count, _LISTED))
            rests = self.logic.conjunction(high, torch.tensor([row.rest for row in found]))
            beyond = max(beyond, float(rests.max()))
            reached = [self.logic.conjunction(value, row.scores) for value, row in zip(low, found, strict=True)]
            ids, values = _greatest(torch.cat([ids, *(row.ids for row in found)]), torch.cat([values, *reached]))
        # Known tails of one candidate are worth the same: who cuts among equals must see them all.
        equals = int((values >= values.topk(count).values[-1]).sum()) if len(values) > count else count
        places = best(values[None], min(equals, count + _EQUALS))[1][0]
        kept, left = ids[places], values.scatter(0, places, ZERO)
        valued = hop.valued(relation, kept)
        others = float(left.max()) if len(left) else ZERO
        return Listing(kept, valued.low, valued.high, max(hop.reach, beyond, others))

    def project(self, step: Project, place: Place[Tensor]) -> Bounds:
        """Values at targets; candidates are tried until none that is left can raise the lowest of them."""
        if place.target is None or not isinstance(step.edge, Relation):
            raise TypeError("a hop is valued at entities")
        hop, relation = _Expansion(self, step.source), self._relation(step.edge)
        hop.next()
        while True:
            valued = hop.valued(relation, place.target)
            if hop.exhausted or not len(valued.low) or hop.reach <= max(self.floor, float(valued.low.min())):
                return valued
            hop.next()

    def entity(self, slot: int) -> Tensor:
        return torch.tensor([self.entities[slot]])

    def relation(self, step: Relation, source: Tensor, target: Tensor | None) -> Bounds:
        if target is None:
            raise TypeError("an atom is valued between entities")
        scores = self.rows.scores(source, self._relation(step), target)[0]
        return Bounds(scores, scores)

    def strength(self, step: Complement[Any]) -> Tensor | None:
        strength = self.rows.atoms.strength(step, torch.tensor([self.relations]))
        return None if strength is None else strength[0]

    def _relation(self, edge: Relation) -> int:
        return self.relations[edge.slot] ^ int(edge.flip)


class _Expansion:
    """The candidates of a hop by falling value: those that were tried, and how far those that are left can reach."""

    def __init__(self, lists: Lists, source: Node) -> None:
        self.lists, self.source = lists, source
        self.ids, self.low, self.high = torch.empty(0, dtype=torch.long), torch.empty(0), torch.empty(0)  # tried
        self._step, self._asked = _FIRST, _CANDIDATES
        self._list()

    def _list(self) -> None:
        """Ask for candidates, and leave out what was tried."""
        listing = self.lists.top(self.source, self._asked)
        fresh = ~torch.isin(listing.ids, self.ids) & (listing.high > ZERO)
        order = torch.sort(listing.high[fresh], descending=True, stable=True).indices
        self._left = [part[fresh][order] for part in (listing.ids, listing.low, listing.high)]
        self._rest = listing.rest

    @property
    def reach(self) -> float:
        """The highest value that can be reached from a candidate that was not tried."""
        ahead = max(self._rest, float(self._left[2][0]) if len(self._left[2]) else ZERO)
        return float(self.lists.logic.conjunction(torch.tensor(ahead), torch.tensor(self.lists.rows.highest)))

    @property
    def exhausted(self) -> bool:
        """Whether there is none left to try, or no leave to."""
        none_left = not len(self._left[0]) and (self._rest == ZERO or self._asked >= _MOST)
        return none_left or len(self.ids) >= self.lists.k

    def next(self) -> tuple[Tensor, Tensor, Tensor]:
        """The next few candidates, now tried: ids and bounds of their values."""
        if not len(self._left[0]):
            self._asked *= 4
            self._list()
        ids, low, high = (part[: self._step] for part in self._left)
        self._left = [part[self._step :] for part in self._left]
        self._step *= 2
        self.lists.followed |= {(self.source, candidate) for candidate in ids.tolist()}
        self.ids, self.low, self.high = (
            torch.cat([self.ids, ids]),
            torch.cat([self.low, low]),
            torch.cat([self.high, high]),
        )
        return ids, low, high

    def valued(self, relation: int, targets: Tensor) -> Bounds:
        """Bounds of the values of targets, from every candidate that was tried."""
        scores = self.lists.rows.scores(self.ids, relation, targets)  # [tried, T]
        conjunction = self.lists.logic.conjunction
        low = conjunction(self.low[:, None], scores).amax(dim=0) if len(scores) else torch.full(targets.shape, ZERO)
        high = conjunction(self.high[:, None], scores).amax(dim=0) if len(scores) else low
        return Bounds(low, high.clamp(min=self.reach))


def _greatest(ids: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct ids in order, each with its greatest value."""
    distinct, places = ids.unique(return_inverse=True)
    return distinct, torch.full((len(distinct),), ZERO).scatter_reduce_(0, places, values, "amax")
