"""Graph networks in the engine: as the hops of its algebra, and as a link predictor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from tacit.encode.reasoner import EncoderReasoner
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import Sigmoid
from tacit.engine.logic import Logic, log1mexp
from tacit.engine.reasoner import MessageReasoner, Reasoner
from tacit.engine.search.scores import Scores
from tacit.query.plans.fold import Place
from tacit.query.plans.plan import Plan, Project, Relation

if TYPE_CHECKING:
    from tacit.encode.networks.set_projection import SetProjector

CANDIDATES = 32  # values of a variable that are tried one by one, where a hop is more than one relation


class ProjectionScorer:
    """A graph network as a link predictor: the logits of a hop from one entity."""

    def __init__(self, encoder: SetProjector) -> None:
        self.encoder = encoder
        self.num_entities, self.num_relations, self.device = encoder.num_entities, encoder.num_relations, encoder.device

    def logits(self, heads: Tensor, relations: Tensor, out: Tensor | None = None) -> Tensor:
        """Raw scores of every tail, `[B] x [B] -> [B, N]`; equal rows are worked out once."""
        keys, rows = torch.unique(heads * self.num_relations + relations, return_inverse=True)
        sets = self.encoder.singletons(keys // self.num_relations)
        logits = self.encoder.hop(sets, keys % self.num_relations)[rows]
        return logits if out is None else out.copy_(logits)

    def logits_of(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Raw scores of single atoms, `[B] x [B] x [B] -> [B]`."""
        return self.logits(heads, relations).gather(1, tails[:, None])[:, 0]


@dataclass(eq=False)
class ProjectedScores(Scores):
    """The engine's algebra of fuzzy sets with hops by a graph network, from a whole set at once."""

    encoder: SetProjector = field(kw_only=True)

    def project(self, step: Project, place: Place[Tensor]) -> Tensor:
        """A hop; over more than one relation, from the best candidates one by one."""
        if not isinstance(step.edge, Relation):
            return super().project(step, place)
        relations = self.relations[:, step.edge.slot] ^ int(step.edge.flip)
        return logsigmoid(self.encoder.hop(self.whole(step.source), relations, self.memory))


class ProjectionReasoner(EncoderReasoner):
    """What a graph network says to whole questions, hop by hop."""

    encoder: SetProjector
    ranked = Reasoner.ranked

    def __init__(self, encoder: SetProjector, logic: Logic, memory: float | None = None, trained: str = "") -> None:
        super().__init__(encoder, memory, trained)
        atoms = Atoms(ProjectionScorer(encoder), Sigmoid())
        self.messages = MessageReasoner(atoms, logic, CANDIDATES, memory)

    def batch(self, plan: Plan) -> int:
        """How many queries of a plan to ask for at once."""
        return self.messages.batch(plan)

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every entity, `[B, N]`."""
        self.check(plan)
        at_once = self.batch(plan)
        parts = zip(entities.split(at_once), relations.split(at_once), strict=True)
        plain = [self.messages.evaluation(*part) for part in parts]
        return torch.cat([ProjectedScores(**vars(each), encoder=self.encoder).whole(plan.root) for each in plain])

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Log-odds of every entity; of a single atom what the network says, which rounding has not touched."""
        single = self.messages.atoms.single(plan, entities, relations)
        if single is not None:
            return single[0]
        scores = self.scores(plan, entities, relations)
        return scores - log1mexp(scores)
