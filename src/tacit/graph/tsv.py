"""Label facts in three columns, separated by tabs or commas."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from tacit.errors import DataError
from tacit.graph.build import Builder
from tacit.graph.files import atomic_file, atomic_folder, blocks, decoded, extension
from tacit.graph.graph import PARTS, Graph, Triples

_TAB, _NEWLINE, _SPACE = b"\t\n "
_HEADERS = {
    ("head", "relation", "tail"),
    ("subject", "predicate", "object"),
    ("source", "relation", "target"),
    ("h", "r", "t"),
    ("s", "p", "o"),
}


def read_tsv(path: Path, part: str, builder: Builder) -> None:
    """Adds the facts of a three-column file, `.csv` by commas and quotes, anything else by tabs."""
    empty = True
    for fields in csv_fields(path) if extension(path) == ".csv" else tsv_fields(path):
        if empty and tuple(f.lower() for f in fields[:3]) in _HEADERS:
            builder.notes.append(f"{part}: the first line of {path.name} was taken for a header and skipped")
            del fields[:3]
        if fields:
            empty = False
            builder.add(part, fields)
    if empty:
        raise DataError("holds no facts; expected lines of head, relation and tail", path)


def tsv_fields(path: Path) -> Iterator[list[str]]:
    """The columns of a tab-separated file, in flat lists of three fields a line, block by block."""
    for line, block in blocks(path):
        text = decoded(block, line, path)
        yield text[:-1].replace("\n", "\t").split("\t") if _regular(block) else _careful(text, line, path)


def _regular(block: bytes) -> bool:
    """Whether every line of a block is three fields without spaces at their ends, told without a loop."""
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data - _TAB <= _NEWLINE - _TAB)  # unsigned: true of tabs and newlines alone
    if len(ends) % 3 or (data[ends].reshape(-1, 3) != (_TAB, _TAB, _NEWLINE)).any():
        return False
    starts = np.concatenate([[0], ends[:-1] + 1])
    spaced = (data[starts] == _SPACE) | (data[ends - 1] == _SPACE)
    return not (spaced | (starts == ends)).any()


def _careful(text: str, line: int, path: Path) -> list[str]:
    """The same line by line: blank lines go, spaces around labels too, and anything else is an error with its line."""
    fields: list[str] = []
    for number, content in enumerate(text[:-1].split("\n"), start=line):
        if content and not content.isspace():
            row = [field.strip(" ") for field in content.split("\t")]
            _check(row, "tabs", path, number)
            fields += row
    return fields


def csv_fields(path: Path) -> Iterator[list[str]]:
    """The columns of a comma-separated file, in flat lists of three fields a line."""
    lines = (row for line, block in blocks(path) for row in io.StringIO(decoded(block, line, path)))
    rows = csv.reader(lines, strict=True, skipinitialspace=True)
    fields: list[str] = []
    try:
        for row in rows:
            if row:
                row = [field.strip(" ") for field in row]
                _check(row, "commas", path, rows.line_num)
                fields += row
                if len(fields) >= 30_000:
                    yield fields
                    fields = []
    except csv.Error as error:
        raise DataError(f"is not CSV ({error})", path, rows.line_num) from None
    yield fields


def _check(row: list[str], separators: str, path: Path, line: int) -> None:
    if len(row) != 3:
        _refuse(row, separators, path, line)
    if not all(row):
        which = ("head", "relation", "tail")[row.index("")]
        raise DataError(f"the {which} is empty; expected head, relation and tail", path, line)


def _refuse(row: list[str], separators: str, path: Path, line: int) -> NoReturn:
    columns = "1 column" if len(row) == 1 else f"{len(row)} columns"
    raise DataError(f"has {columns}; expected 3 (head, relation, tail) separated by {separators}", path, line)


def write_tsv(graph: Graph, path: str | Path) -> None:
    """Writes label facts: to one file, all parts together, where the name ends in `.tsv` or `.txt` (or in `.gz` after
    these); to a folder with `train.tsv`, `valid.tsv` and `test.tsv` where it has no extension or is a folder.
    """
    path = Path(path)
    if path.suffix and not path.is_dir():
        if extension(path) not in (".tsv", ".txt"):
            raise DataError(
                "can be written as .tsv, .txt, either with .gz, or as a folder (a name without extension)", path
            )
        with atomic_file(path) as file:
            file.write(_lines(graph, graph.facts()))
        return
    with atomic_folder(path) as folder:
        for part in PARTS:
            (folder / f"{part}.tsv").write_bytes(_lines(graph, graph.part(part)))


def _lines(graph: Graph, facts: Triples) -> bytes:
    for label in (*graph.entities, *graph.relations):
        if label != label.strip(" ") or not label or any(c in label for c in "\t\n\r"):
            raise DataError(
                f"label {label!r} cannot be written to a TSV: it is empty or has a tab, newline or outer space"
            )
    entities, relations = graph.entities.labels, graph.relations.labels
    return "".join([f"{entities[h]}\t{relations[r]}\t{entities[t]}\n" for h, r, t in facts.tolist()]).encode()
