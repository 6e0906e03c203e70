"""The queries of one shape in an endless random order, each with one right answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.engine.atoms.known_facts import KnownTails
from tacit.graph.fact_index import Ints
from tacit.query.sampling.queries import QuerySet


@dataclass(frozen=True, eq=False)
class Batch:
    """Some queries, each with the answer that the loss targets."""

    queries: QuerySet
    targets: NDArray[np.int64]  # [Q]

    def __len__(self) -> int:
        return len(self.targets)

    def parts(self, size: int) -> list[Batch]:
        """The batch cut into parts of at most `size` queries."""
        return [
            Batch(self.queries[start : start + size], self.targets[start : start + size])
            for start in range(0, len(self), size)
        ]

    def slots(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Entities, relations and targets as tensors."""
        entities, relations, targets = (
            torch.from_numpy(ids.astype(np.int64)).to(device)
            for ids in (self.queries.entities, self.queries.relations, self.targets)
        )
        return entities, relations, targets

    def excluded(self, masked: bool, device: torch.device) -> KnownTails:
        """The entities left out of the loss: the target or, if masked, all answers."""
        rows = np.arange(len(self))
        ids = self.targets
        if masked:
            easy = self.queries.easy
            hard = self.queries.hard
            rows = np.concatenate([easy.rows, hard.rows])
            ids = np.concatenate([easy.ids, hard.ids])
        return KnownTails(
            *(
                torch.from_numpy(np.asarray(column, dtype=np.int64)).to(device)
                for column in (rows, ids)
            )
        )

    def negatives(self, num_entities: int, random: np.random.Generator) -> Ints:
        """A random entity per query that is none of its answers."""
        easy = self.queries.easy.keys(num_entities)
        hard = self.queries.hard.keys(num_entities)
        answers = np.concatenate([easy, hard])
        wrong = np.arange(len(self))
        drawn = np.empty(len(self), dtype=np.int64)
        while len(wrong):
            drawn[wrong] = random.integers(0, num_entities, len(wrong))
            wrong = wrong[np.isin(wrong * num_entities + drawn[wrong], answers)]
        return drawn


class Batches:
    """Draws queries with hard answers and non-answers, each once per epoch."""

    def __init__(self, queries: QuerySet, num_entities: int, random: np.random.Generator) -> None:
        counts = queries.hard.counts
        self.queries = queries.subset(
            np.flatnonzero((counts > 0) & (counts + queries.easy.counts < num_entities))
        )
        self._random = random
        self.order = np.empty(0, dtype=np.int64)  # the queries still to come

    def __len__(self) -> int:
        return len(self.queries)

    def draw(self, size: int) -> Batch:
        """The next queries, each with one of its hard answers."""
        if len(self.order) < size:
            rounds = range(-((len(self.order) - size) // len(self)))
            self.order = np.concatenate(
                [self.order, *(self._random.permutation(len(self)) for _ in rounds)]
            )
        drawn = self.queries.subset(self.order[:size])
        self.order = self.order[size:]
        at = drawn.hard.offsets[:-1] + (self._random.random(size) * drawn.hard.counts).astype(
            np.int64
        )
        return Batch(drawn, drawn.hard.ids[at].astype(np.int64))
