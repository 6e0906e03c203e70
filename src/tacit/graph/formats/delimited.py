"""Tables of text, split by tabs, commas or semicolons, and their bad lines."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np

from tacit.errors import DataError
from tacit.graph.builder import counted
from tacit.graph.formats.files import blocks, decode_block, extension, lines, plain_blocks

COLUMNS = ("head", "relation", "tail")
TEXTS = (".tsv", ".txt", ".csv")
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}  # of a `.csv`, the usual one first
_SAMPLED = 100  # first lines, which tell the separator
_BATCH = 30_000  # fields of a flat list, whole rows of two or three columns
_TAB, _NEWLINE, _SPACE = b"\t\n "
SHOWN = 5  # lines in a message


@dataclass
class BadLines:
    """The lines of a file that hold no fact, and whether to `skip` them; None means undecided.

    The `unit` of a source without lines is a row. `good` counts the other lines read so far.
    """

    path: Path
    skip: bool | None = None
    unit: str = "line"
    count: int = 0
    good: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)  # number and problem of each
    expected: str = ""

    def add(self, number: int, why: str, expected: str) -> None:
        """Records a bad line."""
        self.expected = self.expected or expected
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append((number, why))

    def check(self) -> None:
        """Raises a `DataError` unless the bad lines are skipped and others are left."""
        if self.count and not (self.skip and self.good):
            raise self.error()

    def error(self) -> DataError:
        """The error for the bad lines: the first, their number, and the next ones."""
        (number, why), *others = self.first
        hint = ""
        if self.count > 1:
            hint = f"; {counted(self.count, f'bad {self.unit}')} in all ({self._listed(others)})"
        if self.skip is False and self.good:
            hint += f"; `skip_bad=True` skips {'it' if self.count == 1 else 'them'}"
        message = f"{why}; {self.expected}{hint}"
        if self.unit == "line":
            return DataError(message, self.path, number)
        return DataError(f"{self.unit} {number}: {message}", self.path)

    def note(self, split: str) -> str:
        """The note of a graph about skipped lines."""
        skipped = f"{counted(self.count, f'bad {self.unit}')} of {self.path.name} skipped"
        return f"{split}: {skipped} ({self._listed(self.first)})"

    def _listed(self, lines: list[tuple[int, str]]) -> str:
        """Lists some lines with their problems, and marks that there are more."""
        shown = [f"{self.unit} {number}: {why}" for number, why in lines]
        return ", ".join([*shown, "..."] if self.count > len(self.first) else shown)


def table_fields(
    path: Path, columns: Sequence[str] = COLUMNS, bad: BadLines | None = None
) -> Iterator[list[str]]:
    """Reads the columns of a table as flat lists, block by block.

    A `.csv` is split by its separator and quotes, any other by tabs. Lines that lack a column go to
    `bad`; at the end these are one error unless they are skipped.
    """
    bad = BadLines(path) if bad is None else bad
    separator = separator_of(path)
    if extension(path) == ".csv":
        yield from batch_rows(
            check_row(row, columns, separator, bad, line)
            for line, row in _csv_rows(path, separator)
        )
        bad.check()
        return
    for line, block in plain_blocks(path):
        text = decode_block(block, line, path)[:-1]
        if is_regular(block, len(columns)):
            bad.good += text.count("\n") + 1
            yield text.replace("\n", "\t").split("\t")
        else:  # blank lines and spaces around labels are dropped
            rows = _tab_rows(enumerate(text.split("\n"), start=line))
            yield [
                field
                for number, row in rows
                for field in check_row(row, columns, separator, bad, number)
            ]
    bad.check()


def separator_of(path: Path) -> str:
    """The column separator of a table: a tab, or for a `.csv` also a comma or semicolon.

    It splits most of the first lines into the same number of columns, two or more. Of several such
    separators it is the one that fewer spaces follow, or else the comma.
    """
    return max(SEPARATORS, key=partial(_regularity, path)) if extension(path) == ".csv" else "\t"


def _regularity(path: Path, separator: str) -> tuple[int, int]:
    """How many first lines share a column count, and minus the spaces after separators."""
    most = max((count for width, count in _widths(path, separator).items() if width > 1), default=0)
    return most, -sum(text.count(f"{separator} ") for _, text in islice(lines(path), _SAMPLED))


def _widths(path: Path, separator: str) -> Counter[int]:
    """Counts the first lines by their number of columns, up to one that is not CSV."""
    widths: Counter[int] = Counter()
    with suppress(DataError):
        widths.update(len(row) for _, row in islice(_rows(path, separator), _SAMPLED))
    return widths


def is_regular(block: bytes, width: int, separator: int = _TAB) -> bool:
    """Whether every line of a block has `width` stripped fields; it is checked without a loop."""
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero((data == separator) | (data == _NEWLINE))
    if (
        len(ends) % width
        or (data[ends].reshape(-1, width) != (*[separator] * (width - 1), _NEWLINE)).any()
    ):
        return False
    starts = np.concatenate([[0], ends[:-1] + 1])
    spaced = (data[starts] == _SPACE) | (data[ends - 1] == _SPACE)
    return not (spaced | (starts == ends)).any()


def _tab_rows(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    return ((number, content.split("\t")) for number, content in lines if content.strip(" \t"))


def table_rows(path: Path, bad: BadLines | None = None) -> Iterator[tuple[int, list[str]]]:
    """Reads the rows of a table of any width, with their line numbers.

    Blank rows are dropped; rows of an unusual width are bad, which the caller checks if it gives
    `bad`.
    """
    own = bad is None
    bad = BadLines(path) if bad is None else bad
    separator = separator_of(path)
    ((width, _),) = _widths(path, separator).most_common(1) or [(0, 0)]
    for line, row in _rows(path, separator):
        if len(row) == width:
            yield line, [field.strip(" ") for field in row]
        else:
            bad.add(line, f"has {counted(len(row), 'column')}", f"the table has {width}")
    if own:
        bad.check()


def _rows(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table that are not blank, with their lines."""
    return _csv_rows(path, separator) if extension(path) == ".csv" else _tab_rows(lines(path))


def chosen_fields(path: Path, order: Sequence[int], bad: BadLines) -> Iterator[list[str]]:
    """Reads some columns of a wider table as flat lists, block by block."""
    rows = table_rows(path, bad)
    yield from batch_rows(
        check_row([row[i] for i in order], COLUMNS, "", bad, line) for line, row in rows
    )
    bad.check()


def _csv_rows(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    lines = (
        row for line, block in blocks(path) for row in io.StringIO(decode_block(block, line, path))
    )
    rows = csv.reader(lines, delimiter=separator, strict=True, skipinitialspace=True)
    try:
        yield from ((rows.line_num, row) for row in rows if any(row))
    except csv.Error as error:
        raise DataError(f"is not CSV ({error})", path, rows.line_num) from None


def batch_rows(rows: Iterable[list[str]]) -> Iterator[list[str]]:
    """Groups rows into long flat lists."""
    fields = chain.from_iterable(rows)
    while batch := list(islice(fields, _BATCH)):
        yield batch


def check_row(
    row: list[str], columns: Sequence[str], separator: str, bad: BadLines, line: int
) -> list[str]:
    """The stripped labels of a row; empty for a bad one."""
    row = [field.strip(" ") for field in row]
    if len(row) != len(columns):
        expected = (
            f"expected {len(columns)} ({', '.join(columns)}) separated by {SEPARATORS[separator]}"
        )
        bad.add(line, f"has {counted(len(row), 'column')}", expected)
        return []
    if not all(row):
        bad.add(line, f"the {columns[row.index('')]} is empty", f"expected {join_words(columns)}")
        return []
    bad.good += 1
    return row


def join_words(columns: Sequence[str]) -> str:
    """Joins the names of columns for a sentence."""
    return f"{', '.join(columns[:-1])} and {columns[-1]}"


def check_writable(labels: Iterable[str]) -> None:
    """Refuses a label that would not read back from a table separated by tabs."""
    for label in labels:
        if label != label.strip(" ") or not label or any(c in label for c in "\t\n\r"):
            raise DataError(
                f"label {label!r} cannot be in a TSV: it is empty or has a tab, newline or outer "
                "space"
            )
