"""NBFNet from a fuzzy set along a relation, for the layers of GNN-QE and of ULTRA.

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

from tacit.encode.networks.sorted_facts import SortedFacts


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
