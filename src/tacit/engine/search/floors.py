"""Floors: where the best answers are wanted, what is worth less than the last of them need not be known.

A conjunction, a hop and a cycle are worth no more than each of their parts. So once as many answers as are wanted are
worth at least a *floor*, a value below it that only such steps hand on to the answers may count as nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.engine.logic import ZERO
from tacit.engine.search.best_answers import Wanted
from tacit.engine.search.exact_and_beam import Scores
from tacit.query.plans.fold import Place, Visitor
from tacit.query.plans.plan import Condition, Edge, Intersect, Node, Project, Relation, Row, Step, conjuncts
from tacit.query.plans.traits import hands_on

_RELATIVE, _ABSOLUTE = 1e-5, 1e-6  # by how much a floor stays below log-scores, whatever rounding does to these


def floor(wanted: Wanted, lower: Tensor) -> float:
    """A log-score that all answers of the list wanted have, by lower bounds `[N]`; none where the list is not full."""
    ids = wanted.order(wanted.lifted(lower), lower)  # of known answers, those that were followed
    if not ids or len(ids) < wanted.count:
        return ZERO
    return just_below(float(lower[ids].min()))  # as it is: known answers may be listed for more than that


def just_below(score: float) -> float:
    """A log-score that is lower, whatever rounding does."""
    return score * (1.0 + _RELATIVE) - _ABSOLUTE


@dataclass(frozen=True, eq=False)
class Floor:
    """What answers need to be worth at least, and what they can be worth at most by all but a cycle."""

    least: Tensor  # [B]
    room: Tensor  # [B, N]

    def __getitem__(self, rows: Tensor) -> Floor:
        return Floor(self.least[rows], self.room[rows])


def floors(root: Node, wanted: Sequence[Wanted], bounds: Scores) -> dict[Step, Floor]:
    """The floors of those cycles of a plan with which an answer is worth no more than each of them, by `[2B, N]`."""
    steps, size = list(_cycles(root)), len(wanted)
    if not steps:
        return {}
    lower = bounds.whole(root)[:size]
    least = torch.tensor([floor(*given) for given in zip(wanted, lower, strict=True)], device=lower.device)
    rooms = dict[Step, Tensor]()
    for step in steps:
        parts = [bounds.whole(part)[size:] for part in conjuncts(root) if part is not step]
        room = bounds.logic.all(parts) if parts else torch.zeros_like(lower)
        rooms[step] = torch.stack([each.lifted(row) for each, row in zip(wanted, room, strict=True)])
    return {step: Floor(least, room) for step, room in rooms.items()}


def _cycles(root: Node) -> Iterator[Condition]:
    """The cycles that an answer is worth no more than, and that hand on nothing but what is worth no more either."""
    for part in conjuncts(root):
        if isinstance(part, Condition) and hands_on(part.body):
            yield part


def ceilings(scores: Scores, step: Condition) -> Tensor:
    """What each value of a cut variable is worth at most, `[B, N]`, by whether anything is known to follow from it."""
    return torch.stack([_AtMost(scores, step.slot, relations).of(step.body) for relations in scores.relations])


def supremum(scores: Scores, edge: Edge) -> Tensor:
    """What an edge is worth at most, `[]`."""
    return _AtMost(scores).of(edge)


@dataclass(frozen=True, eq=False)
class _AtMost(Visitor[None, Tensor]):
    """What a step of a query is worth at most with each entity in a slot, `[N]`, or whatever stands there, `[]`."""

    scores: Scores
    slot: int | None = None
    relations: Tensor | None = None  # [R]

    def intersect(self, step: Intersect[Step], place: Place[None]) -> Tensor:
        return self.scores.logic.all([self.of(part) for part in step.parts])

    def project(self, step: Project, place: Place[None]) -> Tensor:
        return self.scores.logic.conjunction(self.of(step.source), supremum(self.scores, step.edge))

    def row(self, step: Row, place: Place[None]) -> Tensor:
        atoms, edge = self.scores.atoms, step.edge
        if step.slot != self.slot or self.relations is None or atoms.facts is None or not isinstance(edge, Relation):
            return self.otherwise(step, place)
        heads = torch.arange(atoms.num_entities, device=atoms.device)
        counts = atoms.facts.counts(heads, (self.relations[edge.slot] ^ int(edge.flip)).expand(len(heads)))
        return torch.where(counts > 0, atoms.supremum, atoms.ceiling + atoms.calibration.supremum)

    def relation(self, step: Relation, place: Place[None]) -> Tensor:
        return torch.tensor(self.scores.atoms.supremum, device=self.scores.atoms.device)

    def otherwise(self, step: Step, place: Place[None]) -> Tensor:
        shape = () if self.slot is None else (self.scores.atoms.num_entities,)
        return torch.zeros(shape, device=self.scores.atoms.device)
