"""How well a reasoner answers a few queries, while an adapter is trained."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from tacit.engine.ranking import hard_ranks
from tacit.engine.reasoner import Reasoner
from tacit.links.ranking import summary
from tacit.query.queries import QuerySet


def set_apart(
    queries: Mapping[str, QuerySet], most: int, random: np.random.Generator
) -> tuple[dict[str, QuerySet], dict[str, QuerySet]]:
    """Queries to learn from and others to validate with: a tenth of each set, at most `most`."""
    kept, apart = {}, {}
    for name, one in queries.items():
        order = random.permutation(len(one))
        size = min(most, len(one) // 10)
        apart[name], kept[name] = one.subset(np.sort(order[:size])), one.subset(np.sort(order[size:]))
    return kept, apart


def some(queries: Mapping[str, QuerySet], most: int, random: np.random.Generator) -> dict[str, QuerySet]:
    """At most `most` queries of each set, only those with hard answers."""
    chosen = {}
    for name, one in queries.items():
        useful = random.permutation(np.flatnonzero(one.hard.counts))[:most]
        if len(useful):
            chosen[name] = one.subset(np.sort(useful))
    return chosen


def mean_reciprocal_ranks(reasoner: Reasoner, queries: Mapping[str, QuerySet]) -> dict[str, float]:
    """The filtered MRR of each set of queries."""
    return {
        name: summary(hard_ranks(reasoner, asked), torch.from_numpy(asked.hard.rows))["mrr"]
        for name, asked in queries.items()
    }
