"""Every command and piece of Python in the documentation runs, with small settings."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from documents import PAGES, TUTORIALS, Command, blocks, commands, name
from project import EXTRAS, PROJECT
from quick_world import quick_world
from source_tree import ROOT
from tacit.cli import app, main

# Appended to the commands of the pages: the last of two equal options counts.
SMALL = {
    "train": "--epochs 1 --rank 8",
    "adapt": "--steps 2 --count 30 --validate-every 1 --batch 32",
    "sample": "--count 10",
    "eval": "--limit 10",
    "encode": "--steps 3 --width 8 --hidden 8 --layers 1 --batch 8 --negatives 8 "
    "--validate-queries 1",
    "compare": "--limit 5",
}
# The same for Python, in place of what a page says.
SMALL_ENCODER: dict[str, object] = {
    "steps": 3, "width": 8, "hidden": 8, "layers": 1, "batch": 8, "negatives": 8,
    "validate_queries": 1,
}  # fmt: skip
SMALL_CALLS: dict[str, dict[str, object]] = {
    "tacit.run.training.train": {"epochs": 1, "rank": 8, "progress": False},
    "tacit.run.training.train_encoder": {**SMALL_ENCODER, "progress": False},
    "tacit.run.run.Run.encode": SMALL_ENCODER,
    "tacit.run.compare.compare": {"limit": 5},
    "tacit.run.run.Run.adapt": {"steps": 2, "count": 30, "validate_every": 1, "batch": 32},
    "tacit.run.run.Run.evaluate": {"limit": 10},
}
# those of tutorials run in full: tests/test_tutorials.py
RUN = [page for page in PAGES if page.name != "cli.md" and page not in TUTORIALS]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds `world`, hardly trained."""
    return quick_world(tmp_path_factory.mktemp("cache")).parent


def tacit(words: tuple[str, ...]) -> None:
    assert words[1] != "serve", "a block that serves is marked: ```sh service"
    small = [] if "rules" in words else SMALL.get(words[1], "").split()  # mining is quick
    done = CliRunner().invoke(app, [*words[1:], *small])
    assert done.exit_code == 0, f"{' '.join(words)}: {done.exception}\n{done.output}"


def make(words: tuple[str, ...]) -> None:
    targets = re.findall(
        r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert {word for word in words[1:] if "=" not in word} <= set(targets)


def is_installed(what: str) -> None:
    """Check what is installed: the distribution or the checkout, with extras that there are."""
    name, _, extras = what.partition("[")
    assert name in {PROJECT["name"], "."}, what
    assert set(re.findall(r"\w[\w-]*", extras)) <= set(EXTRAS), what


def pip(words: tuple[str, ...]) -> None:
    assert words[1] == "install"
    is_installed(words[2])


def tool(words: tuple[str, ...]) -> None:
    """Check a line of uv or pipx: what it installs, and run the command that it calls."""
    place = next((words.index(flag) for flag in ("--from", "--spec") if flag in words), None)
    if place is None:
        assert words[:-1] in [("uv", "tool", "install"), ("pipx", "install")], words
        is_installed(words[-1])
    else:
        assert words[:place] in [("uvx",), ("pipx", "run")], words
        is_installed(words[place + 1])
        tacit(words[place + 2 :])


def python(words: tuple[str, ...]) -> None:
    if words[1] == "-m":
        assert importlib.util.find_spec(words[2]), words
    else:
        assert (ROOT / words[1]).exists(), words


def pytest_(words: tuple[str, ...]) -> None:
    assert all((ROOT / word).exists() for word in words[1:] if not word.startswith("-")), words


PROGRAMS = {
    "tacit": tacit,
    "make": make,
    "pip": pip,
    "uvx": tool,
    "uv": tool,
    "pipx": tool,
    "python": python,
    ".venv/bin/pytest": pytest_,
}


def run(command: Command) -> None:
    if command.words[0] == "cat":
        Path(command.words[2]).write_text(command.text, encoding="utf-8")
    else:
        assert command.words[0] in PROGRAMS, f"nobody runs {' '.join(command.words)}"
        PROGRAMS[command.words[0]](command.words)


def with_options(
    function: Callable[..., object], options: dict[str, object]
) -> Callable[..., object]:
    def call(*arguments: object, **named: object) -> object:
        quick = named.get("model") == "rules"  # which has no epochs to spare
        return function(*arguments, **(named if quick else named | options))

    return call


def run_python(text: str, names: dict[str, object], page: str) -> None:
    if ">>>" not in text:
        exec(compile(text, page, "exec"), names)
        return
    examples = doctest.DocTestParser().get_doctest(text, names, page, page, 0)
    assert doctest.DocTestRunner(verbose=False).run(examples, clear_globs=False).failed == 0
    names.update(examples.globs)


@pytest.mark.parametrize("page", RUN, ids=name)
def test_what_a_page_shows_runs(
    page: Path,
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TACIT_CACHE", str(cache))
    if "--out runs/world\n" not in page.read_text(encoding="utf-8"):
        shutil.copytree(next(cache.glob("world-*")), tmp_path / "runs" / "world")
    for place, options in SMALL_CALLS.items():
        monkeypatch.setattr(place, with_options(pkgutil.resolve_name(place), options))
    names: dict[str, object] = {}
    for block in blocks(page):
        if block.mark:  # needs data or a GPU, or the service of the test below
            continue
        if block.language == "sh":
            for command in commands(block.text):
                run(command)
        if block.language == "python":
            run_python(block.text, names, name(page))


@pytest.mark.skipif(shutil.which("curl") is None, reason="the pages ask with curl")
def test_the_service_answers_as_its_pages_show(cache: Path, tmp_path: Path) -> None:
    pages = [block for page in ("http.md", "sparql.md") for block in blocks(ROOT / "docs" / page)]
    shown = [block for block in pages if block.mark == "service"]
    serve, *requests = (
        command.words
        for block in shown
        if block.language == "sh"
        for command in commands(block.text)
    )
    environment = os.environ | {"TACIT_CACHE": str(cache), "PYTHONPATH": str(ROOT / "src")}
    started = [sys.executable, "-m", *serve, "--port", "0", "--workers", "1"]
    with subprocess.Popen(
        started, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    ) as service:
        try:
            assert service.stdout
            address = re.findall(r"http://[\w.]+:\d+", service.stdout.readline())[0]
            one, many, table = (
                subprocess.run(
                    [word.replace("http://127.0.0.1:8000", address) for word in ask],
                    capture_output=True,
                    check=True,
                ).stdout.decode()
                for ask in requests
            )
            assert len(json.loads(one)["answers"]) == 3
            assert [reply["kind"] for reply in json.loads(many)] == ["entities", "truth"]
            assert table.splitlines()[0] == "n,city"
            printed = []
            for text in (block.text for block in shown if block.language == "python"):
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(
                        compile(text.replace("http://127.0.0.1:8000", address), "page", "exec"), {}
                    )
                printed.append(out.getvalue())
            client, store, wrapper, joined = printed
            assert client.count("\n") == 3
            assert store.startswith("tacit:")
            assert wrapper == "True\n"
            assert "http://me.example/ann tacit:France tacit:French\n" in joined
        finally:
            service.terminate()


def consoles() -> list[tuple[str, str]]:
    """Commands shown with their output; the README's need a trained graph of their own."""
    shown = [
        block.text.partition("\n")
        for page in RUN
        for block in blocks(page)
        if block.language == "console"
    ]
    return [
        (call, printed) for call, _, printed in shown if not call.startswith("$ tacit ask world")
    ]


@pytest.mark.parametrize(("call", "printed"), consoles())
def test_a_console_prints_what_it_shows(
    call: str, printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (command,) = commands(call.removeprefix("$ "))
    monkeypatch.setattr("sys.argv", list(command.words))
    with pytest.raises(SystemExit):
        main()
    assert "".join(capsys.readouterr()) == printed


def test_commands_are_read_as_a_shell_reads_them() -> None:
    block = (
        "make test  # why\ncat > a.tsv <<'END'\nx\ty\tz\nEND\ntacit ask a '?x : r(b, ?x)' \\\n"
        "  --symbolic\n"
    )
    assert list(commands(block)) == [
        Command(("make", "test")),
        Command(("cat", ">", "a.tsv"), "x\ty\tz\n"),
        Command(("tacit", "ask", "a", "?x : r(b, ?x)", "--symbolic")),
    ]
