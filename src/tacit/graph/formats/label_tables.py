"""Label facts in tables, and the names and prefixes that lie beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain, islice
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError
from tacit.graph.builder import Builder, counted
from tacit.graph.formats.columns import (
    USUAL,
    Order,
    check_table,
    header_in,
    header_names,
    resolve_order,
)
from tacit.graph.formats.delimited import (
    COLUMNS,
    TEXTS,
    BadLines,
    chosen_fields,
    join_words,
    table_fields,
    table_rows,
)
from tacit.graph.formats.duckdb_tables import (
    PARQUET,
    add_parquet,
    add_text,
    parquet_columns,
    parquet_fields,
    parquet_rows,
)
from tacit.graph.formats.files import extension
from tacit.graph.formats.frames import frame_columns
from tacit.graph.formats.statement_columns import (
    add_stated,
    is_named,
    qualifier_places,
    split_columns,
)
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes
from tacit.graph.quantities import Quantity
from tacit.graph.settings import ReadSettings

TABLES = (*TEXTS, PARQUET)
PREFIXES = "prefixes.tsv"
NAMES = "names.tsv"
NAMING = (PREFIXES, NAMES)
_JUDGED = 10  # facts that suffice to take the first line for a header
# the names in messages of sources that are no files
_FRAME = Path("DataFrame")
_ROWS = Path("triples")
_ARRAY = Path("array")
# pandas makes floats of whole numbers where one is missing
_ADVICE = ": frame.convert_dtypes() makes these of whole floats, astype(str) makes text of anything"


def read_table(path: Path, split: str, builder: Builder, reading: ReadSettings) -> None:
    """Adds the facts of a table to a builder.

    The order of its columns is that of `columns`, or else of a header, or else of the tables before
    it; columns that look swapped are noted, or refused if there is little doubt. `columns` or a
    header must choose three of more columns, and may name those that qualify facts.
    """
    columns, qualified = split_columns(reading.columns)
    if extension(path) == PARQUET:
        bad = BadLines(path, reading.skip_bad, "row")
        header = parquet_columns(path)
        order, explicit = resolve_order(header, columns, builder.order, path)
        places = qualifier_places(header, order, qualified, path)
        values = reading.attributes != ()
        if places:
            rows = parquet_rows(path, order, [*places.values()], bad, values)
            facts = add_stated(rows, [*places], split, builder, bad)
        else:
            facts = add_parquet(path, split, builder, order, bad, values)
    else:
        bad = BadLines(path, reading.skip_bad)
        header = next((row for _, row in table_rows(path)), [])
        order, explicit = builder.order, False
        if header and (len(header) > 3 or columns is not None):
            order, explicit = resolve_order(header, columns, order, path, 1)
        places = qualifier_places(header, order, qualified, path) if header else {}
        if places:
            chosen = (*order, *places.values())
            rows = ((line, [row[i] for i in chosen]) for line, row in table_rows(path, bad))
            if is_named(header, places, qualified) or header_in(
                _first_facts(path, order), columns, order, explicit, path
            ):
                builder.notes.append(_header_skipped(split, path))
                next(rows)
            facts = add_stated(rows, [*places], split, builder, bad)
        else:
            order, explicit, facts = _add_text(
                split, builder, columns, order, explicit, len(header) > 3, bad
            )
        first = [header[i] for i in order] if len(header) > max(order) else []
        if first and facts >= _JUDGED and _stands_alone(builder, split, *first):
            names = header_names(first)
            advice = f"give `columns='{names}'`" if names else "delete it"
            builder.notes.append(
                f"{split}: the first line of {path.name} has nothing in common with any other; if "
                f"it is a header, {advice}"
            )
    check_table(bad, split, builder, header, order, columns, explicit, facts, places)
    if len(header) <= 3:
        builder.order = order


def _add_text(
    split: str,
    builder: Builder,
    columns: str | None,
    order: Order,
    explicit: bool,
    wide: bool,
    bad: BadLines,
) -> tuple[Order, bool, int]:
    """Adds the facts of a text table, whose first line may be a header.

    Returns the order of columns, whether an option or header states it, and the number of facts.
    """
    path = bad.path
    facts = 0
    blocks = chosen_fields(path, order, bad) if wide else table_fields(path, bad=bad)
    for number, fields in enumerate(filter(None, blocks)):
        if not number:
            stated = header_in(fields, columns, order, explicit, path)
            if stated is not None:
                order = stated
                explicit = True
                builder.notes.append(_header_skipped(split, path))
                del fields[:3]
                bad.good -= 1
            at_once = None if wide else add_text(path, split, builder, order, stated is not None)
            if at_once is not None:
                return order, explicit, at_once
        if order != USUAL and not wide:
            fields[0::3], fields[1::3], fields[2::3] = (fields[i::3] for i in order)
        facts += len(fields) // 3
        builder.add(split, fields)
    return order, explicit, facts


def _first_facts(path: Path, order: Order) -> list[str]:
    """The first facts of a table, as a flat list."""
    rows = islice(table_rows(path, BadLines(path, True)), _JUDGED)
    return [row[place] for _, row in rows for place in order]


def _header_skipped(split: str, path: Path) -> str:
    return f"{split}: the first line of {path.name} was taken for a header and skipped"


def _stands_alone(builder: Builder, split: str, head: str, relation: str, tail: str) -> bool:
    """Whether each of these labels occurs in a single fact of a split."""
    facts = builder.facts(split)
    entities = builder.entities
    relations = builder.relations
    places = ((entities, head, [0, 2]), (relations, relation, [1]), (entities, tail, [0, 2]))
    return all(
        label in ids and np.count_nonzero(facts[:, at] == ids[label]) == 1
        for ids, label, at in places
    )


def read_frame(frame: Any, reading: ReadSettings) -> Graph:
    """Reads a DataFrame as a table; all facts are in train."""
    header, rows, column = frame_columns(frame)
    bad = BadLines(_FRAME, reading.skip_bad, "row")
    return _read_columns(column, range(1, rows + 1), header, reading, bad)


def is_rows(source: object) -> TypeGuard[Sequence[Sequence[Any]]]:
    """Whether an object is an array or list of rows of labels, not a list of sources."""
    if isinstance(source, np.ndarray):
        return True
    first = source[0] if isinstance(source, list | tuple) and source else None
    return isinstance(first, list | tuple) and not any(
        isinstance(cell, list | tuple | np.ndarray) for cell in first
    )


def read_rows(rows: Sequence[Sequence[Any]] | NDArray[Any], reading: ReadSettings) -> Graph:
    """Reads rows of labels as a table without a header; all facts are in train."""
    path = _ROWS
    if isinstance(rows, np.ndarray):
        path = _ARRAY
        rows = rows.tolist()
    bad = BadLines(path, reading.skip_bad, "row")
    width = max(3, len(rows[0])) if rows and isinstance(rows[0], list | tuple) else 3
    expected = f"expected {width} labels" if width > 3 else f"expected {join_words(COLUMNS)}"
    complete: dict[int, Sequence[Any]] = {}
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, list | tuple):
            bad.add(number, f"is {row!r:.40}", expected)
        elif len(row) != width:
            bad.add(number, f"has {counted(len(row), 'column')}", expected)
        else:
            complete[number] = row
    header = [str(place + 1) for place in range(width)]
    return _read_columns(
        lambda at: [row[at] for row in complete.values()], complete, header, reading, bad
    )


def _read_columns(
    column: Callable[[int], Sequence[Any]],
    numbers: Collection[int],
    header: Sequence[str],
    reading: ReadSettings,
    bad: BadLines,
) -> Graph:
    """Builds a graph from the columns of a table in memory, whose rows have `numbers`."""
    chosen, qualified = split_columns(reading.columns)
    order, explicit = resolve_order(header, chosen, USUAL, bad.path)
    places = qualifier_places(header, order, qualified, bad.path)
    *ends, tails = (column(at) for at in order)
    if reading.attributes != () and not _are_texts(tails):
        tails = [value_text(value) for value in tails]
    columns = [
        _labels(values, numbers, bad.path, header[at])
        for values, at in zip((*ends, tails), order, strict=True)
    ]
    if places:
        columns += [
            _labels([*map(value_text, column(at))], numbers, bad.path, header[at])
            for at in places.values()
        ]
        builder = Builder()
        numbered = zip(numbers, zip(*columns, strict=True), strict=True)
        count = add_stated(numbered, [*places], "train", builder, bad)
        check_table(bad, "train", builder, header, order, chosen, explicit, count, places)
        return builder.graph("graph")
    facts = list[str]()
    rows = zip(*columns, strict=True)
    if any("" in labels for labels in columns):
        for number, fact in zip(numbers, rows, strict=True):
            if "" in fact:
                empty = COLUMNS[fact.index("")]
                bad.add(number, f"the {empty} is empty", f"expected {join_words(COLUMNS)}")
            else:
                facts += fact
    else:
        facts += chain.from_iterable(rows)
    builder = Builder()
    count = len(facts) // 3
    builder.add("train", facts)
    check_table(bad, "train", builder, header, order, chosen, explicit, count, {})
    return builder.graph("graph")


def _are_texts(values: Sequence[Any]) -> bool:
    """Whether all values are texts, which is looked up without leaving C."""
    return set(map(type, values)) <= {str}


def value_text(value: Any) -> Any:
    """The text of a number, date or duration of Python or pandas; anything else as it is.

    A moment at midnight is a day, unless it is in a zone of its own: pandas knows no other dates.
    """
    if _is_missing(value) or isinstance(value, bool | Integral):
        return value
    if isinstance(value, Real | Decimal):
        return str(Quantity(float(value))) if math.isfinite(value) else value
    if isinstance(value, timedelta):
        return str(Quantity(value.total_seconds(), "duration"))
    if isinstance(value, datetime) and (value.time() != time() or value.utcoffset()):
        return value.isoformat()
    return value.isoformat()[:10] if isinstance(value, date) else value


def _labels(values: Sequence[Any], numbers: Iterable[int], source: Path, column: str) -> list[str]:
    """The labels of a column, text or whole numbers; empty where missing.

    Any other value is an error.
    """
    if _are_texts(values):
        return [value.strip(" ") for value in values]
    labels = []
    for row, value in zip(numbers, values, strict=True):
        label = ""
        is_whole = isinstance(value, Integral) and not isinstance(value, bool)
        if isinstance(value, str) or is_whole:
            label = str(value).strip(" ")
        elif not _is_missing(value):
            advice = _ADVICE if source is _FRAME else ""
            what = f"column '{column}' holds {type(value).__name__}"
            raise DataError(f"row {row}: {what}; labels are text or whole numbers{advice}", source)
        labels.append(label)
    return labels


def _is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or a missing value of pandas."""
    is_nan = isinstance(value, Real) and value != value
    return is_nan or type(value).__name__ in ("NoneType", "NAType", "NaTType")


def read_prefixes(folder: Path) -> Prefixes:
    """Reads the prefixes of a folder, written as in Turtle.

    `geo:` and its namespace are a line; `:` is the empty prefix.
    """
    path = folder / PREFIXES
    pairs = _pairs(BadLines(path), "prefix", "namespace") if path.exists() else ()
    return Prefixes({prefix.removesuffix(":"): namespace for prefix, namespace in pairs})


def read_names(graph: Graph, path: Path, skip_bad: bool | None = None) -> Graph:
    """Adds the names of a table with the columns label and name; a label may be an IRI.

    Lines that lack one of them are an error, or skipped and noted with `skip_bad`.
    """
    names: dict[str, list[str]] = {}
    unknown = 0
    bad = BadLines(path, skip_bad, "row" if extension(path) == PARQUET else "line")
    vocabularies = graph.entities, graph.relations, graph.attributes.names
    for number, (text, name) in enumerate(_pairs(bad, "label", "name")):
        known = any(text in each for each in vocabularies)
        label = text if known else graph.label_of(text.removeprefix("<").removesuffix(">"))
        if label is not None:
            names.setdefault(label, []).append(name)
        elif number or name.lower() not in ("name", "label"):  # not a header
            unknown += 1
    if not names:
        raise DataError("names no label of the graph; expected lines of label and name", path)
    notes = list(graph.notes)
    if unknown:
        skipped = f"{counted(unknown, 'name')} of labels that the graph does not have skipped"
        notes.append(f"{path.name}: {skipped}")
    if bad.count:
        notes.append(bad.note("names"))
    return replace(graph.named(names), notes=tuple(notes))


def _pairs(bad: BadLines, *columns: str) -> Iterator[tuple[str, str]]:
    """Reads the rows of a table of two columns."""
    read = parquet_fields if extension(bad.path) == PARQUET else table_fields
    for fields in read(bad.path, columns, bad):
        yield from zip(fields[0::2], fields[1::2], strict=True)
