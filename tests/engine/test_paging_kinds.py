"""Pages of tuples and relations, and counts, are slices and sums of the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tables import FactorScorer
from tacit.engine.engine import Engine
from tacit.graph.graph import Graph

LEVELS = np.array([0.1, 0.3, 0.5, 0.9])  # few, so that many answers tie
FACTS = [
    ("a", "r", "b"),
    ("a", "r", "c"),
    ("b", "q", "c"),
    ("c", "q", "d"),
    ("a", "q", "b"),
    ("d", "p", "a"),
]
QUESTIONS = [
    "?s, ?o : r(?s, ?o)",
    "?s, ?o : exists ?x . r(?s, ?x) & q(?x, ?o)",
    "?s, ?o : r(?s, ?o) | q(?o, ?s)",
    "?s, ?o : r(?s, ?o) & !q(?s, ?o)",
    "?p : ?p(a, b)",
]


def make_engine(**changes: object) -> Engine:
    random = np.random.default_rng(4)
    scorer = FactorScorer([random.choice(LEVELS, (4, 4)) for _ in range(3)])
    return Engine(Graph.of(FACTS), scorer, calibration="sigmoid", loops=True, **changes)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "changes", [{"search": "exact"}, {"k": 2}, {"search": "exact", "new": True}]
)
def test_a_page_is_a_slice_of_all_that_are_asked_for(
    question: str, changes: dict[str, object]
) -> None:
    engine = make_engine(**changes)
    whole = engine.ask(question, top=None).answers
    assert {answer.known for answer in whole} == ({False} if "new" in changes else {True, False})
    for least in (0.0, 0.3, 0.9985, whole[0].score, whole[-1].score):
        good = [answer for answer in whole if answer.score >= least]
        for offset, top in ((0, 1), (1, 2), (2, None), (30, 2)):
            page = engine.ask(question, top, offset=offset, min_score=least)
            assert list(page) == good[offset:][:top]
            assert page.offset == offset
        for known in (True, False):
            listed = engine.ask(
                replace(engine.prepare(question), known=known, min_score=least), top=None
            )
            assert list(listed) == [answer for answer in good if answer.known is known]


def test_a_count_is_of_what_scores_well_enough_and_a_truth_is_always_told() -> None:
    engine = make_engine(search="exact")
    scores = [
        1.0 if a.known else a.score for a in engine.ask("?o : r(a, ?o)", top=None) if a.score >= 0.5
    ]
    counted = engine.ask("count ?o : r(a, ?o)", min_score=0.5).counted
    assert counted is not None
    assert counted.expected == pytest.approx(sum(scores))
    assert 0 < sum(scores) < engine.count("?o : r(a, ?o)").expected
    truth = engine.ask(": p(a, a)", min_score=0.95, offset=3)
    assert (len(truth), truth.offset) == (1, 0)
    assert truth[0].score < 0.95


@pytest.mark.parametrize("search", ["exact", "beam", "certified"])
@pytest.mark.parametrize(
    "question", ["r(a, ?o)", "exists ?x . r(a, ?x) & q(?x, ?o)", "r(a, ?o) & !q(a, ?o)"]
)
def test_a_count_is_of_the_answers_that_a_list_holds(question: str, search: str) -> None:
    """Known answers score 0.999 a fact, and count whole above the least score."""
    engine = make_engine(search=search, k=1)
    whole = "!" not in question
    for least in (0.0, 0.3, 0.9985, 0.9995, 1.0):
        listed = engine.ask(f"?o : {question}", top=None, min_score=least)
        counted = engine.ask(f"count ?o : {question}", min_score=least).counted
        assert counted is not None
        assert counted.known == sum(answer.known for answer in listed)
        expected = sum(1.0 if whole and answer.known else answer.score for answer in listed)
        assert counted.expected == pytest.approx(expected, abs=1e-5)
