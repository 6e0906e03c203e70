"""What a source names: paths first, then the world, which is trained on first use and kept."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tacit
from quick_world import quick_world
from tacit.cli import app
from tacit.errors import RunError, SettingsError, TacitError
from tacit.graph.formats.betae import write_betae
from tacit.graph.graph import Graph
from tacit.run import world as training

QUESTION = "?c : borders(France, ?c)"
RING = Graph.of([("a", "knows", "b"), ("b", "knows", "c"), ("c", "knows", "a")], name="world")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a world that is trained in two epochs."""
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(training, "WORLD", replace(training.WORLD, epochs=2, rank=8))
    return tmp_path / "cache"


def test_the_world_is_trained_once_and_kept(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadPoolExecutor(2) as both:  # of which one waits for the other
        answers, same = both.map(
            lambda name: tacit.open(name).ask(QUESTION, top=8), ["world", "world"]
        )
    assert same == answers
    assert set(answers.entities) == {
        "Andorra", "Belgium", "Germany", "Italy", "Luxembourg", "Monaco", "Spain", "Switzerland",
    }  # fmt: skip
    assert all(answer.known for answer in answers)
    (folder,) = cache.iterdir()
    assert capsys.readouterr().err == f"training world once; it is kept in {folder}\n"
    assert tacit.open("world").ask(QUESTION, top=8) == answers
    assert capsys.readouterr().err == ""


def test_a_training_that_broke_off_starts_again(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tacit.open("world")
    (folder,) = cache.iterdir()
    (folder / "model.safetensors").unlink()
    capsys.readouterr()
    assert tacit.open("world").ask(QUESTION)
    assert "training world once" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "file"))
    with pytest.raises(RunError, match="set TACIT_CACHE to a folder that can be written"):
        tacit.open("world")


@pytest.mark.parametrize("kind", ["folder", "run"])
def test_a_path_that_exists_is_meant_before_a_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    if kind == "run":
        tacit.train(RING, "world", progress=False, rank=4, epochs=1)
        assert tacit.open("world").graph.entities == RING.entities
    else:
        write_betae(RING, "world")
        assert tacit.open("world").graph.entities == RING.entities
    assert tacit.load("world").entities == RING.entities
    (name, described), *_ = [line.split(":") for line in data_describe("world")]
    assert described.startswith(" 3 entities, 1 relations, 3 facts"), name
    assert not list((tmp_path / "cache").glob("world-*"))


def data_describe(source: str) -> list[str]:
    return (
        CliRunner()
        .invoke(app, ["data", "describe", source], catch_exceptions=False)
        .output.splitlines()
    )


def test_a_run_is_taken_wherever_a_graph_is(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    tacit.train(RING, run, progress=False, rank=4, epochs=1)
    assert tacit.load(run).entities == RING.entities
    assert len(tacit.sample(run, shapes="1p", count=3)["1p"].queries) == 3
    assert (
        tacit.train(run, tmp_path / "again", progress=False, rank=4, epochs=1).graph.entities
        == RING.entities
    )
    for arguments in (
        ["plan", "?x : knows(a, ?x)", "--graph", run],
        ["ask", run, "?x : knows(a, ?x)", "--symbolic"],
    ):
        assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0


def test_standard_input_is_read_by_one_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for source in ("-", ["facts.tsv", "-"]):
        with pytest.raises(SettingsError, match="standard input can be read by one process alone"):
            tacit.load(source)


def test_names_that_no_path_can_have(tmp_path: Path) -> None:
    for name in ("x" * 5000, "a\0b"):
        with pytest.raises(TacitError):
            tacit.load(name)
        with pytest.raises(TacitError):
            tacit.open(name)


def test_a_world_trained_with_other_settings_is_not_taken(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tacit.open("world")
    monkeypatch.setattr(training, "WORLD", replace(training.WORLD, rank=4))
    capsys.readouterr()
    assert tacit.open("world").engine.scorer.entities.width == 8  # two numbers for each of rank 4
    assert "training world once" in capsys.readouterr().err


def test_asking_loads_nothing_it_does_not_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path))
    quick_world(tmp_path)
    code = (
        "import sys; sys.argv = ['tacit', 'ask', 'world', '?c : borders(France, ?c)']\n"
        "from tacit.cli import app\n"
        "app(standalone_mode=False)\n"
        "needless = ('rich.', 'rdflib', 'matplotlib', 'pandas', 'fastapi', "
        "'tacit.links.training.l', 'tacit.adapt.a')\n"
        "print([name for name in sys.modules if name.startswith(needless)])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
