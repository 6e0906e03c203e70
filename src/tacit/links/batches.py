"""Functions of many rows, computed for some of them at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def in_batches(function: Callable[..., Tensor], size: int, *columns: Tensor) -> Tensor:
    """The results of a function for at most `size` rows of the columns at a time, joined.

    >>> in_batches(torch.add, 2, torch.arange(3), torch.arange(3))
    tensor([0, 2, 4])
    """
    parts = zip(*(column.split(size) for column in columns), strict=True)
    return torch.cat([function(*part) for part in parts])
