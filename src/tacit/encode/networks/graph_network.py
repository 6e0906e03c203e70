"""NBFNet from a fuzzy set along a relation, and questions answered by it hop by hop.

A set `p` over all entities and the vector `q` of a relation give the boundary condition `x_v = p_v
· q`, which is also the first state of every entity. A layer adds the messages of neighbours to each
state, and a small network turns the last states and `q` into the logit of each entity. States are
`[N, B, d]`: what belongs to an entity lies side by side.

The engine combines hops by its own algebra, and uses single hops as a link predictor. For training
a state is two sets side by side, as log-scores: the network's, and the exact set of the training
facts. Both go through the same logic. The exact one tells which facts a hop follows, so that
training can drop some of them, and in the end it holds the answers to learn.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.functional import logsigmoid

from tacit.encode.encoder import Drawn, Encoder, EncoderReasoner, EncoderScorer
from tacit.encode.networks.sorted_facts import (
    DirectedFacts,
    SortedFacts,
    followed_facts,
    inverse_places,
    reached_entities,
    remaining_facts,
)
from tacit.encode.settings import EncodeSettings
from tacit.encode.spaces.space import Space
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import Sigmoid
from tacit.engine.logic import Logic, log1mexp
from tacit.engine.reasoner import Reasoner, step_memory
from tacit.engine.search.beam_evaluator import BeamEvaluator
from tacit.engine.search.message_reasoner import MessageReasoner
from tacit.errors import PlanError
from tacit.links.batches import in_batches
from tacit.links.scorer import Scorer
from tacit.query.plans.fold import EvalContext
from tacit.query.plans.plan import Loop, Plan, Project, Relation

LOGIC = Logic("product")
# candidates of a variable, where a hop is more than one relation
CANDIDATES = 32
LEAST = -60.0  # log-scores below have no gradient
_LIVE = 16  # rows of `N · d` numbers that a hop of one set takes at once


class SetProjector(Space):
    """A graph network as an encoder; at test it reads the facts of the train split alone."""

    unions = True
    inverses: Tensor  # the place of the inverse of each fact, [E]

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        settings: EncodeSettings,
        triples: DirectedFacts,
    ) -> None:
        super().__init__(num_entities, num_relations, settings)
        self.width = 2 * num_entities
        self.facts = SortedFacts(triples, num_entities, num_relations)
        self.register_buffer("inverses", inverse_places(self.facts), persistent=False)

    @abstractmethod
    def network(self, log_sets: Tensor, relations: Tensor, keep: Tensor | None = None) -> Tensor:
        """Logits of projected fuzzy sets, `[n, N] x [n] -> [n, N]`, by the facts in `keep`."""

    def hop(self, log_sets: Tensor, relations: Tensor, memory: int | None = None) -> Tensor:
        """Logits as by `network`, without gradients, of as many sets at once as fit in memory."""
        memory = step_memory(None, self.device) if memory is None else memory
        at_once = max(1, memory // (4 * _LIVE * self.num_entities * self.settings.width))
        if not len(relations):
            return log_sets
        with torch.no_grad():
            return in_batches(self.network, at_once, log_sets, relations)

    def reset(self, generator: torch.Generator) -> None:
        """Draw all layers, and renew what is cached of them."""
        reset_linear(self, generator)
        self.renew()

    def singletons(self, entities: Tensor) -> Tensor:
        """The log-scores of sets that hold one entity each, `[n] -> [n, N]`."""
        empty = torch.full((len(entities), self.num_entities), -torch.inf, device=entities.device)
        return empty.scatter(1, entities[:, None], 0.0)

    def anchor(self, entities: Tensor) -> Tensor:
        """A set of one entity, twice."""
        return self.singletons(entities).repeat(1, 2)

    def project(self, states: Tensor, relations: Tensor) -> Tensor:
        """A hop of both sets: the network's over the remaining facts, the exact one over all."""
        sets, exact = states.chunk(2, 1)
        active = followed_facts(exact == 0.0, relations, self.facts)
        keep = None
        if self.training:
            draws = torch.rand(len(self.facts), device=states.device)
            rate = self.settings.dropout
            keep = remaining_facts(active, self.facts, self.inverses, rate, draws)
        logits = self.network(sets if self.settings.through else sets.detach(), relations, keep)
        outside = ~reached_entities(active, self.facts)
        exact = torch.zeros_like(exact).masked_fill(outside, -torch.inf)
        return torch.cat([logsigmoid(logits), exact], 1)

    def intersect(self, states: Tensor) -> Tensor:
        """The product."""
        return states.sum(1)

    def union(self, states: Tensor) -> Tensor:
        """The probabilistic sum."""
        return reduce(LOGIC.disjunction, states.unbind(1))

    def complement(self, states: Tensor) -> Tensor:
        """The difference from 1."""
        return LOGIC.negation(states)

    def everything(self) -> Tensor:
        """All entities, twice."""
        return torch.zeros(self.width, device=self.device)

    def match(self, states: Tensor, entities: Tensor | None = None) -> Tensor:
        """Log-odds of entities."""
        logits = log_odds(states[:, : self.num_entities])
        return logits if entities is None else logits[:, entities]

    def match_of(self, states: Tensor, entities: Tensor) -> Tensor:
        """Log-odds of a state's own entities."""
        return self.match(states).gather(1, entities)

    def check(self, plan: Plan) -> None:
        """Raise a `PlanError` for a loop, which would take a hop from every entity."""
        if plan.has(Loop):
            raise PlanError(
                f"{self.name} has no atom with one variable at both ends (Loop); ask with "
                "`search='beam'`"
            )

    def check_learning(self, plan: Plan) -> None:
        """Raise a `PlanError` for a step that has no state, though the engine can answer it."""
        super().check(plan)

    def logits(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Log-odds of every entity, `[B, E] x [B, R] -> [B, N]`; logits for a single atom."""
        return self.reasoner().ranking(plan, entities, relations)

    logits_of = Encoder.logits_of  # states would round single atoms

    def loss(
        self, batch: Sequence[Drawn], negatives: Tensor, log_frequencies: Tensor | None = None
    ) -> Tensor:
        """The loss by the settings; `sets` compares all entities with the exact sets."""
        if self.settings.loss != "sets":
            return super().loss(batch, negatives, log_frequencies)
        outputs = self.states(batch)
        sets, exact = torch.cat([branches[0] for branches in outputs]).chunk(2, 1)
        weights = torch.cat([drawn.weights for drawn in batch])
        return (set_loss(sets, exact == 0.0, self.settings.adversarial) * weights).sum()

    def reasoner(self, memory: float | None = None, trained: str = "") -> ProjectionReasoner:
        """Hops by the network, all else by the engine's own algebra."""
        return ProjectionReasoner(self, memory, trained)

    def scorer(self) -> Scorer:
        """The network as a link predictor: a hop from one entity."""
        return ProjectionScorer(self)


class ProjectionScorer(EncoderScorer):
    """A graph network as a link predictor: the logits of a hop from one entity."""

    encoder: SetProjector

    def logits(self, heads: Tensor, relations: Tensor, out: Tensor | None = None) -> Tensor:
        """Raw scores of every tail, `[B] x [B] -> [B, N]`; equal rows are worked out once."""
        keys, rows = torch.unique(heads * self.num_relations + relations, return_inverse=True)
        sets = self.encoder.singletons(keys // self.num_relations)
        logits = self.encoder.hop(sets, keys % self.num_relations)[rows]
        return logits if out is None else out.copy_(logits)

    def logits_of(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        return self.logits(heads, relations).gather(1, tails[:, None])[:, 0]


@dataclass(eq=False)
class ProjectedEvaluator(BeamEvaluator):
    """The engine's evaluator of fuzzy sets, with hops of whole sets by a graph network."""

    encoder: SetProjector = field(kw_only=True)

    def project(self, step: Project, place: EvalContext[Tensor]) -> Tensor:
        """A hop; over more than one relation, from the best candidates one by one."""
        if not isinstance(step.edge, Relation):
            return super().project(step, place)
        source = self.set_of(step.source)
        relations = self.queries.relation(step.edge)
        return logsigmoid(self.encoder.hop(source, relations, self.context.memory))


class ProjectionReasoner(EncoderReasoner):
    """The reasoner of a graph network, hop by hop."""

    encoder: SetProjector
    ranked = Reasoner.ranked

    def __init__(self, encoder: SetProjector, memory: float | None, trained: str) -> None:
        super().__init__(encoder, memory, trained)
        self.messages = MessageReasoner(
            Atoms(encoder.scorer(), Sigmoid()), LOGIC, CANDIDATES, memory
        )

    def batch(self, plan: Plan) -> int:
        return self.messages.batch(plan)

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        def evaluated(heads: Tensor, along: Tensor) -> Tensor:
            evaluation = self.messages.evaluation(heads, along)
            return ProjectedEvaluator(**vars(evaluation), encoder=self.encoder).set_of(plan.root)

        self.check(plan)
        return in_batches(evaluated, self.batch(plan), entities, relations)

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Log-odds of every entity; for a single atom the network's logits, without rounding."""
        single = self.messages.atoms.single(plan, entities, relations)
        return log_odds(self.scores(plan, entities, relations)) if single is None else single[0]


def log_odds(log_sets: Tensor) -> Tensor:
    """`log x - log(1 - x)`."""
    return log_sets - log1mexp(log_sets)


def set_loss(log_sets: Tensor, answers: Tensor, adversarial: float) -> Tensor:
    """Cross entropy of fuzzy sets with their answers, `[n, N] x [n, N] -> [n]`.

    Right answers have equal weights, wrong ones a softmax of `adversarial` times their log-odds;
    each side makes up a half.
    """
    scores = log_sets.clamp(min=LEAST)
    right = -(scores * answers).sum(1) / answers.sum(1).clamp(min=1)
    wrong = -log1mexp(scores).clamp(min=LEAST)
    odds = log_odds(log_sets.detach().clamp(LEAST, -1e-7)).masked_fill(answers, -torch.inf)
    shares = torch.softmax(adversarial * odds, 1).nan_to_num(0.0)  # where every entity is an answer
    return 0.5 * (right + (shares * wrong).sum(1))


def boundary_of(log_sets: Tensor, query: Tensor) -> Tensor:
    """`p_v · q`, `[B, N] x [B, d] -> [N, B, d]`."""
    return log_sets.exp().t()[:, :, None] * query


def states_after(
    layers: Any,
    inputs: Tensor,
    boundary: Tensor,
    facts: SortedFacts,
    keep: Tensor | None = None,
) -> Iterator[Tensor]:
    """The states after each layer; `inputs` make its vectors of relations."""
    states = boundary
    for layer in layers:
        states = layer(states, layer.relations(inputs), boundary, facts, keep)
        yield states


def readout(mlp: Any, states: Sequence[Tensor], query: Tensor) -> Tensor:
    """`MLP [h; …; q]` of every entity, `[N, B, d] … x [B, d] -> [B, N]`.

    Its first map is taken apart, so that the query is not copied to all entities.
    """
    first, *_, last = mlp
    weights = first.weight.split([part.shape[-1] for part in (*states, query)], 1)
    hidden = F.linear(query, weights[-1], first.bias).expand(*states[0].shape[:2], -1)
    for part, weight in zip(states, weights, strict=False):
        hidden = hidden + F.linear(part, weight)
    logits: Tensor = last(F.relu(hidden))
    return logits.squeeze(2).t()


@torch.no_grad()
def reset_linear(module: nn.Module, generator: torch.Generator) -> None:
    """Draw the weights of all linear maps and embeddings by torch's default distributions."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            bound = part.in_features**-0.5
            for weight in part.parameters():
                fill_uniform(weight, bound, generator)
        elif isinstance(part, nn.Embedding):
            part.weight.copy_(torch.randn(part.weight.shape, generator=generator))
        elif isinstance(part, nn.LayerNorm):
            part.reset_parameters()


@torch.no_grad()
def fill_uniform(weight: Tensor, bound: float, generator: torch.Generator) -> None:
    """Draw weights uniformly from ±`bound`."""
    weight.copy_((torch.rand(weight.shape, generator=generator) * 2 - 1) * bound)
