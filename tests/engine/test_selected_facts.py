"""Engines that know the facts of some sources, or of a time, alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import tacit
from random_engine import CYCLES, KINDS, same
from random_rules import random_mixture
from tacit.adapt.adapter import Adapter
from tacit.adapt.calibrated import Adapted
from tacit.engine.atoms.calibration import SoftmaxCount
from tacit.engine.atoms.mixture import Mixed, RuleMixture
from tacit.engine.engine import Engine
from tacit.engine.settings import EngineSettings
from tacit.errors import SettingsError
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.graph.qualifiers import Qualifiers
from tacit.links.models import ComplEx
from tacit.links.scorer import GraphScorer, Scorer

SIZE = 15
COLUMNS = ("head", "relation", "tail", "source", "valid_from", "valid_until")


def stated_graph(seed: int) -> tuple[Graph, list[tuple[Any, ...]]]:
    """A random graph, and the rows of its facts with a source and years."""
    random = np.random.default_rng(seed)
    facts = np.unique(random.integers(0, [SIZE, 3, SIZE], (60, 3)), axis=0)
    rows = []
    for s, r, t in facts.tolist():
        begin, end = sorted(random.integers(2000, 2020, 2).tolist())
        cells = (
            random.choice(["", "a", "b"]),
            random.choice(["", begin]),
            random.choice(["", end]),
        )
        rows.append((f"e{s}", "rqp"[r], f"e{t}", *map(str, cells)))
    rows[:2] = [(*rows[0][:3], "a", "2000", ""), (*rows[1][:3], "b", "", "2019")]
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return load(frame, attributes=()), rows


def by_hand(graph: Graph, rows: list[tuple[Any, ...]], year: str, source: str) -> Graph:
    """The graph of the facts of a year and a source, chosen row by row."""
    chosen = []
    for head, relation, tail, origin, begin, end in rows:
        if (not source or origin == source) and (begin or year) <= year <= (end or year):
            ids = graph.entities.id(head), graph.relations.id(relation), graph.entities.id(tail)
            chosen.append(ids)
    train = np.array(chosen, dtype=np.int32).reshape(-1, 3)
    return replace(graph, train=train, qualifiers=Qualifiers())


def mixture_over(rules: RuleMixture, graph: Graph) -> RuleMixture:
    return replace(rules, scorer=replace(rules.scorer, index=graph.index("train")))


def engine(
    graph: Graph, model: Scorer, settings: EngineSettings, rules: RuleMixture, adapted: bool
) -> Engine:
    adapter = None
    if adapted:
        adapter = Adapted(Mixed(SoftmaxCount(), rules), Adapter(model, "p")).eval()
        with torch.no_grad():
            for weight in adapter.parameters():
                weight.fill_(0.3)
    return Engine(graph, model, settings, adapter=adapter, rules=rules)


@pytest.mark.parametrize("source", ["", "a"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"search": "exact", "k": SIZE},
        {"search": "beam", "k": 4, "new": True},
        {"search": "symbolic"},
        {"search": "exact", "adapted": True},
        {"observed": "none"},
    ],
    ids=str,
)
def test_answers_are_those_over_a_graph_of_the_selected_facts(
    source: str, changes: dict[str, Any]
) -> None:
    changes = {**changes}
    adapted = changes.pop("adapted", False)
    for seed in range(3):
        graph, rows = stated_graph(seed)
        model = ComplEx(graph.num_entities, graph.num_relations, 4)
        model.reset(1.0, torch.Generator().manual_seed(seed))
        rules = random_mixture(graph, seed)
        settings = EngineSettings(loops=True, **changes)
        chosen = settings.changed(as_of="2010", fact_sources=[source] if source else [])
        alone = by_hand(graph, rows, "2010", source)
        assert 3 < len(alone.train) < len(graph.train)

        known = engine(graph, model, chosen, rules, adapted)
        expected = engine(alone, model, settings, mixture_over(rules, alone), adapted)
        everything = engine(graph, model, settings, rules, adapted)
        for question in (*CYCLES, KINDS[2], KINDS[3], "?x : r(e1, ?x)"):
            lists = [each.ask(question, top=None) for each in (known, expected, everything)]
            same(lists[0], lists[1])
            # and back again, by the settings of an engine
            same(known.with_settings(as_of=None, fact_sources=[]).ask(question, top=None), lists[2])
        assert known.config["as_of"] == "2010"


def test_facts_alone_are_searched_as_of_a_day(tmp_path: Path) -> None:
    rows = [("France", "president", "Hollande", "", "2012-05-15", "2017-05-14")]
    rows += [("France", "president", "Macron", "", "2017-05-14", "")]
    frame = pd.DataFrame(rows, columns=COLUMNS)

    def presidents(**settings: Any) -> list[str]:
        engine = Engine.of_facts(frame, **settings)
        return sorted(engine.ask("?p : president(France, ?p)", top=None).entities)

    assert presidents() == ["Hollande", "Macron"]
    assert presidents(as_of="2015") == ["Hollande"]
    assert presidents(as_of="2017") == ["Hollande", "Macron"]
    assert presidents(as_of="2017-05-13") == ["Hollande"]
    assert presidents(as_of="2018-01") == ["Macron"]
    assert presidents(as_of="2011") == []


def test_reasons_say_where_facts_come_from() -> None:
    graph = load(
        pd.DataFrame(
            [
                ("a", "r", "b", "X", "2019", ""),
                ("a", "r", "b", "Y", "", "2010"),
                ("b", "r", "c", "", "", ""),
            ],
            columns=COLUMNS,
        )
    )
    facts = GraphScorer(graph.index(), graph.num_entities)
    engine = Engine(graph, facts, calibration="sigmoid")
    question = "?x : exists ?y . r(a, ?y) & r(?y, ?x)"
    (witness,) = engine.explain(question)[0].witnesses
    first, second = witness.atoms
    assert str(first) == "r(a, b)  0.999 known, from X, since 2019; from Y, until 2010"
    assert str(second) == "r(b, c)  0.999 known"
    assert [each.source for each in first.statements] == ["X", "Y"]
    assert [each["text"] for each in first.to_dict()["statements"]] == [
        "from X, since 2019",
        "from Y, until 2010",
    ]
    assert "statements" not in second.to_dict()
    answers = engine.with_settings(as_of="2000").explain(question)
    assert str(answers[0].witnesses[0].atoms[0]) == "r(a, b)  0.999 known, from Y, until 2010"
    assert "from Y, until 2010" in answers._repr_html_()


def test_evidence_rests_on_selected_facts(tmp_path: Path) -> None:
    links = [(f"c{i}", "city_in", f"k{i}", "atlas", "1990", "") for i in range(6)]
    capitals = [(f"c{i}", "capital_of", f"k{i}", "", "", "") for i in range(5)]
    frame = pd.DataFrame([*links, *capitals], columns=COLUMNS)
    run = tacit.train(frame, tmp_path / "run", model="rules", progress=False)
    (evidence,) = run.score("c5", "capital_of", "k5", explain=True).witnesses[0].atoms[0].evidence
    assert "c5 is a city in k5 (from atlas, since 1990)" in evidence.text
    fact = evidence.to_dict()["paths"][0]["facts"][0]
    assert fact["statements"][0]["source"] == "atlas"
    before = tacit.open(tmp_path / "run", as_of="1980").score(
        "c5", "capital_of", "k5", explain=True
    )
    assert before.score < 1e-6
    assert not before.witnesses[0].atoms[0].evidence
    assert tacit.open(tmp_path / "run", as_of="1990").score("c5", "capital_of", "k5").score > 0.4
    with pytest.raises(
        SettingsError, match="fact_sources names 'atlsa', from which no fact comes; did"
    ):
        tacit.open(tmp_path / "run", fact_sources=["atlsa"])
    with pytest.raises(SettingsError, match="as_of is 'now'; expected a date"):
        tacit.open(tmp_path / "run", as_of="now")
    with pytest.raises(SettingsError, match="fact_sources is 'atlas'; it must be a list of words"):
        tacit.open(tmp_path / "run", fact_sources="atlas")


def test_statements_are_added_to_known_facts_of_a_run(tmp_path: Path) -> None:
    frame = pd.DataFrame([(f"c{i}", "in", f"k{i % 2}") for i in range(6)])
    run = tacit.train(frame, tmp_path / "run", model="rules", progress=False)
    path = tmp_path / "more.csv"
    path.write_text("head,relation,tail,source,valid_from\nc0,in,k0,atlas,1990\nc1,in,k1,,\n")
    dry = run.add(path, dry_run=True)
    assert str(dry) == (
        "0 facts would be added, 2 were there already; 1 statement about facts added"
    )
    assert not len(run.graph.qualifiers)
    change = run.add(path)
    assert (change.added, change.unchanged, change.statements) == (0, 2, 1)
    assert tacit.open(tmp_path / "run", as_of="1980").score("c0", "in", "k0").known is False
    assert run.score("c0", "in", "k0", explain=True).witnesses[0].atoms[0].statements
    assert run.add(path).statements == 0
    run.remove([("c0", "in", "k0")])
    assert not len(tacit.open(tmp_path / "run").graph.qualifiers)
