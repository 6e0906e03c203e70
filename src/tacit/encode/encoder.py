"""The contract of encoders: what is trained to answer whole questions, and is asked through the same engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tacit.engine.reasoner import Reasoner
from tacit.links.scorer import Scorer
from tacit.query.plans.plan import Plan


@dataclass(frozen=True, eq=False)
class Drawn:
    """Queries of one plan to learn from, each with some of its right answers and what it counts."""

    plan: Plan
    entities: Tensor  # [n, E]
    relations: Tensor  # [n, R]
    answers: Tensor  # [n, A]; where a query has fewer, some of them twice
    weights: Tensor  # [n]


class Encoder(nn.Module, ABC):
    """Values every entity as an answer to whole questions.

    Relation ids are directed, `r ^ 1` is the inverse of `r`. Logits are raw scores: higher is better, and no two
    encoders mean the same by them.
    """

    name: str  # as it is printed
    num_entities: int
    num_relations: int
    captured = True  # on a GPU, whether a step can be recorded once and replayed
    narrow = False  # whether its networks compute in bfloat16 while they learn
    narrows = False  # whether they do so on a GPU by the recipe lean, where nothing else is asked for

    @property
    def device(self) -> torch.device:
        """Where it computes; ids are expected there."""
        return next(self.parameters()).device

    @abstractmethod
    def check(self, plan: Plan) -> None:
        """Raise a `PlanError` that names the first step which the encoder cannot express."""

    def check_learning(self, plan: Plan) -> None:
        """Raise a `PlanError` that names the first step by which it cannot learn; it may be able to answer it."""
        self.check(plan)

    @abstractmethod
    def logits(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Raw scores of every entity, `[B, E] x [B, R] -> [B, N]`."""

    def logits_of(self, plan: Plan, entities: Tensor, relations: Tensor, answers: Tensor) -> Tensor:
        """Raw scores of single answers, `[B, E] x [B, R] x [B] -> [B]`."""
        return self.logits(plan, entities, relations).gather(1, answers[:, None])[:, 0]

    @abstractmethod
    def loss(self, batch: Sequence[Drawn], negatives: Tensor, often: Tensor | None = None) -> Tensor:
        """The loss of queries of any mix of plans, summed over them by weight.

        `negatives` are wrong for most queries: `[K]` for all of them, or `[n, K]`, a row for each in the batch's order.
        The first kind may come with the logs of how `often` each was to be drawn, `[K]`: their logits are lowered by
        that, so that what is drawn stands for all entities. It computes without a look at any value on the host, so
        that a step can be captured once and replayed.
        """

    @abstractmethod
    def reset(self, generator: torch.Generator) -> None:
        """Draw the first weights, on the CPU, so that they depend on the seed alone."""

    def renew(self) -> None:
        """Work out anew what scoring keeps of the weights; called whenever these have changed."""

    def checksums(self) -> dict[str, str]:
        """What tells that on which it was made, beside settings and facts, from anything else."""
        return {}

    def reasoner(self, memory: float | None = None, trained: str = "") -> Reasoner:
        """What an engine asks; `memory` is what a step may use, in GB, `trained` says in a line how it was trained."""
        from tacit.encode.reasoner import EncoderReasoner

        return EncoderReasoner(self, memory, trained)

    def scorer(self) -> Scorer:
        """The encoder as a link predictor: its answers to questions of a single atom."""
        from tacit.encode.reasoner import EncoderScorer

        return EncoderScorer(self)
