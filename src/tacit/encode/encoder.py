"""The contract of encoders of whole questions, and their reasoners and scorers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from tacit.engine.atoms.known_facts import AtomConstraints
from tacit.engine.reasoner import Loopless, Reasoner, step_memory
from tacit.errors import PlanError
from tacit.links.batches import in_batches
from tacit.links.scorer import Scorer, State, state_of
from tacit.query.plans.plan import Plan, Union, walk
from tacit.query.sampling.shapes import SHAPES

if TYPE_CHECKING:
    from tacit.engine.parts import EngineParts

_ROWS = 1024  # queries at once, where single scores come from whole rows


@dataclass(frozen=True, eq=False)
class Slots:
    """Queries of one plan, by what fills its slots."""

    plan: Plan
    entities: Tensor  # [n, E]
    relations: Tensor  # [n, R]


@dataclass(frozen=True, eq=False)
class Drawn(Slots):
    """Training queries of one plan, with some of their right answers and weights."""

    answers: Tensor  # [n, A]; where a query has fewer, some of them twice
    weights: Tensor  # [n]

    @property
    def columns(self) -> tuple[Tensor, ...]:
        """All tensors, with a row for each query."""
        return self.entities, self.relations, self.answers, self.weights


class Encoder(nn.Module, ABC):
    """A model that scores every entity as an answer to whole questions.

    Relation ids are directed, `r ^ 1` is the inverse of `r`. Logits are raw scores: higher is
    better, and scores of different encoders do not compare.
    """

    name: str  # as it is printed
    num_entities: int
    num_relations: int
    captured = True  # on a GPU, whether a step can be recorded once and replayed
    in_bfloat16 = False  # whether its networks compute in bfloat16 while they learn
    lean_in_bfloat16 = False  # whether the recipe lean sets the above on a GPU
    _cached_state: State = ()  # of the weights that the cached tables come from

    @property
    def device(self) -> torch.device:
        """The device that it computes on, where ids are expected."""
        return next(self.parameters()).device

    @abstractmethod
    def check(self, plan: Plan) -> None:
        """Raise a `PlanError` that names the first step which the encoder cannot express."""

    def check_learning(self, plan: Plan) -> None:
        """Raise a `PlanError` that names the first step which cannot be learned from."""
        self.check(plan)

    @abstractmethod
    def logits(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Raw scores of every entity, `[B, E] x [B, R] -> [B, N]`."""

    def logits_of(self, plan: Plan, entities: Tensor, relations: Tensor, answers: Tensor) -> Tensor:
        """Raw scores of single answers, `[B, E] x [B, R] x [B] -> [B]`."""
        return self.logits(plan, entities, relations).gather(1, answers[:, None])[:, 0]

    @abstractmethod
    def loss(
        self, batch: Sequence[Drawn], negatives: Tensor, log_frequencies: Tensor | None = None
    ) -> Tensor:
        """The loss of queries of any mix of plans, summed over them by weight.

        `negatives` are wrong for most queries: `[K]` shared by all of them, or `[n, K]`, a row for
        each in the batch's order. Shared ones may come with `log_frequencies` `[K]`, the logs of
        their expected numbers of draws, which correct their logits as in a sampled softmax. No
        value is read on the host, so that a step can be captured once and replayed.
        """

    @abstractmethod
    def reset(self, generator: torch.Generator) -> None:
        """Draw the first weights, on the CPU, so that they depend on the seed alone."""

    def renew(self) -> None:
        """Compute the tables that scoring caches; called whenever weights have changed."""

    def renew_if_stale(self) -> None:
        """Renew the cached tables if the weights have been written to since."""
        state = self.weights_state()
        if self._cached_state != state:
            self.renew()
            self._cached_state = state

    def weights_state(self) -> State:
        """The state of the weights that the cached tables come from."""
        return state_of(self)

    def checksums(self) -> dict[str, str]:
        """Checksums of further inputs, beside settings and facts."""
        return {}

    def reasoner(self, memory: float | None = None, trained: str = "") -> Reasoner:
        """The reasoner for an engine, with memory for a step in GB and a line on its training."""
        return EncoderReasoner(self, memory, trained)

    def scorer(self) -> Scorer:
        """The encoder as a link predictor: its answers to questions of a single atom."""
        return EncoderScorer(self)


class EncoderReasoner(Reasoner):
    """A reasoner whose scores are `log σ(logit)`, which order answers to one question.

    They are not probabilities. There are no reasons, since no facts are looked up, and no list is
    ever certified.
    """

    remedy = "ask with `search='beam'`"

    def __init__(self, encoder: Encoder, memory: float | None = None, trained: str = "") -> None:
        self.encoder = encoder
        self.num_entities = encoder.num_entities
        self.name = encoder.name
        self.trained = trained
        self.config = {"encoder": encoder.name, "encoding": trained}
        self.memory = step_memory(memory, encoder.device)

    def bind(self, parts: EngineParts) -> Reasoner:
        """The reasoner within the memory of the settings, without loops unless they allow them."""
        reasoner = self.encoder.reasoner(parts.settings.memory, self.trained)
        constraints = AtomConstraints(parts.graph, parts.scorer.device)
        return reasoner if parts.settings.loops else Loopless(reasoner, constraints, parts.facts)

    def forget(self) -> None:
        """Renew the tables that the encoder caches."""
        self.encoder.renew()

    def unsupported_reason(self, plan: Plan) -> PlanError | None:
        """The error for a step that the encoder cannot express."""
        try:
            self.encoder.check(plan)
        except PlanError as error:
            return error
        return None

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        return logsigmoid(self.ranking(plan, entities, relations))

    @torch.no_grad()
    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """The logits `[B, N]`; batches that would not fit in memory are cut."""
        self.check(plan)
        slots = (ids.to(self.encoder.device).long() for ids in (entities, relations))
        return in_batches(partial(self.encoder.logits, plan), self.batch(plan), *slots)

    def ranked(self, plan: Plan, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The scores, and the logits, which stay distinct where scores round to 1."""
        logits = self.ranking(plan, entities, relations)
        return logsigmoid(logits), logits

    def batch(self, plan: Plan) -> int:
        """The number of queries of a plan that fit in memory: a branch is a row of N floats."""
        rows = 4 + sum(len(step.parts) for step in walk(plan.root) if isinstance(step, Union))
        return max(1, self.memory // (2 * rows * 4 * self.num_entities))


class EncoderScorer:
    """An encoder as a link predictor: its answers to `r(h, ?t)` score every tail."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.plan = SHAPES["1p"].plan
        self.num_entities = encoder.num_entities
        self.num_relations = encoder.num_relations

    @property
    def device(self) -> torch.device:
        return self.encoder.device

    @torch.no_grad()
    def logits(self, heads: Tensor, relations: Tensor, out: Tensor | None = None) -> Tensor:
        """Raw scores of every tail, `[B] x [B] -> [B, N]`; written into `out` where given."""
        scores = self.encoder.logits(self.plan, heads.long()[:, None], relations.long()[:, None])
        return scores if out is None else out.copy_(scores)

    @torch.no_grad()
    def logits_of(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        ids = heads.long()[:, None], relations.long()[:, None], tails.long()
        return in_batches(partial(self.encoder.logits_of, self.plan), _ROWS, *ids)
