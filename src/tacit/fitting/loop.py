"""The training loop: steps, validations, best weights, patience, checkpoints, and what is told on the way."""

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
from tacit.fitting.checkpoint import Checkpoint, Position, anew, optimizer_tensors, restore_optimizer
from tacit.fitting.interruption import Stopped, stop_on_signals
from tacit.fitting.parts import RunFiles
from tacit.fitting.progress import Event, Pace, Progress, duration, shown
from tacit.fitting.task import Task, Weights
from tacit.run.folder import BEST, RunFolder, versions
from tacit.settings import Settings

LONG = 60.0  # seconds of training worth a warning
_TICK = 0.1  # seconds between two steps that are told


class Fitting:
    """A training under way: how far it has come, and the best weights so far.

    A module with a row for each entity says by `shards` which of them it has. Its best weights are kept in the run
    where there is one, since they are as large as itself; others are held in memory. Several processes go in step: what
    one wants, to stop, all do, and one alone tells and traces.
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
        self.task, self.schedule, self.progress = task, task.schedule(), progress
        self.run, self.file, self.stamp = run, file, stamp or {}
        self.shards = shards or Shards(0)
        self.files = None if run is None else RunFiles(run, shards)
        self.at, self.complete = Position(), False
        self.best: Weights = {}  # those of `at.best_step`, where they are held in memory
        self._best_in_run = shards is not None and run is not None
        self._before_end: tuple[Position, Weights] | None = None  # before a validation that only the end asks for
        self._part = 0  # of a timed training: how many parts of its time are over
        self._last = -1  # step of the last checkpoint
        self._loss = torch.zeros((), dtype=torch.float64, device=next(task.module.parameters()).device)
        self._started = self._saved = self._told = time.monotonic()
        self._pace = Pace()

    @property
    def over(self) -> bool:
        """Whether all steps are done, the time is up, or validation has not improved for long."""
        at, schedule = self.at, self.schedule
        return self._part >= schedule.parts or at.step >= schedule.steps or at.stale >= schedule.patience

    @property
    def share(self) -> float:
        """How much of the training is done, by steps or by the clock, whichever is further."""
        timed = 0.0 if self.schedule.seconds is None else self.seconds / self.schedule.seconds
        return min(1.0, max(timed, self.at.step / max(1, self.schedule.steps)))

    def go(self) -> None:
        """Train until it is over."""
        if self.complete:  # the file that holds its best weights is about to be replaced
            self.save()
        at, schedule = self.at, self.schedule
        self._trace({"event": "start", "of": schedule.name, "step": at.step, "versions": versions()})
        with stop_on_signals() as stop:
            if schedule.validate_first and not at.history:
                self._end_round()
            while not self.over:
                choose_again()
                loss, examples = self.task.step(at.step)
                self._loss += loss
                at.step, at.examples = at.step + 1, at.examples + examples
                self._tell_step(examples)
                if self._ends_round():
                    self._end_round()
                due = self.shards.leads and time.monotonic() - self._saved >= schedule.checkpoint_seconds
                stopped, due = self.shards.any(stop.is_set(), due)
                if stopped and not self.over:
                    self._stop()
                if due and not self.over:
                    self.save()

    def finish(self, keep: Callable[[Fitting], None] | None = None) -> None:
        """Go back to the best weights; where they are to `keep`, do so, with what going on would need beside them."""
        module, at = self.task.module, self.at
        self.task.release()
        position, best = self._before_end or (at, self.best)
        others = position.best_step != at.best_step  # whoever goes on does so with the best weights before the end
        groups: dict[str, Weights] = {"best": best} if others else {}
        if keep is not None and self.files is not None and at.best is not None and at.best_step != at.step:
            self.save()  # the last weights need not be in memory beside the best ones: they are read from there
            groups["model"] = Checkpoint.read(self.files, self.file, self.stamp).groups["model"]
        self.go_back()
        self._check_weights()
        module.requires_grad_(False).eval()
        if keep is not None and self.files is not None:
            keep(self)
            position.seconds = self.seconds
            groups |= {"optimizer": optimizer_tensors(self.task.optimizer, module), "state": self.task.state()}
            Checkpoint(position, groups, complete=True).write(self.files, self.file, self.stamp)
            self._remove_best_but(position.best_step if others else None)

    def go_back(self) -> None:
        """Go back to the best weights, where some were found."""
        if self.at.best is not None:
            best = self.best
            if self._best_in_run and self.files is not None:
                _, best = self.files.contents(self._best_file)
            self.task.module.load_state_dict(best)

    def save(self) -> None:
        """Write a checkpoint to go on from, where there is a run to write it to."""
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
        self._last, self._saved = self.at.step, time.monotonic()

    def resume(self) -> None:
        """Go back to the last checkpoint of the run, if there is one."""
        if self.run is None or self.files is None or not self.run.has(self.file):
            return
        checkpoint = Checkpoint.read(self.files, self.file, self.stamp)
        groups = checkpoint.groups
        with self.run.fits(self.file, anew(self.file)):
            self.task.module.load_state_dict(groups["model"])
            restore_optimizer(self.task.optimizer, self.task.module, groups["optimizer"])
            self.task.restore(groups["state"])
        self.at, self.complete = checkpoint.position, checkpoint.complete
        self._restore_best(groups["best"])
        self._last = -1 if self.complete else self.at.step
        self._loss.fill_(self.at.loss)
        self._started = time.monotonic() - self.at.seconds
        self._part = int(self.share * self.schedule.parts)

    @property
    def seconds(self) -> float:
        """How long the training has taken so far, the time before it was resumed included."""
        return time.monotonic() - self._started

    def summary(self) -> dict[str, Any]:
        """What there is to report of it and of the best weights, or of the last where nothing was validated."""
        at, unit, device = self.at, self.schedule.unit, self._loss.device
        done, best = (step // self.schedule.steps_per_unit for step in (at.step, at.best_step))
        best = done if at.best is None else best
        return {
            f"{unit}s": done,
            f"best_{unit}": best,
            "valid_mrr": at.best,
            "mrr": next((line["mrr"] for line in at.history if line[unit] == best), {}),
            "seconds": round(self.seconds, 3),
            "device": str(device),
            "peak_gb": round(torch.cuda.max_memory_allocated(device) / 1e9, 3) if device.type == "cuda" else None,
        }

    def _ends_round(self) -> bool:
        """Whether it is time to look at the loss; the clock is read once a step."""
        if self.schedule.seconds is None:
            return self.schedule.ends_round(self.at.step)
        before, self._part = self._part, int(self.share * self.schedule.parts)
        return self._part > before

    def _end_round(self) -> None:
        """Look at the loss, validate where it is time, and tell both."""
        at, schedule = self.at, self.schedule
        loss = self._checked_loss() / at.examples if at.examples else None
        self._loss.zero_()
        at.loss, at.examples, at.done = 0.0, 0, at.step // schedule.steps_per_unit
        planned = schedule.seconds is not None or schedule.validates(at.step)
        if not planned and at.step == schedule.steps:
            self._before_end = replace(at, history=list(at.history)), self.best
        figures = {}
        if planned or at.step == schedule.steps:
            with self._pace.paused():
                self._check_weights()
                figures = self.task.validate()
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
        """Take up the best weights of a checkpoint: those of a file, or `weights` that it or the run's model has."""
        if self.at.best is None or (self._best_in_run and self.run is not None and self.run.has(self._best_file)):
            return
        if not weights:
            raise RunError(f"the run has no {self._best_file}, the best weights so far; {anew(self.file)}")
        self._keep_best({name: tensor.to(self._loss.device) for name, tensor in weights.items()})

    def _remove_best_but(self, step: int | None) -> None:
        """Delete the files of best weights that no checkpoint needs."""
        if self._best_in_run and self.run is not None and self.shards.leads:
            for path in self.run.path.glob(BEST.format(step="*")):
                if path.name.split("-")[1].split(".")[0] != str(step):
                    self.run.remove(path.name)

    def _tell_step(self, examples: int) -> None:
        """Tell that there is progress, now and then; once, where it will take long, how long."""
        self._pace.count(examples)
        now = time.monotonic()
        if now - self._told >= _TICK:
            self._told = now
            self._tell("step")
        left = self._pace.estimate(self.schedule.steps - self.at.step)
        if left >= LONG and self.schedule.seconds is None:
            schedule = self.schedule
            much = f"{schedule.units - self.at.step // schedule.steps_per_unit} {schedule.unit}s"
            self._tell("note", note=f"this will take about {duration(left)} for {much}; {self.task.faster}")

    def _tell(self, what: str, **figures: Any) -> None:
        at, schedule = self.at, self.schedule
        self.progress(
            Event(
                what,
                at.step,
                schedule.steps if schedule.seconds is None else round(at.step / max(self.share, 1e-9)),
                self._where,
                rate=self._pace.rate,
                examples=schedule.examples,
                seconds=self.seconds,
                **figures,
            )
        )

    @property
    def _where(self) -> str:
        schedule = self.schedule
        if schedule.seconds is not None:
            return f"{schedule.unit} {self.at.step}, {self.seconds / 60:.1f} of {schedule.seconds / 60:g} minutes"
        done = self.at.step // schedule.steps_per_unit
        under_way = done + (schedule.steps_per_unit > 1 and self.at.step % schedule.steps_per_unit > 0)
        return f"{schedule.unit} {under_way} of {schedule.units}"

    def _stop(self) -> NoReturn:
        self.save()
        self._trace({"event": "stop", "step": self.at.step})
        place = "in" if self.schedule.steps_per_unit > 1 else "at"
        raise Stopped(f"stopped {place} {self._where}" + (" and saved" if self.run is not None else ""))

    def _checked_loss(self) -> float:
        loss = float(self._loss)
        if not math.isfinite(loss):
            self._fail("the loss")
        return loss

    def _check_weights(self) -> None:
        """Refuse to save what the last step may have broken: its loss was taken before its update."""
        finite = all(math.isfinite(float(parameter.detach().sum())) for parameter in self.task.module.parameters())
        if self.shards.any(not finite)[0]:
            self._fail("a weight")

    def _fail(self, what: str) -> NoReturn:
        whole = " the last checkpoint is whole;" if self.run is not None and self.run.has(self.file) else ""
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
    begin: Callable[[Fitting], None] | None = None,
    keep: Callable[[Fitting], None] | None = None,
) -> Fitting:
    """Train what is to be trained, and go back to its best weights.

    With a `run`, checkpoints are written to a `file` of it, from which `resume` goes on. `begin` is called when nothing
    stands in the way of the first step; `keep` with the best weights, at the end and where somebody stops the training.
    """
    leads, stamp = shards is None or shards.leads, {}
    if run is not None:
        stamp = {"settings": json.dumps(settings.lasting(), sort_keys=True), "facts": run.fingerprint.facts}
    with shown(progress if leads else False) as tell, threads_for(task.flops):
        fitting = Fitting(task, tell, run, file, stamp | task.checksums(), shards)
        if resume:
            fitting.resume()
        if begin is not None:
            begin(fitting)
            fitting.shards.wait()  # while one of them tidies
        try:
            fitting.go()
        except Stopped:
            if keep is not None:
                fitting.go_back()
                keep(fitting)
            raise
        fitting.finish(keep)
    return fitting
