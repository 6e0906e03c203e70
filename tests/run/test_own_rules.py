"""Own rules of a run: switched, imported, evaluated, and in reasons."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

import tacit
from rule_runs import FACTS, of_rules, of_vectors
from tacit.errors import LimitError, QueryError
from tacit.graph.graph import Graph
from tacit.links.rules.rule_files import load_rules
from tacit.run.rules import import_rules

NEIGHBOURS = "borders(?x, ?z) & speaks(?z, ?y) => speaks(?x, ?y)"


def test_a_written_rule_switched_on_again_stays_the_only_one_that_says_so(tmp_path: Path) -> None:
    run = of_rules(tmp_path)
    formula = "borders(?x, ?z) & in_continent(?z, ?y) => in_continent(?x, ?y)"
    rule = run.add_rule(formula, confidence=0.9)
    active = load_rules(run.folder)[0].active.tolist()
    assert active == [False, False, True, True, True]
    run.switch_rules(off=[rule.id])
    assert load_rules(run.folder)[0].active.tolist() == [False, False, True, False, False]
    for place in (rule.id, 0):
        run.switch_rules(on=[place])
        assert load_rules(run.folder)[0].active.tolist() == active


def test_a_score_that_a_written_rule_lifts_is_wholly_by_rules(tmp_path: Path) -> None:
    run = of_vectors(tmp_path)
    run.add_rule(NEIGHBOURS, confidence=0.9)
    (answer,) = run.explain(": speaks(Spain, French)")
    (atom,) = answer.witnesses[0].atoms
    assert answer.score == pytest.approx(0.9, abs=1e-3)
    assert atom.rule_share == 1.0


def test_reasons_for_deductions_do_not_go_in_circles(tmp_path: Path) -> None:
    chain = [("a", "same", "b"), ("b", "same", "c"), ("c", "same", "d"), ("d", "same", "e")]
    run = of_rules(tmp_path, Graph.of(chain), [])
    run.add_rule("same(?x, ?z) & same(?z, ?y) => same(?x, ?y)", confidence=1.0)
    run.add_rule("same(?y, ?x) => same(?x, ?y)", confidence=1.0)
    rests_on = {}
    for pair in permutations("abcde", 2):
        (answer,) = run.explain(": same({}, {})".format(*pair))
        assert answer.known
        (atom,) = answer.witnesses[0].atoms
        if pair in [(s, o) for s, _, o in chain]:
            assert not atom.evidence
            continue
        (evidence,) = atom.evidence
        assert evidence.paths
        facts = {(f.subject, f.object) for path in evidence.paths for f in path.facts}
        rests_on[frozenset(pair), pair[0]] = {(frozenset(each), each[0]) for each in facts}
    while rests_on:
        grounded = [key for key, facts in rests_on.items() if facts.isdisjoint(rests_on)]
        assert grounded, rests_on
        for key in grounded:
            del rests_on[key]


def test_a_deduction_is_an_answer_that_an_evaluation_of_new_ones_may_ask_for(
    tmp_path: Path,
) -> None:
    held_out = [("Luxembourg", "in_continent", "Europe"), ("Belgium", "in_continent", "Europe")]
    run = of_rules(tmp_path, Graph.of(FACTS, test=held_out), [])
    before = run.evaluate(new=True).mrr["1p"]
    run.add_rule("borders(?z, ?x) & in_continent(?z, ?y) => in_continent(?x, ?y)", confidence=1.0)
    assert run.ask("?y : in_continent(Luxembourg, ?y)")[0].known
    assert run.evaluate(new=True).mrr["1p"] == run.evaluate().mrr["1p"] == 1.0 > before


def test_imported_rules_count_in_a_run_of_vectors(tmp_path: Path) -> None:
    run = of_vectors(tmp_path / "run")
    before = run.score("Spain", "speaks", "French").score
    run.add_rule("borders(?x, ?y) => borders(?y, ?x)", confidence=0.5)
    assert run.score("Spain", "speaks", "French").score == pytest.approx(before, abs=1e-6)
    file = tmp_path / "rules.txt"
    file.write_text("9\t8\t0.8\tspeaks(X,Y) <= borders(X,A), speaks(A,Y)\n")
    assert import_rules(run.folder.path, file) == (2, [])
    opened = tacit.open(run.folder.path, device="cpu")
    assert opened.score("Spain", "speaks", "French").score > max(0.2 * 0.8, before)
    (answer,) = opened.explain(": speaks(Spain, French)")
    assert (answer.witnesses[0].atoms[0].rule_share or 0) > 0.3
    opened.add_rule("borders(?x, ?z) & borders(?z, ?y) => borders(?x, ?y)", confidence=0.5)
    assert float(load_rules(opened.folder)[1]["shares"].min()) == pytest.approx(0.2)


def test_facts_by_which_too_much_would_follow_are_not_added(tmp_path: Path) -> None:
    chain = [(f"a{i}", "next", f"a{i + 1}") for i in range(100)]
    run = of_rules(tmp_path, Graph.of(chain[:20]), [])
    run.add_rule("next(?x, ?z) & next(?z, ?y) => next(?x, ?y)", confidence=1.0)
    with pytest.raises(LimitError, match=r"^rule 0, next\(\?x, \?z\) & .* would add more than"):
        run.add(chain)
    opened = tacit.open(tmp_path)
    assert len(opened.graph.facts("train")) == 20
    assert opened.count("?y : next(a0, ?y)").known == 20
    assert run.add(chain[:21]).added == 1
    assert run.count("?y : next(a0, ?y)").known == 21


@pytest.mark.parametrize("confidence", ["0.5", 0, 1.5, float("nan")])
def test_a_confidence_is_a_number_above_0(tmp_path: Path, confidence: float) -> None:
    run = of_rules(tmp_path)
    with pytest.raises(QueryError, match=r"^confidence is .*; it must be above 0 and at most 1$"):
        run.add_rule("borders(?x, ?y) => borders(?y, ?x)", confidence)
