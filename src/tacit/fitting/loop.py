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
from torch import Tensor

from tacit.distributed.shards import Shards
from tacit.distributed.threads import choose_again, threads_for
from tacit.errors import TrainingError
from tacit.fitting.checkpoint import CheckpointStore, TrainerState
from tacit.fitting.interruption import Broken, Stopped, StopRequest, breakable, stop_on_signals
from tacit.fitting.progress import Progress, shown
from tacit.fitting.task import Task, Weights
from tacit.fitting.tensor_files import RunFiles
from tacit.fitting.training_report import Clock, Report
from tacit.run_folder.folder import RunFolder
from tacit.settings import Settings

SLOW = 0.2  # seconds of a step that Ctrl-C does not wait for


class Trainer:
    """Trains a task: takes steps, validates, keeps the best weights, stops and saves.

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
        self.shards = shards or Shards(0)
        self.state = TrainerState()
        self.schedule = task.schedule()
        self.clock = Clock(self.schedule)
        self.report = Report(task, self.clock, progress, run if self.shards.leads else None)
        files = None if run is None else RunFiles(run, shards)
        self.checkpoints = CheckpointStore(files, file, stamp or {}, best_in_run=shards is not None)
        device = next(task.module.parameters()).device
        self._loss = torch.zeros((), dtype=torch.float64, device=device)  # of the round
        self._was_slow = True  # whether the last step was slow; the first one may be
        # state and best weights before a validation that only the end requires
        self._before_end: tuple[TrainerState, Weights] | None = None

    def train(self) -> None:
        """Train until the schedule is over; a stop request saves, and raises `Stopped`."""
        state = self.state
        schedule = self.schedule
        self.report.start(state)
        with stop_on_signals() as stop:
            try:
                if (schedule.validate_first and not state.history) or self._owes_round:
                    self._end_round(stop)
                while not self.over:
                    choose_again()
                    loss, examples = self._take_step(stop)
                    self._loss += loss
                    state.step += 1
                    state.examples += examples
                    self.report.step(state, examples)
                    if self.clock.ends_round(state):
                        self._end_round(stop)
                    due = self.shards.leads and self.checkpoints.is_older(
                        schedule.checkpoint_seconds
                    )
                    stopped, due = self.shards.any(stop.is_set(), due)
                    if stopped and not self.over:
                        self._stop()
                    if due and not self.over:
                        self.save()
            except Broken:
                self._stop()

    @property
    def over(self) -> bool:
        """Whether steps, time or patience are used up."""
        return (
            self.clock.part >= self.schedule.parts
            or self.state.step >= self.schedule.steps
            or self.state.stale >= self.schedule.patience
        )

    @property
    def share(self) -> float:
        """The fraction of the training that is done, by steps or by time, the larger of them."""
        return self.clock.share(self.state)

    @property
    def _owes_round(self) -> bool:
        """Whether a resumed training was stopped during the validation after its last step."""
        timed = self.schedule.seconds is not None
        return self.state.examples > 0 and (
            self.over if timed else self.schedule.ends_round(self.state.step)
        )

    def _take_step(self, stop: StopRequest) -> tuple[Tensor, int]:
        """Take one step; an interrupted one changes nothing."""
        began = time.monotonic()
        stop.at_once = self._was_slow and self.shards.world == 1  # processes go in step
        before = self.task.state() if stop.at_once else {}
        try:
            result = self.task.step(self.state.step)
        except Broken:
            self.task.restore(before)
            raise
        self._was_slow = time.monotonic() - began > SLOW
        return result

    def _end_round(self, stop: StopRequest) -> None:
        """Check the loss, validate if it is due, and report both.

        An interrupted validation leaves no trace.
        """
        state = self.state
        schedule = self.schedule
        loss = self._checked_loss() / state.examples if state.examples else None
        is_last = state.step == schedule.steps
        planned = schedule.seconds is not None or schedule.validates(state.step)
        figures = {}
        if planned or is_last:
            stop.at_once = self.shards.world == 1
            with self.report.pace.paused(), breakable():
                self._check_weights()
                figures = self.task.validate()
        self._loss.zero_()
        state.loss = 0.0
        state.examples = 0
        state.done = state.step // schedule.steps_per_unit
        if is_last and not planned:
            before = replace(state, history=list(state.history))
            self._before_end = before, self.checkpoints.best
        metric = statistics.fmean(figures.values()) if figures else None
        if metric is not None:
            state.stale += 1
            if state.best is None or metric > state.best:
                state.best = metric
                state.best_step = state.step
                state.stale = 0
                self.checkpoints.keep_best(state.step, self.task.module.state_dict())
        state.history.append(
            {
                self.task.unit: state.done,
                "loss": loss,
                "valid_mrr": metric,
                "mrr": figures,
                f"{self.task.examples}_per_s": self.report.pace.rate,
                "seconds": round(self.clock.seconds, 3),
            }
        )
        self.report.round(state)

    def save(self) -> None:
        """Write a checkpoint, if there is a run whose last one is of another step."""
        state = self.state
        if self.checkpoints.lacks(state.step):
            state.loss = self._checked_loss()
            state.seconds = self.clock.seconds
            self._check_weights()
            self.checkpoints.write(state, self.task)

    def resume(self) -> None:
        """Restore the last checkpoint of the run, if there is one."""
        checkpoint = self.checkpoints.restore(self.task)
        if checkpoint is not None:
            self.state = checkpoint.state
            self._loss.fill_(self.state.loss)
            self.clock.resume(self.state)
            if checkpoint.complete:  # the file with its best weights will be replaced
                self.save()

    def restore_best(self) -> None:
        """Restore the best weights, if there are any."""
        if self.state.best is not None:
            self.task.module.load_state_dict(self.checkpoints.best_weights(self.state.best_step))

    def finish(self, keep: Callable[[Trainer, bool], None] | None = None) -> None:
        """Restore the best weights, and `keep` them with the state for further training."""
        state = self.state
        self.task.release()
        if self.checkpoints.files is None:
            keep = None
        last: Weights = {}
        if keep is not None and state.best is not None and state.best_step != state.step:
            # saved and read again, since last and best weights may not both fit in memory
            self.save()
            saved = self.checkpoints.read()
            last = saved.groups["model"] if saved else {}
        self.restore_best()
        self._check_weights()
        self.task.module.requires_grad_(False).eval()
        if keep is not None:
            keep(self, True)
            stored_state, best = self._before_end or (state, {})
            stored_state.seconds = self.clock.seconds
            self.checkpoints.close(stored_state, self.task, last, best, state.best_step)

    def summary(self) -> dict[str, Any]:
        """The results of the training and its best weights, or of its last ones."""
        state = self.state
        unit = self.task.unit
        device = self._loss.device
        done = state.step // self.schedule.steps_per_unit
        best = done if state.best is None else state.best_step // self.schedule.steps_per_unit
        peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
        return {
            f"{unit}s": done,
            f"best_{unit}": best,
            "valid_mrr": state.best,
            "measured": None if state.best is None else self.task.measured,
            "mrr": next((line["mrr"] for line in state.history if line[unit] == best), {}),
            "seconds": round(self.clock.seconds, 3),
            "device": str(device),
            "peak_gb": None if peak is None else round(peak / 1e9, 3),
        }

    def _stop(self) -> NoReturn:
        self.save()
        self.report.stop(self.state)
        place = "in" if self.schedule.steps_per_unit > 1 else "at"
        saved = "" if self.checkpoints.files is None else " and saved"
        raise Stopped(f"stopped {place} {self.report.place(self.state)}{saved}")

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
        place = self.report.place(self.state)
        comfort = " the last checkpoint is whole;" if self.checkpoints.exists else ""
        raise TrainingError(f"{what} is not a number in {place};{comfort} {self.task.remedy}")


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
    keep: Callable[[Trainer, bool], None] | None = None,
) -> Trainer:
    """Run the training of a task, and restore its best weights.

    With a `run`, checkpoints are written to a `file` of it, from which `resume` continues. `begin`
    is called just before the first step; `keep` with the best weights, when the training is
    complete (True) or stopped (False).
    """
    stamp = task.checksums()
    if run is not None:
        signature = json.dumps(settings.resume_signature(), sort_keys=True)
        stamp = {"settings": signature, "facts": run.fingerprint.facts} | stamp
    leads = shards is None or shards.leads
    with shown(progress if leads else False) as tell, threads_for(task.flops):
        trainer = Trainer(task, tell, run, file, stamp, shards)
        if resume:
            trainer.resume()
        if begin is not None:
            begin(trainer)
            trainer.shards.wait()  # while one of them tidies
        try:
            trainer.train()
        except Stopped:
            if keep is not None:
                trainer.restore_best()
                keep(trainer, False)
            raise
        trainer.finish(keep)
    return trainer
