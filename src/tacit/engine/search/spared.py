"""Work that a search is spared: rows that are alike are valued once, and candidates that others outdo not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Alike:
    """Rows that stand for all, and the place among them of the one that stands for each."""

    rows: Tensor  # [n]
    back: Tensor  # [B]


def alike(ids: Sequence[Tensor], together: Tensor) -> Alike | None:
    """One row of those that are the same in all ids, `[B]` each; None where most differ.

    Rows `together[c, m]` in a column, as a lower and an upper bound, stand for those of another column, or none does.

    >>> alike([torch.tensor([7, 5, 7, 7])], torch.arange(4)[None])
    Alike(rows=tensor([1, 3]), back=tensor([1, 0, 1, 1]))
    """
    back = torch.zeros_like(together[0])  # [m]: columns that are alike have one number
    for column in [each[rows] for each in ids for rows in together]:
        if not bool((column == column[:1]).all()):
            back = torch.unique(back * (int(column.max()) + 1) + column, return_inverse=True)[1]
    count = int(back.max()) + 1 if len(back) else 0
    if not count or 2 * count > len(back):
        return None
    last = torch.zeros(count, dtype=torch.long, device=back.device)
    last.scatter_reduce_(0, back, torch.arange(len(back), device=back.device), "amax")
    places = torch.cat([back + count * row for row in range(len(together))])
    return Alike(together[:, last].reshape(-1), torch.empty_like(places).scatter_(0, together.reshape(-1), places))


def undominated(features: Sequence[Tensor]) -> Tensor | None:
    """The places of candidates that no other equals or exceeds in each of some features `[B, P]`, as `[B, m]`.

    Rows with fewer than others name one of theirs again. None of more than two features, of which most are needed.

    >>> undominated([torch.tensor([[3.0, 2.0, 1.0, 0.0]]), torch.tensor([[1.0, 0.0, 5.0, 5.0]])])
    tensor([[0, 2]])
    """
    if len(features) > 2:
        return None
    first, second = features[0], features[-1]
    values, order = first.sort(dim=1, descending=True, stable=True)
    others = values if first is second else second.gather(1, order)
    before = others.cummax(dim=1).values[:, :-1]
    better = torch.cat([torch.ones_like(order[:, :1]).bool(), ~(others[:, 1:] <= before)], dim=1)  # numbers or not
    most = int(better.sum(dim=1).max())
    kept = better.to(torch.uint8).sort(dim=1, descending=True, stable=True).indices[:, :most]
    kept = torch.where(better.gather(1, kept), kept, 0)
    return order.gather(1, kept)
