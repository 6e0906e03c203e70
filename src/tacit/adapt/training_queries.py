"""The queries that an adapter learns from, of somebody, a folder or the graph itself, and those to validate it with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.adapt.settings import AdaptSettings
from tacit.errors import DataError, SettingsError
from tacit.graph.builder import counted
from tacit.graph.graph import Graph
from tacit.query.sampling.queries import QuerySet, QuerySets, has_queries
from tacit.query.sampling.query_folder import queries_for
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES

QuerySource = str | Path | QuerySets | None


def training_queries(graph: Graph, settings: AdaptSettings, source: QuerySource = None, count: int = 5000) -> QuerySets:
    """The queries to learn from, with their answers: query sets by shape, or those of a folder and sampled ones of the
    shapes that it does not have.
    """
    if settings.halved:
        if len(graph.valid) < 2:
            facts = counted(len(graph.valid), "validation fact")
            raise SettingsError(f"halved takes at least two validation facts, and the graph has {facts}", "halved")
        if source is not None:
            raise SettingsError("queries are given, and halved draws its own queries; leave out one", "halved")
        return _sampled(halved(graph, settings.seed), "test", settings.shapes, count, settings.seed)
    if not (source is None or isinstance(source, str | Path)):
        return source  # or what is none, which is refused where it is learned from
    split = "valid" if settings.settled(len(graph.valid) > 0).held_out else "train"
    if source and split == "valid" and not has_queries(source, split):
        raise DataError("no valid-queries.pkl to learn from; for training queries, held_out must be false", source)
    return _found(graph, source, split, settings.shapes, count, settings.seed)


def halved(graph: Graph, seed: int = 0) -> Graph:
    """The graph with one half of its validation facts as validation, the other as test."""
    order = np.random.default_rng(seed).permutation(len(graph.valid))
    valid, test = np.array_split(graph.valid[order], 2)
    return replace(graph, valid=valid, test=test)


def validation_queries(graph: Graph, settings: AdaptSettings, source: QuerySource = None) -> QuerySets | None:
    """Queries to validate with; None where they must come from those that are learned from."""
    given = not (source is None or isinstance(source, str | Path))
    if given or settings.settled(len(graph.valid) > 0).held_out or not len(graph.valid):
        return None
    there = source if isinstance(source, str | Path) and has_queries(source, "valid") else None
    return _found(graph, there, "valid", settings.shapes, settings.validate_queries, settings.seed + 1)


def set_apart(
    queries: QuerySets, most: int, random: np.random.Generator
) -> tuple[dict[str, QuerySet], dict[str, QuerySet]]:
    """Queries to learn from and others to validate with: a tenth of each set, at most `most`.

    A question that a file lists twice, with its branches swapped, does not come to both sides.
    """
    kept, apart = {}, {}
    for name, query_set in queries.items():
        order = random.permutation(len(query_set))
        chosen, rest = np.split(order, [min(most, len(query_set) // 10)])
        question = _question(query_set)
        rest = rest[~np.isin(question[rest], question[chosen])]
        apart[name], kept[name] = query_set.subset(np.sort(chosen)), query_set.subset(np.sort(rest))
    return kept, apart


def _question(queries: QuerySet) -> NDArray[np.int64]:
    """A number for each query, the same where the same ids in other places have the same answers."""
    columns: list[NDArray[Any]] = [np.sort(queries.entities, 1), np.sort(queries.relations, 1)]
    columns += [
        np.bincount(answers.rows, weights, len(queries))[:, None]
        for answers in (queries.easy, queries.hard)
        for weights in (np.ones(len(answers.ids)), answers.ids)
    ]
    numbers: NDArray[np.int64] = np.unique(np.hstack(columns), axis=0, return_inverse=True)[1].reshape(-1)
    return numbers


def _found(
    graph: Graph, folder: str | Path | None, split: str, shapes: Sequence[str], count: int, seed: int
) -> dict[str, QuerySet]:
    """Queries of a folder, and sampled ones of the shapes that it does not have."""
    queries = {} if folder is None else queries_for(graph, folder, split, shapes, absent_ok=True)
    queries |= _sampled(graph, split, [name for name in shapes if name not in queries], count, seed)
    return {name: queries[name] for name in shapes if name in queries}


def _sampled(graph: Graph, split: str, shapes: Iterable[str], count: int, seed: int) -> dict[str, QuerySet]:
    drawn = {name: sample(graph, SHAPES[name], split, count, seed=seed).queries for name in shapes}
    return {name: queries for name, queries in drawn.items() if len(queries)}
