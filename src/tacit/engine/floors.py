"""Floors: where the best answers are wanted, what is worth less than the last of them need not be known.

A conjunction, a hop and a cycle are worth no more than each of their parts. So once as many answers as are wanted are
worth at least a *floor*, a value below it that only such steps hand on to the answers may count as nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.engine.found import Wanted
from tacit.engine.logic import ZERO
from tacit.engine.scores import Scores
from tacit.query.plan import Condition, Edge, Intersect, Node, Project, Relation, Row, Step
from tacit.query.plan_traits import hands_on

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
        others = [part for part in root.parts if part is not step] if isinstance(root, Intersect) else []
        parts = [bounds.whole(part)[size:] for part in others]
        room = bounds.logic.all(parts) if parts else torch.zeros_like(lower)
        rooms[step] = torch.stack([each.lifted(row) for each, row in zip(wanted, room, strict=True)])
    return {step: Floor(least, room) for step, room in rooms.items()}


def _cycles(root: Node) -> Iterator[Condition]:
    """The cycles that an answer is worth no more than, and that hand on nothing but what is worth no more either."""
    for part in root.parts if isinstance(root, Intersect) else (root,):
        if isinstance(part, Condition) and hands_on(part.body):
            yield part


def ceilings(scores: Scores, step: Condition) -> Tensor:
    """What each value of a cut variable is worth at most, `[B, N]`, by whether anything is known to follow from it."""
    everyone = torch.arange(scores.atoms.num_entities, device=scores.atoms.device)
    return torch.stack([_ceiling(scores, step.body, step.slot, everyone, relations) for relations in scores.relations])


def _ceiling(scores: Scores, step: Step, slot: int, heads: Tensor, relations: Tensor) -> Tensor:
    """What a step is worth at most with each of some entities in a slot, `[N]`."""
    atoms, logic = scores.atoms, scores.logic
    match step:
        case Intersect(parts):
            return logic.all([_ceiling(scores, part, slot, heads, relations) for part in parts])
        case Project(_, source, edge):
            return logic.conjunction(_ceiling(scores, source, slot, heads, relations), supremum(scores, edge))
        case Row(at, Relation(along, flip)) if at == slot and atoms.facts is not None:
            counts = atoms.facts.counts(heads, (relations[along] ^ int(flip)).expand(len(heads)))
            return torch.where(counts > 0, atoms.supremum, atoms.ceiling + atoms.calibration.supremum)
    return torch.zeros(len(heads), device=heads.device)


def supremum(scores: Scores, edge: Edge) -> Tensor:
    """What an edge is worth at most, `[]`."""
    match edge:
        case Relation():
            return torch.tensor(scores.atoms.supremum, device=scores.atoms.device)
        case Intersect(parts):
            return scores.logic.all([supremum(scores, part) for part in parts])
    return torch.tensor(0.0, device=scores.atoms.device)
