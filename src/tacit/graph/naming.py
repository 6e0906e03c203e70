"""What labels stand for, kept in a folder beside the facts: `prefixes.tsv`, the namespaces of prefixed IRIs."""

from __future__ import annotations

from pathlib import Path

from tacit.graph.graph import Graph
from tacit.graph.prefixes import Prefixes
from tacit.graph.tables import table_fields

PREFIXES = "prefixes.tsv"
NAMING = (PREFIXES,)


def write_naming(graph: Graph, folder: Path) -> None:
    """Writes what there is to say of a graph's labels; where there is nothing, no file."""
    if graph.prefixes:
        lines = [f"{prefix}:\t{namespace}\n" for prefix, namespace in graph.prefixes.items()]
        (folder / PREFIXES).write_text("".join(lines), encoding="utf-8")


def read_prefixes(folder: Path) -> Prefixes:
    """The prefixes a folder declares, as Turtle writes them: `geo:` and the namespace, `:` for the empty prefix."""
    path = folder / PREFIXES
    fields = (
        [field for block in table_fields(path, ("prefix", "namespace")) for field in block] if path.exists() else []
    )
    return Prefixes({prefix.removesuffix(":"): space for prefix, space in zip(fields[::2], fields[1::2], strict=True)})
