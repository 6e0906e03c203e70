"""Results as tables: metrics in percent, the two averages first, then one column per shape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tacit.engine.answers.aligned_cells import escape_control_chars
from tacit.evaluate.results import AVERAGES, average
from tacit.links.ranking import METRICS
from tacit.query.sampling.shapes import NEGATIVE, POSITIVE

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = (*AVERAGES, *POSITIVE, *NEGATIVE)
TITLES = {metric: "MRR" if metric == "mrr" else metric.title() for metric in METRICS}


def percentages(results: Mapping[str, Any], metric: str = "mrr") -> dict[str, float]:
    """A metric in percent by shape, with the averages whose shapes are all present."""
    by_shape: Mapping[str, float] = results[metric]
    averages = {name: average(by_shape, shapes) for name, shapes in AVERAGES.items()}
    values = {**averages, **by_shape}
    return {column: 100 * value for column, value in values.items() if value is not None}


def columns_of(rows: Iterable[Mapping[str, float]]) -> list[str]:
    """The columns with a value in some row: averages, benchmark shapes, then others."""
    named = dict.fromkeys(column for row in rows for column in row)
    return [column for column in COLUMNS if column in named] + [
        name for name in named if name not in COLUMNS
    ]


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
