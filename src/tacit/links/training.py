"""Training a link predictor on a graph, in a way that can be stopped at any moment and gone on with."""

from __future__ import annotations

import math
import time
from typing import Any, NoReturn

import torch
from torch import Tensor

from tacit.errors import TrainingError
from tacit.folder import CHECKPOINT, RunFolder, versions
from tacit.graph.graph import Graph
from tacit.links.checkpoint import Position, load_checkpoint, save_checkpoint
from tacit.links.factors import FactorModel
from tacit.links.interruption import Stop, stop_on_signals
from tacit.links.loading import is_complete, load_model, make_model, pick_device, save_model
from tacit.links.memory import clear_memory_errors, score_budget, table_bytes
from tacit.links.products import float32_products, threads_for
from tacit.links.progress import TrainingBar
from tacit.links.settings import TrainSettings
from tacit.links.step import Step
from tacit.links.validation import Validation

VALIDATION_ROWS = 1000


def train(
    graph: Graph,
    settings: TrainSettings | None = None,
    run: RunFolder | None = None,
    progress: bool = True,
    resume: bool = False,
) -> FactorModel:
    """Train a model on the train facts of a graph, both directions; the best weights on the valid facts are kept.

    With a `run`, progress is traced, checkpoints are written and the model is saved there; `resume` goes on from the
    last checkpoint. Ctrl-C raises `KeyboardInterrupt` between two steps, after saving.
    """
    settings = settings or TrainSettings()
    if not len(graph.train):
        raise TrainingError(f"{graph.name} has no train facts to learn from")
    if run is not None:
        run.check(graph)
        run.tidy()
        if resume and is_complete(run):
            return load_model(run, settings.device)
    with clear_memory_errors(settings):
        training = Training(graph, settings, run)
        if resume and run is not None and run.has(CHECKPOINT):
            training.restore(run)
        done = training.position.epoch * len(training.triples) + training.position.step * settings.batch
        with (
            float32_products(training.precision),
            threads_for(training.step.flops),
            stop_on_signals() as stop,
            TrainingBar(len(training.triples), settings.epochs, done, progress) as bar,
        ):
            training.loop(stop, bar)
        return training.finish()


class Training:
    """A training under way: model, step, position, and the best weights so far."""

    def __init__(self, graph: Graph, settings: TrainSettings, run: RunFolder | None = None) -> None:
        self.settings, self.run = settings, run
        device = pick_device(settings.device)
        self.precision = settings.precision
        if self.precision == "auto":
            self.precision = "tf32" if device.type == "cuda" else "float32"
        has_valid = len(graph.valid) > 0
        tables = table_bytes(settings, graph.num_entities, graph.num_relations, has_valid)
        budget = score_budget(settings, tables, device)
        model = make_model(settings.model, graph.num_entities, graph.num_relations, settings.rank, settings.norm)
        model.reset(settings.init, torch.Generator().manual_seed(settings.seed))
        self.model = model.to(device)
        self.step = Step(self.model, settings, budget, self.precision)
        rows = int(min(VALIDATION_ROWS, max(1, budget // (8 * graph.num_entities))))
        self.validation = Validation(graph, settings.validate_facts, settings.seed, rows) if has_valid else None
        self.triples = torch.from_numpy(graph.triples("train")).long().to(device)  # [M, 3]
        self.position = Position()
        self.best: dict[str, Tensor] | None = None
        self._loss = torch.zeros((), dtype=torch.float64, device=device)
        self._started = self._saved = time.monotonic()

    def restore(self, run: RunFolder) -> None:
        """Go back to the last checkpoint of a run."""
        self.position, self.best = load_checkpoint(run, self.settings, self.model, self.step.optimizer)
        self._loss.fill_(self.position.loss)
        self._started = time.monotonic() - self.position.seconds

    def loop(self, stop: Stop, bar: TrainingBar) -> None:
        """Train epoch by epoch until all are done or validation has not improved for long."""
        self._trace({"event": "start", "epoch": self.position.epoch, "versions": versions()})
        while self.position.epoch < self.settings.epochs and self.position.stale < self.settings.patience:
            self.epoch(stop, bar)

    def epoch(self, stop: Stop, bar: TrainingBar) -> None:
        """Go through all facts once, in an order that depends on seed and epoch alone."""
        position, settings, began = self.position, self.settings, time.monotonic()
        first = position.step
        order = torch.randperm(len(self.triples), generator=self._generator(0)).to(self.model.device)
        batches = torch.split(order, settings.batch)
        for ids in batches[first:]:
            batch = self.triples.index_select(0, ids)
            self._loss += self.step(batch, self._generator(1 + position.step)) * len(ids)
            position.step += 1
            bar.advance(len(ids))
            if stop.wanted:
                self._stop()
            if position.step < len(batches):  # the last step of an epoch is saved with its validation
                self._save_if_due()
        loss = self._checked_loss() / len(self.triples)
        seen = len(self.triples) - first * settings.batch
        rate = seen / max(1e-9, time.monotonic() - began)
        position.epoch, position.step = position.epoch + 1, 0
        self._loss.zero_()
        validated = position.epoch % settings.validate_every == 0 or position.epoch == settings.epochs
        if self.validation is not None and validated:
            self._validate(self.validation)
        mrr = position.mrr if self.validation is not None and validated else None
        self._trace({"event": "epoch", "epoch": position.epoch, "loss": loss, "valid_mrr": mrr, "facts_per_s": rate})
        bar.epoch(position.epoch, loss, mrr)
        self._save_if_due()

    def finish(self) -> FactorModel:
        """The model with its best weights, saved to the run."""
        self.step.release()
        if self.best is not None:
            self.model.load_state_dict(self.best)
        self._check_weights()
        if self.run is not None:
            save_model(self.run, self.model)
            self.run.write_results({**self.run.results(), "train": self.results()})
            self.run.remove(CHECKPOINT)
        return self.model.requires_grad_(False).eval()

    def results(self) -> dict[str, Any]:
        """What there is to report of the training."""
        position = self.position
        return {
            "epochs": position.epoch,
            "valid_mrr": position.best_mrr,
            "best_epoch": position.best_epoch or position.epoch,
            "seconds": round(time.monotonic() - self._started, 3),
            "device": str(self.model.device),
            "precision": self.precision,
            "seed": self.settings.seed,
            "ties": "realistic",
        }

    def _validate(self, validation: Validation) -> None:
        position = self.position
        position.mrr = validation.mrr(self.model)
        if position.best_mrr is None or position.mrr > position.best_mrr:
            position.best_mrr, position.best_epoch, position.stale = position.mrr, position.epoch, 0
            self.best = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        else:
            position.stale += 1

    def _generator(self, draw: int) -> torch.Generator:
        """The source of one draw: 0 for the order of an epoch, 1 + step for the negatives of a step."""
        seed = hash((self.settings.seed, self.position.epoch, draw)) & (2**63 - 1)  # of ints: the same in any process
        return torch.Generator().manual_seed(seed)

    def _checked_loss(self) -> float:
        loss = float(self._loss)
        if not math.isfinite(loss):
            self._fail("the loss")
        return loss

    def _check_weights(self) -> None:
        """Refuse to save what the last step may have broken: its loss was taken before its update."""
        if not all(math.isfinite(float(parameter.detach().sum())) for parameter in self.model.parameters()):
            self._fail("a weight")

    def _fail(self, what: str) -> NoReturn:
        kept = " the last checkpoint is whole;" if self.run is not None and self.run.has(CHECKPOINT) else ""
        raise TrainingError(
            f"{what} is not a number in epoch {self.position.epoch + 1};{kept} lower --lr (it is {self.settings.lr}) "
            f"or --init ({self.settings.init}), or use --precision float32"
        )

    def _save_if_due(self) -> None:
        if self.run is not None and time.monotonic() - self._saved >= self.settings.checkpoint_seconds:
            self._save(self.run)

    def _save(self, run: RunFolder) -> None:
        self.position.loss = self._checked_loss()
        self._check_weights()
        self.position.seconds = time.monotonic() - self._started
        save_checkpoint(run, self.settings, self.model, self.step.optimizer, self.best, self.position)
        self._saved = time.monotonic()

    def _stop(self) -> None:
        where = f"epoch {self.position.epoch + 1} of {self.settings.epochs}"
        if self.run is None:
            raise KeyboardInterrupt(f"stopped in {where}")
        self._save(self.run)
        if self.best is not None:  # what was learned so far can be used before going on
            self.model.load_state_dict(self.best)
        save_model(self.run, self.model)
        self._trace({"event": "stop", "epoch": self.position.epoch, "step": self.position.step})
        raise KeyboardInterrupt(f"stopped in {where} and saved; go on with --resume")

    def _trace(self, event: dict[str, Any]) -> None:
        if self.run is not None:
            self.run.trace({**event, "seconds": round(time.monotonic() - self._started, 3)})
