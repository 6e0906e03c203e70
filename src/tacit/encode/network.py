"""The network of a projection, and products that nothing rounds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from tacit.links.precision import float32_products


def network(inputs: int, hidden: int, layers: int, outputs: int) -> nn.Sequential:
    """Hidden layers with relu between them, and a linear one at the end."""
    widths = [inputs, *[hidden] * layers]
    between = [part for pair in pairwise(widths) for part in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*between, nn.Linear(hidden, outputs))


def quiet(layers: nn.Sequential) -> None:
    """Let a network start at 0 everywhere, so that it corrects what it is added to only as far as it learned to."""
    for numbers in layers[-1].parameters():
        nn.init.zeros_(numbers)


def products(states: Tensor, keys: Tensor) -> Tensor:
    """Inner products of states with keys, `[n, W] x [m, W] -> [n, m]`, or each with its own, `[n, m, W]`."""
    return states @ keys.T if keys.dim() == 2 else (states[:, None] * keys).sum(2)


def exact_products(states: Tensor, keys: Tensor) -> Tensor:
    """The same in float32, and so are their gradients, whatever other products are rounded to."""
    if keys.dim() == 3:  # which are no matrix product
        return products(states, keys)
    exact: Tensor = _ExactProducts.apply(states, keys)  # type: ignore[no-untyped-call]
    return exact


class _ExactProducts(torch.autograd.Function):
    """Backward passes run when the settings of the forward pass are long gone, so both set their own."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        with float32_products("float32"):
            return left @ right.T

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        left, right = ctx.saved_tensors
        with float32_products("float32"):
            return gradient @ right, gradient.T @ left
