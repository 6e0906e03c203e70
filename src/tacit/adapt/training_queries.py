"""Where the queries come from that an adapter learns from: a folder, or the graph itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from tacit.adapt.settings import AdaptSettings
from tacit.errors import DataError, SettingsError
from tacit.graph.builder import counted
from tacit.graph.graph import Graph
from tacit.query.queries import QuerySet
from tacit.query.query_folder import queries_for
from tacit.query.sampling import sample
from tacit.query.shapes import SHAPES


def training_queries(
    graph: Graph, settings: AdaptSettings, folder: Path | None = None, count: int = 5000
) -> dict[str, QuerySet]:
    """The queries to learn from, with their answers; shapes that the folder does not have are sampled."""
    if settings.halved:
        if len(graph.valid) < 2:
            facts = counted(len(graph.valid), "validation fact")
            raise SettingsError(f"halved takes at least two validation facts, and the graph has {facts}", "halved")
        if folder is not None:
            raise SettingsError("queries are given, and halved draws its own queries; leave out one", "halved")
        return _sampled(halved(graph, settings.seed), "test", settings.shapes, count, settings.seed)
    split = "valid" if settings.settled(len(graph.valid) > 0).held_out else "train"
    if folder and split == "valid" and not (folder / "valid-queries.pkl").is_file():
        raise DataError("no valid-queries.pkl to learn from; for training queries, held_out must be false", folder)
    queries = queries_for(graph, folder, split, settings.shapes, absent_ok=True) if folder else {}
    missing = [name for name in settings.shapes if name not in queries]
    queries |= _sampled(graph, split, missing, count, settings.seed)
    return {name: queries[name] for name in settings.shapes if name in queries}


def halved(graph: Graph, seed: int = 0) -> Graph:
    """The graph with one half of its validation facts as validation, the other as test."""
    order = np.random.default_rng(seed).permutation(len(graph.valid))
    found, sought = np.array_split(graph.valid[order], 2)
    return replace(graph, valid=found, test=sought)


def validation_queries(graph: Graph, settings: AdaptSettings, folder: Path | None = None) -> dict[str, QuerySet] | None:
    """Queries to validate with; None where they must come from those that are learned from."""
    if settings.settled(len(graph.valid) > 0).held_out or not len(graph.valid):
        return None
    has_file = folder is not None and (folder / "valid-queries.pkl").is_file()
    queries = queries_for(graph, folder, "valid", settings.shapes, absent_ok=True) if folder and has_file else {}
    missing = [name for name in settings.shapes if name not in queries]
    return queries | _sampled(graph, "valid", missing, settings.validate_queries, settings.seed + 1)


def _sampled(graph: Graph, split: str, shapes: Iterable[str], count: int, seed: int) -> dict[str, QuerySet]:
    drawn = {name: sample(graph, SHAPES[name], split, count, seed=seed).queries for name in shapes}
    return {name: queries for name, queries in drawn.items() if len(queries)}
