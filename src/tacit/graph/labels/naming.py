"""Files beside the facts that explain labels: `prefixes.tsv` and `names.tsv`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tacit.errors import DataError
from tacit.graph.builder import counted
from tacit.graph.formats.bad_lines import BadLines
from tacit.graph.formats.delimited import check_writable, table_fields
from tacit.graph.formats.duckdb_tables import PARQUET, parquet_fields
from tacit.graph.formats.files import extension
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes

PREFIXES = "prefixes.tsv"
NAMES = "names.tsv"
NAMING = (PREFIXES, NAMES)


def write_naming(graph: Graph, folder: Path) -> None:
    """Writes the prefixes and names of a graph, each to a file if there are any."""
    if graph.prefixes:
        lines = [f"{prefix}:\t{namespace}\n" for prefix, namespace in graph.prefixes.items()]
        (folder / PREFIXES).write_text("".join(lines), encoding="utf-8")
    if names := graph.names:
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

    Lines that lack one of them are an error, or skipped and noted where `skip_bad` says so.
    """
    names: dict[str, list[str]] = {}
    unknown = 0
    bad = BadLines(path, skip_bad, "row" if extension(path) == PARQUET else "line")
    for number, (text, name) in enumerate(_pairs(bad, "label", "name")):
        known = text in graph.entities or text in graph.relations
        label = text if known else graph.label_of(text.removeprefix("<").removesuffix(">"))
        if label is not None:
            names.setdefault(label, []).append(name)
        elif number or name.lower() not in ("name", "label"):  # not a header
            unknown += 1
    if not names:
        raise DataError("names no label of the graph; expected lines of label and name", path)
    skipped = [
        f"{path.name}: {counted(unknown, 'name')} of labels that the graph does not have skipped"
    ]
    notes = (
        *graph.notes,
        *(skipped if unknown else ()),
        *([bad.note("names")] if bad.count else ()),
    )
    return replace(graph.named(names), notes=notes)


def _pairs(bad: BadLines, *columns: str) -> Iterator[tuple[str, str]]:
    read = parquet_fields if extension(bad.path) == PARQUET else table_fields
    for fields in read(bad.path, columns, bad):
        yield from zip(fields[0::2], fields[1::2], strict=True)
