"""Reproduces a table, whole pipelines from raw triples: train, adapt, evaluate, one settings file per row.

    python benchmarks/reproduce.py nell995 --device cuda
    python benchmarks/reproduce.py fb15k237 --device cuda --rows cqd-beam,cqd-a

Rows are the files in `benchmarks/rows/TABLE/`; each may name another with `like` and change some of its settings. What
rows have in common is trained and adapted once. Results go to `benchmarks/results/TABLE/`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tacit.adapt.settings import AdaptSettings
from tacit.adapt.sources import training_queries, validation_queries
from tacit.adapt.training import adapt
from tacit.adapt.variants import fit_variant
from tacit.engine.engine import Engine
from tacit.evaluate.protocol import evaluate, one_hop_queries
from tacit.evaluate.results import AVERAGES, average
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.links.factors import FactorModel
from tacit.links.settings import TrainSettings
from tacit.links.training import train
from tacit.query.queries import QuerySet, read_queries
from tacit.query.sampling import sample
from tacit.query.shapes import SHAPES, parse_shapes
from tacit.runs import versions

HERE = Path(__file__).parent
Row = dict[str, Any]


@dataclass
class Table:
    """A table under way: its graph, and what its rows share."""

    name: str
    folder: Path
    device: str
    limit: int | None
    rank: int | None
    out: Path
    models: dict[str, tuple[FactorModel, dict[str, float]]] = field(default_factory=dict)
    queries: dict[str, dict[str, QuerySet]] = field(default_factory=dict)
    lessons: dict[str, dict[str, QuerySet]] = field(default_factory=dict)
    fitted: dict[str, tuple[FactorModel, Any, dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        started = time.perf_counter()
        self.graph: Graph = load(self.folder)
        self.loading = time.perf_counter() - started

    def run(self, row: Row) -> dict[str, Any]:
        """Train, adapt and evaluate as a row says; the results with every setting and time."""
        model, training = self._model(row.get("train", {}))
        key = json.dumps([row.get(part) for part in ("train", "adapt", "variant")], sort_keys=True)
        if key not in self.fitted:
            self.fitted[key] = self._adapted(row, model)
        scorer, adapted, adaptation = self.fitted[key]
        engine = Engine(self.graph, scorer, adapter=adapted, **row.get("engine", {}))
        started = time.perf_counter()
        results = evaluate(engine.reasoner, self._queries(row["queries"]), limit=self.limit or row.get("limit"))
        self._wait()
        found = results.to_json() | {"title": row["title"], "settings": {**row, "engine": engine.about}}
        found["pipeline_seconds"] = {
            "load": self.loading, **training, **adaptation, "evaluate": time.perf_counter() - started,
        }  # fmt: skip
        found["parameters"] = {"frozen": sum(p.numel() for p in model.parameters())}
        if adapted is not None:
            found["parameters"]["trained"] = sum(p.numel() for p in adapted.parameters())
        found["versions"] = versions() | {"device": device_name(self.device)}
        return found

    def _model(self, given: Mapping[str, Any]) -> tuple[FactorModel, dict[str, float]]:
        settings = TrainSettings.of({**given, "device": self.device, **({"rank": self.rank} if self.rank else {})})
        key = json.dumps(settings.to_dict(), sort_keys=True)
        if key not in self.models:
            if self.device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            started = time.perf_counter()
            model = train(self.graph, settings, None, progress=False)
            self._wait()
            told = {"train": time.perf_counter() - started}
            if self.device == "cuda":
                told["train_peak_gb"] = torch.cuda.max_memory_allocated() / 1e9
            for parameter in model.parameters():
                parameter.requires_grad_(False)
            self.models[key] = model, told
        return self.models[key]

    def _adapted(self, row: Row, model: FactorModel) -> tuple[FactorModel, Any, dict[str, Any]]:
        if "adapt" not in row:
            return model, None, {}
        settings = AdaptSettings(device=self.device, **row["adapt"])
        lessons = self._lessons(settings, int(row.get("lessons", 10_000)))
        valid = validation_queries(self.graph, settings, self.folder)
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        started = time.perf_counter()
        if "variant" in row:
            result: Any = fit_variant(row["variant"], self.graph, model, lessons, settings, valid=valid)
        else:
            result = adapt(self.graph, model, lessons, settings, valid=valid)
        self._wait()
        told: dict[str, Any] = {"adapt": time.perf_counter() - started, "adapt_trace": result.trace}
        if self.device == "cuda":
            told["adapt_peak_gb"] = torch.cuda.max_memory_allocated() / 1e9
        return getattr(result, "scorer", model), result.calibration, told

    def _lessons(self, settings: AdaptSettings, count: int) -> dict[str, QuerySet]:
        """The queries an adapter learns from: those of the data set, and sampled ones of shapes it has none of."""
        key = f"{settings.held_out} {settings.shapes} {count}"
        if key not in self.lessons:
            self.lessons[key] = training_queries(self.graph, settings, self.folder, count)
        return self.lessons[key]

    def _queries(self, wanted: Mapping[str, Any]) -> dict[str, QuerySet]:
        """Queries of the folder, sampled ones where `count` says how many, or the facts of a part where `one_hop`."""
        key = json.dumps(wanted, sort_keys=True)
        if key not in self.queries:
            shapes, split = parse_shapes(wanted.get("shapes", "all")), wanted.get("split", "test")
            if wanted.get("one_hop"):
                self.queries[key] = {"1p": one_hop_queries(self.graph, split)}
            elif wanted.get("count"):
                seed = int(wanted.get("seed", 0))
                drawn = {s: sample(self.graph, SHAPES[s], split, wanted["count"], seed=seed).queries for s in shapes}
                self.queries[key] = drawn
            else:
                self.queries[key] = read_queries(self.folder, split, shapes)
        return self.queries[key]

    def _wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def read_row(path: Path) -> Row:
    """The settings of a row, those of the row it is `like` filled in."""
    row: Row = tomllib.loads(path.read_text(encoding="utf-8"))
    if "like" not in row:
        return row
    merged = read_row(path.with_name(f"{row.pop('like')}.toml"))
    for name, value in row.items():
        merged[name] = {**merged.get(name, {}), **value} if isinstance(value, dict) else value
    return merged


def device_name(device: str) -> str:
    """What the figures were measured on, in words."""
    return torch.cuda.get_device_name() if device == "cuda" else f"{os.cpu_count()} cores"


def line(name: str, found: Mapping[str, Any]) -> str:
    """One row as text: averages, then every shape, in percent."""
    mrr = found["mrr"]
    averages = [f"{label} {100 * (average(mrr, shapes) or np.nan):5.1f}" for label, shapes in AVERAGES.items()]
    cells = [f"{shape} {100 * value:.1f}" for shape, value in mrr.items()]
    seconds = {k: round(v, 1) for k, v in found["pipeline_seconds"].items() if isinstance(v, float)}
    return f"{name:28s} {'  '.join(averages)} | {'  '.join(cells)} | {seconds}"


def main() -> None:
    """Make the rows of a table and write their results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=sorted(p.name for p in (HERE / "rows").iterdir()))
    parser.add_argument("--rows", help="names of rows, joined by commas; all by default")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".bench")))
    parser.add_argument("--limit", type=int, help="evaluate so many queries of each shape")
    parser.add_argument("--rank", type=int, help="another rank, to try the pipeline on a small machine")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    given = parser.parse_args()
    paths = sorted((HERE / "rows" / given.table).glob("*.toml"))
    names = given.rows.split(",") if given.rows else [p.stem for p in paths]
    rows = {name: read_row(HERE / "rows" / given.table / f"{name}.toml") for name in names}
    folder = given.data / next(iter(rows.values()))["folder"]
    if not folder.is_dir():
        parser.error(f"no folder {folder}; unpack the data set there, or name another place with --data or TACIT_DATA")
    table = Table(given.table, folder, given.device, given.limit, given.rank, given.out / given.table)
    table.out.mkdir(parents=True, exist_ok=True)
    print("ranks of ties: realistic (mean)", flush=True)
    for name, row in rows.items():
        found = table.run(row)
        (table.out / f"{name}.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
        print(line(name, found), flush=True)


if __name__ == "__main__":
    main()
