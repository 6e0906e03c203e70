"""Answers of an encoder without what cannot be: loops of relations that never loop in the training facts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.atoms.possible import IMPOSSIBLE, Possible
from tacit.engine.reasoner import Around, Reasoner
from tacit.query.plans.fold import Fold, Place
from tacit.query.plans.plan import Complement, Plan, Relation, Step


class Loopless(Around):
    """The scores of a reasoner that values questions whole, with minus infinity for answers that only a loop allows.

    An atom between an answer and an entity of the question is ruled out as a search over atoms rules it out. Values
    of the variables between them are nobody's to see here: through them nothing is ruled out.
    """

    def __init__(self, reasoner: Reasoner, possible: Possible, facts: KnownFacts | None) -> None:
        super().__init__(reasoner)
        self.possible, self.facts = possible, facts

    def left(self, plan: Plan, entities: Tensor, relations: Tensor, *tables: Tensor) -> list[Tensor]:
        """Tables `[B, N]` without what is ruled out."""
        device = self.possible.without_loops.device
        slots = entities.to(device).long(), relations.to(device).long()
        everyone = torch.arange(self.num_entities, device=device)[None]
        out = _RuledOut(self.possible, self.facts, *slots).of(plan.root, Place(target=everyone))
        return [table.masked_fill(out.to(table.device), IMPOSSIBLE) for table in tables]


class _RuledOut(Fold[Tensor, Tensor]):
    """Whether steps surely do not hold, for each query and entity, `[B, N]` or `[B, 1]`; ends are ids `[B or 1, n]`."""

    def __init__(self, possible: Possible, facts: KnownFacts | None, entities: Tensor, relations: Tensor) -> None:
        self.possible, self.facts, self.entities, self.relations = possible, facts, entities, relations
        self.nothing = torch.zeros(len(relations), 1, dtype=torch.bool, device=entities.device)

    def entity(self, slot: int) -> Tensor:
        """The entities of a slot."""
        return self.entities[:, slot, None]

    def relation(self, step: Relation, place: Place[Tensor]) -> Tensor:
        """Loops of relations that have none, unless one is known."""
        relations = self.relations[:, step.slot, None] ^ int(step.flip)
        loops = (place.start == place.target) & self.possible.without_loops[relations]
        if self.facts is not None:
            at = loops.nonzero(as_tuple=True)
            looping = place.start.expand_as(loops)[at]
            loops[at] = ~self.facts.contains(looping, relations.expand_as(loops)[at], looping)
        return loops

    def all(self, parts: Sequence[Tensor], place: Place[Tensor]) -> Tensor:
        """What any part rules out."""
        return reduce(torch.logical_or, parts)

    def any(self, parts: Sequence[Tensor], place: Place[Tensor]) -> Tensor:
        """What every part rules out."""
        return reduce(torch.logical_and, parts)

    def negation(self, step: Complement[Step], part: Tensor, place: Place[Tensor]) -> Tensor:
        """Nothing: no atom is sure."""
        return self.nothing

    def otherwise(self, step: Step, place: Place[Tensor]) -> Tensor:
        """Nothing: a hop comes from any entity."""
        return self.nothing
