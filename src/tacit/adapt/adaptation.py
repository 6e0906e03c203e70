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
from tacit.adapt.settings import AdaptSettings
from tacit.engine.atoms.calibration import calibration
from tacit.engine.atoms.mixture import RuleMixture, mixed
from tacit.engine.engine import Engine
from tacit.engine.ranking import mean_reciprocal_ranks
from tacit.engine.settings import EngineSettings
from tacit.errors import SettingsError
from tacit.fitting.loop import fit
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
    """The result of an adaptation; `trace` has an entry per validation."""

    calibration: Adapted
    adapter: Adapter
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
    rules: RuleMixture | None = None,
    run: RunFolder | None = None,
    progress: Progress | bool = False,
    resume: bool = False,
) -> AdaptResult:
    """Train an adapter for a frozen link predictor, and keep the best one on `valid`.

    It learns from queries with known answers; without `valid`, a tenth of them is held out for
    validation. With a `run`, validations are traced and checkpoints are written, from which
    `resume` continues. After training, the adapter is compared on validation with the one the run
    has and with none, by the run's own engine settings and with training facts observed. It is
    saved if it is better than both; otherwise the run stays as it is. With `rules` it works on
    their mixture with the link predictor's scores, unless the settings say otherwise.
    """
    settings = _with_rules(settings or AdaptSettings(), rules).with_derived(len(graph.valid) > 0)
    for query_sets in (queries, valid or {}):
        check_ids(query_sets, graph)
    in_use = nullcontext() if run is None else run.in_use()
    size = f"batch {settings.batch} and k {settings.k}"
    with in_use, clear_memory_errors(size, "lower those or `memory`"):
        if run is not None:
            run.begin(graph)
        used = rules if settings.rules else None
        training = AdapterTraining(graph, scorer, queries, settings, valid, used)
        trainer = fit(training, settings, progress, run, ADAPTATION, resume=resume)
        adapter = training.calibration.adapter
        summary = trainer.summary() | {
            "unadapted_mrr": trainer.state.history[0]["valid_mrr"],
            "parameters": adapter.num_parameters,
            "queries": {name: len(each) for name, each in training.batches.items()},
            "seed": settings.seed,
        }
        if run is not None:
            summary |= _verdict(run, graph, training, rules, summary)
            if summary["kept"]:
                save_adapter(run, adapter, settings)
                with run.changed_results() as results:
                    results["adapt"] = summary
            run.remove(ADAPTATION)
    return AdaptResult(training.calibration, adapter, settings, trainer.state.history, summary)


def _with_rules(settings: AdaptSettings, rules: RuleMixture | None) -> AdaptSettings:
    """The settings with rules decided: by default they are used where there are any."""
    if settings.rules and rules is None:
        raise SettingsError(
            "rules is True, and there are none beside the link predictor; leave it out", "rules"
        )
    return settings if settings.rules is not None else settings.changed(rules=rules is not None)


def _verdict(
    run: RunFolder,
    graph: Graph,
    training: AdapterTraining,
    rules: RuleMixture | None,
    summary: Mapping[str, Any],
) -> dict[str, Any]:
    """The decision whether to keep an adapter, with its reason."""
    always = training.settings.recipe == "paper"
    if not training.valid:
        verdict = "kept by the paper's recipe, though" if always else "not kept:"
        return {"kept": always, "verdict": f"{verdict} there was nothing to validate with"}
    if not summary["best_step"]:
        return {
            "kept": False,
            "verdict": f"not kept: no step improved validation MRR {summary['valid_mrr']:.2%}",
        }
    comparison = _compare(run, graph, training, rules)
    keeps = comparison.won or always
    return {
        "kept": keeps,
        "compared": comparison.means,
        "verdict": f"{'kept' if keeps else 'not kept'}: {comparison}",
    }


def _compare(
    run: RunFolder, graph: Graph, training: AdapterTraining, rules: RuleMixture | None
) -> AdapterComparison:
    """Answer the validation queries with the new adapter, the run's own, and none.

    Each uses the engine settings it was trained for; the observed facts are the same for all.
    """
    settings = training.settings
    scorer = training.reasoner.atoms.scorer
    rivals: dict[str, tuple[Mapping[str, Any], Adapted | None]] = {"none": ({}, None)}
    if run.has(ADAPTER):
        present, learned = load_adapter(run, scorer)
        unadapted = mixed(calibration(learned.calibration), rules if learned.rules else None)
        rivals["present"] = learned.engine, Adapted(unadapted, present)
    rivals["new"] = settings.engine, training.calibration
    search = {"observed": training.observable, "k": settings.k, "memory": settings.memory}
    figures = {}
    for name, (values, adapted) in rivals.items():
        config = EngineSettings.of({**values, **search})
        engine = Engine(graph, scorer, config, adapter=adapted, rules=rules)
        figures[name] = mean_reciprocal_ranks(engine.reasoner, training.valid)
    negated = frozenset(
        name for name, queries in training.valid.items() if queries.shape.plan.has(Complement)
    )
    return AdapterComparison(figures, negated)


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
    def positive_means(self) -> dict[str, float]:
        """The mean over the shapes without negation; 0 where there are none."""
        return {
            name: statistics.fmean([mrr[s] for s in mrr if s not in self.negated] or [0.0])
            for name, mrr in self.figures.items()
        }

    @property
    def won(self) -> bool:
        """Whether the new adapter has the best mean, and is no worse without negation."""
        positive = self.positive_means
        return self._is_best and positive["new"] == max(positive.values())

    @property
    def _is_best(self) -> bool:
        means = self.means
        return all(means["new"] > mean for name, mean in means.items() if name != "new")

    def __str__(self) -> str:
        text = f"validation MRR {_describe(self.means)}"
        if self.won or not self._is_best:
            return text
        return f"{text}; without negation {_describe(self.positive_means)}"


def _describe(means: Mapping[str, float]) -> str:
    words = {"new": "with it", "present": "with the adapter of the run", "none": "without"}
    return ", ".join(f"{means[name]:.2%} {text}" for name, text in words.items() if name in means)
