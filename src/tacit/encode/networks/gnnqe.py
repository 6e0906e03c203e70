"""GNN-QE (Zhu et al., 2022): fuzzy sets, and a graph network that projects them."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor, nn

from tacit.encode.layers import network
from tacit.encode.networks.graph_network import (
    DescribedLayer,
    boundary_of,
    fill,
    read,
    reset_linear,
    states_after,
)
from tacit.encode.networks.set_projection import SetProjector
from tacit.encode.networks.sorted_facts import DirectedFacts
from tacit.encode.settings import EncodeSettings


class GNNQE(SetProjector):
    """NBFNet with a vector for every relation and principal neighbourhood aggregation.

    With `through`, gradients reach every hop of a question; the published training stops them at
    each but the last.
    """

    name = "GNN-QE"

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        settings: EncodeSettings,
        triples: DirectedFacts,
    ) -> None:
        super().__init__(num_entities, num_relations, settings, triples)
        d = settings.width
        count = settings.layers
        self.query = nn.Embedding(num_relations, d)
        self.layers = nn.ModuleList(DescribedLayer(d, num_relations) for _ in range(count))
        self.mlp = network(d * (1 + (count if settings.joined else 1)), settings.hidden, 1, 1)

    def network(self, log_sets: Tensor, relations: Tensor, keep: Tensor | None = None) -> Tensor:
        query = self.query(relations)
        states = states_after(self.layers, query, boundary_of(log_sets, query), self.facts, keep)
        return read(self.mlp, deque(states, None if self.settings.joined else 1), query)

    def reset(self, generator: torch.Generator) -> None:
        reset_linear(self, generator)
        bound = (13 * self.settings.width) ** -0.5  # as one linear map of all thirteen parts
        for layer in (each for each in self.layers if isinstance(each, DescribedLayer)):
            for weight in (layer.own.weight, layer.own.bias, layer.described.weight):
                fill(weight, bound, generator)
