"""Queries that an encoder learns from and is validated with, where some are given; what they lack is drawn."""

from __future__ import annotations

from pathlib import Path

from tacit.encode.settings import EncodeSettings
from tacit.errors import DataError, SettingsError
from tacit.graph.graph import Graph
from tacit.query.sampling.queries import QuerySets, has_queries
from tacit.query.sampling.query_folder import check_ids, queries_for


def given_queries(
    graph: Graph, settings: EncodeSettings, source: str | Path | QuerySets | None
) -> tuple[QuerySets, QuerySets | None]:
    """The queries to learn from, of query sets or of a folder, and those of the folder to validate with.

    Of a folder it takes the train queries of the shapes to learn from that it has, and the valid ones of any shape.
    """
    if not isinstance(source, str | Path):
        given = {} if source is None else source
        check_ids(given, graph)
        if given and settings.shapes and given.keys().isdisjoint(settings.shapes):
            raise SettingsError(f"queries are of {', '.join(given)}, and shapes names none of them", "shapes")
        return given, None
    learned, valid = (
        queries_for(graph, source, split, shapes, absent_ok=True) if has_queries(source, split) else {}
        for split, shapes in (("train", settings.shapes), ("valid", None))
    )
    if not learned:
        wanted = ", ".join(settings.shapes or ("any shape",))
        raise DataError(f"has no train queries of {wanted} to learn from; leave it out, and they are drawn", source)
    return learned, valid or None
