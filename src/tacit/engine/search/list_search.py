"""Best-first search over lists: the best entities of every set, without whole rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, cast

import torch
from torch import Tensor

from tacit.distributed.ties import best
from tacit.engine.atoms.derived_weights import WeightCache
from tacit.engine.logic import ZERO, Logic, different
from tacit.engine.search.bounded_evaluator import Bounds, BoundsFold
from tacit.engine.search.message_reasoner import MessageReasoner
from tacit.engine.search.row_lists import Listing, RowLists
from tacit.engine.top_k import TopKRequest, TopKResult, certainly_below
from tacit.links.retrievers import TopKRetriever
from tacit.query.plans.fold import EvalContext
from tacit.query.plans.plan import (
    Intersect,
    Node,
    Plan,
    Project,
    Relation,
    Row,
    Step,
    Unequal,
    Union,
    anchored,
    has,
)
from tacit.query.plans.traits import listable

_LISTED = 128  # tails listed of a row
_FIRST = 4  # candidates expanded at first; then twice as many each time
_CANDIDATES = 64  # candidates listed at first; then four times as many each time
_EQUALS = 1024  # ties kept beyond the requested number
_MOST = 2048  # candidates listed of a variable, at most


class ListReasoner(MessageReasoner):
    """Best-first search over lists from a retriever; a reasoner over rows does the rest.

    The rest is other plans, scores of all entities, reasons, and everything once weights changed.
    """

    def __init__(self, rows: MessageReasoner, retriever: TopKRetriever) -> None:
        super().__init__(rows.atoms, rows.logic, rows.k)
        self.rows = rows
        self.retriever = retriever
        self.memory = rows.memory
        self._weights = WeightCache().now(rows.atoms.scorer)

    def batch(self, plan: Plan) -> int:
        """How many queries of a plan to run at once: as many as over rows."""
        return self.rows.batch(plan)

    def explaining(self, by_scores: bool = False) -> Any:
        """Return the reasoner over rows that explains answers."""
        return self.rows.explaining(by_scores)

    def _is_current(self) -> bool:
        """Whether the weights are those that the retriever has read, as far as visible."""
        atoms = self.rows.atoms
        weights = self._weights
        unwritten = weights.now(atoms.scorer) is weights and weights.believable
        return unwritten and not atoms.weights.forgotten

    def top(
        self, plan: Plan, entities: Tensor, relations: Tensor, requests: Sequence[TopKRequest]
    ) -> list[TopKResult]:
        """List the best answers, certified where the retriever bounds what it leaves out."""
        if not listable(plan) or not self._is_current():
            return self.rows.top(plan, entities, relations, requests)
        slots = zip(entities.tolist(), relations.tolist(), requests, strict=True)
        return [self._list_best(plan, *each) for each in slots]

    def _list_best(
        self, plan: Plan, entities: list[int], relations: list[int], request: TopKRequest
    ) -> TopKResult:
        """List the best answers to one query; requested first ones are valued anyway."""
        rows = RowLists(self.rows.atoms, self.retriever)
        k = self.rows.k or self.num_entities
        lists = Lists(rows, self.rows.logic, entities, relations, k)
        first = torch.tensor(request.first, dtype=torch.long)
        enough = len(first) >= request.count and request.least >= request.floor
        more = not request.only and not enough
        excluded = torch.tensor(request.without, dtype=torch.long)
        listing = lists.top(plan.root, request.count + len(excluded)) if more else Listing.empty()
        listing = listing.without(excluded)
        unlisted = first[~torch.isin(first, listing.ids)]
        valued = lists.bound_values(plan.root, unlisted, request.least)
        # Rising ids break ties; a row is listed by logits, which are finer than scores.
        ids, order = torch.cat([listing.ids, unlisted]).sort()
        low = torch.cat([listing.low, valued.low])[order]
        high = torch.cat([listing.high, valued.high])[order]
        finer = -order.float() if isinstance(plan.root, Row) else None
        answers = request.best_among(ids, low, finer, (low, high))
        beyond = listing.bound
        ahead = set(request.first)
        sure = rows.sure and not rows.estimated
        full = len(answers.ids) == request.count and answers.ids
        closed = certainly_below(beyond, answers.scores[-1] if full else request.floor)
        certified = bool(answers.certified) and closed and sure
        if self.exact and sure and not certified:  # only rounding is open
            (evaluated,) = self.rows.top(
                plan, torch.tensor([entities]), torch.tensor([relations]), [request]
            )
            return replace(evaluated, rows=len(lists.expanded))
        listed = zip(answers.ids[: answers.proven], answers.scores, strict=False)
        sound = takewhile(lambda each: each[0] in ahead or certainly_below(beyond, each[1]), listed)
        leading = len(list(sound)) if sure else 0
        return TopKResult(
            answers.ids, answers.scores, certified, len(lists.expanded), rows.estimated, leading
        )


@dataclass(eq=False)
class Lists(BoundsFold[Tensor]):
    """Values the steps of a plan for one query: `of` bounds given entities, `top` lists the best.

    A hop takes candidates by falling value, a few at a time, and stops when the others cannot lead
    to the best entities: they lead to `source[next] ⊤ supremum` at most.
    """

    rows: RowLists
    logic: Logic
    entities: Sequence[int]
    relations: Sequence[int]
    k: int  # candidates of a hop to expand at most; beyond them nothing is proven
    floor: float = ZERO  # lower values need no exact bounds
    # expanded candidates, by their set
    expanded: set[tuple[Node, int]] = field(default_factory=set)

    def top(self, step: Node, count: int) -> Listing:
        """List the best `count` entities of a set at least, as far as it has so many."""
        match step:
            case Row(slot, edge):
                most = max(count, _LISTED)
                return self.rows.of([self.entities[slot]], self.along(edge), most)[0]
            case Project(_, source, edge):
                return self.list_targets(source, self.along(edge), count)
            case Intersect():
                return self.join_parts(step, self.all, count)
        # `listable` refuses other steps
        return self.join_parts(cast("Union[Node]", step), self.any, count)

    def bound_values(self, step: Node, ids: Tensor, floor: float = ZERO) -> Bounds:
        """Bound the values of a set at some entities, those below a floor by the floor."""
        return replace(self, floor=floor).of(step, EvalContext(target=ids))

    def union(self, step: Union[Step], place: EvalContext[Tensor]) -> Bounds:
        """Bound a disjunction; its parts have no floor, since it is worth more than each."""
        return super(Lists, replace(self, floor=ZERO)).union(step, place)

    def join_parts(
        self,
        step: Intersect[Node] | Union[Node],
        combine: Callable[[Sequence[Bounds]], Bounds],
        count: int,
    ) -> Listing:
        """List the best of each part, valued in all; lists grow until that is enough."""
        size = max(count, _LISTED)
        parts = step.parts
        while True:
            listed = [self.top(part, size) if anchored(part) else None for part in parts]
            ids = torch.cat([listing.ids for listing in listed if listing is not None]).unique()
            # Lists bound hops at first; entities that this leaves open are valued one by one.
            known = [
                self.bound_values(part, ids)
                if listing is None or not has(part, Project)
                else listing.at(ids)
                for part, listing in zip(parts, listed, strict=True)
            ]
            value = combine(known)
            cut = float(value.low.topk(count).values[-1]) if len(ids) >= count else ZERO
            open_ = ((value.high > value.low) & (value.high >= cut)).nonzero()[:, 0]
            if len(open_):
                tightened = self.bound_values(step, ids[open_], cut)
                value = Bounds(
                    value.low.index_put((open_,), tightened.low),
                    value.high.index_put((open_,), tightened.high),
                )
            others = [torch.tensor(0.0 if each is None else each.bound) for each in listed]
            bound = combine([Bounds.exactly(other) for other in others]).high
            joined = Listing(ids, value.low, value.high, float(bound))
            if joined.is_decided(count) or size >= _MOST:
                return joined
            size *= 4

    def list_targets(self, source: Node, relation: int, count: int) -> Listing:
        """List the best targets of a hop, valued from all expanded candidates."""
        hop = _Expansion(self, source)
        ids = torch.empty(0, dtype=torch.long)
        values = torch.empty(0)
        beyond = ZERO
        while True:
            enough = len(values) >= count
            if hop.exhausted or (enough and hop.reach <= float(values.topk(count).values[-1])):
                break
            few = hop.next()
            if not len(few.ids):
                continue
            row_lists = self.rows.of(few.ids.tolist(), relation, max(count, _LISTED))
            bounds = torch.tensor([row.bound for row in row_lists])
            beyond = max(beyond, float(self.logic.conjunction(few.high, bounds).max()))
            through = [
                self.logic.conjunction(value, row.low)
                for value, row in zip(few.low, row_lists, strict=True)
            ]
            ids, values = _greatest(
                torch.cat([ids, *(row.ids for row in row_lists)]), torch.cat([values, *through])
            )
        # Known tails of one candidate tie, and ties are broken later, so all are listed.
        equals = (
            int((values >= values.topk(count).values[-1]).sum()) if len(values) > count else count
        )
        places = best(values[None], min(equals, count + _EQUALS))[1][0]
        listed = ids[places]
        unlisted = values.scatter(0, places, ZERO)
        valued = hop.bound_targets(relation, listed)
        others = float(unlisted.max()) if len(unlisted) else ZERO
        return Listing(listed, valued.low, valued.high, max(hop.reach, beyond, others))

    def project(self, step: Project, place: EvalContext[Tensor]) -> Bounds:
        """Bound targets; expand candidates until no other can raise the lowest of them."""
        hop = _Expansion(self, step.source)
        relation = self.along(step.edge)
        hop.next()
        while True:
            valued = hop.bound_targets(relation, place.end)
            if (
                hop.exhausted
                or not len(valued.low)
                or hop.reach <= max(self.floor, float(valued.low.min()))
            ):
                return valued
            hop.next()

    def entity(self, slot: int) -> Tensor:
        return torch.tensor([self.entities[slot]])

    def relation(self, step: Relation, place: EvalContext[Tensor]) -> Bounds:
        return Bounds.exactly(self.rows.scores(place.start, self.along(step), place.end)[0])

    def unequal(self, step: Unequal, place: EvalContext[Tensor]) -> Bounds:
        return Bounds.exactly(different(place.start, place.end))

    def along(self, edge: Step) -> int:
        """The directed relation of an edge."""
        relation = cast(Relation, edge)  # `listable` refuses other edges
        return self.relations[relation.slot] ^ int(relation.flip)


class _Expansion:
    """The candidates of a hop by falling value: the expanded ones, and a bound of the rest."""

    def __init__(self, lists: Lists, source: Node) -> None:
        self.lists = lists
        self.source = source
        self.tried = Listing.empty()
        self._step = _FIRST
        self._limit = _CANDIDATES
        self._list()

    def _list(self) -> None:
        """List candidates, without those expanded already."""
        listing = self.lists.top(self.source, self._limit).without(self.tried.ids)
        listing = listing[listing.high > ZERO]
        self._remaining = listing[torch.sort(listing.high, descending=True, stable=True).indices]

    @property
    def reach(self) -> float:
        """The upper bound of values reached from candidates that were not expanded."""
        ahead = max([self._remaining.bound, *self._remaining.high[:1].tolist()])
        return float(
            self.lists.logic.conjunction(
                torch.tensor(ahead), torch.tensor(self.lists.rows.atoms.supremum)
            )
        )

    @property
    def exhausted(self) -> bool:
        """Whether no candidate is left to expand, or none may be."""
        is_empty = not len(self._remaining.ids) and (
            self._remaining.bound == ZERO or self._limit >= _MOST
        )
        return is_empty or len(self.tried.ids) >= self.lists.k

    def next(self) -> Listing:
        """Expand the next few candidates and return them."""
        if not len(self._remaining.ids):
            self._limit *= 4
            self._list()
        few = self._remaining[: self._step]
        self._remaining = self._remaining[self._step :]
        self._step *= 2
        self.lists.expanded |= {(self.source, candidate) for candidate in few.ids.tolist()}
        pairs = (self.tried.ids, few.ids), (self.tried.low, few.low), (self.tried.high, few.high)
        ids, low, high = map(torch.cat, pairs)
        self.tried = Listing(ids, low, high, ZERO)
        return few

    def bound_targets(self, relation: int, targets: Tensor) -> Bounds:
        """Bound the values of targets, from every expanded candidate."""
        scores = self.lists.rows.scores(self.tried.ids, relation, targets)  # [tried, T]
        if not len(scores):
            low = high = torch.full(targets.shape, ZERO)
        else:
            ends = (self.tried.low, self.tried.high)
            low, high = (
                self.lists.logic.conjunction(end[:, None], scores).amax(dim=0) for end in ends
            )
        return Bounds(low, high.clamp(min=self.reach))


def _greatest(ids: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct ids in order, each with its greatest value."""
    distinct, places = ids.unique(return_inverse=True)
    return distinct, torch.full((len(distinct),), ZERO).scatter_reduce_(0, places, values, "amax")
