"""The contract of encoders, which are trained to answer whole questions; and how an engine asks them: for such, and as
link predictors, over which every search works.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from tacit.engine.atoms.possible import Possible
from tacit.engine.reasoner import Reasoner, step_memory
from tacit.engine.search.exclusion import Loopless
from tacit.errors import PlanError
from tacit.links.scorer import Scorer
from tacit.query.plans.plan import Plan, Union, walk
from tacit.query.sampling.shapes import SHAPES

if TYPE_CHECKING:
    from tacit.engine.engine import Engine

_ROWS = 1024  # whole rows of scores at once, where single ones are asked for


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
        return EncoderReasoner(self, memory, trained)

    def scorer(self) -> Scorer:
        """The encoder as a link predictor: its answers to questions of a single atom."""
        return EncoderScorer(self)


class EncoderReasoner(Reasoner):
    """Scores are `log σ(logit)`: they order the answers to one question, and are not probabilities.

    There are no reasons, since nothing is looked up, and no list is ever certified.
    """

    remedy = "ask with search beam"

    def __init__(self, encoder: Encoder, memory: float | None = None, trained: str = "") -> None:
        self.encoder, self.num_entities, self.name, self.trained = encoder, encoder.num_entities, encoder.name, trained
        self.about = {"encoder": encoder.name, "encoding": trained}
        self.memory = step_memory(memory, encoder.device)

    def asked_by(self, engine: Engine) -> Reasoner:
        """The same within the memory that the settings allow, and without loops unless they let them in."""
        asked = self.encoder.reasoner(engine.settings.memory, self.trained)
        possible = Possible(engine.graph, engine.scorer.device)
        return asked if engine.settings.loops else Loopless(asked, possible, engine.facts)

    def refusal(self, plan: Plan) -> PlanError | None:
        """What the encoder cannot express."""
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
        at_once, device = self.batch(plan), self.encoder.device
        slots = zip(entities.split(at_once), relations.split(at_once), strict=True)
        return torch.cat([self.encoder.logits(plan, *(ids.to(device).long() for ids in part)) for part in slots])

    def ranked(self, plan: Plan, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The scores, and the logits, which no rounding near 1 makes alike."""
        logits = self.ranking(plan, entities, relations)
        return logsigmoid(logits), logits

    def batch(self, plan: Plan) -> int:
        """How many queries of a plan fit in memory at once: each branch is a row of N floats, and so are copies."""
        rows = 4 + sum(len(step.parts) for step in walk(plan.root) if isinstance(step, Union))
        return max(1, self.memory // (2 * rows * 4 * self.num_entities))


class EncoderScorer:
    """What an encoder answers to a question of one atom, `r(h, ?t)`, is how it scores that atom for every tail."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder, self.plan = encoder, SHAPES["1p"].plan
        self.num_entities, self.num_relations = encoder.num_entities, encoder.num_relations

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
        parts = zip(*(ids.long().split(_ROWS) for ids in (heads, relations, tails)), strict=True)
        return torch.cat([self.encoder.logits_of(self.plan, h[:, None], r[:, None], t) for h, r, t in parts])
