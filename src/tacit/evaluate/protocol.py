"""BetaE's protocol: every hard answer of every query, ranked among non-answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from tacit.distributed.shards import Shards
from tacit.engine.ranking import hard_ranks
from tacit.engine.reasoner import Reasoner
from tacit.errors import DataError
from tacit.evaluate.results import Figures, Results
from tacit.evaluate.settings import EvaluateSettings
from tacit.fitting.progress import Progress, counting
from tacit.graph.graph import Graph
from tacit.links.ranking import Ties
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.queries import QuerySet, QuerySets, with_answers
from tacit.query.sampling.shapes import SHAPES

DEFAULTS = EvaluateSettings()
FILTERED = "easy and hard answers"  # what never competes with the answer that is ranked


def evaluate(
    reasoner: Reasoner,
    queries: QuerySets,
    protocol: EvaluateSettings = DEFAULTS,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | bool = False,
    processes: Shards | None = None,
) -> Results:
    """Rank the hard answers of each set of queries.

    Results record `settings` beside what they are made with. Several `processes` share the queries
    out, and all get the same results.

    The reasoner of an engine with `new` ranks answers that the observed facts imply last. If all
    facts before the split are observed, these are the easy answers, which never compete. If only
    the training facts are, they include wrong answers, which follow from a negation that a later
    fact refutes, and a few hard answers. No figure with `new` may stand beside one without, unless
    it says so.
    """
    with counting(progress) as counts:
        figures = {
            name: measure(reasoner, query_set, protocol, counts(name, len(query_set)), processes)
            for name, query_set in queries_to_rank(queries, protocol.limit).items()
        }
    limited = {} if protocol.limit is None else {"limit": protocol.limit}
    conditions = {
        **(settings or {}),
        **limited,
        "ties": protocol.ties,
        "mean": protocol.mean,
        "filtered": FILTERED,
    }
    return Results(figures, protocol.ties, conditions, protocol.mean)


def queries_to_rank(queries: QuerySets, limit: int | None) -> dict[str, QuerySet]:
    """The queries with hard answers; `limit` keeps a fixed sample of each set."""
    selected = {}
    for name, query_set in queries.items():
        ranked = query_set.subset(np.flatnonzero(query_set.hard.counts))
        if not len(ranked):
            raise DataError(f"the {len(query_set):,} {name} queries have no hard answers to rank")
        selected[name] = sample(ranked, limit)
    return selected


def measure(
    reasoner: Reasoner,
    queries: QuerySet,
    protocol: EvaluateSettings = DEFAULTS,
    progress: Callable[[int], None] = lambda done: None,
    processes: Shards | None = None,
) -> Figures:
    """The figures of each query of one set, in the order of the set, with the time."""
    started = time.perf_counter()
    ties = cast("Ties", protocol.ties)
    ranks = hard_ranks(reasoner, queries, ties, protocol.batch, progress, processes)
    return Figures(queries, ranks, time.perf_counter() - started)


def one_hop_queries(graph: Graph, split: str = "test") -> QuerySet:
    """Link prediction as 1p queries: each (head, relation) of a split, in both directions.

    As in BetaE, easy answers are those of the splits before (`train` for `valid`, `train` and
    `valid` for `test`), and hard ones those that only this split knows.
    """
    index = graph.index(split)
    entities, relations = (
        column.astype(np.int32)[:, None] for column in (index.heads, index.relations)
    )
    none = AnswerSets.none(len(entities))
    queries = QuerySet(SHAPES["1p"], entities, relations, none, none)
    queries = with_answers(queries, graph, split)
    return queries.subset(np.flatnonzero(queries.hard.counts))


def sample(queries: QuerySet, limit: int | None) -> QuerySet:
    """At most so many of the queries, the same ones every time."""
    if limit is None or limit >= len(queries):
        return queries
    return queries.subset(np.sort(np.random.default_rng(0).permutation(len(queries))[:limit]))
