"""How fast a graph of a million entities trains on the CPU, beside its bare matrix products.

    python benchmarks/scale.py --steps 30
    python benchmarks/scale.py --negatives 0 --batch 128 --memory 0.5 --steps 2
    python benchmarks/scale.py --files

With `--files`, what its files cost: opening labels, memory of a worker beside others, bytes a fact,
and reading a table next to DuckDB alone. Seconds are processor seconds of processes of their own;
memory is private and dirty, less that of a process with the same imports.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scaffold import Benchmark, Measured, in_turns, peak_gb, seconds
from tacit.graph.graph import Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.links.models import make_model, save_model
from tacit.links.settings import TrainSettings
from tacit.links.training.link_training import Training
from tacit.run_folder.folder import RunFolder

GOALS = {"seconds to open labels": 0.1, "private memory / model": 0.1, "table / DuckDB": 1.3}
PROBE = """
import sys, time
from pathlib import Path
from tacit.run_folder.folder import RunFolder
from tacit.graph import datasets
from tacit.graph.formats import duckdb_tables
from tacit.graph.labels.vocabulary import Vocabulary
try:
    import duckdb, marisa_trie
except ImportError:
    pass
path = Path(sys.argv[1])
def private():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))
def timed(work):
    start = time.process_time()
    kept = work()
    return time.process_time() - start, kept
"""
OPEN_LABELS = """
before = private()
opened, graph = timed(lambda: RunFolder.open(path).graph())
middle = len(graph.entities) // 2
found, _ = timed(lambda: graph.entities.id(graph.entities[middle]))
completed, _ = timed(lambda: graph.entities.complete(f"label {middle // 10}"))
nearest, _ = timed(lambda: graph.entities.nearest(f"lable {middle}"))
print(opened, private() - before, found, completed, nearest)
"""
LIST_LABELS = """
text = (path / "entities.txt").read_text(encoding="utf-8")
before = private()
opened, words = timed(lambda: Vocabulary(text.split("\\n")[:-1]))
middle = len(words) // 2
print(opened, private() - before, timed(lambda: words.id(words[middle]))[0],
      timed(lambda: words.complete(f"label {middle // 10}"))[0],
      timed(lambda: words.nearest(f"lable {middle}"))[0])
"""
OPEN_RUN = """
import tacit, torch
import tacit.engine.engine, tacit.links.models
before = private()
opened, run = timed(lambda: tacit.open(path, device="cpu"))
run.engine.parts.facts
after = private()
run.ask("?x : r0(e1, ?x)")
print(opened, after - before, private() - before)
"""
READ_OWN = "duckdb_tables.LARGE = 1 << 60; print(timed(lambda: datasets.load(path))[0])"
READ_TABLE = "duckdb_tables.LARGE = 0; print(timed(lambda: datasets.load(path))[0])"
READ_DUCKDB = """
def read():
    with duckdb_tables.connected() as connection:
        given = [str(path), "none", "\\t", 0]
        run = connection.execute
        columns = "c0 AS h, c1 AS r, c2 AS t"
        run(f"CREATE TABLE facts AS SELECT {columns} FROM {duckdb_tables.TEXT}", given)
        for statement in duckdb_tables.NUMBERING:
            run(statement)
        return run(duckdb_tables.NUMBERS).fetchnumpy(), [
            run(duckdb_tables.LABELS.format(kind)).fetchnumpy() for kind in "er"
        ]
print(timed(read)[0])
"""


def generated(entities: int, facts: int, relations: int, seed: int) -> Graph:
    """A graph whose heads and tails follow a power law, as those of real graphs do."""
    random = np.random.default_rng(seed)
    heads, tails = (entities * random.random((2, facts)) ** 3).astype(np.int32)
    kinds = 2 * random.integers(relations, size=facts, dtype=np.int32)
    labels = Vocabulary(f"e{i}" for i in range(entities))
    return Graph(
        labels,
        directed(f"r{i}" for i in range(relations)),
        np.stack((heads, kinds, tails), 1),
        name="generated",
    )


def product_rate(rows: int, width: int, columns: int) -> float:
    """FLOP per second of one matrix product of a step's shape."""
    left = torch.randn(rows, width)
    right = torch.randn(columns, width)
    out = torch.empty(rows, columns)
    times = in_turns({"": lambda: torch.mm(left, right.T, out=out)}, 3)[""]
    return 3 * 2.0 * rows * width * columns / sum(times)


def probed(code: str, path: Path) -> list[float]:
    """The numbers that a process of its own prints."""
    command = [sys.executable, "-c", PROBE + code, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(number) for number in done.stdout.split()]


def labels_figures(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Opening many labels, as a run does it and as a list of them."""
    figures = {}
    for count in (args.labels, 5 * args.labels):
        labels = Vocabulary(f"label_{i}" for i in range(count))
        facts = np.stack(
            (np.arange(100) % count, np.zeros(100), np.arange(100)[::-1] % count), 1
        ).astype(np.int32)
        path = args.scratch / f"labels-{count}"
        RunFolder.create(path, Graph(labels, directed("r"), facts), {})
        text = (path / "entities.txt").stat().st_size
        for kind, code in (("run", OPEN_LABELS), ("list", LIST_LABELS)):
            opened, private, found, completed, suggested = probed(code, path)
            figures[f"{count:,} labels, {kind}"] = {
                "open_s": opened,
                "private / text": private / text,
                "look_up_us": 1e6 * found,
                "complete_ms": 1e3 * completed,
                "did_you_mean_ms": 1e3 * suggested,
            }
    return figures


def worker_figures(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The memory of a worker that opens a run which others may have open, and of the facts."""
    graph = generated(args.entities, args.facts, args.relations, args.seed)
    path = args.scratch / "run"
    run = RunFolder.create(path, graph, {})
    model = make_model("complex", graph.num_entities, graph.num_relations, args.rank)
    model.reset(0.1, torch.Generator().manual_seed(args.seed))
    save_model(run, model)
    size = (path / "model.safetensors").stat().st_size
    opened, private, after_question = probed(OPEN_RUN, path)
    index = graph.index()
    of_index = index.keys.nbytes + index.offsets.nbytes + index.all_tails.nbytes
    return {
        "a worker": {
            "open_s": opened,
            "private / model": private / size,
            "after a question / model": after_question / size,
        },
        "facts": {"bytes a directed fact": of_index / max(1, len(index))},
    }


def table_figures(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Reads a table of distinct facts by DuckDB alone, by Tacit with it, and by Tacit alone."""
    facts = np.unique(generated(args.entities, args.facts, args.relations, args.seed).train, axis=0)
    facts = facts[np.random.default_rng(args.seed).permutation(len(facts))]
    path = args.scratch / "table.tsv"
    with path.open("w", encoding="utf-8") as file:
        for part in np.array_split(facts, 1 + len(facts) // 500_000):
            file.write(
                "".join(f"entity_{h}\trelation_{r}\tentity_{t}\n" for h, r, t in part.tolist())
            )
    works = {"DuckDB alone": READ_DUCKDB, "Tacit with DuckDB": READ_TABLE, "Tacit alone": READ_OWN}
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(args.rounds):
        for name, code in works.items():
            taken[name] += probed(code, path)
    least = {name: min(times) for name, times in taken.items()}
    return {
        f"{len(facts):,} lines, {name}": {
            "s": least[name],
            "/ DuckDB": least[name] / least["DuckDB alone"],
        }
        for name in works
    }


def measure_files(args: argparse.Namespace) -> Measured:
    """What the files of a large graph cost to open, to hold and to read."""
    labels = labels_figures(args)
    worker = worker_figures(args)
    table = table_figures(args)
    found = {
        "seconds to open labels": max(
            row["open_s"] for name, row in labels.items() if name.endswith("run")
        ),
        "private memory / model": worker["a worker"]["private / model"],
        "table / DuckDB": next(
            row["/ DuckDB"] for name, row in table.items() if name.endswith("with DuckDB")
        ),
    }
    missed = [
        f"{name} {found[name]:.2f} > {goal}" for name, goal in GOALS.items() if found[name] > goal
    ]
    return Measured(labels | worker | table, missed=missed, kind="files")


def measure(args: argparse.Namespace) -> Measured:
    """The speed of some steps beside their floor, and the memory they take."""
    if args.files:
        return measure_files(args)
    began = time.perf_counter()
    graph = generated(args.entities, args.facts, args.relations, args.seed)
    settings = TrainSettings(
        rank=args.rank,
        batch=args.batch,
        negatives=args.negatives,
        memory=args.memory,
        device="cpu",
    )
    training = Training(graph, settings)
    update: Any = getattr(training, "update", None) or training.step  # what older trees call it
    made = time.perf_counter() - began
    triples = torch.from_numpy(graph.triples("train"))
    order = torch.randperm(len(triples), generator=torch.Generator().manual_seed(args.seed))
    batches = [triples[ids] for ids in order[: args.batch * (args.steps + 1)].split(args.batch)]
    update(batches[0], torch.Generator().manual_seed(args.seed))  # warms up
    draws = [
        (batch, torch.Generator().manual_seed(number)) for number, batch in enumerate(batches[1:])
    ]
    taken = seconds(lambda: [update(*draw) for draw in draws]) / args.steps
    compared = min(args.negatives or args.entities, 100_000)
    floor = training.flops / product_rate(args.batch, 2 * args.rank, compared)
    figures = {
        "a step": {
            "facts_per_s": args.batch / taken,
            "ms": 1e3 * taken,
            "peak_gb": peak_gb(),
            "made_s": made,
        },
        "its products alone": {"facts_per_s": args.batch / floor, "ms": 1e3 * floor},
    }
    return Measured(
        figures, {"gflop a step": training.flops / 1e9}, kind="" if args.negatives else "full"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--entities", 1_000_000, tiny=50)
    benchmark.size("--facts", 5_000_000, tiny=200)
    benchmark.size("--relations", 100, tiny=3)
    benchmark.size("--rank", 100, tiny=4)
    benchmark.size("--batch", 1000, tiny=8)
    benchmark.size("--negatives", 2000, tiny=4, help="0 compares with all entities")
    benchmark.add_argument("--memory", type=float, help="GB for scores")
    benchmark.size("--steps", 30, tiny=2)
    benchmark.add_argument(
        "--files", action="store_true", help="measure opening and reading files instead"
    )
    benchmark.size("--rounds", 3, tiny=1, help="of reading a table")
    benchmark.size("--labels", 1_000_000, tiny=50, help="and five times as many")
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
