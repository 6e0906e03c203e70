"""Constraints by the training facts: which relations loop, and where each leads."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tacit.graph.graph import Graph

IMPOSSIBLE = float("-inf")


class AtomConstraints:
    """Rules out loops of relations that never loop, and with `typed` ends of a wrong kind.

    A link predictor scores every pair, and the entity most similar to an entity is itself: without
    the first rule, the best predicted neighbour of most countries is the country. By the second
    rule, an entity cannot stand at an end of a relation if it plays a role (the end of some
    relation) that no entity seen at that end plays: a language has speakers, no country has, so a
    language borders nothing. An entity need not have been seen at that end: the missing capital of
    a country is one that no training fact calls a capital.
    """

    def __init__(
        self,
        graph: Graph,
        device: torch.device | str = "cpu",
        *,
        loops: bool = False,
        typed: bool = False,
    ):
        triples = graph.triples("train").astype(np.int64)
        self.typed = typed
        looping = np.full(graph.num_relations, loops)
        looping[triples[triples[:, 0] == triples[:, 2], 1]] = True
        # [R]: relations that cannot loop
        self.without_loops = torch.from_numpy(~looping).to(device)
        self._ends: Tensor | None = None
        if typed:
            roles = torch.zeros(graph.num_relations, graph.num_entities)
            roles[torch.from_numpy(triples[:, 1]), torch.from_numpy(triples[:, 2])] = 1.0
            apart = (roles @ roles.T == 0).float()  # [R, R]: roles that nobody plays both of
            # [R, N]: where each directed relation may end
            self._ends = (apart @ roles == 0).to(device)

    def rule_out(self, logits: Tensor, heads: Tensor, relations: Tensor, columns: slice) -> Tensor:
        """Set ruled-out logits of rows `relation(head, ·)` in some columns to minus infinity.

        It does not wait for a GPU.
        """
        if logits.numel():
            rows = torch.arange(len(heads), device=heads.device)
            places = heads - columns.start
            loops = self.without_loops[relations] & (places >= 0) & (places < logits.shape[1])
            places = places.clamp(0, logits.shape[1] - 1)
            logits[rows, places] = torch.where(loops, IMPOSSIBLE, logits[rows, places])
        if self._ends is not None:
            logits.masked_fill_(~self._ends[relations, columns], IMPOSSIBLE)
            logits.masked_fill_(~self.starts(heads, relations)[:, None], IMPOSSIBLE)
        return logits

    def excluded(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Whether each atom is ruled out."""
        out = self.without_loops[relations] & (heads == tails)
        if self._ends is not None:
            out |= ~(self._ends[relations, tails] & self.starts(heads, relations))
        return out

    def starts(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Whether each entity is of a kind that each relation can start at."""
        return (
            self._ends[relations ^ 1, heads]
            if self._ends is not None
            else torch.ones_like(heads, dtype=torch.bool)
        )
