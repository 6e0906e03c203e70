"""Encoders as an engine asks them: for whole questions, and as link predictors, over which every search works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from tacit.encode.encoder import Encoder
from tacit.engine.atoms.possible import Possible
from tacit.engine.reasoner import Reasoner, step_memory
from tacit.engine.search.exclusion import Loopless
from tacit.errors import PlanError
from tacit.query.plans.plan import Plan, Union, walk
from tacit.query.sampling.shapes import SHAPES

if TYPE_CHECKING:
    from tacit.engine.engine import Engine

_ROWS = 1024  # whole rows of scores at once, where single ones are asked for


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
        """Log-scores `[B, N]`."""
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
        """Where the encoder computes."""
        return self.encoder.device

    @torch.no_grad()
    def logits(self, heads: Tensor, relations: Tensor, out: Tensor | None = None) -> Tensor:
        """Raw scores of every tail, `[B] x [B] -> [B, N]`; written into `out` where given."""
        scores = self.encoder.logits(self.plan, heads.long()[:, None], relations.long()[:, None])
        return scores if out is None else out.copy_(scores)

    @torch.no_grad()
    def logits_of(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Raw scores of single atoms, `[B] x [B] x [B] -> [B]`."""
        parts = zip(*(ids.long().split(_ROWS) for ids in (heads, relations, tails)), strict=True)
        return torch.cat([self.encoder.logits_of(self.plan, h[:, None], r[:, None], t) for h, r, t in parts])
