"""Training an adapter on complex queries, with the link predictor frozen."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from tacit.adapt.adapter import Adapter
from tacit.adapt.batches import Batches
from tacit.adapt.calibrated import Adapted
from tacit.adapt.checkpoint import Progress, load_progress, save_progress
from tacit.adapt.loading import save_adapter
from tacit.adapt.losses import QueryLoss
from tacit.adapt.settings import AdaptSettings
from tacit.adapt.validation import mean_reciprocal_ranks, set_apart, some
from tacit.engine.atoms import Atoms
from tacit.engine.calibration import calibration
from tacit.engine.facts import Facts
from tacit.engine.logic import Logic
from tacit.engine.reasoner import MessageReasoner
from tacit.engine.settings import observed_parts
from tacit.errors import TrainingError
from tacit.folder import ADAPTATION, RunFolder, versions
from tacit.graph.graph import Graph
from tacit.links.interruption import Stop, stop_on_signals
from tacit.links.scorer import Scorer
from tacit.query.queries import QuerySet

Report = Callable[[dict[str, Any]], None]
CHECKPOINT_SECONDS = 30.0


@dataclass(frozen=True, eq=False)
class AdaptResult:
    """A trained adapter in its calibration, and what happened on the way: one entry per validation."""

    adapter: Adapter
    calibration: Adapted
    settings: AdaptSettings
    trace: list[dict[str, Any]]
    summary: dict[str, Any]


def adapt(
    graph: Graph,
    scorer: Scorer,
    queries: Mapping[str, QuerySet],
    settings: AdaptSettings | None = None,
    *,
    valid: Mapping[str, QuerySet] | None = None,
    run: RunFolder | None = None,
    report: Report | None = None,
    resume: bool = False,
) -> AdaptResult:
    """Train an adapter for a frozen link predictor on queries with known answers; the best on `valid` is kept.

    Without `valid`, a tenth of the queries is set apart for that. With a `run`, validations are traced and the adapter
    is saved there once training is over, so that an interruption leaves the adapter that was there; `resume` goes on
    from the last checkpoint, if there is one. Where no step improves validation, the run is left as it was.
    """
    settings = settings or AdaptSettings()
    if run is not None:
        run.check(graph)
    training = Adaptation(graph, scorer, queries, settings, valid)
    if run is not None and resume and run.has(ADAPTATION):
        training.resume(run)
    with stop_on_signals() as stop:
        training.loop(stop, report, run)
    result = training.finish()
    if run is not None:
        if result.summary["best_step"]:  # an adapter that helped nothing would still change how the run is calibrated
            save_adapter(run, result.adapter, settings)
            run.write_settings("adapt", settings.to_dict())
            run.write_results({**run.results(), "adapt": result.summary})
        run.remove(ADAPTATION)
    return result


@dataclass
class Best:
    """The best weights so far by validation MRR."""

    mrr: float = -1.0
    step: int = 0
    stale: int = 0  # validations since
    weights: dict[str, Tensor] = field(default_factory=dict)


class Adaptation:
    """An adaptation under way: adapter, losses of the shapes, and the best weights so far."""

    frozen = True  # whether raw scores are constants

    def __init__(
        self,
        graph: Graph,
        scorer: Scorer,
        queries: Mapping[str, QuerySet],
        settings: AdaptSettings,
        valid: Mapping[str, QuerySet] | None = None,
    ) -> None:
        self.settings = settings
        self.random = random = np.random.default_rng(settings.seed)
        self.reasoner, self.trained = self.prepare(graph, scorer)
        queries = {name: one.share(settings.share, settings.seed) for name, one in queries.items()}
        if valid is None:
            queries, valid = set_apart(queries, settings.validate_queries, random)
        self.valid = some(valid, settings.validate_queries, random)
        batches = {name: Batches(one, graph.num_entities, random) for name, one in queries.items()}
        self.batches = {name: one for name, one in batches.items() if len(one)}
        if not self.batches:
            raise TrainingError(f"no query of {', '.join(queries) or 'any shape'} has an answer to learn from")
        self.losses = {
            name: QueryLoss(
                self.reasoner,
                one.queries.shape.plan,
                settings.loss,
                settings.masks,
                settings.negatives,
                random,
                self.frozen,
            )
            for name, one in self.batches.items()
        }
        self.optimizer = torch.optim.Adagrad(self.trained.parameters(), lr=settings.lr)
        self.best, self.done, self.trace = Best(), 0, list[dict[str, Any]]()
        self._loss = torch.zeros((), dtype=torch.float64, device=scorer.device)
        self._started = self._saved = time.monotonic()

    def prepare(self, graph: Graph, scorer: Scorer) -> tuple[MessageReasoner, nn.Module]:
        """The search whose scores are learned from, and what is trained."""
        reasoner = make_reasoner(graph, scorer, self.settings)
        self.adapted = reasoner.atoms.calibration
        assert isinstance(self.adapted, Adapted)
        return reasoner, self.adapted.adapter

    def loop(self, stop: Stop, report: Report | None = None, run: RunFolder | None = None) -> None:
        """Take steps until all are done or validation has not improved for long."""
        if run is not None:
            start = {"event": "adapt-start", "step": self.done, "settings": self.settings.to_dict()}
            run.trace({**start, "versions": versions()})
        if not self.trace:
            self._validate(report, run)
        while self.done < self.settings.steps and self.best.stale < self.settings.patience:
            self.step()
            if self.done % self.settings.validate_every == 0 or self.done == self.settings.steps:
                self._validate(report, run)
            if stop.wanted:
                self._stop(run)
            if run is not None and time.monotonic() - self._saved >= CHECKPOINT_SECONDS:
                self.save(run)

    def step(self) -> None:
        """One step on a batch with the shapes in equal parts."""
        self.trained.train()
        self.optimizer.zero_grad(set_to_none=True)
        self.accumulate()
        self.optimizer.step()
        self.done += 1

    def accumulate(self) -> None:
        """Gather the gradient of a batch, part by part."""
        for name, size in equal_parts(self.settings.batch, list(self.batches)).items():
            loss_of = self.losses[name]
            for part in self.batches[name].draw(size).parts(loss_of.batch):
                loss = loss_of(part) / self.settings.batch
                loss.backward()
                self._loss += loss.detach()

    def save(self, run: RunFolder) -> None:
        """Write a checkpoint to go on from."""
        best, seconds = self.best, time.monotonic() - self._started
        progress = Progress(self.done, float(self._loss), seconds, best.mrr, best.step, best.stale, self.trace)
        save_progress(
            run, self.settings, progress, self.trained, self.optimizer, best.weights, self.batches, self.random
        )
        self._saved = time.monotonic()

    def resume(self, run: RunFolder) -> None:
        """Go back to the last checkpoint of a run."""
        progress, weights = load_progress(run, self.settings, self.trained, self.optimizer, self.batches, self.random)
        self.best = Best(progress.best_mrr, progress.best_step, progress.stale, weights)
        self.done, self.trace = progress.step, progress.trace
        self._loss.fill_(progress.loss)
        self._started = time.monotonic() - progress.seconds

    def finish(self) -> AdaptResult:
        """The adapter with its best weights, frozen."""
        self.restore()
        assert isinstance(self.adapted, Adapted)
        return AdaptResult(self.adapted.adapter, self.adapted, self.settings, self.trace, self.summary())

    def restore(self) -> None:
        """Go back to the best weights and freeze them."""
        if self.best.weights:
            self.trained.load_state_dict(self.best.weights)
        self.trained.requires_grad_(False).eval()

    def validation_reasoner(self) -> MessageReasoner:
        """The search that is validated."""
        return self.reasoner

    def summary(self) -> dict[str, Any]:
        """What there is to report."""
        return {
            "steps": self.done,
            "best_step": self.best.step if self.valid else self.done,
            "valid_mrr": self.best.mrr if self.valid else None,
            "unadapted_mrr": self.trace[0]["valid_mrr"] if self.valid and self.trace else None,
            "seconds": round(time.monotonic() - self._started, 3),
            "parameters": sum(parameter.numel() for parameter in self.trained.parameters()),
            "queries": {name: len(one) for name, one in self.batches.items()},
            "device": str(self.reasoner.device),
            "peak_gb": _peak_gb(self.reasoner.device),
            "seed": self.settings.seed,
        }

    def _stop(self, run: RunFolder | None) -> NoReturn:
        if run is None:
            raise KeyboardInterrupt(f"stopped at step {self.done}")
        self.save(run)
        raise KeyboardInterrupt(f"stopped at step {self.done} and saved; go on with --resume")

    def _validate(self, report: Report | None, run: RunFolder | None) -> None:
        self.trained.eval()
        rates = mean_reciprocal_ranks(self.validation_reasoner(), self.valid)
        mrr = float(np.mean(list(rates.values()))) if rates else None
        since = self.done - (self.trace[-1]["step"] if self.trace else 0)
        loss = float(self._loss) / since if since else None
        if loss is not None and not math.isfinite(loss):
            raise TrainingError(f"the loss is not a number before step {self.done}; lower lr ({self.settings.lr})")
        self._loss.zero_()
        if mrr is not None and mrr > self.best.mrr:
            weights = {name: tensor.clone() for name, tensor in self.trained.state_dict().items()}
            self.best = Best(mrr, self.done, 0, weights)
        elif mrr is not None:
            self.best.stale += 1
        seconds = round(time.monotonic() - self._started, 3)
        event = {"step": self.done, "loss": loss, "valid_mrr": mrr, "mrr": rates, "seconds": seconds}
        self.trace.append(event)
        if run is not None:
            run.trace({"event": "adapt", **event})
        if report is not None:
            report(event)


def make_reasoner(graph: Graph, scorer: Scorer, settings: AdaptSettings) -> MessageReasoner:
    """A search over the scores of a frozen link predictor under a fresh adapter."""
    parts = observed_parts(settings.observed)
    facts = Facts(graph.index(*parts), scorer.device) if parts else None
    counted = facts or Facts(graph.index("train"), scorer.device)
    adapter = Adapter(scorer, settings.condition, settings.layers, settings.hidden, settings.seed)
    precision = settings.precision
    if precision == "auto":
        precision = "tf32" if scorer.device.type == "cuda" else "float32"
    adapted = Adapted(calibration(settings.calibration, counted), adapter)
    atoms = Atoms(scorer, adapted, facts, precision=precision)
    logic = Logic(settings.logic, settings.negation, settings.strength)
    return MessageReasoner(atoms, logic, settings.k, settings.memory)


def equal_parts(batch: int, names: list[str]) -> dict[str, int]:
    """A batch shared out among shapes, the first ones taking what is left over.

    >>> equal_parts(10, ["2i", "3i", "2in"])
    {'2i': 4, '3i': 3, '2in': 3}
    """
    share, rest = divmod(batch, len(names))
    sizes = {name: share + (i < rest) for i, name in enumerate(names)}
    return {name: size for name, size in sizes.items() if size}


def _peak_gb(device: torch.device) -> float | None:
    return round(torch.cuda.max_memory_allocated(device) / 1e9, 3) if device.type == "cuda" else None
