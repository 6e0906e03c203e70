"""Exact and beam search against the definition, and a graph as scorer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bruteforce import LOGICS, NEGATIONS, BruteForce, Values
from formulas import ENTITIES, RELATIONS, queries
from tables import FactorScorer, SparseScorer, TableScorer
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import Sigmoid
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.logic import Logic
from tacit.engine.reasoner import SymbolicReasoner
from tacit.engine.search.message_reasoner import MessageReasoner
from tacit.graph.fact_index import FactIndex
from tacit.links.scorer import GraphScorer
from tacit.query.formula import Query
from tacit.query.plans.compile import compile_query, compile_template
from tacit.query.plans.plan import CompiledQuery
from tacit.query.sampling.shapes import SHAPES


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Values]:
    size = draw(st.integers(len(ENTITIES), 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    least = draw(st.sampled_from([0.0, 0.5]))  # of most atoms, in the second case
    return {
        name: np.maximum(random.random((size, size)), least) * 0.98 + 0.01 for name in RELATIONS
    }


def slots(prepared: CompiledQuery) -> tuple[torch.Tensor, torch.Tensor]:
    entities = torch.tensor([[ENTITIES.index(name) for name in prepared.entities]]).long()
    relations = torch.tensor([[2 * RELATIONS.index(name) for name in prepared.relations]]).long()
    return entities, relations


def observed_facts(scores: dict[str, Values], seed: int) -> tuple[FactIndex, dict[str, Values]]:
    """Some facts of each relation, and the tables with those facts lifted."""
    random = np.random.default_rng(seed)
    triples = []
    lifted = {}
    for r, name in enumerate(RELATIONS):
        known = random.random(scores[name].shape) < 0.2
        lifted[name] = np.where(known, 1 - 2.0**-10, scores[name])
        triples += [(s, 2 * r, t) for s, t in np.argwhere(known)] + [
            (t, 2 * r + 1, s) for s, t in np.argwhere(known)
        ]
    return FactIndex(np.array(triples).reshape(-1, 3), 2 * len(RELATIONS)), lifted


@given(
    queries(), tables(), st.sampled_from(sorted(LOGICS)), st.sampled_from(sorted(NEGATIONS)),
    st.sampled_from([TableScorer, FactorScorer, SparseScorer]), st.booleans(),
    st.integers(0, 1000), st.sampled_from([200, 1e6]),
)  # fmt: skip
@settings(max_examples=90, deadline=None)
def test_search_has_the_value_of_the_formula(
    query: Query, scores: dict[str, Values], norm: str, negation: str,
    kind: type[TableScorer], observed: bool, seed: int, memory: float,
) -> None:  # fmt: skip
    facts = None
    scorer = kind([scores[name] for name in RELATIONS])
    if observed:
        index, scores = observed_facts(scores, seed)
        facts = KnownFacts(index)
    expected = BruteForce(scores, norm, negation).answers(query)
    prepared = compile_query(query, safe=False)
    for k in (None, scorer.num_entities, scorer.num_entities + 3):
        reasoner = MessageReasoner(
            Atoms(scorer, Sigmoid(), facts), Logic(norm, negation), k, memory / 1e9
        )
        found = reasoner.scores(prepared.plan, *slots(prepared)).exp().numpy()[0]
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("kind", [FactorScorer, SparseScorer])
@pytest.mark.parametrize("norm", sorted(LOGICS))
@pytest.mark.parametrize("negation", sorted(NEGATIONS))
@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_batches_of_every_shape(
    shape: str, norm: str, negation: str, kind: type[TableScorer]
) -> None:
    """A batch of queries with different entities and relations, each against the definition."""
    random = np.random.default_rng(7)
    size = 7
    plan = SHAPES[shape].plan
    template = SHAPES[shape].query
    scores = {
        name: np.maximum(random.random((size, size)), 0.3) * 0.98 + 0.01 for name in RELATIONS
    }
    scorer = kind([scores[name] for name in RELATIONS])
    entities = torch.tensor(random.integers(0, len(ENTITIES), (9, plan.num_entities)))
    relations = torch.tensor(2 * random.integers(0, len(RELATIONS), (9, plan.num_relations)))
    reasoner = MessageReasoner(Atoms(scorer, Sigmoid()), Logic(norm, negation), size)
    found = reasoner.scores(plan, entities, relations).exp().numpy()
    prepared = compile_template(template)
    for row, (e, r) in enumerate(zip(entities.tolist(), relations.tolist(), strict=True)):
        names = {slot: ENTITIES[i] for slot, i in zip(prepared.entities, e, strict=True)}
        names |= {slot: RELATIONS[i // 2] for slot, i in zip(prepared.relations, r, strict=True)}
        text = renamed(template, names)
        np.testing.assert_allclose(
            found[row], BruteForce(scores, norm, negation).answers(text), atol=1e-5
        )


def renamed(query: Query, names: dict[str, str]) -> Query:
    """A template with its slots filled."""
    from tacit.query.formula import And, Atom, Entity, Exists, Formula, Not, Or

    def fill(formula: Formula) -> Formula:
        match formula:
            case Atom(relation, subject, object_):
                ends = [
                    Entity(names[e.name]) if isinstance(e, Entity) else e
                    for e in (subject, object_)
                ]
                return Atom(names[relation], ends[0], ends[1])
            case And(parts):
                return And(tuple(map(fill, parts)))
            case Or(parts):
                return Or(tuple(map(fill, parts)))
            case Not(part):
                return Not(fill(part))
            case Exists(variable, part):
                return Exists(variable, fill(part))
        raise AssertionError(formula)

    return Query(query.target, fill(query.formula))


@given(
    queries(),
    st.integers(0, 10_000),
    st.sampled_from(sorted(LOGICS)),
    st.sampled_from(sorted(NEGATIONS)),
)
@settings(max_examples=75, deadline=None)
def test_the_graph_as_a_scorer_gives_the_symbolic_answers(
    query: Query, seed: int, norm: str, negation: str
) -> None:
    random = np.random.default_rng(seed)
    n = 8
    facts = np.unique(random.integers(0, [n, len(RELATIONS), n], (30, 3)), axis=0)
    forward = facts * [1, 2, 1]
    index = FactIndex(np.concatenate([forward, forward[:, ::-1] + [0, 1, 0]]), 2 * len(RELATIONS))
    prepared = compile_query(query, safe=False)
    expected = SymbolicReasoner(index, n).scores(prepared.plan, *slots(prepared)) == 0
    for k in (None, n):
        reasoner = MessageReasoner(
            Atoms(GraphScorer(index, n), Sigmoid()), Logic(norm, negation), k
        )
        found = reasoner.scores(prepared.plan, *slots(prepared)).exp() > 0.5
        assert found.tolist() == expected.tolist()


@given(
    queries(),
    tables(),
    st.sampled_from(sorted(LOGICS)),
    st.sampled_from(sorted(NEGATIONS)),
    st.integers(1, 4),
    st.sampled_from([FactorScorer, SparseScorer]),
)
@settings(max_examples=75, deadline=None)
def test_bounds_hold_whatever_the_beam_drops(
    query: Query,
    scores: dict[str, Values],
    norm: str,
    negation: str,
    k: int,
    kind: type[TableScorer],
) -> None:
    scorer = kind([scores[name] for name in RELATIONS])
    prepared = compile_query(query, safe=False)
    exact = BruteForce(scores, norm, negation).answers(query)
    reasoner = MessageReasoner(Atoms(scorer, Sigmoid()), Logic(norm, negation), k)
    lower, upper = (b.exp().numpy()[0] for b in reasoner.bounds(prepared.plan, *slots(prepared)))
    assert (lower <= exact + 1e-5).all()
    assert (upper >= exact - 1e-5).all()


def test_one_atom_ranks_as_the_raw_scores_do() -> None:
    """Logits a rounding apart, and some that a sigmoid in float32 would all call 1."""
    logits = torch.tensor([17.5, 18.0, 40.0, 1e-9, 2e-9, 0.0, -3.0, -3.0000002])

    class Fixed(TableScorer):
        def __init__(self) -> None:
            self._logits = logits.expand(2, 8, 8)
            self.num_relations = 2
            self.num_entities = 8
            self.device = torch.device("cpu")

    reasoner = MessageReasoner(Atoms(Fixed(), Sigmoid()), Logic(), k=2)
    ranking = reasoner.ranking(SHAPES["1p"].plan, torch.tensor([[3]]), torch.tensor([[0]]))[0]
    assert ranking.argsort().tolist() == logits.argsort().tolist()
    assert len(ranking.unique()) == len(logits)
