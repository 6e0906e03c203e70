"""How well a reasoner answers a few queries, while an adapter is trained."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from tacit.engine.reasoner import MessageReasoner
from tacit.links.ranking import ranks, summary
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


@torch.no_grad()
def mean_reciprocal_ranks(reasoner: MessageReasoner, queries: Mapping[str, QuerySet]) -> dict[str, float]:
    """The filtered MRR of each set of queries."""
    found = {}
    for name, one in queries.items():
        size, parts = max(1, min(256, reasoner.batch(one.shape.plan))), []
        for start in range(0, len(one), size):
            part = one[start : start + size]
            slots = (torch.from_numpy(ids.astype(np.int64)) for ids in (part.entities, part.relations))
            scores = reasoner.ranking(part.shape.plan, *slots)
            hard_rows, hard, easy_rows, easy = (
                torch.from_numpy(np.asarray(column, dtype=np.int64)).to(scores.device)
                for answers in (part.hard, part.easy)
                for column in (answers.rows, answers.ids)
            )
            parts.append(ranks(scores, hard_rows, hard, easy_rows, easy).cpu())
        found[name] = summary(torch.cat(parts), torch.from_numpy(one.hard.rows))["mrr"]
    return found
