"""Label facts in three columns of a text table, a Parquet file or a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError
from tacit.graph.builder import Builder, counted
from tacit.graph.formats.bad_lines import BadLines
from tacit.graph.formats.columns import (
    USUAL,
    Order,
    header_in,
    header_order,
    is_half_a_header,
    review,
    told_order,
)
from tacit.graph.formats.delimited import (
    COLUMNS,
    SEPARATORS,
    TEXTS,
    check_writable,
    chosen_fields,
    listed,
    separator_of,
    table_fields,
    table_rows,
)
from tacit.graph.formats.duckdb_tables import PARQUET, add_parquet, add_text, parquet_columns
from tacit.graph.formats.files import BOM, PACKINGS, atomic_file, atomic_folder, extension
from tacit.graph.graph import SPLITS, Graph, Triples
from tacit.graph.labels.naming import NAMING, write_naming
from tacit.graph.settings import ReadSettings

if TYPE_CHECKING:
    import pandas as pd

TABLES = (*TEXTS, PARQUET)
_SOME = 10  # lines to doubt the first one by
# what messages call them
_FRAME = Path("DataFrame")
_ROWS = Path("triples")
_ARRAY = Path("array")
# pandas makes floats of whole numbers where one is missing
_CURE = ": frame.convert_dtypes() makes these of whole floats, astype(str) makes text of anything"


def read_table(path: Path, split: str, builder: Builder, reading: ReadSettings) -> None:
    """Adds the facts of a table to a builder.

    The order of its columns is what `columns` says, else what a header says, else that of the
    tables before it; columns that look swapped are noted, or refused where there is little doubt.
    Of a table with more than three, `columns` or a header must say which.
    """
    columns = reading.columns
    usual = builder.order
    bad = BadLines(path, reading.skip_bad, "row" if extension(path) == PARQUET else "line")
    if extension(path) == PARQUET:
        header = parquet_columns(path)
        order, explicit = told_order(header, columns, usual, path)
        lines = add_parquet(path, split, builder, order, bad)
    else:
        header = next((row for _, row in table_rows(path)), [])
        order, explicit, lines = _add_text(path, split, builder, columns, usual, header, bad)
        first = [header[i] for i in order] if len(header) > max(order) else []
        if first and lines >= _SOME and _stands_alone(builder, split, *first):
            builder.notes.append(
                f"{split}: the first line of {path.name} has nothing in common with any other; if "
                f"it is a header, give `columns='{','.join(first)}'`"
            )
    if bad.count and not lines:
        raise bad.error()
    if bad.count:
        builder.notes.append(bad.note(split))
    if extension(path) == ".csv" and (separator := separator_of(path)) != ",":
        builder.notes.append(
            f"{split}: the columns of {path.name} are separated by {SEPARATORS[separator]}"
        )
    review(path, split, builder, header, order, columns is not None, explicit, lines)
    if len(header) <= 3:
        builder.order = order


def _add_text(
    path: Path,
    split: str,
    builder: Builder,
    columns: str | None,
    usual: Order,
    first: list[str],
    bad: BadLines,
) -> tuple[Order, bool, int]:
    """Adds the facts of a text table.

    Returns the order of columns, whether an option or header gave it, and the number of facts.
    """
    wide = len(first) > 3
    explicit_order = None
    if columns is not None or wide:
        explicit_order, _ = told_order(first, columns, usual, path, 1) if first else (usual, False)
    order = explicit_order or usual
    explicit = explicit_order is not None
    lines = 0
    blocks = (
        fields
        for fields in (chosen_fields(path, order, bad) if wide else table_fields(path, bad=bad))
        if fields
    )
    for number, fields in enumerate(blocks):
        if not number:
            header = header_in(fields, columns, explicit_order, path)
            if header is not None:
                order = header
                explicit = True
                builder.notes.append(
                    f"{split}: the first line of {path.name} was taken for a header and skipped"
                )
                del fields[:3]
            at_once = (
                None if wide else add_text(path, split, builder, order, int(header is not None))
            )
            if at_once is not None:
                return order, explicit, at_once
        if order != USUAL and not wide:
            fields[0::3], fields[1::3], fields[2::3] = (fields[i::3] for i in order)
        lines += len(fields) // 3
        builder.add(split, fields)
    return order, explicit, lines


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


def is_frame(source: object) -> TypeGuard[pd.DataFrame]:
    """Whether an object is a DataFrame, checked without importing pandas."""
    return hasattr(source, "iloc") and hasattr(source, "columns")


def read_frame(frame: Any, name: str, reading: ReadSettings) -> Graph:
    """Reads a DataFrame as a table; all facts are in train."""
    header = [str(column) for column in frame.columns]
    bad = BadLines(_FRAME, reading.skip_bad, "row")
    order, explicit = told_order(header, reading.columns, USUAL, _FRAME)
    numbers = range(1, len(frame) + 1)
    read = [_labels(frame.iloc[:, at].tolist(), numbers, _FRAME, header[at], _CURE) for at in order]
    return _of_columns(read, numbers, name, header, order, explicit, reading, bad)


def is_rows(source: object) -> TypeGuard[Sequence[Sequence[Any]]]:
    """Whether an object is an array or list of rows of labels, not a list of sources."""
    if isinstance(source, np.ndarray):
        return True
    first = source[0] if isinstance(source, list | tuple) and source else None
    return isinstance(first, list | tuple) and not any(
        isinstance(cell, list | tuple | np.ndarray) for cell in first
    )


def read_rows(
    rows: Sequence[Sequence[Any]] | NDArray[Any], name: str, reading: ReadSettings
) -> Graph:
    """Reads rows of labels as a table without a header; all facts are in train."""
    source = _ROWS
    listed_rows = list(rows)
    if isinstance(rows, np.ndarray):
        source = _ARRAY
        listed_rows = rows.tolist()
    bad = BadLines(source, reading.skip_bad, "row")
    whole: dict[int, Sequence[Any]] = {}
    width = (
        max(3, len(listed_rows[0]))
        if listed_rows and isinstance(listed_rows[0], list | tuple)
        else 3
    )
    for number, row in enumerate(listed_rows, start=1):
        if isinstance(row, list | tuple) and len(row) == width:
            whole[number] = row
        else:
            shown = (
                f"has {counted(len(row), 'column')}"
                if isinstance(row, list | tuple)
                else f"is {row!r:.40}"
            )
            bad.add(
                number,
                shown,
                f"expected {width} labels" if width > 3 else f"expected {listed(COLUMNS)}",
            )
    header = [str(place + 1) for place in range(width)]
    order, explicit = told_order(header, reading.columns, USUAL, source)
    read = [_labels((row[at] for row in whole.values()), whole, source, header[at]) for at in order]
    return _of_columns(read, list(whole), name, header, order, explicit, reading, bad)


def _of_columns(
    read: Sequence[list[str]],
    numbers: Sequence[int],
    name: str,
    header: Sequence[str],
    order: Order,
    explicit: bool,
    reading: ReadSettings,
    bad: BadLines,
) -> Graph:
    """Builds a graph from columns of labels, in which bad rows have empty ones."""
    builder = Builder()
    facts = list(zip(*read, strict=True))
    for number, fact in (
        zip(numbers, facts, strict=True) if any("" in labels for labels in read) else ()
    ):
        if "" in fact:
            bad.add(
                number, f"the {COLUMNS[fact.index('')]} is empty", f"expected {listed(COLUMNS)}"
            )
    bad.check()
    facts = [fact for fact in facts if "" not in fact]
    if bad.count and not facts:
        raise bad.error()
    if bad.count:
        builder.notes.append(bad.note("train"))
    builder.add("train", list(chain.from_iterable(facts)))
    review(
        bad.path, "train", builder, header, order, reading.columns is not None, explicit, len(facts)
    )
    return builder.graph(name)


def _labels(
    values: Iterable[Any], numbers: Iterable[int], source: Path, column: str, cure: str = ""
) -> list[str]:
    """The labels of a column, text or whole numbers; empty where missing.

    Any other value is an error.
    """
    labels = []
    for row, value in zip(numbers, values, strict=True):
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        label = value.strip(" ") if isinstance(value, str) else str(value) if whole else ""
        if not label:
            kind = type(value).__name__
            missing = kind in ("NoneType", "NAType", "NaTType") or (
                isinstance(value, Real) and value != value
            )
            if not (isinstance(value, str) or missing):
                what = f"column '{column}' holds {kind}; labels are text or whole numbers{cure}"
                raise DataError(f"row {row}: {what}", source)
        labels.append(label)
    return labels


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
                f"must end in .tsv or .txt, packed or not ({packings}), or name a folder by no "
                "extension",
                path,
            )
        with atomic_file(path) as file:
            file.write(_lines(graph, graph.facts()))
        return
    with atomic_folder(path, NAMING) as folder:
        write_naming(graph, folder)
        for split in SPLITS:
            (folder / f"{split}.tsv").write_bytes(_lines(graph, graph.split(split)))


def _lines(graph: Graph, facts: Triples) -> bytes:
    check_writable((*graph.entities, *graph.relations))
    entities = graph.entities.labels
    relations = graph.relations.labels
    lines = [f"{entities[h]}\t{relations[r]}\t{entities[t]}\n" for h, r, t in facts.tolist()]
    first = lines[0][:-1].split("\t") if lines else []
    # a reader takes the first away for a header
    if first and (header_order(first) or is_half_a_header(first)):
        lines.insert(0, "\t".join(COLUMNS) + "\n")
    text = "".join(lines).encode()
    # a reader takes the first away, which is not the label's then
    return BOM + text if text.startswith(BOM) else text
