"""What adaptation brings on `world`, from sampling to evaluation, on a CPU.

    python benchmarks/world.py [--count 200]

Sigmoid scores, negation of strength 1, no observed facts, k = 64: the link predictor alone, with an adapter learned
from training queries (by the paper's loss and by log-scores), and with one learned from held-out queries. Fails where
adaptation does not at least triple avg_n, lowers avg_p, or takes more than a minute from sampling to evaluation.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from tacit.adapt.settings import AdaptSettings
from tacit.adapt.sources import training_queries, validation_queries
from tacit.adapt.training import adapt
from tacit.engine.calibration import Calibration
from tacit.engine.engine import Engine
from tacit.evaluate.protocol import evaluate
from tacit.evaluate.results import Results
from tacit.links.loading import load_model
from tacit.query.sampling import sample
from tacit.query.shapes import SHAPES
from tacit.runs import RunFolder, versions
from tacit.workbench import world_run

STEPS = {"steps": 300, "batch": 256, "device": "cpu"}
ROWS = {
    "unadapted": None,
    "1vsall": AdaptSettings(loss="1vsall", **STEPS),  # type: ignore[arg-type]
    "log": AdaptSettings(loss="log", **STEPS),  # type: ignore[arg-type]
    "held-out": AdaptSettings(loss="log", held_out=True, **STEPS),  # type: ignore[arg-type]
}


def main() -> None:
    """Print a table, write one file of results per row, and check the bars."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="test queries of each shape")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    run = RunFolder.open(world_run())
    graph, model = run.graph(), load_model(run)
    started = time.perf_counter()
    test = {name: sample(graph, shape, "test", given.count).queries for name, shape in SHAPES.items()}
    sampling = time.perf_counter() - started

    def measured(calibration: Calibration | None) -> Results:
        options = {"calibration": "sigmoid", "strength": 1.0, "observed": "none", "k": 64}
        engine = Engine(graph, model, adapted=calibration, **options)
        return evaluate(engine.reasoner, test, settings={"graph": "world"} | engine.about)

    print(f"{'':12}{'avg_p':>8}{'avg_n':>8}{'steps':>8}{'seconds':>9}")
    found, failures = {}, []
    for name, settings in ROWS.items():
        began, about, calibration = time.perf_counter(), {}, None
        if settings is not None:
            learned = training_queries(graph, settings, count=2000)
            result = adapt(graph, model, learned, settings, valid=validation_queries(graph, settings))
            about, calibration = {"adapt": settings.to_dict(), **result.summary}, result.calibration
        results = measured(calibration)
        seconds = sampling + time.perf_counter() - began
        p, n = (100 * (results.average(which) or 0.0) for which in ("avg_p", "avg_n"))
        found[name] = p, n
        print(f"{name:12}{p:8.1f}{n:8.1f}{about.get('best_step', 0):8}{seconds:9.1f}")
        report = results.to_json() | {"versions": versions(), "adaptation": about, "total_seconds": round(seconds, 1)}
        (given.out / f"world-adapt-{name}.json").write_text(json.dumps(report, indent=1) + "\n")
        if settings is not None and (n < 3 * found["unadapted"][1] or p < found["unadapted"][0] or seconds > 60):
            failures.append(name)
    if failures:
        raise SystemExit(f"below the bar: {', '.join(failures)}")


if __name__ == "__main__":
    main()
