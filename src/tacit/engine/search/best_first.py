"""Best-first search: bounds on values, tightened where they decide what is best.

A hop is `out[t] = max_s source[s] ⊤ edge(s, t)`, and no edge is worth more than a supremum. From
its best candidates alone it has lower bounds; the best candidate that is left, ⊤ the supremum,
bounds all that they miss. So a handful of candidates often proves the best answers, with the scores
of exact search.

Candidates are expanded in the order in which a beam keeps them, and only where their values are
exact: they are the first ones of the beam. A search that proves nothing in time expands the rest of
them, and lists what the beam lists, for the price of the beam.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tacit.distributed.ties import best
from tacit.engine.logic import ZERO, check_numbers
from tacit.engine.search.floors import floors
from tacit.engine.search.frontier import (
    ExpandedEvaluator,
    ForesightEvaluator,
    FrontierEvaluator,
    SearchState,
)
from tacit.engine.top_k import TopKRequest, TopKResult, is_loose, unsettled
from tacit.query.plans.fold import EvalContext, Fold
from tacit.query.plans.plan import (
    Best,
    Complement,
    Cutset,
    Everything,
    Node,
    Project,
    Step,
    children,
    conjuncts,
)
from tacit.query.plans.traits import Search, is_hop_free, negates_hops, source_of

_FIRST = 8  # candidates expanded at first: a table is read as fast for eight rows as for one
_STAGE = 32  # entities that are tried in a cycle at first; then more, as its floor has risen
_FEW = 2**20  # scores of rows that take no longer than some looks at bounds
_PACE = 3  # times as many as were expanded come next


@dataclass(eq=False)
class BestFirstSearch:
    """The search for the best answers of B queries, which expands what blocks a proof."""

    root: Node
    requests: list[TopKRequest]
    state: SearchState

    def __post_init__(self) -> None:
        self.bounds = FrontierEvaluator.by(self.state)

    def run(self) -> Iterator[tuple[list[int], BestFirstSearch]]:
        """Expand candidates until all answers are proven, or no more may be expanded.

        It yields the places of queries that are done, with the search of these alone.
        """
        search = self
        places = list(range(self.state.size))
        if self._hardly_proven():
            self.complete()
            yield places, self
            return
        while places:
            search.state.floors = floors(self.root, search.requests, search.bounds)
            expansions = search.next_expansions()
            proven = [q for q, steps in enumerate(expansions) if steps is None]
            open_ = [q for q, steps in enumerate(expansions) if steps]
            hopeless = search.cannot_be_proven(open_)
            open_ = [q for q in open_ if q not in hopeless]
            stuck = [q for q in range(len(places)) if q not in proven and q not in open_]
            if proven:
                yield [places[q] for q in proven], search.only(proven)
            if stuck:
                part = search.only(stuck)
                part.complete()
                yield [places[q] for q in stuck], part
            search = search.only(open_)
            places = [places[q] for q in open_]
            search.expand([expansions[q] or set() for q in open_])

    def reach(self, answer: int) -> None:
        """Expand candidates of one query until they lead to an answer, which may be known."""
        while True:
            bounds = self.bounds.answers(self.root)
            if not bool(unsettled(bounds.low[:, answer], bounds.high[:, answer])):
                break
            steps = _Tightening(self.bounds, 0).of(self.root, EvalContext(target=answer))
            if not steps:
                break
            self.expand([steps])

    def results(self) -> list[TopKResult]:
        """The best answers to each query, certified where they are proven."""
        shards = self.state.context.atoms.shards
        bounds = self.bounds.answers(self.root)
        lower = check_numbers(bounds.low, shards).cpu()
        upper = check_numbers(bounds.high, shards).cpu()
        values = ExpandedEvaluator.by(self.state).set_of(self.root).cpu()
        tables = zip(self.requests, self.state.rows, values, lower, upper, strict=True)
        return [
            replace(request.best(scores, bounds=(low, high)), rows=count)
            for request, count, scores, low, high in tables
        ]

    def next_expansions(self) -> list[set[Search] | None]:
        """The steps to expand for each query: None where it is proven, none where nothing helps."""
        entities = self.blocking_entities(self.bounds)
        return [
            None if entity is None else self._expansions(query, entity)
            for query, entity in enumerate(entities)
        ]

    def _expansions(self, query: int, entity: int) -> set[Search]:
        """The steps that bring the bounds of an entity closer together, or else any steps."""
        tightening = _Tightening(self.bounds, query)
        at_entity = tightening.of(self.root, EvalContext(target=entity))
        anywhere = filter(None, map(tightening.next, self.state.frontiers))
        return at_entity or next(anywhere, set())

    def cannot_be_proven(self, queries: Sequence[int]) -> list[int]:
        """Those of some queries that far more candidates than may be expanded would not prove."""
        frontiers = self.state.frontiers.values()
        tried = [q for q in queries if all(frontier.counts[q] for frontier in frontiers)]
        if not tried:
            return []
        part = self.only(tried)
        entities = part.blocking_entities(ForesightEvaluator.by(part.state))
        return [q for q, entity in zip(tried, entities, strict=True) if entity is not None]

    def blocking_entities(self, bounds: FrontierEvaluator) -> list[int | None]:
        """For each query the entity that must be known better before its answers are proven."""
        answers = bounds.answers(self.root)
        rows = zip(self.requests, answers.low, answers.high, strict=True)
        return [request.blocking_entity_of(low, high) for request, low, high in rows]

    def expand(self, steps: Sequence[set[Search]]) -> None:
        """Expand the next candidates of some steps for each query, those whose values are exact."""
        state = self.state
        for step, frontier in state.frontiers.items():
            queries = [query for query, chosen in enumerate(steps) if step in chosen]
            if not queries:
                continue
            rows = torch.tensor(queries, device=state.missed.device)
            paces = [max(_FIRST, _PACE * frontier.counts[query]) for query in queries]
            allowed = [state.allowance(step, query) for query in queries]
            sizes = list(map(min, paces, allowed))
            source = self.bounds.sources(step)
            unexpanded = source.high[rows].masked_fill_(frontier.expanded[rows], ZERO)
            upper, ids = best(unexpanded, max(sizes))
            lower = source.low[rows[:, None], ids]
            ready = (~unsettled(lower, upper) & (upper > ZERO)).cumprod(dim=1).sum(dim=1)
            counts = torch.minimum(ready, torch.tensor(sizes, device=ready.device))
            state.expand(step, rows, ids, [lower], counts)
        self.bounds = FrontierEvaluator.by(state)

    def complete(self) -> None:
        """Expand all that a beam keeps, from the inside out, for every query.

        Candidates that are not exact are expanded by the beam's values alone: to expand their
        bounds, too, takes half as long again and proves hardly more. These count as left.
        """
        self.bounds.set_of(self.root)
        for step in _from_inside(self.root):
            if isinstance(step, Project | Cutset) and step in self.state.frontiers:
                self._complete(step)

    def _complete(self, step: Search) -> None:
        state = self.state
        frontier = self.state.frontiers[step]
        source = source_of(step)
        bounds = self.bounds.set_of(source)
        values = ExpandedEvaluator.by(state).set_of(source)
        worths, ids = best(values, state.beam_size(step))
        useful = (worths > ZERO) | (isinstance(step, Cutset) and not step.bounded)
        worth = (useful & ~frontier.expanded.gather(1, ids)).float().log()
        staged = step in state.floors and isinstance(source, Everything)
        if staged and isinstance(step, Cutset):  # the best first, since floors rise by them
            worth += state.lower_ceiling(step).gather(1, ids)
        worth, order = worth.sort(dim=1, descending=True, stable=True)
        ids = ids.gather(1, order)
        remaining = (worth != ZERO).sum(dim=1)
        size = _STAGE if staged else ids.shape[1]
        exact = frontier.by_beam or is_hop_free(source)
        tables = [values] if exact else [values, bounds.low, bounds.high]
        rows = torch.arange(state.size, device=ids.device)
        while bool((remaining > 0).any()):
            few, ids = ids.tensor_split([size], dim=1)
            weights = [table.gather(1, few) for table in tables]
            state.expand(step, rows, few, weights, remaining.clamp(0, size))
            remaining = remaining - size
            worth = worth[:, size:]
            size = _PACE * size
            self.bounds = FrontierEvaluator.by(state)
            if state.floors:
                state.floors = floors(self.root, self.requests, self.bounds)
            if staged:
                remaining = torch.minimum(remaining, self._above_floor(step, worth))
        if frontier.by_beam and isinstance(step, Project):
            frontier.expanded &= ~unsettled(values, bounds.high)
        self.bounds = FrontierEvaluator.by(state)

    def _above_floor(self, step: Search, worth: Tensor) -> Tensor:
        """Count the candidates that may lead to answers above the floor, `[B]`."""
        least = self.state.floors[step].least
        self.state.missed = torch.maximum(self.state.missed, least)
        return (~(worth < least[:, None])).sum(dim=1)

    def only(self, queries: Sequence[int]) -> BestFirstSearch:
        """The search of some of the queries, as far as it has come."""
        if len(queries) == self.state.size:
            return self
        requests = [self.requests[query] for query in queries]
        return BestFirstSearch(self.root, requests, self.state.only(queries))

    def _hardly_proven(self) -> bool:
        """Whether to expand all that a beam keeps at once.

        The best candidates rule few answers out where these are a hop and a negation, and
        predictions come close to known facts. And of a negated hop a beam may keep so few scores
        that bounds in between would take as long.
        """
        root = self.root
        (atoms, k) = (self.state.context.atoms, self.state.context.k)
        negated = any(isinstance(part, Complement) for part in conjuncts(root))
        if self.state.budget is not None or is_hop_free(root) or not negated:
            return False
        few = (k or atoms.num_entities) * atoms.num_entities <= _FEW
        return atoms.calibration.capabilities.pointwise or (few and negates_hops(root))


@dataclass(frozen=True, eq=False)
class _Tightening(Fold[int, set[Search]]):
    """Values the steps of a query by what to expand to bring their bounds closer together."""

    bounds: FrontierEvaluator
    query: int

    def next(self, step: Search) -> set[Search]:
        """The step, where its best candidate may be expanded, or steps that make that one exact."""
        state = self.bounds.state
        value, candidate = state.frontiers[step].best_remaining[self.query]
        if value == ZERO or not state.allowance(step, self.query):
            return set()
        lower = float(self.bounds.sources(step).low[self.query, candidate])
        return (
            self.of(source_of(step), EvalContext(target=candidate))
            if is_loose(lower, value)
            else {step}
        )

    def entity(self, slot: int) -> int:
        return int(self.bounds.queries.entities[self.query, slot])

    def project(self, step: Search, place: EvalContext[int]) -> set[Search]:
        if step not in self.bounds.state.frontiers:  # but valued by a beam
            return set()
        bounds = self.bounds.set_of(step)
        at = (self.query, place.end)
        return self.next(step) if is_loose(float(bounds.low[at]), float(bounds.high[at])) else set()

    cutset = project

    def best(self, step: Best, place: EvalContext[int]) -> set[Search]:
        entity = int(self.bounds.set_of(step.part).high[self.query].argmax())
        return self.of(step.part, EvalContext(target=entity))

    def relation(self, step: Step, place: EvalContext[int]) -> set[Search]:
        return set()

    everything = unequal = within = difference = relation

    def all(self, parts: Sequence[set[Search]]) -> set[Search]:
        return set[Search]().union(*parts)

    any = all

    def negation(self, part: set[Search]) -> set[Search]:
        return part


def _from_inside(step: Step) -> Iterator[Step]:
    """All steps inside a step and then itself."""
    for inner in children(step):
        yield from _from_inside(inner)
    yield step
