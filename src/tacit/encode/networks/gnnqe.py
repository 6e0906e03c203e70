"""GNN-QE (Zhu et al., 2022): fuzzy sets, and a graph network that projects them."""

from __future__ import annotations

from collections import deque

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.encode.layers import network
from tacit.encode.networks import update_kernels
from tacit.encode.networks.aggregation import PARTS, described
from tacit.encode.networks.graph_network import (
    boundary_of,
    fill,
    read,
    reset_linear,
    states_after,
)
from tacit.encode.networks.set_projection import SetProjector
from tacit.encode.networks.sorted_facts import DirectedFacts, SortedFacts
from tacit.encode.settings import EncodeSettings

LEAST_SCALE = 0.01


class DescribedLayer(nn.Module):
    """GNN-QE's layer: `h + relu(LN(W [h; a; s·a; a/s]))`.

    `a` describes the messages by mean, largest, smallest and standard deviation, and `s` is the log
    of their number over its mean (principal neighbourhood aggregation).

    The scales of an entity commute with the linear map, so that one product `4d -> 3d` stands for
    the twelve parts.
    """

    def __init__(self, width: int, num_relations: int) -> None:
        super().__init__()
        # vectors of all relations relative to the query's
        self.relation_linear = nn.Linear(width, num_relations * width)
        self.own = nn.Linear(width, width)
        self.described = nn.Linear(PARTS * width, 3 * width, bias=False)
        self.layer_norm = nn.LayerNorm(width)

    def relations(self, query: Tensor) -> Tensor:
        """The vectors of all relations for each query, `[B, d] -> [R, B, d]`."""
        vectors: Tensor = self.relation_linear(query)
        return vectors.view(len(query), -1, query.shape[1]).transpose(0, 1)

    def forward(
        self,
        states: Tensor,
        relations: Tensor,
        boundary: Tensor,
        facts: SortedFacts,
        keep: Tensor | None,
    ) -> Tensor:
        """The next states."""
        parts = described(states, relations, boundary, facts, keep)
        scale = (facts.degrees(keep) + 1).to(states.dtype).log()
        scale = scale / scale.mean().clamp(min=LEAST_SCALE)
        own = self.own(states)
        parts = self.described(parts.flatten(2))
        if update_kernels.available(states):
            return update_kernels.updated(
                states, own, parts, scale, self.layer_norm.weight, self.layer_norm.bias
            )
        plain, larger, smaller = parts.chunk(3, 2)
        scale = scale[:, None, None]
        mixed = own + plain + larger * scale + smaller / scale.clamp(min=LEAST_SCALE)
        return states + F.relu(self.layer_norm(mixed))


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
