"""Bounds of log-scores, and the algebra of plans over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.engine.logic import Logic
from tacit.query.plans.fold import End, EvalContext, Fold
from tacit.query.plans.plan import Complement, Step


@dataclass(frozen=True, eq=False)
class Bounds:
    """Lower and upper bounds of exact log-scores, which are exact where both are one tensor."""

    low: Tensor
    high: Tensor

    @classmethod
    def exactly(cls, value: Tensor) -> Bounds:
        """The bounds of known values."""
        return cls(value, value)

    @property
    def exact(self) -> bool:
        """Whether the values are known."""
        return self.low is self.high

    def __getitem__(self, rows: Tensor) -> Bounds:
        return lift(lambda bound: bound[rows], self)

    def swapped(self) -> Bounds:
        """Swap upper and lower bounds, as a negation does."""
        return Bounds(self.high, self.low)

    def raised(self, least: Tensor | None) -> Bounds:
        """Raise the upper bounds to at least a value a row, `[B]`."""
        return self if least is None else Bounds(self.low, torch.maximum(self.high, least[:, None]))


def lift(function: Callable[..., Tensor], *values: Bounds) -> Bounds:
    """Apply a monotone function to lower and upper bounds, once where all are exact."""
    low = function(*[value.low for value in values])
    exact = all(value.exact for value in values)
    return Bounds(low, low if exact else function(*[value.high for value in values]))


class BoundsFold(Fold[End, Bounds]):
    """Values sets, their complements and what they are joined to, from bounds of atoms."""

    logic: Logic

    def all(self, parts: Sequence[Bounds], place: EvalContext[End]) -> Bounds:
        return lift(lambda *bounds: self.logic.all(bounds), *parts)

    def any(self, parts: Sequence[Bounds], place: EvalContext[End]) -> Bounds:
        return lift(lambda *bounds: self.logic.any(bounds), *parts)

    def negation(self, step: Complement[Step], part: Bounds, place: EvalContext[End]) -> Bounds:
        return lift(self.logic.negation, part.swapped())


def highest(value: Tensor | Bounds) -> Tensor:
    """The upper bounds of a value."""
    return value.high if isinstance(value, Bounds) else value
