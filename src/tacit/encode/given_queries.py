"""Queries of a folder that an encoder learns from and is validated with; what the folder lacks is drawn."""

from __future__ import annotations

from pathlib import Path

from tacit.encode.settings import EncodeSettings
from tacit.errors import DataError
from tacit.graph.graph import Graph
from tacit.query.queries import QuerySet
from tacit.query.query_folder import queries_for

Queries = dict[str, QuerySet]


def given_queries(graph: Graph, settings: EncodeSettings, folder: str | Path) -> tuple[Queries, Queries]:
    """The train and the valid queries of a folder, of the shapes to learn from that it has."""
    found: list[Queries] = []
    for split in ("train", "valid"):
        there = (Path(folder) / f"{split}-queries.pkl").is_file()
        found.append(queries_for(graph, folder, split, settings.shapes, absent_ok=True) if there else {})
    learned, valid = found
    if not learned:
        wanted = ", ".join(settings.shapes or ("any shape",))
        raise DataError(f"has no train queries of {wanted} to learn from; leave it out, and they are drawn", folder)
    return learned, valid
