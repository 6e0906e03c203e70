"""The reports of a training: its clock, its pace, its events and the lines of its trace."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tacit.fitting.checkpoint import TrainerState
from tacit.fitting.progress import Event, Progress, duration
from tacit.fitting.task import Task, TrainingSchedule
from tacit.run_folder.folder import RunFolder, versions

LONG = 60.0  # seconds of training worth a warning
_TICK = 0.1  # seconds between two reports of steps
_GLIMPSE = 3.0  # seconds of steps to estimate the others by


class Clock:
    """The seconds of a training, with those before it was resumed, and the rounds they end."""

    def __init__(self, schedule: TrainingSchedule) -> None:
        self.schedule = schedule
        self.part = 0  # of a timed training: the number of parts that are over
        self._started = time.monotonic()

    def resume(self, state: TrainerState) -> None:
        """Go on from the time of a state."""
        self._started = time.monotonic() - state.seconds
        self.part = self._parts(state)

    @property
    def seconds(self) -> float:
        """The seconds of training so far."""
        return time.monotonic() - self._started

    def share(self, state: TrainerState) -> float:
        """The fraction of the training that is done, by steps or by time, the larger of them."""
        timed = 0.0 if self.schedule.seconds is None else self.seconds / self.schedule.seconds
        return min(1.0, max(timed, state.step / max(1, self.schedule.steps)))

    def ends_round(self, state: TrainerState) -> bool:
        """Whether a round ends here; the time is read once per step."""
        if self.schedule.seconds is None:
            return self.schedule.ends_round(state.step)
        before = self.part
        self.part = self._parts(state)
        return self.part > before

    def _parts(self, state: TrainerState) -> int:
        return int(self.share(state) * self.schedule.parts)


class Pace:
    """The speed of steps, without the first one, which warms up."""

    def __init__(self) -> None:
        self.steps = 0
        self.examples = 0
        self.began: float | None = None
        self.estimated = False

    def count(self, examples: int) -> None:
        """Count a step."""
        if self.began is None:
            self.began = time.monotonic()
        else:
            self.steps += 1
            self.examples += examples

    @property
    def rate(self) -> float | None:
        """Examples per second."""
        return self.examples / self._elapsed if self.steps else None

    def estimate(self, steps: int) -> float:
        """The estimated seconds of so many more steps, returned once; otherwise 0."""
        if self.estimated or not self.steps or self._elapsed < _GLIMPSE:
            return 0.0
        self.estimated = True
        return self._elapsed / self.steps * steps

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude a block of code from the measured time."""
        before = time.monotonic()
        yield
        if self.began is not None:
            self.began += time.monotonic() - before

    @property
    def _elapsed(self) -> float:
        return max(1e-9, time.monotonic() - (self.began or 0.0))


class Report:
    """Sends the events of a training to a callback, and traces them in its run."""

    def __init__(self, task: Task, clock: Clock, progress: Progress, run: RunFolder | None) -> None:
        self.task = task
        self.clock = clock
        self.progress = progress
        self.run = run
        self.pace = Pace()
        self._ticked = time.monotonic()

    def start(self, state: TrainerState) -> None:
        """Trace the start, with the versions of the libraries."""
        self._trace(
            {"event": "start", "of": self.task.name, "step": state.step, "versions": versions()}
        )

    def step(self, state: TrainerState, examples: int) -> None:
        """Report progress now and then, and once the time left if it is long."""
        self.pace.count(examples)
        schedule = self.clock.schedule
        now = time.monotonic()
        if now - self._ticked >= _TICK:
            self._ticked = now
            self._send("step", state)
        seconds = self.pace.estimate(schedule.steps - state.step)
        if seconds >= LONG and schedule.seconds is None:
            units = schedule.units - state.step // schedule.steps_per_unit
            note = f"this will take about {duration(seconds)} for {units} {self.task.unit}s"
            self._send("note", state, note=f"{note}; {self.task.faster}")

    def round(self, state: TrainerState) -> None:
        """Report the last round of the history."""
        line = state.history[-1]
        metric = line["valid_mrr"]
        self._trace({"event": self.task.name, **line})
        self._send(
            "round" if metric is None else "validation", state, loss=line["loss"], metric=metric
        )

    def stop(self, state: TrainerState) -> None:
        """Trace a stop."""
        self._trace({"event": "stop", "step": state.step})

    def place(self, state: TrainerState) -> str:
        """How far the training is, in words."""
        schedule = self.clock.schedule
        unit = self.task.unit
        if schedule.seconds is not None:
            minutes = f"{self.clock.seconds / 60:.1f} of {schedule.seconds / 60:g} minutes"
            return f"{unit} {state.step}, {minutes}"
        return f"{unit} {-(-state.step // schedule.steps_per_unit)} of {schedule.units}"

    def _send(self, what: str, state: TrainerState, **figures: Any) -> None:
        schedule = self.clock.schedule
        total = schedule.steps
        if schedule.seconds is not None:
            total = round(state.step / max(self.clock.share(state), 1e-9))
        self.progress(
            Event(
                what,
                state.step,
                total,
                self.place(state),
                rate=self.pace.rate,
                examples=self.task.examples,
                seconds=self.clock.seconds,
                measured=self.task.measured,
                **figures,
            )
        )

    def _trace(self, line: dict[str, Any]) -> None:
        if self.run is not None:
            self.run.trace({**line, "seconds": round(self.clock.seconds, 3)})
