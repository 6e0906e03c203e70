"""Inequalities, by hand and by several searches; random formulas hold others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from random_engine import random_engine
from seeds import seeds
from tables import FactorScorer
from tacit.encode.networks.query_graph import query_graphs
from tacit.encode.spaces.schedule import schedule_of
from tacit.engine.answers.answers import Answers
from tacit.engine.engine import Engine
from tacit.errors import PlanError
from tacit.graph.graph import Graph
from tacit.links.models import ComplEx
from tacit.query.plans.compile import compile_query
from tacit.query.plans.traits import listable, without_hops
from tacit.query.text import parse

FACTS = [("a", "r", "b"), ("a", "r", "c"), ("b", "q", "b"), ("b", "q", "c"), ("c", "q", "d")]
#                a    b    c    d
TABLES = [
    np.array(
        [[0.1, 0.9, 0.6, 0.3], [0.1, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.1]]
    ),
    np.array(
        [[0.1, 0.1, 0.1, 0.1], [0.2, 0.8, 0.5, 0.1], [0.1, 0.1, 0.3, 0.7], [0.1, 0.1, 0.1, 0.1]]
    ),
]


def engine(**settings: object) -> Engine:
    chosen = {
        "calibration": "sigmoid",
        "observed": "none",
        "loops": True,
        "search": "exact",
    } | settings
    return Engine(Graph.of(FACTS), FactorScorer(TABLES), **chosen)  # type: ignore[arg-type]


def scores(answers: Answers) -> dict[str, float]:
    return {answer.entity: round(answer.score, 5) for answer in answers}


@pytest.mark.parametrize("search", ["exact", "certified", "beam"])
@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("?c : r(a, ?c) & ?c != b", {"c": 0.6, "d": 0.3, "a": 0.1}),
        ("?c : r(a, ?c) & ?c != b & c != ?c", {"d": 0.3, "a": 0.1}),
        ("?c : r(a, ?c) & !(?c != b)", {"b": 0.9}),
        ("?c : r(a, ?c) & (?c != b | q(b, ?c))", {"b": 0.72, "c": 0.6, "d": 0.3, "a": 0.1}),
        ("?c : r(a, ?c) & a != b", {"b": 0.9, "c": 0.6, "d": 0.3, "a": 0.1}),
        ("?c : r(a, ?c) & a != a", {}),
        # Over ?v = b: 0.9 · (0.2, 0.8, 0.5, 0.1), over c: 0.6 · (0.1, 0.1, 0.3, 0.7), over d: 0.3 ·
        # 0.1.
        ("?c : r(a, ?v) & q(?v, ?c)", {"b": 0.72, "c": 0.45, "d": 0.42, "a": 0.18}),
        ("?c : r(a, ?v) & q(?v, ?c) & ?v != b", {"d": 0.42, "c": 0.18, "b": 0.06, "a": 0.06}),
        ("?c : r(a, ?v) & q(?v, ?c) & ?v != ?c", {"c": 0.45, "d": 0.42, "a": 0.18, "b": 0.06}),
        # An entity is worth what the best other one is: 0.9, and 0.6 for b.
        (
            "?c : r(a, ?c) & exists ?v . r(a, ?v) & ?v != ?c",
            {"b": 0.54, "c": 0.54, "d": 0.27, "a": 0.09},
        ),
        (
            "?c : r(a, ?c) & !(exists ?v . r(a, ?v) & ?v != ?c)",
            {"b": 0.36, "c": 0.06, "d": 0.03, "a": 0.01},
        ),
    ],
)
def test_values_are_those_of_the_definition(
    question: str, expected: dict[str, float], search: str
) -> None:
    answers = engine(search=search).ask(question, top=None)
    assert scores(answers) == pytest.approx(expected, abs=1e-4)
    assert answers.certified or search == "beam"  # which does not look


def test_pairs_yes_or_no_and_counts() -> None:
    pairs = engine().ask("?x, ?y : r(a, ?x) & r(a, ?y) & ?x != ?y", top=2)
    assert [(tuple(pair.values.values()), round(pair.score, 5)) for pair in pairs] == [
        (("b", "c"), 0.54),
        (("c", "b"), 0.54),
    ]
    assert engine().ask(": r(a, ?x) & ?x != b")[0].score == pytest.approx(0.6, abs=1e-5)
    known = Engine.of_facts(Graph.of(FACTS))
    assert known.count("?x : r(a, ?x) & ?x != b").known == 1
    assert known.ask("?x : r(a, ?x) & ?x != b").entities == ["c"]
    assert [tuple(pair.values.values()) for pair in known.ask("?x, ?y : q(?x, ?y) & ?x != ?y")] == [
        ("b", "c"),
        ("c", "d"),
    ]


def test_what_is_known_of_others_is_known() -> None:
    answers = engine(observed=("train",)).ask("?c : r(a, ?c) & ?c != b", top=2)
    assert [(answer.entity, answer.known) for answer in answers] == [("c", True), ("d", False)]
    assert engine(observed=("train",)).ask(
        "?c : r(a, ?c) & ?c != b", new=True, top=None
    ).entities == ["d", "a"]


def test_reasons_show_inequalities_beside_the_atoms() -> None:
    (answer,) = engine().explain("?c : r(a, ?v) & q(?v, ?c) & ?v != ?c & ?c != d", top=1)
    (witness,) = answer.witnesses
    assert [str(atom) for atom in witness.atoms] == [
        "r(a, b)  0.900 predicted",
        "q(b, c)  0.500 predicted",
    ]
    assert [text for text, _ in witness.lines()][1:] == [
        "q(b, c)  0.500 predicted",
        "c != b",
        "c != d",
        "2 of 2 atoms predicted",
    ]
    texts = [
        part["text"] for part in witness.to_dict()["tree"]["parts"] if part["kind"] == "inequality"
    ]
    assert texts == ["c != d"]
    (denied,) = engine().explain("?c : r(a, ?c) & !(?c != b)", top=1)[0].witnesses
    assert "not b != b" in [text for text, _ in denied.lines()]


def test_lists_and_codes_answer_them_as_rows_do() -> None:
    size = 150
    random = np.random.default_rng(0)
    facts = [(f"e{s}", "r", f"e{t}") for s, t in random.integers(0, size, (400, 2))]
    graph = Graph.of(facts)
    model = ComplEx(graph.num_entities, 2, 4).requires_grad_(False)
    model.reset(1.6, torch.Generator().manual_seed(1))
    rows = Engine(graph, model, search="exact")
    lists = Engine(graph, model, search="beam", k=size, candidates="scan")
    for question in (
        "?c : r(e1, ?c) & ?c != e2 & ?c != e3",
        "?c : r(e1, ?n) & ?n != e2 & r(?n, ?c) & !(?c != e4 & r(e5, ?c))",
    ):
        best = rows.ask(f"{question}", top=1).entities[0]
        without = f"{question} & ?c != {best}"
        plan = compile_query(parse(without)).plan
        assert listable(plan) or without_hops(plan)
        exact = rows.ask(without, top=5)
        listed = lists.ask(without, top=5)
        assert best not in exact.entities
        assert exact.entities == listed.entities == rows.ask(question, top=6).entities[1:]
        assert [a.score for a in listed] == pytest.approx([a.score for a in exact], rel=1e-5)


@pytest.mark.parametrize(
    "question",
    [
        "?x : r(e1, ?x) & ?x != e2",
        "?x : r(e1, ?y) & q(?y, ?x) & ?y != ?x",
        "?x : r(e1, ?y) & p(?y, ?x) & ?y != e2",
    ],
)
def test_what_tells_no_entities_apart_refuses_them(question: str) -> None:
    plan = compile_query(parse(question)).plan
    with pytest.raises(
        PlanError,
        match=r"no operator of query embeddings stands for (an inequality|an edge of several)",
    ):
        schedule_of((plan,), False)
    with pytest.raises(PlanError, match="a query graph cannot say an inequality"):
        query_graphs(plan)
    graph = random_engine(1).graph
    engine = Engine(
        graph, ComplEx(graph.num_entities, 6, 4), search="continuous", calibration="sigmoid"
    )
    with pytest.raises(
        PlanError, match=r"which no inequality \('!='\) tells apart; use beam or exact search"
    ):
        engine.ask(question)


@pytest.mark.parametrize("seed", seeds(6))
def test_certified_lists_over_cycles_are_those_of_exact_search(seed: int) -> None:
    for question in (
        "?x : r(?x, ?y) & q(?y, ?z) & ?x != ?z & p(e1, ?z)",
        "?x : r(e1, ?y) & q(?y, ?x) & r(e1, ?z) & p(?z, ?x) & ?y != ?z",
        "?x, ?y : r(e1, ?x) & q(?x, ?y) & ?x != ?y & !(exists ?z . p(?y, ?z) & ?z != ?x & ?z != "
        "?y)",
    ):
        exact = random_engine(seed, search="exact").ask(question, top=4)
        found = random_engine(seed, search="certified", k=24).ask(question, top=4)
        rows, expected = (
            [(tuple(a.values.values()), a.known) for a in answers] for answers in (found, exact)
        )
        assert rows == expected
        assert [a.score for a in found] == pytest.approx([a.score for a in exact], abs=1e-6)
