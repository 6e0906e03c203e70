"""Bounds of log-scores, and the evaluation of plans by them.

What a beam drops raises upper bounds, and a negation swaps both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tacit.engine.logic import Logic, gather_columns, largest
from tacit.engine.search.evaluator import Evaluator, Memo, Outer
from tacit.engine.search.floors import Floor
from tacit.engine.search.hop import Hop
from tacit.engine.search.search_context import QueryBatch, RowGroups, SearchContext
from tacit.query.plans.fold import EVERYWHERE, End, EvalContext, Fold
from tacit.query.plans.plan import (
    Best,
    Cutset,
    Edge,
    Project,
    Relation,
    Source,
    Step,
    Target,
    ends_of,
)
from tacit.query.plans.traits import is_hop_free, negates_hops, of_sets


@dataclass(frozen=True, eq=False)
class Bounds:
    """Lower and upper bounds of exact log-scores, which are exact where both are one tensor."""

    low: Tensor
    high: Tensor

    @classmethod
    def exactly(cls, value: Tensor) -> Bounds:
        """The bounds of known values."""
        return cls(value, value)

    @property
    def exact(self) -> bool:
        """Whether the values are known."""
        return self.low is self.high

    def __getitem__(self, rows: Tensor) -> Bounds:
        return lift(lambda bound: bound[rows], self)

    def swapped(self) -> Bounds:
        """Swap upper and lower bounds, as a negation does."""
        return Bounds(self.high, self.low)

    def raised(self, least: Tensor | None) -> Bounds:
        """Raise the upper bounds to at least a value a row, `[B]`."""
        return self if least is None else Bounds(self.low, torch.maximum(self.high, least[:, None]))


def lift(function: Callable[..., Tensor], *values: Bounds) -> Bounds:
    """Apply a monotone function to lower and upper bounds, once where all are exact."""
    low = function(*[value.low for value in values])
    exact = all(value.exact for value in values)
    return Bounds(low, low if exact else function(*[value.high for value in values]))


class BoundsFold(Fold[End, Bounds]):
    """Values sets, their complements and what they are joined to, from bounds of atoms."""

    logic: Logic

    def all(self, parts: Sequence[Bounds]) -> Bounds:
        return lift(lambda *bounds: self.logic.all(bounds), *parts)

    def any(self, parts: Sequence[Bounds]) -> Bounds:
        return lift(lambda *bounds: self.logic.any(bounds), *parts)

    def negation(self, part: Bounds) -> Bounds:
        return lift(self.logic.negation, part.swapped())


@dataclass(eq=False)
class BoundedEvaluator(Evaluator[Bounds]):
    """Bounds each step by the candidates that a beam keeps and the best one it drops.

    Steps without hops and cycles are exact. Lower bounds of steps that deny no hop are what the
    beam values them.
    """

    beam: Evaluator[Tensor] = field(kw_only=True)  # of the same queries

    def of(self, step: Step, place: EvalContext[Tensor] = EVERYWHERE) -> Bounds:
        """The bounds of a step at a place."""
        if is_hop_free(step):
            return Bounds.exactly(self.beam.of(step, place))
        return super().of(step, place)

    def project(self, step: Project, place: EvalContext[Tensor]) -> Bounds:
        source = self._merged(self.above_floor(step.source))
        hop = self.context.hop(step.source)
        if isinstance(step.edge, Relation):
            targets = self._over(hop, source, self.queries.relation(step.edge))
        else:
            candidates = self._candidates(hop, source, step.edge)
            targets = self._through(step.edge, source, *candidates)
        return targets.raised(hop.beyond(source.high))

    def cutset(self, step: Cutset, place: EvalContext[Tensor]) -> Bounds:
        self.remembered(step.candidates)  # which the body may read, too
        source = self._merged(self.set_of(step.candidates))
        hop = self.context.hop(step.candidates)
        low, high = self._candidates(hop, source, step.body)
        if low is high:
            body = self.bodies(step, low)
        else:
            self.lend()
            body = Bounds(self.beam.bodies(step, low), self.bodies(step, high).high)
        dropped = hop.beyond(source.high)
        if dropped is not None and not step.bounded:
            dropped = torch.zeros_like(dropped)  # it may be worth anything
        return body.raised(dropped)

    def best(self, step: Best, place: EvalContext[Tensor]) -> Bounds:
        shards = self.context.atoms.shards
        part = self.set_of(step.part)
        return lift(lambda values: largest(shards, values.amax(dim=1, keepdim=True)), part)

    def relation(self, step: Relation, place: EvalContext[Tensor]) -> Bounds:
        return Bounds.exactly(self.beam.relation(step, place))

    def all(self, parts: Sequence[Bounds]) -> Bounds:
        return lift(lambda *bounds: self.beam.all(bounds), *parts)

    def any(self, parts: Sequence[Bounds]) -> Bounds:
        return lift(lambda *bounds: self.beam.any(bounds), *parts)

    def negation(self, part: Bounds) -> Bounds:
        return lift(self.beam.negation, part.swapped())

    def _merged(self, value: Bounds) -> Bounds:
        """The same bounds, known to be exact where no number differs in a single process."""
        alone = self.context.atoms.shards.world == 1
        return Bounds.exactly(value.low) if alone and torch.equal(value.low, value.high) else value

    def _candidates(self, hop: Hop, source: Bounds, inside: Step) -> tuple[Tensor, Tensor]:
        """The ids of candidates for lower and for upper bounds, `[B, K]` each.

        Both are the candidates of either bound where a negation inside swaps the two.
        """
        low = hop.candidates(source.low)[1]
        if source.exact:
            return low, low
        high = hop.candidates(source.high)[1]
        if not negates_hops(inside):
            return low, high
        both = torch.cat([low, high], dim=1)
        return both, both

    def _over(self, hop: Hop, source: Bounds, relations: Tensor) -> Bounds:
        """Follow one relation from both bounds of a set."""
        if source.exact:
            return Bounds.exactly(hop.over(source.low, relations))
        both = torch.cat([source.low, source.high])  # which share rows
        return Bounds(*hop.over(both, relations.repeat(2)).chunk(2))

    def _through(self, edge: Edge, source: Bounds, low: Tensor, high: Tensor) -> Bounds:
        """Follow a compound edge from candidates for lower and for upper bounds."""
        shards = self.context.atoms.shards
        lower = gather_columns(shards, source.low).gather(1, low)
        if source.exact and is_hop_free(edge):
            return Bounds.exactly(self.beam.along(edge, low, lower))
        upper = lower if source.exact else gather_columns(shards, source.high).gather(1, high)
        if low is high and not of_sets(edge):
            return self.along(edge, low, Bounds(lower, upper))
        return Bounds(  # each by itself, so that it prunes its own candidates
            self._side(edge, lambda bounds: bounds.low).along(edge, low, lower),
            self._side(edge, lambda bounds: bounds.high).along(edge, high, upper),
        )

    def _side(self, edge: Edge, bound: Callable[[Bounds], Tensor]) -> Evaluator[Tensor]:
        """The beam's evaluator with one bound of the sets at the ends of an edge."""
        sets = [end.part for end in ends_of(edge) if isinstance(end, Source | Target)]
        values = self.beam.memo.values | {part: bound(self.remembered(part)) for part in sets}
        return replace(self.beam, memo=replace(self.beam.memo, values=values))

    def lend(self) -> None:
        """Let the beam's evaluator know the lower bounds that are its values."""
        values = self.memo.values.items()
        self.beam.memo.values |= {
            step: bounds.low for step, bounds in values if not negates_hops(step)
        }

    def lift(self, function: Callable[..., Tensor], *values: Bounds) -> Bounds:
        return lift(function, *values)

    def highest(self, value: Bounds) -> Tensor:
        return value.high

    def inner(
        self,
        rows: Tensor,
        queries: QueryBatch | None = None,
        context: SearchContext | None = None,
        floor: Floor | None = None,
    ) -> BoundedEvaluator:
        """The evaluator of queries that repeat rows of these, with that of their beam."""
        beam = self.beam.inner(rows, queries, context, floor)
        memo = Memo[Bounds](outer=Outer(self, rows))
        return BoundedEvaluator(beam.context, beam.queries, memo, floor, beam=beam)

    def _only(self, groups: RowGroups) -> BoundedEvaluator:
        beam = self.beam._only(groups)
        memo = self.memo.only(groups.rows)
        return BoundedEvaluator(self.context, beam.queries, memo, beam.floor, beam=beam)

    def at_once(self, step: Step) -> int:
        """How many candidates to try together, with two tables for a value."""
        return self.context.at_once(step, 2 * len(self.queries))
