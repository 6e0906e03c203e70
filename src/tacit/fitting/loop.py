"""The training loop: steps, validation, best weights, patience, checkpoints and events."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

import torch

from tacit.distributed.shards import Shards
from tacit.distributed.threads import choose_again, threads_for
from tacit.errors import RunError, TrainingError
from tacit.fitting.checkpoint import (
    COMMANDS,
    Checkpoint,
    TrainerState,
    optimizer_tensors,
    restart_hint,
    restore_optimizer,
)
from tacit.fitting.interruption import Broken, Stopped, StopWish, breakable, stop_on_signals
from tacit.fitting.parts import RunFiles
from tacit.fitting.progress import Event, Pace, Progress, duration, shown
from tacit.fitting.task import Task, Weights
from tacit.run_folder.files import BEST
from tacit.run_folder.folder import RunFolder, versions
from tacit.settings import Settings

LONG = 60.0  # seconds of training worth a warning
SLOW = 0.2  # seconds of a step that Ctrl-C does not wait for
_TICK = 0.1  # seconds between two reports of steps


class Trainer:
    """A training in progress, with its state and the best weights so far.

    `shards` says which rows of a module with a row per entity this process holds. The best weights
    of such a module are as large as itself and are stored in the run if there is one; others stay
    in memory. Several processes go in step: a stop request to one stops all, and one alone reports
    and traces.
    """

    def __init__(
        self,
        task: Task,
        progress: Progress,
        run: RunFolder | None = None,
        file: str = "",
        stamp: Mapping[str, str] | None = None,
        shards: Shards | None = None,
    ) -> None:
        self.task = task
        self.schedule = task.schedule()
        self.progress = progress
        self.run = run
        self.file = file
        self.stamp = stamp or {}
        self.shards = shards or Shards(0)
        self.files = None if run is None else RunFiles(run, shards)
        self.at = TrainerState()
        self.complete = False
        self.best: Weights = {}  # the weights of `at.best_step`, if they are in memory
        self._best_in_run = shards is not None and run is not None
        # state and best weights before a validation that only the end requires
        self._before_end: tuple[TrainerState, Weights] | None = None
        self._broken = False  # whether a step or a validation was interrupted
        self._slow = True  # whether the last step was slow; the first one may be
        self._part = 0  # of a timed training: the number of parts that are over
        self._last = -1  # step of the last checkpoint
        self._loss = torch.zeros(
            (), dtype=torch.float64, device=next(task.module.parameters()).device
        )
        self._started = self._saved = self._reported = time.monotonic()
        self._pace = Pace()

    @property
    def over(self) -> bool:
        """Whether steps, time or patience are used up."""
        at = self.at
        schedule = self.schedule
        ended = (
            self._part >= schedule.parts
            or at.step >= schedule.steps
            or at.stale >= schedule.patience
        )
        return ended and not self._broken

    @property
    def share(self) -> float:
        """The fraction of the training that is done, by steps or by time, whichever is larger."""
        timed = 0.0 if self.schedule.seconds is None else self.seconds / self.schedule.seconds
        return min(1.0, max(timed, self.at.step / max(1, self.schedule.steps)))

    def train(self) -> None:
        """Train until the schedule is over."""
        if self.complete:  # the file with its best weights will be replaced
            self.save()
        at = self.at
        schedule = self.schedule
        self._trace(
            {"event": "start", "of": schedule.name, "step": at.step, "versions": versions()}
        )
        with stop_on_signals() as stop:
            try:
                if (schedule.validate_first and not at.history) or self._owes_round:
                    self._end_round(stop)
                while not self.over:
                    self._take_step(stop)
            except Broken:
                self._broken = True
                self._stop()

    def _take_step(self, stop: StopWish) -> None:
        """Take one step and do the work due after it; an interrupted step changes nothing."""
        choose_again()
        at = self.at
        began = time.monotonic()
        stop.at_once = self._slow and self.shards.world == 1  # processes go in step
        before = self.task.state() if stop.at_once else {}
        try:
            loss, examples = self.task.step(at.step)
        except Broken:
            self.task.restore(before)
            raise
        self._slow = time.monotonic() - began > SLOW
        self._loss += loss
        at.step, at.examples = at.step + 1, at.examples + examples
        self._tell_step(examples)
        if self._ends_round():
            self._end_round(stop)
        due = (
            self.shards.leads and time.monotonic() - self._saved >= self.schedule.checkpoint_seconds
        )
        stopped, due = self.shards.any(stop.is_set(), due)
        if stopped and not self.over:
            self._stop()
        if due and not self.over:
            self.save()

    def finish(self, keep: Callable[[Trainer], None] | None = None) -> None:
        """Restore the best weights, and `keep` them with the state for further training."""
        module = self.task.module
        at = self.at
        self.task.release()
        position, best = self._before_end or (at, self.best)
        # a resumed training needs the best weights before the end
        others = position.best_step != at.best_step
        groups: dict[str, Weights] = {"best": best} if others else {}
        if (
            keep is not None
            and self.files is not None
            and at.best is not None
            and at.best_step != at.step
        ):
            # saved and read again, since last and best weights may not both fit in memory
            self.save()
            groups["model"] = Checkpoint.read(self.files, self.file, self.stamp).groups["model"]
        self.go_back()
        self._check_weights()
        module.requires_grad_(False).eval()
        if keep is not None and self.files is not None:
            keep(self)
            position.seconds = self.seconds
            groups |= {
                "optimizer": optimizer_tensors(self.task.optimizer, module),
                "state": self.task.state(),
            }
            Checkpoint(position, groups, complete=True).write(self.files, self.file, self.stamp)
            self._remove_best_but(position.best_step if others else None)

    def go_back(self) -> None:
        """Restore the best weights, if there are any."""
        if self.at.best is not None:
            best = self.best
            if self._best_in_run and self.files is not None:
                _, best = self.files.contents(self._best_file)
            self.task.module.load_state_dict(best)

    def save(self) -> None:
        """Write a checkpoint, if there is a run."""
        self._saved = time.monotonic()
        if self.files is None or self._last == self.at.step:
            return
        self.at.loss, self.at.seconds = self._checked_loss(), self.seconds
        self._check_weights()
        task = self.task
        groups = {
            "optimizer": optimizer_tensors(task.optimizer, task.module),
            "state": task.state(),
            "best": self.best,
            "model": task.module.state_dict(),
        }
        Checkpoint(self.at, groups).write(self.files, self.file, self.stamp)
        self._remove_best_but(self.at.best_step)
        self._last = self.at.step
        self._saved = time.monotonic()

    def resume(self) -> None:
        """Restore the last checkpoint of the run, if there is one."""
        if self.run is None or self.files is None or not self.run.has(self.file):
            return
        checkpoint = Checkpoint.read(self.files, self.file, self.stamp)
        groups = checkpoint.groups
        with self.run.fits(self.file, restart_hint(self.file)):
            self.task.module.load_state_dict(groups["model"])
            restore_optimizer(self.task.optimizer, self.task.module, groups["optimizer"])
            self.task.restore(groups["state"])
        self.at = checkpoint.position
        self.complete = checkpoint.complete
        self._restore_best(groups["best"])
        self._last = -1 if self.complete else self.at.step
        self._loss.fill_(self.at.loss)
        self._started = time.monotonic() - self.at.seconds
        self._part = int(self.share * self.schedule.parts)

    @property
    def seconds(self) -> float:
        """The seconds of training so far, including those before it was resumed."""
        return time.monotonic() - self._started

    def summary(self) -> dict[str, Any]:
        """The results of the training and its best weights, or of its last ones."""
        at = self.at
        unit = self.schedule.unit
        device = self._loss.device
        done, best = (step // self.schedule.steps_per_unit for step in (at.step, at.best_step))
        best = done if at.best is None else best
        return {
            f"{unit}s": done,
            f"best_{unit}": best,
            "valid_mrr": at.best,
            "measured": None if at.best is None else self.task.measured,
            "mrr": next((line["mrr"] for line in at.history if line[unit] == best), {}),
            "seconds": round(self.seconds, 3),
            "device": str(device),
            "peak_gb": round(torch.cuda.max_memory_allocated(device) / 1e9, 3)
            if device.type == "cuda"
            else None,
        }

    def _ends_round(self) -> bool:
        """Whether a round ends here; the clock is read once per step."""
        if self.schedule.seconds is None:
            return self.schedule.ends_round(self.at.step)
        before = self._part
        self._part = int(self.share * self.schedule.parts)
        return self._part > before

    @property
    def _owes_round(self) -> bool:
        """Whether a resumed training was stopped during the validation after its last step."""
        timed = self.schedule.seconds is not None
        return self.at.examples > 0 and (
            self.over if timed else self.schedule.ends_round(self.at.step)
        )

    def _end_round(self, stop: StopWish) -> None:
        """Check the loss, validate if it is due, and report both.

        An interrupted validation leaves no trace.
        """
        at = self.at
        schedule = self.schedule
        loss = self._checked_loss() / at.examples if at.examples else None
        planned = schedule.seconds is not None or schedule.validates(at.step)
        figures = {}
        if planned or at.step == schedule.steps:
            stop.at_once = self.shards.world == 1
            with self._pace.paused(), breakable():
                self._check_weights()
                figures = self.task.validate()
        self._loss.zero_()
        at.loss, at.examples, at.done = 0.0, 0, at.step // schedule.steps_per_unit
        if not planned and at.step == schedule.steps:
            self._before_end = replace(at, history=list(at.history)), self.best
        metric = statistics.fmean(figures.values()) if figures else None
        if metric is not None:
            at.stale += 1
            if at.best is None or metric > at.best:
                at.best, at.best_step, at.stale = metric, at.step, 0
                self._keep_best(self.task.module.state_dict())
        line = {schedule.unit: at.done, "loss": loss, "valid_mrr": metric, "mrr": figures}
        line |= {f"{schedule.examples}_per_s": self._pace.rate, "seconds": round(self.seconds, 3)}
        at.history.append(line)
        self._trace({"event": schedule.name, **line})
        self._tell("round" if metric is None else "validation", loss=loss, metric=metric)

    @property
    def _best_file(self) -> str:
        return BEST.format(step=self.at.best_step)

    def _keep_best(self, weights: Weights) -> None:
        if self._best_in_run and self.files is not None:
            self.files.write(self._best_file, weights, {})
        else:
            self.best = {name: tensor.clone() for name, tensor in weights.items()}

    def _restore_best(self, weights: Weights) -> None:
        """Restore the best weights from their file, or else from `weights` of the checkpoint."""
        if self.at.best is None or (
            self._best_in_run and self.run is not None and self.run.has(self._best_file)
        ):
            return
        if not weights:
            raise RunError(
                f"the run has no {self._best_file}, the best weights so far; "
                f"{restart_hint(self.file)}",
                command=COMMANDS.get(self.file),
            )
        self._keep_best({name: tensor.to(self._loss.device) for name, tensor in weights.items()})

    def _remove_best_but(self, step: int | None) -> None:
        """Delete the files of best weights except those of one step."""
        if self._best_in_run and self.run is not None and self.shards.leads:
            for path in self.run.path.glob(BEST.format(step="*")):
                if path.name.split("-")[1].split(".")[0] != str(step):
                    self.run.remove(path.name)

    def _tell_step(self, examples: int) -> None:
        """Report progress now and then, and once the time left if it is long."""
        self._pace.count(examples)
        now = time.monotonic()
        if now - self._reported >= _TICK:
            self._reported = now
            self._tell("step")
        left = self._pace.estimate(self.schedule.steps - self.at.step)
        if left >= LONG and self.schedule.seconds is None:
            schedule = self.schedule
            much = f"{schedule.units - self.at.step // schedule.steps_per_unit} {schedule.unit}s"
            self._tell(
                "note", note=f"this will take about {duration(left)} for {much}; {self.task.faster}"
            )

    def _tell(self, what: str, **figures: Any) -> None:
        at = self.at
        schedule = self.schedule
        self.progress(
            Event(
                what,
                at.step,
                schedule.steps
                if schedule.seconds is None
                else round(at.step / max(self.share, 1e-9)),
                self._where,
                rate=self._pace.rate,
                examples=schedule.examples,
                seconds=self.seconds,
                measured=self.task.measured,
                **figures,
            )
        )

    @property
    def _where(self) -> str:
        schedule = self.schedule
        if schedule.seconds is not None:
            minutes = f"{self.seconds / 60:.1f} of {schedule.seconds / 60:g} minutes"
            return f"{schedule.unit} {self.at.step}, {minutes}"
        done = self.at.step // schedule.steps_per_unit
        under_way = done + (
            schedule.steps_per_unit > 1 and self.at.step % schedule.steps_per_unit > 0
        )
        return f"{schedule.unit} {under_way} of {schedule.units}"

    def _stop(self) -> NoReturn:
        self.save()
        self._trace({"event": "stop", "step": self.at.step})
        place = "in" if self.schedule.steps_per_unit > 1 else "at"
        raise Stopped(
            f"stopped {place} {self._where}" + (" and saved" if self.run is not None else "")
        )

    def _checked_loss(self) -> float:
        loss = float(self._loss)
        if not math.isfinite(loss):
            self._fail("the loss")
        return loss

    def _check_weights(self) -> None:
        """Raise a `TrainingError` if the last update left weights that are not finite."""
        finite = all(
            math.isfinite(float(parameter.detach().sum()))
            for parameter in self.task.module.parameters()
        )
        if self.shards.any(not finite)[0]:
            self._fail("a weight")

    def _fail(self, what: str) -> NoReturn:
        whole = (
            " the last checkpoint is whole;"
            if self.run is not None and self.run.has(self.file)
            else ""
        )
        raise TrainingError(f"{what} is not a number in {self._where};{whole} {self.task.remedy}")

    def _trace(self, event: dict[str, Any]) -> None:
        if self.run is not None and self.shards.leads:
            self.run.trace({**event, "seconds": round(self.seconds, 3)})


def fit(
    task: Task,
    settings: Settings,
    progress: Progress | bool,
    run: RunFolder | None = None,
    file: str = "",
    *,
    resume: bool = False,
    shards: Shards | None = None,
    begin: Callable[[Trainer], None] | None = None,
    keep: Callable[[Trainer], None] | None = None,
) -> Trainer:
    """Run the training of a task, and restore its best weights.

    With a `run`, checkpoints are written to a `file` of it, from which `resume` continues. `begin`
    is called just before the first step; `keep` with the best weights, at the end and when the
    training is stopped.
    """
    leads = shards is None or shards.leads
    stamp = {}
    if run is not None:
        stamp = {
            "settings": json.dumps(settings.resume_signature(), sort_keys=True),
            "facts": run.fingerprint.facts,
        }
    with shown(progress if leads else False) as tell, threads_for(task.flops):
        fitting = Trainer(task, tell, run, file, stamp | task.checksums(), shards)
        if resume:
            fitting.resume()
        if begin is not None:
            begin(fitting)
            fitting.shards.wait()  # while one of them tidies
        try:
            fitting.train()
        except Stopped:
            if keep is not None:
                fitting.go_back()
                keep(fitting)
            raise
        fitting.finish(keep)
    return fitting
