"""NBFNet from a fuzzy set along a relation, with the layers of GNN-QE and of ULTRA.

A set `p` over all entities and the vector `q` of a relation give the boundary condition `x_v = p_v
· q`, which is also the first state of every entity. A layer adds to each state what its neighbours
tell it, and what the last states are worth beside `q` is the logit of each entity. States are `[N,
B, d]`: what belongs to an entity lies side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tacit.encode.networks import update_kernels
from tacit.encode.networks.aggregation import PARTS, described, summed
from tacit.encode.networks.sorted_facts import SortedFacts

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


class SummedLayer(nn.Module):
    """ULTRA's layer: `h + relu(LN(W [h; x + Σ messages]))`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(2 * width, width)
        self.layer_norm = nn.LayerNorm(width)

    def forward(
        self,
        states: Tensor,
        relations: Tensor,
        boundary: Tensor,
        facts: SortedFacts,
        keep: Tensor | None = None,
    ) -> Tensor:
        """The next states."""
        aggregated = summed(states, relations, boundary, facts, keep)
        own, others = self.linear.weight.chunk(2, 1)
        mixed = F.linear(states, own, self.linear.bias) + F.linear(aggregated, others)
        return states + F.relu(self.layer_norm(mixed))


def boundary_of(log_sets: Tensor, query: Tensor) -> Tensor:
    """`p_v · q`, `[B, N] x [B, d] -> [N, B, d]`."""
    return log_sets.exp().t()[:, :, None] * query


def states_after(
    layers: Any,
    inputs: Tensor,
    boundary: Tensor,
    facts: SortedFacts,
    keep: Tensor | None = None,
) -> Iterator[Tensor]:
    """The states after each layer; `inputs` make its vectors of relations."""
    states = boundary
    for layer in layers:
        states = layer(states, layer.relations(inputs), boundary, facts, keep)
        yield states


def read(mlp: Any, states: Sequence[Tensor], query: Tensor) -> Tensor:
    """`MLP [h; …; q]` of every entity, `[N, B, d] … x [B, d] -> [B, N]`.

    Its first map is taken apart, so that the query is not copied to all entities.
    """
    first, *_, last = mlp
    weights = first.weight.split([part.shape[-1] for part in (*states, query)], 1)
    hidden = F.linear(query, weights[-1], first.bias).expand(*states[0].shape[:2], -1)
    for part, weight in zip(states, weights, strict=False):
        hidden = hidden + F.linear(part, weight)
    logits: Tensor = last(F.relu(hidden))
    return logits.squeeze(2).t()


@torch.no_grad()
def reset_linear(module: nn.Module, generator: torch.Generator) -> None:
    """Draw the weights of all linear maps and embeddings by torch's default distributions."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            bound = part.in_features**-0.5
            for weight in part.parameters():
                fill(weight, bound, generator)
        elif isinstance(part, nn.Embedding):
            part.weight.copy_(torch.randn(part.weight.shape, generator=generator))
        elif isinstance(part, nn.LayerNorm):
            part.reset_parameters()


@torch.no_grad()
def fill(weight: Tensor, bound: float, generator: torch.Generator) -> None:
    """Draw weights evenly up to a bound, both ways."""
    weight.copy_((torch.rand(weight.shape, generator=generator) * 2 - 1) * bound)
