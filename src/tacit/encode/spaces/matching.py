"""Encoders that make a state of a question, and match it with those of entities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from tacit.encode.encoder import Drawn, Encoder
from tacit.encode.settings import EncodeSettings
from tacit.encode.spaces.losses import LOSSES
from tacit.query.plans.plan import Plan

Slots = tuple[Plan, Tensor, Tensor]  # a plan with the entities [n, E] and the relations [n, R] of its queries


class Matching(Encoder):
    """An encoder for which a question is a state, one for each branch of its unions, and an answer what matches best.

    A subclass says how states are made and matched.
    """

    def __init__(self, num_entities: int, num_relations: int, settings: EncodeSettings) -> None:
        super().__init__()
        self.num_entities, self.num_relations, self.settings = num_entities, num_relations, settings

    @abstractmethod
    def states(self, queries: Sequence[Slots]) -> list[list[Tensor]]:
        """The states of the branches of queries of any mix of plans, `[n, W]` each."""

    @abstractmethod
    def match(self, states: Tensor, entities: Tensor | None = None) -> Tensor:
        """Logits of some entities, or of all, for each state, `[n, W] x [m] -> [n, m]`."""

    def match_of(self, states: Tensor, entities: Tensor) -> Tensor:
        """Logits of some entities of its own for each state, `[n, W] x [n, m] -> [n, m]`; `match` may know them."""
        return self.match(states, entities)

    def logits(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Raw scores of every entity, `[B, E] x [B, R] -> [B, N]`; of branches the best counts."""
        branches = self.states([(plan, entities, relations)])[0]
        return _best(self.match(torch.cat(branches)), [branches])

    def logits_of(self, plan: Plan, entities: Tensor, relations: Tensor, answers: Tensor) -> Tensor:
        """Raw scores of single answers, `[B, E] x [B, R] x [B] -> [B]`."""
        branches = self.states([(plan, entities, relations)])[0]
        own = answers.repeat(len(branches))[:, None]
        return _best(self.match_of(torch.cat(branches), own), [branches])[:, 0]

    def loss(self, batch: Sequence[Drawn], negatives: Tensor, often: Tensor | None = None) -> Tensor:
        """The loss by the settings, summed over the queries by weight."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.narrow):
            outputs = self.states([(drawn.plan, drawn.entities, drawn.relations) for drawn in batch])
        states = torch.cat([branch for branches in outputs for branch in branches])
        states = states.float() if self.narrow else states
        most = max(drawn.answers.shape[1] for drawn in batch)
        answers = torch.cat([drawn.answers.expand(-1, most) for drawn in batch])
        right = _best(self.match_of(states, _repeated(answers, outputs)), outputs)
        if negatives.dim() == 1:
            wrong = self.match(states, negatives)
            wrong = wrong if often is None else wrong - often
        else:  # a row of its own for each query
            wrong = self.match_of(states, _repeated(negatives, outputs))
        # What is known to answer a query is no wrong answer, whoever drew it.
        known = reduce(torch.logical_or, (negatives == column[:, None] for column in answers.unbind(1)))
        wrong = _best(wrong, outputs).masked_fill(known, -torch.inf)
        loss = LOSSES[self.settings.loss](right, wrong, self.settings.adversarial)
        return (loss * torch.cat([drawn.weights for drawn in batch])).sum()


def _repeated(rows: Tensor, outputs: Sequence[Sequence[Tensor]]) -> Tensor:
    """Rows of queries as rows of their branches."""
    if all(len(branches) == 1 for branches in outputs):
        return rows
    parts = rows.split([len(branches[0]) for branches in outputs])
    return torch.cat([part for part, branches in zip(parts, outputs, strict=True) for _ in branches])


def _best(values: Tensor, outputs: Sequence[Sequence[Tensor]]) -> Tensor:
    """The best of the branches of each query."""
    if all(len(branches) == 1 for branches in outputs):
        return values
    parts = values.split([len(branches) * len(branches[0]) for branches in outputs])
    return torch.cat(
        [
            part.unflatten(0, (len(branches), -1)).amax(0) if len(part) else part
            for part, branches in zip(parts, outputs, strict=True)
        ]
    )
