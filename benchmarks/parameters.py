"""The paper's table of parameters: weights of every encoder, counted, by formula, published.

    python benchmarks/parameters.py --data DATA

Encoders are made by the settings files of their published recipes and never trained; their weights
take no memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from encoder_costs import Sizes, linear, weights
from published import PARAMETERS
from reproduce import ROWS, read_row
from scaffold import Benchmark, Measured, graph_of
from tacit.adapt.adapter import Adapter
from tacit.encode.models import NETWORKS, make_encoder
from tacit.encode.settings import EncodeSettings
from tacit.graph.graph import Graph
from tacit.links.factors import FactorModel
from tacit.links.models import make_model

TITLES = {
    "gqe": "GQE", "q2b": "Q2B", "betae": "BetaE", "cone": "ConE", "fuzzqe": "FuzzQE",
    "gnnqe": "GNN-QE", "lmpnn": "LMPNN",
}  # fmt: skip
TABLES = {"FB15k-237": "fb15k237-systems-paper", "NELL995": "nell995-systems-paper"}


def sizes(graph: Graph, model: FactorModel | None = None) -> Sizes:
    """What the weights and steps of an encoder depend on."""
    rank = 0 if model is None else model.head_table.weight.shape[1]
    return Sizes(graph.num_entities, graph.num_relations, 2 * len(graph.train), rank)


def trainable(module: torch.nn.Module) -> int:
    """The weights that training moves, counted."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def counts(
    graph: Graph, rank: int, encoders: Sequence[str], rows: Path
) -> dict[str, dict[str, Any]]:
    """The weights of every encoder for a graph: counted, and by formula."""
    # it sees relations alone
    adapter = Adapter(make_model("complex", 1, graph.num_relations, rank), "p")
    with torch.device("meta"):  # shapes alone
        predictor = make_model("complex", graph.num_entities, graph.num_relations, rank)
    found: dict[str, dict[str, Any]] = {
        "CQD^A": {"counted": trainable(adapter), "formula": 2 * linear(2 * rank, 1)},
        # rows are padded for the sake of products
        "CQD^A, frozen": {"counted": trainable(predictor)},
    }
    predictor.requires_grad_(False)
    for model in encoders:
        settings = EncodeSettings.of(read_row(rows / f"{model}.toml")["encode"]).with_derived(
            graph.num_entities
        )
        # one that reads facts sorts them first
        with torch.device("cpu" if model in NETWORKS else "meta"):
            encoder = make_encoder(settings, graph, predictor)
        formula = weights(model, settings, sizes(graph, predictor))
        found[TITLES[model]] = {"counted": trainable(encoder), "formula": formula}
    return found


def measure(args: argparse.Namespace) -> Measured:
    """The weights on both graphs; what the formula does not find is a goal missed."""
    figures: dict[str, dict[str, Any]] = {}
    missed = []
    for name, table in TABLES.items():
        graph = graph_of(args, name)
        for title, row in counts(graph, args.rank, args.encoders.split(","), ROWS / table).items():
            published = PARAMETERS.get(title, {}).get(name)
            here = {"published": published and f"{published:.1e}", **row}
            figures.setdefault(title, {}).update(
                {f"{name}, {how}": value for how, value in here.items()}
            )
            if "formula" in row and row["formula"] != row["counted"]:
                missed.append(
                    f"{title} on {name} has {row['counted']:,} weights, the formula "
                    f"{row['formula']:,}"
                )
    return Measured(figures, missed=missed)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table and write the figures as JSON."""
    benchmark = Benchmark(__file__, __doc__)
    benchmark.add_argument(
        "--encoders", default=",".join(TITLES), help="some of them, joined by commas"
    )
    benchmark.size("--rank", 1000, tiny=4, help="of the link predictor")
    benchmark.run(measure, argv)


if __name__ == "__main__":
    main()
