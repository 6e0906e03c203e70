"""Logs the events of a training in a tracker, which can neither stop nor slow it."""

from __future__ import annotations

import importlib
import importlib.util
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import SettingsError
from tacit.fitting.progress import Event, Progress, shown
from tacit.run_folder.files import RULES_MODEL
from tacit.run_folder.folder import RunFolder

TRACKERS = ("tensorboard", "mlflow", "wandb")
PATIENCE = 20.0  # seconds that a tracker may take when the training is over
_TRACED = "track"  # the event of a trace that names a tracked run


@dataclass(frozen=True)
class Training:
    """A training as a tracker meets it."""

    part: str  # of the run: train, adapt or encode
    folder: Path
    parameters: Mapping[str, Any]
    id: str | None = None  # of the tracked run that a resumed training goes on in


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker holds of a training: it logs an `Event`, and closes as an exit code says."""

    id: str
    place: str  # where a person finds it
    log: Callable[[Event], None]
    close: Callable[[int], None]


def figures(event: Event) -> dict[str, float]:
    """The figures of an event that are logged, by name."""
    values = {
        "loss": event.loss,
        "valid_mrr": event.metric,
        "examples_per_s": event.rate,
        "seconds": event.seconds,
    }
    return {name: float(value) for name, value in values.items() if value is not None}


def check_tracker(name: str | None, model: str | None = None) -> None:
    """Raise a `SettingsError` for a tracker that is unknown or missing, or of no training."""
    if name is None:
        return
    if model == RULES_MODEL:
        raise SettingsError(
            f"track is '{name}', and rules are mined at once, not trained; leave it out", "track"
        )
    if name not in TRACKERS:
        raise SettingsError(f"track is '{name}'; it must be one of {', '.join(TRACKERS)}", "track")
    if importlib.util.find_spec(name) is None:
        extra = f"tacit-kg[{name}]"
        raise SettingsError(
            f"track is '{name}', which is not installed; install it with: pip install '{extra}'",
            "track",
        )


@contextmanager
def tracked(
    name: str | None,
    progress: Progress | bool,
    run: RunFolder,
    part: str,
    settings: Mapping[str, Any],
    resume: bool,
) -> Iterator[Progress | bool]:
    """Yield the progress of a training that is also logged in the tracker of a name.

    A resumed training goes on in its tracked run, which the trace names.
    """
    if name is None:
        yield progress
        return
    graph = {key: run.settings["graph"].get(key) for key in ("name", "entities", "train")}
    parameters = {
        **{key: value for key, value in settings.items() if value is not None},
        **{f"graph.{key}": value for key, value in graph.items()},
        "folder": str(run.path.resolve()),
    }
    past = [event for event in run.events() if (event.get("of"), event.get("by")) == (part, name)]
    id = past[-1].get("id") if past and resume else None
    with shown(progress) as tell:
        tracking = _Tracking(name, Training(part, run.path, parameters, id), run, tell)
        code = 1
        try:
            yield tracking.hear
            code = 0
        except KeyboardInterrupt:
            code = 130
            raise
        finally:
            tracking.end(code)


class _Tracking:
    """A thread that opens a tracked run and logs in it; what it has to say, the others tell."""

    def __init__(self, name: str, training: Training, run: RunFolder, tell: Progress) -> None:
        self.name = name
        self._training = training
        self._run = run
        self._tell = tell
        self._events = queue.SimpleQueue[Event | int]()  # an exit code comes last
        self._notes = queue.SimpleQueue[str]()
        self._thread = threading.Thread(target=self._work, name=f"tacit-{name}", daemon=True)
        self._thread.start()

    def hear(self, event: Event) -> None:
        """Pass an event on, and log it if it has figures of a round."""
        self._tell_notes()
        self._tell(event)
        if event.loss is not None or event.metric is not None:
            self._events.put(event)

    def end(self, code: int) -> None:
        """Close the tracked run, if that takes no longer than the patience for it."""
        self._events.put(code)
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            self._notes.put(
                f"{self.name} does not answer; what it has not taken by now may be lost"
            )
        self._tell_notes()

    def _tell_notes(self) -> None:
        while not self._notes.empty():
            self._tell(Event("note", 0, 0, note=self._notes.get()))

    def _work(self) -> None:
        try:
            tracker = importlib.import_module(f"tacit.fitting.trackers.{self.name}")
            tracked_run: TrackedRun = tracker.open_run(self._training)
            ids = {"of": self._training.part, "by": self.name, "id": tracked_run.id}
            self._run.trace({"event": _TRACED, **ids})
            self._notes.put(f"tracked by {self.name}: {tracked_run.place}")
            while isinstance(event := self._events.get(), Event):
                tracked_run.log(event)
            tracked_run.close(event)
        except BaseException as error:  # a tracker may end a program, too
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            self._notes.put(f"{self.name} failed, and the training goes on without it: {reason}")
