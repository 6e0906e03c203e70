"""The strength of negation: what it makes of a score in every search, and in explanations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bruteforce import Interpreter, Values
from formulas import ENTITIES, RELATIONS, queries
from tables import FactorScorer
from tacit.engine.engine import Engine
from tacit.engine.logic import NEGATIONS, NORMS, Logic
from tacit.engine.top_k import TopKRequest
from tacit.errors import TacitError
from tacit.graph.graph import Graph
from tacit.links.models import ComplEx
from tacit.query.formula import Query
from tacit.query.plans import plan as p
from tacit.query.plans.compile import compile_query
from tacit.query.sampling.shapes import SHAPES

N = 6
R = len(RELATIONS)
RANDOM = np.random.default_rng(5)
TABLES: dict[str, Values] = {name: RANDOM.random((N, N)) * 0.9 + 0.02 for name in RELATIONS}
STRENGTHS = (0.4, 2.5)


def strong_engine(**options: Any) -> Engine:
    names = [*ENTITIES, *(f"x{i}" for i in range(len(ENTITIES), N))]
    graph = Graph.of(
        [
            (a, name, b)
            for name in RELATIONS
            for a, b in zip(names, names[1:] + names[:1], strict=True)
        ]
    )
    scorer = FactorScorer([TABLES[name] for name in RELATIONS])
    return Engine(graph, scorer, calibration="sigmoid", observed="none", loops=True, **options)


class Strong(Interpreter):
    """The value of a plan by its table, with the strength of negation applied first."""

    def __init__(self, logic: str, negation: str, strength: float) -> None:
        super().__init__(TABLES, logic, negation)
        self.strength = strength

    def of(self, node: Any, slots: list[int]) -> Values:
        if not isinstance(node, p.Complement):
            return super().of(node, slots)
        return self.negate(np.minimum(1.0, self.strength * self.of(node.part, slots)))


@given(
    queries(),
    st.sampled_from(sorted(NORMS)),
    st.sampled_from(sorted(NEGATIONS)),
    st.sampled_from([2, None]),
    st.sampled_from(STRENGTHS),
)
@settings(max_examples=60, deadline=None)
def test_every_question_is_valued_explained_and_bounded_by_the_strength(
    query: Query, norm: str, negation: str, k: int | None, strength: float
) -> None:
    prepared = compile_query(query, safe=False)
    search: dict[str, Any] = {"k": k} if k else {"search": "exact"}
    engine = strong_engine(logic=norm, negation=negation, strength=strength, **search)
    exact = Strong(norm, negation, strength).answers(prepared)
    entities = torch.tensor([[ENTITIES.index(name) for name in prepared.entities]]).long()
    relations = torch.tensor([[2 * RELATIONS.index(name) for name in prepared.relations]]).long()
    explanation = engine.reasoner.explain(prepared.plan, entities, relations, TopKRequest(N))
    bounds = engine.reasoner.bounds(prepared.plan, entities, relations)
    assert explanation is not None
    assert bounds is not None
    whole = engine.reasoner.scores(prepared.plan, entities, relations)
    scores, lower, upper = (rows[0].exp().numpy() for rows in (whole, *bounds))
    if k is None:
        np.testing.assert_allclose(scores, exact, atol=2e-5)
    assert (lower <= exact + 2e-5).all()
    assert (upper >= exact - 2e-5).all()
    for answer in range(N):
        proof = explanation.proofs(answer, 1)[0]
        assert math.exp(proof.score) == pytest.approx(scores[answer], abs=2e-5)


@given(
    queries(),
    st.sampled_from(sorted(NORMS)),
    st.sampled_from(["rows", "scan"]),
    st.sampled_from(STRENGTHS),
)
@settings(max_examples=60, deadline=None)
def test_best_first_searches_answer_as_exact_search_does(
    query: Query, norm: str, candidates: str, strength: float
) -> None:
    engine = strong_engine(logic=norm, search="exact", strength=strength)
    try:
        exact = engine.ask(query, top=N)
    except TacitError:  # unsafe questions are refused by every search
        return
    found = engine.with_settings(search="certified", candidates=candidates).ask(query, top=N)
    assert {a.entity: a.score for a in found} == pytest.approx(
        {a.entity: a.score for a in exact}, abs=2e-5
    )


@pytest.mark.parametrize("strength", STRENGTHS)
def test_the_witness_of_a_negated_atom_by_hand(strength: float) -> None:
    a, b = ENTITIES[:2]
    first, second = RELATIONS[:2]
    engine = strong_engine(search="exact", strength=strength)
    answers = engine.explain(f"?t : {first}({a}, ?t) & !{second}({b}, ?t)", top=N)
    for answer in answers:
        x = TABLES[second][1, answer.id]
        refused = 1 - min(1.0, strength * x)
        assert answer.score == pytest.approx(TABLES[first][0, answer.id] * refused, rel=1e-4)
        negated = next(part for part in answer.witnesses[0].tree.parts if part.kind == "not")
        assert negated.score == pytest.approx(refused, rel=1e-4)
        # the atom itself is as likely as before
        assert negated.parts[0].score == pytest.approx(x, rel=1e-4)


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("search", ["exact", "certified"])
def test_a_negated_atom_between_entities(search: str, strength: float) -> None:
    """A question for yes or no, and one for entities with such a condition, by hand."""
    a, b, c = ENTITIES[:3]
    first, second = RELATIONS[:2]
    engine = strong_engine(search=search, strength=strength)
    table = TABLES[second]
    holds = engine.ask(f": {first}({a}, {b}) & !{second}({a}, {c})")[0].score
    assert holds == pytest.approx(
        TABLES[first][0, 1] * (1 - min(1.0, strength * table[0, 2])), rel=1e-4
    )
    for answer in engine.ask(f"?t : {first}({a}, ?t) & !{second}({a}, {c})", top=N):
        assert answer.score == pytest.approx(
            holds / TABLES[first][0, 1] * TABLES[first][0, answer.id], rel=1e-4
        )
    nobody = engine.ask(f": {first}({a}, {b}) & !(exists ?y . {second}({a}, ?y))")[0].score
    refused = 1 - min(1.0, strength * table[0].max())
    assert nobody == pytest.approx(TABLES[first][0, 1] * refused, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("strength", STRENGTHS)
def test_continuous_search_negates_as_strongly(strength: float) -> None:
    """With no variable beside the answer it searches nothing and agrees with exact search."""
    engine = strong_engine(strength=strength)
    model = ComplEx(engine.graph.num_entities, 2 * R, 3)
    model.reset(1.0, torch.Generator().manual_seed(0))
    slots = torch.tensor([[0, 1], [2, 0]]), torch.tensor([[0, 2], [5, 4]])
    exact, continuous = (
        Engine(
            engine.graph, model.requires_grad_(False), engine.settings, search=search
        ).reasoner.scores(SHAPES["2in"].plan, *slots)
        for search in ("exact", "continuous")
    )
    torch.testing.assert_close(continuous, exact)


@pytest.mark.parametrize("negation", NEGATIONS)
def test_negation_turns_the_order_around_however_strong(negation: str) -> None:
    x = torch.linspace(-12.0, -1e-3, 200)
    for strength in (0.02, 1.0, 20.0):
        values = Logic(negation_name=negation, strength=strength).negation(x).exp()
        assert (values.diff() <= 0).all()
        assert (values.diff() < 0).any()
