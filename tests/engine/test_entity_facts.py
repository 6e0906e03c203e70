"""The facts about one entity, against the list of all facts and against questions of one atom."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tables import TableScorer
from tacit.engine.engine import Engine
from tacit.engine.entity_facts import EntityFacts, known_facts, predicted_facts
from tacit.errors import SettingsError, UnknownName
from tacit.graph.graph import Graph

NAMES = [f"e{i}" for i in range(9)]
FACTS = {
    ("e1", "r0", "e1"),
    *((f"e{i % 9}", f"r{i % 10}", f"e{(5 * i + 3 + i // 9) % 9}") for i in range(40)),
}
GRAPH = Graph.of(sorted(FACTS)).named({"e1": ["zebra"], "e2": ["Apple"], "r1": ["eats"]})


@pytest.fixture(scope="module")
def engine() -> Engine:
    """Scores without any symmetry: each direction of each relation has a table of its own."""
    scorer = TableScorer([np.full((9, 9), 0.5)] * 10)
    scorer._logits = torch.randn(20, 9, 9, generator=torch.Generator().manual_seed(3)) * 2.0
    return Engine(GRAPH, scorer)


def listed(facts: EntityFacts) -> dict[tuple[str, str], float]:
    """Map directed relation and entity of every fact to its score, and check that none repeats."""
    rows = [
        ((each.relation, fact.entity), fact.score)
        for each in facts.relations
        for fact in each.facts
    ]
    assert len(dict(rows)) == len(rows)
    return dict(rows)


@pytest.mark.parametrize("label", NAMES)
def test_every_known_fact_comes_once_in_its_direction(engine: Engine, label: str) -> None:
    ahead = {(r, o) for s, r, o in FACTS if s == label}
    back = {(f"{r}^-1", s) for s, r, o in FACTS if o == label != s}
    facts = known_facts(engine, label)
    assert set(listed(facts)) == ahead | back
    assert all(each.count == len(each.facts) > 0 for each in facts.relations)
    assert [each.inverse for each in facts.relations] == sorted(
        each.relation.endswith("^-1") for each in facts.relations
    )
    for each in facts.relations:
        shown = [fact.name.casefold() for fact in each.facts]
        assert shown == sorted(shown)
        only = known_facts(engine, label, each.relation)
        assert only.relations == (each,)


def test_names_stand_beside_labels(engine: Engine) -> None:
    facts = known_facts(engine, "zebra")
    assert (facts.entity, facts.name) == ("e1", "zebra")
    assert {each.name for each in facts.relations if each.relation.startswith("r1")} == {"eats"}
    with pytest.raises(UnknownName):
        known_facts(engine, "zebras")


@pytest.mark.parametrize("label", ["e1", "e4"])
def test_predictions_are_what_both_ends_of_a_missing_fact_say(engine: Engine, label: str) -> None:
    def answers(question: str) -> dict[str, float]:
        return {answer.entity: answer.score for answer in engine.ask(question, top=9)}

    expected = {}
    for relation in GRAPH.relations.labels:
        stored = relation.removesuffix("^-1")
        back = relation.endswith("^-1")
        for other, score in answers(f"?o : {relation}({label}, ?o)").items():
            fact = (other, stored, label) if back else (label, stored, other)
            mean = math.sqrt(score * answers(f"?s : {relation}(?s, {other})").get(label, 0.0))
            if fact not in FACTS and mean >= 0.1 and not (back and other == label):
                expected[relation, other] = mean
    facts = predicted_facts(engine, label, min_score=0.1)
    assert facts.next is None
    assert len(expected) > 10
    assert listed(facts) == pytest.approx(expected, rel=1e-5)
    for each in facts.relations:
        scores = [fact.score for fact in each.facts]
        assert scores == sorted(scores, reverse=True)
        assert predicted_facts(engine, label, each.relation, min_score=0.1).relations == (each,)


def test_predicting_stops_in_time_and_goes_on_where_it_stopped(engine: Engine) -> None:
    whole = predicted_facts(engine, "e4", min_score=0.1)
    first = predicted_facts(engine, "e4", min_score=0.1, seconds=0)
    assert first.next == GRAPH.relations[2]  # after one relation and its inverse
    rest = predicted_facts(engine, "e4", min_score=0.1, start=first.next)
    assert rest.next is None
    assert listed(first).keys().isdisjoint(listed(rest))
    assert listed(first) | listed(rest) == listed(whole)
    with pytest.raises(SettingsError, match="start"):
        predicted_facts(engine, "e4", "r0", start="r3")


def test_pages_of_facts_join_up_to_all_of_them(engine: Engine) -> None:
    whole = predicted_facts(engine, "e4", min_score=0.05)
    pages = [whole.page(3, offset) for offset in (0, 3, 6)]
    joined = {key: score for page in pages for key, score in listed(page).items()}
    assert joined == listed(whole)
    assert [each.count for each in pages[2].relations] == [each.count for each in whole.relations]
    assert sum(len(each.facts) for each in whole.page(3, most=7).relations) == 7


def test_where_nothing_is_observed_nothing_is_known(engine: Engine) -> None:
    assert known_facts(engine.with_settings(observed="none"), "e4").relations == ()
