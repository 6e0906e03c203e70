"""Rule files of AnyBURL: what their lines mean, what is left out, and round trips."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rule_worlds import random_graph, random_rule
from tacit.errors import DataError
from tacit.graph.graph import Graph
from tacit.links.rules.anyburl import read_rules, write_rules
from tacit.links.rules.editing import mirrored
from tacit.links.rules.rule_set import NONE, OFF, SAMPLED, Rule, RuleSet

GRAPH = Graph.of([("Oslo", "in", "Norway"), ("Norway", "near", "Sweden"), ("Bo", "likes", "Oslo")])
IN, NEAR, LIKES = 0, 2, 4
OSLO, NORWAY, SWEDEN, BO = range(4)


def read(tmp_path: Path, *rules: str, graph: Graph = GRAPH) -> list[Rule]:
    """The rules of some lines, without their counts."""
    path = tmp_path / "rules.txt"
    path.write_text("".join(f"10\t4\t0.4\t{rule}\n" for rule in rules), encoding="utf-8")
    rules_read = read_rules(path, graph)
    assert rules_read.left_out == {}
    return [Rule(*rules_read.rules[i][:4]) for i in range(len(rules_read.rules))]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("in(X,Y) <= near(X,A), in(A,Y)", Rule((NEAR, IN), IN)),
        ("in(X,Y) <= near(A,X), in(A,Y)", Rule((NEAR + 1, IN), IN)),
        ("in(X,Y) <= in(A,Y), near(X,A)", Rule((NEAR, IN), IN)),
        ("near(X,Y) <= near(Y,X)", Rule((NEAR + 1,), NEAR)),
        ("in(X,Y) <= near(X,A), near(A,B), in(B,Y)", Rule((NEAR, NEAR, IN), IN)),
        ("in(X,Norway) <= near(X,Sweden)", Rule((NEAR,), IN, SWEDEN, NORWAY)),
        ("in(X,Norway) <= near(X,A)", Rule((NEAR,), IN, NONE, NORWAY)),
        ("in(Oslo,Y) <= near(Y,A)", Rule((NEAR,), IN + 1, NONE, OSLO)),
        ("in(Oslo,Y) <= near(A,Y), likes(Bo,A)", Rule((NEAR + 1, LIKES + 1), IN + 1, BO, OSLO)),
        ("in(X,Norway) <= in(X,A)", Rule((IN,), IN, NONE, NORWAY)),
    ],
)
def test_a_line_means_a_rule_and_its_mirror_image(tmp_path: Path, line: str, rule: Rule) -> None:
    other = mirrored(rule)
    assert read(tmp_path, line) == [rule, *([other] if other is not None else [])]


def test_counts_are_those_of_the_line(tmp_path: Path) -> None:
    path = tmp_path / "rules.txt"
    path.write_text("120\t37\t0.308333\tin(X,Norway) <= near(X,A)\r\n\n", encoding="utf-8")
    rules = read_rules(path, GRAPH).rules
    assert rules[0][4:] == (37, 120, pytest.approx(0.308333), SAMPLED)


def test_what_is_no_rule_of_ours_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "rules.txt"
    lines = [
        "in(X,Y) <= near(X,A), near(A,B), near(B,C), in(C,Y)",
        "in(X,Norway) <= ",
        "in(Oslo,Norway) <= near(Norway,Sweden)",
        "in(X,X) <= near(X,A)",
        "in(X,Y) <= near(X,A), in(B,Y)",
        "in(X,Y) <= near(X,A), in(X,Y)",
        "in(X,Norway) <= near(X,A), near(A,X)",
        "in(X,Y) <= near(X,A)",
        "in(X,Y) <= in(X,Y)",
        "in(X,Y) <= beside(X,Y)",
        "in(X,Finland) <= near(X,A)",
        "in(X,Y) :- near(X,Y)",
        "in(X,Norway) <= near(X,A)",
    ]
    path.write_text("".join(f"10\t4\t0.4\t{line}\n" for line in lines), encoding="utf-8")
    file = read_rules(path, GRAPH)
    assert len(file.rules) == 1
    assert file.left_out == {
        "bodies of no atom or of more than three": 2,
        "heads about two constants": 1,
        "heads about one thing twice": 1,
        "bodies that are no path from the head's variable": 3,
        "bodies that do not end in the head's last variable": 1,
        "rules that imply themselves": 1,
        "labels that the graph does not have": 2,
        "lines of another form": 1,
    }
    assert "2 left out: labels that the graph does not have" in file.notes
    assert sum(file.left_out.values()) + 1 == len(lines)


@pytest.mark.parametrize(
    "line", ["in(X,Y) <= near(X,Y)", "1\t2\t0.5\tx", "a\tb\tc\td", "3\t2\t1.5\tx", "3\t2\tnan\tx"]
)
def test_a_file_of_something_else_is_refused_with_the_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rules.txt"
    path.write_text(f"\n10\t4\t0.4\tin(X,Norway) <= near(X,A)\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 3: .* is no rule; expected predictions, support"):
        read_rules(path, GRAPH)
    with pytest.raises(DataError, match="cannot be read"):
        read_rules(tmp_path / "absent.txt", GRAPH)


NAMES = ["a", "b,c", "d(e)", "f), r(g", "h <= i", " j", "X,A", "k, l", "é ü", '"m"', "n'o", "A(X"]


def awkward_graph() -> Graph:
    """A graph whose labels hold the marks of the format."""
    rows = [
        (NAMES[i], relation, NAMES[(i + 1) % len(NAMES)])
        for i in range(len(NAMES))
        for relation in ("r", "s(t", "u,v", "w <= x(y")
    ]
    return Graph.of(rows)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("labels", ["plain", "awkward"])
def test_written_rules_are_read_again_as_they_were(tmp_path: Path, seed: int, labels: str) -> None:
    graph = random_graph(seed) if labels == "plain" else awkward_graph()
    rng = np.random.default_rng(seed)
    by_form: dict[tuple[object, ...], Rule] = {}
    while len(by_form) < 60:
        rule = random_rule(rng, graph)
        if (rule.body == (rule.relation,) and rule.end == rule.tail) or rule[:4] in by_form:
            continue
        support = int(rng.integers(50))
        rule = rule._replace(
            support=support,
            groundings=support + int(rng.integers(90)),
            confidence=float(np.float32(rng.random())),
            flags=SAMPLED,
        )
        other = mirrored(rule)
        by_form |= {form[:4]: form for form in (rule, other) if form is not None}
    rules = set(by_form.values())
    path = tmp_path / "rules.txt"
    absent = write_rules(path, graph, RuleSet.of(sorted(rules)))
    file = read_rules(path, graph)
    again = {file.rules[place] for place in range(len(file.rules))}
    assert file.left_out == {}
    assert absent == (0 if labels == "plain" else len(rules - again))
    assert again <= rules
    assert len(again) > 0.8 * len(rules)
    assert labels == "awkward" or again == rules


def test_labels_that_read_as_variables_keep_a_rule_out(tmp_path: Path) -> None:
    graph = Graph.of([("X", "in", "Norway"), ("Oslo", "a\tb", "Norway")])
    rules = [Rule((0,), 0, NONE, 1), Rule((0,), 1, NONE, 0), Rule((2,), 0, NONE, 1)]
    path = tmp_path / "rules.txt"
    assert write_rules(path, graph, RuleSet.of(rules)) == 2
    assert path.read_text(encoding="utf-8") == "0\t0\t0.0\tin(X,Norway) <= in(X,A)\n"


def test_rules_that_are_off_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "rules.txt"
    write_rules(path, GRAPH, RuleSet.of([Rule((NEAR,), IN, NONE, NORWAY, flags=OFF)]))
    assert path.read_text(encoding="utf-8") == ""
