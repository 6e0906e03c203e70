"""What labels stand for, kept in a folder beside the facts: `prefixes.tsv` for IRIs, `names.tsv` for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tacit.errors import DataError
from tacit.graph.builder import counted
from tacit.graph.formats.delimited import check_writable, table_fields
from tacit.graph.formats.duckdb_tables import PARQUET, parquet_fields
from tacit.graph.formats.files import extension
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes

PREFIXES, NAMES = "prefixes.tsv", "names.tsv"
NAMING = (PREFIXES, NAMES)


def write_naming(graph: Graph, folder: Path) -> None:
    """Writes what there is to say of a graph's labels; where there is nothing, no file."""
    if graph.prefixes:
        lines = [f"{prefix}:\t{namespace}\n" for prefix, namespace in graph.prefixes.items()]
        (folder / PREFIXES).write_text("".join(lines), encoding="utf-8")
    if names := graph.names:
        check_writable(names)
        lines = [f"{label}\t{' '.join(name.split())}\n" for label in names for name in names[label]]
        (folder / NAMES).write_text("".join(lines), encoding="utf-8")


def read_prefixes(folder: Path) -> Prefixes:
    """The prefixes a folder declares, as Turtle writes them: `geo:` and the namespace, `:` for the empty prefix."""
    path = folder / PREFIXES
    pairs = _pairs(path, "prefix", "namespace") if path.exists() else ()
    return Prefixes({prefix.removesuffix(":"): namespace for prefix, namespace in pairs})


def read_names(graph: Graph, path: Path) -> Graph:
    """The graph with the names of a table of two columns, label and name; a label may be given as its IRI, too."""
    names: dict[str, list[str]] = {}
    unknown = 0
    for number, (given, name) in enumerate(_pairs(path, "label", "name")):
        known = given in graph.entities or given in graph.relations
        label = given if known else graph.label_of(given.removeprefix("<").removesuffix(">"))
        if label is not None:
            names.setdefault(label, []).append(name)
        elif number or name.lower() not in ("name", "label"):  # not a header
            unknown += 1
    if not names:
        raise DataError("names no label of the graph; expected lines of label and name", path)
    skipped = f"{path.name}: {counted(unknown, 'name')} of labels that the graph does not have skipped"
    return replace(graph.named(names), notes=(*graph.notes, skipped) if unknown else graph.notes)


def _pairs(path: Path, *columns: str) -> Iterator[tuple[str, str]]:
    for fields in parquet_fields(path, columns) if extension(path) == PARQUET else table_fields(path, columns):
        yield from zip(fields[0::2], fields[1::2], strict=True)
