"""The paper's figures from runs and files of results.

    # two atoms and their minimum
    python benchmarks/figures.py atoms RUN --queries FOLDER --out atoms.png
    # before and after adaptation
    python benchmarks/figures.py reliability RUN --queries FOLDER --out curve.png
    # MRR over adaptation steps
    python benchmarks/figures.py steps "1 %=RUN" "100 %=RUN" --out steps.png
    # data efficiency, by shape
    python benchmarks/figures.py bars "100 %=FILE" "1 %=FILE" --out bars.png

RUN is a run folder, FILE a file of results; a name before `=` is printed in the legend.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

import tacit
from scaffold import read_results
from tacit.engine.engine import Engine
from tacit.engine.ranking import slots
from tacit.errors import DataError, SettingsError
from tacit.evaluate import figures
from tacit.evaluate.protocol import measure, sample
from tacit.evaluate.reliability import Reliability, reliability
from tacit.evaluate.results import percentages
from tacit.query.sampling.queries import QuerySet, read_queries
from tacit.query.sampling.shapes import SHAPES
from tacit.run_folder.folder import RunFolder

SHOWN = 50  # candidates of each atom
MINIMUM = "minimum of both"  # atoms, the conjunction under Gödel's t-norm


def engines(run: str) -> dict[str, Engine]:
    """The engine of a run with the settings it was adapted for, without and with its adapter."""
    after = tacit.open(run, observed="train").engine
    before = Engine(after.graph, after.scorer, after.settings)
    return {"before": before, "after": after}


def atoms(run: str, queries: dict[str, QuerySet]) -> Figure:
    """Scores of both atoms of the 2i query that adaptation improves most, for best entities."""
    chosen = sample(queries["2i"], 500)
    both = engines(run)
    ranks = {
        name: measure(engine.reasoner, chosen).by_query["mrr"] for name, engine in both.items()
    }
    best = chosen[int(np.argmax(ranks["after"] - ranks["before"])) :][:1]
    (entities, relations), graph = slots(best), both["after"].graph
    names = [
        f"{graph.relations[r]}({graph.entities[e]}, ?)"
        for e, r in zip(entities[0], relations[0], strict=True)
    ]
    scores: dict[str, dict[str, torch.Tensor]] = {}
    for when, engine in both.items():
        rows = engine.reasoner.scores(SHAPES["1p"].plan, entities.T, relations.T).exp().cpu()
        ids = rows.topk(min(SHOWN, rows.shape[1])).indices.unique()
        pair = rows[:, ids]
        scores[when] = {**dict(zip(names, pair, strict=True)), MINIMUM: pair.amin(0)}
    return adaptation(scores["before"], scores["after"])


def curves(run: str, queries: dict[str, QuerySet]) -> Figure:
    """Reliability of the ten best answers of all shapes, before and after adaptation."""
    measured = {}
    for when, engine in engines(run).items():
        parts = [
            reliability(engine.reasoner, sample(query_set, 200), top=10)
            for query_set in queries.values()
        ]
        measured[when] = sum(parts, Reliability.empty()).to_json()
    return figures.reliability_diagram(measured)


def steps(named: dict[str, str]) -> Figure:
    """Validation MRR over adaptation steps, for each run or file of `reproduce.py`."""
    lines = {}
    for name, source in named.items():
        if source.endswith(".json"):
            events = read_results(source)["pipeline_seconds"]["adapt_trace"]
        else:
            events = [
                event for event in RunFolder.open(source).events() if event.get("event") == "adapt"
            ]
        last = max(i for i, event in enumerate(events) if event["step"] == 0)
        lines[name] = ([e["step"] for e in events[last:]], [e["valid_mrr"] for e in events[last:]])
    return figures.steps(lines, ylabel="validation MRR")


def bars(named: dict[str, str]) -> Figure:
    """MRR by shape of files of results."""
    rows = {name: percentages(read_results(path)) for name, path in named.items()}
    return grouped_bars(
        {name: {s: row[s] for s in SHAPES if s in row} for name, row in rows.items()}
    )


def grouped_bars(groups: Mapping[str, Mapping[str, float]]) -> Figure:
    """MRR in percent: one group of bars per shape, one bar per name of `groups`.

    `groups` is of the form `{"CQD^A, 1%": {"2p": 11.8, …}, …}`.
    """
    columns = list(dict.fromkeys(column for values in groups.values() for column in values))
    figure, axes = figures.blank(
        width=min(10.0, max(5.0, 0.3 * len(columns) * max(1, len(groups))))
    )
    width = 0.8 / max(1, len(groups))
    for i, (name, values) in enumerate(groups.items()):
        places = [
            j + (i - (len(groups) - 1) / 2) * width
            for j, column in enumerate(columns)
            if column in values
        ]
        axes.bar(
            places,
            [values[column] for column in columns if column in values],
            width,
            label=name,
        )
    axes.set_xticks(range(len(columns)), columns)
    figures.finish(axes, "", "MRR, %", entries=len(groups))
    return figure


def densities(axes: Axes, heading: str, ylabel: str, scores: Mapping[str, ArrayLike]) -> None:
    """Histograms of scores as outlines over shared bins, each adding up to 1."""
    values = {name: np.asarray(column, dtype=float).ravel() for name, column in scores.items()}
    finite = {name: column[np.isfinite(column)] for name, column in values.items()}
    if not any(map(len, finite.values())):
        raise SettingsError("there are no finite scores to draw")
    edges = np.histogram_bin_edges(np.concatenate(list(finite.values())), bins=40)
    for (name, column), colour in zip(finite.items(), cycle(figures.COLOURS), strict=False):
        shares = np.histogram(column, edges)[0] / max(1, len(column))
        if name == MINIMUM:  # often covers one of the others: an outline lets that one show through
            axes.stairs(shares, edges, color="black", linestyle="--", label=name)
            continue
        axes.stairs(shares, edges, color=colour, fill=True, alpha=0.25)
        axes.stairs(shares, edges, color=colour, label=name)
    figures.finish(axes, "score", ylabel, heading, len(finite))


def adaptation(before: Mapping[str, ArrayLike], after: Mapping[str, ArrayLike]) -> Figure:
    """Distributions of scores by name, before adaptation (left) and after it (right)."""
    if set(before) != set(after):
        raise SettingsError("the scores before and after adaptation must have the same names")
    figure, (left, right) = figures.blank(width=8.0, columns=2)
    densities(left, "before", "share of the scores", before)
    densities(right, "after", "", {name: after[name] for name in before})
    return figure


def save(figure: Figure, path: Path) -> Path:
    """Write a figure; the ending of the name says as what."""
    if path.suffix.lower().lstrip(".") not in figure.canvas.get_supported_filetypes():
        raise DataError(f"unknown kind of picture '{path.suffix}'; use .png, .svg or .pdf", path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)
    return path


def main(argv: Sequence[str] | None = None) -> None:
    """Draw one figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figure", choices=("atoms", "reliability", "steps", "bars"))
    parser.add_argument(
        "sources", nargs="+", help="a run, or NAME=RUN or NAME=FILE for steps and bars"
    )
    parser.add_argument("--queries", type=Path, help="a BetaE folder, for atoms and reliability")
    parser.add_argument("--split", default="test")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(argv)
    if args.figure in ("atoms", "reliability"):
        if args.queries is None:
            raise SystemExit(f"{args.figure} needs --queries FOLDER")
        queries = read_queries(args.queries, args.split, "2i" if args.figure == "atoms" else None)
        drawn = (atoms if args.figure == "atoms" else curves)(args.sources[0], queries)
    else:
        named = dict(source.split("=", 1) for source in args.sources)
        drawn = (steps if args.figure == "steps" else bars)(named)
    print(f"wrote {save(drawn, args.out)}")


if __name__ == "__main__":
    main()
