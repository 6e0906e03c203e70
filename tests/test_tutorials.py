"""The tutorials walk: a page's blocks run as they stand, and print what the page shows."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from documents import TUTORIALS, Block, blocks, name
from source_tree import ROOT
from test_docs_run import is_installed

HERE = "http://127.0.0.1:8000"
SCORE = re.compile(r"\b[01]\.\d{3,}")
MOST_WORDS = 700  # of a page that is walked in ten minutes


@pytest.fixture
def newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, an empty cache, and `tacit` of this checkout on the path."""
    program = tmp_path / "bin" / "tacit"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nTACIT_CACHE={shlex.quote(str(tmp_path / 'cache'))} "
        f"PYTHONPATH={shlex.quote(str(ROOT / 'src'))} "
        f'exec {shlex.quote(sys.executable)} -m tacit "$@"\n'
    )
    program.chmod(0o755)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "work"


def shell(text: str) -> str:
    """What a block of the shell prints; what it installs is checked, and not installed."""
    lines = text.splitlines(keepends=True)
    for line in (line for line in lines if line.startswith("pip ")):
        is_installed(shlex.split(line)[2])
    script = "".join(line for line in lines if not line.startswith("pip "))
    done = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Walk:
    """A page from its first block to its last, in one Python and with at most one service."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.stack = stack
        self.names: dict[str, object] = {"__name__": "__main__"}
        self.address = HERE

    def run(self, block: Block) -> str:
        if block.language == "python":
            code = compile(block.text.replace(HERE, self.address), "page", "exec")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, self.names)
            return out.getvalue()
        if block.mark == "service":
            self.serve(block.text)
            return ""
        return shell(block.text)

    def serve(self, text: str) -> None:
        started = [*shlex.split(text), "--port", "0", "--workers", "1"]
        service = self.stack.enter_context(
            subprocess.Popen(started, stdout=subprocess.PIPE, text=True)
        )
        self.stack.callback(service.terminate)
        assert service.stdout
        self.address = re.findall(r"http://[\w.]+:\d+", service.stdout.readline())[0]


def assert_like(printed: str, shown: str) -> None:
    """Other processors round otherwise, so a score may differ by a little, and nothing else."""
    assert SCORE.sub("0.0", printed) == SCORE.sub("0.0", shown)
    for got, target in zip(SCORE.findall(printed), SCORE.findall(shown), strict=True):
        assert float(got) == pytest.approx(float(target), abs=0.05)


@pytest.mark.parametrize("page", TUTORIALS, ids=name)
def test_a_tutorial_walks_and_prints_what_it_shows(page: Path, newcomer: Path) -> None:
    compared = 0
    with contextlib.ExitStack() as stack:
        walk = Walk(stack)
        for block, after in pairwise([*blocks(page), Block("", "", "")]):
            printed = shown = None
            if block.language in ("sh", "python"):
                printed = walk.run(block)
                shown = after.text if after.language == "text" else None
            elif block.language == "console":
                call, _, shown = block.text.removeprefix("$ ").partition("\n")
                printed = shell(call)
            if printed is not None and shown is not None:
                assert_like(printed, shown)
                compared += 1
    assert compared


@pytest.mark.parametrize("page", TUTORIALS, ids=name)
def test_a_tutorial_is_read_in_ten_minutes(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").split()) <= MOST_WORDS


def test_what_is_shown_is_compared() -> None:
    line = "3. Emil  0.543  predicted"
    assert_like(line, line.replace("0.543", "0.550"))
    for other in (line.replace("0.543", "0.643"), line.replace("Emil", "Gus")):
        with pytest.raises(AssertionError):
            assert_like(line, other)
