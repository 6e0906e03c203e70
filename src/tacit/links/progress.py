"""The progress of training, on a terminal and nowhere else."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class TrainingBar:
    """A bar with epoch, loss, validation MRR, facts per second and time left; silent where there is no terminal."""

    def __init__(self, facts: int, epochs: int, done: int, shown: bool, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._shown = shown and console.is_terminal
        self._epochs = epochs
        self._progress = Progress(
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            BarColumn(bar_width=None),
            TextColumn("loss {task.fields[loss]}  valid MRR {task.fields[mrr]}  {task.fields[rate]} facts/s"),
            TimeRemainingColumn(),
            console=console,
            disable=not self._shown,
            transient=True,
        )
        fields: dict[str, Any] = {"epoch": done // facts + 1, "epochs": epochs, "loss": "–", "mrr": "–", "rate": "–"}
        self._task = self._progress.add_task("train", total=facts * epochs, completed=done, **fields)

    def __enter__(self) -> TrainingBar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, facts: int) -> None:
        """Count facts seen."""
        if self._shown:
            speed = self._progress.tasks[0].speed
            self._progress.update(self._task, advance=facts, rate=f"{speed:,.0f}" if speed else "–")

    def epoch(self, number: int, loss: float, mrr: float | None) -> None:
        """Show the figures of a finished epoch."""
        if self._shown:
            self._progress.update(self._task, epoch=min(number + 1, self._epochs), loss=f"{loss:.4f}")
            if mrr is not None:
                self._progress.update(self._task, mrr=f"{mrr:.4f}")
