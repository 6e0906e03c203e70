"""Rows of a table of weights, whose gradients go straight to where the table's are gathered."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def rows(table: Tensor, ids: Tensor) -> Tensor:
    """The rows of some ids, `[N, D] x [n] -> [n, D]`.

    A step takes rows of a large table several times. Where the table has a `.grad` already, the gradients of rows are
    added to it there; otherwise each time would make another one of the size of the table.
    """
    found: Tensor = _Rows.apply(table, ids)  # type: ignore[no-untyped-call]
    return found


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor) -> Tensor:
        ctx.table, ctx.ids = table, ids
        return table.index_select(0, ids)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        if ctx.table.grad is None:
            return torch.zeros_like(ctx.table).index_add_(0, ctx.ids, gradient), None
        ctx.table.grad.index_add_(0, ctx.ids, gradient)
        return None, None
