"""Floors: a search for the best answers need not know what is worth less than these.

A conjunction, a hop and a cycle are worth no more than each of their parts. So once a list is full
of answers that are worth at least a *floor*, a lower value counts as nothing where only such steps
lie between it and the answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tacit.engine.logic import ZERO, largest
from tacit.engine.search.search_context import QueryBatch, SearchContext, by_rows
from tacit.engine.top_k import TopKRequest
from tacit.query.plans.fold import EvalContext, Visitor
from tacit.query.plans.plan import (
    At,
    Cutset,
    Edge,
    Intersect,
    Node,
    Project,
    Relation,
    Row,
    Step,
    conjuncts,
)
from tacit.query.plans.traits import is_bounded_by_parts, is_hop_free

if TYPE_CHECKING:
    from tacit.engine.search.bounded_evaluator import Bounds
    from tacit.engine.search.evaluator import Evaluator

# how far a floor stays below log-scores, whatever rounding does
_RELATIVE = 1e-5
_ABSOLUTE = 1e-6


@dataclass(frozen=True, eq=False)
class Floor:
    """What an answer to each query must be worth to matter."""

    least: Tensor  # [B]
    headroom: Tensor | None = None  # [B, N]: what answers are worth at most by all but a cycle

    def __getitem__(self, rows: Tensor) -> Floor:
        return Floor(self.least[rows], None if self.headroom is None else self.headroom[rows])

    def cut(self, values: Tensor) -> Tensor:
        """A set without what is below the floor, `[B, N]`."""
        return values.masked_fill(values < self.least[:, None], ZERO)


def floor(request: TopKRequest, lower: Tensor) -> float:
    """A log-score that all answers listed for a request exceed, by lower bounds `[N]`.

    There is none where the list is not full.
    """
    ids = request.order(request.lifted(lower), lower)  # of known answers, those that were reached
    if not ids or len(ids) < request.count:
        return ZERO
    return just_below(float(lower[ids].min()))  # not lifted: known answers may be listed for more


def just_below(score: float) -> float:
    """A log-score that is lower, whatever rounding does."""
    return score * (1.0 + _RELATIVE) - _ABSOLUTE


def floors(
    root: Node, requests: Sequence[TopKRequest], evaluator: Evaluator[Bounds]
) -> dict[Step, Floor]:
    """The floors of those cycles of a plan that no answer is worth more than."""
    cycles = [
        part
        for part in conjuncts(root)
        if isinstance(part, Cutset) and is_bounded_by_parts(part.body)
    ]
    if not cycles:
        return {}
    lower = evaluator.set_of(root).low
    logic = evaluator.context.logic
    least = torch.tensor(
        [floor(*pair) for pair in zip(requests, lower, strict=True)], device=lower.device
    )
    limits = dict[Step, Floor]()
    for cycle in cycles:
        parts = [evaluator.set_of(part).high for part in conjuncts(root) if part is not cycle]
        most = logic.all(parts) if parts else torch.zeros_like(lower)
        lifted = [request.lifted(row) for request, row in zip(requests, most, strict=True)]
        limits[cycle] = Floor(least, torch.stack(lifted))
    return limits


def promising(
    evaluator: Evaluator[Any],
    limit: Floor,
    step: Cutset,
    candidates: Tensor,
) -> Tensor:
    """The candidates `[B, P]` of a cycle with which some query may reach its floor."""
    firsts = sorted(_first_rows(step.body), key=lambda first: not first[1])
    for part, ends in firsts:  # those that tell more come first
        if candidates.numel():
            most = _at_most(evaluator, limit if ends else None, step, candidates, [part])
            useful = ~(most < limit.least)  # what is no number must not get lost
            candidates = candidates[:, useful.any(dim=1)]
    return candidates


def potential(
    evaluator: Evaluator[Tensor], limit: Floor, step: Cutset, candidates: Tensor
) -> Tensor:
    """Bound the worth of answers with each candidate `[B, P]` of a cycle."""
    parts = [part for part, ends in _first_rows(step.body) if ends]
    few = candidates.split(evaluator.at_once(step.body), dim=1)
    return torch.cat([_at_most(evaluator, limit, step, chunk, parts) for chunk in few]).t()


def _at_most(
    evaluator: Evaluator[Any],
    limit: Floor | None,
    step: Cutset,
    candidates: Tensor,
    parts: Sequence[Node],
) -> Tensor:
    """The highest value of parts of a body with each candidate, `[P, B]`, within the headroom."""
    inner = evaluator.trying(step.slot, candidates)
    context = evaluator.context
    sets = [inner.highest(inner.of(part)) for part in parts]
    if limit is not None and limit.headroom is not None:
        sets.insert(0, limit.headroom.repeat(candidates.shape[1], 1))
    most = by_rows(context.logic.all, sets).amax(dim=1, keepdim=True)
    return largest(context.atoms.shards, most).view(-1, len(evaluator.queries))


def _first_rows(body: Node) -> Iterator[tuple[Node, bool]]:
    """The rows and single values that bound a conjunction and the hops in it.

    With each comes whether it is a part of the conjunction itself, so that it ends at answers.
    """
    for part in conjuncts(body):
        first: Node = part
        while isinstance(first, Project):
            first = first.source
        if isinstance(first, Row | At) and is_hop_free(first):
            yield first, first is part


def ceilings(context: SearchContext, queries: QueryBatch, step: Cutset) -> Tensor:
    """Bound the worth of each value of a cut variable, `[B, N]`, by the facts about it."""
    rows = [_AtMost(context, step.slot, relations).of(step.body) for relations in queries.relations]
    return torch.stack(rows)


def supremum(context: SearchContext, edge: Edge) -> Tensor:
    """Bound the worth of an edge, `[]`."""
    return _AtMost(context).of(edge)


@dataclass(frozen=True, eq=False)
class _AtMost(Visitor[None, Tensor]):
    """Values a step by its supremum with each entity in a slot, `[N]`, or with any, `[]`."""

    context: SearchContext
    slot: int | None = None
    relations: Tensor | None = None  # [R]

    def intersect(self, step: Intersect[Step], place: EvalContext[None]) -> Tensor:
        return self.context.logic.all([self.of(part) for part in step.parts])

    def project(self, step: Project, place: EvalContext[None]) -> Tensor:
        edge = supremum(self.context, step.edge)
        return self.context.logic.conjunction(self.of(step.source), edge)

    def row(self, step: Row, place: EvalContext[None]) -> Tensor:
        atoms = self.context.atoms
        edge = step.edge
        relations = self.relations
        if step.slot != self.slot or relations is None or not isinstance(edge, Relation):
            return self.generic_visit(step, place)
        if atoms.facts is None:
            return self.generic_visit(step, place)
        heads = torch.arange(atoms.num_entities, device=atoms.device)
        relation = relations[edge.slot] ^ int(edge.flip)
        counts = atoms.facts.counts(heads, relation.expand(len(heads)))
        predicted = atoms.ceiling + atoms.calibration.supremum
        return torch.where(counts > 0, atoms.supremum, predicted)

    def relation(self, step: Relation, place: EvalContext[None]) -> Tensor:
        return torch.tensor(self.context.atoms.supremum, device=self.context.atoms.device)

    def generic_visit(self, step: Step, place: EvalContext[None]) -> Tensor:
        atoms = self.context.atoms
        shape = () if self.slot is None else (atoms.num_entities,)
        return torch.zeros(shape, device=atoms.device)
