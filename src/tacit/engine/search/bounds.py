"""The algebra of plans over bounds: between which log-scores the exact value of a step lies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from tacit.engine.logic import Logic
from tacit.query.plans.fold import End, Fold, Place
from tacit.query.plans.plan import Complement, Step


@dataclass(frozen=True, eq=False)
class Bounds:
    """Between which log-scores the exact values of some entities lie; they are exact where both are the same tensor."""

    low: Tensor
    high: Tensor


class BoundsFold(Fold[End, Bounds]):
    """What sets, their complements and what they are joined to are worth, from bounds of atoms."""

    logic: Logic

    @abstractmethod
    def strength(self, step: Complement[Step]) -> Tensor | None:
        """The log of how many times more strongly a negation excludes than the logic says, if it does."""

    def all(self, parts: Sequence[Bounds], place: Place[End]) -> Bounds:
        return _joined(self.logic.all, parts)

    def any(self, parts: Sequence[Bounds], place: Place[End]) -> Bounds:
        return _joined(self.logic.any, parts)

    def negation(self, step: Complement[Step], part: Bounds, place: Place[End]) -> Bounds:
        strength = self.strength(step)
        return _joined(lambda values: self.logic.negation(values[0], strength), [Bounds(part.high, part.low)])


def _joined(join: Callable[[Sequence[Tensor]], Tensor], parts: Sequence[Bounds]) -> Bounds:
    low = join([part.low for part in parts])
    exact = all(part.low is part.high for part in parts)
    return Bounds(low, low if exact else join([part.high for part in parts]))
