"""Reasons people can follow: which branch carried an answer, and what comes nearest to what is denied."""

from __future__ import annotations

import numpy as np
import pytest

from tables import FactorScorer
from tacit.engine.answers import NO_REASONS, WitnessPart
from tacit.engine.engine import Engine
from tacit.graph.graph import Graph

GRAPH = Graph.of([("a", "r", "b"), ("c", "q", "d")])
R = np.full((4, 4), 0.1)
Q = np.full((4, 4), 0.2)
R[0, 1], Q[2, 1], R[0, 3] = 0.9, 0.6, 0.3


@pytest.fixture
def engine() -> Engine:
    return Engine(GRAPH, FactorScorer([R, Q]), calibration="sigmoid", observed="none", loops=True)


def test_of_an_or_the_branch_that_carried_the_answer_comes_first(engine: Engine) -> None:
    best = engine.explain("?x : q(c, ?x) | r(a, ?x)", top=1)[0]
    assert best.entity == "b"
    assert best.score == pytest.approx(1 - 0.1 * 0.4)
    tree = best.witnesses[0].tree
    assert [(part.atom.relation, part.carried) for part in tree.parts if part.atom] == [("q", False), ("r", True)]
    lines = best.witnesses[0].lines()
    assert lines == [
        ("r(a, b)  0.900 predicted", True),
        ("or 0.600", False),
        ("  q(c, b)  0.600 predicted", False),
        ("2 of 2 atoms predicted", False),
    ]
    assert best.to_dict()["witnesses"][0]["tree"]["parts"][1]["carried"] is True


def test_what_is_denied_is_explained_by_what_comes_nearest_to_it(engine: Engine) -> None:
    best = engine.explain("?x : r(a, ?x) & !(q(c, ?y) & r(?y, ?x))", top=1)[0]
    tree = best.witnesses[0].tree
    denied = next(part for part in tree.parts if part.kind == "not")
    assert denied.counter_example
    # q(c, y) & r(y, b) is nearest over a, by 0.2 · 0.9; over b it is 0.6 · 0.1.
    assert denied.parts[0].chosen == {"y": "a"}
    assert denied.parts[0].score == pytest.approx(0.2 * 0.9)
    texts = [text for text, _ in best.witnesses[0].lines()]
    assert texts[1] == "nothing found; nearest: ?y = a  0.180"
    assert texts[2:4] == ["  not q(c, a)  0.200 predicted", "  not r(a, b)  0.900 predicted"]


def test_how_much_is_predicted_is_said_in_a_line() -> None:
    asked = Engine(GRAPH, FactorScorer([R, Q]), calibration="sigmoid", observed="train")
    best = asked.explain("?x : r(a, ?x) & q(c, ?x)", top=1)[0]
    assert best.witnesses[0].lines()[-1] == ("1 of 2 atoms predicted", False)
    assert (best.witnesses[0].predicted, len(best.witnesses[0].atoms)) == (1, 2)


def test_a_search_without_reasons_says_so(engine: Engine) -> None:
    asked = engine.using(search="symbolic", observed="train")
    answers = asked.explain("?x : r(a, ?x)")
    assert answers.explained is False
    assert answers.certified is True
    assert str(answers).endswith(NO_REASONS)
    assert asked.ask("?x : r(a, ?x)").explained is None


def test_a_tree_is_told_whole() -> None:
    nothing = WitnessPart("true", 1.0)
    assert WitnessPart("and", 1.0, (nothing,)).lines() == []
