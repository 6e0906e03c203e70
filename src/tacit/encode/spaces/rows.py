"""Rows of a table of weights, whose gradients go straight to where the table's are gathered."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def rows(table: Tensor, ids: Tensor | None) -> Tensor:
    """The rows of some ids, `[N, D] x [...] -> [..., D]`, or the table itself.

    A step takes rows of a large table several times. The gradients of rows are added to the `.grad` of the table, which
    is made where there is none; otherwise each time would make another one of the size of the table, and the sums of
    the first step of a process would be rounded otherwise than those of all others.
    """
    rows: Tensor = table if ids is None else _Rows.apply(table, ids)  # type: ignore[no-untyped-call]
    return rows


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor) -> Tensor:
        ctx.table, ctx.ids = table, ids.flatten()
        return table.index_select(0, ctx.ids).view(*ids.shape, table.shape[1])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        if ctx.table.grad is None:
            ctx.table.grad = torch.zeros_like(ctx.table)
        ctx.table.grad.index_add_(0, ctx.ids, gradient.reshape(len(ctx.ids), ctx.table.shape[1]))
        return None, None
