"""`tacit rules`: rules in words and formulas, changes of a run, and files of rules."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit.cli import app
from tacit.errors import RunError, SettingsError, TacitError, UnknownName
from tacit.graph.graph import Graph
from tacit.links.rules.rule_files import load_rules, save_rules
from tacit.links.rules.rule_set import NONE, Rule, RuleSet
from tacit.run_folder.folder import RunFolder

GRAPH = Graph.of(
    [
        ("Portugal", "borders", "Spain"),
        ("Spain", "borders", "France"),
        ("Portugal", "in_continent", "Europe"),
        ("Spain", "in_continent", "Europe"),
    ]
)
MINED = [
    Rule((0, 2), 2, support=1, groundings=1, confidence=0.25),
    Rule((3, 1), 3, support=1, groundings=1, confidence=0.25),
    Rule((0,), 2, NONE, 3, 2, 2, 0.5),
]
FIRST = [
    "rule 2  0.500  if X borders something, then X is in continent Europe",
    "    borders(?x, ?_) => in_continent(?x, Europe)",
    "    2 of 2 such entities are known to be in continent Europe",
]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The folder of a run of a few rules."""
    folder = RunFolder.create(tmp_path / "run", GRAPH, {"model": "rules"})
    save_rules(folder, RuleSet.of(MINED))
    return str(folder.path)


def rules(*arguments: str) -> list[str]:
    """The lines that the command prints."""
    result = CliRunner().invoke(app, ["rules", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def refusal(kind: type[TacitError], *arguments: str) -> str:
    """The error that the command ends with."""
    result = CliRunner().invoke(app, ["rules", *arguments])
    assert isinstance(result.exception, kind), result.output
    return str(result.exception)


def test_rules_are_listed_in_words_and_formulas(path: str) -> None:
    lines = rules(path)
    assert lines[:3] == FIRST
    assert lines[3].startswith("rule 0  0.250  if X borders Z, and Z is in continent Y, then")
    assert len(lines) == 6
    assert rules(path, "--top", "1") == FIRST
    assert rules(path, "--relation", "borders") == ["no rule implies borders"]
    assert rules(path, "--written") == ["no rule that a person wrote"]
    assert "right: Portugal is in continent Europe" in rules(path, "--examples", "1")[-1]
    (first, _) = json.loads("".join(rules(path, "--json", "--examples", "2")))
    assert (first["id"], first["support"], first["confidence"]) == (2, 2, 0.5)
    assert [fact["subject"] for fact in first["examples"]] == ["Portugal", "Spain"]
    assert first["counter_examples"] == []


def test_a_confidence_is_printed_as_it_was_written(path: str) -> None:
    rules(path, "--write", "borders(?y, ?x) => borders(?x, ?y)", "--confidence", "0.4")
    (written,) = json.loads("".join(rules(path, "--json", "--written")))
    assert written["confidence"] == 0.4  # and not the nearest of single precision


def test_rules_are_wrapped_on_a_terminal(path: str) -> None:
    leader, follower = pty.openpty()
    code = f"from tacit.cli import app; app(['rules', {path!r}, '--top', '1'])"
    settings = os.environ | {"COLUMNS": "40"}
    subprocess.run([sys.executable, "-c", code], stdout=follower, env=settings, check=True)
    os.close(follower)
    lines = os.read(leader, 10000).decode().splitlines()
    os.close(leader)
    assert max(map(len, lines)) <= 40 < len(FIRST[0])
    assert [line[:4] for line in lines] == ["rule", *["    "] * (len(lines) - 1)]
    assert " ".join(lines).split() == " ".join(FIRST).split()


def test_rules_are_written_switched_and_dropped(path: str) -> None:
    formula = "borders(?y, ?x) => borders(?x, ?y)"
    lines = rules(path, "--write", formula, "--confidence", "0.4")
    assert lines[0] == "rule 3  0.400  if Y borders X, then X borders Y  written by a person"
    assert lines[1].strip() == formula
    assert rules(path, "--relation", "borders")[1].strip() == formula
    assert rules(path, "--written") == rules(path, "--relation", "borders")
    assert rules(path, "--off", "2", "--off", "0") == ["switched off: rule 2, rule 0"]
    assert [line[-3:] for line in rules(path) if line.startswith("rule")] == ["off", "son", "off"]
    assert rules(path, "--on", "0", "--drop", "3") == ["switched on: rule 0", "dropped: rule 3"]
    stored, _ = load_rules(RunFolder.open(path))
    assert stored.active.tolist() == [True, True, False]
    rules(path, "--write", formula, "--confidence", "0.4")
    other = "in_continent(?x, ?y) & in_continent(?z, ?y) => borders(?x, ?z)"
    written = rules(path, "--write", other, "--confidence", "0.3")[0].split()[1]
    rules(path, "--drop", "3", "--off", written)  # ids are those before the drop
    assert [line[-3:] for line in rules(path, "--written") if line.startswith("rule")] == ["off"]


def test_files_of_rules_are_written_and_read(path: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.txt"
    assert rules(path, "--export", str(file)) == [f"wrote the rules of {path} to {file}"]
    assert file.read_text(encoding="utf-8").splitlines() == [
        "1\t1\t0.25\tin_continent(X,Y) <= borders(X,A), in_continent(A,Y)",
        "2\t2\t0.5\tin_continent(X,Europe) <= borders(X,A)",
    ]
    assert rules(path, "--import", str(file)) == [f"0 rules added from {file}"]
    with file.open("a", encoding="utf-8") as more:
        more.write("5\t2\t0.4\tborders(X,Y) <= borders(Y,X)\n5\t2\t0.4\tnear(X,Y) <= near(Y,X)\n")
    assert rules(path, "--import", str(file)) == [
        f"2 rules added from {file}",
        "1 left out: labels that the graph does not have",
    ]
    assert len(load_rules(RunFolder.open(path))[0]) == 5


def test_a_graph_has_the_rules_mined_of_it_to_read_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    facts = tmp_path / "facts.tsv"
    rows = [(f"c{i}", "capital_of", f"s{i}") for i in range(9)]
    Graph.of([*rows, *((head, "city_in", tail) for head, _, tail in rows)]).write(facts)
    formulas = [line.strip() for line in rules(str(facts)) if "=>" in line]
    assert "capital_of(?x, ?y) => city_in(?x, ?y)" in formulas
    assert "in Tacit's cache" in refusal(RunError, str(facts), "--off", "0")
    rules(str(facts), "--export", str(tmp_path / "e.txt"))
    assert "capital_of" in (tmp_path / "e.txt").read_text(encoding="utf-8")


def test_what_is_wrong_is_said(path: str) -> None:
    assert "did you mean 'borders'" in refusal(UnknownName, path, "--relation", "boarders")
    assert "unknown relation 'boarders' at column 1" in refusal(
        UnknownName, path, "--write", "boarders(?x, ?y) => borders(?y, ?x)"
    )
    assert "there is no rule 9" in refusal(RunError, path, "--off", "9")
    assert "give --write too" in refusal(SettingsError, path, "--confidence", "0.5")
    assert "top must be at least 0, not -1" in refusal(SettingsError, path, "--top", "-1")
    assert "those of a run were" in refusal(SettingsError, path, "--columns", "1,2,3")
