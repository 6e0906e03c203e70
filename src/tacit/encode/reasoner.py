"""Whole questions valued by an encoder, as an engine asks them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from tacit.encode.encoder import Encoder
from tacit.engine.reasoner import CPU_MEMORY, CUDA_MEMORY, Reasoner
from tacit.query.plan import Plan, Union, walk


class EncoderReasoner(Reasoner):
    """Scores are `log σ(logit)`: they order the answers to one question, and are not probabilities.

    There are no reasons, since nothing is looked up, and no list is ever certified.
    """

    def __init__(self, encoder: Encoder, memory: float | None = None) -> None:
        self.encoder, self.num_entities = encoder, encoder.num_entities
        if memory is None:
            memory = CUDA_MEMORY if encoder.device.type == "cuda" else CPU_MEMORY
        self.memory = int(memory * 1e9)

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Log-scores `[B, N]`."""
        return logsigmoid(self.ranking(plan, entities, relations))

    @torch.no_grad()
    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """The logits `[B, N]`; batches that would not fit in memory are cut."""
        self.encoder.check(plan)
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
