"""The rules of a run: listed, written, dropped and switched, by one process and by two."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tacit
from rank_processes import in_processes
from rule_runs import BORDERS, CONTINENT, GRAPH, MINED, of_rules, of_vectors
from rule_worlds import implied, triples_of
from tacit.engine.atoms.mixture import RuleMixture
from tacit.errors import LimitError, QueryError, RunError, SettingsError, UnknownName
from tacit.graph.graph import Graph
from tacit.links.rules.rule_files import load_rules, rule_scorer, save_rules
from tacit.links.rules.rule_set import RuleSet
from tacit.run.rules import add_rule, import_rules
from tacit.run.run import Run
from tacit.run_folder.folder import RunFolder

NEIGHBOURS = "borders(?x, ?z) & speaks(?z, ?y) => speaks(?x, ?y)"


def test_rules_are_listed_with_the_surest_first_and_mirror_images_once(tmp_path: Path) -> None:
    run = of_rules(tmp_path / "run")
    first, second = run.rules()
    assert (first.id, first.confidence, first.support, first.groundings) == (2, 0.5, 2, 3)
    assert first.words == "if X speaks something, then X is in continent Europe"
    assert first.formula == "speaks(?x, ?_) => in_continent(?x, Europe)"
    assert second.formula == "borders(?x, ?z) & in_continent(?z, ?y) => in_continent(?x, ?y)"
    assert second.id == 0
    assert [rule.id for rule in run.rules(top=1)] == [2]
    assert run.rules("in_continent") == run.rules()
    assert run.rules("speaks") == []
    with pytest.raises(UnknownName, match="did you mean 'speaks'"):
        run.rules("speeks")
    for top, says in ((-1, "top must be at least 0, not -1"), (1.5, "top must be a whole number")):
        with pytest.raises(SettingsError, match=says):
            run.rules(top=top)  # type: ignore[arg-type]


def test_only_a_confidence_of_one_makes_a_rule_without_exception(tmp_path: Path) -> None:
    """In 32 bits the confidence below would be 1."""
    run = of_rules(tmp_path / "run")
    rule = run.add_rule("borders(?x, ?y) => borders(?y, ?x)", confidence=0.999999999)
    assert rule.confidence < 1
    assert not rule.hard
    run.drop_rule(rule.id)
    run.add_rule("borders(?x, ?y) => borders(?y, ?x)", confidence=1)
    assert [each.hard for each in run.rules() if each.written] == [True]


def test_examples_are_facts_and_counter_examples_are_not(tmp_path: Path) -> None:
    run = of_rules(tmp_path / "run")
    europe, neighbours = run.rules()
    assert [str(fact) for fact in europe.examples()] == [
        "Portugal is in continent Europe",
        "France is in continent Europe",
    ]
    assert [fact.subject for fact in europe.counter_examples()] == ["Belgium"]
    assert [fact.subject for fact in neighbours.examples(1)] == ["Portugal"]
    facts = triples_of(GRAPH, "train")
    everything = triples_of(GRAPH)
    for rule in run.rules():
        pairs = {(x, MINED[rule.id].relation, y)
                 for x, y in implied(MINED[rule.id], facts, GRAPH.num_entities)}  # fmt: skip
        ids = GRAPH.entities.id
        right, wrong = (
            {(ids(fact.subject), CONTINENT, ids(fact.object)) for fact in shown}
            for shown in (rule.examples(99), rule.counter_examples(99))
        )
        assert right == pairs & facts
        assert wrong == pairs - everything
    # what another split has is no counter-example
    speaks = run.add_rule(NEIGHBOURS)
    assert {fact.subject for fact in speaks.counter_examples(9)} == {"Spain"}


def test_an_own_rule_is_counted_kept_and_used_at_once(tmp_path: Path) -> None:
    run = of_rules(tmp_path / "run")
    before = run.score("Spain", "speaks", "French").score
    rule = run.add_rule(NEIGHBOURS)
    # for (Spain, French), (France, French); right is the second alone
    assert (rule.id, rule.support, rule.groundings) == (3, 1, 2)
    assert rule.confidence == pytest.approx(1 / 7)
    assert rule.written
    assert rule.formula == NEIGHBOURS
    after = run.score("Spain", "speaks", "French", explain=True)
    assert before < 0.01
    assert after.score == pytest.approx(1 / 7, abs=1e-3)
    (atom,) = after.witnesses[0].atoms
    assert [each.rule.id for each in atom.evidence] == [3]
    assert "written by a person" in atom.evidence[0].text
    # the other direction is the same statement
    assert run.ask("?y : speaks(Spain, ?y)", top=1)[0].entity == "French"
    scores = {each.entity: each.score for each in run.ask("?x : speaks(?x, French)", top=None)}
    assert scores["Spain"] == pytest.approx(1 / 7, abs=1e-3)
    again = tacit.open(run.folder.path, device="cpu")
    assert again.rules("speaks") == run.rules("speaks") == [rule]


@pytest.mark.parametrize("confidence", [0.0, -1, 1.5, float("nan")])
def test_confidences_out_of_range_are_refused(tmp_path: Path, confidence: float) -> None:
    run = of_rules(tmp_path / "run")
    with pytest.raises(QueryError, match="must be above 0 and at most 1"):
        run.add_rule(NEIGHBOURS, confidence)
    assert len(load_rules(run.folder)[0]) == 3


def test_what_cannot_be_added_changes_nothing(tmp_path: Path) -> None:
    run = of_rules(tmp_path / "run")
    before, _ = load_rules(run.folder)
    with pytest.raises(UnknownName, match="unknown relation 'speeks' at column 19"):
        run.add_rule("borders(?x, ?z) & speeks(?z, ?y) => speaks(?x, ?y)")
    with pytest.raises(QueryError, match="right for none of the 2 that it speaks of"):
        run.add_rule("speaks(?x, French) => in_continent(?x, Spain)")
    run.add_rule(NEIGHBOURS, 0.3)
    with pytest.raises(RunError, match="rule 3 says so already; drop it first"):
        run.add_rule("speaks(?n, ?l) & borders(?c, ?n) => speaks(?c, ?l)", 0.4)
    run.drop_rule(3)
    after, _ = load_rules(run.folder)
    assert [after[place] for place in range(len(after))] == MINED
    assert before.to_tensors()["flags"].equal(after.to_tensors()["flags"])


def test_a_written_rule_takes_the_place_of_mined_ones_until_it_is_dropped(tmp_path: Path) -> None:
    run = of_rules(tmp_path / "run")
    rule = run.add_rule("borders(?x, ?z) & in_continent(?z, ?y) => in_continent(?x, ?y)", 0.9)
    assert rule.id == 3
    assert [(each.id, each.off) for each in run.rules()] == [(3, False), (2, False), (0, True)]
    assert run.score("Belgium", "in_continent", "Europe").score > 0.1
    with pytest.raises(RunError, match="rule 0 was not written by a person"):
        run.drop_rule(0)
    run.drop_rule(3)
    assert [(each.id, each.off) for each in run.rules()] == [(2, False), (0, False)]


def test_rules_are_switched_off_and_on_in_both_directions(tmp_path: Path) -> None:
    run = of_rules(tmp_path / "run")
    question = "?y : in_continent(Belgium, ?y)"

    def score() -> float:
        return max(each.score for each in run.ask(question, top=1))

    assert score() == pytest.approx(0.5, abs=1e-3)
    run.switch_rules(off=[2])
    assert score() < 1e-3
    run.switch_rules(off=[1])
    rules, _ = load_rules(run.folder)
    assert rules.active.tolist() == [False, False, False]
    run.switch_rules(on=[0, 2])
    assert load_rules(run.folder)[0].active.all()
    assert score() == pytest.approx(0.5, abs=1e-3)
    for ids in ([3], [-1], [True], ["2"]):
        with pytest.raises(RunError, match=r"no rule|given by its id"):
            run.switch_rules(off=ids)  # type: ignore[arg-type]


def test_evaluations_are_outdated_by_other_rules(tmp_path: Path) -> None:
    run = of_rules(tmp_path / "run")
    run.evaluate(split="valid")
    assert "outdated" not in run.results["eval"][0]
    run.switch_rules(on=[2])  # which it is
    assert "outdated" not in run.results["eval"][0]
    run.add_rule(NEIGHBOURS)
    assert "changed since this was measured" in run.results["eval"][0]["outdated"]
    assert [event["change"] for event in run.folder.events()] == ["write"]
    run.evaluate(split="valid", search="symbolic")
    run.add_rule("borders(?x, ?y) => borders(?y, ?x)", 0.9)
    of_facts = next(e for e in run.results["eval"] if e["settings"]["search"] == "symbolic")
    assert "outdated" not in of_facts
    run.drop_rule(5)
    run.add_rule("borders(?x, ?y) => borders(?y, ?x)", 1.0)
    of_facts = next(e for e in run.results["eval"] if e["settings"]["search"] == "symbolic")
    assert "the rules have changed since" in of_facts["outdated"]


def test_a_hard_rule_makes_known_what_follows(tmp_path: Path) -> None:
    run = of_rules(tmp_path / "run")
    assert not run.score("Portugal", "borders", "France").known
    rule = run.add_rule("borders(?x, ?y) & borders(?y, ?z) => borders(?x, ?z)", 1.0)
    closure = {(a, b) for a in range(4) for b in range(a + 1, 5)}
    names = ["Portugal", "Spain", "France", "Belgium", "Luxembourg"]
    for engine in (run.engine, run.engine.with_settings(search="symbolic")):
        known = {
            (a, b)
            for a in range(5)
            for b in range(5)
            if engine.score(names[a], "borders", names[b]).known
        }
        assert known == closure
        pairs = engine.ask("?c : borders(?c, Luxembourg)", top=4)
        assert {each.entity for each in pairs if each.known} == set(names[:4])
    new = run.ask("?c : borders(Portugal, ?c)", new=True, top=None)
    assert {each.entity for each in new} & set(names[1:]) == set()
    ids = [GRAPH.entities.id(name) for name in names]
    parts = run.engine.parts
    assert parts.deduced_by(ids[0], BORDERS, ids[4]) == rule.id
    assert parts.deduced_by(ids[4], BORDERS ^ 1, ids[0]) == rule.id
    assert parts.deduced_by(ids[0], BORDERS, ids[1]) is None
    (deduced,) = run.score("Portugal", "borders", "France", explain=True).witnesses[0].atoms
    (fact,) = run.score("Portugal", "borders", "Spain", explain=True).witnesses[0].atoms
    assert (deduced.follows_by, fact.follows_by) == (rule.id, None)
    assert str(deduced).endswith(f" known, follows by rule {rule.id}")
    assert deduced.to_dict()["follows_by"] == rule.id
    assert "follows_by" not in fact.to_dict()
    # nothing follows where nothing is known, and less where less is
    assert (
        not run.engine.with_settings(observed="none").score("Portugal", "borders", "France").known
    )
    run.switch_rules(off=[rule.id])
    assert not run.score("Portugal", "borders", "France").known
    assert run.engine.parts.deductions is None


def test_a_rule_that_would_add_too_much_is_refused_by_name(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(60)]
    graph = Graph.of([(name, "in", "World") for name in names])
    run = of_rules(tmp_path / "run", graph, [])
    formula = "in(?x, ?z) & in(?y, ?z) => in(?x, ?y)"  # 60 · 59 pairs
    with pytest.raises(
        LimitError, match=r"rule 0, in\(\?x, \?z\) & .*, has confidence 1 and would"
    ):
        run.add_rule(formula, 1.0)
    assert run.rules() == []
    assert run.add_rule(formula, 0.99).id == 0


def test_the_cache_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    run = tacit.open(GRAPH, device="cpu")
    assert run.rules("in_continent")
    with pytest.raises(RunError, match="in Tacit's cache"):
        run.add_rule(NEIGHBOURS)
    with pytest.raises(RunError, match="the run of world is Tacit's own"):
        add_rule("world", NEIGHBOURS)


ENDS = ("Spain", "France", "Belgium", "Europe", "Luxembourg")


def add_many(number: int, path: str) -> None:
    """Write rules about another relation in each process."""
    for end in ENDS:
        relation = ("borders", "in_continent")[number]
        add_rule(path, f"{relation}(?x, {end}) => speaks(?x, French)", 0.5)


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    run = of_rules(tmp_path / "run")
    path = str(run.folder.path)
    in_processes(2, tmp_path / "work", add_many, path)
    formulas = {rule.formula for rule in tacit.open(path, device="cpu").rules("speaks")}
    assert formulas == {
        f"{relation}(?x, {end}) => speaks(?x, French)"
        for relation in ("borders", "in_continent")
        for end in ENDS
    }


def test_rules_change_only_where_nobody_works_on_the_run(tmp_path: Path) -> None:
    run = of_rules(tmp_path / "run")
    with run.folder.in_use(), pytest.raises(RunError, match="is in use"):
        run.add_rule(NEIGHBOURS)
    run.add_rule(NEIGHBOURS)


def test_a_file_of_rules_adds_those_that_are_not_there(tmp_path: Path) -> None:
    run = of_rules(tmp_path / "run")
    lines = [
        "9\t4\t1.0\tin_continent(X,Y) <= borders(X,A), in_continent(A,Y)",
        "8\t4\t1.0\tspeaks(X,Y) <= borders(X,A), speaks(A,Y)",
        "8\t4\t1.0\tspeaks(X,Y) <= near(X,A), speaks(A,Y)",
    ]
    path = tmp_path / "rules.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    count, notes = import_rules(run.folder.path, path)
    assert count == 2
    assert notes == ["1 left out: labels that the graph does not have"]
    run = Run(RunFolder.open(run.folder.path), device="cpu")
    assert [(rule.id, rule.written) for rule in run.rules("speaks")] == [(3, False)]
    # a rule that nobody wrote is no deduction, however sure its file is
    assert not run.score("Spain", "speaks", "French").known


def test_a_run_of_vectors_takes_own_rules_which_count_whole(tmp_path: Path) -> None:
    run = of_vectors(tmp_path / "run")
    assert run.rules() == []
    with pytest.raises(RunError, match="has no rules"):
        run.switch_rules(off=[0])
    questions = [f"?y : {name}(Spain, ?y)" for name in ("borders", "speaks", "in_continent")]
    before = [{each.entity: each.score for each in run.ask(q, top=None)} for q in questions]
    rule = run.add_rule(NEIGHBOURS, 0.8)
    assert (rule.id, rule.written, run.rules()) == (0, True, [rule])
    after = [{each.entity: each.score for each in run.ask(q, top=None)} for q in questions]
    assert before[1]["French"] < 0.5
    assert after[1].pop("French") == pytest.approx(0.8, abs=1e-3)
    before[1].pop("French")
    for old, new in zip(before, after, strict=True):
        assert new == pytest.approx(old, rel=1e-5)
    (atom,) = run.score("Spain", "speaks", "French", explain=True).witnesses[0].atoms
    assert [each.rule.id for each in atom.evidence] == [0]
    run.drop_rule(0)
    again = [{each.entity: each.score for each in run.ask(q, top=None)} for q in questions]
    assert again[1]["French"] < 0.5
    rule = run.add_rule("borders(?x, ?y) => borders(?y, ?x)", 1.0)
    assert run.score("Spain", "borders", "Portugal").known
    assert run.engine.parts.rule_scorer is not None


def test_an_adapter_without_rules_is_dropped_before_there_are_rules(tmp_path: Path) -> None:
    run = of_vectors(tmp_path / "run")
    (run.folder.path / "adapter.safetensors").write_bytes(b"")
    with pytest.raises(RunError, match="an adapter that was trained without rules") as error:
        add_rule(run.folder.path, NEIGHBOURS)
    assert error.value.command == f"adapt {run.folder.path} --drop"


def test_the_weights_of_a_mixture_stay(tmp_path: Path) -> None:
    run = of_vectors(tmp_path / "run")
    shares = torch.linspace(0.1, 0.6, GRAPH.num_relations)
    scorer = rule_scorer(RuleSet.of(MINED), GRAPH)
    save_rules(run.folder, RuleSet.of(MINED), RuleMixture(scorer, shares, few=2.0).to_tensors())
    run = Run(RunFolder.open(run.folder.path), device="cpu")
    run.add_rule(NEIGHBOURS, 0.7)
    run.switch_rules(off=[2])
    rules, weights = load_rules(run.folder)
    assert len(rules) == 5
    assert weights["shares"].equal(shares)
    assert run.score("Spain", "speaks", "French").score >= 0.699
    assert [rule.off for rule in run.rules()] == [False, True, False]
