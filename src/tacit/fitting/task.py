"""What is trained: it says what a step is, how it is validated, and what state it has beside weights and optimizer."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.optim import Optimizer

Weights = Mapping[str, Tensor]


@dataclass(frozen=True)
class Timetable:
    """How long to train, in a `unit` of some steps, and how often to look."""

    name: str  # of the lines in the trace
    unit: str
    units: int  # at most
    steps_per_unit: int
    round: int  # units between two looks at the loss
    validate_every: int  # units
    patience: int  # validations
    examples: str  # what a step learns from
    validate_first: bool = False  # before any step
    checkpoint_seconds: float = 60.0
    seconds: float | None = None  # at most; then rounds are parts of that time, each of them validated
    parts: int = 10

    @property
    def steps(self) -> int:
        """All steps, at most."""
        return self.units * self.steps_per_unit

    def ends_round(self, step: int) -> bool:
        """Whether it is time to look at the loss."""
        return step % (self.round * self.steps_per_unit) == 0 or step == self.steps

    def validates(self, step: int) -> bool:
        """Whether it is time to validate."""
        return step % (self.validate_every * self.steps_per_unit) == 0


class Task(ABC):
    """What is trained."""

    remedy: str  # where numbers explode
    faster: str  # where it takes long
    module: nn.Module  # what has the weights
    optimizer: Optimizer  # what moves them

    @property
    def flops(self) -> float:
        """About how much a step computes; more than anything where that is not known."""
        return math.inf

    @abstractmethod
    def schedule(self) -> Timetable:
        """How long to train, and how often to look."""

    @abstractmethod
    def step(self, number: int) -> tuple[Tensor, int]:
        """Take one step: the loss, summed over its examples and still on the device, and how many they were."""

    def validate(self) -> dict[str, float]:
        """The figures whose mean decides which weights are best; none where there is nothing to validate with."""
        return {}

    def state(self) -> dict[str, Tensor]:
        """What the next steps depend on beside weights, optimizer and number."""
        return {}

    def restore(self, state: Weights) -> None:
        """Go back to such a state; where there is none, nothing is to be done."""
        return

    def checksums(self) -> dict[str, str]:
        """What tells what it learns from, beside facts and settings, from others, by a name of each."""
        return {}

    def release(self) -> None:
        """Let go of what steps alone need."""
        self.module.zero_grad(set_to_none=True)


def seed_of(*numbers: int) -> int:
    """A seed that is of these numbers alone, in any process: of ints hashes are the same everywhere."""
    return hash(numbers) & (2**63 - 1)
