"""Evaluations of runs: their queries, conditions, measurements and storage."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.disk import reading, write_text
from tacit.distributed.shards import Shards
from tacit.engine.engine import Engine
from tacit.engine.presets import observed_for_preset
from tacit.engine.settings import observed_splits
from tacit.errors import DataError, RunError, SettingsError, TacitError
from tacit.evaluate.protocol import DEFAULTS, evaluate, one_hop_queries, queries_to_rank, sample
from tacit.evaluate.reliability import Reliability, reliability
from tacit.evaluate.results import Results
from tacit.evaluate.settings import EvaluateSettings
from tacit.fitting.progress import Progress
from tacit.graph.graph import SPLITS, Graph
from tacit.loaded_run import LoadedWeights, describe_adapter, engine_of
from tacit.query.sampling.hardness import missing_links
from tacit.query.sampling.queries import QuerySet, QuerySets, checksum, has_queries
from tacit.query.sampling.query_folder import check_ids, queries_for
from tacit.query.sampling.query_folder import sample as sample_queries
from tacit.query.sampling.shapes import parse_shapes
from tacit.run_folder.files import ADAPTER, OUTDATED
from tacit.run_folder.folder import RunFolder, versions
from tacit.run_folder.run_cache import check_not_saved
from tacit.sources import NameOrPath, load

if TYPE_CHECKING:
    from tacit.graph.datasets import Facts

RELIABILITY_QUERIES = 500
# settings that change no rank, since all entities are ranked
_NEUTRAL = ("memory", "candidates", "nprobe", "budget")
_OF_SEARCH = {"beam": ("k",), "continuous": ("steps", "step_size", "vector_reg")}


@dataclass(frozen=True)
class Evaluation(Results):
    """Results with further measurements."""

    # metrics of 1p queries, by relation
    relations: Mapping[str, Mapping[str, float]] | None = field(default=None, hash=False)
    reliability: Mapping[str, Reliability] = field(default_factory=dict, hash=False)
    # metrics of each set of queries, by the number of missing links
    by_missing: Mapping[str, Mapping[int, Mapping[str, float]]] = field(
        default_factory=dict, hash=False
    )
    unstored_reason: str = ""  # the reason why the run does not store it
    outdated: str = ""  # the change of the run since it was opened
    # the states of the weight files, by part
    files: Mapping[str, list[Any]] = field(default_factory=dict, hash=False)

    def __repr__(self) -> str:
        ranked = ", ".join(f"{name} {value:.3f}" for name, value in self.mrr.items())
        return f"Evaluation({self.settings.get('split', 'queries')}: mrr {ranked})"

    def to_json(self) -> dict[str, Any]:
        """The evaluation as plain data, as files of results and runs store it."""
        measured = {
            "relations": self.relations,
            "reliability": {name: each.to_json() for name, each in self.reliability.items()},
            "by_missing": {
                name: {str(links): row for links, row in rows.items()}
                for name, rows in self.by_missing.items()
            },
            "outdated": self.outdated,
        }
        present = {name: value for name, value in measured.items() if value}
        return super().to_json() | {"versions": versions()} | present

    def write(self, path: str | Path) -> None:
        """Write the plain data to a file."""
        write_text(Path(path), json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n")


def evaluate_run(
    folder: RunFolder,
    weights: LoadedWeights,
    queries: str | Path | QuerySets | None,
    shapes: str | None,
    protocol: EvaluateSettings,
    adapted: bool,
    settings: Mapping[str, Any],
    progress: Progress | bool,
    processes: Shards | None,
) -> Evaluation:
    """Evaluate a run, as `Run.evaluate` describes it, by settings of the engine."""
    graph = folder.graph()
    sets = queries_of(graph, queries, protocol.split, shapes)
    adapted = adapted and not settings.get("preset")
    with reading(folder.path):  # one snapshot of the adapter and its settings
        files = {**weights.files, "adapt": folder.weight_files()["adapt"]}
        adapter = folder.settings.get("adapt", {}) if adapted and folder.has(ADAPTER) else {}
        default = observed_for_preset(settings.get("preset"), protocol.split)
        if not default and protocol.split != "train":
            default = adapter.get("observed")
        observed = observed_before(protocol.split, settings.get("observed", default))
        engine = engine_of(folder, weights, adapted, {**settings, "observed": observed})
        if engine.parts.override is None:  # all entities are ranked, rather than candidates
            engine = engine.with_settings(candidates="rows")
    conditions: dict[str, Any] = {"graph": graph.name}
    if queries is not None:  # two folders may have one name
        name = "given" if isinstance(queries, Mapping) else Path(queries).resolve().name
        conditions |= {"queries": name, "checksum": checksum(sets)}
    if engine.parts.override is None and engine.adapter is not None:
        conditions["adapter"] = describe_adapter(adapter)
    evaluation = evaluate_engine(engine, sets, protocol, conditions, progress, processes)
    return replace(evaluation, files=files)


def evaluate_engine(
    engine: Engine,
    queries: QuerySets,
    protocol: EvaluateSettings = DEFAULTS,
    conditions: Mapping[str, Any] | None = None,
    progress: Progress | bool = False,
    processes: Shards | None = None,
) -> Evaluation:
    """Rank the hard answers of queries by an engine, and take the other measurements.

    Several `processes` share the ranking out; the first of them measures the rest.
    """
    if protocol.per_relation and "1p" not in queries:
        raise SettingsError(
            "per_relation is about 1p queries, and none were evaluated; add 1p to `shapes`",
            "per_relation",
        )
    engine.search.check_shapes({name: query_set.shape.plan for name, query_set in queries.items()})
    settings = {**(conditions or {}), "split": protocol.split, **relevant_settings(engine)}
    settings = {name: value for name, value in settings.items() if value is not None}
    missing = {}
    if protocol.by_missing:  # before the ranking, since it can raise errors
        missing = {
            name: missing_links(query_set, engine.graph, protocol.split, engine.settings.observed)
            for name, query_set in queries_to_rank(queries, protocol.limit).items()
        }
    results = evaluate(engine.reasoner, queries, protocol, settings, progress, processes)
    relations = None
    if protocol.per_relation:
        figures = results.figures["1p"]
        relation_ids = figures.queries.relations[figures.queries.hard.rows, 0]
        labels = engine.graph.relations.labels
        groups = figures.grouped(relation_ids, protocol.mean)
        relations = {labels[relation]: row for relation, row in groups.items()}
    measured: dict[str, Reliability] = {}
    if protocol.reliability and (processes is None or processes.leads):
        limit = protocol.limit or RELIABILITY_QUERIES
        measured = _reliability(engine, queries, protocol.split, limit)
    by_missing = {
        name: results.figures[name].grouped(links, protocol.mean) for name, links in missing.items()
    }
    return Evaluation(
        **vars(results), relations=relations, reliability=measured, by_missing=by_missing
    )


def store_evaluation(
    folder: RunFolder, evaluation: Evaluation, weights: LoadedWeights
) -> Evaluation:
    """Write the evaluation into a run, in place of those with equal settings.

    An evaluation of weights that were written to in memory is not stored. It is marked as outdated
    if graph or weights of the run have changed, and then replaces no valid one.
    """
    settings = evaluation.to_json()["settings"]
    try:
        check_not_saved(folder)
        weights.check_unwritten(*filter(partial(folder.depends, settings), ("train", "encode")))
        with folder.changed_results() as results:
            stored = results.get("eval", [])
            same = [each for each in stored if each.get("settings") == settings]
            if changed := _changed_since(folder, evaluation.files, settings):
                evaluation = replace(evaluation, outdated=OUTDATED.format(changed))
                if any("outdated" not in each for each in same):
                    reason = f"{evaluation.outdated}, and the run was measured anew"
                    return replace(evaluation, unstored_reason=reason)
            others = [each for each in stored if each not in same]
            results["eval"] = [*others, evaluation.to_json()]
    except TacitError as error:  # a read-only run, or damaged results
        return replace(evaluation, unstored_reason=str(error))
    return evaluation


def _changed_since(
    folder: RunFolder, files: Mapping[str, list[Any]], settings: Mapping[str, Any]
) -> str:
    """The part of a run that changed since the evaluation, or ""."""
    try:
        folder.check_unchanged()
    except RunError:
        return "graph has"
    present = folder.weight_files()
    parts = (part for part in files if folder.depends(settings, part))
    return "weights have" if any(files[part] != present[part] for part in parts) else ""


def relevant_settings(engine: Engine) -> dict[str, Any]:
    """The settings that an engine's answers depend on, with the calibration in use.

    >>> from tacit.links.scorer import GraphScorer
    >>> graph = Graph.of([("a", "r", "b")])
    >>> relevant_settings(Engine(graph, GraphScorer(graph.index(), 2), search="symbolic"))
    {'search': 'symbolic', 'observed': 'train+valid+test'}
    """
    settings = engine.config
    if settings["search"] == "certified":  # it proves lists, but its beam ranks all entities
        settings["search"] = "beam"
    if engine.parts.rules is None:
        del settings["rules"]
    # optional settings only count if they are set
    for name in ("new", "preset", "ceiling", "fact_sources", "as_of"):
        if not settings[name]:
            del settings[name]
    if not engine.search.calibrated:
        names = ("search", "observed", "fact_sources", "as_of", "new", *engine.search.config)
        return {name: settings[name] for name in names if name in settings}
    ignored = set(_NEUTRAL)
    for search, names in _OF_SEARCH.items():
        if settings["search"] != search:
            ignored.update(names)
    if settings["observed"] == "none":
        ignored.add("observed_score")
    relevant = {name: value for name, value in settings.items() if name not in ignored}
    return relevant | {"precision": engine.atoms.raw.precision}


def queries_of(
    graph: Graph, source: str | Path | QuerySets | None, split: str, shapes: str | None
) -> dict[str, QuerySet]:
    """The queries to evaluate: given ones, those of a folder, or the facts as 1p queries."""
    if isinstance(source, Mapping):
        names = parse_shapes(shapes) if shapes else tuple(source)
        absent = [name for name in names if name not in source]
        if absent or not names:
            available = ", ".join(source) or "none"
            raise DataError(
                f"there are no {', '.join(absent) or 'queries'} to evaluate among those given: "
                f"{available}"
            )
        queries = {name: source[name] for name in names}
        check_ids(queries, graph)
        return queries
    if source is not None:
        queries = queries_for(graph, source, split, shapes)
        if not queries:
            raise DataError(
                f"holds no {split} queries to evaluate; give another folder or `split`", source
            )
        return queries
    if shapes is not None and parse_shapes(shapes) != ("1p",):
        raise SettingsError(
            f"shapes is {shapes}, and facts alone are 1p queries; sample queries and give their "
            "folder as `queries`",
            "shapes",
            command="sample",
        )
    if not len(graph.split(split)):
        problem = f"{graph.name} has no {split} facts to predict; split some off, or give `queries`"
        raise DataError(problem, command="data split")
    return {"1p": one_hop_queries(graph, split)}


def observed_before(split: str, requested: Any = None) -> tuple[str, ...]:
    """The splits that may be observed for queries of a split, never the predicted ones.

    >>> observed_before("test"), observed_before("valid", "none"), observed_before("train")
    (('train',), (), ())
    """
    before = SPLITS[: SPLITS.index(split)]
    splits = observed_splits(before[:1] if requested is None else requested)
    leaked = [part for part in splits if part not in before]
    if leaked:
        allowed = " or ".join(["none", *("+".join(before[: i + 1]) for i in range(len(before)))])
        raise SettingsError(
            f"observed is {'+'.join(splits)}, but the {' and '.join(leaked)} facts cannot be "
            f"observed while {split} queries are evaluated; it must be {allowed}",
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
    **options: Any,
) -> dict[str, dict[int, int]]:
    """Count hard answers by shape and missing links: `{"2i": {1: 310, 2: 25}}`.

    `queries` are a query folder, or query sets by shape, of the `split`, `valid` or `test`; by
    default those of the graph's own folder, and where it has none, `count` of each shape are drawn
    by a `seed`, of which `progress` hears, or True shows it. `observed` names the splits whose
    facts are known, joined by +, by default all before the split. Options are those of
    `tacit.load`.
    """
    if split not in ("valid", "test"):
        raise SettingsError(f"split is '{split}'; it must be one of valid, test", "split")
    splits = None if observed is None else observed_before(split, observed)
    loaded = load(graph, **options)
    if queries is None and isinstance(graph, str | Path) and has_queries(graph, split):
        queries = graph
    if queries is not None:
        query_sets = queries_of(loaded, queries, split, shapes)
    else:
        samples = sample_queries(
            loaded, shapes=shapes, split=split, count=count, seed=seed, progress=progress
        )
        query_sets = {name: each.queries for name, each in samples.items() if len(each.queries)}
    return {
        name: dict(Counter(np.sort(missing_links(each, loaded, split, splits)).tolist()))
        for name, each in query_sets.items()
    }


def check_writable(path: Path) -> None:
    """Raise an error early for a result file that cannot be written."""
    if path.is_dir():
        raise DataError("is a folder; results need the name of a file", path)
    if not path.parent.is_dir():
        raise DataError(f"cannot be written: there is no folder '{path.parent}'", path)


def _reliability(
    engine: Engine, queries: QuerySets, split: str, limit: int
) -> dict[str, Reliability]:
    """The reliability of atoms, if the split has facts, and of the ten best answers."""
    measured = {}
    if len(engine.graph.split(split)):
        atoms = sample(one_hop_queries(engine.graph, split), limit)
        measured["atoms"] = reliability(engine.reasoner, atoms)
    answers = (
        reliability(engine.reasoner, sample(each, limit), top=10) for each in queries.values()
    )
    return measured | {"ten best answers": sum(answers, Reliability.empty())}
