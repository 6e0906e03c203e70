"""Reasoners without some answers: known ones, or those that only a loop allows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from tacit.engine.atoms.constraints import AtomConstraints
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.logic import ZERO
from tacit.engine.reasoner import Reasoner
from tacit.errors import PlanError
from tacit.graph.fact_index import FactIndex
from tacit.query.plans.fold import EvalContext, Fold
from tacit.query.plans.plan import Complement, Plan, Relation, Step
from tacit.query.plans.symbolic import answers


class Exclusion(Reasoner):
    """The scores of another reasoner, with minus infinity for ruled-out answers."""

    def __init__(self, reasoner: Reasoner) -> None:
        self.reasoner = reasoner
        self.num_entities = reasoner.num_entities
        self.exact = reasoner.exact
        self.shards = reasoner.shards
        self.probabilities = reasoner.probabilities
        self.remedy = reasoner.remedy
        self.calibrated = reasoner.calibrated
        self.predicts = reasoner.predicts
        self.name = reasoner.name
        self.config = reasoner.config

    @abstractmethod
    def ruled_out(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """The entities that are no answers, `[B, n]`, or `[B, 1]` for all or none."""

    def unsupported_reason(self, plan: Plan) -> PlanError | None:
        """The reason why the reasoner cannot express a plan; None where it can."""
        return self.reasoner.unsupported_reason(plan)

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Log-scores `[B, N]`, minus infinity for ruled-out answers."""
        scores = self.reasoner.scores(plan, entities, relations)
        return _without(self.ruled_out(plan, entities, relations), scores)

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Values that order the entities, ruled-out ones last."""
        ranking = self.reasoner.ranking(plan, entities, relations)
        return _without(self.ruled_out(plan, entities, relations), ranking)

    def ranked(self, plan: Plan, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The scores, and the values that order them."""
        out = self.ruled_out(plan, entities, relations)
        scores, finer = self.reasoner.ranked(plan, entities, relations)
        return _without(out, scores), _without(out, finer)

    def batch(self, plan: Plan) -> int:
        """How many queries of a plan to run at once: as many as the reasoner takes."""
        return self.reasoner.batch(plan)


class NewAnswers(Exclusion):
    """The answers of a reasoner that the facts of an index do not imply."""

    def __init__(self, reasoner: Reasoner, index: FactIndex) -> None:
        super().__init__(reasoner)
        self.index = index

    def ruled_out(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """The known answers."""
        known = answers(
            plan, entities.cpu().numpy(), relations.cpu().numpy(), self.index, self.num_entities
        )
        held, columns = self.shards.inside(torch.from_numpy(known.ids).long())
        out = torch.zeros(len(relations), self.shards.stop - self.shards.start, dtype=torch.bool)
        out[torch.from_numpy(known.rows).long()[held], columns[held]] = True
        return out


class Loopless(Exclusion):
    """The answers of a whole-question reasoner without loops that never occur in training.

    An atom between an answer and an entity of the question is ruled out as in a search over atoms.
    The values of variables between them are not visible here, so nothing is ruled out through them.
    """

    def __init__(
        self, reasoner: Reasoner, possible: AtomConstraints, facts: KnownFacts | None
    ) -> None:
        super().__init__(reasoner)
        self.possible = possible
        self.facts = facts

    def ruled_out(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """The answers that only a loop would allow."""
        device = self.possible.without_loops.device
        slots = entities.to(device).long(), relations.to(device).long()
        all_entities = torch.arange(self.num_entities, device=device)[None]
        return _RuledOut(self.possible, self.facts, *slots).of(
            plan.root, EvalContext(target=all_entities)
        )


def _without(out: Tensor, table: Tensor) -> Tensor:
    """Mask ruled-out entities in a table `[B, n]`; a copy, as reasoners may keep theirs."""
    return table.masked_fill(out.to(table.device), ZERO)


class _RuledOut(Fold[Tensor, Tensor]):
    """Whether steps surely do not hold, for each query and entity, `[B, N]` or `[B, 1]`.

    Ends are ids `[B or 1, n]`.
    """

    def __init__(
        self,
        possible: AtomConstraints,
        facts: KnownFacts | None,
        entities: Tensor,
        relations: Tensor,
    ) -> None:
        self.possible = possible
        self.facts = facts
        self.entities = entities
        self.relations = relations
        self.nothing = torch.zeros(len(relations), 1, dtype=torch.bool, device=entities.device)

    def entity(self, slot: int) -> Tensor:
        """The entities of a slot."""
        return self.entities[:, slot, None]

    def relation(self, step: Relation, place: EvalContext[Tensor]) -> Tensor:
        """Rule out loops of relations that have none, unless the loop is known."""
        relations = self.relations[:, step.slot, None] ^ int(step.flip)
        loops = (place.start == place.target) & self.possible.without_loops[relations]
        if self.facts is not None:
            at = loops.nonzero(as_tuple=True)
            looping = place.start.expand_as(loops)[at]
            loops[at] = ~self.facts.contains(looping, relations.expand_as(loops)[at], looping)
        return loops

    def all(self, parts: Sequence[Tensor], place: EvalContext[Tensor]) -> Tensor:
        """Rule out the entities that any part rules out."""
        return reduce(torch.logical_or, parts)

    def any(self, parts: Sequence[Tensor], place: EvalContext[Tensor]) -> Tensor:
        """Rule out the entities that every part rules out."""
        return reduce(torch.logical_and, parts)

    def negation(self, step: Complement[Step], part: Tensor, place: EvalContext[Tensor]) -> Tensor:
        """Rule out nothing: no atom is certain."""
        return self.nothing

    def generic_visit(self, step: Step, place: EvalContext[Tensor]) -> Tensor:
        """Rule out nothing: a hop may start at any entity."""
        return self.nothing
