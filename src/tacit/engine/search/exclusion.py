"""What a reasoner answers without some of it: known answers, or those that only a loop would allow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.atoms.possible import Possible
from tacit.engine.logic import ZERO
from tacit.engine.reasoner import Reasoner
from tacit.errors import PlanError
from tacit.graph.fact_index import FactIndex
from tacit.query.plans.fold import Fold, Place
from tacit.query.plans.plan import Complement, Plan, Relation, Step
from tacit.query.plans.symbolic import answers


class Exclusion(Reasoner):
    """The scores of another reasoner, with minus infinity for what is ruled out."""

    def __init__(self, reasoner: Reasoner) -> None:
        self.reasoner, self.num_entities, self.exact = reasoner, reasoner.num_entities, reasoner.exact
        self.shards, self.probabilities, self.remedy = reasoner.shards, reasoner.probabilities, reasoner.remedy
        self.calibrated, self.predicts, self.name = reasoner.calibrated, reasoner.predicts, reasoner.name
        self.about = reasoner.about

    @abstractmethod
    def ruled_out(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Which entities are no answers, `[B, n]`, or `[B, 1]` where all are or none is."""

    def refusal(self, plan: Plan) -> PlanError | None:
        """What the reasoner refuses."""
        return self.reasoner.refusal(plan)

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Log-scores `[B, N]`; what is ruled out has none."""
        scores = self.reasoner.scores(plan, entities, relations)
        return _without(self.ruled_out(plan, entities, relations), scores)

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """What orders the entities, those ruled out last."""
        ranking = self.reasoner.ranking(plan, entities, relations)
        return _without(self.ruled_out(plan, entities, relations), ranking)

    def ranked(self, plan: Plan, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The scores, and the values that order them."""
        out = self.ruled_out(plan, entities, relations)
        scores, finer = self.reasoner.ranked(plan, entities, relations)
        return _without(out, scores), _without(out, finer)

    def batch(self, plan: Plan) -> int:
        """As many queries at once as the reasoner takes."""
        return self.reasoner.batch(plan)


class NewAnswers(Exclusion):
    """What a reasoner answers beside what the facts of an index imply."""

    def __init__(self, reasoner: Reasoner, index: FactIndex) -> None:
        super().__init__(reasoner)
        self.index = index

    def ruled_out(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """The known answers."""
        known = answers(plan, entities.cpu().numpy(), relations.cpu().numpy(), self.index, self.num_entities)
        held, columns = self.shards.inside(torch.from_numpy(known.ids).long())
        out = torch.zeros(len(relations), self.shards.stop - self.shards.start, dtype=torch.bool)
        out[torch.from_numpy(known.rows).long()[held], columns[held]] = True
        return out


class Loopless(Exclusion):
    """What a reasoner that values questions whole answers without loops of relations that never loop in training.

    An atom between an answer and an entity of the question is ruled out as a search over atoms rules it out. Values
    of the variables between them are nobody's to see here: through them nothing is ruled out.
    """

    def __init__(self, reasoner: Reasoner, possible: Possible, facts: KnownFacts | None) -> None:
        super().__init__(reasoner)
        self.possible, self.facts = possible, facts

    def ruled_out(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """The answers that only a loop would allow."""
        device = self.possible.without_loops.device
        slots = entities.to(device).long(), relations.to(device).long()
        everyone = torch.arange(self.num_entities, device=device)[None]
        return _RuledOut(self.possible, self.facts, *slots).of(plan.root, Place(target=everyone))


def _without(out: Tensor, table: Tensor) -> Tensor:
    """A table `[B, n]` without what is ruled out, in memory of its own: a reasoner may hand out what it keeps."""
    return table.masked_fill(out.to(table.device), ZERO)


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
