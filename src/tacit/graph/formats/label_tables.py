"""Label facts in tables, and the names and prefixes that lie beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
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
    header_order,
    is_half_a_header,
    resolve_order,
)
from tacit.graph.formats.delimited import (
    COLUMNS,
    TEXTS,
    BadLines,
    check_writable,
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
)
from tacit.graph.formats.files import BOM, PACKINGS, atomic_file, atomic_folder, extension
from tacit.graph.formats.frames import frame_columns
from tacit.graph.graph import SPLITS, Graph
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
    header must choose three of more columns.
    """
    columns = reading.columns
    if extension(path) == PARQUET:
        bad = BadLines(path, reading.skip_bad, "row")
        header = parquet_columns(path)
        order, explicit = resolve_order(header, columns, builder.order, path)
        facts = add_parquet(path, split, builder, order, bad, reading.attributes != ())
    else:
        bad = BadLines(path, reading.skip_bad)
        header = next((row for _, row in table_rows(path)), [])
        order, explicit, facts = _add_text(split, builder, columns, header, bad)
        first = [header[i] for i in order] if len(header) > max(order) else []
        if first and facts >= _JUDGED and _stands_alone(builder, split, *first):
            names = header_names(first)
            advice = f"give `columns='{names}'`" if names else "delete it"
            builder.notes.append(
                f"{split}: the first line of {path.name} has nothing in common with any other; if "
                f"it is a header, {advice}"
            )
    check_table(bad, split, builder, header, order, columns, explicit, facts)
    if len(header) <= 3:
        builder.order = order


def _add_text(
    split: str, builder: Builder, columns: str | None, header: list[str], bad: BadLines
) -> tuple[Order, bool, int]:
    """Adds the facts of a text table, whose first line may be a `header`.

    Returns the order of columns, whether an option or header states it, and the number of facts.
    """
    path = bad.path
    wide = len(header) > 3
    order = builder.order
    explicit = False
    if header and (wide or columns is not None):
        order, explicit = resolve_order(header, columns, order, path, 1)
    facts = 0
    blocks = chosen_fields(path, order, bad) if wide else table_fields(path, bad=bad)
    for number, fields in enumerate(filter(None, blocks)):
        if not number:
            stated = header_in(fields, columns, order, explicit, path)
            if stated is not None:
                order = stated
                explicit = True
                builder.notes.append(
                    f"{split}: the first line of {path.name} was taken for a header and skipped"
                )
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
    order, explicit = resolve_order(header, reading.columns, USUAL, bad.path)
    *ends, tails = (column(at) for at in order)
    if reading.attributes != () and not _are_texts(tails):
        tails = [value_text(value) for value in tails]
    columns = [
        _labels(values, numbers, bad.path, header[at])
        for values, at in zip((*ends, tails), order, strict=True)
    ]
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
    check_table(bad, "train", builder, header, order, reading.columns, explicit, count)
    return builder.graph("graph")


def _are_texts(values: Sequence[Any]) -> bool:
    """Whether all values are texts, which is looked up without leaving C."""
    return set(map(type, values)) <= {str}


def value_text(value: Any) -> Any:
    """The text of a number, date or duration of Python or pandas; anything else as it is.

    A moment at midnight is a day: pandas knows no other dates.
    """
    if _is_missing(value) or isinstance(value, bool | Integral):
        return value
    if isinstance(value, Real | Decimal):
        return str(Quantity(float(value))) if math.isfinite(value) else value
    if isinstance(value, timedelta):
        return str(Quantity(value.total_seconds(), "duration"))
    if isinstance(value, datetime) and value.time() != time():
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


def write_tsv(graph: Graph, path: str | Path) -> None:
    """Writes label facts to one table, or to a folder with a table per split.

    A path that ends in `.tsv` or `.txt` (or in a packing after these) is one file of all splits;
    one without extension is a folder with `train.tsv`, `valid.tsv` and `test.tsv`.
    """
    path = Path(path)
    if path.suffix and not path.is_dir():
        if extension(path) not in (".tsv", ".txt"):
            packings = ", ".join(PACKINGS)
            raise DataError(
                f"must end in .tsv, .txt or .nt, packed or not ({packings}), or name a folder by "
                "no extension",
                path,
            )
        with atomic_file(path) as file:
            file.write(_lines(graph, *SPLITS))
        return
    with atomic_folder(path, NAMING) as folder:
        write_naming(graph, folder)
        for split in SPLITS:
            (folder / f"{split}.tsv").write_bytes(_lines(graph, split))


def _lines(graph: Graph, *splits: str) -> bytes:
    """The lines of a table of facts and values, from which the same are read.

    An attribute is named with its kind or unit, so that it is read as one.
    """
    check_writable((*graph.entities, *graph.relations, *map(str, graph.attributes.listed)))
    facts = graph.facts(*splits)
    entities = graph.entities.labels
    relations = graph.relations.labels
    lines = [f"{entities[h]}\t{relations[r]}\t{entities[t]}\n" for h, r, t in facts.tolist()]
    for number, attribute in enumerate(graph.attributes.listed):
        values = graph.attributes.texts(number, *splits)
        lines += [f"{entities[id_]}\t{attribute}\t{text}\n" for id_, text in values]
    first = lines[0][:-1].split("\t") if lines else []
    # a first fact that looks like a header would be skipped
    if first and (header_order(first) or is_half_a_header(first)):
        lines.insert(0, "\t".join(COLUMNS) + "\n")
    text = "".join(lines).encode()
    # a reader drops one mark, which must not be that of a label
    return BOM + text if text.startswith(BOM) else text


def write_naming(graph: Graph, folder: Path) -> None:
    """Writes the prefixes and names of a graph, each to a file if there are any."""
    if graph.prefixes:
        lines = [f"{prefix}:\t{namespace}\n" for prefix, namespace in graph.prefixes.items()]
        (folder / PREFIXES).write_text("".join(lines), encoding="utf-8")
    names: dict[str, Sequence[str]] = {**graph.without_attributes().names}
    for attribute in graph.attributes.listed:
        names[str(attribute)] = graph.attributes.readable.get(attribute.name, ())
    if any(names.values()):
        check_writable(names)
        lines = [f"{label}\t{' '.join(name.split())}\n" for label in names for name in names[label]]
        (folder / NAMES).write_text("".join(lines), encoding="utf-8")


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
