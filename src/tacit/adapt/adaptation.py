"""The adaptation of a run: train an adapter, compare it, and keep it if it is better."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from contextlib import nullcontext
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
from tacit.fitting.loop import Trainer, fit
from tacit.fitting.progress import Progress
from tacit.graph.graph import Graph
from tacit.links.scorer import Scorer
from tacit.links.training.memory import clear_memory_errors
from tacit.query.plans.plan import Complement
from tacit.query.sampling.queries import QuerySets
from tacit.query.sampling.query_folder import check_ids
from tacit.run_folder.files import ADAPTATION, ADAPTER
from tacit.run_folder.folder import RunFolder


@dataclass(frozen=True, eq=False)
class AdaptResult:
    """The result of an adaptation; `trace` has an entry per validation.

    `scorer` is the given link predictor, or that of a variant; `calibration` turns its logits into
    scores.
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
    """Train an adapter for a frozen link predictor, and keep the best one on `valid`.

    It learns from queries with known answers; without `valid`, a tenth of them is held out for
    validation. With a `run`, validations are traced and checkpoints are written, from which
    `resume` continues. After training, the adapter is compared on validation with the one the run
    has and with none, by the run's own engine settings and with training facts observed. It is
    saved if it is better than both; otherwise the run stays as it is.

    A `variant` (`f`, `af`, `r` or `c`) changes the link predictor itself, on a copy of it that
    becomes a run of its own within the run's folder.
    """
    settings = (settings or AdaptSettings()).with_derived(len(graph.valid) > 0)
    for each in (queries, valid or {}):
        check_ids(each, graph)
    size = f"batch {settings.batch}, k {settings.k} and hidden {settings.hidden}"
    in_use = nullcontext() if run is None else run.in_use()
    smaller = (
        "lower those, `negatives` or `memory`"
        if settings.loss == "bce"
        else "lower those or `memory`"
    )
    with in_use, clear_memory_errors(size, smaller):
        if run is not None:
            run.begin(graph)
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


def _result(
    training: AdapterTraining, fitting: Trainer, strengths: Mapping[str, Any]
) -> AdaptResult:
    adapter = training.adapter
    weights = sum(parameter.numel() for parameter in training.module.parameters())
    summary = fitting.summary() | {
        "unadapted_mrr": fitting.at.history[0]["valid_mrr"],
        "parameters": weights if adapter is None else adapter.num_parameters,
        "queries": {name: len(drawn) for name, drawn in training.batches.items()},
        "seed": training.settings.seed,
        **strengths,
    }
    training.settle()
    return AdaptResult(
        training.scorer,
        training.calibration,
        adapter,
        training.settings,
        fitting.at.history,
        summary,
    )


def _keep(run: RunFolder, graph: Graph, summary: dict[str, Any], training: AdapterTraining) -> None:
    """Write the adapter or variant to the run, if it is better than the present one."""
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
    run: RunFolder,
    graph: Graph,
    adapter: Adapter,
    training: AdapterTraining,
    summary: Mapping[str, Any],
) -> dict[str, Any]:
    """The decision whether to keep an adapter, with its reason."""
    settings = training.settings
    if not training.valid:
        kept = settings.recipe == "paper"  # this recipe always keeps its adapter
        verdict = "kept by the paper's recipe, though" if kept else "not kept:"
        return {"kept": kept, "verdict": f"{verdict} there was nothing to validate with"}
    if not summary["best_step"] and settings.learn == "scores":
        return {
            "kept": False,
            "verdict": f"not kept: no step improved validation MRR {summary['valid_mrr']:.2%}",
        }
    comparison = _compared(run, graph, adapter, training)
    kept = comparison.won or settings.recipe == "paper"
    return {
        "kept": kept,
        "compared": comparison.means,
        "verdict": f"{'kept' if kept else 'not kept'}: {comparison}",
    }


def _compared(
    run: RunFolder, graph: Graph, adapter: Adapter, training: AdapterTraining
) -> AdapterComparison:
    """Answer the validation queries with the new adapter, the run's own, and none.

    Each uses the engine settings it was trained for; the observed facts are the same for all.
    """
    settings = training.settings
    scorer = training.scorer
    plain = EngineSettings()
    candidates: dict[str, tuple[Mapping[str, Any], Adapter | None]] = {
        "none": ({name: getattr(plain, name) for name in ENGINE}, None)
    }
    if run.has(ADAPTER):
        present, trained_for = load_adapter(run, scorer)
        candidates["present"] = trained_for.engine, present
    candidates["new"] = settings.engine, adapter
    search = {"observed": training.observable, "k": settings.k, "memory": settings.memory}
    figures = {}
    for name, (engine_settings, rival) in candidates.items():
        adapted = (
            None if rival is None else Adapted(calibration(engine_settings["calibration"]), rival)
        )
        engine = Engine(
            graph, scorer, EngineSettings.of({**engine_settings, **search}), adapter=adapted
        )
        figures[name] = mean_reciprocal_ranks(engine.reasoner, training.valid)
    negated = {
        name for name, query_set in training.valid.items() if query_set.shape.plan.has(Complement)
    }
    return AdapterComparison(figures, frozenset(negated))


@dataclass(frozen=True)
class AdapterComparison:
    r"""The MRR of each shape with the `new` adapter, the run's `present` one, and `none`.

    >>> figures = {"none": {"2i": 0.5, "2in": 0.25}, "new": {"2i": 0.25, "2in": 0.75}}
    >>> worse = AdapterComparison(figures, frozenset({"2in"}))
    >>> worse.won
    False
    >>> print(str(worse).replace("; ", "\n"))
    validation MRR 50.00% with it, 37.50% without
    without negation 25.00% with it, 50.00% without
    """

    figures: Mapping[str, Mapping[str, float]]
    negated: frozenset[str] = frozenset()  # shapes with a negation

    @property
    def means(self) -> dict[str, float]:
        """The mean over the shapes."""
        return {name: statistics.fmean(mrr.values()) for name, mrr in self.figures.items()}

    @property
    def won(self) -> bool:
        """Whether the new adapter has the best mean, and is no worse without negation."""
        return all(self._beats(rival) for name, rival in self.figures.items() if name != "new")

    def _beats(self, rival: Mapping[str, float]) -> bool:
        new = self.figures["new"]
        return sum(new.values()) > sum(rival.values()) and sum(self._plain(new)) >= sum(
            self._plain(rival)
        )

    def _plain(self, figures: Mapping[str, float]) -> list[float]:
        return [mrr for shape, mrr in figures.items() if shape not in self.negated]

    def __str__(self) -> str:
        means = self.means
        text = f"validation MRR {self._describe(self.means)}"
        if self.won or not all(
            means["new"] > mean for name, mean in means.items() if name != "new"
        ):
            return text
        plain = {
            name: statistics.fmean(self._plain(figures)) for name, figures in self.figures.items()
        }
        return f"{text}; without negation {self._describe(plain)}"

    def _describe(self, means: Mapping[str, float]) -> str:
        words = {"new": "with it", "present": "with the adapter of the run", "none": "without"}
        return ", ".join(
            f"{means[name]:.2%} {text}" for name, text in words.items() if name in means
        )
