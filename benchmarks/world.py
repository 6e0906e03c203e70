"""What adaptation brings on `world`, from sampling to evaluation, on a CPU.

    python benchmarks/world.py [--count 200]

Sigmoid scores, negation of strength 1, no observed facts, k = 64: the link predictor alone, with an
adapter learned from training queries (by the paper's loss and by log-scores), and with one learned
from held-out queries. Fails where adaptation does not at least triple avg_n, lowers avg_p, or takes
more than a minute from sampling to evaluation.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

from scaffold import Benchmark, provenance, run_of, write
from tacit.adapt.adaptation import adapt
from tacit.adapt.settings import AdaptSettings
from tacit.adapt.training_queries import training_queries, validation_queries
from tacit.engine.engine import Engine
from tacit.evaluate.protocol import evaluate
from tacit.links.models import load_model
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES
from tacit.run_folder.folder import RunFolder

OPTIONS: dict[str, Any] = {"calibration": "sigmoid", "strength": 1.0, "observed": "none", "k": 64}
SIGMOID: dict[str, Any] = {"calibration": "sigmoid", "observed": "none", "held_out": False}
ROWS: dict[str, dict[str, Any] | None] = {
    "unadapted": None,
    "1vsall": SIGMOID | {"loss": "1vsall"},
    "log": SIGMOID | {"loss": "log"},
    "held-out": SIGMOID | {"loss": "log", "held_out": True},
}


def measure(args: argparse.Namespace) -> None:
    """Print a table, write one file of results per row, and check the bars."""
    run = RunFolder.open(run_of(args))
    graph = run.graph()
    model = load_model(run)
    started = time.perf_counter()
    test = {
        name: sample(graph, shape, "test", args.count).queries for name, shape in SHAPES.items()
    }
    sampling = time.perf_counter() - started
    print(f"{'':12}{'avg_p':>8}{'avg_n':>8}{'steps':>8}{'seconds':>9}")
    averages = dict[str, tuple[float, float]]()
    failures = []
    for name, row in ROWS.items():
        began = time.perf_counter()
        adaptation = dict[str, Any]()
        calibration = None
        if row is not None:
            sizes = {"steps": args.steps, "batch": args.batch, "validate_queries": args.validate}
            settings = AdaptSettings(device="cpu", **sizes, **row)
            lessons = training_queries(graph, settings, count=args.lessons)
            result = adapt(
                graph, model, lessons, settings, valid=validation_queries(graph, settings)
            )
            adaptation = {"adapt": settings.to_dict(), **result.summary}
            calibration = result.calibration
        engine = Engine(graph, model, adapter=calibration, **OPTIONS)
        results = evaluate(engine.reasoner, test, settings={"graph": graph.name} | engine.config)
        taken = sampling + time.perf_counter() - began
        p, n = averages[name] = (
            100 * (results.average("avg_p") or 0.0),
            100 * (results.average("avg_n") or 0.0),
        )
        print(
            f"{name:12}{p:8.1f}{n:8.1f}{adaptation.get('best_step', 0):8}{taken:9.1f}", flush=True
        )
        report = (
            results.to_json()
            | provenance(args)
            | {"adaptation": adaptation, "total_seconds": round(taken, 1)}
        )
        write(args.out / f"world-adapt-{name}.json", report)
        if row is not None and (
            n < 3 * averages["unadapted"][1] or p < averages["unadapted"][0] or taken > 60
        ):
            failures.append(name)
    if failures and not args.tiny:
        sys.exit(f"below the bar: {', '.join(failures)}")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure all rows."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--count", 200, tiny=2, help="test queries of each shape")
    benchmark.size("--lessons", 2000, tiny=20, help="queries of each shape to learn from")
    benchmark.size("--validate", 200, tiny=2, help="queries of each shape to validate with")
    benchmark.size("--steps", 300, tiny=2)
    benchmark.size("--batch", 256, tiny=4)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
