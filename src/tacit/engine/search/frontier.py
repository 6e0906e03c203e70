"""The state of a best-first search, what it expanded, and the evaluation of plans by that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.distributed.ties import best
from tacit.engine.logic import ZERO
from tacit.engine.search.beam_evaluator import BeamEvaluator
from tacit.engine.search.bounded_evaluator import BoundedEvaluator, Bounds
from tacit.engine.search.evaluator import Evaluator, Memo
from tacit.engine.search.floors import Floor, ceilings, potential, supremum
from tacit.engine.search.search_context import QueryBatch, SearchContext
from tacit.query.plans.fold import EvalContext
from tacit.query.plans.plan import Cutset, Everything, Project, Relation, Step, anchored
from tacit.query.plans.traits import Search, is_hop_free, negates_hops, requires_beam, source_of

_FAR = 2  # times the candidates that may be expanded: where so many would prove nothing, none is


@dataclass(eq=False)
class Frontier:
    """The candidates of a step that were expanded for each query, and what they lead to."""

    beam: Tensor  # [B, N]: from the values that a beam gives them
    low: Tensor  # from lower bounds of these, and high from upper ones; equal tables are one tensor
    high: Tensor
    expanded: Tensor  # [B, N]: which candidates were
    counts: list[int]  # [B]: how many
    # [B]: the value and id of the best candidate that was not
    best_remaining: list[tuple[float, int]] = field(default_factory=list)

    @classmethod
    def unexpanded(cls, step: Search, context: SearchContext, size: int) -> Frontier:
        """The frontier of a step from which nothing was expanded."""
        beam = context.empty(size)
        low = beam.clone() if negates_hops(source_of(step)) else beam
        single = low is beam and (isinstance(step, Project) or is_hop_free(step.body))
        high = low if single else low.clone()
        nobody = torch.zeros(size, context.atoms.num_entities, dtype=torch.bool, device=beam.device)
        return cls(beam, low, high, nobody, [0] * size)

    @property
    def by_beam(self) -> bool:
        """Whether lower bounds are the beam's values."""
        return self.low is self.beam

    def reach(self, rows: Tensor, beam: Tensor, low: Tensor, high: Tensor) -> None:
        """Raise what some queries have reached to some values."""
        self.high[rows] = torch.maximum(self.high[rows], high)
        if self.low is not self.high:
            self.low[rows] = torch.maximum(self.low[rows], low)
        if self.beam is not self.low:
            self.beam[rows] = torch.maximum(self.beam[rows], beam)

    def only(self, rows: Tensor) -> Frontier:
        """The same for some of the queries."""
        beam = self.beam[rows]
        low = beam if self.by_beam else self.low[rows]
        high = low if self.high is self.low else self.high[rows]
        return Frontier(
            beam, low, high, self.expanded[rows], [self.counts[i] for i in rows.tolist()]
        )


@dataclass(eq=False)
class SearchState:
    """How far a best-first search of B queries has come.

    In a hop at most `k` candidates are expanded; with a `budget` as many in all hops together, and
    no fewer than a beam keeps.
    """

    bounded: BoundedEvaluator  # the queries as a beam bounds them, and in it as a beam values them
    budget: int | None
    frontiers: dict[Search, Frontier] = field(default_factory=dict)
    floors: dict[Step, Floor] = field(default_factory=dict)  # of cycles
    ceilings: dict[Step, Tensor] = field(default_factory=dict)  # [B, N]: of values of cut variables
    missed: Tensor = field(init=False)  # [B]: answers below it may be worth so much

    def __post_init__(self) -> None:
        self.missed = torch.full((self.size,), ZERO, device=self.queries.relations.device)

    @classmethod
    def of(
        cls, context: SearchContext, queries: QueryBatch, budget: int | None = None
    ) -> SearchState:
        """The state of a search that has done nothing."""
        beam = BeamEvaluator(context, queries, Memo(keeps_all=True))
        return cls(BoundedEvaluator(context, queries, beam=beam), budget)

    @property
    def context(self) -> SearchContext:
        """What the search goes by."""
        return self.bounded.context

    @property
    def queries(self) -> QueryBatch:
        """The queries that are searched for."""
        return self.bounded.queries

    @property
    def beam(self) -> Evaluator[Tensor]:
        """The queries as a beam values them."""
        return self.bounded.beam

    @property
    def size(self) -> int:
        """How many queries there are, B."""
        return len(self.bounded.queries)

    @property
    def rows(self) -> list[int]:
        """How many candidates were expanded for each query."""
        return [self.rows_of(query) for query in range(self.size)]

    def frontier(self, step: Search) -> Frontier:
        """The frontier of a step."""
        if step not in self.frontiers:
            self.frontiers[step] = Frontier.unexpanded(step, self.context, self.size)
        return self.frontiers[step]

    def beam_size(self, step: Search) -> int:
        """How many candidates a beam keeps in a step."""
        k = self.context.k
        every = self.context.atoms.num_entities
        return k if k is not None and anchored(source_of(step)) else every

    def allowance(self, step: Search, query: int) -> int:
        """How many more candidates of a step may be expanded for a query."""
        size = self.beam_size(step)
        count = self.frontiers[step].counts[query]
        if self.budget is None:
            return size - count
        left = self.budget - self.rows_of(query)
        return max(0, min(left, max(size, self.budget) - count))

    def rows_of(self, query: int) -> int:
        """How many candidates were expanded for a query."""
        return sum(frontier.counts[query] for frontier in self.frontiers.values())

    def ceiling(self, step: Cutset) -> Tensor:
        """Bound a cycle's worth with each value of a variable that nothing narrows, `[B, N]`."""
        if step not in self.ceilings:
            self.ceilings[step] = ceilings(self.context, self.queries, step)
        return self.ceilings[step]

    def lower_ceiling(self, step: Cutset) -> Tensor:
        """Lower these bounds to the worth of answers with each value, `[B, N]`."""
        everyone = torch.arange(self.context.atoms.num_entities, device=self.missed.device)
        worth = potential(self.beam, self.floors[step], step, everyone.expand(self.size, -1))
        self.ceilings[step] = torch.minimum(self.ceiling(step), worth)
        return worth

    def expand(
        self, step: Search, rows: Tensor, ids: Tensor, weights: Sequence[Tensor], sizes: Tensor
    ) -> None:
        """Expand the first so many candidates of some queries.

        They are weighted by one table for the beam and both bounds, or by one for each.
        """
        chosen = sizes.nonzero()[:, 0]
        if not len(chosen):
            return
        rows = rows[chosen]
        ids = ids[chosen]
        sizes = sizes[chosen]
        places = torch.arange(int(sizes.max()), device=ids.device)
        # the first stands for those beyond a query's number
        places = torch.where(places < sizes[:, None], places, 0)
        ids = ids.gather(1, places)
        if isinstance(step, Cutset):
            values = self._bodies(step, rows, ids)
        else:
            tables = [table[chosen].gather(1, places) for table in weights]
            values = self._targets(step, rows, ids, tables)
        frontier = self.frontiers[step]
        frontier.reach(rows, *values)
        frontier.expanded[rows[:, None], ids] = True
        for query, count in zip(rows.tolist(), sizes.tolist(), strict=True):
            frontier.counts[query] += count

    def _targets(
        self, step: Project, rows: Tensor, ids: Tensor, weights: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What candidates of a hop lead to by the weights for the beam and for both bounds."""
        copies = len(weights)
        edge = step.edge
        starts = torch.cat([*weights])
        ids = ids.repeat(copies, 1)
        every = rows.repeat(copies)
        if isinstance(edge, Relation):
            targets = self.context.empty(len(every))
            relations = self.queries[every].relation(edge)
            self.context.hop(step.source).expansion.from_some(starts, ids, relations, targets)
        else:
            targets = self.beam.inner(every).along(edge, ids, starts)
        tables = targets.view(copies, len(rows), -1).unbind()
        beam, low, high = tables if copies == 3 else 3 * tables
        return beam, low, high

    def _bodies(self, step: Cutset, rows: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The best values of a cycle's body over some candidates, for the beam and both bounds."""
        floor = self.floors.get(step)
        limit = None
        if floor is not None and bool((floor.least[rows] > ZERO).any()):
            self.missed[rows] = torch.maximum(self.missed[rows], floor.least[rows])
            limit = floor[rows]
        if is_hop_free(step.body):
            values = self.beam.inner(rows, floor=limit).bodies(step, ids)
            return values, values, values
        bounds = self.bounded.inner(rows, floor=limit).bodies(step, ids)
        return bounds.low, bounds.low, bounds.high

    def only(self, queries: Sequence[int]) -> SearchState:
        """The state of the search for some of the queries."""
        if len(queries) == self.size:
            return self
        rows = torch.tensor(queries, dtype=torch.long, device=self.missed.device)
        part = SearchState.of(self.context, self.queries[rows], self.budget)
        part.beam.memo.values = {step: value[rows] for step, value in self.beam.memo.values.items()}
        bounds = self.bounded.memo.values.items()
        part.bounded.memo.values = {step: value[rows] for step, value in bounds}
        part.frontiers = {step: frontier.only(rows) for step, frontier in self.frontiers.items()}
        part.floors = {step: floor[rows] for step, floor in self.floors.items()}
        part.ceilings = {step: ceiling[rows] for step, ceiling in self.ceilings.items()}
        part.missed = self.missed[rows]
        return part


@dataclass(eq=False)
class FrontierEvaluator(BoundedEvaluator):
    """Bounds each step by what was expanded, and by the best candidate that was not.

    Edges with hops inside, and cycles that deny such, are bounded by a beam.
    """

    state: SearchState = field(kw_only=True)

    @classmethod
    def by(cls, state: SearchState) -> Self:
        """The evaluator by what a search has expanded until now."""
        memo = Memo[Bounds](keeps_all=True)
        return cls(state.context, state.queries, memo, beam=state.beam, state=state)

    def answers(self, root: Step) -> Bounds:
        """The bounds of answers, with what floors have let fall."""
        return self.set_of(root).raised(self.state.missed)

    def project(self, step: Project, place: EvalContext[Tensor]) -> Bounds:
        if requires_beam(step):
            return self.state.bounded.remembered(step)
        edge = supremum(self.context, step.edge)
        return self._by_frontier(step, lambda left: self.context.logic.conjunction(left, edge))

    def cutset(self, step: Cutset, place: EvalContext[Tensor]) -> Bounds:
        if requires_beam(step):
            return self.state.bounded.remembered(step)
        return self._by_frontier(
            step, lambda left: left if step.bounded else torch.zeros_like(left)
        )

    def sources(self, step: Search) -> Bounds:
        """What each candidate of a step is worth, and so the step with it at most."""
        if isinstance(step, Cutset) and isinstance(step.candidates, Everything):
            return Bounds.exactly(self.state.ceiling(step))
        return self.set_of(source_of(step))

    def best_remaining(self, step: Search) -> Tensor:
        """The bound of the best candidate that was not expanded, `[B, 1]`."""
        frontier = self.state.frontiers[step]
        values, ids = best(self.sources(step).high.masked_fill(frontier.expanded, ZERO), 1)
        frontier.best_remaining = list(zip(values[:, 0].tolist(), ids[:, 0].tolist(), strict=True))
        return values

    def _by_frontier(self, step: Search, bound: Callable[[Tensor], Tensor]) -> Bounds:
        """What candidates of a step lead to, and what those that are left may lead to at most."""
        frontier = self.state.frontier(step)
        most = bound(self.best_remaining(step))
        if isinstance(step, Cutset) and not step.bounded:
            counts = torch.tensor(frontier.counts, device=most.device)[:, None]
            most = most.masked_fill(counts == self.context.atoms.num_entities, ZERO)
        low = frontier.low.clone()  # which is raised as the search goes on
        return Bounds(low, frontier.high).raised(most[:, 0])


@dataclass(eq=False)
class ForesightEvaluator(FrontierEvaluator):
    """Bounds each step as if far more candidates had been expanded, to nothing better."""

    def best_remaining(self, step: Search) -> Tensor:
        """The bound of the candidate after those, `[B, 1]`."""
        upper = self.sources(step).high.masked_fill(self.state.frontiers[step].expanded, ZERO)
        allowed = [self.state.allowance(step, query) for query in range(self.state.size)]
        passed = [min(_FAR * count, upper.shape[1]) for count in allowed]
        falling = F.pad(upper, (0, 1), value=ZERO).topk(max(passed) + 1).values
        return falling.gather(1, torch.tensor(passed, device=upper.device)[:, None])


@dataclass(eq=False)
class ExpandedEvaluator(BeamEvaluator):
    """Values each step as a beam does that kept the candidates which were expanded.

    What is inside edges and cycles was valued by a beam of its own.
    """

    state: SearchState = field(kw_only=True)

    @classmethod
    def by(cls, state: SearchState) -> ExpandedEvaluator:
        """The evaluator by what a search has expanded until now."""
        state.bounded.lend()
        values = {
            step: value for step, value in state.beam.memo.values.items() if is_hop_free(step)
        }
        return cls(state.context, state.queries, Memo(values, keeps_all=True), state=state)

    def project(self, step: Search, place: EvalContext[Tensor]) -> Tensor:
        frontier = self.state.frontiers.get(step)
        return self.state.beam.remembered(step) if frontier is None else frontier.beam

    cutset = project

    def candidates(self, step: Search) -> tuple[Tensor, Tensor]:
        """The candidates that were expanded for one query, and all that a beam keeps of a hop."""
        values, ids = super().candidates(step)
        frontier = self.state.frontiers.get(step)
        if frontier is None or not bool(frontier.expanded.any()):
            return values, ids
        expanded = frontier.expanded
        if isinstance(step, Project):  # whose frontier may have lost those that are not exact
            expanded = expanded.scatter(1, ids, True)
        ids = expanded.nonzero()[None, :, 1]
        return self.set_of(source_of(step)).gather(1, ids), ids

    def inner(
        self,
        rows: Tensor,
        queries: QueryBatch | None = None,
        context: SearchContext | None = None,
        floor: Floor | None = None,
    ) -> Evaluator[Tensor]:
        """The evaluator of queries that repeat rows of these, by a beam alone."""
        return self.state.beam.inner(rows, queries, context, floor)
