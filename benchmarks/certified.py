"""Best-first search beside the beam: rows scored, how often the answers are proven, and processor time.

    python benchmarks/certified.py [NELL995|FB15k-237] --threads 1 --runs .bench/runs

Weights of rank 100 are trained on the processor with sampled negatives, once, and kept under --runs. Questions are
BetaE's validation queries, sampled ones of the shapes that a folder lacks; training facts are known. A row is the
scores of one candidate's tails; the beam scores k of them for every variable. On graphs of at most --exact-entities
some questions are also answered by exact search.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from scaffold import Benchmark, Measured, data_folder
from tacit.engine.answers import Answers
from tacit.engine.asked import Asked
from tacit.engine.engine import Engine
from tacit.query.compile import compile_template
from tacit.query.queries import QuerySet, read_queries
from tacit.query.sampling import sample
from tacit.query.shapes import SHAPES
from tacit.sources import is_run

FOLDERS = {"NELL995": ("nell", 15), "FB15k-237": ("fb", 10)}  # of --runs, and epochs
HOPS = ("2p", "3p", "ip", "pi", "up", "inp", "pin", "pni")
CALIBRATIONS = ("softmax-count", "sigmoid")
MEDIAN, P90 = 1 / 16, 1 / 4  # of k, for 2p


def trained(given: argparse.Namespace, data: Path) -> tacit.Run:
    """The run of the graph, trained where there is none yet."""
    folder, epochs = FOLDERS[given.graph]
    path = (given.scratch if given.tiny else given.runs) / folder
    if is_run(path):
        return tacit.open(path, device="cpu")
    settings: dict[str, Any] = {"rank": 100, "batch": 1000, "negatives": 2000, "epochs": epochs}
    if given.tiny:
        settings = {"rank": 4, "epochs": 1}
    return tacit.train(data, path, device="cpu", precision="float32", validate_facts=5000, seed=given.seed, **settings)


def questions(given: argparse.Namespace, run: tacit.Run, data: Path) -> dict[str, list[Asked]]:
    """Some questions of every shape with hops."""
    read, chosen = read_queries(data, "valid"), {}
    for name in HOPS:
        shape, count = SHAPES[name], given.count
        drawn = read.get(name) or sample(run.graph, shape, "valid", count, seed=given.seed).queries
        order = np.random.default_rng(given.seed).permutation(len(drawn))[:count]
        chosen[name] = asked(drawn.subset(np.sort(order)))
    return {name: some for name, some in chosen.items() if some}


def asked(queries: QuerySet) -> list[Asked]:
    """Queries as questions that are ready to run."""
    prepared = compile_template(queries.shape.query)
    slots = zip(queries.entities.tolist(), queries.relations.tolist(), strict=True)
    return [Asked(queries.shape.query, prepared, entities, relations) for entities, relations in slots]


def timed(engine: Engine, some: Sequence[Asked], top: int) -> tuple[list[Answers], float]:
    """The answers to questions, asked one by one, and the mean processor time of one in milliseconds."""
    engine.ask_many(some[:1], top)
    start = time.process_time()
    answers = [engine.ask_many([question], top)[0] for question in some]
    return answers, 1e3 * (time.process_time() - start) / len(some)


def wrong(found: Answers, exact: Answers) -> bool:
    """Whether answers that are called certified have other scores than those of exact search."""
    one, other = ([answer.score for answer in answers] for answers in (found, exact))
    return bool(found.certified) and (len(one) != len(other) or not np.allclose(one, other, rtol=0, atol=1e-6))


def figures_of(given: argparse.Namespace, engine: Engine, some: list[Asked]) -> dict[str, float]:
    """The figures of one shape."""
    engine = engine.using(k=given.k)
    few = some[: given.timed]
    found, _ = timed(engine.using(search="certified"), some, given.top)
    taken = {search: timed(engine.using(search=search), few, given.top)[1] for search in ("certified", "beam")}
    rows = np.array([answers.rows for answers in found])
    figures = {
        "median, rows": float(np.median(rows)),
        "p90, rows": float(np.quantile(rows, 0.9)),
        "most, rows": float(rows.max()),
        "certified, share": float(np.mean([answers.certified for answers in found])),
        "ms": taken["certified"],
        "beam, ms": taken["beam"],
        "of the beam, share": taken["certified"] / taken["beam"],
    }
    if engine.graph.num_entities <= given.exact_entities:
        exact = engine.using(search="exact").ask_many(some[: given.exact], given.top)
        pairs = list(zip(found, exact, strict=False))
        figures["compared"] = len(pairs)
        figures["wrong"] = sum(wrong(one, other) for one, other in pairs)
        proven = [one.entities == other.entities for one, other in pairs if one.certified]
        figures |= {"same order, share": float(np.mean(proven))} if proven else {}
    return figures


def measure(given: argparse.Namespace) -> Measured:
    """The figures of every calibration and shape, and the goals for 2p."""
    figures, missed = {}, []
    data = data_folder(given, given.graph)
    run = trained(given, data)
    for calibration in CALIBRATIONS:
        engine = run.engine.using(observed="train", calibration=calibration)
        for shape, some in questions(given, run, data).items():
            row = f"{calibration} {shape}"
            figures[row] = found = figures_of(given, engine, some)
            if shape == "2p" and (found["median, rows"] > MEDIAN * given.k or found["p90, rows"] > P90 * given.k):
                missed.append(f"rows of {row}")
            missed += [f"equality of {row}"] if found.get("wrong") else []
    return Measured(figures, {"observed": "train", "split": "valid"}, missed, kind=given.graph.lower())


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table, write it as JSON, and fail where a goal is missed."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.add_argument("graph", nargs="?", default="NELL995", choices=list(FOLDERS), help="a folder of --data")
    benchmark.add_argument("--runs", type=Path, default=Path(".bench/runs"), help="where runs are kept")
    benchmark.add_argument("--k", type=int, default=256)
    benchmark.add_argument("--top", type=int, default=10)
    benchmark.size("--count", 50, tiny=2, help="questions of each shape")
    benchmark.size("--timed", 6, tiny=1, help="questions whose time is taken, in both searches")
    benchmark.size("--exact", 4, tiny=1, help="questions that exact search answers too")
    benchmark.add_argument("--exact-entities", type=int, default=20_000, help="of the largest graph for exact search")
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
