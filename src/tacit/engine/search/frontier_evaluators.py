"""The evaluators that read from the frontiers of a best-first search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.distributed.ties import best
from tacit.engine.logic import ZERO
from tacit.engine.search.beam_evaluator import BeamEvaluator
from tacit.engine.search.bounded_evaluator import BoundedEvaluator
from tacit.engine.search.bounds import Bounds
from tacit.engine.search.evaluator import Evaluator, Memo
from tacit.engine.search.floors import Floor, supremum
from tacit.engine.search.search_context import QueryBatch, SearchContext
from tacit.engine.search.search_state import SearchState
from tacit.query.plans.fold import EvalContext
from tacit.query.plans.plan import Cutset, Everything, Project, Step
from tacit.query.plans.traits import Search, is_hop_free, requires_beam, source_of

_FAR = 2  # times the candidates that may be expanded: where so many would prove nothing, none is


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
        return self.whole(root).raised(self.state.missed)

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
        return self.whole(source_of(step))

    def best_left(self, step: Search) -> Tensor:
        """The bound of the best candidate that was not expanded, `[B, 1]`."""
        frontier = self.state.frontiers[step]
        values, ids = best(self.sources(step).high.masked_fill(frontier.expanded, ZERO), 1)
        frontier.best_left = list(zip(values[:, 0].tolist(), ids[:, 0].tolist(), strict=True))
        return values

    def _by_frontier(self, step: Search, bound: Callable[[Tensor], Tensor]) -> Bounds:
        """What candidates of a step lead to, and what those that are left may lead to at most."""
        frontier = self.state.frontier(step)
        most = bound(self.best_left(step))
        if isinstance(step, Cutset) and not step.bounded:
            counts = torch.tensor(frontier.counts, device=most.device)[:, None]
            most = most.masked_fill(counts == self.context.atoms.num_entities, ZERO)
        low = frontier.low.clone()  # which is raised as the search goes on
        return Bounds(low, frontier.high).raised(most[:, 0])


@dataclass(eq=False)
class ForesightEvaluator(FrontierEvaluator):
    """Bounds each step as if far more candidates than may be expanded had led to nothing better."""

    def best_left(self, step: Search) -> Tensor:
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
        return self.whole(source_of(step)).gather(1, ids), ids

    def inner(
        self, queries: QueryBatch, rows: Tensor, context: SearchContext, floor: Floor | None
    ) -> Evaluator[Tensor]:
        """The evaluator of queries that belong to some rows here, by a beam alone."""
        return self.state.beam.inner(queries, rows, context, floor)
