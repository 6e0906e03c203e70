"""Which way to learn negation does best on an inner split of NELL995's training facts.

    python benchmarks/negation.py --device cuda

Test queries are never looked at; the inner split is that of `choose.py`. Adapters learn from
queries that need inner validation facts (or, by the paper's recipe, from training queries) and
answer queries that need official validation facts, over the inner training facts: facts are missing
in the proportions in which they are missing in the official test.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from choose import inner_split
from reproduce import ROWS, SHRUNK, SIGMOID, read_row
from scaffold import Benchmark, graph_of, provenance, timed, write
from tacit.adapt.adaptation import AdaptResult, adapt
from tacit.adapt.settings import AdaptSettings
from tacit.adapt.training_queries import training_queries, validation_queries
from tacit.engine.atoms.calibration import Calibration
from tacit.engine.engine import Engine
from tacit.evaluate.protocol import evaluate
from tacit.graph.graph import Graph
from tacit.links.factors import FactorModel
from tacit.links.settings import TrainSettings
from tacit.links.training.link_training import train
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES, parse_shapes

KNOWN: dict[str, Any] = {
    "calibration": "softmax-count",
    "observed": "train",
    "held_out": True,
    "loss": "log",
    "steps": 400,
}
NEGATION = KNOWN | {"learn": "negation", "shapes": "2in,3in"}
FIVE = NEGATION | {"shapes": "2in,3in,inp,pin,pni"}
PAPER = SIGMOID | {"steps": 400}
SEES: dict[str, dict[str, Any]] = {
    "p": {},
    "sp": {"condition": "sp"},
    "sp, 2 layers": {"condition": "sp", "layers": 2},
}
# The row whose engine is asked, what is adapted, and further settings of that engine.
CANDIDATES: dict[str, tuple[str, Mapping[str, Any] | None, Mapping[str, Any]]] = {
    **{
        f"strength {s:g}": ("tacit-train", None, {"strength": s})
        for s in (1.0, 4.0, 8.0, 12.0, 20.0)
    },
    "learned": ("tacit-train", NEGATION, {}),
    "learned, halved": ("tacit-train", NEGATION | {"halved": True}, {}),
    "learned, halved, five shapes": ("tacit-train", FIVE | {"halved": True}, {}),
    "learned, halved, five shapes, x2": ("tacit-train", FIVE | {"halved": True}, {"strength": 2.0}),
    **{
        f"both, {name}": ("tacit-train", KNOWN | {"learn": "both"} | sees, {})
        for name, sees in SEES.items()
    },
    **{f"paper, {name}": ("cqd-a", PAPER | sees, {}) for name, sees in SEES.items()},
    **{
        f"paper, {name}, both": ("cqd-a", PAPER | sees | {"learn": "both"}, {})
        for name, sees in SEES.items()
    },
}


class Inner:
    """The inner split with its link predictor, and the queries it is tested with."""

    def __init__(self, given: argparse.Namespace) -> None:
        row = read_row(ROWS / "nell995" / "tacit-train.toml", given.tiny)
        self.given = given
        self.graph: Graph = inner_split(graph_of(given, row["folder"]), given.seed)
        sizes = {"rank": given.rank, "epochs": given.epochs, "reg": given.reg}
        chosen = {
            **row["train"],
            "device": given.device,
            **{key: value for key, value in sizes.items() if value},
        }
        self.trained = TrainSettings.of(chosen)
        self.model: FactorModel = train(self.graph, self.trained, None, False).requires_grad_(False)
        shapes = parse_shapes(given.shapes)
        self.queries: dict[str, QuerySet] = {
            name: sample(self.graph, SHAPES[name], "test", given.count, seed=3).queries
            for name in shapes
        }
        self.lessons: dict[tuple[Any, ...], Mapping[str, QuerySet]] = {}
        self.adapted: dict[str, tuple[Calibration, dict[str, Any]]] = {}

    def tried(
        self, row: str, changes: Mapping[str, Any] | None, engine: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What a candidate reaches, and how long it was adapted."""
        asked = read_row(ROWS / "nell995" / f"{row}.toml", self.given.tiny)["engine"]
        adapter, told = (None, {}) if changes is None else self.learned(changes)
        searching = Engine(
            self.graph, self.model, adapter=adapter, **{**asked, "k": self.given.k, **engine}
        )
        results = evaluate(searching.reasoner, self.queries).to_json()
        return {"avg_p": results["avg_p"], "avg_n": results["avg_n"], **results["mrr"], **told}

    def learned(self, changes: Mapping[str, Any]) -> tuple[Calibration, dict[str, Any]]:
        """What is learned by some settings, once for all candidates that share them."""
        given = self.given
        name = json.dumps(changes, sort_keys=True)
        if name not in self.adapted:
            tiny = SHRUNK["adapt"] if given.tiny else {}
            settings = AdaptSettings.of({"device": given.device, **changes, **tiny})
            key = settings.held_out, settings.halved, settings.shapes
            if key not in self.lessons:
                self.lessons[key] = training_queries(self.graph, settings, None, given.lessons)
            result, seconds, _ = timed(
                partial(self._learn, self.lessons[key], settings), given.device
            )
            told = {"seconds": seconds, "best_step": result.summary["best_step"]}
            told |= {
                key: value for key, value in result.summary.items() if key.startswith("strength")
            }
            self.adapted[name] = result.calibration, told
        return self.adapted[name]

    def _learn(self, lessons: Mapping[str, QuerySet], settings: AdaptSettings) -> AdaptResult:
        return adapt(
            self.graph,
            self.model,
            lessons,
            settings,
            valid=validation_queries(self.graph, settings),
        )


def measure(given: argparse.Namespace) -> None:
    """Print the inner MRR of every candidate and write `nell995/negation.json`."""
    inner = Inner(given)
    wanted = given.only.split(";") if given.only else list(CANDIDATES)
    mrr: dict[str, dict[str, Any]] = {}
    for name in wanted:
        mrr[name] = inner.tried(*CANDIDATES[name])
        shown = {
            key: round(100 * mrr[name][key], 2)
            for key in ("avg_p", "avg_n", *inner.queries)
            if mrr[name][key]
        }
        print(f"{name:22s}", shown, round(mrr[name].get("seconds", 0.0), 1), flush=True)
    report = {
        "mrr": mrr,
        "queries": given.count,
        "train": inner.trained.to_dict(),
        **provenance(given),
    }
    write(given.out / "nell995" / "negation.json", report)


def main(argv: Sequence[str] | None = None) -> None:
    """Evaluate all candidates."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.set_defaults(device="cuda" if torch.cuda.is_available() else "cpu")
    benchmark.size("--count", 500, tiny=2, help="queries of each shape to test with")
    benchmark.size("--lessons", 10_000, tiny=20, help="queries of each shape to learn from")
    benchmark.size("--k", 256, tiny=2)
    benchmark.add_argument("--shapes", default="all", help="shapes to test with")
    benchmark.add_argument("--only", help="names of candidates, joined by semicolons")
    benchmark.add_argument("--rank", type=int)
    benchmark.add_argument("--epochs", type=int)
    benchmark.add_argument("--reg", type=float)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
