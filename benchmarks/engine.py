"""The time of official queries, ranking included, beside that of bare matrix products.

    python benchmarks/engine.py [--data FOLDER] [--run RUN] [--types 1p,2p] [--queries 500] \\
        [--peaks 512,8192]
    python benchmarks/engine.py --device cuda [--run RUN] [--exact-run RUN]

On a CPU: NELL995's test queries of all 14 types at rank 100, k = 64, product, sigmoid, on 2
threads, and the peak memory of 3p at k = 512 and 8,192, in a process of its own. On a GPU, or with
--throughput: queries a second at rank 1000, k = 256, with its MRR: 2p at each precision, other
types in 16 bits with both calibrations and an adapter, and exact search on FB15k-237. Beside them
stands how fast bare products are, and which share of that a query reaches whose rows are its own.
Without a run the weights are random, normal with deviation 0.5, so that logits spread as trained
ones do; candidates are then shared by fewer queries, and the MRR says nothing.

The floor is the product of as many rows a query as its plan has atoms with an entity, and k for
each hop, into memory that is there already, at the best of several block sizes; floor and engine
are timed in turns, and the best rounds count. Beside the time on the clock stands the processor
time of all threads, divided by their number, which other work on the machine disturbs less. Run it
with OMP_WAIT_POLICY=PASSIVE: waiting threads then use no processor time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

from scaffold import Benchmark, Measured, Work, data_folder, graph_of, in_turns, peak_gb, timed
from tacit.engine.engine import Engine
from tacit.engine.ranking import slots
from tacit.engine.reasoner import Reasoner
from tacit.evaluate.protocol import measure, sample
from tacit.graph.graph import Graph
from tacit.links.factors import BilinearModel
from tacit.links.models import ComplEx, load_model
from tacit.query.sampling import sampling
from tacit.query.sampling.queries import QuerySet, read_queries
from tacit.query.sampling.shapes import SHAPES, Shape
from tacit.run_folder.folder import RunFolder

# Milliseconds a query: the goal on 2 cores, and the published implementation, unbatched.
GOALS = {
    "1p": (2.5, "21"), "2i": (4, "26"), "3i": (5, "39"), "2in": (4, "31"), "3in": (5, "41"),
    "2u": (4, "30"), "2p": (26, "63-85"), "pi": (26, "63-85"), "ip": (28, "88-94"),
    "up": (28, "88-94"), "inp": (28, "88-94"), "pin": (28, "88-94"), "pni": (28, "88-94"),
    "3p": (55, "5600"),
}  # fmt: skip
BATCHED = ("1p", "2p", "3p", "2i", "pi")  # types timed in batches
WHOLE_ROWS = ("1p", "2i", "2p")  # types timed with softmax-count too, which needs whole rows
LARGE = 1000  # a beam of so many candidates and more gets few queries

Times = tuple[float, float]  # milliseconds by the clock, and of processor time by thread


def times_of(work: Work, count: int = 1, device: str = "cpu") -> Times:
    """The time of each of `count` things that a call does."""
    taken = timed(work, device)
    return taken.ms / count, taken.processor_ms / torch.get_num_threads() / count


def least(times: list[Times], share: int = 1) -> Times:
    """The best of both kinds, `share` times over."""
    wall, processor = zip(*times, strict=True)
    return share * min(wall), share * min(processor)


@dataclass(frozen=True)
class Bench:
    """A graph, its folder where it has one, and a model of it."""

    folder: Path | None
    graph: Graph
    model: BilinearModel

    @classmethod
    def of(cls, args: argparse.Namespace, name: str, run: str | None) -> Bench:
        """The graph of a folder with the model of a run, or with random weights."""
        folder = None if name == "world" else data_folder(args, name)
        graph = graph_of(args, name)
        if run is None:
            model: Any = ComplEx(graph.num_entities, graph.num_relations, args.rank)
            model.reset(0.5, torch.Generator().manual_seed(args.seed))
        else:
            opened = RunFolder.open(run)
            opened.check(graph)
            model = load_model(opened)
        return cls(folder, graph, model.to(args.device).requires_grad_(False))

    def queries(self, names: Sequence[str], args: argparse.Namespace) -> dict[str, QuerySet]:
        """Official test queries of some types; sampled ones where the graph has none."""
        if self.folder is not None and (self.folder / "test-queries.pkl").exists():
            return read_queries(self.folder, "test", names)
        drawn = {
            name: sampling.sample(self.graph, SHAPES[name], "test", args.queries, seed=0)
            for name in names
        }
        return {name: each.queries for name, each in drawn.items()}

    def reasoner(
        self,
        k: int | None,
        scores: str = "sigmoid",
        precision: str = "float32",
        adapted: bool = False,
    ) -> Reasoner:
        """Beam search, or exact search where `k` is None; `adapted` adds an untrained adapter."""
        settings: dict[str, Any] = {"search": "exact"} if k is None else {"k": k}
        settings |= {"calibration": scores, "observed": "none", "precision": precision}
        if adapted:
            # here, since older trees have other names for what this needs
            from tacit.adapt.adapter import Adapter
            from tacit.adapt.calibrated import Adapted
            from tacit.engine.atoms.calibration import calibration
            from tacit.engine.atoms.known_facts import KnownFacts

            counted = KnownFacts(self.graph.index("train"), self.model.device)
            settings["adapter"] = Adapted(
                calibration(scores, counted), Adapter(self.model).requires_grad_(False)
            )
        return Engine(self.graph, self.model, **settings).reasoner

    def products(self, rows: int, at_once: int, width: int) -> Times:
        """The time of the scores of some rows, `at_once` by `width` at a time, in one buffer."""
        keys = self.model.keys()
        heads, relations = (
            torch.randint(size, (rows,), device=keys.device)
            for size in (self.graph.num_entities, self.graph.num_relations)
        )
        out = torch.zeros(at_once * min(width, len(keys)), device=keys.device)

        def multiply() -> None:
            for row in range(0, rows, at_once):
                queries = self.model.queries(
                    heads[row : row + at_once], relations[row : row + at_once]
                )
                for first in range(0, len(keys), width):
                    part = keys[first : first + width]
                    torch.mm(
                        queries,
                        part.t(),
                        out=out[: len(queries) * len(part)].view(len(queries), len(part)),
                    )

        return times_of(multiply, rows, keys.device.type)

    def best_block(self) -> tuple[int, int]:
        """The rows and columns at which bare products are fastest."""
        n = self.graph.num_entities
        sizes = [
            (rows, width) for rows in (128, 256, 512, 1024) for width in (512, 1024, 2048, 4096, n)
        ]
        return min(sizes, key=lambda size: min(self.products(1024, *size)[1] for _ in range(3)))


def rows_of(shape: Shape, k: int) -> int:
    """How many rows of scores a query needs: one for an atom with an entity, k for a hop."""
    return shape.num_entities + k * (shape.num_relations - shape.num_entities)


def types(args: argparse.Namespace) -> Measured:
    """Milliseconds a query of each type in turns with products, of whole rows, of large beams."""
    bench = Bench.of(args, args.graph, args.run)
    k = args.k
    queries = bench.queries(args.types.split(","), args)
    reasoner = bench.reasoner(k)
    block = args.block or bench.best_block()
    figures: dict[str, dict[str, Any]] = {}
    for name, chosen in queries.items():
        figures[name] = beside_products(bench, reasoner, sample(chosen, args.queries), block, args)
        print(name, f"{figures[name]['ms']:.2f} ms", file=sys.stderr, flush=True)
    reasoner = bench.reasoner(k, "softmax-count")
    for name in WHOLE_ROWS:
        if name in queries:
            taken = [
                ranked(reasoner, sample(queries[name], min(args.queries, 128)))
                for _ in range(args.rounds)
            ]
            figures[f"{name}, softmax-count"] = dict(
                zip(("ms", "processor_ms"), least(taken), strict=True)
            )
    for large in filter(None, args.peaks.split(",")):
        figures[f"3p, k = {large}"] = in_own_process(args, large)
    goals = {name: goal for name, (goal, _) in GOALS.items() if name in figures}
    missed = [
        f"{name} over {goal} ms" for name, goal in goals.items() if figures[name]["ms"] > goal
    ]
    return Measured(figures, {"block": block}, missed)


def ranked(reasoner: Reasoner, queries: QuerySet) -> Times:
    """The time of a query, ranking included."""
    return times_of(partial(measure, reasoner, queries), len(queries))


def beside_products(
    bench: Bench,
    reasoner: Reasoner,
    queries: QuerySet,
    block: tuple[int, int],
    args: argparse.Namespace,
) -> dict[str, Any]:
    """The engine and the bare products, in turns."""
    bare = [bench.products(1024, *block)]
    taken = []
    for _ in range(args.rounds):
        taken.append(ranked(reasoner, queries))
        bare.append(bench.products(1024, *block))
    ms, processor = least(taken)
    floor, processor_floor = least(bare, rows_of(queries.shape, args.k))
    return {
        "queries": len(queries), "ms": ms, "floor_ms": floor, "ratio": ms / floor,
        "processor_ms": processor, "processor_floor_ms": processor_floor,
        "processor_ratio": processor / processor_floor, "published ms": GOALS[queries.name][1],
    }  # fmt: skip


def in_own_process(args: argparse.Namespace, k: str) -> dict[str, float]:
    """The peak memory and the time of 3p queries with a large beam."""
    options = {"--data": args.data, "--graph": args.graph, "--rank": args.rank, "--peak": k}
    command = [
        sys.executable,
        __file__,
        *(str(word) for option in options.items() for word in option),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def peak(args: argparse.Namespace) -> None:
    """Answer 3p queries with a large beam; print the time and the peak memory of this process."""
    bench = Bench.of(args, args.graph, args.run)
    chosen = sample(bench.queries(["3p"], args)["3p"], 2 if args.peak >= LARGE else 16)
    taken = measure(bench.reasoner(args.peak), chosen).seconds / len(chosen)
    print(json.dumps({"queries": len(chosen), "peak_gb": peak_gb(), "s": taken}))


def throughputs(args: argparse.Namespace) -> Measured:
    """Queries a second with ranking, by precision, type and calibration, and by exact search."""
    from tacit.links.precision import NARROW  # older trees lack it, and nothing else needs it

    count = args.queries if args.tiny else max(args.queries, 4096)
    bench = Bench.of(args, args.graph, args.run)
    queries = bench.queries(BATCHED, args)
    rate = product_rate(bench.model, args)
    figures: dict[str, dict[str, float]] = {"products": {"tflop_per_s": rate / 1e12}}
    for name, where, k, chosen in (
        (f"2p, k = {args.k}", bench, args.k, sample(queries["2p"], count)),
        ("2p exact, FB15k-237", *exact_bench(args, count)),
    ):
        if where is None:
            continue
        rows = {
            p: throughput(where.reasoner(k, precision=p), chosen, args)
            for p in ("float32", "tf32", *NARROW)
        }
        for precision, row in rows.items():
            figures[f"{name}, {precision}"] = row | {
                "mrr difference": row["mrr"] - rows["float32"]["mrr"]
            }
    hows = (("sigmoid", False), ("softmax-count", False), ("softmax-count", True))
    for (scores, adapted), precision in product(hows, NARROW):
        reasoner = bench.reasoner(args.k, scores, precision, adapted)
        how = f"{scores}, adapted" if adapted else scores
        for name, every in queries.items():
            row = throughput(reasoner, sample(every, count), args)
            flop = 2.0 * rows_of(every.shape, args.k) * bench.model.keys().numel()
            figures[f"{name}, {how}, {precision}"] = row | {
                "share of products": row["queries_per_s"] * flop / rate
            }
    kind = "throughput-untrained" if args.run is None else "throughput"
    return Measured(figures, {"trained": args.run is not None}, kind=kind)


def exact_bench(args: argparse.Namespace, count: int) -> tuple[Bench | None, None, Any]:
    """FB15k-237 with some of its 2p queries, for exact search; nothing where its data is absent."""
    if args.no_exact:
        return None, None, None
    small = Bench.of(args, "FB15k-237", args.exact_run)
    queries = read_queries(data_folder(args, "FB15k-237"), "valid", "2p")
    return small, None, sample(queries["2p"], max(1, count // 8))


def product_rate(model: BilinearModel, args: argparse.Namespace) -> float:
    """FLOP a second of bare products with the keys, in bfloat16 on a GPU."""
    keys = model.keys()
    rows = torch.randn(args.rows, keys.shape[1], device=keys.device)
    if args.device == "cuda":
        rows = rows.bfloat16()
        keys = keys[: len(keys) // 128 * 128].bfloat16()
    times = in_turns({"": lambda: rows @ keys.t()}, args.rounds + 3, args.device)[""]
    return 2.0 * len(rows) * keys.numel() / min(times)


def throughput(reasoner: Reasoner, queries: QuerySet, args: argparse.Namespace) -> dict[str, float]:
    """Queries a second, scoring alone and with the ranking of answers, and the MRR."""
    plan = queries.shape.plan
    (entities, relations) = slots(queries)

    def score() -> None:
        for first in range(0, len(queries), 512):
            reasoner.scores(plan, entities[first : first + 512], relations[first : first + 512])

    scoring = min(in_turns({"": score}, args.rounds, args.device)[""])
    measured = [measure(reasoner, queries) for _ in range(args.rounds)]
    best = min(figures.seconds for figures in measured)
    return {
        "queries_per_s": len(queries) / best,
        "scored_per_s": len(queries) / scoring,
        "mrr": measured[0].mean("mrr"),
    }


@torch.no_grad()
def chosen(args: argparse.Namespace) -> Measured | None:
    """What the arguments ask for."""
    throughput = args.throughput or args.device == "cuda"
    args.rank = args.rank or (1000 if throughput else 100)
    args.k = args.k or (256 if throughput else 64)
    if args.peak:
        peak(args)
        return None
    return throughputs(args) if throughput else types(args)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.set_defaults(threads=2)
    benchmark.add_argument("--graph", default="NELL995", help="world, or a folder of --data")
    benchmark.add_argument("--run", type=Path, help="a run trained on the graph")
    benchmark.add_argument("--exact-run", help="a run trained on FB15k-237, for exact search")
    benchmark.add_argument("--types", default=",".join(GOALS))
    benchmark.add_argument(
        "--throughput", action="store_true", help="queries a second, as on a GPU"
    )
    benchmark.add_argument(
        "--peaks", default="512,8192", help="large beams, joined by commas, each in a process"
    )
    benchmark.add_argument(
        "--block", type=int, nargs=2, help="the size of bare products; the fastest of some"
    )
    benchmark.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    benchmark.add_argument("--no-exact", action="store_true", help="leave exact search out")
    benchmark.size("--rows", 8192, tiny=4, help="rows of a bare product")
    benchmark.size("--queries", 500, tiny=3)
    benchmark.size("--rounds", 2, tiny=1)
    benchmark.size("--rank", 0, tiny=4, help="100, or 1000 for throughput")
    benchmark.size("--k", 0, tiny=2, help="64, or 256 for throughput")
    benchmark.tiny["peaks"] = ""
    benchmark.run(chosen, argv)


if __name__ == "__main__":
    main()
