"""The README is short; the answers that pages show are those of `world`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from documents import blocks, commands
from source_tree import ROOT
from tacit.cli import app

README = ROOT / "README.md"
HOW_IT_WORKS = ROOT / "docs" / "how-it-works.md"
WORDS = 900  # of the README, at most
LINE = re.compile(
    r"^(?P<place>\s+\d+\.)?\s*(?P<what>.+?)  +(?P<score>\d\.\d{3})\s+(?P<mark>known|predicted)$"
)
SHARE = re.compile(
    r"^\s+(?P<what>\d of \d atoms) (?P<mark>predicted)$|^(?P<shown>4 shown, .*) lists "
    r"(?P<more>more)$"
)
EVIDENCE = re.compile(
    r"^ {10,}(?P<what>because|against it|also|and in|rules carry|no rule|nearest)\b.*(?P<mark>)$"
)


def shown() -> tuple[str, str]:
    """The command of the example, and the answers it shows."""
    (text,) = (block.text for block in blocks(HOW_IT_WORKS) if block.language == "console")
    call, _, printed = text.partition("\n")
    return call.removeprefix("$ "), printed


def lines(printed: str) -> list[tuple[str, str, float]]:
    """The parts of an answer's lines: the answer, its atom or count, its mark, its score."""
    forms = LINE, SHARE, EVIDENCE
    found = [
        next(filter(None, (form.match(line) for form in forms)), None)
        for line in printed.splitlines()[1:]
    ]
    assert all(found), printed
    named = [{"shown": None, "more": None, "score": 1} | line.groupdict() for line in found if line]
    return [
        (line["what"] or line["shown"], line["mark"] or line["more"], float(line["score"]))
        for line in named
    ]


def test_world_answers_as_the_pages_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # empty: `world` is trained, once for both pages
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path))
    the_example_answers_as_shown()
    an_atom_scores_as_shown_from_either_side()
    a_missing_value_is_predicted_as_the_readme_says()


def a_missing_value_is_predicted_as_the_readme_says() -> None:
    import tacit

    readme = " ".join(README.read_text(encoding="utf-8").split())
    run = tacit.open("world", observed="train+valid")
    known, predicted = run.ask("?c : borders(France, ?c) & latitude(?c) > 50", top=2)
    assert (known.entity, known.known) == ("Germany", True)
    assert (predicted.entity, predicted.known) == ("Belgium", False)
    (stated,) = re.findall(r"Belgium with (0\.\d\d),", readme)
    assert predicted.score == pytest.approx(float(stated), abs=0.05)
    assert f"predicted as {run.value('Belgium', 'latitude')};" in readme


def the_example_answers_as_shown() -> None:
    call, expected = shown()
    (command,) = commands(call)
    done = CliRunner().invoke(app, command.words[1:], catch_exceptions=False)
    printed = done.stdout
    assert printed.splitlines()[0] == expected.splitlines()[0]
    for got, target in zip(lines(printed), lines(expected), strict=True):
        assert got[:2] == target[:2]
        assert got[2] == pytest.approx(target[2], abs=0.05)  # other processors round otherwise


def an_atom_scores_as_shown_from_either_side() -> None:
    import tacit

    run = tacit.open("world", observed="train+valid")
    page = HOW_IT_WORKS.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\?.*? : .*?)` \|.*\| (0\.\d\d) \|$", page, flags=re.MULTILINE)
    assert len(rows) == 3
    for question, score in rows:
        atoms = [
            atom for answer in run.explain(question, top=20) for atom in answer.witnesses[0].atoms
        ]
        scores = [
            atom.score for atom in atoms if str(atom).startswith("capital_of(Georgetown, Guyana) ")
        ]
        assert scores == [pytest.approx(float(score), abs=0.05)], question


def test_the_example_predicts_a_fact_it_was_not_told() -> None:
    from tacit.graph.datasets import load

    graph = load("world")
    names = ["Georgetown", "Guyana"]
    head, tail = (graph.entities.id(name) for name in names)
    assert [head, graph.relations.id("capital_of"), tail] in graph.test.tolist()
    assert ("capital_of(Georgetown, Guyana)", "predicted") in [
        line[:2] for line in lines(shown()[1])
    ]


def test_the_picture_is_small_enough_to_load() -> None:
    picture = (ROOT / "docs" / "images" / "page.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 300_000


def test_the_readme_is_read_in_three_minutes() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.split()) <= WORDS
    assert len(re.findall(r"!\[", text)) == 1
    assert len(re.findall(r"^\|[-|: ]+\|$", text, flags=re.MULTILINE)) == 1
    assert len(blocks(README)) == 1


def test_the_first_lines_install_and_walk() -> None:
    (block,) = blocks(README)
    first, second, third, *checkout = [command.words for command in commands(block.text)]
    assert (first, second) == (("pip", "install", "tacit-kg"), ("tacit", "demo"))
    assert third[:3] == ("tacit", "ask", "world")
    assert checkout == [("make", "demo"), ("make", "test")]


def test_the_question_of_the_readme_is_the_one_that_is_explained() -> None:
    (block,) = blocks(README)
    (asked,) = (c.words[3] for c in commands(block.text) if c.words[:2] == ("tacit", "ask"))
    (explained,) = (c.words[3] for c in commands(shown()[0]))
    assert asked == explained
    places = [what for what, mark, _ in lines(shown()[1]) if re.fullmatch(r"[A-Z]\w+", what)]
    assert places.index("Georgetown") == 3  # the fourth, as the README says
