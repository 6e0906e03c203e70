"""Adapting a run: an adapter is trained, compared with what the run has, and kept where it is better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.adapt.adapter import Adapter
from tacit.adapt.adapter_training import AdapterTraining
from tacit.adapt.comparison import compare
from tacit.adapt.loading import save_adapter
from tacit.adapt.settings import AdaptSettings
from tacit.adapt.variants import VariantTraining, save_variant
from tacit.engine.atoms.calibration import Calibration
from tacit.fitting.loop import Fitting, fit
from tacit.fitting.progress import Progress
from tacit.graph.graph import Graph
from tacit.links.scorer import Scorer
from tacit.links.training.memory import clear_memory_errors
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.query_folder import check_ids
from tacit.run.folder import ADAPTATION, RunFolder


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
    queries: Mapping[str, QuerySet],
    settings: AdaptSettings | None = None,
    *,
    valid: Mapping[str, QuerySet] | None = None,
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
            _keep(run, graph, result, training)
            run.remove(ADAPTATION)
    return result


def _result(training: AdapterTraining, fitting: Fitting, strengths: Mapping[str, Any]) -> AdaptResult:
    adapter = getattr(training.calibration, "adapter", None)
    weights = sum(parameter.numel() for parameter in training.module.parameters())
    summary = fitting.summary() | {
        "unadapted_mrr": fitting.at.history[0]["valid_mrr"],
        "parameters": weights if adapter is None else adapter.num_parameters,
        "queries": {name: len(drawn) for name, drawn in training.batches.items()},
        "seed": training.settings.seed,
        **strengths,
    }
    training.settle()
    return AdaptResult(training.scorer, training.calibration, adapter, training.settings, fitting.at.history, summary)


def _keep(run: RunFolder, graph: Graph, result: AdaptResult, training: AdapterTraining) -> None:
    """Put what was learned into the run, where it is better than what is there."""
    adapter, settings, summary = result.adapter, result.settings, result.summary
    if isinstance(training, VariantTraining):
        summary |= {"kept": True, "verdict": f"kept in {save_variant(run, graph, training).path}"}
        with run.changed_results() as results:
            results[f"variant-{training.variant}"] = summary
    elif adapter is not None:
        summary |= _verdict(run, graph, adapter, training, summary)
        if summary["kept"]:
            save_adapter(run, adapter, settings)
            with run.changed_results() as results:
                results["adapt"] = summary


def _verdict(
    run: RunFolder, graph: Graph, adapter: Adapter, training: AdapterTraining, summary: Mapping[str, Any]
) -> dict[str, Any]:
    """Whether to keep an adapter, and why."""
    if not training.valid:
        return {"kept": True, "verdict": "kept: there was nothing to validate with"}
    if not summary["best_step"] and training.settings.learn == "scores":
        return {"kept": False, "verdict": f"not kept: no step improved validation MRR {summary['valid_mrr']:.4f}"}
    settings = training.settings
    comparison = compare(graph, training.scorer, run, adapter, settings, training.valid, training.observable)
    # Whoever asks for the paper's recipe wants to see what it does.
    kept = comparison.won or settings.recipe == "paper"
    return {"kept": kept, "compared": comparison.means, "verdict": f"{'kept' if kept else 'not kept'}: {comparison}"}
