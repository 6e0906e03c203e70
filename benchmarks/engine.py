"""The time of official queries, ranking included, beside the bare matrix products they cannot do without.

    python benchmarks/engine.py [--data FOLDER] [--run RUN] [--types 1p,2p] [--queries 500] [--no-peaks]
    python benchmarks/engine.py --device cuda [--run RUN] [--exact-run RUN]

On a CPU: NELL995's test queries of all 14 types at rank 100, k = 64, product, sigmoid, on 2 threads, and the peak
memory of 3p at k = 512 and 8,192, in a process of its own. On a GPU: 2p queries a second at rank 1000, k = 256, at each
precision with its MRR, and with exact search on FB15k-237. The folder (or the variable TACIT_DATA, `.bench` by
default) holds both as BetaE folders. Without a run the weights are random, normal with deviation 0.5, so that logits
spread as trained ones do; candidates are then shared by fewer queries, and the MRR says nothing.

The floor is the product of as many rows a query as its plan has atoms with an entity, and k for each hop, into memory
that is there already, at the best of several block sizes; floor and engine are timed in turns, and the best rounds
count. Beside the time on the clock stands the processor time of all threads, divided by their number, which other work
on the machine disturbs less. Run it with OMP_WAIT_POLICY=PASSIVE: waiting threads then use no processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tacit.engine.atoms import PRECISIONS, Atoms
from tacit.engine.calibration import calibration
from tacit.engine.facts import Facts
from tacit.engine.logic import Logic
from tacit.engine.ranking import slots
from tacit.engine.reasoner import MessageReasoner
from tacit.evaluate.protocol import measure, sample
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.links.factors import BilinearModel
from tacit.links.loading import load_model
from tacit.links.models import ComplEx
from tacit.query import plan as p
from tacit.query.queries import QuerySet, read_queries
from tacit.runs import RunFolder

# Milliseconds a query: the goal on 2 cores, and the published implementation there, one query at a time.
GOALS = {
    "1p": (2.5, "21"), "2i": (4, "26"), "3i": (5, "39"), "2in": (4, "31"), "3in": (5, "41"), "2u": (4, "30"),
    "2p": (26, "63-85"), "pi": (26, "63-85"), "ip": (28, "88-94"), "up": (28, "88-94"), "inp": (28, "88-94"),
    "pin": (28, "88-94"), "pni": (28, "88-94"), "3p": (55, "5600"),
}  # fmt: skip
FLOOR = 1.6  # times the bare products, for the types with hops
PEAKS = {512: 16, 8192: 2}  # k, and how many 3p queries
PEAK_GB = 4.0
WHOLE_ROWS = ("1p", "2i", "2p")  # types timed with softmax-count too, which needs whole rows
K, RANK = 64, 100
CUDA_K, CUDA_RANK = 256, 1000


Times = tuple[float, float]  # milliseconds by the clock, and of processor time by thread


class Clock:
    """Starts when it is made."""

    def __init__(self) -> None:
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def stop(self, count: int) -> Times:
        """The time of each of `count` things done since."""
        processor = (time.process_time() - self._processor) / torch.get_num_threads()
        return 1e3 * (time.perf_counter() - self._wall) / count, 1e3 * processor / count


def least(times: list[Times], share: int = 1) -> Times:
    """The best of both kinds, `share` times over."""
    wall, processor = zip(*times, strict=True)
    return share * min(wall), share * min(processor)


@dataclass(frozen=True)
class Bench:
    """A graph's folder, a model of it, and queries."""

    folder: Path
    graph: Graph
    model: BilinearModel

    @classmethod
    def of(cls, folder: Path, rank: int, run: str | None, device: str) -> Bench:
        """The graph of a folder with the model of a run, or with random weights."""
        if not folder.is_dir():
            raise SystemExit(f"no folder {folder}; give --data, or set TACIT_DATA to the folder that holds it")
        graph = load(str(folder))
        if run is None:
            model: Any = ComplEx(graph.num_entities, graph.num_relations, rank)
            model.reset(0.5, torch.Generator().manual_seed(0))
        else:
            opened = RunFolder.open(run)
            opened.check(graph)
            model = load_model(opened)
        return cls(folder, graph, model.to(device).requires_grad_(False))

    def reasoner(self, k: int | None, name: str = "sigmoid", precision: str = "float32") -> MessageReasoner:
        """Beam search, or exact search where `k` is None."""
        chosen = calibration(name, Facts(self.graph.index("train"), self.model.device))
        return MessageReasoner(Atoms(self.model, chosen, precision=precision), Logic("product"), k)

    def products(self, rows: int, at_once: int, width: int) -> Times:
        """The time of the scores of some rows, `at_once` by `width` at a time, in one buffer."""
        keys = self.model.keys()
        heads = torch.randint(self.graph.num_entities, (rows,))
        relations = torch.randint(self.graph.num_relations, (rows,))
        out = torch.zeros(at_once * min(width, len(keys)))
        start = Clock()
        for row in range(0, rows, at_once):
            queries = self.model.queries(heads[row : row + at_once], relations[row : row + at_once])
            for first in range(0, len(keys), width):
                part = keys[first : first + width]
                torch.mm(queries, part.t(), out=out[: len(queries) * len(part)].view(len(queries), len(part)))
        return start.stop(rows)

    def best_block(self) -> tuple[int, int]:
        """The rows and columns at which bare products are fastest."""
        n = self.graph.num_entities
        sizes = [(rows, width) for rows in (128, 256, 512, 1024) for width in (512, 1024, 2048, 4096, n)]
        return min(sizes, key=lambda size: min(self.products(1024, *size)[1] for _ in range(3)))


def rows_of(node: Any, k: int) -> int:
    """How many rows of scores a query needs: one for an atom with an entity, k for a hop."""
    match node:
        case p.Row():
            return 1
        case p.Project(_, source, _):
            return k + rows_of(source, k)
        case p.Intersect(parts) | p.Union(parts):
            return sum(rows_of(part, k) for part in parts)
        case p.Complement(part):
            return rows_of(part, k)
    raise TypeError(f"{node} is in none of the 14 types")


def on_cpu(bench: Bench, types: list[str], count: int, rounds: int, peaks: bool, out: Path) -> None:
    """Time all types in turns with the products, print a table, and write it as JSON."""
    queries = {name: sample(chosen, count) for name, chosen in read_queries(bench.folder, "test", types).items()}
    reasoner, block = bench.reasoner(K), bench.best_block()
    report: dict[str, Any] = {
        "settings": settings(bench) | {"k": K, "calibration": "sigmoid", "block": block, "rounds": rounds},
        "types": {},
    }
    print(f"{'':20}by the clock{'':10}processor time by thread")
    print(f"type queries{'ms':>8}{'goal':>6}{'floor':>8}{'ratio':>7}{'ms':>9}{'floor':>8}{'ratio':>7}  published ms")
    for name, chosen in queries.items():
        row = compare(bench, reasoner, chosen, block, rounds)
        report["types"][name] = row
        print(
            f"{name:5}{len(chosen):7}{row['ms']:8.2f}{row['goal_ms']:6}{row['floor_ms']:8.2f}{row['ratio']:7.2f}"
            f"{row['processor_ms']:9.2f}{row['processor_floor_ms']:8.2f}{row['processor_ratio']:7.2f}"
            f"{row['published_ms']:>14}",
            flush=True,
        )
        out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    report["softmax-count"] = whole_rows(bench, queries, rounds)
    report["peaks"] = peak_memory(bench.folder) if peaks else {}
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def compare(
    bench: Bench, reasoner: MessageReasoner, queries: QuerySet, block: tuple[int, int], rounds: int
) -> dict[str, Any]:
    """The engine and the bare products, in turns."""
    bare, taken = [bench.products(1024, *block)], []
    for _ in range(rounds):
        clock = Clock()
        measure(reasoner, queries)
        taken.append(clock.stop(len(queries)))
        bare.append(bench.products(1024, *block))
    ms, processor = least(taken)
    floor, processor_floor = least(bare, rows_of(queries.shape.plan.root, K))
    goal, published = GOALS[queries.name]
    return {
        "queries": len(queries), "ms": ms, "goal_ms": goal, "floor_ms": floor, "ratio": ms / floor,
        "processor_ms": processor, "processor_floor_ms": processor_floor,
        "processor_ratio": processor / processor_floor, "published_ms": published,
    }  # fmt: skip


def whole_rows(bench: Bench, queries: dict[str, QuerySet], rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds a query with softmax-count, whose rows cannot be cut."""
    reasoner, found = bench.reasoner(K, "softmax-count"), {}
    for name in WHOLE_ROWS:
        if name in queries:
            taken = []
            for _ in range(rounds):
                clock = Clock()
                measure(reasoner, queries[name][:128])
                taken.append(clock.stop(len(queries[name][:128])))
            found[name] = dict(zip(("ms", "processor_ms"), least(taken), strict=True))
            print(
                f"{name:5} with softmax-count {found[name]['ms']:.2f} ms, {found[name]['processor_ms']:.2f} of threads"
            )
    return found


def peak_memory(folder: Path) -> dict[int, dict[str, float]]:
    """The peak memory and the time of 3p queries with large beams, each in a process of its own."""
    found = {}
    for k in PEAKS:
        command = [sys.executable, __file__, "--data", str(folder.parent), "--peak", str(k)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[k] = json.loads(done.stdout.splitlines()[-1])
        print(f"3p at k = {k:,}: {found[k]['gb']:.2f} GB at most, {found[k]['s']:.2f} s a query", flush=True)
    return found


def peak(bench: Bench, k: int) -> None:
    """Answer 3p queries with a large beam, and print the time and the peak memory of this process."""
    chosen = sample(read_queries(bench.folder, "test", "3p")["3p"], PEAKS[k])
    taken = measure(bench.reasoner(k), chosen).seconds / len(chosen)
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    print(json.dumps({"queries": len(chosen), "gb": peak * 1024 / 1e9, "s": taken}))


def on_cuda(data: Path, run: str | None, exact_run: str | None, count: int, rounds: int, out: Path) -> None:
    """2p queries a second at each precision, and with exact search, ranking included."""
    bench = Bench.of(data / "NELL995", CUDA_RANK, run, "cuda")
    chosen = sample(read_queries(bench.folder, "test", "2p")["2p"], count)
    beam: dict[str, dict[str, float]] = {}
    for precision in PRECISIONS:
        beam[precision] = throughput(bench.reasoner(CUDA_K, precision=precision), chosen, rounds)
        beam[precision]["mrr_difference"] = beam[precision]["mrr"] - beam["float32"]["mrr"]
        show(f"2p, k = {CUDA_K}, {precision}", beam[precision])
    small = Bench.of(data / "FB15k-237", CUDA_RANK, exact_run, "cuda")
    few = sample(read_queries(small.folder, "valid", "2p")["2p"], max(1, count // 8))
    exact = {}
    for precision in PRECISIONS:
        exact[precision] = throughput(small.reasoner(None, precision=precision), few, rounds)
        exact[precision]["mrr_difference"] = exact[precision]["mrr"] - exact["float32"]["mrr"]
        show(f"2p, exact, FB15k-237, {precision}", exact[precision])
    report = {"settings": settings(bench) | {"k": CUDA_K, "trained": run is not None}, "beam": beam, "exact": exact}
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def throughput(reasoner: MessageReasoner, queries: QuerySet, rounds: int) -> dict[str, float]:
    """Queries a second, scoring alone and with the ranking of answers, and the MRR."""
    plan, given = queries.shape.plan, slots(queries)
    reasoner.scores(plan, given[0][:8], given[1][:8])
    scoring, ranked = float("inf"), []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for first in range(0, len(queries), 512):
            reasoner.scores(plan, given[0][first : first + 512], given[1][first : first + 512])
        torch.cuda.synchronize()
        scoring = min(scoring, time.perf_counter() - start)
        ranked.append(measure(reasoner, queries))
    best = min(figures.seconds for figures in ranked)
    mrr = float(ranked[0].values["mrr"].mean())
    return {"queries_per_s": len(queries) / best, "scored_per_s": len(queries) / scoring, "mrr": mrr}


def show(name: str, row: dict[str, float]) -> None:
    """One line of a table."""
    print(
        f"{name:32}{row['queries_per_s']:9,.0f} queries/s {row['scored_per_s']:9,.0f} scored/s "
        f"{100 * row['mrr']:7.2f} MRR {100 * row['mrr_difference']:+7.3f}",
        flush=True,
    )


def settings(bench: Bench) -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "graph": bench.graph.name,
        "rank": bench.model.rank,
        "device": bench.model.device.type,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


@torch.no_grad()
def main() -> None:
    """Print tables and write the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TACIT_DATA", ".bench")))
    parser.add_argument("--run", help="a run trained on NELL995")
    parser.add_argument("--exact-run", help="a run trained on FB15k-237, for exact search on a GPU")
    parser.add_argument("--types", default=",".join(GOALS))
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--no-peaks", action="store_true", help="leave the large beams out")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    given.out.mkdir(exist_ok=True)
    if given.device == "cuda":
        out = given.out / "engine-cuda.json"
        on_cuda(given.data, given.run, given.exact_run, max(given.queries, 4096), given.rounds, out)
        return
    bench = Bench.of(given.data / "NELL995", RANK, given.run, "cpu")
    if given.peak:
        peak(bench, given.peak)
        return
    types = given.types.split(",")
    on_cpu(bench, types, given.queries, given.rounds, not given.no_peaks, given.out / "engine.json")


if __name__ == "__main__":
    main()
