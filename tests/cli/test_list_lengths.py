"""Lists of answers: how long they are, and what they say that they leave out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tacit.cli import app
from tacit.engine.answers import execute
from tacit.engine.engine import Engine


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["ask", *arguments])


@pytest.fixture
def hub(tmp_path: Path) -> str:
    """Fourteen answers to one question, and three to another."""
    path = tmp_path / "hub.tsv"
    facts = [("hub", "leads", f"x{i:02}") for i in range(14)] + [
        ("dot", "leads", f"y{i}") for i in range(3)
    ]
    path.write_text("".join("\t".join(fact) + "\n" for fact in facts), encoding="utf-8")
    return str(path)


HUB = "?x : leads(hub, ?x)"
DOT = "?x : leads(dot, ?x)"
SELECT = "PREFIX : <tacit:> SELECT ?x { :hub :leads ?x }"


@pytest.mark.parametrize(
    ("question", "options", "listed", "says"),
    [
        (HUB, [], 10, "10 shown, 14 known in all; --top all lists more"),
        (
            HUB,
            ["--top", "3", "--offset", "2"],
            3,
            "answers 3 to 5 shown, 14 known in all; --top all lists more",
        ),
        (HUB, ["--top", "all", "--offset", "5"], 9, ""),
        (HUB, ["--top", "14"], 14, ""),
        (HUB, ["--top", "all"], 14, ""),
        (HUB, ["--top", "likely"], 14, ""),
        (DOT, [], 3, ""),
        (SELECT, [], 14, ""),
        (f"{SELECT} LIMIT 12", [], 12, "12 shown, 14 known in all; a higher LIMIT lists more"),
        (f"{SELECT} LIMIT 12", ["--top", "2"], 2, "2 shown, 14 known in all; --top all lists more"),
        ("?x, ?y : leads(?x, ?y)", [], 10, "10 shown, 17 known in all; --top all lists more"),
        ("?x, ?y : leads(?x, ?y)", ["--top", "all"], 17, ""),
    ],
)
def test_a_list_says_what_it_leaves_out(
    hub: str, question: str, options: list[str], listed: int, says: str, tmp_path: Path
) -> None:
    shown = ask(hub, question, "--symbolic", *options).output.splitlines()
    lines = [line for line in shown if line.endswith("known")]
    assert (len(lines), shown[-1]) == (listed, says or lines[-1])
    data = json.loads(ask(hub, question, "--symbolic", "--json", *options).output)
    known = 3 if question == DOT else 17 if "?y" in question else 14
    assert (len(data["answers"]), data["known_total"], data["known_at_least"]) == (
        listed,
        known,
        False,
    )
    assert (data["cut_by"] is not None) == bool(says)
    if options:  # a number is obeyed, in a file too
        wrote = ask(
            hub, question, "--symbolic", *options, "--out", str(tmp_path / "few.csv")
        ).output
        left_out = f"; {says.split('shown, ')[1]}" if says else ""
        assert wrote == f"wrote {listed} answers to {tmp_path / 'few.csv'}{left_out}\n"
        assert len((tmp_path / "few.csv").read_text().splitlines()) == listed + 1


def test_files_hold_all_that_is_known(hub: str, tmp_path: Path) -> None:
    for name in ("one.csv", "one.json", "one.nt"):
        assert (
            ask(hub, HUB, "--symbolic", "--out", str(tmp_path / name)).output
            == f"wrote 14 answers to {tmp_path / name}\n"
        )
    assert len((tmp_path / "one.csv").read_text().splitlines()) == 15
    assert len(json.loads((tmp_path / "one.json").read_text())["answers"]) == 14
    assert (tmp_path / "one.nt").read_text().count("/result-set#index>") == 14
    questions = tmp_path / "questions.txt"
    questions.write_text(f"{HUB}\n{DOT}\n{SELECT}\n")
    lines = ask(hub, "--file", str(questions), "--symbolic", "--json").output.splitlines()
    assert [len(json.loads(line)["answers"]) for line in lines] == [14, 3, 14]
    for options, counts, cut in (([], [14, 3, 14], 0), (["--top", "4"], [4, 3, 4], 2)):
        out = tmp_path / "many.csv"
        wrote = ask(hub, "--file", str(questions), "--symbolic", "--out", str(out), *options).output
        note = (
            f"; likely answers of {cut} are left out; --top all or a higher LIMIT lists more"
            if cut
            else ""
        )
        assert wrote == f"wrote the answers to 3 questions to {out}{note}\n"
        numbers = [line.split(",")[0] for line in out.read_text().splitlines()[1:]]
        assert [numbers.count(number) for number in "123"] == counts


def test_python_and_notebooks_say_it_in_parameters(hub: str) -> None:
    engine = Engine.of_facts(hub)
    answers = engine.ask(HUB)
    assert str(answers).endswith("10 shown, 14 known in all; top=None lists more")
    assert "<p>10 shown, 14 known in all; top=None lists more</p>" in answers._repr_html_()
    assert len(engine.ask(SELECT)) == len(engine.ask(HUB, top=None)) == 14


def test_where_not_all_known_pairs_are_counted_there_are_so_many_at_least(
    hub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine.of_facts(hub)
    question = "?x, ?y : leads(hub, ?x) & leads(hub, ?y)"
    assert str(engine.ask(question)).endswith("10 shown, 196 known in all; top=None lists more")
    monkeypatch.setattr(execute, "COUNTED", 100)
    answers = engine.ask(question)
    assert (answers.known_total, answers.known_at_least) == (100, True)
    assert str(answers).endswith("10 shown, at least 100 known in all; top=None lists more")
