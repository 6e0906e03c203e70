"""What evaluators of plans share: the memo, rows valued once, and loops over candidates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeVar

import torch
from torch import Tensor

from tacit.engine.logic import ZERO, Logic, at
from tacit.engine.search.floors import Floor, promising
from tacit.engine.search.search_context import QueryBatch, RowGroups, SearchContext
from tacit.query.plans.fold import EVERYWHERE, EvalContext, Fold
from tacit.query.plans.plan import Cutset, Edge, Project, Step, reads
from tacit.query.plans.traits import Search, source_of

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Outer(Generic[Value]):
    """The evaluator around another one, and a row of it for each row of that."""

    evaluator: Evaluator[Value]
    rows: Tensor  # [B]

    def __getitem__(self, rows: Tensor) -> Outer[Value]:
        return Outer(self.evaluator, self.rows[rows])

    def has(self, step: Step) -> bool:
        """Whether it has all entity slots that a step reads."""
        return max(reads(step)[0], default=-1) < self.evaluator.queries.entities.shape[1]


@dataclass(eq=False)
class Memo(Generic[Value]):
    """The values of steps that are remembered: here, and in the evaluator around."""

    values: dict[Step, Value] = field(default_factory=dict)
    keeps_all: bool = False  # as explanations need; else only what `remembered` values
    outer: Outer[Value] | None = None

    def only(self, rows: Tensor) -> Memo[Value]:
        """An empty memo for some of the rows."""
        return Memo(outer=None if self.outer is None else self.outer[rows])

    def outer_of(self, step: Step) -> Outer[Value] | None:
        """The evaluator around, where it can value a step that has no value here."""
        if self.outer is None or step in self.values or not self.outer.has(step):
            return None
        return self.outer


@dataclass(eq=False)
class Evaluator(Fold[Tensor, Value]):
    """Values the steps of a plan for B queries, `[B, N]`, or `[B, 1]` for one value for all.

    Candidates of a cut variable are tried by an evaluator inside, whose queries fill one more slot.
    There a step that does not read the slot has the value from outside.
    """

    context: SearchContext
    queries: QueryBatch
    memo: Memo[Value] = field(default_factory=Memo)
    floor: Floor | None = None  # values of hops and cycles that are lower may be less than they are

    @abstractmethod
    def lift(self, function: Callable[..., Tensor], *values: Value) -> Value:
        """Apply a function of tables to values."""

    @abstractmethod
    def highest(self, value: Value) -> Tensor:
        """The table of a value, or of its upper bounds."""

    def of(self, step: Step, place: EvalContext[Tensor] = EVERYWHERE) -> Value:
        """The value of a step at a place.

        Between two ends it is computed. At one entity a row it is read from the set, where that is
        known or costs a search. A set comes from the memo, from the evaluator around, or from one
        row for each group of equal rows.
        """
        if place.source is not None:
            return super().of(step, place)
        outer = self.memo.outer_of(step)
        is_known = step in self.memo.values
        if place.target is not None:
            by_set = is_known or outer is not None or isinstance(step, Project | Cutset)
            return self._at(step, place.target) if by_set else super().of(step, place)
        if is_known:
            return self.memo.values[step]
        if outer is not None:
            return self._rows(outer.evaluator.remembered(step), outer.rows)
        groups = self.queries.groups(step) if self.queries.repeats else None
        if groups is None:
            value = super().of(step)
        else:
            value = self._rows(self._only(groups).of(step), groups.back)
        if self.memo.keeps_all:
            self.memo.values[step] = value
        return value

    def remembered(self, step: Step) -> Value:
        """The fuzzy set of a step, valued once."""
        if step not in self.memo.values:
            self.memo.values[step] = self.of(step)
        return self.memo.values[step]

    def set_of(self, step: Step) -> Value:
        """The fuzzy set of a step with a value for every entity, `[B, N]`."""
        shape = len(self.queries), self.context.atoms.width
        return self.lift(lambda values: values.expand(shape), self.of(step))

    def above_floor(self, step: Step) -> Value:
        """The same without what is below the floor."""
        values = self.set_of(step)
        return values if self.floor is None else self.lift(self.floor.cut, values)

    def _rows(self, value: Value, rows: Tensor) -> Value:
        return self.lift(lambda table: table[rows], value)

    def _at(self, step: Step, entities: Tensor) -> Value:
        """The value of a set at one entity a row, `[B, 1]`."""
        outer = self.memo.outer_of(step)
        if outer is None:
            table = self.set_of(step)
            rows = torch.arange(len(entities), device=entities.device)
        else:
            outer.evaluator.remembered(step)
            table = outer.evaluator.set_of(step)
            rows = outer.rows
        shards = self.context.atoms.shards
        return self.lift(lambda values: at(shards, values, rows, entities)[:, None], table)

    def _only(self, groups: RowGroups) -> Evaluator[Value]:
        """The evaluator of one row for each group, with the lowest floor of the group."""
        memo = self.memo.only(groups.rows)
        floor = None if self.floor is None else Floor(groups.lowest(self.floor.least))
        return replace(self, queries=self.queries[groups.rows], memo=memo, floor=floor)

    def inner(
        self,
        rows: Tensor,
        queries: QueryBatch | None = None,
        context: SearchContext | None = None,
        floor: Floor | None = None,
    ) -> Evaluator[Value]:
        """The evaluator of queries that repeat some rows here, and share what these remember."""
        queries = replace(self.queries[rows] if queries is None else queries, repeats=True)
        memo = Memo(outer=Outer(self, rows))
        context = context or self.context
        return replace(self, context=context, queries=queries, memo=memo, floor=floor)

    def copied(self, rows: Tensor, queries: QueryBatch | None = None) -> Evaluator[Value]:
        """The evaluator of copies of some of these queries, in half of the memory."""
        floor = None if self.floor is None else Floor(self.floor.least[rows])
        return self.inner(rows, queries, self.context.halved(), floor)

    def trying(self, slot: int, candidates: Tensor) -> Evaluator[Value]:
        """The evaluator with each candidate `[B, P]` in one more slot, in `P · B` rows."""
        rows = torch.arange(len(self.queries), device=candidates.device).repeat(candidates.shape[1])
        return self.copied(rows, self.queries[rows].filled(slot, candidates.t().reshape(-1)))

    def candidates(self, step: Search) -> tuple[Tensor, Tensor]:
        """The candidates that a beam keeps in a step: their values and ids, `[B, K]`."""
        source = source_of(step)
        return self.context.hop(source).candidates(self.highest(self.set_of(source)))

    def entity(self, slot: int) -> Tensor:
        return self.queries.entities[:, slot]

    def bodies(self, step: Cutset, candidates: Tensor) -> Value:
        """Take the best value of a cycle's body over candidates `[B, P]`, `[B, N]`."""
        out = self.lift(partial(self.context.empty, len(self.queries)))
        times = self.at_once(step.body)
        if self.floor is not None:
            few = candidates.split(times, dim=1)
            candidates = torch.cat([promising(self, self.floor, step, each) for each in few], dim=1)
        for few in candidates.split(times, dim=1) if candidates.numel() else ():
            body = self.trying(step.slot, few).set_of(step.body)
            out = self.lift(partial(_best_of, few.shape[1]), out, body)
        return out

    def along(self, edge: Edge, candidates: Tensor, weights: Value) -> Value:
        """Follow an edge from weighted candidates `[B, P]` to every entity, `[B, N]`."""
        out = self.lift(partial(self.context.empty, len(self.queries)))
        places = torch.arange(candidates.shape[1], device=candidates.device)
        for few in places.split(self.at_once(edge)):
            rows = (self.highest(weights)[:, few] != ZERO).any(dim=1).nonzero()[:, 0]
            if not len(rows):
                continue
            sources = candidates[rows][:, few].t().reshape(-1)
            edges = self.copied(rows.repeat(len(few))).edges(edge, sources)
            out = self.lift(partial(_raised, self.context.logic, rows, few), out, weights, edges)
        return out

    def edges(self, edge: Edge, sources: Tensor) -> Value:
        """The values of an edge from one source a row, `[B, N]`."""
        groups = self.queries.groups(edge, sources)
        if groups is None:
            return self.of(edge, EvalContext(sources))
        few = self._only(groups).of(edge, EvalContext(sources[groups.rows]))
        return self._rows(few, groups.back)

    def at_once(self, step: Step) -> int:
        """How many candidates to try together."""
        return self.context.at_once(step, len(self.queries))


def _best_of(count: int, out: Tensor, bodies: Tensor) -> Tensor:
    """Raise `out[B, N]` to the best of so many copies of each row."""
    return torch.maximum(out, bodies.view(count, len(out), -1).amax(dim=0))


def _raised(
    logic: Logic, rows: Tensor, few: Tensor, out: Tensor, weights: Tensor, edges: Tensor
) -> Tensor:
    """Raise some rows of `out[B, N]` to `max_p weights[p] ⊤ edges[p]` over few candidates."""
    starts = weights[rows][:, few].t()[:, :, None]  # [P, B, 1]
    through = logic.conjunction(starts, edges.view(len(few), len(rows), -1)).amax(dim=0)
    return out.index_copy(0, rows, torch.maximum(out[rows], through))
