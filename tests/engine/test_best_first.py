"""Best-first search against exact search: certified answers are always the same."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bruteforce import Values
from formulas import ENTITIES, RELATIONS, queries
from quick_world import quick_world
from random_engine import CYCLES, KINDS, SIZE, questions, random_engine, same
from tables import FactorScorer
from tacit.adapt.adapter import Adapter
from tacit.adapt.calibrated import Adapted
from tacit.engine.answers.answers import Answers
from tacit.engine.atoms.calibration import CALIBRATIONS, calibration
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.engine import Engine
from tacit.engine.logic import NEGATIONS, NORMS
from tacit.engine.questions import BoundQuery
from tacit.engine.search.best_first import BestFirstSearch
from tacit.engine.search.block_expansion import BlockExpansion
from tacit.engine.search.frontier import SearchState
from tacit.engine.search.search_context import QueryBatch, SearchContext
from tacit.engine.top_k import TopKRequest
from tacit.errors import RunError, TacitError
from tacit.graph.graph import Graph, directed, no_triples
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.links.models import ComplEx
from tacit.query.formula import Query
from tacit.query.plans.compile import compile_template
from tacit.query.plans.plan import Project
from tacit.query.sampling.shapes import SHAPES
from tacit.run.run import open as open_run


def share(found: list[Answers], exact: list[Answers]) -> float:
    """The share of certified questions.

    Their answers are those of exact search, and the proven answers of others are its first ones.
    """
    for one, other in zip(found, exact, strict=True):
        assert one.proven is not None
        same(one[: one.proven], other[: one.proven])
        assert not one.certified or len(one) == len(other) == one.proven
    return float(np.mean([bool(answers.certified) for answers in found]))


def compare(engine: Engine, batch: list[Any], top: int, k: int, budget: int | None = None) -> float:
    """The share of questions that an engine certifies with some `k` or budget of rows."""
    exact = engine.with_settings(search="exact").ask_many(batch, top)
    return share(
        engine.with_settings(search="certified", k=k, budget=budget).ask_many(batch, top), exact
    )


@pytest.mark.parametrize("observed", ["none", "all"])
@pytest.mark.parametrize("name", CALIBRATIONS)
@pytest.mark.parametrize("norm", NORMS)
def test_what_is_certified_is_what_exact_search_finds(
    norm: str, name: str, observed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = random_engine(3, logic=norm, calibration=name, observed=observed)
    batch = questions(engine, 5)
    # with as many candidates as there are all can be proven
    assert compare(engine, batch, 4, SIZE) == 1.0
    monkeypatch.setattr("tacit.engine.search.best_first._FEW", 0)  # as on a large graph
    assert compare(engine, batch, 4, 7) >= 0.5


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Values]:
    """Chances of few values, so that much ties, or of any."""
    size = draw(st.integers(len(ENTITIES), 7))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    few = draw(st.booleans())
    return {
        n: random.choice([0.2, 0.5, 0.8], (size, size)) if few else random.random((size, size))
        for n in RELATIONS
    }


@given(
    queries(), tables(), st.sampled_from(sorted(NORMS)), st.sampled_from(sorted(NEGATIONS)),
    st.sampled_from(sorted(CALIBRATIONS)),
    st.integers(1, 7), st.integers(1, 7), st.none() | st.integers(1, 9),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_nothing_is_proven_wrongly(
    query: Query,
    scores: dict[str, Values],
    norm: str,
    negation: str,
    name: str,
    k: int,
    top: int,
    budget: int | None,
) -> None:
    size = len(scores[RELATIONS[0]])
    names = [*ENTITIES, *(f"n{i}" for i in range(size - len(ENTITIES)))]
    graph = Graph(Vocabulary(names), directed(RELATIONS), no_triples())
    clipped = [scores[name].clip(0.001, 0.999) for name in RELATIONS]
    options = {
        "calibration": name,
        "observed": "none",
        "logic": norm,
        "negation": negation,
        "loops": True,
    }
    engine = Engine(graph, FactorScorer(clipped), **options)
    try:
        engine.prepare(query)
    except TacitError:
        return  # unsafe questions are refused
    assert compare(engine, [query], top, k, budget) == 1.0 or k < size


def test_the_embedded_graph_is_answered_as_by_exact_search(tmp_path: Path) -> None:
    engine = open_run(quick_world(tmp_path), device="cpu").engine
    hops = [question for question in questions(engine, 1) if question.compiled.plan.has(Project)]
    for name, observed in (("softmax-count", "train"), ("sigmoid", "none"), ("minmax", "train")):
        assert (
            compare(engine.with_settings(calibration=name, observed=observed), hops, 10, 64) > 0.2
        ), name


def test_a_supremum_that_is_too_low_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: with too low a supremum of scores, answers are missed."""
    monkeypatch.setattr("tacit.engine.search.best_first._FIRST", 1)
    engine = random_engine(3, calibration="sigmoid", observed="none").with_settings(
        search="certified"
    )
    engine.atoms.calibration.supremum = math.log(1 / 3)
    exact = random_engine(3, calibration="sigmoid", observed="none", search="exact")
    batch = questions(engine, 5, count=3)
    found = engine.ask_many(batch, 4)
    expected = exact.ask_many(batch, 4)
    with pytest.raises(AssertionError):
        share(found, expected)


@pytest.mark.parametrize("condition", [None, "none", "p", "sp", "spo"])
@pytest.mark.parametrize("name", CALIBRATIONS)
def test_no_score_exceeds_the_supremum(name: str, condition: str | None) -> None:
    if name == "minmax" and condition not in (None, "spo"):
        return  # refused: it would change nothing
    engine = random_engine(1)
    size = engine.graph.num_entities
    relations = engine.graph.num_relations
    model = ComplEx(size, relations, 4).requires_grad_(False)
    model.reset(3.0, torch.Generator().manual_seed(2))  # large logits: some scores are near 1
    calibrated = calibration(name, KnownFacts(engine.graph.index()))
    if condition is not None:
        adapter = Adapter(model, condition).requires_grad_(False).eval()
        for weight in adapter.parameters():
            weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(5)))
        calibrated = Adapted(calibrated, adapter)
    heads = torch.arange(size).repeat_interleave(relations)
    along = torch.arange(relations).repeat(size)
    highest = float(calibrated(model.logits(heads, along), heads, along).max())
    assert highest <= calibrated.supremum + 1e-7
    if condition in (None, "none"):
        # and it is no higher than it must be
        assert highest == pytest.approx(calibrated.supremum, abs=2e-3)


def chain(k: int, norm: str = "lukasiewicz") -> Engine:
    """`s` leads to `v1`, which leads to `x`, and a little less to `v2`, which leads to `y`."""
    hops = np.full((5, 5), 0.001)
    hops[0, 1], hops[0, 2], hops[1, 3], hops[2, 4] = 0.99, 0.9, 0.99, 0.9
    graph = Graph(Vocabulary(["s", "v1", "v2", "x", "y"]), directed(["r"]), no_triples())
    options: dict[str, Any] = {"calibration": "sigmoid", "observed": "none", "logic": norm}
    return Engine(graph, FactorScorer([hops]), search="certified", k=k, **options)


def test_a_search_that_runs_out_of_candidates_says_that_it_proved_nothing() -> None:
    question = "?t : exists ?v . r(s, ?v) & r(?v, ?t)"
    assert chain(1).ask(question, top=1).certified is True
    assert chain(1).ask(question, top=2).certified is False
    assert (chain(1).ask(question, top=2).proven, chain(5).ask(question, top=2).proven) == (1, 2)
    assert chain(1).ask(question, top=2, offset=1).proven == 0
    assert str(chain(1).ask(question, top=2)).endswith("keeps them all; the first is proven")
    assert chain(5).ask(question, top=2).certified is True
    assert chain(5).ask(question, top=2).entities == ["x", "y"]
    assert "not certified" in str(chain(1).ask(question, top=2))


def test_reasons_come_from_the_candidates_that_were_followed() -> None:
    engine = random_engine(3, calibration="softmax-count")
    for question in questions(engine, 5):
        exact, found = (
            engine.with_settings(search=search).ask_many([question], 3, explain=True)[0]
            for search in ("exact", "certified")
        )
        same(found, exact)
        assert found.certified
        for answer, other in zip(found, exact, strict=True):
            assert answer.witnesses[0].score == pytest.approx(other.witnesses[0].score, abs=1e-6)


@pytest.mark.parametrize("search", ["exact", "certified"])
def test_scores_that_are_no_numbers_are_refused(search: str) -> None:
    graph = random_engine(3).graph
    model = ComplEx(graph.num_entities, graph.num_relations, 4).requires_grad_(False)
    model.reset(1e20, torch.Generator().manual_seed(2))  # products overflow
    engine = Engine(graph, model, calibration="softmax-count", observed="none", search=search)
    for question in questions(engine, 5):
        with pytest.raises(RunError):
            engine.ask_many([question])


class Counting(FactorScorer):
    """A scorer that records every requested row."""

    requested_rows: list[tuple[int, int]]

    def queries(self, heads: Tensor, relations: Tensor) -> Tensor:
        self.requested_rows += zip(heads.tolist(), relations.tolist(), strict=True)
        return super().queries(heads, relations)

    def logits(self, heads: Tensor, relations: Tensor, out: Tensor | None = None) -> Tensor:
        self.requested_rows += zip(heads.tolist(), relations.tolist(), strict=True)
        return super().logits(heads, relations)


@pytest.mark.parametrize("name", CALIBRATIONS)
def test_no_row_is_scored_twice(name: str) -> None:
    engine = random_engine(3, calibration=name, search="certified")
    random = np.random.default_rng(9)
    scorer = Counting(
        [random.random((SIZE, SIZE))[: engine.graph.num_entities, : engine.graph.num_entities]] * 3
    )
    counted = Engine(engine.graph, scorer, engine.settings)
    for question in questions(engine, 5):
        if len(set(question.relations)) < len(question.relations):
            continue  # two atoms of one relation may need the same row
        scorer.requested_rows = []
        counted.ask_many([question], 4)
        assert len(scorer.requested_rows) == len(set(scorer.requested_rows)), question.query


@pytest.mark.parametrize("search", ["beam", "exact", "certified"])
def test_the_row_of_a_single_atom_is_scored_once(search: str) -> None:
    engine = random_engine(3, search=search)
    scorer = Counting([np.full((engine.graph.num_entities,) * 2, 0.5)] * 3)
    scorer.requested_rows = []
    Engine(engine.graph, scorer, engine.settings).ask_many(questions(engine, 1)[:1])
    assert len(scorer.requested_rows) == 1


@pytest.mark.parametrize("norm", NORMS)
def test_what_is_not_certified_is_the_answer_of_the_beam(norm: str) -> None:
    """Proven answers are those of exact search, others those of a beam with the same k."""
    proven = []
    options = {"logic": norm, "calibration": "sigmoid", "observed": "all", "k": 5}
    engine = random_engine(4, **options)
    batch = [*questions(engine, 6, count=2), *map(engine.prepare, (*CYCLES, *KINDS))]
    ways = [
        engine.with_settings(search=search).ask_many(batch, 6)
        for search in ("auto", "beam", "exact")
    ]
    for found, beam, exact in zip(*ways, strict=True):
        best = exact if found.certified else beam
        assert [a.values or a.id for a in found] == [a.values or a.id for a in best], found.query
        assert [a.score for a in found] == pytest.approx([a.score for a in best], abs=1e-6), (
            found.query
        )
        proven.append(found.certified)
    assert set(proven) == {True, False}
    assert any("not certified" in str(found) for found in ways[0])


def test_known_answers_that_the_beam_has_dropped_come_by_id_as_exact_search_lists_them() -> None:
    """Known answers score as their facts do, some by paths that the search did not follow."""
    random = np.random.default_rng(1)
    size = 30
    facts = [("e0", "r", f"e{i}") for i in range(1, 6)]
    facts += [(f"e{random.integers(1, 6)}", "q", f"e{i}") for i in range(6, size)]
    graph = Graph.of(facts)
    scorer = FactorScorer(list(random.uniform(0.3, 0.7, (2, size, size))))
    engine = Engine(graph, scorer, calibration="sigmoid", k=2)
    question = "?x : exists ?y . r(e0, ?y) & q(?y, ?x)"
    auto, beam = (
        engine.with_settings(search=search).ask(question, 28) for search in ("auto", "beam")
    )
    assert not auto.certified
    same(auto, beam)
    known = [answer.id for answer in auto if answer.known]
    assert known == [graph.entities.id(f"e{i}") for i in range(6, size)]


def test_questions_asked_together_have_the_answers_of_each_alone_and_share_rows() -> None:
    engine = random_engine(3, calibration="softmax-count", observed="none", k=6)
    size = engine.graph.num_entities
    scorer = Counting([np.random.default_rng(9).random((SIZE, SIZE))[:size, :size]] * 3)
    counted = Engine(engine.graph, scorer, engine.settings)
    compiled = compile_template(SHAPES["2p"].query)
    batch = [
        BoundQuery(SHAPES["2p"].query, compiled=compiled, entities=[i], relations=[0, 2])
        for i in range(12)
    ]
    scorer.requested_rows = []
    together = counted.ask_many(batch, 5)
    shared = len(scorer.requested_rows)
    scorer.requested_rows = []
    alone = [counted.ask_many([question], 5)[0] for question in batch]
    assert shared < len(scorer.requested_rows) / 1.5
    for one, other in zip(together, alone, strict=True):
        same(one, other)
        assert (one.certified, one.rows) == (other.certified, other.rows)


def test_a_query_that_may_follow_no_more_follows_nothing_while_others_in_its_batch_do() -> None:
    engine = random_engine(3, calibration="sigmoid", observed="none", k=2, budget=5)
    question = engine.prepare(
        "?x : (exists ?y . r(e1, ?y) & q(?y, ?x)) & (exists ?z . p(e2, ?z) & r(?z, ?x))"
    )
    slots = torch.tensor([question.entities] * 2), torch.tensor([question.relations] * 2)
    context = SearchContext(engine.atoms, engine.logic, 2, 10**9)
    root = question.compiled.plan.root
    requests = [TopKRequest(3)] * 2
    search = BestFirstSearch(root, requests, SearchState.of(context, QueryBatch(*slots), budget=5))
    search.bounds.set_of(root)
    first, second = search.state.frontiers
    search.expand([{first, second}, {second}])
    frontiers = search.state.frontiers
    assert [frontiers[step].counts for step in (first, second)] == [[5, 0], [0, 5]]
    for frontier in frontiers.values():
        assert frontier.expanded.sum(dim=1).tolist() == frontier.counts
        for reached in (frontier.beam, frontier.low, frontier.high):
            assert (reached > -math.inf).any(dim=1).tolist() == [
                count > 0 for count in frontier.counts
            ]


def test_a_search_without_hope_follows_as_much_as_the_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of inexact candidates are not expanded beside values, at twice the time."""
    pairs: list[int] = []
    followed = BlockExpansion.from_some
    monkeypatch.setattr(
        BlockExpansion,
        "from_some",
        lambda hop, *arguments: (pairs.append(arguments[0].numel()), followed(hop, *arguments)),
    )
    monkeypatch.setattr("tacit.engine.search.best_first._FIRST", 2)
    engine = random_engine(3, calibration="sigmoid", observed="none", k=6)
    scores = np.random.default_rng(9).uniform(
        0.4, 0.6, (3, engine.graph.num_entities, engine.graph.num_entities)
    )
    engine = Engine(engine.graph, FactorScorer(list(scores)), engine.settings)
    compiled = compile_template(SHAPES["3p"].query)
    for anchor in range(4):
        question = BoundQuery(
            SHAPES["3p"].query, compiled=compiled, entities=[anchor], relations=[0, 2, 4]
        )
        pairs.clear()
        found = engine.ask_many([question], 5)[0]
        by_search = sum(pairs)
        pairs.clear()
        same(found, engine.with_settings(search="beam").ask_many([question], 5)[0])
        assert not found.certified
        assert by_search == sum(pairs) == 2 * 6


def test_what_a_beam_found_of_a_candidate_is_no_bound_of_it() -> None:
    """The beam leaves `s` for `a` alone; by `b`, which it drops, `m` is worth more."""
    r = np.full((6, 6), 0.001)
    q = np.full((6, 6), 0.001)
    r[0, 1], r[0, 2], r[1, 3], r[2, 3], r[3, 4], q[5, 3] = 0.9, 0.8, 0.3, 0.9, 0.9, 0.9
    graph = Graph(Vocabulary(["s", "a", "b", "m", "t", "z"]), directed(["r", "q"]), no_triples())
    engine = Engine(graph, FactorScorer([r, q]), calibration="sigmoid", observed="none", k=1)
    question = "?t : exists ?x, ?y . r(s, ?x) & r(?x, ?y) & q(z, ?y) & r(?y, ?t)"
    found, exact = (
        engine.with_settings(search=search).ask(question, top=1) for search in ("auto", "exact")
    )
    assert found[0].score == pytest.approx(0.9 * 0.3 * 0.9 * 0.9, abs=1e-5)
    assert exact[0].score == pytest.approx(0.8 * 0.9 * 0.9 * 0.9, abs=1e-5)
    assert not found.certified


def test_the_default_is_certified_and_says_what_it_came_to() -> None:
    engine = random_engine(3, k=20)
    assert (engine.settings.search, engine.config["search"]) == ("auto", "certified")
    text = "?x : exists ?y . r(e1, ?y) & q(?y, ?x)"
    assert engine.ask(text).certified is True
    assert engine.with_settings(search="beam").ask(text).certified is None
    shared = random_engine(3)
    vars(shared.parts)["atoms"] = SimpleNamespace(shards=SimpleNamespace(world=2))
    # which processes that share the entities out follow together
    assert shared.config["search"] == "beam"
