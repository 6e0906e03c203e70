"""One step of adapter training against the bare matrix products it cannot do without.

    python benchmarks/adapter_step.py --data .bench [--rank 100] [--device cuda] [--batch 1024]

Queries are sampled from NELL995: 2i, 3i, 2in and 3in in equal parts. The link predictor has random weights, on which
speed does not depend. Both are timed in turns in one run, and the best of several rounds counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

import torch

from scaffold import Benchmark, Measured, Work, data_folder, in_turns
from tacit.adapt.adapter_training import AdapterTraining
from tacit.adapt.settings import LOSSES, AdaptSettings
from tacit.graph.datasets import load
from tacit.links.models import ComplEx
from tacit.query.sampling import sample
from tacit.query.shapes import SHAPES

TYPES = ("2i", "3i", "2in", "3in")


def products(model: ComplEx, rows: int, at_once: int) -> Work:
    """Scores of as many rows as a step needs, into memory that is there already."""
    heads = torch.randint(model.num_entities, (rows,), device=model.device)
    relations = torch.randint(model.num_relations, (rows,), device=model.device)
    keys = model.entities.storage.T
    out = torch.empty(at_once, keys.shape[1], device=model.device)

    @torch.no_grad()
    def run() -> None:
        for start in range(0, rows, at_once):
            queries = model.queries(heads[start : start + at_once], relations[start : start + at_once])
            torch.mm(queries, keys, out=out[: len(queries)])

    return run


def measure(given: argparse.Namespace) -> Measured:
    """The time of a step with each loss, and of its products."""
    graph, cuda = load(data_folder(given, "NELL995")), given.device == "cuda"
    model = ComplEx(graph.num_entities, graph.num_relations, given.rank)
    model.reset(0.5, torch.Generator().manual_seed(given.seed))
    model = model.to(given.device).requires_grad_(False)
    queries = {name: sample(graph, SHAPES[name], "train", 2 * given.batch).queries for name in TYPES}
    rows = sum(SHAPES[name].num_relations for name in TYPES) * given.batch // len(TYPES)
    torch.set_float32_matmul_precision("high" if cuda else "highest")
    works = {"products": products(model, rows, rows if cuda else 512)}
    for loss in LOSSES:
        settings = AdaptSettings(
            loss=loss, calibration="sigmoid", observed=(), held_out=False, batch=given.batch,
            precision="tf32" if cuda else "float32",
        )  # fmt: skip
        works[loss] = partial(AdapterTraining(graph, model, queries, settings).step, 0)
    best = {name: 1e3 * min(times) for name, times in in_turns(works, given.rounds, given.device).items()}
    figures = {name: {"ms": taken, "times products": taken / best["products"]} for name, taken in best.items()}
    return Measured(figures, {"graph": graph.name, "rows": rows})


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.size("--rank", 100, tiny=4)
    benchmark.size("--batch", 1024, tiny=4)
    benchmark.size("--rounds", 5, tiny=1)
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
