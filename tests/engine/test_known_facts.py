"""An engine knows only the facts of its observed splits, at their score."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from tables import FactorScorer, TableScorer
from tacit.adapt.adapter import Adapter
from tacit.adapt.calibrated import Adapted
from tacit.cli import app
from tacit.engine.atoms.calibration import calibration
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.engine import Engine
from tacit.engine.settings import EngineSettings
from tacit.errors import SettingsError
from tacit.graph.graph import Graph

GRAPH = Graph.of(
    [("a", "r", "b")], valid=[("a", "r", "c")], test=[("a", "r", "d"), ("a", "r", "e")]
)


def scorer(best: float = 0.9) -> FactorScorer:
    table = torch.full((5, 5), 0.1, dtype=torch.float64)
    table[0, 4] = best
    return FactorScorer([table.numpy()])


def test_an_adapted_engine_counts_the_facts_it_observes_and_no_others() -> None:
    everything = KnownFacts(GRAPH.index())
    adapted = Adapted(calibration("softmax-count", everything), Adapter(scorer()).eval())
    whole = Engine(GRAPH, scorer(), calibration="softmax-count", adapter=adapted)
    for observed in ("train", "train+valid", "none"):
        fresh = Engine(GRAPH, scorer(), calibration="softmax-count", observed=observed)
        expected = [(a.entity, pytest.approx(a.score)) for a in fresh.ask("?x : r(a, ?x)")]
        assert [
            (a.entity, a.score) for a in whole.with_settings(observed=observed).ask("?x : r(a, ?x)")
        ] == expected


def test_known_facts_come_before_every_prediction() -> None:
    """A prediction of 0.9999 ranks below a fact at 0.999; both keep their order."""
    for search in ("exact", "beam"):
        engine = Engine(
            GRAPH, scorer(0.9999), calibration="sigmoid", observed="train", search=search
        )
        answers = engine.explain("?x : r(a, ?x)", top=2)
        assert answers.entities == ["b", "e"]
        assert answers[0].score == pytest.approx(1 - 2**-10)
        assert answers[1].score == pytest.approx(0.9999 * (1 - 2**-10))
        assert answers.certified


def test_what_three_known_facts_imply_comes_before_a_surer_prediction() -> None:
    graph = Graph.of([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d"), ("a", "q", "e")])
    table = np.full((5, 5), 0.01)
    table[0, 2] = 0.99999
    engine = Engine(graph, FactorScorer([table, table]), calibration="sigmoid", observed_score=0.9)
    answers = engine.explain(
        "?x : exists ?y, ?z . r(a, ?y) & r(?y, ?z) & r(?z, ?x) | q(a, ?x)", top=3
    )
    assert answers.entities[:2] == ["e", "d"]  # known at 0.9 and at 0.9³
    assert answers.entities[2] == "c"
    assert answers[2].score > answers[1].score
    assert answers.certified


def test_a_beam_loses_nothing_that_is_known() -> None:
    """A beam keeps one of five known paths, and the ends of the other four are known too."""
    facts = [("a", "r", f"m{i}") for i in range(5)] + [(f"m{i}", "q", f"t{i}") for i in range(5)]
    graph = Graph.of(facts)
    table = np.full((graph.num_entities, graph.num_entities), 0.01)
    engine = Engine(graph, FactorScorer([table, table]), calibration="sigmoid", k=1)
    answers = engine.explain("?x : r(a, ?y) & q(?y, ?x)", top=6)
    assert set(answers.entities[:5]) == {f"t{i}" for i in range(5)}
    assert [a.known for a in answers] == [True] * 5 + [False]
    assert [a.score for a in answers[:5]] == pytest.approx([(1 - 2**-10) ** 2] * 5)


def test_scores_that_round_to_the_same_keep_the_order_of_the_predictor() -> None:
    logits = torch.full((5, 5), -200.0)
    logits[0, 1], logits[0, 3], logits[0, 2] = 150.0, 151.0, 152.0
    table = TableScorer([torch.full((5, 5), 0.5, dtype=torch.float64).numpy()])
    table._logits = torch.stack([logits, logits.T])
    engine = Engine(GRAPH, table, calibration="sigmoid", observed="none")
    assert engine.ask("?x : r(a, ?x)", top=3).entities == ["c", "d", "b"]


def test_a_predictor_of_other_relations_is_refused() -> None:
    with pytest.raises(SettingsError, match="4 relation ids"):
        Engine(GRAPH, FactorScorer([torch.full((5, 5), 0.5).double().numpy()] * 2))


def test_a_plan_is_counted_for_the_candidates_that_an_engine_keeps() -> None:
    printed = CliRunner().invoke(app, ["plan", "?x : r(a, ?y) & r(?y, ?x)"]).output
    assert printed.endswith(f"at k = {EngineSettings().k}\n")
