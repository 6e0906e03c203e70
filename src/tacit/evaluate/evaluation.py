"""An evaluation from the question *what is asked, of whom* to what is kept of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.disk import write_text
from tacit.distributed.shards import Shards
from tacit.engine.engine import Engine
from tacit.engine.settings import observed_splits
from tacit.errors import DataError, SettingsError
from tacit.evaluate.protocol import Progress, evaluate, one_hop_queries, sample
from tacit.evaluate.reliability import Reliability, reliability
from tacit.evaluate.results import Results
from tacit.folder import versions
from tacit.graph.graph import SPLITS, Graph
from tacit.query.hardness import hardness, missing_links
from tacit.query.queries import QuerySet
from tacit.query.query_folder import check_ids, queries_for
from tacit.query.shapes import parse_shapes

RELIABILITY_QUERIES = 500
# Settings that change no answer (ranks are among all entities, whatever finds candidates), and those of one search.
_ASIDE = ("memory", "candidates", "nprobe", "cached", "budget")
_BEAM, _CONTINUOUS = ("k",), ("steps", "step_size", "vector_reg")
_UNSCORED = {"symbolic": ("search", "observed", "new"), "encoder": ("search", "observed", "new", "encoder", "encoding")}


@dataclass(frozen=True)
class Evaluation:
    """Results, and what was measured beside them."""

    results: Results
    relations: Mapping[str, Mapping[str, float]] | None = None  # of 1p queries, by relation
    reliability: Mapping[str, Reliability] = field(default_factory=dict)
    # Of each set of queries, by the number of links that its hard answers are missing.
    by_missing: Mapping[str, Mapping[int, Mapping[str, float]]] = field(default_factory=dict)
    unkept: str = ""  # why the run does not hold it

    def __repr__(self) -> str:
        ranked = ", ".join(f"{name} {value:.3f}" for name, value in self.mrr.items())
        return f"Evaluation({self.settings.get('split', 'queries')}: mrr {ranked})"

    @property
    def mrr(self) -> dict[str, float]:
        """The mean reciprocal rank of each set of queries, as a fraction."""
        return self.results.mrr

    def average(self, name: str) -> float | None:
        """`avg_p` or `avg_n`, or None unless all its shapes were evaluated."""
        return self.results.average(name)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Every setting that the results depend on."""
        return self.results.settings

    def to_json(self) -> dict[str, Any]:
        """Plain data, as files of results and runs keep it."""
        more: dict[str, Any] = {"relations": dict(self.relations)} if self.relations else {}
        if self.reliability:
            more["reliability"] = {name: measured.to_json() for name, measured in self.reliability.items()}
        if self.by_missing:
            more["by_missing"] = {
                name: {str(links): dict(row) for links, row in rows.items()} for name, rows in self.by_missing.items()
            }
        return self.results.to_json() | {"versions": versions()} | more

    def write(self, path: Path) -> None:
        """Write the plain data to a file."""
        write_text(path, json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n")


def evaluated(
    engine: Engine,
    queries: Mapping[str, QuerySet],
    split: str,
    *,
    about: Mapping[str, Any],
    ties: Any = "realistic",
    mean: Any = "question",
    limit: int | None = None,
    batch: int | None = None,
    per_relation: bool = False,
    with_reliability: bool = False,
    by_missing: bool = False,
    progress: Progress | None = None,
    processes: Shards | None = None,
) -> Evaluation:
    """Rank the hard answers of queries by an engine, and measure what is asked for beside that.

    Several `processes` share the ranking out; the first of them measures the rest.
    """
    if per_relation and "1p" not in queries:
        raise SettingsError(
            "per_relation is about 1p queries, and none were evaluated; add 1p to shapes", "per_relation"
        )
    if engine.encoder is not None:
        engine.encoder.check_shapes({name: query_set.shape.plan for name, query_set in queries.items()})
    settings = {**about, "split": split, **relevant(engine)}
    kept = {name: value for name, value in settings.items() if value is not None}
    if by_missing:  # where nobody can tell what is missing, nothing needs to be ranked
        hardness(queries, engine.graph, split, engine.settings.observed)
    results = evaluate(engine.reasoner, queries, ties, limit, batch, progress, kept, mean, processes)
    relations = None
    if per_relation:
        figures, labels = results.figures["1p"], engine.graph.relations.labels
        asked = figures.queries.relations[figures.queries.hard.rows, 0]
        relations = {labels[relation]: row for relation, row in figures.grouped(asked, results.mean).items()}
    wanted = with_reliability and (processes is None or processes.leads)
    measured = _reliability(engine, queries, split, limit or RELIABILITY_QUERIES) if wanted else {}
    missing = missing_rows(results, engine.graph, split, engine.settings.observed) if by_missing else {}
    return Evaluation(results, relations, measured, missing)


def missing_rows(
    results: Results, graph: Graph, split: str, observed: Sequence[str]
) -> dict[str, dict[int, dict[str, float]]]:
    """The figures of each set of queries by the number of links its hard answers are missing beside observed facts."""
    return {
        name: figures.grouped(missing_links(figures.queries, graph, split, observed), results.mean)
        for name, figures in results.figures.items()
    }


def relevant(engine: Engine) -> dict[str, Any]:
    """The settings that an engine's answers depend on, the calibration really used among them.

    >>> from tacit.links.scorer import GraphScorer
    >>> graph = Graph.of([("a", "r", "b")])
    >>> relevant(Engine(graph, GraphScorer(graph.index(), 2), search="symbolic"))
    {'search': 'symbolic', 'observed': 'train+valid+test'}
    """
    settings = engine.about
    if settings["search"] == "certified":  # which proves lists; all entities are ranked by its beam
        settings["search"] = "beam"
    for name in ("new", "preset", "ceiling"):  # without them is usual; where one is asked for, results are named by it
        if not settings[name]:
            del settings[name]
    search = settings["search"]
    if search in _UNSCORED:
        return {name: settings[name] for name in _UNSCORED[search] if name in settings}
    aside = _ASIDE + (() if search == "beam" else _BEAM) + (() if search == "continuous" else _CONTINUOUS)
    if settings["observed"] == "none":
        aside += ("observed_score",)
    shown = {name: value for name, value in settings.items() if name not in aside}
    return shown | {"precision": engine.atoms.precision}


def queries_of(
    graph: Graph, source: str | Path | Mapping[str, QuerySet] | None, split: str, shapes: str | None
) -> dict[str, QuerySet]:
    """The queries to evaluate: of a folder, as given, or else the facts of the split as 1p queries."""
    if split not in SPLITS:
        raise SettingsError(f"split is '{split}'; it must be one of {', '.join(SPLITS)}", "split")
    if isinstance(source, Mapping):
        wanted = parse_shapes(shapes) if shapes else tuple(source)
        absent = [name for name in wanted if name not in source]
        if absent or not wanted:
            there = ", ".join(source) or "none"
            raise DataError(f"there are no {', '.join(absent) or 'queries'} to evaluate among those given: {there}")
        given = {name: source[name] for name in wanted}
        check_ids(given, graph)
        return given
    if source is not None:
        queries = queries_for(graph, source, split, shapes)
        if not queries:
            raise DataError(f"holds no {split} queries to evaluate", source)
        return queries
    if shapes is not None and parse_shapes(shapes) != ("1p",):
        raise SettingsError(f"queries are needed for shapes {shapes}; sample some, or give a folder of them", "queries")
    if not len(graph.split(split)):
        raise DataError(
            f"{graph.name} has no {split} facts to predict; split some off (tacit data split) or give queries"
        )
    return {"1p": one_hop_queries(graph, split)}


def observed_before(split: str, wanted: Any = None) -> tuple[str, ...]:
    """The splits whose facts an engine is handed while queries of a split are evaluated: never those it must predict.

    >>> observed_before("test"), observed_before("valid", "none"), observed_before("train")
    (('train',), (), ())
    """
    before = SPLITS[: SPLITS.index(split)]
    splits = observed_splits(before[:1] if wanted is None else wanted)
    leaked = [part for part in splits if part not in before]
    if leaked:
        allowed = " or ".join(["none", *("+".join(before[: i + 1]) for i in range(len(before)))])
        raise SettingsError(
            f"observed is {'+'.join(splits)}, but the {' and '.join(leaked)} facts cannot be observed while {split} "
            f"queries are evaluated; it must be {allowed}",
            "observed",
        )
    return splits


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written before hours are spent on what it should hold."""
    if path.is_dir():
        raise DataError("is a folder; results need the name of a file", path)
    if not path.parent.is_dir():
        raise DataError(f"cannot be written: there is no folder '{path.parent}'", path)


def _reliability(engine: Engine, queries: Mapping[str, QuerySet], split: str, limit: int) -> dict[str, Reliability]:
    """The reliability of atoms, where the split has facts, and of the ten best answers of all queries together."""
    answers = [reliability(engine.reasoner, sample(chosen, limit), top=10) for chosen in queries.values()]
    measured = {"ten best answers": sum(answers, Reliability.empty())}
    if len(engine.graph.split(split)):
        atoms = reliability(engine.reasoner, sample(one_hop_queries(engine.graph, split), limit))
        measured = {"atoms": atoms} | measured
    return measured
