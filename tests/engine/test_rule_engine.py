"""An engine over rules: against the definition, against whole rows, and in all of its services."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bruteforce import LOGICS, Interpreter, Values
from random_engine import CYCLES, KINDS, questions, same
from rank_processes import on_ranks
from rule_oracle import RuleOracle, facts_of, random_rules
from tables import SparseScorer, TableScorer
from tacit.adapt.adaptation import adapt
from tacit.adapt.adapter_training import AdapterTraining
from tacit.adapt.settings import AdaptSettings
from tacit.adapt.training_queries import training_queries
from tacit.distributed.shards import Shards
from tacit.engine.completion import Completion
from tacit.engine.engine import Engine
from tacit.engine.questions import BoundQuery
from tacit.engine.search import sparse_expansion
from tacit.engine.search.block_expansion import BlockExpansion
from tacit.engine.search.sparse_expansion import SparseExpansion
from tacit.errors import SettingsError
from tacit.evaluate.evaluation import evaluate_engine
from tacit.evaluate.protocol import one_hop_queries
from tacit.evaluate.settings import EvaluateSettings
from tacit.graph.graph import Graph
from tacit.graph.split import split
from tacit.links.rules.rule_scorer import RuleScorer
from tacit.links.rules.rule_set import RuleSet
from tacit.query.plans import plan as p
from tacit.query.sampling.shapes import SHAPES

SIZE = 12
LABELS = ("r", "q", "p")
OBSERVED = 1 - 2.0**-10


class WholeRows(TableScorer):
    """The same logits as a table, which no engine can take for sparse rows."""

    def __init__(self, logits: torch.Tensor) -> None:
        self._logits = logits
        self.num_relations, self.num_entities = logits.shape[:2]
        self.device = torch.device("cpu")


class Directed(Interpreter):
    """The value of a plan by its table, with a table of its own for each direction."""

    def __init__(self, tables: Values, logic: str, negation: str) -> None:
        super().__init__({str(r): table for r, table in enumerate(tables)}, logic, negation)
        self.directed = tables

    def scores(self, question: BoundQuery) -> Values:
        self.ids = question.relations
        return self.of(question.compiled.plan.root, list(question.entities))

    def of(self, node: Any, slots: list[int]) -> Values:
        match node:
            case p.Relation(slot, flip):
                return self.directed[self.ids[slot] ^ int(flip)]
            case p.Loop(relation):
                return np.diagonal(self.directed[self.ids[relation]])
        return super().of(node, slots)


@cache
def world(seed: int) -> tuple[Graph, RuleScorer, torch.Tensor]:
    """A random graph, random rules over it, and the logits of all atoms by their definition."""
    random = np.random.default_rng(seed)
    facts = np.unique(random.integers(0, [SIZE, len(LABELS), SIZE], (40, 3)), axis=0)
    facts[:6, 2] = 0  # a hub
    graph = Graph.of([(f"e{s}", LABELS[r], f"e{t}") for s, r, t in facts])
    graph = split(graph, 0.1, 0.1)
    size = graph.num_entities
    rules = random_rules(random, size, graph.num_relations, 40)
    index = graph.index("train")
    logits = RuleOracle(rules, facts_of(index)).tables(size, graph.num_relations)
    return graph, RuleScorer(RuleSet.of(rules), index, size), logits


def engines(seed: int, **changes: Any) -> tuple[Engine, Engine]:
    """Engines over the rules, and over whole rows of the same logits."""
    graph, rules, _ = world(seed)
    changes = {"calibration": "sigmoid"} | changes
    return Engine(graph, rules, **changes), Engine(graph, whole_rows(rules), **changes)


def whole_rows(rules: RuleScorer) -> WholeRows:
    """A table of the logits of a scorer, to the last digit."""
    every = torch.arange(rules.num_entities)
    relations = range(rules.num_relations)
    return WholeRows(
        torch.stack([rules.logits(every, torch.full_like(every, r)) for r in relations])
    )


def tables(engine: Engine, logits: torch.Tensor) -> Values:
    """The scores of all atoms: predictions, without loops where there are none, and facts."""
    graph = engine.graph
    scores = torch.sigmoid(logits.double()).numpy() * (engine.settings.ceiling or OBSERVED)
    triples = graph.triples("train")
    looping = {r for h, r, t in triples.tolist() if h == t}
    for relation, table in enumerate(scores):
        if relation not in looping and not engine.settings.loops:
            np.fill_diagonal(table, 0.0)
    scores[triples[:, 1], triples[:, 0], triples[:, 2]] = OBSERVED
    return scores


@given(
    st.integers(0, 5), st.sampled_from(sorted(LOGICS)), st.sampled_from(["standard", "cosine"]),
    st.booleans(), st.integers(0, 100),
)  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_every_shape_has_the_value_of_its_plan(
    seed: int, logic: str, negation: str, loops: bool, draw: int
) -> None:
    """Exact search and a beam that keeps all, of batches of all 14 shapes."""
    shared: dict[str, Any] = {"logic": logic, "negation": negation, "loops": loops}
    for how in ({"search": "exact"}, {"search": "beam", "k": SIZE}):
        engine, _ = engines(seed, observed="train", **shared, **how)
        definition = Directed(tables(engine, world(seed)[2]), logic, negation)
        for question in questions(engine, draw):
            slots = torch.tensor([question.entities]), torch.tensor([question.relations])
            found = engine.reasoner.scores(question.compiled.plan, *slots)[0].exp().numpy()
            np.testing.assert_allclose(found, definition.scores(question), atol=1e-5)


@given(
    st.integers(0, 5), st.sampled_from(sorted(LOGICS)), st.integers(1, 5), st.integers(0, 100),
    st.sampled_from(["none", "train", "all"]), st.sampled_from([None, 0.9]), st.booleans(),
    st.sampled_from(["beam", "certified"]),
)  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_lists_are_those_over_whole_rows(
    seed: int, logic: str, k: int, draw: int, observed: str, ceiling: float | None, typed: bool,
    search: str,
) -> None:  # fmt: skip
    """A small beam and certified search, with the same proofs of the same lists."""
    mine, whole = engines(
        seed, logic=logic, k=k, observed=observed, ceiling=ceiling, typed=typed, search=search
    )
    many = questions(mine, draw, count=2)
    for found, expected in zip(
        mine.ask_many(many, top=6, explain=True),
        whole.ask_many(many, top=6, explain=True),
        strict=True,
    ):
        same(found, expected)
        assert found.certified == expected.certified


@pytest.mark.parametrize("text", [*CYCLES, *KINDS])
@pytest.mark.parametrize("search", ["exact", "beam", "certified"])
def test_cycles_and_other_kinds_of_questions(text: str, search: str) -> None:
    for seed in range(3):
        mine, whole = engines(seed, search=search, k=4, observed="train")
        found = mine.ask(text, top=5)
        expected = whole.ask(text, top=5)
        assert [each.score for each in found] == pytest.approx(
            [each.score for each in expected], abs=1e-6
        )


@pytest.mark.parametrize("logic", sorted(LOGICS))
@pytest.mark.parametrize("how", [{"search": "exact"}, {"search": "beam", "k": 3}])
def test_high_floors_leave_forbidden_loops_out(logic: str, how: dict[str, Any]) -> None:
    """Most atoms are worth 0.6, so the best candidate decides everywhere but at itself."""
    graph = Graph.of([(f"e{i}", LABELS[i % 3], f"e{i + 1}") for i in range(SIZE - 1)])
    shape = SHAPES["2p"]
    entities = torch.arange(SIZE)[:, None]
    for seed in range(6):
        random = np.random.default_rng(seed)
        chances = list(np.maximum(0.6, 0.95 * random.random((3, SIZE, SIZE))))
        relations = torch.from_numpy(random.integers(0, 6, (SIZE, 2)))
        found, expected = (
            Engine(graph, kind(chances), calibration="sigmoid", logic=logic, **how).reasoner.scores(
                shape.plan, entities, relations
            )
            for kind in (SparseScorer, TableScorer)
        )
        torch.testing.assert_close(found, expected)


def test_hops_are_followed_by_entries_where_these_decide() -> None:
    def expansion(**changes: Any) -> object:
        engine, _ = engines(0, **changes)
        return type(engine.search._context.hop(p.Everything()).expansion)  # type: ignore[attr-defined]

    assert expansion() is expansion(observed="none") is expansion(logic="godel") is SparseExpansion
    for dense in (
        {"typed": True},
        {"calibration": "softmax-count"},
        {"calibration": "minmax"},
    ):
        assert expansion(**dense) is BlockExpansion


@pytest.mark.parametrize("logic", sorted(LOGICS))
def test_small_parts_of_entries_give_the_same(logic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, _ = engines(1, logic=logic, observed="train", search="exact")
    slots = torch.arange(SIZE)[:, None], torch.tensor([[0, 2, 4]]).expand(SIZE, -1)
    plan = questions(mine, 0)[2].compiled.plan
    whole = mine.reasoner.scores(plan, *slots)
    monkeypatch.setattr(sparse_expansion, "_ROWS", 2)
    monkeypatch.setattr(sparse_expansion, "_ENTRIES", 3)
    assert torch.equal(mine.reasoner.scores(plan, *slots), whole)


@pytest.mark.parametrize("calibration", ["softmax-count", "minmax", "softmax-observed"])
def test_other_calibrations_take_whole_rows(calibration: str) -> None:
    mine, whole = engines(2, calibration=calibration, k=4, observed="train")
    for question in questions(mine, 3):
        same(mine.ask(question, top=5), whole.ask(question, top=5))


def test_facts_alone_are_searched_symbolically() -> None:
    mine, whole = engines(2, search="symbolic")
    for question in questions(mine, 3):
        same(mine.ask(question, top=5), whole.ask(question, top=5))


@pytest.mark.parametrize("candidates", ["scan", "index"])
def test_lists_of_tails_are_refused(candidates: str) -> None:
    mine, _ = engines(0, candidates=candidates)
    with pytest.raises(SettingsError, match=r"they take a model that scores by products"):
        mine.ask("?x : r(e1, ?x)")


def test_what_needs_vectors_is_refused() -> None:
    graph, rules, _ = world(0)
    continuous, _ = engines(0, search="continuous")
    with pytest.raises(SettingsError, match="needs a model that scores vectors"):
        continuous.ask("?x : exists ?y . r(e1, ?y) & q(?y, ?x)")
    for condition in ("sp", "spo"):
        chosen = AdaptSettings(condition=condition, calibration="sigmoid", observed=(), steps=1)
        with pytest.raises(SettingsError, match=r"RuleScorer does not have; use `condition='p'`"):
            adapt(graph, rules, training_queries(graph, chosen, count=20), chosen)


@pytest.mark.parametrize("calibration", ["sigmoid", "softmax-count"])
@pytest.mark.parametrize("loss", ["1vsall", "log", "bce"])
def test_an_adapter_learns_the_same_as_over_whole_rows(calibration: str, loss: str) -> None:
    graph, rules, _ = world(3)
    chosen = AdaptSettings(
        batch=16, validate_queries=10, calibration=calibration, condition="p", observed=(),
        loss=loss, shapes=("2i", "2p", "2in"), k=4, held_out=False,
    )  # fmt: skip
    trained = []
    for scorer in (rules, whole_rows(rules)):
        training = AdapterTraining(
            graph, scorer, training_queries(graph, chosen, count=30), chosen.with_derived(True)
        )
        for _ in range(4):
            training.step()
        training.module.requires_grad_(False).eval()
        trained.append(training)
    mine, whole = (each.module for each in trained)
    assert any(bool(each.any()) for each in mine.parameters()), "something is learned"
    for weight, other in zip(mine.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(weight, other, atol=1e-5, rtol=1e-4)
    for search in ("beam", "certified", "exact"):
        settings_ = {"calibration": calibration, "search": search, "k": 3, "observed": "train"}
        adapted = Engine(graph, rules, adapter=trained[0].calibration, **settings_)
        expected = Engine(graph, whole_rows(rules), adapter=trained[0].calibration, **settings_)
        for question in questions(adapted, 1):
            same(adapted.ask(question, top=5), expected.ask(question, top=5))


def test_an_adapter_over_rules_is_validated_and_compared() -> None:
    graph, rules, _ = world(3)
    chosen = AdaptSettings(
        steps=4, batch=8, validate_every=2, validate_queries=10, calibration="sigmoid",
        condition="p", observed=(), shapes=("2i",), held_out=False,
    )  # fmt: skip
    result = adapt(graph, rules, training_queries(graph, chosen, count=30), chosen)
    assert [each["step"] for each in result.trace] == [0, 2, 4]


def test_missing_facts_are_those_over_whole_rows() -> None:
    mine, whole = engines(3, observed="train")
    found, expected = (list(Completion(each, min_score=0.05)) for each in (mine, whole))
    assert [each[:3] for each in found] == [each[:3] for each in expected]
    assert found, "rules predict something"
    assert [each.score for each in found] == pytest.approx([e.score for e in expected], abs=1e-6)


def test_figures_are_those_over_whole_rows_and_ties_share_a_rank() -> None:
    mine, whole = engines(4, observed="train")
    queries = {"1p": one_hop_queries(mine.graph)}
    found, expected = (evaluate_engine(each, queries, EvaluateSettings()) for each in (mine, whole))
    assert found.mrr == pytest.approx(expected.mrr, abs=1e-9)
    nothing = RuleScorer(RuleSet.of([]), mine.graph.index("train"), mine.graph.num_entities)
    engine = Engine(mine.graph, nothing, calibration="sigmoid", observed="none", loops=True)
    alone = queries["1p"].subset(np.flatnonzero(queries["1p"].hard.counts == 1)[:1])
    others = engine.graph.num_entities - int(alone.easy.counts[0]) - 1
    (mrr,) = evaluate_engine(engine, {"1p": alone}, EvaluateSettings()).mrr.values()
    assert mrr == pytest.approx(1 / (1 + others / 2)), "the mean over all orders of equal scores"


def asked(engine: Engine) -> list[list[tuple[str, float]]]:
    return [
        [(each.entity, each.score) for each in answers]
        for answers in engine.ask_many(questions(engine, 2), top=5)
    ]


def test_engines_are_pickled_forked_and_shared_by_threads() -> None:
    mine, _ = engines(1, observed="train")
    expected = asked(mine)
    assert asked(pickle.loads(pickle.dumps(mine))) == expected
    with ThreadPoolExecutor(4) as pool:
        assert all(each == expected for each in pool.map(asked, [mine] * 8))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(asked, (mine,)) == expected


def in_shares(rank: int, world_size: int) -> list[Any]:
    """What one of the processes that share the entities out answers."""
    graph, rules, _ = world(2)
    shards = Shards.joined(graph.num_entities) if world_size > 1 else None
    shared = replace(rules, shards=shards)
    found = []
    for changes in (
        {"search": "beam", "logic": "product"},
        {"search": "exact", "logic": "godel"},
        {"search": "beam", "calibration": "softmax-count"},
    ):
        engine = Engine(
            graph, shared, **{"calibration": "sigmoid", "k": 3, "observed": "train"} | changes
        )
        found.append(asked(engine))
    return found


def test_processes_may_share_the_entities_out(tmp_path: Path) -> None:
    alone = in_shares(0, 1)
    for found in on_ranks(2, tmp_path, in_shares):
        for mine, expected in zip(found, alone, strict=True):
            for answers, others in zip(mine, expected, strict=True):
                assert [each[0] for each in answers] == [each[0] for each in others]
                assert [each[1] for each in answers] == pytest.approx(
                    [each[1] for each in others], abs=1e-6
                )
