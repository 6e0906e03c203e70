"""Reproduces a table, whole pipelines from raw triples: train, adapt, evaluate, one settings file per row.

    python benchmarks/reproduce.py nell995 --device cuda
    python benchmarks/reproduce.py fb15k237 fb15k237-ablation --device cuda --rows cqd-beam,cqd-a

Rows are the files in `benchmarks/rows/TABLE/`; each may name another with `like` and change some of its settings, table
by table: `train`, `adapt`, `engine`, `queries`, and `evaluate` for what else the protocol is told. What rows have in
common, also those of several tables, is trained and adapted once. Results go to `benchmarks/results/TABLE/`.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from scaffold import Benchmark, data_folder, provenance, wait
from tacit.adapt.adaptation import adapt
from tacit.adapt.settings import AdaptSettings
from tacit.adapt.training_queries import training_queries, validation_queries
from tacit.engine.engine import Engine
from tacit.evaluate.evaluation import missing_rows
from tacit.evaluate.protocol import evaluate, one_hop_queries
from tacit.evaluate.results import AVERAGES
from tacit.evaluate.validation import validation
from tacit.graph.datasets import load
from tacit.graph.graph import SPLITS, Graph
from tacit.links.factors import FactorModel
from tacit.links.settings import TrainSettings
from tacit.links.training import train
from tacit.query.queries import QuerySet, read_queries
from tacit.query.sampling import sample
from tacit.query.shapes import SHAPES, parse_shapes

# How rows adapt where they say nothing else.
SIGMOID = {"calibration": "sigmoid", "observed": "none", "held_out": False, "loss": "log"}
ROWS = Path(__file__).with_name("rows")
# What makes a row one to try the pipeline with, whatever its own settings.
SHRUNK: dict[str, dict[str, Any]] = {
    "train": {"epochs": 1, "rank": 4, "batch": 16},
    "adapt": {"steps": 2, "batch": 4, "validate_every": 1, "validate_queries": 2},
    "engine": {"k": 2, "steps": 2},
}
Row = dict[str, Any]


@dataclass
class Table:
    """A table under way: its graph, and what its rows share, each by the settings it depends on."""

    folder: Path
    given: argparse.Namespace
    kept: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        started = time.perf_counter()
        self.graph: Graph = load(self.folder)
        self.loading = time.perf_counter() - started

    def run(self, row: Row) -> dict[str, Any]:
        """Train, adapt and evaluate as a row says; the results with every setting and time."""
        model, training = self._once(("model", row.get("train")), lambda: self._trained(row.get("train", {})))
        making = [row.get(table) for table in ("train", "adapt", "variant")]
        scorer, adapted, adaptation = self._once(("scorer", making), lambda: self._adapted(row, model))
        engine = Engine(self.graph, scorer, adapter=adapted, **row.get("engine", {}))
        queries = self._once(("queries", row["queries"]), lambda: self._queries(row["queries"]))
        limit = self.given.limit or row.get("limit")
        started = time.perf_counter()
        asked = row.get("evaluate", {})  # what else the protocol is told, as keyword arguments
        results = evaluate(engine.reasoner, queries, limit=limit, settings=engine.about, **asked)
        report = results.to_json() | provenance(self.given) | {"title": row["title"]}
        report["settings"] = {**row, "engine": results.settings}
        split = row["queries"].get("split", "test")
        if not row["queries"].get("one_hop"):  # a fact held out is one missing link
            report["by_missing"] = missing_rows(results, self.graph, split, SPLITS[: SPLITS.index(split)])
        report["pipeline_seconds"] = {
            "load": self.loading, **training, **adaptation, "evaluate": time.perf_counter() - started,
        }  # fmt: skip
        report["parameters"] = {"frozen": sum(p.numel() for p in model.parameters())}
        if adapted is not None:
            report["parameters"]["trained"] = sum(p.numel() for p in adapted.parameters())
        return report

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What is made of some settings, made where no row before had the same."""
        name = json.dumps(key, sort_keys=True)
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]

    def _trained(self, settings: Mapping[str, Any]) -> tuple[FactorModel, dict[str, float]]:
        changed = {"device": self.given.device} | ({"rank": self.given.rank} if self.given.rank else {})
        chosen = TrainSettings.of({**settings, **changed}).settled(len(self.graph.train), self.graph.num_entities)
        validate = validation(self.graph, chosen)
        model, told = self._timed("train", lambda: train(self.graph, chosen, None, progress=False, validate=validate))
        return model.requires_grad_(False), told

    def _adapted(self, row: Row, model: FactorModel) -> tuple[FactorModel, Any, dict[str, Any]]:
        if "adapt" not in row:
            return model, None, {}
        settings = AdaptSettings.of({"device": self.given.device, **SIGMOID, **row["adapt"]})
        count = int(row.get("lessons", 10_000))
        # Those of the data set, and sampled ones of shapes it has none of.
        lessons = self._once(
            ("lessons", settings.held_out, settings.shapes, count),
            lambda: training_queries(self.graph, settings, self.folder, count),
        )
        valid = validation_queries(self.graph, settings, self.folder)
        result, told = self._timed("adapt", lambda: self._fitted(row, model, lessons, settings, valid))
        return getattr(result, "scorer", model), result.calibration, {**told, "adapt_trace": result.trace}

    def _fitted(self, row: Row, model: FactorModel, lessons: Any, settings: AdaptSettings, valid: Any) -> Any:
        variant = row["variant"].lower() if "variant" in row else None
        return adapt(self.graph, model, lessons, settings, valid=valid, variant=variant)

    def _queries(self, wanted: Mapping[str, Any]) -> dict[str, QuerySet]:
        """Queries of the folder, sampled ones where `count` says how many, or the facts of a split where `one_hop`."""
        shapes, split = parse_shapes(wanted.get("shapes", "all")), wanted.get("split", "test")
        if wanted.get("one_hop"):
            return {"1p": one_hop_queries(self.graph, split)}
        if not wanted.get("count"):
            return read_queries(self.folder, split, shapes)
        seed = int(wanted.get("seed", 0))
        return {s: sample(self.graph, SHAPES[s], split, wanted["count"], seed=seed).queries for s in shapes}

    def _timed(self, name: str, work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
        """What work makes, with its seconds and, on a GPU, the most memory it took."""
        cuda = self.given.device == "cuda"
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        started = time.perf_counter()
        made = work()
        wait(self.given.device)
        told = {name: time.perf_counter() - started}
        return made, told | ({f"{name}_peak_gb": torch.cuda.max_memory_allocated() / 1e9} if cuda else {})


def read_row(path: Path, tiny: bool = False) -> Row:
    """The settings of a row, those of the row it is `like` filled in; with `tiny`, all sizes shrunk."""
    row: Row = tomllib.loads(path.read_text(encoding="utf-8"))
    if "like" in row:
        row = _merged(read_row(path.with_name(f"{row.pop('like')}.toml")), row)
    if not tiny:
        return row
    counted = {"count": 2} if row["queries"].get("count") else {}
    shrunk = {table: changes for table, changes in SHRUNK.items() if table in row}
    return _merged(row, {**shrunk, "queries": counted, "lessons": 20, "limit": 2})


def _merged(row: Row, changes: Row) -> Row:
    """A row with some of its settings changed, table by table."""
    return {
        **row,
        **{k: {**row.get(k, {}), **value} if isinstance(value, dict) else value for k, value in changes.items()},
    }


def line(name: str, report: Mapping[str, Any]) -> str:
    """One row as text: averages, then every shape, in percent."""
    averages = [f"{label} {100 * (report[label] or math.nan):5.1f}" for label in AVERAGES]
    cells = [f"{shape} {100 * value:.1f}" for shape, value in report["mrr"].items()]
    seconds = {k: round(v, 1) for k, v in report["pipeline_seconds"].items() if isinstance(v, float)}
    return f"{name:28s} {'  '.join(averages)} | {'  '.join(cells)} | {seconds}"


def measure(given: argparse.Namespace) -> None:
    """Make the rows of tables and write their results."""
    rows = {table: sorted(path.stem for path in (ROWS / table).glob("*.toml")) for table in given.table}
    wanted = given.rows.split(",") if given.rows else sorted(set().union(*rows.values()))
    if unknown := set(wanted).difference(*rows.values()):
        raise SystemExit(f"no such row: {', '.join(sorted(unknown))}; there are {rows}")
    tables: dict[str, Table] = {}
    print("ranks of ties: realistic (mean); mean per question", flush=True)
    for table in given.table:
        out = given.out / table
        out.mkdir(parents=True, exist_ok=True)
        for name in [name for name in wanted if name in rows[table]]:
            row = read_row(ROWS / table / f"{name}.toml", given.tiny)
            if row["folder"] not in tables:
                tables[row["folder"]] = Table(data_folder(given, row["folder"]), given)
            report = tables[row["folder"]].run(row)
            (out / f"{name}.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
            print(line(name, report), flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Make the rows of tables."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.set_defaults(device="cuda" if torch.cuda.is_available() else "cpu")
    benchmark.add_argument("table", nargs="+", choices=sorted(path.name for path in ROWS.iterdir()))
    benchmark.add_argument("--rows", help="names of rows, joined by commas; all by default")
    benchmark.add_argument("--limit", type=int, help="evaluate so many queries of each shape")
    benchmark.add_argument("--rank", type=int, help="another rank, to try the pipeline on a small machine")
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
