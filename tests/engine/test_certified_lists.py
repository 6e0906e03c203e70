"""A certified list of any search is that of exact search, with order and ties."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from tables import FactorScorer, TableScorer
from tacit.engine.answers.answers import Answers
from tacit.engine.engine import Engine
from tacit.engine.top_k import TopKRequest
from tacit.graph.graph import Graph

QUESTIONS = (
    "?t : exists ?v . R(A, ?v) & R(?v, ?t)",
    "?t : exists ?v, ?w . R(A, ?v) & R(?v, ?w) & R(?w, ?t)",
    "?t : exists ?v . (R(A, ?v) | R(A, ?v)) & R(?v, ?t)",
    "?t : (exists ?v . R(A, ?v) & R(?v, ?t)) | R(A, ?t)",
    "?t : (exists ?v . R(A, ?v) & R(?v, ?t)) & (exists ?v . R(A, ?v) & R(?v, ?t))",
    "?t : R(A, ?t) & !(exists ?v . R(A, ?v) & R(?v, ?t))",
    "?t : exists ?v . R(A, ?v) & R(?v, ?t) & !R(?v, ?t)",
    "?t : exists ?y, ?z . R(A, ?y) & R(?y, ?z) & R(?z, ?t) & R(?y, ?t)",
    "?t : exists ?y, ?z . R(?t, ?y) & R(?y, ?z) & R(?z, ?t)",
    "?t, ?u : R(A, ?t) & (exists ?v . R(?t, ?v) & R(?v, ?u))",
    "?t, ?u : exists ?v . R(A, ?v) & R(?v, ?t) & R(?t, ?u)",
    ": exists ?x, ?y . R(A, ?x) & R(?x, ?y) & R(?y, A)",
)


def tied_engine(random: Random, logic: str) -> Engine:
    """Return an engine of few entities, many facts and three scores, so many answers tie."""
    size = random.randint(4, 9)
    facts = {
        (f"e{random.randrange(size)}", random.choice("rqp"), f"e{random.randrange(size)}")
        for _ in range(24)
    }
    graph = Graph.of(
        [*((f"e{i}", "z", f"e{i}") for i in range(size)), *(("e0", r, "e0") for r in "rqp"), *facts]
    )
    values = np.random.default_rng(random.randrange(2**32)).choice([0.2, 0.5, 0.8], (4, size, size))
    scorer = random.choice([FactorScorer, TableScorer])(list(values))
    observed: dict[str, Any] = {"observed": "none"}
    if random.random() < 0.7:
        observed = {"observed_score": random.choice([1.0 - 2.0**-10, 1.0, 0.9])}
    return Engine(graph, scorer, calibration="sigmoid", logic=logic, **observed)


def drawn(random: Random, engine: Engine) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return a question, settings of the search, and options of the list of answers."""
    letters = {
        "R": lambda: random.choice("rqp"),
        "A": lambda: f"e{random.randrange(engine.graph.num_entities)}",
    }
    text = "".join(
        letters[letter]() if letter in letters else letter for letter in random.choice(QUESTIONS)
    )
    ways: list[dict[str, Any]] = [
        {"search": "beam"},
        {"search": "certified"},
        {"budget": random.randint(1, 9)},
    ]
    ways += [{"search": "beam", "candidates": "scan"}] * isinstance(engine.scorer, FactorScorer)
    options: dict[str, Any] = {
        "top": random.choice([1, 1, 2, 3, 5, None]),
        "offset": random.choice([0, 0, 1, 2]),
    }
    options |= {
        "new": bool(engine.settings.observed) and random.random() < 0.2,
        "explain": random.random() < 0.7,
    }
    options |= {"min_score": random.choice([0.0, 0.0, 0.2, 0.5, 0.64, 0.04])}
    return text, {"k": random.choice([1, 1, 2, 3]), **random.choice(ways)}, options


def rows_of(found: Answers) -> list[tuple[Any, bool]]:
    return [(tuple(answer.values.values()), answer.known) for answer in found]


@pytest.mark.parametrize("logic", ["godel", "product", "lukasiewicz"])
def test_a_certified_list_is_that_of_exact_search(logic: str) -> None:
    random = Random(f"{logic} 0")
    certified = 0
    for _ in range(25):
        engine = tied_engine(random, logic)
        exact = engine.with_settings(search="exact")
        for _ in range(4):
            text, settings, options = drawn(random, engine)
            found = engine.with_settings(**settings).ask(text, **options)
            expected = exact.ask(text, **options | {"explain": False})
            assert rows_of(exact.ask(text, **options)) == rows_of(expected), text
            if found.proven is None:
                continue
            about = text, settings, options, logic
            assert rows_of(found)[: found.proven] == rows_of(expected)[: found.proven], about
            assert not found.certified or len(found) == len(expected), about
            scores = [answer.score for answer in expected[: found.proven]]
            assert [answer.score for answer in found[: found.proven]] == pytest.approx(
                scores, abs=1e-6
            ), about
            certified += bool(found.certified)
    assert certified > 20


@pytest.mark.parametrize("search", ["beam", "certified", "exact"])
@pytest.mark.parametrize("logic", ["godel", "product", "lukasiewicz"])
def test_known_answers_that_are_worth_the_same_come_by_id_whatever_a_beam_has_dropped(
    logic: str, search: str
) -> None:
    graph = Graph.of([("a", "r", "b1"), ("a", "r", "b2"), ("b2", "q", "x"), ("b1", "q", "y")])
    half = [np.full((5, 5), 0.5)] * 2
    engine = Engine(
        graph, TableScorer(half), calibration="sigmoid", logic=logic, k=1, search=search
    )
    for ask in (engine.ask, engine.explain):
        assert ask("?t : exists ?v . r(a, ?v) & q(?v, ?t)", top=1).entities == ["x"]


def test_what_rounding_alone_sets_apart_is_not_certified() -> None:
    """Exact search adds in another order, so its last digit may swap such answers."""
    scores = torch.tensor([-0.5, -0.7, -0.70000005, -0.9])
    bounds = scores.clone(), scores.clone()
    proven = [TopKRequest(top).best(scores, bounds=bounds).proven for top in (1, 2, 3, 4)]
    assert proven == [1, 1, 1, 1]  # not even a list of two: the third may be the second
    apart = torch.tensor([-0.5, -0.7, -0.7, -0.9])  # ties to the bit go by id
    assert TopKRequest(2).best(apart, bounds=(apart.clone(), apart.clone())).certified
    at_floor = TopKRequest(4, floor=-0.9).best(apart, bounds=(apart.clone(), apart.clone()))
    assert (at_floor.certified, at_floor.leading) == (False, 3)
