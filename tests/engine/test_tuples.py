"""Tuples, yes/no questions, counts and relations, each against the definition over all assignments."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bruteforce import LOGICS, NEGATIONS, BruteForce, Values
from formulas import ENTITIES, RELATIONS, tuple_queries
from tables import FactorScorer
from tacit.engine.atoms import Atoms
from tacit.engine.calibration import Sigmoid
from tacit.engine.logic import Logic
from tacit.engine.reasoner import MessageReasoner
from tacit.engine.tuples import Tuples, TupleSearch
from tacit.query.compile import compile_query
from tacit.query.formula import Query
from tacit.query.plan import Prepared


def slots(prepared: Prepared) -> tuple[torch.Tensor, torch.Tensor]:
    entities = torch.tensor([[ENTITIES.index(name) for name in prepared.entities]]).long()
    relations = torch.tensor([[2 * RELATIONS.index(name) for name in prepared.relations]]).long()
    return entities, relations


def searched(query: Query, reasoner: MessageReasoner, count: int, prove: bool = True) -> TupleSearch:
    prepared = compile_query(query, safe=False)
    entities, relations = slots(prepared)
    k = None if reasoner.exact else reasoner.k
    return TupleSearch(reasoner, prepared.plan, relations, None, k, count, None, prove=prove).run(entities)


def tables(size: int, seed: int) -> dict[str, Values]:
    random = np.random.default_rng(seed)
    return {name: random.random((size, size)) * 0.98 + 0.01 for name in RELATIONS}


def ranked(values: dict[tuple[int, ...], float]) -> list[tuple[int, ...]]:
    return sorted(values, key=lambda ids: (-round(values[ids], 5), ids))


def check(found: Tuples, values: dict[tuple[int, ...], float], count: int) -> None:
    """The tuples are the best by their values, each with its own."""
    positive = [ids for ids in ranked(values) if values[ids] > 1e-6]
    listed = [tuple(ids) for ids in found.ids.tolist()]
    assert len(set(listed)) == len(listed) >= min(count, len(positive))
    expected = [values[ids] for ids in positive[:count]]
    np.testing.assert_allclose([values[ids] for ids in listed][: len(expected)], expected, atol=2e-5)
    np.testing.assert_allclose(found.scores.exp().numpy(), [values[ids] for ids in listed], atol=1e-5)


@given(
    st.integers(2, 3).flatmap(tuple_queries), st.integers(3, 4), st.integers(0, 10**6),
    st.sampled_from(sorted(LOGICS)), st.sampled_from(sorted(NEGATIONS)), st.integers(1, 30), st.integers(1, 12),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_tuples_have_the_values_of_the_formula(
    query: Query, size: int, seed: int, norm: str, negation: str, count: int, k: int
) -> None:
    scores = tables(size, seed)
    values = BruteForce(scores, norm, negation).tuples(query)
    atoms = Atoms(FactorScorer([scores[name] for name in RELATIONS]), Sigmoid())
    exact = searched(query, MessageReasoner(atoms, Logic(norm, negation)), count)
    check(exact.found, values, count)
    assert exact.certified is True
    beam = searched(query, MessageReasoner(atoms, Logic(norm, negation), k), count)
    if beam.certified:
        check(beam.found, values, count)
