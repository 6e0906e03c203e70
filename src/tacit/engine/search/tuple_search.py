"""The best tuples of entities, for questions with several answer variables.

All answer variables but the last are held: their best values are tried, each in an entity slot of its own, and a row of
scores for each of them says what the last one is worth. A beam tries the `k` best; what it drops is worth at most what
its parts say of the held variables alone, and where that is too little, the tuples are proven to be the best.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np
import torch
from torch import Tensor

from tacit.engine.logic import ZERO
from tacit.engine.reasoner import Reasoner
from tacit.engine.search.best_answers import at_least, unsettled
from tacit.engine.search.sharded import whole
from tacit.graph.fact_index import FactIndex
from tacit.query.plans.plan import Everything, Held, Intersect, Node, Plan
from tacit.query.plans.symbolic import answers as symbolic_sets
from tacit.query.plans.traits import negates_hops, settled

_FIRST = 16  # values of the held variables that are tried at first
_ROUNDING = 1.0 + 1e-6  # log-scores that differ by less than this factor may be one


@dataclass(frozen=True, eq=False)
class Tuples:
    """Tuples of entities, best first: their ids by answer variable, log-scores, and whether facts imply them."""

    ids: Tensor  # [n, targets]
    scores: Tensor  # [n]
    known: Tensor  # [n]

    @classmethod
    def none(cls, width: int) -> Tuples:
        """No tuples yet."""
        return cls(torch.empty(0, width, dtype=torch.long), torch.empty(0), torch.empty(0, dtype=torch.bool))

    def __len__(self) -> int:
        return len(self.ids)

    def best_with(self, other: Tuples, count: int, known_first: bool) -> Tuples:
        """The best of both: by falling score, then by ids in the order of the variables."""
        ids, scores, known = (
            torch.cat(both) for both in ((self.ids, other.ids), (self.scores, other.scores), (self.known, other.known))
        )
        keys = [*ids.T.flip(0).numpy(), -scores.numpy(), ~(known & known_first).numpy()]
        order = torch.from_numpy(np.lexsort(keys)[:count])
        return Tuples(ids[order], scores[order], known[order])


@dataclass(eq=False)
class TupleSearch:
    """The search for the tuples that answer one query; `k` is None where everything is tried.

    Known tuples go first, worth at least `least`; where only new ones are wanted, they are none.
    """

    reasoner: Reasoner
    plan: Plan
    relations: Tensor  # [1, R]
    index: FactIndex | None  # of the known facts
    k: int | None
    count: int
    least: float | None  # None where known tuples do not go before others
    new: bool = False
    prove: bool = False
    floor: float = ZERO  # tuples that are worth less are none
    only: bool = False  # whether those that are not known are none either

    def __post_init__(self) -> None:
        self.found = Tuples.none(len(self.plan.targets))
        self.certified: bool | None = None
        self.leading = 0  # how many of the first tuples are proven
        self.prove |= self.reasoner.exact
        self._lost, self._known_lost = ZERO, False  # what is dropped is worth so much at most, and is it known?
        self._loose = {True: ZERO, False: ZERO}  # of known tuples and others: how high one may be that is not exact

    def run(self, entities: Tensor) -> TupleSearch:
        """Search for the answers to the query with these entities, `[1, E]`."""
        if not self.count:
            return self
        bound, known = torch.zeros(1), torch.ones(1, dtype=torch.bool)
        for held in self.plan.held:
            entities, bound, known = self._held(held, entities)
            if not len(entities):  # no value is possible, whatever the others are
                break
        most, start, step = max(1, self.reasoner.batch(self.plan) // 4), 0, _FIRST
        while start < len(entities):  # few at first: what they are worth rules others out
            part = slice(start, start + min(step, most))
            tried = self._promising(bound[part], known[part])
            if len(self.found) == self.count and bool(tried.any()):
                bound[part][tried] = torch.minimum(bound[part][tried], self._room(entities[part][tried]))
                tried = self._promising(bound[part], known[part])
            if bool(tried.any()):
                self._keep(entities[part][tried])
            start, step = part.stop, 2 * step
        if self.prove:
            told = list(zip(self.found.scores.tolist(), self.found.known.tolist(), strict=True))
            self.leading = len(list(takewhile(lambda each: self._settled(*each), told)))
            self.certified = self._settled(*(told[-1] if len(told) == self.count else (self.floor, False)))
        return self

    def _room(self, entities: Tensor) -> Tensor:
        """What a tuple of each row is worth at most by the parts of the root that no hop is part of, `[P]`."""
        parts = self.plan.root.parts if isinstance(self.plan.root, Intersect) else ()
        exact = tuple(part for part in parts if settled(part))
        if len(exact) in (0, len(parts)):
            return torch.zeros(len(entities))
        return self._bound(Intersect(exact) if len(exact) > 1 else exact[0], entities).amax(dim=1)

    def _held(self, held: Held, entities: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The rows with the values of one more variable to try, `[P, E + 1]`; what each is worth at most, and whether
        known tuples hold it.
        """
        size, kept = self.reasoner.num_entities, list[tuple[Tensor, ...]]()
        for rows in entities.split(max(1, self.reasoner.batch(self.plan) // 4)):
            ranked, _, _, implied = self._values(held.ranking, held.marginal, rows)
            bound, scores, known = (x.flatten() for x in (self._bound(held.bound, rows), ranked, implied))
            possible = (bound > ZERO) | known if self.reasoner.predicts else known
            places = possible.nonzero()[:, 0]
            places = places[self._cut(bound[places], scores[places], known[places])]
            filled = torch.cat([rows[places // size], (places % size)[:, None]], dim=1)
            kept.append((filled, bound[places], scores[places], known[places]))
        filled, bound, scores, known = (torch.cat(parts) for parts in zip(*kept, strict=True))
        order = self._cut(bound, scores, known)
        return filled[order], bound[order], known[order]

    def _cut(self, bound: Tensor, scores: Tensor, known: Tensor) -> Tensor:
        """Which values to try, those that go first and the best ones before others; what else there is, is lost."""
        first = known & (self.least is not None)
        order = torch.from_numpy(np.lexsort((-scores.numpy(), ~first.numpy())))
        if self.k is None or len(order) <= max(self.k, self.count):
            return order
        order, lost = order.tensor_split([max(self.k, self.count)])
        self._lost = max(self._lost, float(bound[lost].max()))
        self._known_lost |= bool(known[lost].any())
        return order

    def _promising(self, bound: Tensor, known: Tensor) -> Tensor:
        """Which rows may hold a tuple that belongs among the best found so far."""
        full = len(self.found) == self.count
        if not full:
            return (bound > ZERO) | known
        if bool(self.found.known[-1]) and self.least is not None:  # only what is known goes before what is known
            return known
        better = bound >= float(self.found.scores[-1]) * _ROUNDING
        return better | (known & (self.least is not None))

    def _keep(self, entities: Tensor) -> None:
        """Value the last variable for some rows, and keep the best tuples."""
        scores, lower, upper, known = self._values(self.plan.root, self.plan.root, entities)
        first = known & (self.least is not None)
        for group in (first, ~first):
            if self.prove:
                worst = upper[unsettled(lower, upper) & group]
                flag = group is first
                self._loose[flag] = max(self._loose[flag], float(worst.max()) if len(worst) else ZERO)
            rows, last = _best(scores.masked_fill(~group, ZERO), self.count)
            given = {held.variable: entities[rows, held.slot] for held in self.plan.held}
            columns = [given.get(target, last) for target in self.plan.targets]
            fresh = Tuples(torch.stack(columns, dim=1), scores[rows, last], known[rows, last])
            self.found = self.found.best_with(fresh, self.count, self.least is not None)

    def _values(self, step: Node, implied_by: Node, entities: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What a search finds for a step, lower and upper bounds of it, and which values facts imply by another step,
        `[P, N]` each; those at what they are worth at least, or at nothing.
        """
        plan, symbolic = replace(self.plan, root=step, held=()), replace(self.plan, root=implied_by, held=())
        relations = self.relations.expand(len(entities), -1)
        known = torch.zeros(len(entities), self.reasoner.num_entities, dtype=torch.bool)
        if self.index is not None:
            implied = symbolic_sets(symbolic, entities.numpy(), relations.numpy(), self.index, known.shape[1])
            known[torch.from_numpy(implied.rows).long(), torch.from_numpy(implied.ids).long()] = True
        bounds = self._bounds(plan, entities, relations) if self.prove else None
        tables = [] if bounds is None else [self._whole(bound) for bound in bounds]
        if bounds is None or negates_hops(step):  # otherwise what a search finds is the lower bound
            tables.insert(0, self._whole(self.reasoner.scores(plan, entities, relations)))
        if step is self.plan.root and self.new:
            tables = [table.masked_fill(known, ZERO) for table in tables]
        elif self.least is not None:
            tables = [torch.where(known, at_least(self.least, table), table) for table in tables]
        if step is self.plan.root:
            none = ~known & self.only
            tables = [table.masked_fill(none | (table < self.floor), ZERO) for table in tables]
        lower, upper = (2 * tables)[-2:]  # what is searched for without bounds is taken for exact
        return tables[0], lower, upper, known

    def _bound(self, step: Node, entities: Tensor) -> Tensor:
        """What no tuple with each value is worth more than, `[P, N]`."""
        if isinstance(step, Everything):
            return torch.zeros(len(entities), self.reasoner.num_entities)
        plan, relations = replace(self.plan, root=step, held=()), self.relations.expand(len(entities), -1)
        bounds = self._bounds(plan, entities, relations)
        return torch.zeros(len(entities), self.reasoner.num_entities) if bounds is None else self._whole(bounds[1])

    def _bounds(self, plan: Plan, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor] | None:
        """Bounds of exact scores; None where the reasoner cannot tell, and then nothing is proven."""
        bounds = self.reasoner.bounds(plan, entities, relations)
        self.prove &= bounds is not None
        return bounds

    def _whole(self, scores: Tensor) -> Tensor:
        return whole(self.reasoner.shards, scores).cpu()

    def _settled(self, score: float, known: bool) -> bool:
        """Whether nothing that was dropped, or that is not exact, could come before a tuple of such a score."""
        if self.least is not None and known:
            return _below(self._loose[True], score) and (not self._known_lost or _below(self._lost, score))
        threats = (*self._loose.values(), self._lost)
        return all(_below(threat, score) for threat in threats) and (self.least is None or not self._known_lost)


def _below(threat: float, last: float) -> bool:
    """Whether a log-score is certainly lower than another; none is, whatever the other."""
    return threat == ZERO or threat < last * _ROUNDING


def _best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The rows and columns of the best `count` scores, and of all that equal the last of them."""
    flat = scores.flatten()
    cut = flat.topk(min(count, len(flat))).values[-1]
    places = ((flat >= cut) & (flat > ZERO)).nonzero()[:, 0]
    return places // scores.shape[1], places % scores.shape[1]
