"""The largest values of rows, with ties broken by place, the same in every process."""

from __future__ import annotations

import torch
from torch import Tensor

_COMPARED = 2**22  # values compared at a time to find ties at a cut


def best(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The `k` largest values of each row and their places, `[B, n] -> [B, k]` each.

    Larger values come first, and equal ones by place. `topk` leaves the choice and order of equal
    values open.

    >>> best(torch.tensor([[1.0, 3.0, 1.0, 3.0, 1.0]]), 3)
    (tensor([[3., 3., 1.]]), tensor([[1, 3, 0]]))
    """
    n = values.shape[1]
    k = min(k, n)
    if k == 1:  # `max` takes the first of equal ones, without a look at all that tie
        top, ids = values.max(dim=1, keepdim=True)
        return top, ids
    if values.requires_grad:  # gradients reach the chosen values, not those of `topk`
        ids = best(values.detach(), k)[1]
        return values.gather(1, ids), ids
    top, ids = values.topk(min(k + 1, n), dim=1)
    same = top[:, 1:] == top[:, :-1]
    if not bool(same.any()):
        return top[:, :k], ids[:, :k]
    if k < n and k > 0:
        tied = same[:, k - 1].nonzero()[:, 0]
        for rows in tied.split(max(1, _COMPARED // n)):
            ids[rows, :k] = _cut_by_place(values[rows], top[rows, :k], ids[rows, :k])
    top = top[:, :k]
    ids = ids[:, :k]
    ids, order = ids.sort(dim=1)
    top, order = top.gather(1, order).sort(dim=1, descending=True, stable=True)
    return top, ids.gather(1, order)


def _cut_by_place(values: Tensor, top: Tensor, ids: Tensor) -> Tensor:
    """The places of the largest values, with ties at the cut broken by place."""
    last = top[:, -1:]
    rows, places = (values == last).nonzero(as_tuple=True)  # row by row, from the left
    sizes = torch.bincount(rows, minlength=len(values))
    above = (top > last).sum(dim=1)
    at = torch.arange(len(rows), device=rows.device) + (above - sizes.cumsum(0) + sizes)[rows]
    selected = at < ids.shape[1]
    return ids.index_put((rows[selected], at[selected]), places[selected])
