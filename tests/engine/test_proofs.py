"""Proofs are worth what their answers are, and certified lists are the exact ones."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bruteforce import LOGICS, BruteForce, Values
from bruteforce import NEGATIONS as FORMULAS
from formulas import ENTITIES, RELATIONS, queries
from tables import FactorScorer
from tacit.engine.engine import Engine
from tacit.engine.logic import NEGATIONS, NORMS
from tacit.engine.search.proofs import Proof
from tacit.engine.settings import EngineSettings
from tacit.engine.top_k import TopKRequest
from tacit.errors import TacitError
from tacit.graph.graph import Graph, directed, no_triples
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.query.formula import Query
from tacit.query.plans.compile import compile_query


def small_engine(scores: dict[str, Values], **changes: object) -> Engine:
    size = len(scores[RELATIONS[0]])
    names = [*ENTITIES, *(f"n{i}" for i in range(size - len(ENTITIES)))]
    graph = Graph(Vocabulary(names), directed(RELATIONS), no_triples())
    options = {
        "calibration": "sigmoid",
        "observed": "none",
        "strength": 1.0,
        "loops": True,
    } | changes
    return Engine(
        graph, FactorScorer([scores[name] for name in RELATIONS]), EngineSettings(), **options
    )


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Values]:
    size = draw(st.integers(len(ENTITIES), 7))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return {name: random.random((size, size)) * 0.98 + 0.01 for name in RELATIONS}


def recomputed_score(proof: Proof, norm: str, negation: str) -> float:
    """Compute the score of a proof from its atoms by the formulas of a logic."""
    if proof.atom is not None:
        return math.exp(proof.score)
    if proof.sides is not None:
        return float(proof.sides[0] != proof.sides[1])
    parts = [np.float64(recomputed_score(part, norm, negation)) for part in proof.parts]
    if proof.kind == "not":
        return float(FORMULAS[negation](parts[0]))
    return float(
        reduce(
            LOGICS[norm][proof.kind == "or"], parts, np.float64(1.0 if proof.kind != "or" else 0.0)
        )
    )


@given(
    queries(),
    tables(),
    st.sampled_from(sorted(NORMS)),
    st.sampled_from(sorted(NEGATIONS)),
    st.sampled_from([2, 100]),
)
@settings(max_examples=50, deadline=None)
def test_a_witness_recomputes_to_the_score_of_its_answer(
    query: Query, scores: dict[str, Values], norm: str, negation: str, k: int
) -> None:
    engine = small_engine(scores, logic=norm, negation=negation, k=k)
    prepared = compile_query(query, safe=False)
    entities = torch.tensor([[ENTITIES.index(name) for name in prepared.entities]]).long()
    relations = torch.tensor([[2 * RELATIONS.index(name) for name in prepared.relations]]).long()
    values = engine.reasoner.scores(prepared.plan, entities, relations)[0]
    explanation = engine.reasoner.explain(prepared.plan, entities, relations, TopKRequest(1))
    for answer in range(len(values)):
        proof = explanation.proofs(answer, 1)[0]
        assert recomputed_score(proof, norm, negation) == pytest.approx(
            float(values[answer].exp()), abs=1e-5
        )
        assert math.exp(proof.score) == pytest.approx(float(values[answer].exp()), abs=1e-5)


@given(queries(), tables(), st.sampled_from(sorted(NORMS)), st.integers(1, 5), st.integers(1, 3))
@settings(max_examples=75, deadline=None)
def test_a_certified_list_is_never_wrong(
    query: Query, scores: dict[str, Values], norm: str, k: int, top: int
) -> None:
    engine = small_engine(scores, logic=norm, k=k)
    exact = BruteForce(scores, norm, "standard").answers(query)
    try:
        answers = engine.explain(query, top=top)
    except TacitError:
        return  # unsafe questions are refused
    proven = answers.proven or 0
    first = [exact[answer.id] for answer in answers[:proven]]
    np.testing.assert_allclose(first, np.sort(exact)[::-1][:proven], atol=1e-5)
    if answers.certified:
        expected = np.sort(exact)[::-1][:top]
        found = np.zeros_like(expected)  # what is not listed has no score
        found[: len(answers)] = exact[[a.id for a in answers]]
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_short_list_is_certified_only_where_nothing_could_be_missing() -> None:
    """The beam keeps `v1`, which leads to `x` alone; `v2`, which it drops, leads to `y`."""
    s, v1, v2, x, y = range(5)
    hops = np.full((5, 5), 0.001)
    hops[s, v1], hops[s, v2], hops[v1, x], hops[v2, y] = 0.99, 0.9, 0.99, 0.9
    graph = Graph(Vocabulary(["s", "v1", "v2", "x", "y"]), directed(["r"]), no_triples())
    engine = Engine(
        graph,
        FactorScorer([hops]),
        calibration="sigmoid",
        observed="none",
        logic="lukasiewicz",
        k=1,
    )
    question = "?t : exists ?v . r(s, ?v) & r(?v, ?t)"
    assert engine.explain(question).entities == ["x"]
    assert (engine.explain(question).certified, engine.explain(question).proven) == (False, 1)
    assert engine.explain(question, top=1).certified is True
    assert engine.with_settings(search="exact").explain(question).entities == ["x", "y"]
    assert engine.with_settings(search="exact").explain(question).certified is True
