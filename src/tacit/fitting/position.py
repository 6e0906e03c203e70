"""How far a training has come, as its checkpoint tells: to look at it needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.disk import from_json
from tacit.errors import RunError
from tacit.run.folder import ADAPTATION, RunFolder

FORMAT = "tacit checkpoint 3"


@dataclass
class Position:
    """How far a training has come."""

    step: int = 0  # finished steps
    done: int = 0  # finished epochs, where they are what is counted
    loss: float = 0.0  # sum over the examples of the round under way
    examples: int = 0  # of the round under way
    seconds: float = 0.0
    best: float | None = None  # validation
    best_step: int = 0
    stale: int = 0  # validations since the best
    history: list[dict[str, Any]] = field(default_factory=list)  # one entry a round

    def is_possible(self) -> bool:
        """Whether counts are counts and measures are numbers, of which a loss may have become infinite or none."""
        counts = (self.step, self.done, self.examples, self.best_step, self.stale)
        measures = (self.loss, self.seconds, 0.0 if self.best is None else self.best)
        rounds = isinstance(self.history, list) and all(isinstance(line, dict) for line in self.history)
        whole = all(type(count) is int and 0 <= count < 2**63 for count in counts)
        return rounds and whole and all(type(measure) in (int, float) for measure in measures)


def about(run: RunFolder, name: str) -> tuple[Position, bool]:
    """The position of a checkpoint, and whether its training is complete."""
    told = run.metadata(name)
    try:
        if told["format"] != FORMAT:
            raise ValueError
        position = Position(**from_json(told["position"]))
        if not position.is_possible():
            raise ValueError
        return position, "complete" in told
    except (KeyError, ValueError, TypeError):
        raise no_checkpoint(run.path / name) from None


def no_checkpoint(path: Path) -> RunError:
    """What to raise of a file that is none."""
    return RunError(f"{path} is no checkpoint of this version; {anew(path.name)}")


def anew(name: str) -> str:
    """How to start again where there is a checkpoint that is of no use: an adaptation stands in nobody's way."""
    return f"start again {'without resume' if name == ADAPTATION else 'with force'}"
