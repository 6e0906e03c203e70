"""Adapting a run: an adapter is trained, compared with what the run has, and kept where it is better."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.adapt.adapter import Adapter, load_adapter, save_adapter
from tacit.adapt.adapter_training import AdapterTraining
from tacit.adapt.calibrated import Adapted
from tacit.adapt.settings import ENGINE, AdaptSettings
from tacit.adapt.variants import VariantTraining, save_variant
from tacit.engine.atoms.calibration import Calibration, calibration
from tacit.engine.engine import Engine
from tacit.engine.ranking import mean_reciprocal_ranks
from tacit.engine.settings import EngineSettings
from tacit.fitting.loop import Fitting, fit
from tacit.fitting.progress import Progress
from tacit.graph.graph import Graph
from tacit.links.scorer import Scorer
from tacit.links.training.memory import clear_memory_errors
from tacit.query.plans.plan import Complement
from tacit.query.sampling.queries import QuerySets
from tacit.query.sampling.query_folder import check_ids
from tacit.run.folder import ADAPTATION, ADAPTER, RunFolder


@dataclass(frozen=True, eq=False)
class AdaptResult:
    """What was learned, and what happened on the way: one entry of `trace` per validation.

    `scorer` is the link predictor given, or that of a variant; `calibration` turns its numbers into scores.
    """

    scorer: Scorer
    calibration: Calibration
    adapter: Adapter | None
    settings: AdaptSettings
    trace: list[dict[str, Any]]
    summary: dict[str, Any]


def adapt(
    graph: Graph,
    scorer: Scorer,
    queries: QuerySets,
    settings: AdaptSettings | None = None,
    *,
    valid: QuerySets | None = None,
    run: RunFolder | None = None,
    progress: Progress | bool = False,
    resume: bool = False,
    variant: str | None = None,
) -> AdaptResult:
    """Train an adapter for a frozen link predictor on queries with known answers; the best on `valid` is kept.

    Without `valid`, a tenth of the queries is set apart for that. With a `run`, validations are traced, checkpoints are
    written, from which `resume` goes on, and once training is over the adapter is compared with the one the run has
    and with none, on validation, as the run is asked: with training facts observed. It is saved where it is better than
    both, and otherwise the run stays as it is.

    A `variant` (`f`, `af`, `r` or `c`) changes the link predictor itself, on a copy of it that becomes a run of its own
    within the run's folder.
    """
    settings = (settings or AdaptSettings()).settled(len(graph.valid) > 0)
    if run is not None:
        run.begin(graph)
    for asked in (queries, valid or {}):
        check_ids(asked, graph)
    size = f"batch {settings.batch}, k {settings.k} and hidden {settings.hidden}"
    with clear_memory_errors(size, "lower those, negatives or memory"):
        if variant is None:
            training = AdapterTraining(graph, scorer, queries, settings, valid)
        else:
            training = VariantTraining(variant, graph, scorer, queries, settings, valid)
        fitting = fit(training, settings, progress, run, ADAPTATION, resume=resume)
        result = _result(training, fitting, training.learn_negation())
        if run is not None:
            _keep(run, graph, result.summary, training)
            run.remove(ADAPTATION)
    return result


def _result(training: AdapterTraining, fitting: Fitting, strengths: Mapping[str, Any]) -> AdaptResult:
    adapter, weights = training.adapter, sum(parameter.numel() for parameter in training.module.parameters())
    summary = fitting.summary() | {
        "unadapted_mrr": fitting.at.history[0]["valid_mrr"],
        "parameters": weights if adapter is None else adapter.num_parameters,
        "queries": {name: len(drawn) for name, drawn in training.batches.items()},
        "seed": training.settings.seed,
        **strengths,
    }
    training.settle()
    return AdaptResult(training.scorer, training.calibration, adapter, training.settings, fitting.at.history, summary)


def _keep(run: RunFolder, graph: Graph, summary: dict[str, Any], training: AdapterTraining) -> None:
    """Put what was learned into the run, where it is better than what is there."""
    name = "adapt"
    if isinstance(training, VariantTraining):
        name = f"variant-{training.variant}"
        summary |= {"kept": True, "verdict": f"kept in {save_variant(run, graph, training).path}"}
    elif training.adapter is not None:
        summary |= _verdict(run, graph, training.adapter, training, summary)
        if summary["kept"]:
            save_adapter(run, training.adapter, training.settings)
    if summary["kept"]:
        with run.changed_results() as results:
            results[name] = summary


def _verdict(
    run: RunFolder, graph: Graph, adapter: Adapter, training: AdapterTraining, summary: Mapping[str, Any]
) -> dict[str, Any]:
    """Whether to keep an adapter, and why."""
    settings = training.settings
    if not training.valid:
        return {"kept": True, "verdict": "kept: there was nothing to validate with"}
    if not summary["best_step"] and settings.learn == "scores":
        return {"kept": False, "verdict": f"not kept: no step improved validation MRR {summary['valid_mrr']:.4f}"}
    comparison = _compared(run, graph, adapter, training)
    # Whoever asks for the paper's recipe wants to see what it does.
    kept = comparison.won or settings.recipe == "paper"
    return {"kept": kept, "compared": comparison.means, "verdict": f"{'kept' if kept else 'not kept'}: {comparison}"}


def _compared(run: RunFolder, graph: Graph, adapter: Adapter, training: AdapterTraining) -> AdapterComparison:
    """Answer the queries to validate with by an adapter, by that of the run, and by none.

    Each is asked by the engine settings it goes with; what is observed is the same for all, however they were trained.
    """
    settings, scorer, plain = training.settings, training.scorer, EngineSettings()
    asked: dict[str, tuple[Mapping[str, Any], Adapter | None]] = {
        "none": ({name: getattr(plain, name) for name in ENGINE}, None)
    }
    if run.has(ADAPTER):
        present, trained_for = load_adapter(run, scorer)
        asked["present"] = trained_for.engine, present
    asked["new"] = settings.engine, adapter
    search = {"observed": training.observable, "k": settings.k, "memory": settings.memory}
    figures = {}
    for name, (how, rival) in asked.items():
        adapted = None if rival is None else Adapted(calibration(how["calibration"]), rival)
        engine = Engine(graph, scorer, EngineSettings.of({**how, **search}), adapter=adapted)
        figures[name] = mean_reciprocal_ranks(engine.reasoner, training.valid)
    negated = {name for name, query_set in training.valid.items() if query_set.shape.plan.has(Complement)}
    return AdapterComparison(figures, frozenset(negated))


@dataclass(frozen=True)
class AdapterComparison:
    """The MRR of each shape with the `new` adapter, with the `present` one of the run if any, and with `none`.

    >>> figures = {"none": {"2i": 0.5, "2in": 0.25}, "new": {"2i": 0.25, "2in": 0.75}}
    >>> worse = AdapterComparison(figures, frozenset({"2in"}))
    >>> print(worse.won, worse)
    False validation MRR 0.5000 with it, 0.3750 without; without negation 0.2500 with it, 0.5000 without
    """

    figures: Mapping[str, Mapping[str, float]]
    negated: frozenset[str] = frozenset()  # shapes with a negation

    @property
    def means(self) -> dict[str, float]:
        """The mean over the shapes."""
        return {name: statistics.fmean(mrr.values()) for name, mrr in self.figures.items()}

    @property
    def won(self) -> bool:
        """Whether the new adapter is better than the others in the mean, and nowhere bought by questions without
        negation.
        """
        return all(self._beats(rival) for name, rival in self.figures.items() if name != "new")

    def _beats(self, rival: Mapping[str, float]) -> bool:
        new = self.figures["new"]
        return sum(new.values()) > sum(rival.values()) and sum(self._plain(new)) >= sum(self._plain(rival))

    def _plain(self, figures: Mapping[str, float]) -> list[float]:
        return [mrr for shape, mrr in figures.items() if shape not in self.negated]

    def __str__(self) -> str:
        means, told = self.means, f"validation MRR {self._told(self.means)}"
        if self.won or not all(means["new"] > mean for name, mean in means.items() if name != "new"):
            return told
        plain = {name: statistics.fmean(self._plain(figures)) for name, figures in self.figures.items()}
        return f"{told}; without negation {self._told(plain)}"

    def _told(self, means: Mapping[str, float]) -> str:
        words = {"new": "with it", "present": "with the adapter of the run", "none": "without"}
        return ", ".join(f"{means[name]:.4f} {text}" for name, text in words.items() if name in means)
