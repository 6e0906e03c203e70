"""Ranks of the hard answers of queries, by the scores of a reasoner."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.distributed.shards import Shards
from tacit.engine.questions import threads_to_answer
from tacit.engine.reasoner import Reasoner
from tacit.links.ranking import Ties, by_query, check_ranks, ranks
from tacit.query.plans.plan import Plan
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.queries import QuerySet

_AT_MOST = 512  # queries in a batch


@torch.no_grad()  # inference mode would deny continuous search its gradients
def hard_ranks(
    reasoner: Reasoner,
    queries: QuerySet,
    ties: Ties = "realistic",
    batch: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
    processes: Shards | None = None,
) -> Tensor:
    """The rank of each hard answer among all non-answers, in the order of `queries.hard`.

    Without `batch`, as many queries go together as the reasoner has memory for, at most 512.
    Several `processes` take turns at the batches, and all of them get all ranks. A batch is the
    same in any process, and so is the last digit of its scores.
    """
    processes = processes or Shards(len(queries))
    size = batch or batch_size(reasoner, queries.shape.plan)
    # Queries with the same relations share the scores of (candidate, relation) rows in a batch.
    order = np.lexsort(queries.relations.T)
    places = AnswerSets(queries.hard.offsets, np.arange(len(queries.hard.ids), dtype=np.int32))
    ordered = torch.zeros(len(places.ids))
    batches = list[tuple[Tensor, Tensor]]()
    for start in range(processes.rank * size, len(order), processes.world * size):
        chosen = order[start : start + size]
        part = queries.subset(chosen)
        plan = part.shape.plan
        # The batch is as much work as one plan over that many entities.
        with threads_to_answer([plan], len(part) * reasoner.num_entities):
            scores = reasoner.ranking(plan, *slots(part))
            # Ranking writes to the rows, so they must not share memory.
            if 0 in scores.stride():
                scores = scores.contiguous()
            rows, hard, known_rows, known = (
                _ids(column).to(scores.device)
                for answers in (part.hard, part.easy)
                for column in (answers.rows, answers.ids)
            )
            places_of = ranks(scores, rows, hard, known_rows, known, ties, reasoner.shards)
        # Check the first batch alone on a GPU: a damaged model shows in any.
        if not batches or places_of.device.type == "cpu":
            check_ranks(places_of)
        batches.append((_ids(places.subset(chosen).ids), places_of))
        progress(start + len(part))
    for at, places_of in batches:
        ordered[at] = places_of.cpu()
    return check_ranks(processes.sum(ordered))


def reciprocal_ranks(reasoner: Reasoner, queries: QuerySet) -> Tensor:
    """The filtered MRR of each query that has hard answers, `[Q]`."""
    return by_query(hard_ranks(reasoner, queries), torch.from_numpy(queries.hard.rows))["mrr"]


def mean_reciprocal_ranks(reasoner: Reasoner, queries: Mapping[str, QuerySet]) -> dict[str, float]:
    """The filtered MRR of each set of queries."""
    return {
        name: float(reciprocal_ranks(reasoner, query_set).mean())
        for name, query_set in queries.items()
    }


def with_hard_answers(
    queries: Mapping[str, QuerySet], most: int, random: np.random.Generator
) -> dict[str, QuerySet]:
    """At most `most` queries of each set, only those with hard answers."""
    chosen = {}
    for name, query_set in queries.items():
        useful = random.permutation(np.flatnonzero(query_set.hard.counts))[:most]
        if len(useful):
            chosen[name] = query_set.subset(np.sort(useful))
    return chosen


def batch_size(reasoner: Reasoner, plan: Plan) -> int:
    """How many queries of a plan to score at once."""
    return max(1, min(reasoner.batch(plan), _AT_MOST))


def slots(queries: QuerySet) -> tuple[Tensor, Tensor]:
    """The entities and relations of queries, as a reasoner takes them."""
    return _ids(queries.entities), _ids(queries.relations)


def _ids(column: NDArray[np.integer]) -> Tensor:
    return torch.from_numpy(column.astype(np.int64))
