"""Penalties on the factors of a batch of facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import Tensor


def n3(squares: Iterable[Tensor]) -> Tensor:
    """`Σ |f|³ / batch`, the nuclear 3-norm penalty (Lacroix et al., 2018), from squared moduli `[B, ·]`."""
    return _total([s.pow(1.5).sum() / len(s) for s in squares])


def l2(squares: Iterable[Tensor]) -> Tensor:
    """`Σ |f|² / batch`, from squared moduli `[B, ·]`."""
    return _total([s.sum() / len(s) for s in squares])


REGULARISERS: dict[str, Callable[[Iterable[Tensor]], Tensor]] = {"n3": n3, "l2": l2}


def _total(parts: list[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
