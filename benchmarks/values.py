"""How well missing values of attributes are predicted, beside two simple guesses.

    python benchmarks/values.py [--seed 0]

It needs FB15k-237 and FB15k-237-numbers, whose eleven attributes (years are numbers) are learned
from their training values and the training facts. The guesses are the median of the training values
and that of the values of an entity's neighbours. `within` is the share of test values in the 80 %
intervals.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from scaffold import Benchmark, Measured, data_folder
from tacit.evaluate.value_evaluation import evaluate_values
from tacit.graph.attributes import VALUE_ROW, Attribute, Attributes
from tacit.graph.graph import SPLITS, Graph
from tacit.links.values.fitting import fit_values
from tacit.sources import load

NUMBERS = "FB15k-237-numbers"
# the mean absolute error to reach
GOALS = {
    "location.geocode.latitude": 1.6,
    "location.geocode.longitude": 3.5,
    "people.person.date_of_birth": 15,
    "film.film.initial_release_date": 6.5,
    "people.person.height_meters": 0.09,
}
COVERAGE = 0.77, 0.83


def read_numbers(graph: Graph, names: Path, folder: Path) -> Graph:
    """The graph with the values of a folder, whose entities are named by Freebase's ids."""
    with names.open(encoding="utf-8") as file:
        ids = {row[1]: int(row[0]) for row in csv.reader(file, "excel-tab", quoting=csv.QUOTE_NONE)}
    rows = list[tuple[int, str, float, int]]()
    for split, name in enumerate(SPLITS):
        with (folder / f"{name}.tsv").open(encoding="utf-8") as file:
            for entity, attribute, value in csv.reader(file, "excel-tab"):
                rows.append((ids[entity], attribute, float(value), split))
    listed = sorted({row[1] for row in rows})
    values = [(entity, listed.index(name), value, 0, split) for entity, name, value, split in rows]
    attributes = Attributes(tuple(map(Attribute, listed)), np.array(values, VALUE_ROW))
    return replace(graph, attributes=attributes)


def invented_numbers(graph: Graph) -> Graph:
    """The graph with values that its entities share with their neighbours, for a trial."""
    draw = np.random.default_rng(0)
    index = graph.index("train")
    own = draw.normal(size=graph.num_entities)
    counts = np.bincount(index.heads, np.diff(index.offsets), graph.num_entities)
    sums = np.bincount(
        np.repeat(index.heads, np.diff(index.offsets)), own[index.all_tails], graph.num_entities
    )
    values = own + sums / np.maximum(counts, 1)
    rows = [(e, 0, v, 0, 0 if e < graph.num_entities - 3 else 2) for e, v in enumerate(values)]
    return replace(graph, attributes=Attributes((Attribute("x"),), np.array(rows, VALUE_ROW)))


def measure(args: argparse.Namespace) -> Measured:
    """The table of all attributes."""
    folder = data_folder(args, "FB15k-237")
    graph = load(folder)
    if args.tiny:
        graph = invented_numbers(graph)
    else:
        graph = read_numbers(graph, folder / "entity-names.tsv", data_folder(args, NUMBERS))
    began = time.process_time()
    values = fit_values(graph, args.seed, progress=True)
    seconds = time.process_time() - began
    figures = dict[str, dict[str, Any]]()
    missed = list[str]()
    total, covered = 0, 0.0
    for name, found in evaluate_values(graph, values).figures.items():
        fitted = values.fitted[graph.attributes.names.id(name)]
        assert fitted is not None
        figures[name.removeprefix("location.").removeprefix("people.")] = {
            "values": found.values,
            "median": found.median_mae,
            "neighbours": found.neighbours_mae,
            "Tacit": found.mae,
            "R²": found.r2,
            "within": found.coverage,
            "within 10 %": found.close,
            "scale": found.scale,
            **{f"held out, {scale}": error for scale, error in fitted.held_out.items()},
        }
        if found.mae > min(found.median_mae, found.neighbours_mae, GOALS.get(name, np.inf)):
            missed.append(f"error of {name}")
        total += found.values
        covered += found.values * found.coverage
    figures["all"] = {"values": total, "within": covered / total}
    if not COVERAGE[0] <= covered / total <= COVERAGE[1]:
        missed.append("coverage")
    return Measured(figures, {"processor seconds": round(seconds, 1)}, missed)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print the table and write it."""
    Benchmark(__file__, __doc__).run(measure, argv)


if __name__ == "__main__":
    main()
