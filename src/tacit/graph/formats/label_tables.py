"""Label facts in three columns of a table: separated by tabs or commas, of a Parquet file, or of a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from tacit.errors import DataError
from tacit.graph.builder import Builder
from tacit.graph.formats.columns import USUAL, Order, header_in, header_order, is_half_a_header, review, told_order
from tacit.graph.formats.delimited import (
    COLUMNS,
    TEXTS,
    check_writable,
    chosen_fields,
    listed,
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
_FRAME = Path("DataFrame")  # what messages call it
# pandas makes floats of whole numbers where one is missing
_CURE = ": frame.convert_dtypes() makes these of whole floats, astype(str) makes text of anything"


def read_table(path: Path, split: str, builder: Builder, reading: ReadSettings) -> None:
    """Adds the facts of a table.

    The order of its columns is what `columns` says, else what a header says, else that of the tables before it; columns
    that look swapped are noted, or refused where there is little doubt. Of a table with more than three, `columns` or a
    header must say which.
    """
    columns, usual = reading.columns, builder.order
    if extension(path) == PARQUET:
        header = parquet_columns(path)
        order, told = told_order(header, columns, usual, path)
        lines = add_parquet(path, split, builder, order)
    else:
        header = next((row for _, row in table_rows(path)), [])
        order, told, lines = _add_text(path, split, builder, columns, usual, header)
        first = [header[i] for i in order] if header else []
        if lines >= _SOME and _stands_alone(builder, split, *first):
            builder.notes.append(
                f"{split}: the first line of {path.name} has nothing in common with any other; "
                f"if it is a header, give columns '{','.join(first)}'"
            )
    review(path, split, builder, header, order, columns is not None, told, lines)
    if len(header) <= 3:
        builder.order = order


def _add_text(
    path: Path, split: str, builder: Builder, columns: str | None, usual: Order, first: list[str]
) -> tuple[Order, bool, int]:
    """Adds the facts of a table of text; gives the order of columns, whether something told it, and the facts."""
    wide, given = len(first) > 3, None
    if columns is not None or wide:
        given, _ = told_order(first, columns, usual, path, 1) if first else (usual, False)
    order, told, lines = given or usual, given is not None, 0
    blocks = (fields for fields in (chosen_fields(path, order) if wide else table_fields(path)) if fields)
    for number, fields in enumerate(blocks):
        if not number:
            header = header_in(fields, columns, given, path)
            if header is not None:
                order, told = header, True
                builder.notes.append(f"{split}: the first line of {path.name} was taken for a header and skipped")
                del fields[:3]
            at_once = None if wide else add_text(path, split, builder, order, int(header is not None))
            if at_once is not None:
                return order, told, at_once
        if order != USUAL and not wide:
            fields[0::3], fields[1::3], fields[2::3] = (fields[i::3] for i in order)
        lines += len(fields) // 3
        builder.add(split, fields)
    return order, told, lines


def _stands_alone(builder: Builder, split: str, head: str, relation: str, tail: str) -> bool:
    """Whether one fact of a split has these labels, and no other has any of them."""
    facts, entities, relations = builder.facts(split), builder.entities, builder.relations
    places = ((entities, head, [0, 2]), (relations, relation, [1]), (entities, tail, [0, 2]))
    return all(label in ids and np.count_nonzero(facts[:, at] == ids[label]) == 1 for ids, label, at in places)


def is_frame(source: object) -> TypeGuard[pd.DataFrame]:
    """Whether something is a DataFrame, told without importing pandas."""
    return hasattr(source, "iloc") and hasattr(source, "columns")


def read_frame(frame: Any, name: str, columns: str | None) -> Graph:
    """The graph of a DataFrame, whose columns are found as those of a table are; all facts are in train."""
    builder, header = Builder(), [str(column) for column in frame.columns]
    order, told = told_order(header, columns, USUAL, _FRAME)
    read = [_labels(frame.iloc[:, at].tolist(), role, header[at]) for role, at in zip(COLUMNS, order, strict=True)]
    builder.add("train", list(chain.from_iterable(zip(*read, strict=True))))
    review(_FRAME, "train", builder, header, order, columns is not None, told, len(read[0]))
    return builder.graph(name)


def _labels(values: Iterable[Any], role: str, column: str) -> list[str]:
    """The labels of a column: text, or whole numbers; anything else is an error that names its row."""
    labels = []
    for row, value in enumerate(values, start=1):
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        label = value.strip(" ") if isinstance(value, str) else str(value) if whole else ""
        if not label:
            kind = type(value).__name__
            if (
                isinstance(value, str)
                or kind in ("NoneType", "NAType", "NaTType")
                or (isinstance(value, Real) and value != value)
            ):
                raise DataError(f"row {row}: the {role} is empty; expected {listed(COLUMNS)}", _FRAME)
            what = f"column '{column}' holds {kind}; labels are text or whole numbers{_CURE}"
            raise DataError(f"row {row}: {what}", _FRAME)
        labels.append(label)
    return labels


def write_tsv(graph: Graph, path: str | Path) -> None:
    """Writes label facts: to one file, all splits together, where the name ends in `.tsv` or `.txt` (or in a packing
    after these); to a folder with `train.tsv`, `valid.tsv` and `test.tsv` where it has no extension or is a folder.
    """
    path = Path(path)
    if path.suffix and not path.is_dir():
        if extension(path) not in (".tsv", ".txt"):
            forms = f".tsv or .txt, packed or not ({', '.join(PACKINGS)}), or as a folder (no extension)"
            raise DataError(f"can be written as {forms}", path)
        with atomic_file(path) as file:
            file.write(_lines(graph, graph.facts()))
        return
    with atomic_folder(path, NAMING) as folder:
        write_naming(graph, folder)
        for split in SPLITS:
            (folder / f"{split}.tsv").write_bytes(_lines(graph, graph.split(split)))


def _lines(graph: Graph, facts: Triples) -> bytes:
    check_writable((*graph.entities, *graph.relations))
    entities, relations = graph.entities.labels, graph.relations.labels
    lines = [f"{entities[h]}\t{relations[r]}\t{entities[t]}\n" for h, r, t in facts.tolist()]
    first = lines[0][:-1].split("\t") if lines else []
    if first and (header_order(first) or is_half_a_header(first)):  # a reader takes the first away for a header
        lines.insert(0, "\t".join(COLUMNS) + "\n")
    text = "".join(lines).encode()
    return BOM + text if text.startswith(BOM) else text  # a reader takes the first away, which is not the label's then
