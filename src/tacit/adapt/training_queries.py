"""The queries for the training and validation of an adapter, from files or sampled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.adapt.settings import AdaptSettings
from tacit.errors import DataError
from tacit.graph.graph import Graph
from tacit.query.sampling.queries import QuerySet, QuerySets, has_queries, without_queries
from tacit.query.sampling.query_folder import queries_for
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES

QuerySource = str | Path | QuerySets | None


def training_queries(
    graph: Graph, settings: AdaptSettings, source: QuerySource = None, count: int = 5000
) -> QuerySets:
    """The queries to learn from, with their answers: query sets, or those of a folder.

    Missing shapes of a folder are sampled.
    """
    if not (source is None or isinstance(source, str | Path)):
        return source  # checked where it is learned from
    split = "valid" if settings.with_derived(len(graph.valid) > 0).held_out else "train"
    if source and split == "valid" and not has_queries(source, split):
        if not has_queries(source, "train"):
            raise without_queries(source, split)
        raise DataError(
            "has no valid-queries.pkl, but train queries; learn from those by `held_out=False`",
            source,
        )
    return _queries_for(graph, source, split, settings.shapes, count, settings.seed)


def validation_queries(
    graph: Graph, settings: AdaptSettings, source: QuerySource = None
) -> QuerySets | None:
    """Queries for validation; None if they must be split off the training queries."""
    if not (source is None or isinstance(source, str | Path)) or not len(graph.valid):
        return None
    if settings.with_derived(1).held_out:
        return None
    folder = source if source is not None and has_queries(source, "valid") else None
    return _queries_for(
        graph, folder, "valid", settings.shapes, settings.validate_queries, settings.seed + 1
    )


def set_apart(
    queries: QuerySets, limit: int, random: np.random.Generator
) -> tuple[dict[str, QuerySet], dict[str, QuerySet]]:
    """Split queries for training and validation: a tenth of each set, at most `limit`.

    A question that a file lists twice, with its branches swapped, stays on one side.
    """
    training = {}
    validation = {}
    for name, query_set in queries.items():
        order = random.permutation(len(query_set))
        valid, train = np.split(order, [min(limit, len(query_set) // 10)])
        question = _question(query_set)
        train = train[~np.isin(question[train], question[valid])]
        validation[name] = query_set.subset(np.sort(valid))
        training[name] = query_set.subset(np.sort(train))
    return training, validation


def _question(queries: QuerySet) -> NDArray[np.int64]:
    """A number for each query, equal for the same ids in any order with the same answers."""
    columns: list[NDArray[Any]] = [np.sort(queries.entities, 1), np.sort(queries.relations, 1)]
    columns += [
        np.bincount(answers.rows, weights, len(queries))[:, None]
        for answers in (queries.easy, queries.hard)
        for weights in (np.ones(len(answers.ids)), answers.ids)
    ]
    numbers: NDArray[np.int64] = np.unique(np.hstack(columns), axis=0, return_inverse=True)[
        1
    ].reshape(-1)
    return numbers


def _queries_for(
    graph: Graph,
    folder: str | Path | None,
    split: str,
    shapes: Sequence[str],
    count: int,
    seed: int,
) -> dict[str, QuerySet]:
    """Queries of a folder, and sampled ones of its missing shapes."""
    queries = {} if folder is None else queries_for(graph, folder, split, shapes, absent_ok=True)
    for name in shapes:
        if name not in queries:
            sampled = sample(graph, SHAPES[name], split, count, seed=seed).queries
            if len(sampled):
                queries[name] = sampled
    return {name: queries[name] for name in shapes if name in queries}
