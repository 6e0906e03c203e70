"""Whether an adapter is worth keeping: it, the one the run has, and none at all answer the same queries."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.adapt.adapter import Adapter
from tacit.adapt.calibrated import Adapted
from tacit.adapt.loading import load_adapter
from tacit.adapt.settings import ENGINE, AdaptSettings
from tacit.engine.atoms.calibration import calibration
from tacit.engine.engine import Engine
from tacit.engine.ranking import mean_reciprocal_ranks
from tacit.engine.settings import EngineSettings
from tacit.graph.graph import Graph
from tacit.links.scorer import Scorer
from tacit.query.plans.plan import Complement
from tacit.query.sampling.queries import QuerySet
from tacit.run.folder import ADAPTER, RunFolder


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
        told = f"validation MRR {self._told(self.means)}"
        plain = {name: self._plain(figures) for name, figures in self.figures.items()}
        means = self.means
        if self.won or not all(means["new"] > mean for name, mean in means.items() if name != "new"):
            return told
        return f"{told}; without negation {self._told({name: statistics.fmean(mrr) for name, mrr in plain.items()})}"

    def _told(self, means: Mapping[str, float]) -> str:
        words = {"new": "with it", "present": "with the adapter of the run", "none": "without"}
        return ", ".join(f"{means[name]:.4f} {text}" for name, text in words.items() if name in means)


def compare(
    graph: Graph,
    scorer: Scorer,
    run: RunFolder,
    adapter: Adapter,
    settings: AdaptSettings,
    queries: Mapping[str, QuerySet],
    observed: tuple[str, ...],
) -> AdapterComparison:
    """Answer queries with an adapter trained by `settings`, with that of the run, and with none.

    Each is asked by the engine settings it goes with; `observed` is the same for all, however they were trained.
    """
    plain = EngineSettings()
    asked: dict[str, tuple[Mapping[str, Any], Adapter | None]] = {
        "none": ({name: getattr(plain, name) for name in ENGINE}, None)
    }
    if run.has(ADAPTER):
        present, trained_for = load_adapter(run, scorer)
        asked["present"] = trained_for.engine, present
    asked["new"] = settings.engine, adapter
    search = {"observed": observed, "k": settings.k, "memory": settings.memory}
    figures = {}
    for name, (how, rival) in asked.items():
        adapted = None if rival is None else Adapted(calibration(how["calibration"]), rival)
        engine = Engine(graph, scorer, EngineSettings.of({**how, **search}), adapter=adapted)
        figures[name] = mean_reciprocal_ranks(engine.reasoner, queries)
    negated = {name for name, query_set in queries.items() if query_set.shape.plan.has(Complement)}
    return AdapterComparison(figures, frozenset(negated))
