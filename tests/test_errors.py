"""Errors: the tree, and how the command line shows one."""

from __future__ import annotations

import ast
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from source_tree import modules
from tacit import cli, errors
from tacit.errors import DataError, QueryError, SettingsError, TacitError, UnknownName

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, TacitError)
]
KINDS = [value for value in CLASSES if value is not TacitError]
COMMANDS: Any = typer.main.get_command(cli.app)


def test_at_most_eight_kinds_each_with_a_sentence() -> None:
    assert 1 <= len(KINDS) <= 8
    assert all(kind.__bases__ == (TacitError,) and kind.__doc__ for kind in KINDS)


def test_the_tree_is_drawn_in_the_docstring() -> None:
    drawn = [
        line.split("── ")[1].split()[0]
        for line in (errors.__doc__ or "").splitlines()
        if "── " in line
    ]
    assert drawn == [kind.__name__ for kind in KINDS]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DataError("is empty", "facts.tsv"), "facts.tsv: is empty"),
        (DataError("has two columns", Path("facts.tsv"), 7), "facts.tsv, line 7: has two columns"),
        (DataError("no graph"), "no graph"),
        (
            UnknownName("relation", "boarders", ["borders"], 1, 9),
            "unknown relation 'boarders' at column 9; did you mean 'borders'?",
        ),
        (UnknownName("entity", "Zz"), "unknown entity 'Zz'"),
        (UnknownName("entity", "a", ["b", "c"]), "unknown entity 'a'; did you mean 'b' or 'c'?"),
        (QueryError("expected ')'", 2, 3), "expected ')' at line 2, column 3"),
    ],
)
def test_messages_say_what_and_where(error: TacitError, message: str) -> None:
    assert str(error) == message


def test_an_unknown_name_is_shown_at_a_readable_length() -> None:
    assert len(str(UnknownName("entity", "x" * 10_000))) < 120


def test_what_a_message_quotes_leaves_its_end_to_be_read() -> None:
    message = str(DataError(f"has {'x' * 10**6}; delete it", "a.tsv"))
    assert len(message) <= 1000
    assert message.startswith("a.tsv: has xxx")
    assert message.endswith("xxx; delete it")
    assert len(str(UnknownName("entity", "Oslo", ["x" * 10**6]))) < 200


def test_a_located_error_keeps_its_suggestions() -> None:
    error = UnknownName("entity", "Frnace", ["France"]).located(2, 5)
    assert str(error) == "unknown entity 'Frnace' at line 2, column 5; did you mean 'France'?"


def raise_data_error() -> None:
    raise DataError("has two columns;\nthree are expected", "facts.tsv", 7)


def test_the_command_line_prints_one_line_and_exits_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "app", raise_data_error)
    monkeypatch.setattr(sys, "argv", ["tacit", "data", "describe", "facts.tsv"])
    with pytest.raises(SystemExit) as exit:
        cli.main()
    assert exit.value.code == 2
    assert capsys.readouterr() == (
        "",
        "error: facts.tsv, line 7: has two columns; three are expected\n",
    )


def test_the_command_line_adds_the_command_that_helps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tacit", "eval", "nowhere"])
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().err == (
        "error: there is no run 'nowhere'; train one on a graph first (tacit train GRAPH --out "
        "RUN)\n"
    )
    error = SettingsError("search is 'x'", "search", command="encode RUN")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.parameter, again.command) == ("search is 'x'", "search", "encode RUN")
    assert "encode" not in json.dumps(error.to_dict())  # which is for others than the shell


def raised(module: ast.Module) -> Iterator[ast.AST]:
    """All that stands in the `raise` statements of a module."""
    for node in ast.walk(module):
        if isinstance(node, ast.Raise):
            yield from ast.walk(node)


def test_messages_of_the_library_name_no_command_and_errors_only_those_that_exist() -> None:
    known = COMMANDS.commands
    problems = []
    named = set()
    for name, path in modules().items():
        if name.startswith("tacit.cli"):
            continue
        for node in raised(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                problems += (
                    [(name, node.value)]
                    if re.search(rf"tacit ({'|'.join(known)})\b", node.value)
                    else []
                )
            if (
                isinstance(node, ast.keyword)
                and node.arg == "command"
                and isinstance(node.value, ast.Constant)
            ):
                named.add(str(node.value.value))
    assert problems == []
    assert {"train", "data split", "index RUN"} <= named
    for words in map(str.split, named):
        within = known[words[0]]
        assert not hasattr(within, "commands") or words[1] in within.commands


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "app", raise_data_error)
    monkeypatch.setattr(sys, "argv", ["tacit", "--debug", "data", "describe", "facts.tsv"])
    with pytest.raises(DataError):
        cli.main()


def test_an_unknown_command_is_a_usage_error_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tacit", "dta"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "dta" in done.stderr
    assert "Traceback" not in done.stderr
