"""The best tuples of entities, for questions with several answer variables.

All answer variables but the last are enumerated: their best values are tried, each in an entity
slot of its own, and each choice of them makes a row of scores for the last variable. A beam tries
the `k` best; dropped values are bounded by the parts about the enumerated variables alone, and
where that is too little, the tuples are proven to be the best.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile

import numpy as np
import torch
from torch import Tensor

from tacit.engine.logic import ZERO, gather_columns
from tacit.engine.reasoner import Reasoner
from tacit.engine.top_k import at_least, blurred, certainly_below, unsettled, within_rounding
from tacit.graph.fact_index import FactIndex
from tacit.graph.value_index import ValueIndex
from tacit.query.plans.plan import EnumeratedTarget, Everything, Intersect, Node, Plan
from tacit.query.plans.symbolic import answers as symbolic_sets
from tacit.query.plans.traits import is_hop_free, negates_hops

_FIRST = 16  # values of the enumerated variables that are tried at first
_ROUNDING = 1.0 + 3e-6  # log-scores that differ by less than this factor may be one


@dataclass(frozen=True, eq=False)
class Tuples:
    """Tuples of entities, best first, with their log-scores and whether facts imply them."""

    ids: Tensor  # [n, targets]
    scores: Tensor  # [n]
    known: Tensor  # [n]

    @classmethod
    def none(cls, width: int) -> Tuples:
        """No tuples."""
        return cls(
            torch.empty(0, width, dtype=torch.long),
            torch.empty(0),
            torch.empty(0, dtype=torch.bool),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: Tensor) -> Tuples:
        return Tuples(self.ids[rows], self.scores[rows], self.known[rows])

    def joined(self, other: Tuples, count: int, known_first: bool) -> Tuples:
        """The best of both, where some tuples may be in both."""
        both = self._both(other)
        _, places = np.unique(both.ids.numpy(), axis=0, return_index=True)
        return both[torch.from_numpy(np.sort(places))]._best(count, known_first)

    def best_with(self, other: Tuples, count: int, known_first: bool) -> Tuples:
        """The best of both: by falling score, then by ids in the order of the variables."""
        return self._both(other)._best(count, known_first)

    def _both(self, other: Tuples) -> Tuples:
        columns = zip(vars(self).values(), vars(other).values(), strict=True)
        return Tuples(*map(torch.cat, columns))

    def _best(self, count: int, known_first: bool) -> Tuples:
        first = self.known & known_first
        keys = [*self.ids.T.flip(0).numpy(), -self.scores.numpy(), ~first.numpy()]
        return self[torch.from_numpy(np.lexsort(keys)[:count])]


@dataclass(frozen=True)
class TupleRequest:
    """How many tuples to list, and which.

    Known tuples go first, worth at least `least`; with `new` they are no answers.
    """

    count: int
    least: float | None  # None where known tuples do not go before others
    new: bool = False
    prove: bool = False
    floor: float = ZERO  # the least score of an answer
    only: bool = False  # whether only known tuples are answers
    wide: bool = False  # whether to try values of all known tuples, beyond those of a beam

    @property
    def known_first(self) -> bool:
        """Whether known tuples go before all others."""
        return self.least is not None


@dataclass(eq=False)
class Doubts:
    """What a search for tuples dropped, or knows by bounds alone."""

    dropped: float = ZERO  # the upper bound of dropped tuples
    drops_known: bool = False  # whether known tuples are among them
    below_floor: bool = False  # whether only rounding puts some tuple below the floor
    unbounded: bool = False  # whether the reasoner has no bounds
    # the upper bounds of inexact tuples, known ones and others
    inexact: dict[bool, float] = field(default_factory=lambda: {True: ZERO, False: ZERO})
    # the highest scores of known tuples and of others
    levels: dict[bool, Tensor] = field(
        default_factory=lambda: {True: torch.empty(0), False: torch.empty(0)}
    )


@dataclass(eq=False)
class TupleSearch:
    """The search for the tuples that answer one query; with `k` None it tries everything."""

    reasoner: Reasoner
    plan: Plan
    relations: Tensor  # [1, R]
    index: FactIndex | None  # of the known facts
    k: int | None
    request: TupleRequest
    known_values: ValueIndex | None = None
    tuples: Tuples = field(init=False)
    certified: bool | None = field(init=False, default=None)
    leading: int = field(init=False, default=0)  # how many of the first tuples are proven
    doubts: Doubts = field(init=False, default_factory=Doubts)

    def __post_init__(self) -> None:
        self.tuples = Tuples.none(len(self.plan.targets))

    @property
    def proves(self) -> bool:
        """Whether to bound scores, so that tuples can be proven to be the best."""
        return (self.request.prove or self.reasoner.exact) and not self.doubts.unbounded

    def run(self, entities: Tensor) -> TupleSearch:
        """Search for the answers to the query with these entities, `[1, E]`."""
        if not self.request.count:
            return self
        bound = torch.zeros(1)
        known = torch.ones(1, dtype=torch.bool)
        for target in self.plan.enumerated:
            entities, bound, known = self._enumerate(target, entities)
            if not len(entities):  # no value is possible
                break
        most = max(1, self.reasoner.batch(self.plan) // 4)
        start = 0
        step = _FIRST
        while start < len(entities):  # few at first: their scores rule others out
            part = slice(start, start + min(step, most))
            tried = self._promising(bound[part], known[part])
            if len(self.tuples) == self.request.count and bool(tried.any()):
                bound[part][tried] = torch.minimum(
                    bound[part][tried], self._headroom(entities[part][tried])
                )
                tried = self._promising(bound[part], known[part])
            if bool(tried.any()):
                self._add(entities[part][tried])
            start = part.stop
            step = 2 * step
        if self.proves:
            doubtful = self._first_doubtful()
            rows = list(zip(self.tuples.scores.tolist(), self.tuples.known.tolist(), strict=True))
            certain = takewhile(lambda each: self._is_certain(*each), rows[:doubtful])
            self.leading = len(list(certain))
            last = rows[-1] if len(rows) == self.request.count else (self.request.floor, False)
            self.certified = self._is_certain(*last) and doubtful is None
        return self

    def _first_doubtful(self) -> int | None:
        """The place of the first tuple that only rounding separates from others."""
        if self.reasoner.exact:
            return None
        places = list[int]()
        scores = self.tuples.scores
        known = self.tuples.known & self.request.known_first
        for first, levels in self.doubts.levels.items():
            doubtful = torch.isin(scores, blurred(levels)) & (known == first)
            places += doubtful.nonzero()[:1, 0].tolist()
        if self.request.floor > ZERO:
            near = within_rounding(scores, scores.new_tensor(self.request.floor)) & ~(
                known & (scores == self.request.least)
            )
            places += near.nonzero()[:1, 0].tolist()
            if self.doubts.below_floor and len(scores) < self.request.count:
                places.append(len(scores))
        return min(places, default=None)

    def _headroom(self, entities: Tensor) -> Tensor:
        """Bound the tuples of each row by the parts of the root without hops, `[P]`."""
        parts = self.plan.root.parts if isinstance(self.plan.root, Intersect) else ()
        exact = tuple(part for part in parts if is_hop_free(part))
        if len(exact) in (0, len(parts)):
            return torch.zeros(len(entities))
        return self._bound(Intersect(exact) if len(exact) > 1 else exact[0], entities).amax(dim=1)

    def _enumerate(
        self, target: EnumeratedTarget, entities: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Fill one more variable with the values to try, `[P, E + 1]`.

        With each row come its upper bound, and whether known tuples hold it.
        """
        size = self.reasoner.num_entities
        parts = list[tuple[Tensor, ...]]()
        for rows in entities.split(max(1, self.reasoner.batch(self.plan) // 4)):
            ranked, _, _, implied = self._values(target.ranking, target.marginal, rows)
            bound, scores, known = (
                x.flatten() for x in (self._bound(target.bound, rows), ranked, implied)
            )
            possible = known
            if self.reasoner.predicts and not self.request.only:
                possible = (bound > ZERO) | known
            places = possible.nonzero()[:, 0]
            places = places[self._cut(bound[places], scores[places], known[places])]
            filled = torch.cat([rows[places // size], (places % size)[:, None]], dim=1)
            parts.append((filled, bound[places], scores[places], known[places]))
        filled, bound, scores, known = (torch.cat(columns) for columns in zip(*parts, strict=True))
        order = self._cut(bound, scores, known)
        return filled[order], bound[order], known[order]

    def _cut(self, bound: Tensor, scores: Tensor, known: Tensor) -> Tensor:
        """Choose the values to try: those of known tuples first, then the best ones."""
        first = known & (self.request.wide or self.request.known_first)
        order = torch.from_numpy(np.lexsort((-scores.numpy(), ~first.numpy())))
        most = int(first.sum()) if self.request.wide else self.request.count
        if self.k is None or len(order) <= max(self.k, most):
            return order
        order, dropped = order.tensor_split([max(self.k, most)])
        self.doubts.dropped = max(self.doubts.dropped, float(bound[dropped].max()))
        self.doubts.drops_known |= bool(known[dropped].any())
        return order

    def _promising(self, bound: Tensor, known: Tensor) -> Tensor:
        """Whether rows may hold a tuple that belongs among the best ones so far."""
        full = len(self.tuples) == self.request.count
        if not full:
            return ((bound > ZERO) & ~(bound < self.request.floor * _ROUNDING)) | known
        if bool(self.tuples.known[-1]) and self.request.known_first:
            return known  # only known tuples go before known ones
        better = bound >= float(self.tuples.scores[-1]) * _ROUNDING
        return better | (known & self.request.known_first)

    def _add(self, entities: Tensor) -> None:
        """Value the last variable for some rows, and keep the best tuples."""
        scores, lower, upper, known = self._values(self.plan.root, self.plan.root, entities)
        count = self.request.count
        first = known & self.request.known_first
        for goes_first, group in ((True, first), (False, ~first)):
            group_scores = scores.masked_fill(~group, ZERO)
            cut = group_scores.flatten().topk(min(count, group_scores.numel())).values[-1]
            if self.proves and not self.reasoner.exact:
                worst = upper[unsettled(lower, upper) & group]
                if len(worst):
                    highest = max(self.doubts.inexact[goes_first], float(worst.max()))
                    self.doubts.inexact[goes_first] = highest
                rounded = upper.masked_fill(~group | unsettled(lower, upper), ZERO)
                levels = [self._highest(table, cut) for table in (group_scores, rounded)]
                levels.append(self.doubts.levels[goes_first])
                self.doubts.levels[goes_first] = torch.cat(levels).unique()
            rows, last = _best(group_scores, cut)
            filled = {each.variable: entities[rows, each.slot] for each in self.plan.enumerated}
            columns = [filled.get(target, last) for target in self.plan.targets]
            fresh = Tuples(torch.stack(columns, dim=1), scores[rows, last], known[rows, last])
            self.tuples = self.tuples.best_with(fresh, count, self.request.known_first)

    def _highest(self, scores: Tensor, cut: Tensor) -> Tensor:
        """The scores above a cut, and those that only rounding puts below it."""
        if len(self.tuples) == self.request.count:
            cut = torch.maximum(cut, self.tuples.scores.min())
        flat = scores.flatten()
        return flat[(flat >= cut * _ROUNDING) & (flat > ZERO)]

    def _values(
        self, step: Node, implied_by: Node, entities: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The scores of a step, lower and upper bounds, and the implied entities, `[P, N]` each.

        The step `implied_by` gives the implied ones; their values are raised to `least`, or to
        nothing with `new`.
        """
        plan = replace(self.plan, root=step, enumerated=())
        symbolic = replace(self.plan, root=implied_by, enumerated=())
        relations = self.relations.expand(len(entities), -1)
        size = self.reasoner.num_entities
        known = torch.zeros(len(entities), size, dtype=torch.bool)
        if self.index is not None:
            slots = entities.numpy(), relations.numpy()
            implied = symbolic_sets(symbolic, *slots, self.index, size, self.known_values)
            known[torch.from_numpy(implied.rows).long(), torch.from_numpy(implied.ids).long()] = (
                True
            )
        bounds = self._bounds(plan, entities, relations) if self.proves else None
        tables = [] if bounds is None else [self._gather(bound) for bound in bounds]
        if bounds is None or negates_hops(step):  # otherwise scores are the lower bounds
            tables.insert(0, self._gather(self.reasoner.scores(plan, entities, relations)))
        if step is self.plan.root and self.request.new:
            tables = [table.masked_fill(known, ZERO) for table in tables]
        elif self.request.least is not None:
            least = self.request.least
            tables = [torch.where(known, at_least(least, table), table) for table in tables]
        if step is self.plan.root:
            none = ~known & self.request.only
            floor = self.request.floor
            below = (tables[0] < floor) & ~none
            near = within_rounding(tables[0], tables[0].new_tensor(floor))
            self.doubts.below_floor |= bool((near & below).any())
            tables = [table.masked_fill(none | (table < floor), ZERO) for table in tables]
        # without bounds, scores are taken as exact
        lower, upper = 2 * tables if bounds is None else tables[-2:]
        return tables[0], lower, upper, known

    def _bound(self, step: Node, entities: Tensor) -> Tensor:
        """Bound the tuples with each value, `[P, N]`."""
        highest = torch.zeros(1).expand(len(entities), self.reasoner.num_entities)
        if isinstance(step, Everything):
            return highest
        plan = replace(self.plan, root=step, enumerated=())
        relations = self.relations.expand(len(entities), -1)
        bounds = self._bounds(plan, entities, relations)
        return highest if bounds is None else self._gather(bounds[1])

    def _bounds(
        self, plan: Plan, entities: Tensor, relations: Tensor
    ) -> tuple[Tensor, Tensor] | None:
        """Bound exact scores; None where the reasoner cannot, and then nothing is proven."""
        bounds = self.reasoner.bounds(plan, entities, relations)
        self.doubts.unbounded |= bounds is None
        return bounds

    def _gather(self, scores: Tensor) -> Tensor:
        return gather_columns(self.reasoner.shards, scores).cpu()

    def _is_certain(self, score: float, known: bool) -> bool:
        """Whether nothing dropped or inexact could come before a tuple of such a score."""
        doubts = self.doubts
        known_first = self.request.known_first
        if known_first and known:
            threats = [doubts.inexact[True], doubts.dropped if doubts.drops_known else ZERO]
        elif known_first and doubts.drops_known:
            return False
        else:
            threats = [*doubts.inexact.values(), doubts.dropped]
        return all(certainly_below(threat, score) for threat in threats)


def _best(scores: Tensor, cut: Tensor) -> tuple[Tensor, Tensor]:
    """The rows and columns of the scores that are no lower than a cut."""
    flat = scores.flatten()
    places = ((flat >= cut) & (flat > ZERO)).nonzero()[:, 0]
    return places // scores.shape[1], places % scores.shape[1]
