from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import Tensor

from scaffold import read_results
from tables import FactorScorer
from tacit.adapt.adapter import Adapter
from tacit.adapt.calibrated import Adapted
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import Sigmoid
from tacit.engine.engine import Engine
from tacit.engine.logic import Logic
from tacit.engine.ranking import batch_size, hard_ranks, mean_reciprocal_ranks
from tacit.engine.reasoner import Reasoner
from tacit.engine.search.message_reasoner import MessageReasoner
from tacit.errors import DataError, SettingsError, TrainingError
from tacit.evaluate.evaluation import evaluate_engine, queries_of
from tacit.evaluate.protocol import evaluate, measure, one_hop_queries
from tacit.evaluate.results import average
from tacit.evaluate.settings import EvaluateSettings
from tacit.fitting.progress import Event
from tacit.graph.graph import Graph
from tacit.links.models import make_model
from tacit.links.scorer import GraphScorer
from tacit.query.plans.plan import Plan
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.shapes import NEGATIVE, POSITIVE, SHAPES


class Fixed(Reasoner):
    """A reasoner that gives every query the row of its first entity."""

    def __init__(self, rows: list[list[float]]) -> None:
        self.rows = torch.tensor(rows)
        self.num_entities = self.rows.shape[1]
        self.batches: list[list[list[int]]] = []

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        assert entities.shape[1] == plan.num_entities
        assert relations.shape[1] == plan.num_relations
        self.batches.append(relations.tolist())
        return self.rows[entities[:, 0]]

    scores = ranking


def query_set(
    name: str, easy: list[set[int]], hard: list[set[int]], relations: list[int] | None = None
) -> QuerySet:
    """Query `q` starts at entity `q`; its other slots hold zeros."""
    shape = SHAPES[name]
    size = len(hard)
    entities = np.zeros((size, shape.num_entities), dtype=np.int32)
    entities[:, 0] = np.arange(size)
    ids = np.zeros((size, shape.num_relations), dtype=np.int32)
    ids[:, -1] = relations or 0
    return QuerySet(shape, entities, ids, AnswerSets.of(easy), AnswerSets.of(hard))


ROWS = [
    [5.0, 4.0, 3.0, 2.0],  # easy {0}, hard {1, 3}: ranks 1 and 2 (entity 2 is better than 3)
    [1.0, 1.0, 1.0, 0.0],  # easy {}, hard {0}: two ties: 1, 2 or 3
    [0.0, 1.0, 2.0, 3.0],  # easy {3}, hard {0}: rank 3
]
QUERIES = query_set("2p", [{0}, set(), {3}], [{1, 3}, {0}, {0}], relations=[4, 0, 2])


@pytest.mark.parametrize(
    ("ties", "tied"), [("realistic", 2), ("optimistic", 1), ("pessimistic", 3)]
)
def test_mrr_and_hits_by_hand(ties: str, tied: int) -> None:
    results = evaluate(Fixed(ROWS), {"2p": QUERIES}, EvaluateSettings(ties=ties))
    assert results.mrr["2p"] == pytest.approx(((1 + 1 / 2) / 2 + 1 / tied + 1 / 3) / 3)
    assert results.metric("hits@1")["2p"] == pytest.approx((1 / 2 + (tied == 1) + 0) / 3)
    assert results.metric("hits@3")["2p"] == 1.0


def test_figures_stay_in_the_order_of_the_queries_while_batches_follow_the_last_relation() -> None:
    reasoner = Fixed(ROWS)
    figures = measure(reasoner, QUERIES, EvaluateSettings(batch=1))
    assert figures.by_query["mrr"].tolist() == pytest.approx([0.75, 0.5, 1 / 3])
    assert [batch[0][-1] for batch in reasoner.batches] == [0, 2, 4]
    assert figures.grouped(QUERIES.relations[QUERIES.hard.rows, -1])[4] == {
        "mrr": pytest.approx(0.75), "hits@1": 0.5, "hits@3": 1.0, "hits@10": 1.0, "queries": 1,
        "answers": 2
    }  # fmt: skip


def test_scores_that_are_no_numbers_are_told_before_the_next_batch() -> None:
    reasoner = Fixed([ROWS[0], [1.0, np.nan, 1.0, 0.0], ROWS[2]])  # which is first, by its relation
    with pytest.raises(TrainingError, match="some scores are not numbers"):
        measure(reasoner, QUERIES, EvaluateSettings(batch=1))
    assert len(reasoner.batches) == 1


def test_json_has_the_documented_form(tmp_path) -> None:
    results = evaluate(Fixed(ROWS), {"2p": QUERIES}, settings={"k": 64})
    written = tmp_path / "results.json"
    written.write_text(json.dumps(results.to_json()))
    read = read_results(written)
    seconds = read.pop("seconds")
    means = read["means"]
    assert set(seconds) == {"2p"}
    assert seconds["2p"] > 0
    metrics = {
        "mrr": {"2p": pytest.approx((0.75 + 0.5 + 1 / 3) / 3)},
        "hits@1": {"2p": pytest.approx(0.5 / 3)},
        "hits@3": {"2p": 1.0},
        "hits@10": {"2p": 1.0},
    }
    assert read == {
        **metrics,
        "avg_p": None,
        "avg_n": None,
        "queries": {"2p": 3},
        "answers": {"2p": 4},
        "ties": "realistic",
        "mean": "question",
        "means": {"question": metrics, "fact": means["fact"]},
        "settings": {
            "k": 64,
            "ties": "realistic",
            "mean": "question",
            "filtered": "easy and hard answers",
        },
    }


def test_a_question_with_two_answers_counts_once_or_twice() -> None:
    # Ranks 1 and 2 of one query, 2 of another, 3 of the third.
    per_question, per_fact = (
        evaluate(Fixed(ROWS), {"2p": QUERIES}, EvaluateSettings(mean=mean))
        for mean in ("question", "fact")
    )
    assert per_question.mrr["2p"] == pytest.approx((0.75 + 1 / 2 + 1 / 3) / 3)
    assert per_fact.mrr["2p"] == pytest.approx((1 + 1 / 2 + 1 / 2 + 1 / 3) / 4)
    assert per_fact.metric("hits@1")["2p"] == pytest.approx(1 / 4)
    by_name = per_fact.figures["2p"].grouped(np.array([0, 0, 1])[QUERIES.hard.rows], "fact")
    assert by_name[0]["mrr"] == pytest.approx((1 + 1 / 2 + 1 / 2) / 3)


def test_relations_are_told_apart_by_the_mean_of_all() -> None:
    graph = Graph.of([("a", "s", "b")], test=[("a", "r", "a"), ("a", "r", "b"), ("b", "r", "c")])
    # Ranks among what is no answer: a and b of `r(a, ?)` 1 and 2, c of `r(b, ?)` 3.
    scorer = FactorScorer(
        [np.full((3, 3), 0.5), np.array([[0.9, 0.2, 0.4], [0.7, 0.6, 0.5], [0.5, 0.5, 0.5]])]
    )
    engine = Engine(graph, scorer, calibration="sigmoid", observed="none", loops=True)
    both = {
        mean: evaluate_engine(
            engine, {"1p": one_hop_queries(graph)}, EvaluateSettings(mean=mean, per_relation=True)
        )
        for mean in ("question", "fact")
    }
    found = {mean: each.relations["r"]["mrr"] for mean, each in both.items() if each.relations}
    assert found["question"] == pytest.approx(((1 + 1 / 2) / 2 + 1 / 3) / 2)
    assert found["fact"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


def test_results_carry_both_means_and_name_theirs() -> None:
    written = evaluate(Fixed(ROWS), {"2p": QUERIES}, EvaluateSettings(mean="fact")).to_json()
    assert written["mean"] == written["settings"]["mean"] == "fact"
    assert written["mrr"] == written["means"]["fact"]["mrr"]
    assert written["means"]["question"]["mrr"]["2p"] == pytest.approx((0.75 + 1 / 2 + 1 / 3) / 3)
    assert (written["queries"], written["answers"]) == ({"2p": 3}, {"2p": 4})
    with pytest.raises(SettingsError, match="mean is 'median'; it must be one of question, fact"):
        EvaluateSettings(mean="median")


def test_a_reasoner_may_have_one_row_for_all_queries() -> None:
    class Same(Fixed):
        """Every query has the first row, in the same memory."""

        def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
            return self.rows[0].expand(len(relations), -1)

        scores = ranking

    queries = query_set("1p", [{3}, set(), set()], [{0}, {1}, {2}])
    same = hard_ranks(Same([[4.0, 3.0, 2.0, 5.0]]), queries)
    apart = hard_ranks(Fixed([[4.0, 3.0, 2.0, 5.0]] * 3), queries)
    # what is filtered for one of them is not for others
    assert same.tolist() == apart.tolist() == [1.0, 3.0, 4.0]


@pytest.mark.parametrize("search", ["beam", "continuous", "symbolic"])
def test_results_record_the_calibration_really_used(search: str) -> None:
    graph = Graph.of([("a", "r", "b"), ("b", "r", "c")], test=[("a", "r", "c")])
    model = make_model("complex", graph.num_entities, graph.num_relations, 2).requires_grad_(False)
    adapted = Adapted(Sigmoid(), Adapter(model).requires_grad_(False))
    engine = Engine(graph, model, adapter=adapted, calibration="sigmoid", search=search, steps=1)
    settings = evaluate(
        engine.reasoner, {"1p": one_hop_queries(graph)}, EvaluateSettings(limit=1), engine.config
    ).settings
    used = ("none", False) if search == "symbolic" else ("sigmoid", True)
    assert (settings["calibration"], settings["adapted"]) == used
    assert (settings["search"], settings["observed"], settings["limit"]) == (
        search,
        "train+valid+test",
        1,
    )


def test_averages_need_all_their_shapes() -> None:
    sets = {name: query_set(name, [set()], [{0}]) for name in POSITIVE}
    row = [[1.0, 2.0]]  # rank 2 everywhere
    results = evaluate(Fixed(row), sets)
    assert results.average("avg_p") == 0.5
    assert results.average("avg_n") is None
    both = evaluate(Fixed(row), sets | {name: query_set(name, [set()], [{1}]) for name in NEGATIVE})
    assert (both.average("avg_p"), both.average("avg_n")) == (0.5, 1.0)
    assert average({}, ("1p",)) is None


def test_queries_without_hard_answers_are_left_out() -> None:
    queries = query_set("1p", [{0}, set()], [set(), {0}])
    assert evaluate(Fixed(ROWS), {"1p": queries}).to_json()["queries"] == {"1p": 1}
    with pytest.raises(DataError, match="2 1p queries have no hard answers"):
        evaluate(Fixed(ROWS), {"1p": query_set("1p", [{0}, {1}], [set(), set()])})


@pytest.mark.parametrize(
    ("easy", "hard", "relation", "ids"),
    [
        ([{0}], [{1}], 2, "relation 2"),
        ([{0}], [{1}], -1, "relation -1"),  # which arrays would take for the last one
        ([{2}], [{1}], 0, "entity 2"),
        ([{0}], [{7}], 0, "entity 7"),
        ([{0}] * 3, [{1}] * 3, 0, "entity 2"),
    ],
)
def test_queries_of_ids_that_the_graph_does_not_have_are_refused(
    easy, hard, relation: int, ids: str
) -> None:
    graph = Graph.of([("a", "r", "b")])
    fitting = {"1p": query_set("1p", [{0}], [{1}], [1])}
    assert queries_of(graph, fitting, "test", None) == fitting
    with pytest.raises(DataError, match=f"the 1p queries speak of {ids}, but graph has 0 to 1"):
        queries_of(graph, {"1p": query_set("1p", easy, hard, [relation] * len(hard))}, "test", None)


@pytest.mark.parametrize("number", [0, -1])
def test_a_limit_and_a_batch_are_at_least_one(number: int) -> None:
    """A limit of -1 would drop a query, and a batch of -1 rank nothing: an MRR of 1 / 0."""
    for name in ("limit", "batch"):
        with pytest.raises(SettingsError, match=f"{name} is {number}; it must be at least 1"):
            EvaluateSettings(**{name: number})


def test_shapes_that_were_not_given_are_named() -> None:
    graph = Graph.of([("a", "r", "b")])
    queries = {"1p": query_set("1p", [{0}], [{1}], [1])}
    with pytest.raises(DataError, match="there are no 2p to evaluate among those given: 1p"):
        queries_of(graph, queries, "test", "1p,2p")
    with pytest.raises(DataError, match="there are no queries to evaluate among those given: none"):
        queries_of(graph, {}, "test", None)


def test_a_limit_takes_the_same_sample_every_time() -> None:
    queries = query_set("1p", [set()] * 40, [{q % 4} for q in range(40)])
    rows = np.random.default_rng(0).normal(size=(40, 4)).tolist()
    first, second = (
        evaluate(Fixed(rows), {"1p": queries}, EvaluateSettings(limit=7)) for _ in range(2)
    )
    assert len(first.figures["1p"]) == 7
    assert first.mrr == second.mrr


def test_progress_is_told_after_every_batch() -> None:
    seen: list[Event] = []
    evaluate(Fixed(ROWS), {"2p": QUERIES}, EvaluateSettings(batch=2), progress=seen.append)
    assert [(event.what, event.where, event.done, event.total) for event in seen] == [
        ("count", "2p", 2, 3),
        ("count", "2p", 3, 3),
    ]


@pytest.mark.parametrize("batch", [1, 2, None])
def test_ranks_stand_in_the_order_of_the_answers_whatever_the_batches(batch: int | None) -> None:
    assert hard_ranks(Fixed(ROWS), QUERIES, batch=batch).tolist() == [1.0, 2.0, 2.0, 3.0]
    assert (
        mean_reciprocal_ranks(Fixed(ROWS), {"2p": QUERIES})
        == evaluate(Fixed(ROWS), {"2p": QUERIES}).mrr
    )


def test_batches_are_as_large_as_the_memory_of_a_reasoner() -> None:
    scorer = GraphScorer(Graph.of([("a", "r", "b")]).index(), 2)
    plan = SHAPES["1p"].plan
    # five rows of two floats
    for gigabytes, expected in ((1e-9, 1), (1e-6, 1000 // (2 * 5 * 4 * 2)), (1.0, 512)):
        reasoner = MessageReasoner(Atoms(scorer, Sigmoid()), Logic("product"), memory=gigabytes)
        assert batch_size(reasoner, plan) == expected
    assert batch_size(Fixed(ROWS), plan) == 256


def test_one_hop_queries_ask_both_directions_and_filter_the_parts_before() -> None:
    graph = Graph.of(
        [("a", "r", "b"), ("a", "r", "c")],
        valid=[("a", "r", "d")],
        test=[("a", "r", "e"), ("a", "r", "b")],
    )
    queries = one_hop_queries(graph, "test")
    ids = {name: graph.entities.id(name) for name in "abcde"}
    questions = {
        (int(queries.entities[q, 0]), int(queries.relations[q, 0])): (
            set(queries.easy[q]),
            set(queries.hard[q]),
        )
        for q in range(len(queries))
    }
    assert questions == {  # (a, r, b) is a training fact too: known, so nothing is asked about it
        (ids["a"], 0): ({ids["b"], ids["c"], ids["d"]}, {ids["e"]}),
        (ids["e"], 1): (set(), {ids["a"]}),
    }
    training = one_hop_queries(graph, "train")
    assert len(training.easy.ids) == 0
    assert len(training.hard.ids) == 4
    assert queries.shape.name == "1p"


def test_files_that_hold_no_results_are_named(tmp_path) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"mrr": 3}')
    with pytest.raises(DataError, match="holds no results; write those of an evaluation"):
        read_results(path)
    path.write_text("{")
    with pytest.raises(DataError, match="is not JSON"):
        read_results(path)
    with pytest.raises(DataError, match="No such file"):
        read_results(tmp_path / "none.json")


def test_answers_by_a_key_are_evaluations_of_their_own() -> None:
    """Ranks 1 and 2, 2 (two ties), and 3 of three queries, missing 1, 2, 1 and 2 links."""
    figures = measure(Fixed(ROWS), QUERIES)
    links = np.array([1, 2, 1, 2])
    by_links = figures.grouped(links)
    assert by_links[1] == {
        "mrr": pytest.approx((1 + 1 / 2) / 2), "hits@1": 0.5, "hits@3": 1.0, "hits@10": 1.0,
        "queries": 2, "answers": 2
    }  # fmt: skip
    assert by_links[2]["mrr"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    links[1] = 1
    per_question, per_fact = (
        figures.grouped(links, mean)[1]["mrr"] for mean in ("question", "fact")
    )
    assert per_question == pytest.approx((0.75 + 1 / 2) / 2)
    assert per_fact == pytest.approx((1 + 1 / 2 + 1 / 2) / 3)
