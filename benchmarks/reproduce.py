"""Reproduces a table from raw triples by whole pipelines, one settings file per row.

    python benchmarks/reproduce.py nell995 --device cuda
    python benchmarks/reproduce.py fb15k237 fb15k237-ablation --device cuda --rows cqd-beam,cqd-a
    python benchmarks/reproduce.py nell995-systems --device cuda --rows q2b=1,betae=2.5 --budget 560

A pipeline trains, adapts, encodes and evaluates. Rows are the files in `benchmarks/rows/TABLE/`;
each may name another with `like` and change some of its settings, table by table: `train`, `rules`,
`adapt`, `encode`, `engine`, `queries`, and `evaluate` for what else the protocol is told; tables
listed in `without` are not taken over. A row with `encode` is answered by that encoder, any other
by an engine over the link predictor; rules are mixed into its scores, or take its place where there
is no `train`. What rows have in common, also those of several tables, is made once.

Results go to `benchmarks/results/TABLE/`, each as soon as it is there. A row that does not fit into
what is left of the `--budget` is skipped and named at the end, and so is one that fails.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import tomllib
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ablation_variants import fit_variant
from encoder_rows import expressible, given_queries, training_report
from scaffold import Benchmark, data_folder, provenance, timed, write
from tacit.adapt.adaptation import adapt
from tacit.adapt.mixing import fit_mixture
from tacit.adapt.settings import AdaptSettings
from tacit.adapt.training_queries import training_queries, validation_queries
from tacit.encode.encoder import Encoder
from tacit.encode.settings import SMALL, EncodeSettings
from tacit.encode.training.encoder_training import sample_validation
from tacit.encode.training.encoding import encode
from tacit.engine.engine import Engine
from tacit.engine.reasoner import Reasoner
from tacit.evaluate.protocol import evaluate, one_hop_queries
from tacit.evaluate.question_validation import validation
from tacit.evaluate.results import AVERAGES
from tacit.evaluate.settings import EvaluateSettings
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.links.factors import FactorModel
from tacit.links.rules.mining import mine
from tacit.links.rules.rule_scorer import RuleScorer
from tacit.links.rules.settings import RuleSettings
from tacit.links.settings import TrainSettings
from tacit.links.training.link_training import train
from tacit.query.sampling.hardness import missing_links
from tacit.query.sampling.queries import QuerySet, read_queries
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import NEGATIVE, SHAPES, parse_shapes

# How rows adapt where they say nothing else.
SIGMOID = {"calibration": "sigmoid", "observed": "none", "held_out": False, "loss": "log"}
ROWS = Path(__file__).with_name("rows")
# What makes a row one to try the pipeline with, whatever its own settings.
SHRUNK: dict[str, dict[str, Any]] = {
    "train": {"epochs": 1, "rank": 4, "batch": 1000},
    "adapt": {"steps": 2, "batch": 4, "validate_every": 1, "validate_queries": 2},
    "engine": {"k": 2, "steps": 2},
    "encode": {
        "minutes": None, "steps": 2, "width": 4, "hidden": 4, "layers": 1, "bases": 2, "batch": 16,
        "negatives": 4, "validate_queries": 2,
    },
}  # fmt: skip
# seconds to keep free for training a link predictor, and for all test queries
PREDICTOR = 130.0
EVALUATION = 30.0
Row = dict[str, Any]


@dataclass(frozen=True)
class RowSetup:
    """The reasoner and queries of a row, with the settings, times and notes of its report."""

    reasoner: Reasoner
    queries: Mapping[str, QuerySet]
    settings: Mapping[str, Any]
    seconds: Mapping[str, Any]
    report: Mapping[str, Any]


@dataclass
class Table:
    """A table under way: its graph, and what its rows share, each by the settings it depends on."""

    folder: Path
    args: argparse.Namespace
    cache: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.graph: Graph
        self.graph, self.loading, _ = timed(partial(load, self.folder))

    def run(self, row: Row) -> dict[str, Any]:
        """Train, adapt or encode, and evaluate a row; returns results with settings and times."""
        queries = self._once(("queries", row["queries"]), lambda: self._queries(row["queries"]))
        setup = self._encoder(row, queries) if "encode" in row else self._engine(row, queries)
        limit = self.args.limit or row.get("limit")
        more = row.get("evaluate", {})  # what else the protocol is told
        how = EvaluateSettings(limit=limit, **more)
        results, taken, _ = timed(
            partial(evaluate, setup.reasoner, setup.queries, how, setup.settings)
        )
        report = results.to_json() | provenance(self.args) | {"title": row["title"], **setup.report}
        report["settings"] = {**row, "engine": results.settings}
        split = row["queries"].get("split", "test")
        if not row["queries"].get("one_hop"):  # a fact held out is one missing link
            report["by_missing"] = {
                name: figures.grouped(missing_links(figures.queries, self.graph, split), how.mean)
                for name, figures in results.figures.items()
            }
        report["pipeline_seconds"] = {"load": self.loading, **setup.seconds, "evaluate": taken}
        return report

    def needs(self, row: Row) -> float:
        """The seconds that a row takes at least, as far as one can tell before."""
        predictor = (
            PREDICTOR if "train" in row and _key("model", row["train"]) not in self.cache else 0.0
        )
        if self.args.tiny or "encode" not in row or _encoder_key(row) in self.cache:
            return predictor + EVALUATION
        # published recipes take hours
        minutes = row.get("minutes") or row["encode"].get("minutes", math.inf)
        return predictor + 60 * float(minutes) + EVALUATION

    def _engine(self, row: Row, queries: Mapping[str, QuerySet]) -> RowSetup:
        """The engine of a row over its link predictor, adapted where the row says so."""
        mined, mining = self._rules(row)
        if "train" not in row and mined is not None:
            engine = Engine(self.graph, mined, **row.get("engine", {}))
            return RowSetup(engine.reasoner, queries, engine.config, mining, {})
        model, training = self._predictor(row)
        mixture = None if mined is None else fit_mixture(self.graph, model, mined)
        making = [row.get(table) for table in ("train", "adapt", "variant")]
        scorer, adapted, adaptation = self._once(
            ("scorer", making), lambda: self._adapted(row, model)
        )
        engine = Engine(self.graph, scorer, adapter=adapted, rules=mixture, **row.get("engine", {}))
        parameters = {"frozen": _size(model)} | (
            {} if adapted is None else {"trained": _size(adapted)}
        )
        return RowSetup(
            engine.reasoner,
            queries,
            engine.config,
            {**training, **mining, **adaptation},
            {"parameters": parameters},
        )

    def _encoder(self, row: Row, queries: Mapping[str, QuerySet]) -> RowSetup:
        """The encoder of a row, over a frozen link predictor where the row trains one."""
        model, training = self._predictor(row) if "train" in row else (None, {})
        encoder, about, seconds = self._once(_encoder_key(row), lambda: self._encoded(row, model))
        query_sets, refused = expressible(encoder, queries)
        frozen = {} if model is None else {"frozen": _size(model)}
        parameters = frozen | {"trained": _size(encoder)}
        settings = {"search": "encoder", "observed": about["observed"]}
        report = {"parameters": parameters, "encoding": about, "refused": refused}
        return RowSetup(encoder.reasoner(), query_sets, settings, {**training, **seconds}, report)

    def _encoded(
        self, row: Row, model: FactorModel | None
    ) -> tuple[Encoder, dict[str, Any], dict[str, float]]:
        """Train an encoder as a row says, in other minutes where those are given."""
        values = {**row["encode"], "device": self.args.device}
        if "minutes" in row:
            values["minutes"] = row["minutes"]
        # Published sizes, whatever the graph's: what is lean on a small one is for a CPU.
        chosen = EncodeSettings.of(values).with_derived(max(self.graph.num_entities, SMALL))
        training_sets = self._training_sets(chosen) if row.get("learn_from") == "given" else None
        sampling = SHAPES, chosen.validate_queries, chosen.seed
        valid = self._once(
            ("valid", *sampling[1:]), lambda: sample_validation(self.graph, *sampling)
        )
        result, seconds = self._timed(
            "encode",
            lambda: encode(
                self.graph,
                chosen.changed(share=1.0),
                queries=training_sets,
                valid=valid,
                scorer=model,
            ),
        )
        return result.encoder, training_report(result, row["encode"], training_sets), seconds

    def _training_sets(self, chosen: EncodeSettings) -> dict[str, QuerySet]:
        """The queries of the folder to learn from, read once, whether or not an encoder negates."""
        names = [name for name in chosen.shapes or () if name not in NEGATIVE or chosen.share < 1]
        found: dict[str, QuerySet] = self._once(
            ("given", names, chosen.share), lambda: given_queries(self.graph, self.folder, chosen)
        )
        return found

    def _predictor(self, row: Row) -> tuple[FactorModel, dict[str, float]]:
        found: tuple[FactorModel, dict[str, float]] = self._once(
            ("model", row.get("train")), lambda: self._trained(row.get("train", {}))
        )
        return found

    def _rules(self, row: Row) -> tuple[RuleScorer | None, dict[str, float]]:
        """The rules of a row on its device, and the seconds that mining took."""
        if "rules" not in row:
            return None, {}
        config = RuleSettings.of(row["rules"])
        rules, seconds = self._once(
            ("rules", row["rules"]), lambda: self._timed("mine", lambda: mine(self.graph, config))
        )
        device = torch.device(self.args.device)
        index = self.graph.index("train")
        return RuleScorer(rules, index, self.graph.num_entities, device), seconds

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What is made of some settings, made where no row before had the same."""
        name = key if isinstance(key, str) else _key(*key)
        if name not in self.cache:
            self.cache[name] = make()
        return self.cache[name]

    def _trained(self, settings: Mapping[str, Any]) -> tuple[FactorModel, dict[str, float]]:
        changed = {"device": self.args.device} | (
            {"rank": self.args.rank} if self.args.rank else {}
        )
        chosen = TrainSettings.of({**settings, **changed}).with_derived(
            len(self.graph.train), self.graph.num_entities
        )
        validate = validation(self.graph, chosen)
        model, seconds = self._timed(
            "train", lambda: train(self.graph, chosen, None, progress=False, validate=validate)
        )
        return model.requires_grad_(False), seconds

    def _adapted(self, row: Row, model: FactorModel) -> tuple[FactorModel, Any, dict[str, Any]]:
        if "adapt" not in row:
            return model, None, {}
        settings = AdaptSettings.of({"device": self.args.device, **SIGMOID, **row["adapt"]})
        count = int(row.get("lessons", 10_000))
        lessons = self._once(
            ("lessons", settings.held_out, settings.shapes, count, settings.seed),
            lambda: training_queries(self.graph, settings, self.folder, count),
        )
        valid = validation_queries(self.graph, settings, self.folder)
        result, seconds = self._timed(
            "adapt", lambda: self._fitted(row, model, lessons, settings, valid)
        )
        return (
            getattr(result, "scorer", model),
            result.calibration,
            {**seconds, "adapt_trace": result.trace},
        )

    def _fitted(
        self, row: Row, model: FactorModel, lessons: Any, settings: AdaptSettings, valid: Any
    ) -> Any:
        if "variant" in row:
            name = row["variant"].lower()
            return fit_variant(name, self.graph, model, lessons, settings, valid)
        return adapt(self.graph, model, lessons, settings, valid=valid)

    def _queries(self, selection: Mapping[str, Any]) -> dict[str, QuerySet]:
        """Queries of the folder, sampled ones (`count`), or a split's facts (`one_hop`)."""
        shapes = parse_shapes(selection.get("shapes", "all"))
        split = selection.get("split", "test")
        if selection.get("one_hop"):
            return {"1p": one_hop_queries(self.graph, split)}
        if not selection.get("count"):
            return read_queries(self.folder, split, shapes)
        seed = int(selection.get("seed", 0))
        return {
            s: sample(self.graph, SHAPES[s], split, selection["count"], seed=seed).queries
            for s in shapes
        }

    def _timed(self, name: str, work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
        """What work makes, with its seconds and, on a GPU, the most memory it took."""
        cuda = self.args.device == "cuda"
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        made, taken, _ = timed(work, self.args.device)
        return made, {name: taken} | (
            {f"{name}_peak_gb": torch.cuda.max_memory_allocated() / 1e9} if cuda else {}
        )


def read_row(path: Path, tiny: bool = False) -> Row:
    """The settings of a row, with those of its `like` row; `tiny` shrinks all sizes."""
    row: Row = tomllib.loads(path.read_text(encoding="utf-8"))
    if "like" in row:
        like = read_row(path.parent / f"{row.pop('like')}.toml")
        dropped = row.pop("without", [])
        row = _merged({name: value for name, value in like.items() if name not in dropped}, row)
    if not tiny:
        return row
    counted = {"count": 2} if row["queries"].get("count") else {}
    shrunk = {table: changes for table, changes in SHRUNK.items() if table in row}
    return _merged(row, {**shrunk, "queries": counted, "lessons": 20, "limit": 2})


def _key(*parts: Any) -> str:
    return json.dumps(parts, sort_keys=True)


def _encoder_key(row: Row) -> str:
    return _key(
        "encoder", *(row.get(name) for name in ("train", "encode", "learn_from", "minutes"))
    )


def _size(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def _merged(row: Row, changes: Row) -> Row:
    """A row with some of its settings changed, table by table."""
    return {
        **row,
        **{
            k: {**row.get(k, {}), **value} if isinstance(value, dict) else value
            for k, value in changes.items()
        },
    }


def line(name: str, report: Mapping[str, Any]) -> str:
    """One row as text: averages, then every shape, in percent."""
    averages = [f"{label} {100 * (report[label] or math.nan):5.1f}" for label in AVERAGES]
    cells = [f"{shape} {100 * value:.1f}" for shape, value in report["mrr"].items()]
    seconds = {
        k: round(v, 1) for k, v in report["pipeline_seconds"].items() if isinstance(v, float)
    }
    return f"{name:28s} {'  '.join(averages)} | {'  '.join(cells)} | {seconds}"


def asked_rows(args: argparse.Namespace) -> dict[str, float | None]:
    """The rows to make, each with the minutes of its encoder's training or None.

    >>> asked_rows(argparse.Namespace(rows="gqe=1.5,q2b", minutes=2.0))
    {'gqe': 1.5, 'q2b': 2.0}
    """
    pairs = (part.partition("=") for part in (args.rows or "").split(",") if part)
    return {name: float(minutes) if minutes else args.minutes for name, _, minutes in pairs}


def measure(args: argparse.Namespace) -> None:
    """Make the rows of tables and write their results."""
    rows = {
        table: sorted(path.stem for path in (ROWS / table).glob("*.toml")) for table in args.table
    }
    minutes = asked_rows(args) or dict.fromkeys(sorted(set().union(*rows.values())), args.minutes)
    if unknown := set(minutes).difference(*rows.values()):
        raise SystemExit(f"no such row: {', '.join(sorted(unknown))}; there are {rows}")
    tables: dict[str, Table] = {}
    started = time.monotonic()
    left_out = dict[str, str]()
    print("ranks of ties: realistic (mean); mean per question", flush=True)
    for table, name in [
        (table, name) for table in args.table for name in minutes if name in rows[table]
    ]:
        row = read_row(ROWS / table / f"{name}.toml", args.tiny)
        if "encode" in row and minutes[name] is not None:
            row["minutes"] = minutes[name]
        try:
            if row["folder"] not in tables:
                tables[row["folder"]] = Table(data_folder(args, row["folder"]), args)
            left = args.budget - (time.monotonic() - started)
            if (needed := tables[row["folder"]].needs(row)) > left:
                left_out[name] = f"{name} needs {needed:.0f} s, and {left:.0f} are left"
                continue
            report = tables[row["folder"]].run(row)
        except Exception as error:  # hours of other rows may follow
            traceback.print_exc()
            left_out[name] = f"{name} failed: {error}"
            continue
        write(args.out / table / f"{name}.json", report)
        print(line(name, report), flush=True)
    if left_out:
        raise SystemExit("left out: " + "; ".join(left_out.values()))


def main(argv: Sequence[str] | None = None) -> None:
    """Make the rows of tables."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.set_defaults(device="cuda" if torch.cuda.is_available() else "cpu")
    benchmark.add_argument("table", nargs="+", choices=sorted(path.name for path in ROWS.iterdir()))
    benchmark.add_argument(
        "--rows",
        help="rows, joined by commas, each maybe with minutes: gqe=2,cqd-a; all by default",
    )
    benchmark.add_argument("--limit", type=int, help="evaluate so many queries of each shape")
    benchmark.add_argument(
        "--minutes", type=float, help="train each encoder for so long, whatever its row says"
    )
    benchmark.add_argument(
        "--budget", type=float, default=math.inf, help="seconds for all: what exceeds them is left"
    )
    benchmark.add_argument(
        "--rank", type=int, help="another rank, to try the pipeline on a small machine"
    )
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
