"""Cycles with a floor have the answers of search without one, and of the definition."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from bruteforce import BruteForce
from formulas import ENTITIES, RELATIONS
from tables import FactorScorer
from tacit.engine.engine import Engine
from tacit.engine.logic import NORMS, ZERO
from tacit.engine.search import best_first
from tacit.engine.search.beam_evaluator import BeamEvaluator
from tacit.engine.search.floors import Floor, ceilings, floor, floors, potential
from tacit.engine.search.frontier import FrontierEvaluator, SearchState
from tacit.engine.search.search_context import QueryBatch, SearchContext
from tacit.engine.top_k import TopKRequest
from tacit.graph.graph import Graph, directed, no_triples
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.query.plans.plan import Cutset, Everything, walk

CYCLES = (
    "r(?x, ?y) & q(?y, ?z) & p(?z, ?x)",
    "r(e1, ?y) & q(?y, ?z) & p(?z, ?x) & r(?x, ?y)",
    "r(?x, ?y) & q(?y, ?z) & p(?z, ?x) & !q(?x, ?z)",
    "r(?x, ?y) & q(?y, ?z) & p(?z, ?x) & q(?x, ?v) & r(?v, ?w) & r(?w, ?x)",
    "r(e1, ?y) & q(?y, ?z) & p(?z, ?v) & r(?v, ?x) & p(?x, ?y)",
    "r(?x, ?y) & q(?y, ?z) & p(?z, ?x) & !(exists ?v . q(e1, ?v) & r(?v, ?x))",
    "r(?x, ?y) & q(?y, ?z) & p(?z, ?x) & (exists ?v . q(e1, ?v) & r(?v, ?z))",
    "r(e1, ?y) & q(?y, ?z) & p(?z, ?x) & r(?x, ?y) & q(?x, ?v) & r(?v, ?w) & r(?w, ?x)",
    "q(e1, ?y) & q(?y, ?z) & p(?z, ?x) & (r(?y, ?x) | (exists ?v . p(?y, ?v) & r(?v, ?x)))",
)  # of one, of two and of nested ones, with negations and disjunctions in and beside them


@pytest.fixture
def in_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few candidates are followed at a time, so that floors rise often."""
    monkeypatch.setattr(best_first, "_FIRST", 2)
    monkeypatch.setattr(best_first, "_STAGE", 2)


def engine_of(seed: int, size: int, facts: int, few: bool, **changes: object) -> Engine:
    """Some facts, and lopsided chances, or few different ones, so that much ties."""
    random = np.random.default_rng(seed)
    steep = 1 / (1 + np.exp(3 - 3 * random.normal(size=(len(RELATIONS), size, size))))
    chances = random.choice([0.2, 0.5, 0.8], steep.shape) if few else steep.clip(0.001, 0.999)
    names = [*ENTITIES, *(f"n{i}" for i in range(size - len(ENTITIES)))]
    triples = random.integers(0, [size, len(RELATIONS), size], (facts, 3)) * [1, 2, 1]
    graph = Graph(
        Vocabulary(names),
        directed(RELATIONS),
        np.unique(triples, axis=0) if facts else no_triples(),
    )
    return Engine(graph, FactorScorer(list(chances)), loops=True, **changes)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.usefixtures("in_small_steps")
def test_cycles_are_answered_by_the_definition(norm: str) -> None:
    engine = engine_of(
        1, 5, 0, False, logic=norm, calibration="sigmoid", observed="none", search="certified", k=5
    )
    scorer = engine.scorer
    assert isinstance(scorer, FactorScorer)
    tables = {
        name: scorer._logits[2 * r].sigmoid().double().numpy() for r, name in enumerate(RELATIONS)
    }
    for text in CYCLES:
        question = engine.prepare(f"?x : {text}")
        expected = BruteForce(tables, norm, "standard").answers(question.query)
        found = engine.ask(question, 2)
        best = sorted(range(5), key=lambda i, worth=expected: -worth[i])[: len(found)]
        assert found.certified, text
        assert [a.score for a in found] == pytest.approx(expected[best], abs=1e-5), text


@pytest.mark.parametrize(
    ("norm", "name", "facts", "new", "few", "k"),
    [
        ("product", "softmax-count", 40, False, False, 3),
        ("product", "minmax", 40, True, True, 9),
        ("godel", "sigmoid", 0, False, False, 3),
        ("godel", "softmax-count", 40, True, True, 4),
        ("lukasiewicz", "minmax", 40, False, False, 3),
        ("lukasiewicz", "sigmoid", 40, False, True, 4),
    ],
)
@pytest.mark.usefixtures("in_small_steps")
def test_a_floor_changes_no_answer(
    norm: str, name: str, facts: int, new: bool, few: bool, k: int
) -> None:
    """Certified answers are those of exact search, others those of a beam; no floor in either."""
    observed = "all" if facts else "none"
    engine = engine_of(
        7, 9, facts, few, logic=norm, calibration=name, observed=observed, new=new, k=k
    )
    kinds = [engine.with_settings(search=search) for search in ("certified", "beam", "exact")]
    for text in CYCLES:
        found, beam, exact = (kind.ask(f"?x : {text}", 2) for kind in kinds)
        expected = exact if found.certified else beam
        assert [a.id for a in found] == [a.id for a in expected], text
        assert [a.score for a in found] == pytest.approx([a.score for a in expected], abs=1e-6), (
            text
        )


@pytest.mark.usefixtures("in_small_steps")
def test_known_answers_tie_whether_they_were_followed_or_not() -> None:
    """The scores of facts are summed in another order along a path than for all at once."""
    engine = engine_of(200, 8, 60, False, calibration="sigmoid", observed="all", k=5)
    found, exact = (
        engine.with_settings(search=search).ask(f"?x : {CYCLES[7]}", 2)
        for search in ("certified", "exact")
    )
    assert found.certified
    assert (
        [(a.id, a.known) for a in found]
        == [(a.id, a.known) for a in exact]
        == [(0, True), (2, True)]
    )


def test_known_answers_that_were_followed_make_a_floor_whatever_their_ids() -> None:
    """Two of four known answers are expanded; they tie with the others of lower ids."""
    lower = torch.tensor([ZERO, ZERO, -0.1, -0.1, -3.0])
    assert floor(TopKRequest(2, [0, 1, 2, 3], -0.1), lower) == pytest.approx(-0.1, abs=1e-4)
    assert floor(TopKRequest(2, [0, 1, 2, 3], -0.1), lower) < -0.1
    assert floor(TopKRequest(3, [0, 1, 2, 3], -0.1), lower) == ZERO
    assert floor(TopKRequest(3, [2, 3], -0.1), lower) == pytest.approx(-3.0, abs=1e-4)


@pytest.mark.parametrize("norm", NORMS)
def test_no_value_of_a_cut_variable_is_worth_more_than_its_ceiling(norm: str) -> None:
    engine = engine_of(2, 20, 40, False, logic=norm, calibration="softmax-count", observed="all")
    question = engine.prepare(f"?x : {CYCLES[0]}")
    step = next(step for step in walk(question.compiled.plan.root) if isinstance(step, Cutset))
    slots = torch.tensor([question.entities]).long(), torch.tensor([question.relations]).long()
    scores = BeamEvaluator(
        SearchContext(engine.atoms, engine.logic, None, 10**8), QueryBatch(*slots)
    )
    most = ceilings(scores.context, scores.queries, step)[0]
    worth = torch.stack([scores.bodies(step, torch.tensor([[i]])).amax() for i in range(20)])
    assert bool((worth <= most + 1e-6).all())
    assert len(most.unique()) > 1  # some have facts to follow, and some have none


@pytest.mark.parametrize("norm", NORMS)
def test_no_answer_is_worth_more_than_what_is_foreseen_of_a_value(norm: str) -> None:
    """The ceiling comes from the other cycle, for the requested entities alone."""
    engine = engine_of(
        2, 20, 40, False, logic=norm, calibration="softmax-count", observed="all", k=20
    )
    question = engine.prepare(f"?x : {CYCLES[7]}")
    root = question.compiled.plan.root
    everyone = torch.arange(20)[None]
    slots = torch.tensor([question.entities]).long(), torch.tensor([question.relations]).long()
    context = SearchContext(engine.atoms, engine.logic, None, 10**8)
    queries = QueryBatch(*slots)
    scores = BeamEvaluator(context, queries)
    narrow, wide = (step for step in walk(root) if isinstance(step, Cutset))
    assert isinstance(wide.candidates, Everything)
    unwanted = [4, 0]
    bounds = FrontierEvaluator.by(SearchState.of(replace(context, k=20), queries))
    limit = floors(root, [TopKRequest(3, without=unwanted)], bounds)[wide]
    assert limit.headroom is not None
    assert limit.least.tolist() == [-math.inf]  # of nothing expanded
    assert bool((limit.headroom[0, unwanted] == -math.inf).all())
    headroom = scores.set_of(narrow).index_fill(1, torch.tensor(unwanted), -math.inf)
    foreseen = potential(scores, Floor(limit.least, headroom), wide, everyone)[0]
    for value in range(20):
        worth = engine.logic.conjunction(
            headroom, scores.bodies(wide, torch.tensor([[value]]))
        ).amax()
        assert float(worth) <= float(foreseen[value]) + 1e-6


@pytest.mark.usefixtures("in_small_steps")
def test_values_that_lead_to_no_answer_are_not_tried() -> None:
    engine = engine_of(
        4, 40, 80, False, logic="godel", calibration="softmax-count", observed="all", new=True, k=4
    )
    for top, proven in ((1, True), (2, False)):
        found, other = (
            engine.with_settings(search=kind).ask(f"?x : {CYCLES[7]}", top)
            for kind in ("certified", "beam")
        )
        other = (
            engine.with_settings(search="exact").ask(f"?x : {CYCLES[7]}", top) if proven else other
        )
        assert found.certified is proven
        assert [a.id for a in found] == [a.id for a in other]
        assert [a.score for a in found] == pytest.approx([a.score for a in other], abs=1e-6)
        assert found.rows is not None
        assert found.rows < 22  # of four for one cycle and forty for the other


def test_known_cycles_are_found_without_following_what_nothing_is_known_of() -> None:
    size = 60
    facts = [
        ("e0", "r", "e1"),
        ("e1", "r", "e2"),
        ("e2", "r", "e0"),
        *((f"e{i}", "q", "e0") for i in range(3, size)),
    ]
    scorer = FactorScorer(list(np.random.default_rng(0).uniform(0.001, 0.4, (2, size, size))))
    engine = Engine(Graph.of(facts), scorer, calibration="softmax-count", k=size)
    found = engine.ask("?x : r(?x, ?y) & r(?y, ?z) & r(?z, ?x)", 3)
    assert found.certified
    assert sorted(a.entity for a in found) == ["e0", "e1", "e2"]
    assert found.rows is not None
    assert found.rows < size / 4


def test_the_floor_is_below_every_answer_listed() -> None:
    lower = torch.tensor([0.5, 0.9, 0.2, 0.7]).log()
    assert floor(TopKRequest(2), lower) == pytest.approx(math.log(0.7), abs=1e-4)
    assert floor(TopKRequest(2), lower) < math.log(0.7)
    assert floor(TopKRequest(2, without=[1]), lower) == pytest.approx(math.log(0.5), abs=1e-4)
    # A known answer is listed first, by its facts' score; the search may have found less.
    assert floor(TopKRequest(2, first=[2], least=math.log(0.99)), lower) == pytest.approx(
        math.log(0.2), abs=1e-4
    )
    assert floor(TopKRequest(5), lower) == -math.inf  # there is room for what is worth little
    assert floor(TopKRequest(0), lower) == -math.inf


def test_halves_of_a_disjunction_count_where_they_are_below_the_floor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(best_first, "_FIRST", 1)
    names = ["start", "first", "second", "middle", "half", "whole"]
    r, q, p = np.full((3, 6, 6), 0.001)
    q[0, 1], q[0, 2] = 0.998, 0.99  # the second is followed when the first has set a floor
    q[1, 3] = q[2, 3] = 0.99
    p[3, 4:] = 0.99
    r[1, 5] = 0.72
    r[2, 4], p[2, 3], r[3, 4] = 0.6, 0.6, 0.99  # two ways of less than that
    graph = Graph(Vocabulary(names), directed(["r", "q", "p"]), no_triples())
    engine = Engine(graph, FactorScorer([r, q, p]), calibration="sigmoid", observed="none", k=6)
    text = (
        "q(start, ?y) & q(?y, ?z) & p(?z, ?x) & (r(?y, ?x) | (exists ?v . p(?y, ?v) & r(?v, ?x)))"
    )
    found = engine.ask(f"?x : {text}", 1)
    assert found.certified
    assert found[0].entity == "half"
    assert found[0].score == pytest.approx(0.99**3 * (1 - (1 - 0.6) * (1 - 0.6 * 0.99)), abs=1e-5)
