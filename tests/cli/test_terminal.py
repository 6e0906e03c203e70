"""What terminals show: labels of other people, notes below answers, and how commands end."""

from __future__ import annotations

import contextlib
import io
import json
import re
import signal
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
import typer
from rich.console import Console

from tacit.cli import main
from tacit.cli.ask import _show, show_on
from tacit.cli.terminal import resumable
from tacit.engine.answers.answers import Answers
from tacit.engine.engine import Engine
from tacit.engine.settings import EngineSettings
from tacit.errors import RunError
from tacit.graph.graph import Graph

ENTITIES = [f"\x1b[2J{i}\x9b\x07" for i in range(8)]
RELATION = "\x1b]0;owned\x07"


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("facts")
    ring = [
        f"{head}\t{RELATION}\t{tail}\n"
        for head, tail in zip(ENTITIES, ENTITIES[1:] + ENTITIES[:1], strict=True)
    ]
    for split, lines in (("train", ring[:7] + ring[:1]), ("valid", ring[7:]), ("test", ring[7:])):
        (folder / f"{split}.tsv").write_text("".join(lines))
    return folder


def printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> str:
    """Return the output of a command for people."""
    monkeypatch.setattr(sys, "argv", ["tacit", *map(str, arguments)])
    with pytest.raises(SystemExit):
        main()
    return "".join(capsys.readouterr())


def test_no_command_prints_control_characters(
    facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run\x1b[2J"
    question = ("?x : $r($who, ?x)", "--param", f"r={RELATION}", "--param")
    known = (*question, f"who={ENTITIES[0]}")
    unknown = (*question, f"who={ENTITIES[0]}!")
    (tmp_path / "questions").write_text(f"?x : r({ENTITIES[0]}, ?x)\n")
    for command in (
        ("train", facts, "--out", run, "--epochs", 1, "--rank", 2),
        ("train", facts, "--out", run),
        ("ask", run, *known, "--explain"),
        ("ask", run, *unknown),
        ("ask", run, "--file", tmp_path / "questions"),
        ("plan", *known),
        ("complete", run, "--min-score", 0.001),
        ("eval", run, "--split", "valid", "--per-relation"),
        ("compare", run, "--split", "valid", "--shapes", "1p"),
        ("data", "describe", facts),
        ("sample", facts, "--out", tmp_path / "drawn\x1b[2J", "--shapes", "1p"),
        ("add", run, facts),
    ):
        shown = printed(monkeypatch, capsys, *command)
        assert "\\x1b" in shown or command[0] == "sample", command
        assert not [
            letter for letter in shown if unicodedata.category(letter) == "Cc" and letter != "\n"
        ], shown
    reply = json.loads(printed(monkeypatch, capsys, "ask", run, *known, "--json"))
    assert {answer["entity"] for answer in reply["answers"]} <= set(ENTITIES)  # JSON is exact


def test_a_label_is_on_one_line() -> None:
    graph = Graph.of([("a\nb", "r", "  1. x  1.000  known\n  2. y")])
    answers = Engine.of_facts(graph).ask("?x : r($who, ?x)", explain=True, who="a\nb")
    assert len(str(answers).split("\n")) == 3  # the question, its answer, and why


def test_a_training_is_interrupted_before_torch_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C may come while torch is imported, and a second import of the half fails."""
    monkeypatch.delitem(sys.modules, "tacit.distributed.shards", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(typer.Exit) as ended, resumable():
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize("error", [AttributeError("numpy has no intp"), RunError("no run")])
def test_an_import_that_ctrl_c_breaks_off_is_interrupted_however_it_fails(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        with contextlib.suppress(KeyboardInterrupt):  # as code in C does
            signal.raise_signal(signal.SIGINT)
        raise error

    monkeypatch.setattr("tacit.cli.app", command)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as end:
            main()
    finally:
        signal.signal(signal.SIGINT, before)
    assert end.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize("ends", ["raise", "exit"])
def test_an_interrupted_command_frees_nothing_before_it_ends(ends: str) -> None:
    """Millions of objects take seconds to free."""
    code = f"""
import sys, tacit.cli

class Large:
    def __del__(self):
        print("freed")

def command():
    read = Large()
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        if {ends!r} == "raise":
            raise
        broken = RuntimeError()
        broken.__cause__ = error
        try:
            raise broken
        except RuntimeError:
            sys.exit(130)

tacit.cli.app = command
tacit.cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


@pytest.mark.parametrize("candidates", ["rows", "index"])
@pytest.mark.parametrize("piped", [True, False])
def test_what_a_list_advises_is_said_in_flags(
    candidates: str, piped: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """In Python the same note has a parameter, and flags that it names work as they are."""
    answers = Answers("?x : q(?x)", (), False, settings={"candidates": candidates})
    console = Console(file=io.StringIO(), width=200)
    if piped:
        _show(answers)
    else:
        show_on(console, answers)
    said = capsys.readouterr().out + console.file.getvalue()  # type: ignore[attr-defined]
    advised = re.search(r"; (--\w+) (\w+) (?:keeps|misses)", said)
    assert advised is not None, said
    setting, value = advised[1].removeprefix("--"), advised[2]
    assert getattr(EngineSettings.of({setting: value}), setting) == value
    assert f"; {setting}='{value}' " in str(answers)
