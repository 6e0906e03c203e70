"""Exact and beam search: the algebra of plans over fuzzy sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.engine.logic import ZERO, different, largest, own_columns
from tacit.engine.search.evaluator import Evaluator
from tacit.engine.search.search_context import by_rows, undominated
from tacit.query.plans.fold import EvalContext
from tacit.query.plans.plan import (
    Best,
    Cutset,
    Difference,
    Edge,
    Everything,
    Loop,
    Project,
    Relation,
    Source,
    Unequal,
    Within,
    ends_of,
)
from tacit.query.plans.traits import of_sets


@dataclass(eq=False)
class BeamEvaluator(Evaluator[Tensor]):
    """Values each step by the table of `plan.py`, from the `k` best values of a variable.

    It is exact where `k` is None, and where no hop and no cycle is part of a step.
    """

    def relation(self, step: Relation, place: EvalContext[Tensor]) -> Tensor:
        atoms = self.context.atoms
        relations = self.queries.relation(step)
        if place.target is None:
            return atoms.rows(place.start, relations)
        return atoms.pairs(place.start, relations, place.target)[:, None]

    def unequal(self, step: Unequal, place: EvalContext[Tensor]) -> Tensor:
        if place.target is not None:
            return different(place.start[:, None], place.target[:, None])
        atoms = self.context.atoms
        everyone = torch.arange(atoms.num_entities, device=atoms.device)
        return different(place.start[:, None], own_columns(atoms.shards, everyone[None]))

    def difference(self, step: Difference, place: EvalContext[Tensor]) -> Tensor:
        atoms = self.context.atoms
        if place.target is not None:
            return atoms.comparisons.pairs(step, place.start, place.target)[:, None]
        return own_columns(atoms.shards, atoms.comparisons.rows(step, place.start))

    def within(self, step: Within, place: EvalContext[Tensor]) -> Tensor:
        atoms = self.context.atoms
        if place.target is not None:
            return atoms.comparisons.at(step, place.target)[:, None]
        row = own_columns(atoms.shards, atoms.comparisons.row(step)[None])
        return row.repeat(len(self.queries), 1)

    def loop(self, step: Loop, place: EvalContext[Tensor]) -> Tensor:
        if place.target is not None:
            return super().loop(step, place)
        atoms = self.context.atoms
        everyone = torch.arange(atoms.num_entities, device=atoms.device)
        column = self.queries.relations[:, step.relation]
        relations, inverse = torch.unique(column, return_inverse=True)
        rows = [atoms.pairs(everyone, each.expand(len(everyone)), everyone) for each in relations]
        return own_columns(atoms.shards, torch.stack(rows)[inverse])

    def project(self, step: Project, place: EvalContext[Tensor]) -> Tensor:
        source = self.above_floor(step.source)
        hop = self.context.hop(step.source)
        if isinstance(step.edge, Relation):
            return hop.over(source, self.queries.relation(step.edge))
        values, candidates = hop.candidates(source)
        return self.along(step.edge, candidates, values)

    def cutset(self, step: Cutset, place: EvalContext[Tensor]) -> Tensor:
        self.remembered(step.candidates)  # which the body may read, too
        return self.bodies(step, self.candidates(step)[1])

    def best(self, step: Best, place: EvalContext[Tensor]) -> Tensor:
        return largest(self.context.atoms.shards, self.set_of(step.part).amax(dim=1, keepdim=True))

    def everything(self, step: Everything, place: EvalContext[Tensor]) -> Tensor:
        return torch.zeros(len(self.queries), 1, device=self.context.atoms.device)

    def all(self, parts: Sequence[Tensor]) -> Tensor:
        return by_rows(self.context.logic.all, parts)

    def any(self, parts: Sequence[Tensor]) -> Tensor:
        return by_rows(self.context.logic.any, parts)

    def negation(self, part: Tensor) -> Tensor:
        return by_rows(lambda rows: self.context.logic.negation(*rows), [part])

    def along(self, edge: Edge, candidates: Tensor, weights: Tensor) -> Tensor:
        """Follow an edge from the candidates that no other outdoes in all that it reads."""
        atoms = self.context.atoms
        if of_sets(edge) and atoms.shards.world == 1 and not atoms.differentiable:
            candidates, weights = self._undominated(edge, candidates, weights)
        return super().along(edge, candidates, weights)

    def _undominated(
        self, edge: Edge, candidates: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The candidates that no other outdoes in weight and all sets, with their weights."""
        shape = len(self.queries), self.context.atoms.width
        sets = [self.remembered(end.part) for end in set(ends_of(edge)) if isinstance(end, Source)]
        features = [weights, *(each.expand(shape).gather(1, candidates) for each in sets)]
        telling = [each for each in features if not bool((each == each[:, :1]).all())]
        places = undominated(telling or features[:1])
        if places is None:
            return candidates, weights
        repeated = places == places[:, :1]
        repeated[:, 0] = False
        return candidates.gather(1, places), weights.gather(1, places).masked_fill(repeated, ZERO)

    def lift(self, function: Callable[..., Tensor], *values: Tensor) -> Tensor:
        return function(*values)

    def highest(self, value: Tensor) -> Tensor:
        return value
