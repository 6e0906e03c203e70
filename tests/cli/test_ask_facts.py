"""`tacit ask` and `complete` on facts without a run: predictions, and what is said of the rules."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rule_runs import SCORE, write_cities
from tacit.cli import app, main
from tacit.links.rules import rule_files

ASKED = "?k : capital_of(c5, ?k)"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def facts(tmp_path: Path) -> str:
    return str(write_cities(tmp_path / "cities.tsv"))


def tacit(*arguments: str) -> Result:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    return done


def test_answers_are_predicted_and_the_rules_are_told_once(facts: str, cache: Path) -> None:
    first = tacit("ask", facts, ASKED, "--top", "1", "--explain")
    assert re.fullmatch(
        rf"mined \d+ rules from cities to predict by, in \d+\.\d s; they are kept in {cache}\n",
        first.stderr,
    )
    assert re.search(r"1\. k5 +0\.454  predicted", first.stdout)
    assert "capital_of(c5, k5)  0.454 predicted" in first.stdout
    second = tacit("ask", facts, ASKED, "--top", "1", "--explain")
    assert re.fullmatch(r"\d+ rules of cities to predict by, from the cache\n", second.stderr)
    assert second.stdout == first.stdout


@pytest.mark.parametrize("options", [["--symbolic"], ["--search", "symbolic"]])
def test_facts_alone_predict_nothing_and_mine_nothing(
    facts: str, cache: Path, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **named: Any) -> None:
        raise AssertionError("rules were mined")

    monkeypatch.setattr(rule_files, "mine", refuse)
    done = tacit("ask", facts, ASKED, "--json", *options)
    assert json.loads(done.stdout)["answers"] == []
    assert done.stderr == ""
    assert not cache.exists()


def test_counts_sparql_and_files_of_questions(facts: str, tmp_path: Path) -> None:
    counted = json.loads(tacit("ask", facts, f"count {ASKED}", "--json").stdout)["count"]
    assert counted["known"] == 0
    assert counted["expected"] == pytest.approx(SCORE, abs=1e-3)
    sparql = "PREFIX : <tacit:> SELECT ?k { :c5 :capital_of ?k } LIMIT 1"
    (answer,) = json.loads(tacit("ask", facts, sparql, "--json").stdout)["answers"]
    assert (answer["entity"], answer["known"]) == ("k5", False)
    questions = tmp_path / "questions.txt"
    questions.write_text(f"{ASKED}\n?k : capital_of(c4, ?k)\n")
    out = tmp_path / "answers.jsonl"
    tacit("ask", facts, "--file", str(questions), "--out", str(out), "--top", "1")
    lines = [json.loads(line)["answers"][0] for line in out.read_text().splitlines()]
    assert [(each["entity"], each["known"]) for each in lines] == [("k5", False), ("k4", True)]


def test_facts_of_standard_input_and_of_columns(
    facts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path(facts).read_text()
    done = CliRunner().invoke(app, ["ask", "-", ASKED, "--top", "1"], input=text)
    assert "k5  0.454  predicted" in done.stdout
    turned = tmp_path / "turned.csv"
    rows = (line.split("\t") for line in text.splitlines())
    turned.write_text("".join(f"{t},{h},{r}\n" for h, r, t in rows))
    done = tacit("ask", str(turned), ASKED, "--top", "1", "--columns", "2,3,1")
    assert "k5  0.454  predicted" in done.stdout


def test_missing_facts_are_completed(facts: str) -> None:
    done = tacit("complete", facts, "--relation", "capital_of", "--min-score", "0.3")
    assert done.stdout == "0.454  capital_of(c5, k5)\n"


def test_an_interrupted_mining_is_no_run(
    facts: str, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["tacit", "ask", facts, ASKED, "--top", "1"])
    with monkeypatch.context() as patch:
        patch.setattr(rule_files, "mine", interrupt)
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr()
    assert said.err.startswith("mined ")
    assert "k5  0.454  predicted" in said.out


def test_a_name_with_control_characters_is_shown_escaped(tmp_path: Path) -> None:
    path = write_cities(tmp_path / "ci\x1b[2Jties.tsv")
    assert "\x1b" not in tacit("ask", str(path), ASKED, "--top", "1").stderr


def test_a_run_of_rules_is_trained_asked_and_extended(facts: str, tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    done = tacit("train", facts, "--model", "rules", "--length", "1", "--seed", "3", "--out", out)
    assert re.search(r"run: \d+ rules mined in \d+\.\d s\n", done.stdout)
    assert "ask it with: tacit ask" in done.stderr
    again = tacit("train", facts, "--model", "rules", "--out", out, "--resume")
    assert again.exit_code == 0
    more = tmp_path / "more.tsv"
    more.write_text("c6\tcity_in\tk6\n")
    assert "2 new entities: c6, k6" in tacit("add", out, str(more)).stdout
    shown = tacit("ask", out, "?k : capital_of(c6, ?k)", "--top", "1").stdout
    assert "k6  0.454  predicted" in shown
