"""The graph alone as a reasoner: what the facts imply, and nothing else."""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.graph.index import Index
from tacit.query.plan import Plan
from tacit.query.symbolic import answers as symbolic_sets


class SymbolicReasoner:
    """The graph alone: log-score 0 for its answers, minus infinity for everything else."""

    def __init__(self, index: Index, num_entities: int) -> None:
        self.index, self.num_entities = index, num_entities

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """`0` where the facts imply the answer, `-inf` elsewhere."""
        found = symbolic_sets(plan, entities.numpy(), relations.numpy(), self.index, self.num_entities)
        out = torch.full((len(relations), self.num_entities), float("-inf"))
        rows = torch.repeat_interleave(torch.from_numpy(found.offsets).diff())
        out[rows, torch.from_numpy(found.ids).long()] = 0.0
        return out

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """The scores."""
        return self.scores(plan, entities, relations)
