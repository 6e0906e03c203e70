"""Results as tables: MRR x100, the two averages first, then one column per shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.errors import SettingsError, UnknownName
from tacit.evaluate.published import COLUMNS, PUBLISHED
from tacit.evaluate.results import AVERAGES, average
from tacit.links.ranking import METRICS

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Row:
    """A line of a table: a name, and values in percent by column; columns it lacks show a dash."""

    name: str
    values: Mapping[str, float]
    published: bool = False


def measured(name: str, results: Mapping[str, Any], metric: str = "mrr") -> Row:
    """The row of one file of results."""
    by_shape: Mapping[str, float] = results[metric]
    values = dict(by_shape)
    for label, shapes in AVERAGES.items():
        mean = average(by_shape, shapes)
        if mean is not None:
            values[label] = mean
    return Row(name, {column: 100 * value for column, value in values.items()})


def published(dataset: str, method: str) -> Row:
    """The row of a method as published."""
    if dataset not in PUBLISHED:
        raise UnknownName("benchmark", dataset, tuple(PUBLISHED))
    if method not in PUBLISHED[dataset]:
        raise UnknownName("method", method, tuple(PUBLISHED[dataset]))
    return Row(method, PUBLISHED[dataset][method], published=True)


def columns_of(rows: Iterable[Row]) -> list[str]:
    """The columns that at least one row has a value in, in the order of the published tables, then others."""
    named = dict.fromkeys(column for row in rows for column in row.values)
    return [column for column in COLUMNS if column in named] + [name for name in named if name not in COLUMNS]


def markdown(rows: Sequence[Row], columns: Sequence[str] | None = None, corner: str = "") -> str:
    """A Markdown table; the best value of each column is bold, published rows are in italics.

    >>> print(markdown([Row("ours", {"1p": 60.44, "2p": 20.0}), Row("CQD-CO", {"1p": 60.4}, published=True)]))
    | | 1p | 2p |
    |---|---:|---:|
    | ours | **60.4** | 20.0 |
    | *CQD-CO* | **60.4** | - |
    """
    columns = columns_of(rows) if columns is None else columns
    if not rows:
        raise SettingsError("a table needs at least one row of results")
    lines = [f"| {' | '.join([corner, *columns])} |".replace("|  |", "| |"), "|---|" + "---:|" * len(columns)]
    best = {column: max(cells) for column in columns if len(cells := _cells(rows, column)) > 1}
    for row in rows:
        name = f"*{row.name}*" if row.published else row.name
        cells = [_shown(row, column, best) for column in columns]
        lines.append(f"| {' | '.join([name, *cells])} |")
    return "\n".join(lines)


def values_shown(row: Row, columns: Sequence[str]) -> list[str]:
    """The cells of a row as printed, a dash where it has no value."""
    return [_number(row.values.get(column)) for column in columns]


def rich_table(rows: Sequence[Row], title: str | None = None, columns: Sequence[str] | None = None) -> Table:
    """The table for a terminal."""
    from rich.table import Table

    columns = columns_of(rows) if columns is None else columns
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        style = "dim" if row.published else None
        table.add_row(row.name, *values_shown(row, columns), style=style)
    return table


def metrics_table(results: Mapping[str, Any], title: str | None = None) -> Table:
    """One file of results for a terminal: a line per set of queries with MRR, Hits@k, how many and how long."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", header_style="bold")
    metrics = [name for name in results if name == "mrr" or name.startswith("hits@")]
    for column in ("queries of", *("MRR" if name == "mrr" else name.title() for name in metrics), "count", "ms each"):
        table.add_column(column, justify="left" if column == "queries of" else "right")
    for name in results["mrr"]:
        values = [f"{100 * results[metric][name]:.1f}" for metric in metrics]
        count = results["queries"][name]
        table.add_row(name, *values, f"{count:,}", f"{1e3 * results['seconds'][name] / count:.2f}")
    for label, shapes in AVERAGES.items():
        mean = average(results["mrr"], shapes)
        if mean is not None:
            table.add_row(label, f"{100 * mean:.1f}", style="bold")
    return table


def relations_table(relations: Mapping[str, Mapping[str, float]]) -> Table:
    """Figures by relation for a terminal, the relations with most queries first."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(header_style="bold")
    table.add_column("relation")
    for column in ("MRR", *(name.title() for name in METRICS[1:]), "queries"):
        table.add_column(column, justify="right")
    for name, row in sorted(relations.items(), key=lambda item: (-item[1]["queries"], item[0])):
        table.add_row(escape(name), *(f"{100 * row[metric]:.1f}" for metric in METRICS), f"{row['queries']:,.0f}")
    return table


def _cells(rows: Sequence[Row], column: str) -> list[str]:
    return [_sortable(row.values[column]) for row in rows if column in row.values]


def _sortable(value: float) -> str:
    return f"{value:9.1f}"  # as shown: rows that print the same number are equally good


def _shown(row: Row, column: str, best: Mapping[str, str]) -> str:
    value = row.values.get(column)
    shown = _number(value)
    return f"**{shown}**" if value is not None and _sortable(value) == best.get(column) else shown


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
