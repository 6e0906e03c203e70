"""Best-first search over lists: the best entities of every set of a plan, never a row of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor

from tacit.distributed.ties import best
from tacit.engine.atoms.weights_memo import Kept
from tacit.engine.logic import ZERO, Logic
from tacit.engine.reasoner import MessageReasoner
from tacit.engine.search.best_answers import BestAnswers, Wanted
from tacit.engine.search.bounds import Bounds, BoundsFold
from tacit.engine.search.row_lists import Listing, RowLists
from tacit.links.finders.finder import TopScorer
from tacit.query.plans.fold import EVERYWHERE, Place, Visitor
from tacit.query.plans.plan import Complement, Intersect, Node, Plan, Project, Relation, Row, Step, Union, anchored, has
from tacit.query.plans.traits import listable

Combination = Callable[[Sequence[Bounds], Place[Tensor]], Bounds]
_LISTED = 128  # tails of a row that are looked at
_FIRST = 4  # candidates that are expanded at first; then twice as many each time
_CANDIDATES = 64  # of a variable that are asked for at first; then four times as many each time
_EQUALS = 1024  # that are kept beyond what is asked for
_MOST = 2048  # of a variable that are asked for at all


class ListReasoner(MessageReasoner):
    """Best-first search over what a finder lists; questions that lists cannot answer go to another reasoner, over rows.

    So do the scores of all entities that an evaluation ranks, reasons, and everything once weights were written to.
    """

    def __init__(self, rows: MessageReasoner, finder: TopScorer) -> None:
        super().__init__(rows.atoms, rows.logic, rows.k)
        self.rows, self.finder, self.memory = rows, finder, rows.memory
        self._weights = Kept().now(rows.atoms.scorer)

    def batch(self, plan: Plan) -> int:
        """As many queries at once as the search over rows takes."""
        return self.rows.batch(plan)

    def explaining(self, by_scores: bool = False) -> Any:
        """What explains over rows."""
        return self.rows.explaining(by_scores)

    def _current(self) -> bool:
        """Whether nobody has written to the weights, as far as that can be seen: what finders keep is of these."""
        atoms, weights = self.rows.atoms, self._weights
        return not atoms.forgotten and weights.now(atoms.scorer) is weights and weights.believable

    def top(self, plan: Plan, entities: Tensor, relations: Tensor, wanted: Sequence[Wanted]) -> list[BestAnswers]:
        """The best answers to each query; certified where the finder knows what it has not listed."""
        if not listable(plan) or not self._current():
            return self.rows.top(plan, entities, relations, wanted)
        slots = zip(entities.tolist(), relations.tolist(), wanted, strict=True)
        return [self._listed(plan, *each) for each in slots]

    def _listed(self, plan: Plan, entities: list[int], relations: list[int], wanted: Wanted) -> BestAnswers:
        """The best answers to one query: what goes first is valued whether a search would find it or not."""
        rows, k = RowLists(self.rows.atoms, self.finder), self.rows.k or self.num_entities
        lists = Lists(rows, self.rows.logic, entities, relations, k)
        first = torch.tensor(wanted.first, dtype=torch.long)
        more = not wanted.only and (len(first) < wanted.count or wanted.least < wanted.floor)  # some may not do
        unwanted = torch.tensor(wanted.without, dtype=torch.long)
        listing = lists.top(plan.root, wanted.count + len(unwanted)) if more else Listing.empty()
        listing = listing.leaving_out(unwanted)
        unlisted = first[~torch.isin(first, listing.ids)]
        valued = lists.valued(plan.root, unlisted, wanted.least)
        # By rising id, so that equal ones are told apart by it; a row comes by logits, which are finer than scores.
        ids, order = torch.cat([listing.ids, unlisted]).sort()
        low, high = torch.cat([listing.low, valued.low])[order], torch.cat([listing.high, valued.high])[order]
        finer = -order.float() if isinstance(plan.root, Row) else None
        answers = wanted.best_among(ids, low, finer, (low, high)) if len(ids) else BestAnswers((), (), True)
        beyond, ahead, sure = listing.rest, set(wanted.first), rows.sure and not rows.estimated
        full = len(answers.ids) == wanted.count and answers.ids
        settled = beyond < answers.scores[-1] if full else beyond == ZERO or beyond < wanted.floor
        certified = bool(answers.certified) and settled and sure
        listed = zip(answers.ids[: answers.proven], answers.scores, strict=False)
        leading = len(list(takewhile(lambda each: each[0] in ahead or beyond < each[1], listed))) if sure else 0
        return BestAnswers(answers.ids, answers.scores, certified, len(lists.followed), rows.estimated, leading)


@dataclass(eq=False)
class Lists(BoundsFold[Tensor]):
    """Values the steps of a plan for one query: at some entities by the fold, and its best entities by `top`.

    A hop takes candidates by falling value, a few at a time, and stops when those that are left cannot reach what is
    asked for: with `⊤` monotone and no score above the supremum, they reach `source[next] ⊤ supremum` at most.
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
        return _Best(self, count).of(step)

    def valued(self, step: Node, ids: Tensor, floor: float = ZERO) -> Bounds:
        """Bounds of the values of a set at some entities; those below a floor need not be told apart from it."""
        return replace(self, floor=floor).of(step, Place(target=ids))

    def union(self, step: Union[Step], place: Place[Tensor]) -> Bounds:
        """The bounds of a disjunction, which is worth more than its parts, so that floors are none of theirs."""
        return super(Lists, replace(self, floor=ZERO)).union(step, place)

    def joined(self, step: Intersect[Node] | Union[Node], combine: Combination, count: int) -> Listing:
        """What is best in one of the parts, valued in all of them; the parts list more until that is enough."""
        asked, parts = max(count, _LISTED), step.parts
        while True:
            listed = [self.top(part, asked) if anchored(part) else None for part in parts]
            ids = torch.cat([listing.ids for listing in listed if listing is not None]).unique()
            # A hop is worth what its list says, at first; what may yet be among the best is valued by itself.
            known = [
                self.valued(part, ids) if listing is None or not has(part, Project) else listing.at(ids)
                for part, listing in zip(parts, listed, strict=True)
            ]
            value = combine(known, EVERYWHERE)
            cut = float(value.low.topk(count).values[-1]) if len(ids) >= count else ZERO
            open_ = ((value.high > value.low) & (value.high >= cut)).nonzero()[:, 0]
            if len(open_):
                closer = self.valued(step, ids[open_], cut)
                value = Bounds(value.low.index_put((open_,), closer.low), value.high.index_put((open_,), closer.high))
            rests = [torch.tensor(0.0 if listing is None else listing.rest) for listing in listed]
            rest = combine([Bounds(bound, bound) for bound in rests], EVERYWHERE).high
            joined = Listing(ids, value.low, value.high, float(rest))
            if joined.settled(count) or asked >= _MOST:
                return joined
            asked *= 4

    def reached(self, source: Node, relation: int, count: int) -> Listing:
        """The best targets of a hop: found in the lists of candidates, then valued from all candidates tried."""
        hop = _Expansion(self, source)
        ids, values, beyond = torch.empty(0, dtype=torch.long), torch.empty(0), ZERO
        while True:
            enough = len(values) >= count
            if hop.exhausted or (enough and hop.reach <= float(values.topk(count).values[-1])):
                break
            few = hop.next()
            if not len(few.ids):
                continue
            row_lists = self.rows.of(few.ids.tolist(), relation, max(count, _LISTED))
            rests = self.logic.conjunction(few.high, torch.tensor([row.rest for row in row_lists]))
            beyond = max(beyond, float(rests.max()))
            reached = [self.logic.conjunction(value, row.low) for value, row in zip(few.low, row_lists, strict=True)]
            ids, values = _greatest(torch.cat([ids, *(row.ids for row in row_lists)]), torch.cat([values, *reached]))
        # Known tails of one candidate are worth the same: who cuts among equals must see them all.
        equals = int((values >= values.topk(count).values[-1]).sum()) if len(values) > count else count
        places = best(values[None], min(equals, count + _EQUALS))[1][0]
        kept, left = ids[places], values.scatter(0, places, ZERO)
        valued = hop.valued(relation, kept)
        others = float(left.max()) if len(left) else ZERO
        return Listing(kept, valued.low, valued.high, max(hop.reach, beyond, others))

    def project(self, step: Project, place: Place[Tensor]) -> Bounds:
        """Values at targets; candidates are tried until none that is left can raise the lowest of them."""
        hop, relation = _Expansion(self, step.source), self.along(step.edge)
        hop.next()
        while True:
            valued = hop.valued(relation, place.end)
            if hop.exhausted or not len(valued.low) or hop.reach <= max(self.floor, float(valued.low.min())):
                return valued
            hop.next()

    def entity(self, slot: int) -> Tensor:
        return torch.tensor([self.entities[slot]])

    def relation(self, step: Relation, place: Place[Tensor]) -> Bounds:
        scores = self.rows.scores(place.start, self.along(step), place.end)[0]
        return Bounds(scores, scores)

    def strength(self, step: Complement[Step]) -> Tensor | None:
        strength = self.rows.atoms.strength(step, torch.tensor([self.relations]))
        return None if strength is None else strength[0]

    def along(self, edge: Step) -> int:
        """The relation that an edge is."""
        if not isinstance(edge, Relation):
            raise TypeError(f"no list follows from an edge of several relations: {edge!r}")
        return self.relations[edge.slot] ^ int(edge.flip)


@dataclass(frozen=True, eq=False)
class _Best(Visitor[None, Listing]):
    """Values the sets of a plan by lists of their best entities."""

    lists: Lists
    count: int

    def row(self, step: Row, place: Place[None]) -> Listing:
        lists, most = self.lists, max(self.count, _LISTED)
        return lists.rows.of([lists.entities[step.slot]], lists.along(step.edge), most)[0]

    def project(self, step: Project, place: Place[None]) -> Listing:
        return self.lists.reached(step.source, self.lists.along(step.edge), self.count)

    def intersect(self, step: Intersect[Node], place: Place[None]) -> Listing:
        return self.lists.joined(step, self.lists.all, self.count)

    def union(self, step: Union[Node], place: Place[None]) -> Listing:
        return self.lists.joined(step, self.lists.any, self.count)


class _Expansion:
    """The candidates of a hop by falling value: those that were tried, and how far those that are left can reach."""

    def __init__(self, lists: Lists, source: Node) -> None:
        self.lists, self.source, self.tried = lists, source, Listing.empty()
        self._step, self._asked = _FIRST, _CANDIDATES
        self._list()

    def _list(self) -> None:
        """Ask for candidates, and leave out what was tried."""
        listing = self.lists.top(self.source, self._asked).leaving_out(self.tried.ids)
        listing = listing[listing.high > ZERO]
        self._left = listing[torch.sort(listing.high, descending=True, stable=True).indices]

    @property
    def reach(self) -> float:
        """The highest value that can be reached from a candidate that was not tried."""
        ahead = max([self._left.rest, *self._left.high[:1].tolist()])
        return float(self.lists.logic.conjunction(torch.tensor(ahead), torch.tensor(self.lists.rows.atoms.supremum)))

    @property
    def exhausted(self) -> bool:
        """Whether there is none left to try, or no leave to."""
        none_left = not len(self._left.ids) and (self._left.rest == ZERO or self._asked >= _MOST)
        return none_left or len(self.tried.ids) >= self.lists.k

    def next(self) -> Listing:
        """The next few candidates, now tried."""
        if not len(self._left.ids):
            self._asked *= 4
            self._list()
        few, self._left = self._left[: self._step], self._left[self._step :]
        self._step *= 2
        self.lists.followed |= {(self.source, candidate) for candidate in few.ids.tolist()}
        pairs = (self.tried.ids, few.ids), (self.tried.low, few.low), (self.tried.high, few.high)
        ids, low, high = map(torch.cat, pairs)
        self.tried = Listing(ids, low, high, ZERO)
        return few

    def valued(self, relation: int, targets: Tensor) -> Bounds:
        """Bounds of the values of targets, from every candidate that was tried."""
        scores = self.lists.rows.scores(self.tried.ids, relation, targets)  # [tried, T]
        if not len(scores):
            low = high = torch.full(targets.shape, ZERO)
        else:
            ends = (self.tried.low, self.tried.high)
            low, high = (self.lists.logic.conjunction(end[:, None], scores).amax(dim=0) for end in ends)
        return Bounds(low, high.clamp(min=self.reach))


def _greatest(ids: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct ids in order, each with its greatest value."""
    distinct, places = ids.unique(return_inverse=True)
    return distinct, torch.full((len(distinct),), ZERO).scatter_reduce_(0, places, values, "amax")
