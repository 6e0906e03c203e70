"""Building blocks of encoders: small networks, attention, rows of tables, exact products."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from tacit.encode.settings import EncodeSettings
from tacit.links.precision import float32_products


def network(inputs: int, hidden: int, layers: int, outputs: int) -> nn.Sequential:
    """Hidden layers with relu between them, and a linear one at the end."""
    widths = [inputs, *[hidden] * layers]
    between = [part for pair in pairwise(widths) for part in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*between, nn.Linear(hidden, outputs))


def zero_last_layer(layers: nn.Sequential) -> None:
    """Set the last layer to 0, so that a residual network starts as no correction."""
    for numbers in layers[-1].parameters():
        nn.init.zeros_(numbers)


class Attention(nn.Module):
    """Attention over k parts, number by number: `softmax_k(W₂ relu(W₁ x_k + b₁) + b₂)`."""

    def __init__(self, width: int, out: int | None = None) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, out or width)

    def forward(self, parts: Tensor) -> Tensor:
        """`[n, k, W] -> [n, k, out]`."""
        return torch.softmax(self.outer(self.inner(parts).relu()), 1)


def reset_layers(module: nn.Module, generator: torch.Generator) -> None:
    """Draw all linear layers: weights by Xavier, biases uniform by a layer's inputs."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            reach = layer.in_features**-0.5
            nn.init.uniform_(layer.bias, -reach, reach, generator=generator)


def embedding_range(settings: EncodeSettings) -> float:
    """The published range that numbers of a table start in, `(γ + 2) / width`."""
    return (settings.margin + 2) / settings.width


def reset_tables(module: nn.Module, reach: float, generator: torch.Generator) -> None:
    """Draw the tables of entities and relations uniformly from ±`reach`, then all layers."""
    for name in ("entities", "relations"):
        nn.init.uniform_(module.get_parameter(name), -reach, reach, generator=generator)
    reset_layers(module, generator)


def rows(table: Tensor, ids: Tensor | None) -> Tensor:
    """The rows of some ids, `[N, D] x [...] -> [..., D]`, or the table itself.

    A step takes rows of a large table several times. Their gradients are added to the `.grad` of
    the table in place: autograd would make a gradient of the size of the table each time. Where the
    table has no `.grad`, a zero one is made, so that the first step of a process is rounded as all
    others are.
    """
    if ids is None:
        return table
    rows: Tensor = _Rows.apply(table, ids)  # type: ignore[no-untyped-call]
    return rows


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor) -> Tensor:
        ctx.table = table
        ctx.ids = ids.flatten()
        return table.index_select(0, ctx.ids).view(*ids.shape, table.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        if ctx.table.grad is None:
            ctx.table.grad = torch.zeros_like(ctx.table)
        ctx.table.grad.index_add_(0, ctx.ids, gradient.reshape(len(ctx.ids), ctx.table.shape[1]))
        return None, None


def products(states: Tensor, keys: Tensor) -> Tensor:
    """The inner products, `[n, W] x [m, W] -> [n, m]`, or `[n, W] x [n, m, W] -> [n, m]`."""
    return states @ keys.T if keys.dim() == 2 else (states[:, None] * keys).sum(2)


def exact_products(states: Tensor, keys: Tensor) -> Tensor:
    """The inner products and their gradients in float32, even where others are rounded."""
    if keys.dim() == 3:  # no matrix product, so nothing is rounded
        return products(states, keys)
    exact: Tensor = _ExactProducts.apply(states, keys)  # type: ignore[no-untyped-call]
    return exact


class _ExactProducts(torch.autograd.Function):
    """A product whose forward and backward passes both set the precision."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        with float32_products("float32"):
            return left @ right.T

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        left, right = ctx.saved_tensors
        with float32_products("float32"):
            return gradient @ right, gradient.T @ left
