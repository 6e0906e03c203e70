"""The results of an evaluation, their JSON form, and tables of them.

Tables are in percent: the two averages first, then one column per shape.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.engine.answers.aligned_cells import escape_control_chars
from tacit.graph.fact_index import Floats
from tacit.links.ranking import MEANS, METRICS, by_query
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.shapes import NEGATIVE, POSITIVE

if TYPE_CHECKING:
    from rich.table import Table

AVERAGES = {"avg_p": POSITIVE, "avg_n": NEGATIVE}
COLUMNS = (*AVERAGES, *POSITIVE, *NEGATIVE)
TITLES = {metric: "MRR" if metric == "mrr" else metric.title() for metric in METRICS}


@dataclass(frozen=True, eq=False)
class Figures:
    """The ranks of the hard answers of one set of queries, their metrics and the time."""

    queries: QuerySet
    ranks: Tensor  # of each of `queries.hard.ids`
    seconds: float = 0.0

    @cached_property
    def by_query(self) -> dict[str, Floats]:
        """Reciprocal rank and Hits@k of each query, `[Q]`: the means over its hard answers."""
        values = by_query(self.ranks, torch.from_numpy(self.queries.hard.rows))
        return {name: column.numpy() for name, column in values.items()}

    def __len__(self) -> int:
        return len(self.queries)

    def mean(self, metric: str = "mrr", mean: str = "question") -> float:
        """The mean over the queries, or over their hard answers."""
        weights = self.queries.hard.counts if mean == "fact" else None
        return float(np.average(self.by_query[metric], weights=weights))

    def grouped(
        self, keys: NDArray[np.integer], mean: str = "question"
    ) -> dict[int, dict[str, float]]:
        """The metrics of the hard answers that share a key, such as their relation.

        Each group is an evaluation of its own: a query takes part with its answers of that key.
        Beside the metrics there are the numbers of queries and answers.
        """
        distinct, group = np.unique(keys, return_inverse=True)
        pairs, pair, answers = np.unique(
            group * len(self) + self.queries.hard.rows, return_inverse=True, return_counts=True
        )
        of_key = pairs // len(self)  # of each pair of a key and a query
        weights = answers if mean == "fact" else np.ones(len(pairs))
        columns: dict[str, NDArray[Any]] = {
            name: np.bincount(of_key, weights * values.numpy()) / np.bincount(of_key, weights)
            for name, values in by_query(self.ranks, torch.from_numpy(pair)).items()
        }
        columns |= {"queries": np.bincount(of_key), "answers": np.bincount(group)}
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return {
            key: dict(zip(columns, row, strict=True))
            for key, row in zip(distinct.tolist(), rows, strict=True)
        }


@dataclass(frozen=True)
class Results:
    """The figures of each set of queries, with tie policy, mean and settings.

    A mean per `question` is BetaE's: over the hard answers of a query, then over the queries. A
    mean per `fact` counts every hard answer once, as PyKEEN does; for 1p queries in both directions
    it is the number PyKEEN calls `both`.
    """

    figures: Mapping[str, Figures] = field(hash=False)
    ties: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    mean: str = "question"

    @property
    def mrr(self) -> dict[str, float]:
        """The mean reciprocal rank of each set, as a fraction."""
        return self.metric("mrr")

    def metric(self, metric: str, mean: str | None = None) -> dict[str, float]:
        """A metric of each set, as a fraction."""
        return {
            name: figures.mean(metric, mean or self.mean) for name, figures in self.figures.items()
        }

    def average(self, name: str) -> float | None:
        """`avg_p` or `avg_n`: the mean MRR over its shapes, or None unless all are present."""
        return average(self.mrr, AVERAGES[name])

    def to_json(self) -> dict[str, Any]:
        """The results as `tacit eval --json` writes them, with metrics as fractions."""
        return {
            **{metric: self.metric(metric) for metric in METRICS},
            **{name: self.average(name) for name in AVERAGES},
            "queries": {name: len(figures) for name, figures in self.figures.items()},
            "answers": {
                name: len(figures.queries.hard.ids) for name, figures in self.figures.items()
            },
            "seconds": {name: round(figures.seconds, 4) for name, figures in self.figures.items()},
            "ties": self.ties,
            "mean": self.mean,
            "means": {
                mean: {metric: self.metric(metric, mean) for metric in METRICS} for mean in MEANS
            },
            "settings": dict(self.settings),
        }


def average(values: Mapping[str, float], names: Sequence[str]) -> float | None:
    """The mean of the named values, or None unless all of them are there.

    >>> average({"2i": 0.5, "3i": 0.25}, ("2i", "3i")), average({"2i": 0.5}, ("2i", "3i"))
    (0.375, None)
    """
    return sum(values[name] for name in names) / len(names) if values.keys() >= {*names} else None


def is_results(data: Any) -> bool:
    """Whether plain data has the form of results."""
    return isinstance(data, dict) and all(
        isinstance(table := data.get(metric), dict)
        and all(isinstance(value, int | float) for value in table.values())
        for metric in METRICS
    )


def percentages(results: Mapping[str, Any], metric: str = "mrr") -> dict[str, float]:
    """A metric in percent by shape, with the averages whose shapes are all present."""
    by_shape: Mapping[str, float] = results[metric]
    averages = {name: average(by_shape, shapes) for name, shapes in AVERAGES.items()}
    values = {**averages, **by_shape}
    return {column: 100 * value for column, value in values.items() if value is not None}


def columns_of(rows: Iterable[Mapping[str, float]]) -> list[str]:
    """The columns with a value in some row: averages, benchmark shapes, then others."""
    names = dict.fromkeys(name for row in rows for name in row)
    places = {name: place for place, name in enumerate(COLUMNS)}
    return sorted(names, key=lambda name: places.get(name, len(places)))


def cell(value: float | None) -> str:
    """A value as printed, a dash for none."""
    return "-" if value is None else f"{value:.1f}"


def _cells(row: Mapping[str, float]) -> list[str]:
    return [cell(100 * row[metric]) for metric in METRICS]


def metrics_table(results: Mapping[str, Any]) -> Table:
    """A table of results for a terminal, with MRR, Hits@k, count and time per set."""
    table = empty_table(("queries of", *TITLES.values(), "count", "ms each"))
    for name, count in results["queries"].items():
        row = {metric: results[metric][name] for metric in METRICS}
        milliseconds = 1e3 * results["seconds"][name] / count
        table.add_row(name, *_cells(row), f"{count:,}", f"{milliseconds:.2f}")
    percent = percentages(results)
    for name in AVERAGES:
        if name in percent:
            table.add_row(name, cell(percent[name]), style="bold")
    return table


def missing_table(by_missing: Mapping[str, Mapping[Any, Mapping[str, float]]]) -> Table:
    """Figures by the number of links that hard answers are missing, for a terminal."""
    table = empty_table(("queries of", "missing", *TITLES.values(), "count", "answers"))
    for name, rows in by_missing.items():
        for links, row in rows.items():
            counts = f"{row['queries']:,.0f}", f"{row['answers']:,.0f}"
            table.add_row(name, str(links), *_cells(row), *counts)
    return table


def missing_percentages(
    results: Mapping[str, Any], metric: str = "mrr"
) -> dict[str, dict[str, float]]:
    """A metric in percent by number of missing links, then by shape.

    >>> row = {"mrr": 0.25}
    >>> missing_percentages({"by_missing": {"1p": {"1": row}, "2i": {"1": row, "2": {"mrr": 0.1}}}})
    {'1': {'1p': 25.0, '2i': 25.0}, '2': {'2i': 10.0}}
    """
    by_missing: Mapping[str, Mapping[str, Mapping[str, float]]] = results.get("by_missing", {})
    values = defaultdict[str, dict[str, float]](dict)
    for name, rows in by_missing.items():
        for links, row in rows.items():
            values[links][name] = row[metric]
    return {
        links: percentages({metric: values[links]}, metric) for links in sorted(values, key=int)
    }


def relations_table(relations: Mapping[str, Mapping[str, float]]) -> Table:
    """Figures by relation for a terminal, the relations with most queries first."""
    from rich.markup import escape

    table = empty_table(("relation", *TITLES.values(), "queries"))
    for name, row in sorted(relations.items(), key=lambda item: (-item[1]["queries"], item[0])):
        label = escape(escape_control_chars(name))
        table.add_row(label, *_cells(row), f"{row['queries']:,.0f}")
    return table


def empty_table(columns: Iterable[str]) -> Table:
    """A table without rows, whose first column is text and whose others are numbers."""
    from rich.table import Table

    table = Table(header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left")
    return table
