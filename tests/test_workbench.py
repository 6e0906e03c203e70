"""Opening and training from Python: the world on first use, and where it is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tacit
from quick_world import quick_world
from tacit import workbench
from tacit.errors import RunError
from tacit.graph.graph import Graph

QUESTION = "?c : borders(France, ?c)"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a world that is trained in two epochs."""
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(workbench, "WORLD", replace(workbench.WORLD, epochs=2, rank=8))
    return tmp_path / "cache"


def test_the_world_is_trained_once_and_kept(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = tacit.open("world").ask(QUESTION, top=8)
    assert set(answers.entities) == {
        "Andorra", "Belgium", "Germany", "Italy", "Luxembourg", "Monaco", "Spain", "Switzerland",
    }  # fmt: skip
    assert all(answer.known for answer in answers)
    (folder,) = cache.iterdir()
    assert capsys.readouterr().err == f"training world once; it is kept in {folder}\n"
    assert tacit.open("world").ask(QUESTION, top=8) == answers
    assert capsys.readouterr().err == ""


def test_a_training_that_broke_off_starts_again(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tacit.open("world")
    (folder,) = cache.iterdir()
    (folder / "model.safetensors").unlink()
    capsys.readouterr()
    assert tacit.open("world").ask(QUESTION)
    assert "training world once" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "file"))
    with pytest.raises(RunError, match="set TACIT_CACHE to a folder that can be written"):
        tacit.open("world")


def test_a_graph_of_ones_own_is_trained_and_opened_again(tmp_path: Path) -> None:
    graph = Graph.of([("a", "knows", "b"), ("b", "knows", "c"), ("c", "knows", "a")])
    engine = tacit.train(graph, tmp_path / "run", progress=False, rank=4, epochs=2)
    asked = "?x : exists ?y . knows(a, ?y) & knows(?y, ?x)"
    assert engine.ask(asked, top=1).entities == ["c"]
    assert tacit.open(tmp_path / "run").ask(asked, top=1) == engine.ask(asked, top=1)


def test_a_world_trained_with_other_settings_is_not_taken(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tacit.open("world")
    monkeypatch.setattr(workbench, "WORLD", replace(workbench.WORLD, rank=4))
    capsys.readouterr()
    assert tacit.open("world").scorer.entities.width == 8  # two numbers for each of rank 4
    assert "training world once" in capsys.readouterr().err


def test_asking_loads_nothing_it_does_not_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path))
    quick_world(tmp_path)
    code = (
        "import sys; sys.argv = ['tacit', 'ask', 'world', '?c : borders(France, ?c)']\n"
        "from tacit.cli import app\n"
        "app(standalone_mode=False)\n"
        "needless = ('rich.', 'rdflib', 'matplotlib', 'pandas', 'fastapi', 'tacit.links.training', 'tacit.adapt.a')\n"
        "print([name for name in sys.modules if name.startswith(needless)])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
