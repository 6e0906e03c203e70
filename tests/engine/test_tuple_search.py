"""Tuples and yes/no questions against every assignment of entities to variables."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

import numpy as np
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bruteforce import LOGICS, NEGATIONS, BruteForce, Values
from formulas import ENTITIES, RELATIONS, holds, tuple_queries
from tables import FactorScorer, TableScorer
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import Sigmoid
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.engine import Engine
from tacit.engine.logic import Logic
from tacit.engine.search.message_reasoner import MessageReasoner
from tacit.engine.search.tuple_search import TupleRequest, TupleSearch
from tacit.graph.fact_index import FactIndex
from tacit.graph.graph import Graph
from tacit.query.formula import Query
from tacit.query.plans.compile import compile_query
from tacit.query.plans.plan import CompiledQuery, Complement
from tacit.query.plans.symbolic import count_tuples
from tacit.query.text import parse
from writings import rewritten

FACT = 1 - 2.0**-10  # the score of a fact
Row = tuple[tuple[int, ...], float, bool]  # a tuple, its score, and whether facts imply it


def slots(prepared: CompiledQuery) -> tuple[torch.Tensor, torch.Tensor]:
    entities = torch.tensor([[ENTITIES.index(name) for name in prepared.entities]]).long()
    relations = torch.tensor([[2 * RELATIONS.index(name) for name in prepared.relations]]).long()
    return entities, relations


class Little:
    """Random scores and some facts over a few entities, and a query's value by brute force.

    Entities beyond the named ones have names as well, so that facts can be told to `holds`.
    """

    def __init__(self, size: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        raw = {name: random.random((size, size)) * 0.98 + 0.01 for name in RELATIONS}
        known = {name: random.random((size, size)) < 0.15 for name in RELATIONS}
        self.tables: dict[str, Values] = {
            name: np.where(known[name], FACT, raw[name]) for name in RELATIONS
        }
        triples = [
            (s, 2 * r, t)
            for r, name in enumerate(RELATIONS)
            for s, t in np.argwhere(known[name]).tolist()
        ]
        both = [*triples, *((t, r + 1, s) for s, r, t in triples)]
        self.index = FactIndex(np.array(both, dtype=np.int64).reshape(-1, 3), 2 * len(RELATIONS))
        self.entities = [f"e{i}" for i in range(size)]
        self.facts = frozenset((f"e{s}", RELATIONS[r // 2], f"e{t}") for s, r, t in triples)
        self.scorer = FactorScorer([raw[name] for name in RELATIONS])

    def implies(self, query: Query, ids: tuple[int, ...]) -> bool:
        where = {target: self.entities[i] for target, i in zip(query.targets, ids, strict=True)}
        return holds(query.formula, self.facts, self.entities, where)

    def rows(self, query: Query, norm: str, negation: str, known_first: bool) -> list[Row]:
        """All tuples in the order in which they are to be listed."""
        rows = []
        for ids, score in BruteForce(self.tables, norm, negation).tuples(query).items():
            rows.append((ids, score, self.implies(query, ids)))
        rows.sort(key=lambda row: (not (row[2] and known_first), -round(row[1], 5), row[0]))
        return [row for row in rows if row[1] > 1e-6]

    def reasoner(self, norm: str, negation: str, k: int | None) -> MessageReasoner:
        return MessageReasoner(
            Atoms(self.scorer, Sigmoid(), KnownFacts(self.index)), Logic(norm, negation), k
        )


def check(found: list[Row], expected: list[Row], known_first: bool) -> None:
    """Tuples come in order with their own scores, ties by ids up to rounding."""
    truth = {ids: (score, known) for ids, score, known in expected}
    assert len(set(found)) == len(found)
    for (ids, score, known), (_, expected_score, _) in zip(found, expected, strict=False):
        assert abs(score - truth[ids][0]) < 1e-5
        assert known == truth[ids][1]
        assert abs(score - expected_score) < 3e-5
    if known_first:
        assert [known for _, _, known in found] == [known for _, _, known in expected[: len(found)]]
    for (one, high, implied), (other, low, follows) in pairwise(found):
        assert high != low or one < other or (known_first and implied > follows)


def searched(
    query: Query,
    reasoner: MessageReasoner,
    count: int,
    index: FactIndex | None = None,
    new: bool = False,
) -> TupleSearch:
    prepared = compile_query(query, safe=False)
    entities, relations = slots(prepared)
    least = None if new or prepared.plan.has(Complement) else float("-inf")
    request = TupleRequest(count, least, new, prove=True)
    inputs = prepared.plan, relations, index, reasoner.k, request
    return TupleSearch(reasoner, *inputs).run(entities)


def listed(search: TupleSearch) -> list[Row]:
    found = search.tuples
    return [
        (tuple(ids), float(np.exp(score)), known)
        for ids, score, known in zip(
            found.ids.tolist(), found.scores.tolist(), found.known.tolist(), strict=True
        )
    ]


@given(
    st.integers(2, 3).flatmap(tuple_queries), st.integers(3, 4), st.integers(0, 10**6),
    st.sampled_from(sorted(LOGICS)), st.sampled_from(sorted(NEGATIONS)), st.integers(1, 30),
    st.integers(1, 8), st.booleans(),
)  # fmt: skip
@example(  # what is said of ?t alone takes a cut, beside two variables that are held
    parse("?t, ?x, ?y : p(e1, ?t) & !(exists ?z, ?w . p(?t, ?z) & q(?z, ?w) & r(?w, ?t)) & "
          "q(?t, ?x) & p(?x, ?y)"),
    3, 0, "product", "standard", 30, 2, False,
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_tuples_are_the_best_of_all_assignments(
    query: Query, size: int, seed: int, norm: str, negation: str, count: int, k: int, new: bool
) -> None:
    little = Little(size, seed)
    known_first = not new and not compile_query(query, safe=False).plan.has(Complement)
    expected = [
        row for row in little.rows(query, norm, negation, known_first) if not (new and row[2])
    ]
    known = [
        ids for ids in product(range(size), repeat=len(query.targets)) if little.implies(query, ids)
    ]
    prepared = compile_query(query, safe=False)
    entities, relations = (ids.numpy() for ids in slots(prepared))
    for most in (1000, 2):  # it stops where there are so many
        found = count_tuples(prepared.plan, entities, relations, little.index, size, most)
        assert found == min(most, len(known))
    exact = searched(query, little.reasoner(norm, negation, None), count, little.index, new)
    assert exact.certified is True
    assert len(exact.tuples) >= min(count, len(expected))
    check(listed(exact), expected, known_first)
    beam = searched(query, little.reasoner(norm, negation, k), count, little.index, new)
    if beam.certified:
        assert len(beam.tuples) >= min(count, len(expected))
        check(listed(beam), expected, known_first)
    check(listed(beam)[: beam.leading], expected, known_first)


def test_where_no_value_of_a_variable_is_possible_there_are_no_tuples() -> None:
    # none of which loops
    graph = Graph.of([("e0", "r", "e1"), ("e1", "q", "e2"), ("e2", "p", "e0")])
    scorer = FactorScorer([np.full((3, 3), 0.5) for _ in RELATIONS])
    engine = Engine(graph, scorer, k=1, calibration="sigmoid")
    for search in ("certified", "exact"):
        answers = engine.with_settings(search=search).ask(
            "?x, ?y, ?z : r(?x, ?x) & q(?x, ?y) & p(?x, ?z) & p(?y, ?z)"
        )
        assert (len(answers), answers.certified) == (0, True)


class TwoWays(TableScorer):
    """A relation and its inverse have scores of their own, as those of a link predictor do."""

    def __init__(self, size: int, seed: int) -> None:
        self._logits = 2 * torch.randn(
            2 * len(RELATIONS), size, size, generator=torch.Generator().manual_seed(seed)
        )
        self.num_relations = len(self._logits)
        self.num_entities = size
        self.device = torch.device("cpu")


@given(
    st.integers(2, 3).flatmap(tuple_queries),
    st.integers(0, 10**6),
    st.sampled_from(sorted(LOGICS)),
    st.integers(1, 6),
    st.integers(1, 6),
)
@example(parse("?t, ?x : exists ?z . exists ?y . !(p(?t, ?y) & p(?x, ?z))"), 0, "godel", 2, 2)
@settings(max_examples=30, deadline=None)
def test_what_is_certified_is_exact_and_no_writing_changes_it(
    query: Query, seed: int, norm: str, count: int, k: int
) -> None:
    atoms = Atoms(TwoWays(4, seed), Sigmoid())
    exact = listed(searched(query, MessageReasoner(atoms, Logic(norm)), 64))
    beam = searched(query, MessageReasoner(atoms, Logic(norm), k), count)
    proven = len(beam.tuples) if beam.certified else beam.leading
    expected = exact[: count if beam.certified else proven]
    np.testing.assert_allclose(
        [row[1] for row in listed(beam)[:proven]], [row[1] for row in expected], atol=1e-5
    )
    written = rewritten(query, Random(seed))
    other = {
        row[0]: row[1] for row in listed(searched(written, MessageReasoner(atoms, Logic(norm)), 64))
    }
    for ids, score, _ in exact:
        assert abs(other.get(ids, 0.0) - score) < 1e-5
    # In another order, interchangeable variables change places; all others keep theirs.
    turned = Query(written.targets[::-1], written.formula)
    scores = [row[1] for row in listed(searched(turned, MessageReasoner(atoms, Logic(norm)), 64))]
    np.testing.assert_allclose(scores, [row[1] for row in exact], atol=1e-5)


def test_a_beam_is_certified_where_the_question_narrows_what_it_drops() -> None:
    scores = {name: np.full((6, 6), 0.2) for name in RELATIONS}
    scores["r"][0] = [0.9, 0.01, 0.8, 0.01, 0.02, 0.01]  # from e0, e0 and e2 stand out
    scores["q"][:, 1] = 0.7
    reasoner = MessageReasoner(
        Atoms(FactorScorer([scores[name] for name in RELATIONS]), Sigmoid()), Logic(), 2
    )
    narrowed = searched(parse("?a, ?b : r(e0, ?a) & q(?a, ?b)"), reasoner, 2)
    assert narrowed.tuples.ids.tolist() == [[0, 1], [2, 1]]
    np.testing.assert_allclose(narrowed.tuples.scores.exp().numpy(), [0.63, 0.56], atol=1e-6)
    assert narrowed.certified is True
    assert searched(parse("?a, ?b : q(?a, ?b)"), reasoner, 2).certified is False
    # of these, some are dropped; the first two tuples are worth more
    scores["r"][0, [1, 3, 4, 5]] = 0.5
    reasoner = MessageReasoner(
        Atoms(FactorScorer([scores[name] for name in RELATIONS]), Sigmoid()), Logic(), 2
    )
    part = searched(parse("?a, ?b : r(e0, ?a) & q(?a, ?b)"), reasoner, 4)
    assert (len(part.tuples), part.leading, part.certified) == (4, 2, False)


@given(
    tuple_queries(0), st.integers(3, 5), st.integers(0, 10**6),
    st.sampled_from(sorted(LOGICS)), st.sampled_from(sorted(NEGATIONS)), st.integers(1, 4),
)  # fmt: skip
@settings(max_examples=50, deadline=None)
def test_a_formula_without_answer_variable_has_one_value(
    query: Query, size: int, seed: int, norm: str, negation: str, k: int
) -> None:
    little = Little(size, seed)
    value = float(BruteForce(little.tables, norm, negation).value(query.formula, {}))
    prepared = compile_query(query, safe=False)
    scores = little.reasoner(norm, negation, None).scores(prepared.plan, *slots(prepared)).exp()
    np.testing.assert_allclose(scores.numpy(), value, atol=1e-5)
    lower, upper = little.reasoner(norm, negation, k).bounds(prepared.plan, *slots(prepared))
    assert float(lower[0, 0].exp()) - 1e-5 <= value <= float(upper[0, 0].exp()) + 1e-5
