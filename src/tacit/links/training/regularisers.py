"""Penalties on the factors of a batch of facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

import torch
from torch import Tensor


def n3(squares: Iterable[Tensor]) -> Tensor:
    """`Σ |f|³ / batch`, the nuclear 3-norm penalty (Lacroix et al., 2018), from squared moduli `[B, ·]`."""
    return reduce(torch.add, (s.pow(1.5).sum() / len(s) for s in squares))


def l2(squares: Iterable[Tensor]) -> Tensor:
    """`Σ |f|² / batch`, from squared moduli `[B, ·]`."""
    return reduce(torch.add, (s.sum() / len(s) for s in squares))


REGULARISERS: dict[str, Callable[[Iterable[Tensor]], Tensor]] = {"n3": n3, "l2": l2}
