"""Evidence of predicted atoms: rules with their groundings, and where it is shown."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from random_rules import random_rules
from tacit.cli import app
from tacit.engine.answers.answers import Answer
from tacit.engine.answers.evidence import Evidence, EvidenceFact
from tacit.engine.answers.evidence_finder import evidence_for
from tacit.engine.answers.witnesses import WitnessAtom
from tacit.engine.engine import Engine
from tacit.graph.graph import Graph
from tacit.links.rules.rule_scorer import Firing, RuleScorer
from tacit.links.rules.rule_set import NONE, WRITTEN, Rule, RuleSet
from tacit.run.answering import QuestionAnswering

FACTS = [
    ("Estonia", "borders", "Latvia"),
    ("Estonia", "borders", "Russia"),
    ("Estonia", "borders", "Finland"),
    ("Latvia", "speaks", "German"),
    ("Russia", "speaks", "German"),
    ("Finland", "speaks", "German"),
    ("Estonia", "speaks", "Estonian"),
]
GRAPH = Graph.of(FACTS)
BORDERS, SPEAKS = map(GRAPH.relations.id, ("borders", "speaks"))
GERMAN = GRAPH.entities.id("German")
NEIGHBOURS = Rule((BORDERS, SPEAKS), SPEAKS, NONE, NONE, 61, 214, 0.28)


def engine_of(*rules: Rule, graph: Graph = GRAPH, **settings: Any) -> Engine:
    """An engine of rules alone."""
    scorer = RuleScorer(RuleSet.of(list(rules)), graph.index("train"), graph.num_entities)
    return Engine(graph, scorer, **{"calibration": "sigmoid", "search": "beam", **settings})


def atom_of(engine: Engine, text: str) -> WitnessAtom:
    """The only atom of a yes/no question."""
    (atom,) = engine.explain(text)[0].witnesses[0].atoms
    return atom


def forward_facts(graph: Graph) -> set[tuple[str, ...]]:
    """The facts of a graph by labels."""
    return {
        (graph.entities[s], graph.relations[r], graph.entities[o])
        for s, r, o in graph.facts("train").tolist()
    }


def paths_by_hand(graph: Graph, rule: Rule, head: int, tail: int) -> list[tuple[int, ...]]:
    """The groundings of a rule for an atom: every choice of distinct entities is tried."""
    if rule.tail not in (NONE, tail):
        return []
    facts = {(int(h), int(r), int(t)) for h, r, t in graph.triples("train")}
    constants = {rule.tail, rule.end} - {NONE}
    free = len(rule.body) + (rule.end == NONE)
    found = []
    for rest in product(range(graph.num_entities), repeat=free - 1):
        values = (head, *rest)
        if len(set(values)) < free or constants & set(values):
            continue
        path = values if rule.end == NONE else (*values, rule.end)
        if rule.tail == NONE and path[-1] != tail:
            continue
        if all(step in facts for step in zip(path, rule.body, path[1:], strict=False)):
            found.append(path)
    return found


def labels_of(fact: EvidenceFact) -> tuple[str, ...]:
    return fact.subject_label, fact.relation_label, fact.object_label


def undirected(fact: EvidenceFact) -> tuple[str, frozenset[str]]:
    """A fact without its direction: a symmetric relation states it twice."""
    return fact.relation_label, frozenset((fact.subject_label, fact.object_label))


@pytest.mark.parametrize("seed", range(4))
def test_evidence_is_what_brute_force_finds(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.integers(0, [7, 3, 7], (30, 3))
    graph = Graph.of([(f"e{s}", "rqp"[r], f"e{t}") for s, r, t in rows])
    random_set = random_rules(graph, seed, 60)
    weaker = [random_set[i]._replace(confidence=0.001 * i) for i in range(20)]
    rules = random_set.joined(RuleSet.of(weaker))
    scorer = RuleScorer(rules, graph.index("train"), graph.num_entities)
    facts = forward_facts(graph)
    several = repeats = 0
    for head, relation, tail in product(
        range(graph.num_entities), range(graph.num_relations), range(graph.num_entities)
    ):
        found = evidence_for(graph, scorer, head, relation, tail, top=80, paths=2)
        expected = {}
        for place in range(len(rules)):
            if rules[place].relation == relation:
                expected[place] = paths_by_hand(graph, rules[place], head, tail)
        best = sorted(filter(expected.get, expected), key=lambda i: -rules[i].confidence)
        assert [each.rule.id for each in found] == best
        shown = list[frozenset[tuple[str, frozenset[str]]]]()
        for each in found:
            body = rules[each.rule.id].body
            sets = {
                frozenset(
                    (graph.relations[r & ~1], frozenset((graph.entities[a], graph.entities[b])))
                    for r, a, b in zip(body, path, path[1:], strict=False)
                )
                for path in expected[each.rule.id]
            }
            assert all(labels_of(fact) in facts for path in each.paths for fact in path.facts)
            groundings = [frozenset(map(undirected, path.facts)) for path in each.paths]
            assert sets.issuperset(groundings)
            seen_before = sets.intersection(shown)
            assert seen_before.isdisjoint(groundings)
            assert sum(map(len, groundings)) == len(frozenset().union(*groundings))
            if len(sets) == len(expected[each.rule.id]) <= 16:
                assert len(groundings) + each.more + len(seen_before) == len(sets)
            assert groundings or sets <= set(shown)
            shown += groundings
            several += len(groundings) > 1
            repeats += not groundings
    assert several > 5
    assert repeats


def test_a_predicted_atom_carries_the_rules_that_speak_for_it() -> None:
    engine = engine_of(NEIGHBOURS)
    atom = atom_of(engine, ": speaks(Estonia, German)")
    assert atom.rule_share == 1.0
    assert atom.analogies == ()
    (evidence,) = atom.evidence
    assert evidence.rule.formula == "borders(?x, ?z) & speaks(?z, ?y) => speaks(?x, ?y)"
    assert evidence.rule.words == "if X borders Z, and Z speaks Y, then X speaks Y"
    assert [each.text for each in evidence.paths] == [
        "Estonia borders Latvia, and Latvia speaks German",
        "Estonia borders Russia, and Russia speaks German",
    ]
    assert [labels_of(fact) for fact in evidence.paths[0].facts] == [FACTS[0], FACTS[3]]
    assert evidence.more == 1
    assert engine.explain(": speaks(Estonia, German)")[0].witnesses[0].lines() == [
        ("speaks(Estonia, German)  0.280 predicted", True),
        (
            "  because Estonia borders Latvia, and Latvia speaks German: speaks is known for 61 of "
            "214 such pairs (confidence 28 %, rule 0)",
            False,
        ),
        ("    also Estonia borders Russia, and Russia speaks German; and in 1 more way", False),
    ]
    assert atom_of(engine, ": speaks(Latvia, German)").evidence == ()  # it is known


def test_two_rules_that_rest_on_the_same_facts_show_them_once() -> None:
    same = Rule((BORDERS, SPEAKS), SPEAKS, GERMAN, GERMAN, 5, 9, 0.2)
    graph = Graph.of([FACTS[0], FACTS[3]])
    relations, german = map(graph.relations.id, ("borders", "speaks")), graph.entities.id("German")
    borders, speaks = relations
    first = NEIGHBOURS._replace(body=(borders, speaks), relation=speaks)
    second = same._replace(body=(borders, speaks), relation=speaks, end=german, tail=german)
    atom = atom_of(engine_of(first, second, graph=graph), ": speaks(Estonia, German)")
    assert [len(each.paths) for each in atom.evidence] == [1, 0]
    assert atom.evidence[1].more == 0
    assert atom.evidence[1].text == (
        "because of the same facts: 5 of 9 such entities are known to speak German "
        "(confidence 20 %, rule 1)"
    )


def test_a_fact_and_its_reverse_are_not_shown_as_two_reasons() -> None:
    graph = Graph.of([FACTS[0], ("Latvia", "borders", "Estonia"), FACTS[3]])
    borders, speaks = map(graph.relations.id, ("borders", "speaks"))
    rules = [Rule((each, speaks), speaks, confidence=0.3) for each in (borders, borders ^ 1)]
    atom = atom_of(engine_of(*rules, graph=graph), ": speaks(Estonia, German)")
    assert [len(each.paths) for each in atom.evidence] == [1, 0]


def test_groundings_that_were_not_all_counted_are_at_least_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tuple(map(GRAPH.entities.id, ("Estonia", "Latvia", "German")))
    firing = Firing(0, NEIGHBOURS, [path], 500, exact=False)
    monkeypatch.setattr(RuleScorer, "firings", lambda *_: [firing])
    (evidence,) = atom_of(engine_of(NEIGHBOURS), ": speaks(Estonia, German)").evidence
    assert evidence.lines()[-1].endswith("; and in at least 499 more ways")
    assert evidence.to_dict()["more_at_least"]


def test_what_is_denied_shows_what_speaks_for_it() -> None:
    engine = engine_of(NEIGHBOURS)
    best = engine.explain("?x : borders(?x, Latvia) & !speaks(?x, German)", top=1)[0]
    assert best.entity == "Estonia"
    denied = next(atom for atom in best.witnesses[0].atoms if atom.negated)
    assert [each.rule.id for each in denied.evidence] == [0]
    lines = [text for text, _ in best.witnesses[0].lines()]
    assert any(line.startswith("  against it: Estonia borders Latvia") for line in lines)
    assert not any("because" in line for line in lines)


def test_a_rule_of_the_other_direction_is_shown_and_carries_nothing() -> None:
    backwards = Rule((SPEAKS ^ 1, BORDERS ^ 1), SPEAKS ^ 1, NONE, NONE, 61, 214, 0.28)
    atom = atom_of(engine_of(backwards), ": speaks(Estonia, German)")
    formula = "borders(?x, ?z) & speaks(?z, ?y) => speaks(?x, ?y)"
    assert [each.rule.formula for each in atom.evidence] == [formula]
    shares = {
        atom_of(engine_of(rule), ": speaks(Estonia, German)").rule_share
        for rule in (NEIGHBOURS, backwards)
    }
    assert shares == {0.0, 1.0}  # the atom is read in one direction


def test_where_no_rule_speaks_the_reason_says_so() -> None:
    atom = atom_of(engine_of(NEIGHBOURS), ": speaks(Latvia, Estonian)")
    assert not atom.evidence
    assert not atom.analogies
    assert atom.rule_share == 0.0
    assert list(atom.found.lines()) == ["no rule speaks for it"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"flags": WRITTEN, "support": 0, "groundings": 0, "confidence": 0.9},
         "because Estonia borders Latvia, and Latvia speaks German "
         "(confidence 90 %, rule 0, written by a person)"),
        ({"flags": WRITTEN, "confidence": 1.0},
         "follows by rule 0: Estonia borders Latvia, and Latvia speaks German: speaks is known for "
         "61 of 214 such pairs (written by a person)"),
    ],
)  # fmt: skip
def test_rules_of_a_person_are_marked(changes: dict[str, Any], text: str) -> None:
    rule = NEIGHBOURS._replace(**changes)
    atom = atom_of(engine_of(rule), ": speaks(Estonia, German)")
    assert atom.evidence[0].text == text
    assert atom.evidence[0].rule.written


def test_evidence_survives_json() -> None:
    answers = engine_of(NEIGHBOURS).explain(": speaks(Estonia, German)")
    (atom,) = json.loads(answers.to_json())["answers"][0]["witnesses"][0]["atoms"]
    assert atom["rule_share"] == 1.0
    (evidence,) = atom["evidence"]
    assert evidence["more"] == 1
    assert evidence["rule"]["confidence"] == pytest.approx(0.28)
    assert (evidence["rule"]["support"], evidence["rule"]["groundings"]) == (61, 214)
    assert evidence["paths"][1]["facts"][1] == {
        "subject": "Russia",
        "relation": "speaks",
        "object": "German",
        "subject_label": "Russia",
        "relation_label": "speaks",
        "object_label": "German",
    }
    assert json.loads(json.dumps(evidence)) == atom_of_dict(answers[0])


def atom_of_dict(answer: Answer) -> dict[str, Any]:
    (evidence,) = answer.witnesses[0].atoms[0].evidence
    assert isinstance(evidence, Evidence)
    return evidence.to_dict()


def test_labels_in_evidence_are_escaped() -> None:
    graph = Graph.of([("a", "r", "<b>\x1b[2J"), ("<b>\x1b[2J", "q", "c"), ("d", "q", "d")])
    r, q = map(graph.relations.id, ("r", "q"))
    engine = engine_of(Rule((r, q), q, confidence=0.5), graph=graph)
    answers = engine.explain(": q(a, c)")
    assert answers[0].witnesses[0].atoms[0].evidence
    assert "\x1b" not in str(answers)
    assert "because a has <b>\\x1b[2J as its r" in str(answers)
    html = answers._repr_html_()
    assert "\x1b" not in html
    assert "<b>\\x1b" not in html
    assert "because a has &lt;b&gt;\\x1b[2J as its r" in html


def test_each_atom_of_a_question_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    firings = RuleScorer.firings

    def counted(self: RuleScorer, *atom: int) -> Any:
        calls.append(atom[:3])
        return firings(self, *atom)

    monkeypatch.setattr(RuleScorer, "firings", counted)
    engine = engine_of(NEIGHBOURS)
    engine.ask("?x : borders(Estonia, ?y) & speaks(?x, German)", top=8)
    assert not calls  # without reasons there is no evidence
    engine.explain("?x : exists ?y . borders(Estonia, ?y) & speaks(?y, ?x)", top=8, paths=3)
    assert calls
    assert len(set(calls)) == len(calls)


class Ruled(QuestionAnswering):
    """A graph and rules in both directions."""

    @property
    def engine(self) -> Engine:
        """The engine of both."""
        mirrored = Rule((SPEAKS ^ 1, BORDERS ^ 1), SPEAKS ^ 1, NONE, NONE, 61, 214, 0.29)
        return engine_of(NEIGHBOURS, mirrored)


BECAUSE = (
    "because Estonia borders Latvia, and Latvia speaks German: speaks is known for 61 of 214 such "
    "pairs (confidence 29 %, rule 1)"
)


def test_completions_say_which_rule_speaks_for_them_best(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    missing = Ruled().complete(min_score=0.2, calibration="sigmoid", explain=True)
    (fact,) = missing
    assert tuple(fact[:3]) == ("Estonia", "speaks", "German")
    assert fact[4:] == (BECAUSE,)
    frame = missing.to_pandas()
    assert list(frame.columns) == ["subject", "relation", "object", "score", "because"]
    assert missing.to_frame("polars").rows() == list(frame.itertuples(index=False, name=None))
    missing.write(tmp_path / "missing.tsv")
    head, row = (tmp_path / "missing.tsv").read_text(encoding="utf-8").splitlines()
    assert head.split("\t")[-1] == "because"
    assert row.split("\t")[-1] == BECAUSE
    missing.write(tmp_path / "missing.nt")
    assert "because" not in (tmp_path / "missing.nt").read_text(encoding="utf-8")
    (plain,) = Ruled().complete(min_score=0.2, calibration="sigmoid")
    assert tuple(plain) == tuple(fact[:4])


def test_the_command_that_completes_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.run.run.open", lambda *_, **__: Ruled())
    call = ["complete", "any", "--min-score", "0.2", "--calibration", "sigmoid"]
    plain, explained = (
        CliRunner().invoke(app, [*call, *more], catch_exceptions=False).stdout.splitlines()
        for more in ([], ["--explain"])
    )
    assert [each.split("  ")[1] for each in plain] == ["speaks(Estonia, German)"]
    assert explained == [plain[0], f"       {BECAUSE}"]


def test_a_score_and_predicted_facts_are_explained_in_python() -> None:
    ruled = Ruled()
    (atom,) = ruled.score("Estonia", "speaks", "German", explain=True).witnesses[0].atoms
    assert atom.evidence[0].rule.id in (0, 1)
    for explain in (False, True):
        found = ruled.facts("Estonia", predicted=True, explain=explain)
        (relatives,) = found.relations
        texts = [each.text for each in relatives.facts[0].found.rules]
        assert texts == [BECAUSE] * explain
        data = json.loads(json.dumps(found.to_dict()))["relations"][0]["facts"][0]
        assert [each["text"] for each in data.get("evidence", [])] == texts


def test_notebooks_indent_evidence() -> None:
    html = engine_of(NEIGHBOURS).explain(": speaks(Estonia, German)")._repr_html_()
    assert "<i>&emsp;because Estonia borders Latvia, and Latvia speaks German: " in html
    also = "also Estonia borders Russia, and Russia speaks German; and in 1 more way"
    assert f"<i>&emsp;&emsp;{also}</i>" in html


def test_facts_alone_have_no_analogies() -> None:
    answers = Engine.of_facts(GRAPH).explain("?x : borders(?x, Latvia) & !speaks(?x, German)")
    assert "analog" not in str(answers)
