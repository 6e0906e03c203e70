"""Queries drawn on the device: every one that counts is answered by its answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from encoder_runs import QUICK, grid
from tacit.encode.settings import TRAINED, EncodeSettings
from tacit.encode.training import slot_filling
from tacit.encode.training.draws import GivenQueries, OnlineQueries, counts
from tacit.encode.training.encoder_training import EncoderTraining
from tacit.encode.training.slot_filling import DeviceFacts
from tacit.errors import PlanError, TrainingError
from tacit.graph.datasets import load
from tacit.graph.fact_index import FactIndex
from tacit.graph.graph import Graph
from tacit.query.plans import plan as p
from tacit.query.plans.plan import Plan
from tacit.query.plans.sets import AnswerSets
from tacit.query.plans.symbolic import answers
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.shapes import SHAPES

CPU = torch.device("cpu")
ROWS = [p.Row(i, p.Relation(i, bool(i % 2))) for i in range(4)]
NESTED = Plan(
    p.Project(
        1,
        p.Intersect((p.Union((ROWS[1], ROWS[0])),
                     p.Complement(p.Intersect((ROWS[2], p.Complement(ROWS[3])))))),
        p.Relation(4, True),
    ),
    4, 5, 2,
)  # fmt: skip


@pytest.fixture(scope="module")
def graph() -> Graph:
    return load("world")


@pytest.fixture(scope="module")
def rows() -> Graph:
    return grid()


@pytest.fixture(scope="module")
def facts(graph: Graph) -> DeviceFacts:
    return DeviceFacts(graph.index("train"), graph.num_entities, CPU)


@pytest.mark.parametrize("name", [*SHAPES, "nested"])
def test_what_counts_is_answered(name: str, graph: Graph, facts: DeviceFacts) -> None:
    plan = NESTED if name == "nested" else SHAPES[name].plan
    torch.manual_seed(4)
    drawn = OnlineQueries(plan, 300, facts, 4)()
    counting = (drawn.weights > 0).numpy()
    assert counting.mean() > 0.15
    found = answers(
        plan,
        drawn.entities.numpy(),
        drawn.relations.numpy(),
        graph.index("train"),
        graph.num_entities,
    )
    several = []
    for row in np.flatnonzero(counting):
        assert set(drawn.answers[row].tolist()) <= set(found[row])
        several += [len(set(drawn.answers[row].tolist())) > 1] if len(found[row]) > 8 else []
    assert np.mean(several) > 0.5  # of queries with many answers


@pytest.mark.parametrize("name", ["2in", "pni"])
def test_negation_takes_something_away(name: str, graph: Graph, facts: DeviceFacts) -> None:
    """And not just anything: a walk from the answer itself would leave nothing to learn."""
    shape = SHAPES[name]
    torch.manual_seed(4)
    drawn = OnlineQueries(shape.plan, 200, facts)()
    slots = (
        drawn.entities.numpy(),
        drawn.relations.numpy(),
        graph.index("train"),
        graph.num_entities,
    )
    parts = shape.plan.root.parts
    positive = next(part for part in parts if not isinstance(part, p.Complement))
    without = answers(Plan(positive, 2, shape.num_relations, 2), *slots)
    fewer = without.counts > answers(shape.plan, *slots).counts
    assert fewer[(drawn.weights > 0).numpy()].all()


@pytest.mark.parametrize("name", ["2i", "3p", "pni", "inp"])
def test_ids_may_be_as_large_as_32_bits_allow(name: str, graph: Graph) -> None:
    """Facts spread over 2³¹ entities and 2¹² relations give the same queries, spread alike."""
    facts = graph.triples("train").astype(np.int64)
    few = graph.num_relations
    (apart, many), (between, wide) = (
        (2**31 // graph.num_entities, 2**31),
        (2**11 // (few // 2), 2**12),
    )
    spread = np.stack(
        [
            facts[:, 0] * apart,
            facts[:, 1] // 2 * 2 * between + facts[:, 1] % 2,
            facts[:, 2] * apart,
        ],
        1,
    )
    found = []
    for triples, entities, relations in ((facts, graph.num_entities, few), (spread, many, wide)):
        torch.manual_seed(4)
        found.append(
            OnlineQueries(
                SHAPES[name].plan, 100, DeviceFacts(FactIndex(triples, relations), entities, CPU)
            )()
        )
    narrow, far = found
    assert spread.max() > 2**30
    assert (narrow.weights > 0).any()
    assert torch.equal(narrow.weights, far.weights)
    assert torch.equal(narrow.entities * apart, far.entities)
    assert torch.equal(narrow.relations // 2 * 2 * between + narrow.relations % 2, far.relations)
    assert torch.equal(narrow.answers * apart, far.answers)


def test_chains_do_not_turn_back(facts: DeviceFacts) -> None:
    torch.manual_seed(0)
    relations = OnlineQueries(SHAPES["2p"].plan, 500, facts)().relations
    assert (relations[:, 1] != relations[:, 0] ^ 1).all()


def test_too_many_facts_to_look_through_do_not_count(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few facts read, pni is rejected more often, never accepted wrongly."""
    monkeypatch.setattr(slot_filling, "MOST_READ", 1)
    facts = DeviceFacts(graph.index("train"), graph.num_entities, CPU)
    test_what_counts_is_answered("pni", graph, facts)


def test_an_answer_without_a_way_does_not_count() -> None:
    facts = DeviceFacts(FactIndex(np.array([[0, 0, 1], [1, 1, 0]]), 2), 2, CPU)
    torch.manual_seed(0)
    assert (OnlineQueries(SHAPES["1p"].plan, 20, facts)().weights > 0).all()
    assert (
        OnlineQueries(SHAPES["2p"].plan, 20, facts)().weights == 0
    ).all()  # the only way goes back
    with pytest.raises(TrainingError, match="no train facts"):
        DeviceFacts(FactIndex(np.empty((0, 3), dtype=np.int64), 2), 2, CPU)


def test_what_cannot_be_drawn_is_said() -> None:
    facts = DeviceFacts(FactIndex(np.array([[0, 0, 1], [1, 1, 0]]), 2), 2, CPU)
    with pytest.raises(PlanError, match="Loop"):
        OnlineQueries(Plan(p.Loop(0), 0, 1, 1), 2, facts)()


def test_given_queries_with_answers_drawn_evenly() -> None:
    """Each query with answers is drawn half of the time, and its answers equally often."""
    entities = np.array([[5], [6], [7]], np.int32)
    relations = np.array([[0], [1], [2]], np.int32)
    hard = AnswerSets.of([{1, 2, 3}, set(), {9}])
    queries = GivenQueries(
        QuerySet(SHAPES["1p"], entities, relations, AnswerSets.none(3), hard), 2000, CPU, 3
    )
    torch.manual_seed(0)
    drawn = queries()
    assert drawn.answers.shape == (2000, 3)
    slots = torch.cat((drawn.entities, drawn.relations), 1).repeat_interleave(3, 0)
    seen = torch.cat((slots, drawn.answers.view(-1, 1)), 1)
    rows, number = seen.unique(dim=0, return_counts=True)
    assert rows.tolist() == [[5, 0, 1], [5, 0, 2], [5, 0, 3], [7, 2, 9]]
    assert (number / 6000).tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2], abs=0.03)
    assert drawn.weights[drawn.answers[:, 0] == 9][0] == pytest.approx(5**-0.5)
    assert drawn.weights[drawn.answers[:, 0] == 1][0] == pytest.approx(7**-0.5)


def test_the_mix_of_a_batch() -> None:
    plans = {name: SHAPES[name].plan for name in TRAINED}
    sizes = counts(plans, 3000)
    assert sum(sizes.values()) == 3000
    assert sum(sizes[name] for name in ("1p", "2p", "3p")) == pytest.approx(2000, abs=1)
    assert sum(sizes[name] for name in ("2in", "3in", "inp", "pin", "pni")) == pytest.approx(
        200, abs=1
    )
    assert min(counts(plans, 4).values()) == 1
    assert counts({"2i": plans["2i"]}, 7) == {"2i": 7}


def test_the_share_of_negation_may_be_anything() -> None:
    plans = {name: SHAPES[name].plan for name in ("1p", "2i", "2in")}
    assert counts(plans, 300, 0.3) == {"1p": 200, "2i": 70, "2in": 30}
    assert counts(plans, 300, 0.0) == {"1p": 200, "2i": 100, "2in": 1}
    assert counts(plans, 300, 1.0) == {"1p": 200, "2i": 1, "2in": 100}
    assert counts({"2in": plans["2in"]}, 7, 0.0) == {"2in": 7}
    assert counts({"2i": plans["2i"]}, 7, 1.0) == {"2i": 7}


def test_a_step_has_as_many_answers_as_are_set(rows: Graph) -> None:
    training = EncoderTraining(
        rows, EncodeSettings("gqe", **QUICK, answers=3).with_derived(rows.num_entities), valid={}
    )
    training.step(0)
    assert {drawn.answers.shape[1] for drawn in training.batches.queries()} == {3}


def test_likely_negatives_answer_other_queries_and_the_rest_is_anything(rows: Graph) -> None:
    settings = EncodeSettings(
        "gqe", **QUICK | {"negatives": 20}, likely=0.75, loss="softmax"
    ).with_derived(30)
    training = EncoderTraining(rows, settings, valid={})
    answers = torch.tensor([4, 4, 9])
    drawn = torch.stack([training.batches.negatives(answers) for _ in range(60)])
    assert set(drawn[:, :15].flatten().tolist()) == {4, 9}
    assert set(drawn[:, 15:].flatten().tolist()) == set(range(30))
    every = EncoderTraining(rows, settings.changed(negatives=30), valid={})
    assert every.batches.negatives(answers).tolist() == list(range(30))


def test_what_is_drawn_stands_for_all_entities_in_a_softmax(rows: Graph) -> None:
    """The importance-weighted sum over negatives has the mean of that over all entities."""
    settings = EncodeSettings(
        "gqe", **QUICK | {"negatives": 12}, likely=0.5, loss="softmax"
    ).with_derived(30)
    training = EncoderTraining(rows, settings, valid={})
    seen: dict[str, torch.Tensor] = {}

    def loss(batch: object, negatives: torch.Tensor, often: torch.Tensor) -> torch.Tensor:
        seen.update(negatives=negatives, often=often)
        return training.module.entities.sum()

    training.module.loss = loss  # type: ignore[method-assign,assignment]
    training.step(0)
    facts = rows.train
    ends = [0.0] * 30
    for head, _, tail in facts.tolist():
        ends[head] += 0.5 / len(facts)
        ends[tail] += 0.5 / len(facts)
    expected = [12 * (0.5 / 30 + 0.5 * ends[entity]) for entity in seen["negatives"].tolist()]
    assert seen["often"].exp().tolist() == pytest.approx(expected, rel=1e-5)
    worth = torch.rand(30, generator=torch.Generator().manual_seed(0))
    drawn = torch.Generator().manual_seed(1)
    answers = torch.tensor([end for head, _, tail in facts.tolist() for end in (head, tail)])
    log_frequencies = training.batches.log_frequencies
    assert log_frequencies is not None
    sums = []
    for _ in range(4000):
        some = training.batches.negatives(
            answers[torch.randint(len(answers), (16,), generator=drawn)]
        )
        sums.append(float((worth[some] / log_frequencies[some].exp()).sum()))
    assert np.mean(sums) == pytest.approx(float(worth.sum()), rel=0.02)
    by_margin = EncoderTraining(rows, settings.changed(loss="margin"), valid={})
    assert by_margin.batches.log_frequencies is None


@pytest.mark.parametrize("likely", [0.04, 0.5, 1.0])
def test_answers_of_given_queries_count_as_often_as_they_are_drawn(
    likely: float, rows: Graph
) -> None:
    """Half of the batch is stored queries, drawn by their 4 and 2 answers, half are facts."""
    ids = np.array([[0], [1]], np.int32)
    hard = AnswerSets.of([{4}, {4, 9, 29}])
    queries = QuerySet(SHAPES["1p"], ids, ids, AnswerSets.none(2), hard)
    settings = EncodeSettings(
        "gqe", **QUICK | {"negatives": 12}, likely=likely, loss="softmax", shapes="1p,2p"
    )
    training = EncoderTraining(rows, settings.with_derived(30), {"1p": queries}, valid={})
    often = training.batches.log_frequencies
    shares = [0.0] * 30
    for entity, share in ((4, 2 / 3), (9, 1 / 6), (29, 1 / 6)):
        shares[entity] += share / 2
    for head, _, tail in rows.train.tolist():
        shares[head] += 1 / 4 / len(rows.train)
        shares[tail] += 1 / 4 / len(rows.train)
    many = round(12 * likely)
    expected = [(12 - many) / 30 + many * share for share in shares]
    assert (often is None) == (many == 0)
    assert often is None or often.exp().tolist() == pytest.approx(expected, rel=1e-5)
