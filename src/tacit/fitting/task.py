"""The interface of a training task: its steps, its validation and its extra state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.optim import Optimizer

Weights = Mapping[str, Tensor]


@dataclass(frozen=True)
class TrainingSchedule:
    """The length of a training, in units of some steps, and its intervals."""

    units: int  # at most
    steps_per_unit: int
    round: int  # units between two looks at the loss
    validate_every: int  # units
    patience: int  # validations
    validate_first: bool = False  # before any step
    checkpoint_seconds: float = 60.0
    # at most; then rounds are parts of that time, each of them validated
    seconds: float | None = None
    parts: int = 10

    @property
    def steps(self) -> int:
        """The maximum number of steps."""
        return self.units * self.steps_per_unit

    def ends_round(self, step: int) -> bool:
        """Whether a round ends with this step."""
        return step % (self.round * self.steps_per_unit) == 0 or step == self.steps

    def validates(self, step: int) -> bool:
        """Whether a validation is due after this step."""
        return step % (self.validate_every * self.steps_per_unit) == 0


class Task(ABC):
    """A training task."""

    name: str  # of the lines in the trace
    unit: str  # of the schedule
    examples: str  # what a step learns from
    remedy: str  # where numbers explode
    faster: str  # where it takes long
    measured = "filtered, the mean over the shapes of validation queries"  # its validation MRR
    module: nn.Module  # what has the weights
    optimizer: Optimizer  # what moves them

    @property
    def flops(self) -> float:
        """The approximate operations of a step; infinite if unknown."""
        return math.inf

    @abstractmethod
    def schedule(self) -> TrainingSchedule:
        """The length of the training and its intervals."""

    @abstractmethod
    def step(self, number: int) -> tuple[Tensor, int]:
        """Take one step; return its summed loss, on the device, and its number of examples."""

    def validate(self) -> dict[str, float]:
        """Figures whose mean selects the best weights; empty without validation data."""
        return {}

    def state(self) -> dict[str, Tensor]:
        """The state of the next steps beside weights, optimizer and step number."""
        return {}

    def restore(self, state: Weights) -> None:
        """Restore a state."""
        return

    def checksums(self) -> dict[str, str]:
        """Checksums of the training data beside facts and settings, by name."""
        return {}

    def release(self) -> None:
        """Free the memory that only steps need."""
        self.module.zero_grad(set_to_none=True)


def seed_of(*numbers: int) -> int:
    """A seed from integers, the same in every process."""
    return hash(numbers) & (2**63 - 1)
