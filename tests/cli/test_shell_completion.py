"""What a shell completes, asked as bash asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from tacit.cli import app
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.links.models import MODELS
from tacit.query.sampling.shapes import SHAPES
from tacit.run_folder.folder import RunFolder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="bash splits words at backslashes")


def completed(line: str) -> list[str]:
    """The words that complete the last one of a line."""
    words = line.split(" ")
    environment = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TACIT_COMPLETE": "complete_bash",
    }
    return (
        CliRunner()
        .invoke(app, env=environment, prog_name="tacit", catch_exceptions=False)
        .output.split()
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with runs and others."""
    monkeypatch.chdir(tmp_path)
    graph = Graph.of([("a", "likes", "b"), ("a", "like wise", "b"), ("b", "hates", "a")])
    RunFolder.create(tmp_path / "runs" / "mine", graph, {})
    RunFolder.create(tmp_path / "rural", graph, {})
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / ".runs").mkdir()
    return tmp_path


def test_commands_and_options_are_completed() -> None:
    assert completed("tacit tr") == ["train"]
    assert "--columns" in completed("tacit train --co")


def test_runs_are_completed(folder: Path) -> None:
    for command in ("ask", "serve", "adapt", "eval", "complete", "report", "index"):
        assert set(completed(f"tacit {command} ru")) == {"runs/mine", "rural"}
    assert completed("tacit ask runs/") == ["runs/mine"]
    assert completed(f"tacit ask {folder}/rur") == [str(folder / "rural")]
    for name in ("runs/saved.tacit", "saved.tacit", "saved.tsv"):
        (folder / name).touch()
    assert completed("tacit ask runs/s") == ["runs/saved.tacit"]
    assert completed("tacit ask sav") == ["saved.tacit"]
    assert completed("tacit ask w") == ["world"]
    assert completed("tacit ask nowhere/at/all/") == []


def test_choices_shapes_and_relations_are_completed(folder: Path) -> None:
    assert completed("tacit train x --model ") == [*MODELS, "rules"]
    assert completed("tacit ask world --logic go") == ["godel"]
    assert completed("tacit eval world --shapes 2i,3i") == [
        f"2i,{name}" for name in SHAPES if name.startswith("3i")
    ]
    assert completed("tacit sample world --shapes pos") == ["positive"]
    # the other one needs quotes
    assert completed("tacit complete rural --relation li") == ["likes"]
    assert completed("tacit complete rural --relation hates --relation ") == ["likes", "hates"]
    expected = [label for label in load("world").relations.labels[0::2] if label.startswith("in")]
    assert completed("tacit complete world --relation in") == expected
    assert completed("tacit complete nowhere --relation ") == []


def commands(group: Any, name: str = "tacit") -> Iterator[tuple[str, Any]]:
    """Every command with its whole name."""
    for each, command in group.commands.items():
        whole = f"{name} {each}"
        yield from commands(command, whole) if hasattr(command, "commands") else [(whole, command)]


def test_every_option_completes_to_the_words_that_its_help_names() -> None:
    completing = 0
    for name, command in commands(get_command(app)):
        for option in command.params:
            words = (option.metavar or "").split("|")
            if (
                option.param_type_name == "option"
                and len(words) > 1
                and not any(word.isupper() for word in words)
            ):
                assert set(completed(f"{name} {option.opts[0]} ")) == set(words), (
                    name,
                    option.opts,
                )
                completing += 1
    assert completing > 30


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_takes_the_script(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "tacit").write_text(
        f"#!{sys.executable}\nfrom tacit.cli import main\nmain()\n"
    )
    (folder / "bin" / "tacit").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    # the parent of a test is no shell
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setattr("typer.testing._get_command", get_command)  # made by what that says
    script = CliRunner().invoke(app, ["--show-completion", "bash"], prog_name="tacit").output
    lines = (
        f"{script}\nCOMP_WORDS=(tacit ask rur); COMP_CWORD=2; _tacit_completion tacit; "
        f"echo ${{COMPREPLY[@]}}"
    )
    done = subprocess.run(
        ["bash", "-c", lines], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["rural"], done.stderr
