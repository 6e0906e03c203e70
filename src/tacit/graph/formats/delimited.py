"""Tables of text: columns separated by tabs or commas."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from tacit.errors import DataError
from tacit.graph.builder import counted
from tacit.graph.formats.files import blocks, decoded, extension, lines, plain_blocks

COLUMNS = ("head", "relation", "tail")
TEXTS = (".tsv", ".txt", ".csv")
_TAB, _NEWLINE, _SPACE = b"\t\n "


def table_fields(path: Path, columns: Sequence[str] = COLUMNS) -> Iterator[list[str]]:
    """The columns of a table in flat lists, block by block: of a `.csv` by commas and quotes, else by tabs."""
    if extension(path) == ".csv":
        yield from batched(_checked(row, columns, "commas", path, line) for line, row in _csv_rows(path))
        return
    for line, block in plain_blocks(path):
        text = decoded(block, line, path)[:-1]
        if is_regular(block, len(columns)):
            yield text.replace("\n", "\t").split("\t")
        else:  # line by line: blank lines go, spaces around labels too, and anything else is an error with its line
            rows = _tab_rows(enumerate(text.split("\n"), start=line))
            yield [field for number, row in rows for field in _checked(row, columns, "tabs", path, number)]


def is_regular(block: bytes, width: int, separator: int = _TAB) -> bool:
    """Whether every line of a block has so many fields without spaces at their ends, told without a loop."""
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero((data == separator) | (data == _NEWLINE))
    if len(ends) % width or (data[ends].reshape(-1, width) != (*[separator] * (width - 1), _NEWLINE)).any():
        return False
    starts = np.concatenate([[0], ends[:-1] + 1])
    spaced = (data[starts] == _SPACE) | (data[ends - 1] == _SPACE)
    return not (spaced | (starts == ends)).any()


def _tab_rows(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    return ((number, content.split("\t")) for number, content in lines if content.strip(" \t"))


def table_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table of any width with their lines; blank ones go, and all others are as wide as the first."""
    width = 0
    for line, row in _csv_rows(path) if extension(path) == ".csv" else _tab_rows(lines(path)):
        width = width or len(row)
        if len(row) != width:
            raise DataError(f"has {counted(len(row), 'column')}; the first line has {width}", path, line)
        yield line, [field.strip(" ") for field in row]


def chosen_fields(path: Path, order: Sequence[int]) -> Iterator[list[str]]:
    """Some columns of a wider table in flat lists, block by block."""
    return batched(_checked([row[i] for i in order], COLUMNS, "", path, line) for line, row in table_rows(path))


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    lines = (row for line, block in blocks(path) for row in io.StringIO(decoded(block, line, path)))
    rows = csv.reader(lines, strict=True, skipinitialspace=True)
    try:
        yield from ((rows.line_num, row) for row in rows if any(row))
    except csv.Error as error:
        raise DataError(f"is not CSV ({error})", path, rows.line_num) from None


def batched(rows: Iterable[list[str]]) -> Iterator[list[str]]:
    """Rows in flat lists of many."""
    fields: list[str] = []
    for row in rows:
        fields += row
        if len(fields) >= 30_000:
            yield fields
            fields = []
    yield fields


def _checked(row: list[str], columns: Sequence[str], separators: str, path: Path, line: int) -> list[str]:
    row = [field.strip(" ") for field in row]
    if len(row) != len(columns):
        expected = f"{len(columns)} ({', '.join(columns)}) separated by {separators}"
        raise DataError(f"has {counted(len(row), 'column')}; expected {expected}", path, line)
    if not all(row):
        raise DataError(f"the {columns[row.index('')]} is empty; expected {listed(columns)}", path, line)
    return row


def listed(columns: Sequence[str]) -> str:
    """The names of columns, as a sentence has them."""
    return f"{', '.join(columns[:-1])} and {columns[-1]}"


def check_writable(labels: Iterable[str]) -> None:
    """Refuses a label that would not read back from a table separated by tabs."""
    for label in labels:
        if label != label.strip(" ") or not label or any(c in label for c in "\t\n\r"):
            raise DataError(f"label {label!r} cannot be in a TSV: it is empty or has a tab, newline or outer space")
