"""An evaluation from the question *what is asked, of whom* to what is kept of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.disk import write_text
from tacit.distributed.shards import Shards
from tacit.engine.engine import Engine
from tacit.engine.presets import handed
from tacit.engine.settings import observed_splits
from tacit.errors import DataError, SettingsError, TacitError
from tacit.evaluate.protocol import USUAL, evaluate, one_hop_queries, ranked, sample
from tacit.evaluate.reliability import Reliability, reliability
from tacit.evaluate.results import Results
from tacit.evaluate.settings import EvaluateSettings
from tacit.fitting.progress import Progress
from tacit.graph.graph import SPLITS, Graph
from tacit.query.sampling.hardness import missing_links
from tacit.query.sampling.queries import QuerySet, QuerySets, checksum, has_queries
from tacit.query.sampling.query_folder import check_ids, queries_for
from tacit.query.sampling.query_folder import sample as drawn_queries
from tacit.query.sampling.shapes import parse_shapes
from tacit.run.folder import ADAPTER, RunFolder, versions
from tacit.run.opened import RunWeights, described, engine_of
from tacit.sources import NameOrPath, load

if TYPE_CHECKING:
    from tacit.graph.datasets import Facts

RELIABILITY_QUERIES = 500
# Settings that change no answer (ranks are among all entities, whatever finds candidates), and those of one search.
_ASIDE = ("memory", "candidates", "nprobe", "cached", "budget")
_BEAM, _CONTINUOUS = ("k",), ("steps", "step_size", "vector_reg")


@dataclass(frozen=True)
class Evaluation(Results):
    """Results, and what was measured beside them."""

    relations: Mapping[str, Mapping[str, float]] | None = None  # of 1p queries, by relation
    reliability: Mapping[str, Reliability] = field(default_factory=dict)
    # Of each set of queries, by the number of links that its hard answers are missing.
    by_missing: Mapping[str, Mapping[int, Mapping[str, float]]] = field(default_factory=dict)
    unkept: str = ""  # why the run does not hold it

    def __repr__(self) -> str:
        ranked = ", ".join(f"{name} {value:.3f}" for name, value in self.mrr.items())
        return f"Evaluation({self.settings.get('split', 'queries')}: mrr {ranked})"

    def to_json(self) -> dict[str, Any]:
        """Plain data, as files of results and runs keep it."""
        more: dict[str, Any] = {"relations": dict(self.relations)} if self.relations else {}
        if self.reliability:
            more["reliability"] = {name: measured.to_json() for name, measured in self.reliability.items()}
        if self.by_missing:
            more["by_missing"] = {
                name: {str(links): dict(row) for links, row in rows.items()} for name, rows in self.by_missing.items()
            }
        return super().to_json() | {"versions": versions()} | more

    def write(self, path: str | Path) -> None:
        """Write the plain data to a file."""
        write_text(Path(path), json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n")


def evaluate_run(
    folder: RunFolder,
    weights: RunWeights,
    queries: str | Path | QuerySets | None,
    shapes: str | None,
    how: EvaluateSettings,
    adapted: bool,
    settings: Mapping[str, Any],
    progress: Progress | bool = False,
    processes: Shards | None = None,
) -> Evaluation:
    """The evaluation of a run, as `Run.evaluate` describes it, by settings of the engine."""
    graph = folder.graph()
    sets = queries_of(graph, queries, how.split, shapes)
    adapted = adapted and not settings.get("preset")
    adapter = folder.settings.get("adapt", {}) if adapted and folder.has(ADAPTER) else {}
    usual = handed(settings.get("preset"), how.split) or (adapter.get("observed") if how.split != "train" else None)
    observed = observed_before(how.split, settings.get("observed", usual))
    engine = engine_of(folder, weights, adapted, {**settings, "observed": observed}).ranking()
    about: dict[str, Any] = {"graph": graph.name}
    if queries is not None:  # two folders may have one name
        name = "given" if isinstance(queries, Mapping) else Path(queries).resolve().name
        about |= {"queries": name, "checksum": checksum(sets)}
    about["adapter"] = described(adapter) if engine.instead is None and engine.adapter is not None else None
    return evaluated(engine, sets, how, about=about, progress=progress, processes=processes)


def evaluated(
    engine: Engine,
    queries: QuerySets,
    how: EvaluateSettings = USUAL,
    *,
    about: Mapping[str, Any] | None = None,
    progress: Progress | bool = False,
    processes: Shards | None = None,
) -> Evaluation:
    """Rank the hard answers of queries by an engine, and measure what is asked for beside that.

    Several `processes` share the ranking out; the first of them measures the rest.
    """
    if how.per_relation and "1p" not in queries:
        raise SettingsError(
            "per_relation is about 1p queries, and none were evaluated; add 1p to shapes", "per_relation"
        )
    engine.search.check_shapes({name: query_set.shape.plan for name, query_set in queries.items()})
    settings = {**(about or {}), "split": how.split, **relevant(engine)}
    kept = {name: value for name, value in settings.items() if value is not None}
    missing = {  # where nobody can tell what is missing, nothing needs to be ranked
        name: missing_links(asked, engine.graph, how.split, engine.settings.observed)
        for name, asked in (ranked(queries, how.limit) if how.by_missing else {}).items()
    }
    results = evaluate(engine.reasoner, queries, how, kept, progress, processes)
    relations = None
    if how.per_relation:
        figures, labels = results.figures["1p"], engine.graph.relations.labels
        asked = figures.queries.relations[figures.queries.hard.rows, 0]
        relations = {labels[relation]: row for relation, row in figures.grouped(asked, how.mean).items()}
    wanted = how.reliability and (processes is None or processes.leads)
    return Evaluation(
        **vars(results),
        relations=relations,
        reliability=_reliability(engine, queries, how.split, how.limit or RELIABILITY_QUERIES) if wanted else {},
        by_missing={name: results.figures[name].grouped(links, how.mean) for name, links in missing.items()},
    )


def kept_in(folder: RunFolder, evaluation: Evaluation) -> Evaluation:
    """The evaluation, written into a run in place of those with equal settings."""
    written = evaluation.to_json()
    try:
        with folder.changed_results() as results:
            others = [earlier for earlier in results.get("eval", []) if earlier.get("settings") != written["settings"]]
            results["eval"] = [*others, written]
    except TacitError as error:  # a run may lie where one may only read, or its results be damaged
        return replace(evaluation, unkept=str(error))
    return evaluation


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
    if not engine.search.calibrated:
        deciding = ("search", "observed", "new", *engine.search.about)
        return {name: settings[name] for name in deciding if name in settings}
    search = settings["search"]
    aside = _ASIDE + (() if search == "beam" else _BEAM) + (() if search == "continuous" else _CONTINUOUS)
    if settings["observed"] == "none":
        aside += ("observed_score",)
    shown = {name: value for name, value in settings.items() if name not in aside}
    return shown | {"precision": engine.atoms.precision}


def queries_of(
    graph: Graph, source: str | Path | QuerySets | None, split: str, shapes: str | None
) -> dict[str, QuerySet]:
    """The queries to evaluate: of a folder, as given, or else the facts of the split as 1p queries."""
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
        problem = f"{graph.name} has no {split} facts to predict; split some off, or give queries"
        raise DataError(problem, command="data split")
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


def hardness(
    graph: Facts | Sequence[Facts],
    queries: NameOrPath | QuerySets | None = None,
    split: str = "test",
    shapes: str | None = None,
    *,
    observed: str | Iterable[str] | None = None,
    count: int = 200,
    seed: int = 0,
    progress: Progress | bool = False,
) -> dict[str, dict[int, int]]:
    """How many hard answers of each shape need how many links to be predicted: `{"2i": {1: 310, 2: 25}}`.

    `queries` are a query folder, or query sets by shape, of the `split`, `valid` or `test`; by default those of the
    graph's own folder, and where it has none, `count` of each shape are drawn by a `seed`, of which `progress` hears,
    or True shows it.
    `observed` names the splits whose facts are known, joined by +, by default all before the split.
    """
    if split not in ("valid", "test"):
        raise SettingsError(f"split is '{split}'; it must be one of valid, test", "split")
    known = None if observed is None else observed_before(split, observed)
    loaded = load(graph)
    if queries is None and isinstance(graph, str | Path) and has_queries(graph, split):
        queries = graph
    if queries is not None:
        asked = queries_of(loaded, queries, split, shapes)
    else:
        drawn = drawn_queries(loaded, shapes=shapes, split=split, count=count, seed=seed, progress=progress)
        asked = {name: each.queries for name, each in drawn.items() if len(each.queries)}
    links = {name: missing_links(each, loaded, split, known) for name, each in asked.items()}
    return {
        name: dict(zip(*(part.tolist() for part in np.unique(missing, return_counts=True)), strict=True))
        for name, missing in links.items()
    }


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written before hours are spent on what it should hold."""
    if path.is_dir():
        raise DataError("is a folder; results need the name of a file", path)
    if not path.parent.is_dir():
        raise DataError(f"cannot be written: there is no folder '{path.parent}'", path)


def _reliability(engine: Engine, queries: QuerySets, split: str, limit: int) -> dict[str, Reliability]:
    """The reliability of atoms, where the split has facts, and of the ten best answers of all queries together."""
    answers = [reliability(engine.reasoner, sample(chosen, limit), top=10) for chosen in queries.values()]
    measured = {"ten best answers": sum(answers, Reliability.empty())}
    if len(engine.graph.split(split)):
        atoms = reliability(engine.reasoner, sample(one_hop_queries(engine.graph, split), limit))
        measured = {"atoms": atoms} | measured
    return measured
