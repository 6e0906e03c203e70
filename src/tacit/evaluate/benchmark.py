"""BetaE's protocol: every hard answer of every query, ranked among all entities that are no answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tacit.engine.reasoner import Reasoner
from tacit.errors import DataError
from tacit.evaluate.results import Figures, Results
from tacit.graph.graph import PARTS, Graph
from tacit.links.ranking import Ties, by_query, ranks
from tacit.query.queries import Answers, QuerySet
from tacit.query.shapes import SHAPES

Progress = Callable[[str, int, int], None]  # name of the query set, queries done, queries in all
GB = 1 << 30


def evaluate(
    reasoner: Reasoner,
    queries: Mapping[str, QuerySet],
    ties: Ties = "realistic",
    limit: int | None = None,
    batch: int | None = None,
    memory: float = 1.0,
    progress: Progress | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Results:
    """Rank the hard answers of each set of queries.

    Queries without hard answers are left out; `limit` keeps that many of each set, a sample that is the same every
    time. Without `batch`, as many queries go together as `memory` (GB) holds rows of scores for, at most 512.
    """
    figures = {}
    for name, chosen in queries.items():
        kept = sample(chosen.subset(np.flatnonzero(chosen.hard.counts)), limit)
        if not len(kept):
            raise DataError(f"the {len(chosen):,} {name} queries have no hard answers to rank")
        figures[name] = measure(reasoner, kept, ties, batch, memory, _naming(progress, name, len(kept)))
    return Results(figures, ties, dict(settings or {}))


def measure(
    reasoner: Reasoner,
    queries: QuerySet,
    ties: Ties = "realistic",
    batch: int | None = None,
    memory: float = 1.0,
    progress: Callable[[int], None] = lambda done: None,
) -> Figures:
    """The figures of each query of one set, in the order of the set, and the time taken."""
    started = time.perf_counter()
    size = batch or batch_size(reasoner.num_entities, memory)
    # Batches whose last hops share a relation let an engine score each (candidate, relation) once for all of them.
    order = np.lexsort(queries.relations.T)
    found = []
    for start in range(0, len(order), size):
        part = queries.subset(order[start : start + size])
        scores = reasoner.ranking(part.shape.plan, *slots(part))
        found.append(rank_answers(scores, part, ties).cpu())
        progress(start + len(part))
    by_rank = by_query(torch.cat(found), torch.from_numpy(queries.subset(order).hard.rows))
    back = np.argsort(order)
    values = {name: column.numpy()[back] for name, column in by_rank.items()}
    return Figures(queries, values, time.perf_counter() - started)


def batch_size(num_entities: int, memory: float) -> int:
    """How many queries go together: an engine holds about eight rows of floats for each."""
    return int(np.clip(memory * GB // (8 * 4 * num_entities), 1, 512))


def rank_answers(scores: Tensor, queries: QuerySet, ties: Ties) -> Tensor:
    """The rank of each hard answer of the queries that `scores` has a row for."""
    rows, hard, easy_rows, easy = (
        torch.from_numpy(np.asarray(column, dtype=np.int64)).to(scores.device)
        for answers in (queries.hard, queries.easy)
        for column in (answers.rows, answers.ids)
    )
    return ranks(scores, rows, hard, easy_rows, easy, ties)


def one_hop_queries(graph: Graph, part: str = "test") -> QuerySet:
    """Link prediction as 1p queries: each (head, relation) of a part, in both directions.

    As in BetaE, easy answers are those of the parts before (`train` for `valid`, `train` and `valid` for `test`), and
    hard ones those that only this part knows.
    """
    before = graph.index(*PARTS[: PARTS.index(part)]) if part != PARTS[0] else None
    index = graph.index(part)
    entities, relations = (column.astype(np.int32)[:, None] for column in (index.heads, index.relations))
    hard = Answers(index.offsets, index.all_tails)
    easy = Answers.none(len(hard))
    if before is not None:
        rows, tails = before.neighbours(index.heads, index.relations)
        easy = Answers(np.searchsorted(rows, np.arange(len(hard) + 1)), tails)
    queries = QuerySet(SHAPES["1p"], entities, relations, easy, hard.minus(easy))
    return queries.subset(np.flatnonzero(queries.hard.counts))


def check_ids(queries: Mapping[str, QuerySet], graph: Graph) -> None:
    """Raise a `DataError` where queries speak of ids that the graph does not have."""
    for name, chosen in queries.items():
        ids = (chosen.entities, chosen.easy.ids, chosen.hard.ids)
        for kind, found, size in (
            ("entity", max(int(part.max(initial=-1)) for part in ids), graph.num_entities),
            ("relation", int(chosen.relations.max(initial=-1)), graph.num_relations),
        ):
            if found >= size:
                raise DataError(
                    f"the {name} queries speak of {kind} {found:,}, but {graph.name} ends at {size - 1:,}; "
                    "give queries of the graph the run was made for"
                )


def slots(queries: QuerySet) -> tuple[Tensor, Tensor]:
    """The entities and relations of queries, as a reasoner takes them."""
    entities, relations = (torch.from_numpy(ids.astype(np.int64)) for ids in (queries.entities, queries.relations))
    return entities, relations


def sample(queries: QuerySet, limit: int | None) -> QuerySet:
    """At most so many of the queries, the same ones every time."""
    if limit is None or limit >= len(queries):
        return queries
    return queries.subset(np.sort(np.random.default_rng(0).permutation(len(queries))[:limit]))


def _naming(progress: Progress | None, name: str, total: int) -> Callable[[int], None]:
    def report(done: int) -> None:
        if progress is not None:
            progress(name, done, total)

    return report
