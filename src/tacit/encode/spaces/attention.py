"""Attention over the parts of an intersection, and how layers start."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """How much each of k parts counts, number by number: `softmax_k(W₂ relu(W₁ x_k + b₁) + b₂)`."""

    def __init__(self, width: int, out: int | None = None) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, out or width)

    def forward(self, parts: Tensor) -> Tensor:
        """`[n, k, W] -> [n, k, out]`."""
        return torch.softmax(self.outer(self.inner(parts).relu()), 1)


def reset_layers(module: nn.Module, generator: torch.Generator) -> None:
    """Start all linear layers inside: weights by Xavier, biases uniform by the inputs of a layer."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            if layer.bias is not None:
                reach = layer.in_features**-0.5
                nn.init.uniform_(layer.bias, -reach, reach, generator=generator)
