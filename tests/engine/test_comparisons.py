"""Comparisons in every search, against their definition over all assignments."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bruteforce import LOGICS, NEGATIONS, BruteForce, Values
from formulas import ENTITIES, RELATIONS, queries, tuple_queries
from odd_values import Numbers
from tables import FactorScorer, TableScorer
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import Sigmoid
from tacit.engine.atoms.comparisons import Comparisons
from tacit.engine.logic import Logic
from tacit.engine.reasoner import SymbolicReasoner
from tacit.engine.search.message_reasoner import CertifiedReasoner, MessageReasoner
from tacit.engine.search.tuple_search import TupleRequest, TupleSearch
from tacit.engine.top_k import TopKRequest
from tacit.graph.fact_index import FactIndex
from tacit.query.formula import Query
from tacit.query.plans.compile import compile_query
from tacit.query.plans.plan import CompiledQuery
from writings import rewritten


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Values]:
    size = draw(st.integers(len(ENTITIES), 5))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return {name: random.random((size, size)) * 0.98 + 0.01 for name in RELATIONS}


def slots(prepared: CompiledQuery) -> tuple[torch.Tensor, torch.Tensor]:
    entities = torch.tensor([[ENTITIES.index(name) for name in prepared.entities]]).long()
    relations = torch.tensor([[2 * RELATIONS.index(name) for name in prepared.relations]]).long()
    return entities, relations


def atoms_of(scores: dict[str, Values], numbers: Numbers, kind: type[TableScorer]) -> Atoms:
    scorer = kind([scores[name] for name in RELATIONS])
    return Atoms(scorer, Sigmoid(), comparisons=Comparisons(numbers.index, numbers.predictor))


@given(
    queries(size=6, values=True), tables(), st.sampled_from(sorted(LOGICS)),
    st.sampled_from(sorted(NEGATIONS)), st.sampled_from([TableScorer, FactorScorer]),
    st.integers(0, 1000), st.booleans(), st.sampled_from([200, 1e6]),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_exact_search_and_a_full_beam_have_the_value_of_the_formula(
    query: Query, scores: dict[str, Values], norm: str, negation: str, kind: type[TableScorer],
    seed: int, predicts: bool, memory: float,
) -> None:  # fmt: skip
    size = len(scores["r"])
    numbers = Numbers(size, seed, predicts)
    expected = BruteForce(scores, norm, negation, numbers).answers(query)
    prepared = compile_query(query, safe=False)
    logic = Logic(norm, negation)
    for k in (None, size):
        reasoner = MessageReasoner(atoms_of(scores, numbers, kind), logic, k, memory / 1e9)
        found = reasoner.scores(prepared.plan, *slots(prepared)).exp().numpy()[0]
        np.testing.assert_allclose(found, expected, atol=1e-5)


@given(
    queries(size=6, values=True), tables(), st.sampled_from(sorted(LOGICS)),
    st.sampled_from(sorted(NEGATIONS)), st.integers(1, 4), st.integers(0, 1000), st.booleans(),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_certified_lists_are_those_of_exact_search_and_bounds_hold(
    query: Query, scores: dict[str, Values], norm: str, negation: str, k: int,
    seed: int, predicts: bool,
) -> None:  # fmt: skip
    size = len(scores["r"])
    numbers = Numbers(size, seed, predicts)
    exact = BruteForce(scores, norm, negation, numbers).answers(query)
    prepared = compile_query(query, safe=False)
    arguments = atoms_of(scores, numbers, FactorScorer), Logic(norm, negation), k
    lower, upper = (
        bound.exp().numpy()[0]
        for bound in MessageReasoner(*arguments).bounds(prepared.plan, *slots(prepared))
    )
    assert (lower <= exact + 1e-5).all()
    assert (upper >= exact - 1e-5).all()
    (listed,) = CertifiedReasoner(*arguments).top(prepared.plan, *slots(prepared), [TopKRequest(3)])
    best = [score for score in sorted(exact, reverse=True) if score > 1e-6][:3]
    for i, score in zip(listed.ids, listed.scores, strict=True):
        assert np.exp(score) <= exact[i] + 1e-5
    if listed.certified:
        found = np.exp([score for score in listed.scores if np.exp(score) > 1e-6])
        np.testing.assert_allclose(found, best, atol=1e-5)


@given(queries(size=6, values=True), st.integers(0, 1000), st.integers(3, 7))
@settings(max_examples=200, deadline=None)
def test_symbolic_answers_are_those_of_facts_and_known_values(
    query: Query, seed: int, size: int
) -> None:
    random = np.random.default_rng(seed)
    facts = {name: (random.random((size, size)) < 0.3).astype(float) for name in RELATIONS}
    numbers = Numbers(size, seed, predicts=False)
    triples = [
        triple
        for number, name in enumerate(RELATIONS)
        for s, t in np.argwhere(facts[name]).tolist()
        for triple in ((s, 2 * number, t), (t, 2 * number + 1, s))
    ]
    index = FactIndex(np.array(triples, dtype=np.int32).reshape(-1, 3), 2 * len(RELATIONS))
    prepared = compile_query(query, safe=False)
    reasoner = SymbolicReasoner(index, size, numbers.index)
    found = reasoner.scores(prepared.plan, *slots(prepared))[0].exp().numpy()
    expected = BruteForce(facts, "godel", "standard", numbers).answers(query)
    assert found.tolist() == np.broadcast_to(expected, size).tolist()


@given(queries(size=8, values=True), st.integers(0, 1000), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_the_order_of_writing_changes_no_plan(query: Query, seed: int, random: Random) -> None:
    """Scores are the same to the last bit, since the plan is."""
    first = compile_query(query, safe=False)
    second = compile_query(rewritten(query, random), safe=False)
    assert second.plan == first.plan
    assert (second.entities, second.relations) == (first.entities, first.relations)


@given(
    tuple_queries(2, values=True), tables(), st.sampled_from(sorted(LOGICS)),
    st.integers(0, 1000), st.booleans(), st.sampled_from([None, 1, 2]),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_pairs_are_those_of_every_assignment(
    query: Query, scores: dict[str, Values], norm: str, seed: int, predicts: bool, k: int | None
) -> None:
    numbers = Numbers(len(scores["r"]), seed, predicts)
    exact = BruteForce(scores, norm, "standard", numbers).tuples(query)
    prepared = compile_query(query, safe=False)
    reasoner = MessageReasoner(atoms_of(scores, numbers, FactorScorer), Logic(norm, "standard"), k)
    entities, relations = slots(prepared)
    request = TupleRequest(4, None, prove=True)
    inputs = prepared.plan, relations, None, reasoner.k, request, numbers.index
    search = TupleSearch(reasoner, *inputs).run(entities)
    for ids, score in zip(search.tuples.ids.tolist(), search.tuples.scores.tolist(), strict=True):
        assert np.exp(score) == pytest.approx(exact[tuple(ids)], abs=1e-5) or k is not None
    if search.certified:
        found = [s for s in search.tuples.scores.exp().tolist() if s > 1e-5]
        best = [s for s in sorted(exact.values(), reverse=True) if s > 1e-5][:4]
        assert found == pytest.approx(best, abs=1e-5)
    assert k is not None or search.certified
