"""Ranks among answers of which the known ones come last."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tables import FactorScorer
from tacit.engine.engine import Engine
from tacit.engine.ranking import hard_ranks
from tacit.evaluate.protocol import evaluate
from tacit.graph.graph import Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.query.plans.sets import AnswerSets
from tacit.query.plans.symbolic import answers
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES


def test_known_answers_rank_last_where_new_ones_are_wanted() -> None:
    """In training b and c answer `r(a, ?x) & !q(a, ?x)`; q(a, c) refutes c, and d is hard."""
    graph = Graph.of(
        [("a", "r", "b"), ("a", "r", "c"), ("a", "q", "e")],
        valid=[("e", "q", "e")],
        test=[("a", "q", "c"), ("a", "r", "d")],
    )
    ids = graph.entities.id
    relations = graph.relations.id
    shape = SHAPES["2in"]
    slots = (
        np.array([[ids("a"), ids("a")]], np.int32),
        np.array([[relations("r"), relations("q")]], np.int32),
    )
    queries = QuerySet(
        shape, *slots, AnswerSets.of([{ids("b"), ids("c")}]), AnswerSets.of([{ids("d")}])
    )
    refuted = QuerySet(shape, *slots, AnswerSets.of([{ids("b")}]), AnswerSets.of([{ids("d")}]))
    scores = np.full((5, 5), 0.1)
    scores[ids("a"), ids("d")], scores[ids("a"), ids("e")] = 0.5, 0.9
    engine = Engine(
        graph, FactorScorer([scores, np.full((5, 5), 0.1)]), calibration="sigmoid", observed="train"
    )
    plain, new = (
        evaluate(each.reasoner, {"2in": refuted}).mrr["2in"]
        for each in (engine, engine.with_settings(new=True))
    )
    assert (plain, new) == (1 / 2, 1.0)  # c is known to be one for all that is known, and wrong
    # BetaE's easy answers hold on train and valid facts; they do not compete, nothing changes.
    plain, new = (
        evaluate(each.reasoner, {"2in": queries}).mrr["2in"]
        for each in (engine, engine.with_settings(new=True))
    )
    assert (plain, new) == (1.0, 1.0)


@pytest.mark.parametrize("name", ["2i", "2in", "inp", "pni"])
def test_ranks_with_known_answers_last_by_counting(name: str) -> None:
    random = np.random.default_rng(0)
    facts = np.unique(random.integers(0, [15, 2, 15], (110, 3), dtype=np.int32) * [1, 2, 1], axis=0)
    parts = np.split(random.permutation(facts).astype(np.int32), [60, 80])
    graph = Graph(Vocabulary(map(str, range(15))), directed("rq"), *parts)
    queries = sample(graph, SHAPES[name], "test", 15).queries
    scorer = FactorScorer(list(random.uniform(0.01, 0.99, (2, 15, 15))))
    engine = Engine(
        graph, scorer, calibration="sigmoid", observed="train", search="exact", loops=True
    )
    plan = queries.shape.plan
    slots = (
        torch.from_numpy(each.astype(np.int64)) for each in (queries.entities, queries.relations)
    )
    scores = engine.reasoner.scores(plan, *slots)
    known = answers(plan, queries.entities, queries.relations, graph.index("train"), 15).to_sets()
    ranks = []
    moved = 0
    for row, implied, easy, hard in zip(
        scores.tolist(), known, queries.easy.to_sets(), queries.hard.to_sets(), strict=True
    ):
        others = set(range(15)) - easy - hard
        moved += len(others & implied)
        for answer in sorted(hard):
            better = [e for e in others - implied if answer in implied or row[e] > row[answer]]
            tied = [
                e
                for e in others
                if (e in implied) == (answer in implied) and (e in implied or row[e] == row[answer])
            ]
            ranks.append(1 + len(better) + len(tied) / 2)
    assert hard_ranks(engine.with_settings(new=True).reasoner, queries).tolist() == pytest.approx(
        ranks
    )
    # without negation, what follows from training facts is an easy answer
    assert bool(moved) == (name != "2i")
