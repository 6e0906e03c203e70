"""Continuous search at its edges: penalties, adapters that read entities, reliability."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tacit.adapt.adapter import Adapter
from tacit.adapt.calibrated import Adapted
from tacit.engine.atoms.calibration import Sigmoid
from tacit.engine.engine import Engine
from tacit.engine.search.continuous import penalty
from tacit.errors import SettingsError
from tacit.evaluate.reliability import reliability
from tacit.graph.graph import Graph
from tacit.links.factors import FactorModel
from tacit.links.models import make_model
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.shapes import SHAPES

GRAPH = Graph.of([("a", "r", "b"), ("b", "s", "c"), ("a", "s", "c")], test=[("b", "r", "c")])
TWO_HOPS = "?x : exists ?v . r(a, ?v) & s(?v, ?x)"


def model(name: str = "complex", rank: int = 3) -> FactorModel:
    made = make_model(name, GRAPH.num_entities, GRAPH.num_relations, rank)
    made.reset(1.0, torch.Generator().manual_seed(0))
    return made.requires_grad_(False)


def engine(scorer: FactorModel, **changes: Any) -> Engine:
    options = {
        "search": "continuous",
        "calibration": "sigmoid",
        "observed": "none",
        "steps": 20,
    } | changes
    return Engine(GRAPH, scorer, **options)


def test_the_penalty_is_of_the_numbers_that_the_model_multiplies() -> None:
    vectors = torch.tensor([[3.0, 4.0]])
    assert penalty(model("complex", 1), vectors).item() == pytest.approx(125)  # |3 + 4i|³
    assert penalty(model("distmult", 2), vectors).item() == pytest.approx(27 + 64)  # |3|³ + |4|³


@pytest.mark.parametrize("name", ["complex", "distmult", "cp"])
def test_vectors_of_odd_rank_can_be_penalised(name: str) -> None:
    assert len(engine(model(name, 3), vector_reg=0.1).ask(TWO_HOPS)) == 3


@pytest.mark.parametrize("condition", ["sp", "spo"])
def test_an_adapter_that_reads_entities_is_refused(condition: str) -> None:
    scorer = model()
    adapted = Adapted(Sigmoid(), Adapter(scorer, condition).requires_grad_(False).eval())
    asking = Engine(
        GRAPH, scorer, adapter=adapted, search="continuous", calibration="sigmoid", observed="none"
    )
    with pytest.raises(SettingsError, match="adapter on p"):
        asking.ask(TWO_HOPS)


def test_an_adapter_on_the_relation_moves_the_scores() -> None:
    scorer = model()
    adapter = Adapter(scorer, "none").requires_grad_(False).eval()
    adapter.bias[1] = 2.0
    adapted = Engine(GRAPH, scorer, engine(scorer).settings, adapter=Adapted(Sigmoid(), adapter))
    assert adapted.ask("?x : r(a, ?x)")[0].score > engine(scorer).ask("?x : r(a, ?x)")[0].score
    assert len(adapted.ask(TWO_HOPS)) == 3


def test_its_reliability_can_be_measured() -> None:
    slots = np.array([[0]]), np.array([[0, 2]])
    two_hops = QuerySet(SHAPES["2p"], *slots, easy=AnswerSets.of([{0}]), hard=AnswerSets.of([{2}]))
    # three entities, less the easy answer
    assert len(reliability(engine(model()).reasoner, two_hops)) == 2


@pytest.mark.parametrize("ceiling", [None, 0.25])
def test_a_hop_is_worth_no_more_than_predictions_are(ceiling: float | None) -> None:
    """With the product, the vectors move alike, so two predicted atoms are worth the same."""
    # so few that none stops early
    question = "?x : exists ?v . r(c, ?v) & r(?v, ?x)"
    few = {"steps": 9}
    plain = engine(model(), **few).ask(question)
    capped = engine(model(), observed="train", observed_score=0.75, ceiling=ceiling, **few).ask(
        question
    )
    worth = (ceiling or 0.75) ** 2
    assert {a.entity: a.score for a in capped} == pytest.approx(
        {a.entity: worth * a.score for a in plain}, rel=1e-3
    )


@pytest.mark.parametrize(
    ("changes", "says"), [({"typed": True}, "no kind"), ({"logic": "lukasiewicz"}, "gradients")]
)
def test_what_vectors_cannot_heed_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        engine(model(), **changes).ask(TWO_HOPS)


@pytest.mark.parametrize(
    "changes", [{"steps": 150}, {"steps": 30, "vector_reg": 0.05, "logic": "godel"}]
)
def test_the_answers_to_a_question_do_not_depend_on_what_is_asked_beside_it(
    changes: dict[str, Any],
) -> None:
    asking = engine(model(), **changes)
    questions = [
        f"?x : exists ?v . {r}({e}, ?v) & {s}(?v, ?x)" for e, r, s in ("arr", "asr", "brs", "crr")
    ]
    for question, beside in zip(questions, asking.ask_many(questions), strict=True):
        with torch.inference_mode():
            alone = {answer.entity: answer.score for answer in asking.ask(question)}
        assert {answer.entity: answer.score for answer in beside} == pytest.approx(alone, rel=1e-4)
