"""Queries set apart to validate an adapter with, while it learns from others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.query.sampling.queries import QuerySet


def set_apart(
    queries: Mapping[str, QuerySet], most: int, random: np.random.Generator
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
