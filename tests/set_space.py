"""A space without errors: states are sets of entities, projections follow all facts."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from tacit.encode.settings import EncodeSettings
from tacit.encode.spaces.space import Space

SIZE = 12
RELATIONS = 4


def random_facts(seed: int, size: int = SIZE, count: int = 30) -> np.ndarray:
    """Directed facts, each with its inverse."""
    random = np.random.default_rng(seed)
    heads = random.integers(0, size, count)
    relations = 2 * random.integers(0, RELATIONS // 2, count)
    facts = np.stack([heads, relations, random.integers(0, size, count)], 1)
    return np.concatenate([facts, np.stack([facts[:, 2], facts[:, 1] ^ 1, facts[:, 0]], 1)])


class SetSpace(Space):
    """States are indicators `[n, N]`; with a union of its own, or without."""

    name = "sets"

    def __init__(self, facts: np.ndarray, unions: bool, size: int = SIZE) -> None:
        super().__init__(size, RELATIONS, EncodeSettings("gqe", loss="margin", adversarial=0.5))
        self.width = size
        self.unions = unions
        self.adjacent = torch.zeros(RELATIONS, size, size)
        self.adjacent[facts[:, 1], facts[:, 0], facts[:, 2]] = 1
        self.nothing = nn.Parameter(torch.zeros(()))
        self.calls: list[str] = []

    def reset(self, generator: torch.Generator) -> None:
        """Nothing to draw."""

    def anchor(self, entities: Tensor) -> Tensor:
        """A set of one."""
        self.calls.append("anchor")
        return torch.eye(self.num_entities)[entities]

    def project(self, states: Tensor, relations: Tensor) -> Tensor:
        """All that facts lead to."""
        self.calls.append("project")
        return (states[:, None] @ self.adjacent[relations])[:, 0].clamp(max=1)

    def intersect(self, states: Tensor) -> Tensor:
        """The common entities."""
        self.calls.append("intersect")
        return states.amin(1)

    def union(self, states: Tensor) -> Tensor:
        """The entities of any."""
        self.calls.append("union")
        return states.amax(1)

    def complement(self, states: Tensor) -> Tensor:
        """All others."""
        self.calls.append("complement")
        return 1 - states

    def everything(self) -> Tensor:
        """All."""
        return torch.ones(self.num_entities)

    def match(self, states: Tensor, entities: Tensor | None = None) -> Tensor:
        """Far above 0 inside, far below outside."""
        return 200 * (states if entities is None else states[:, entities]) - 100 + self.nothing

    def match_of(self, states: Tensor, entities: Tensor) -> Tensor:
        """The same of a state's own entities."""
        return self.match(states).gather(1, entities)
