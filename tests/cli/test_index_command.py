"""`tacit index`, and questions through what it builds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ring_runs import GRAPH, SMALL, new_run
from tacit.cli import app
from tacit.errors import RunError
from tacit.links import index as index_top
from tacit.links.training.link_training import train
from tacit.run_folder.files import INDEX

pytest.importorskip("faiss")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = new_run(tmp_path / "run")
    train(GRAPH, SMALL, made, progress=False)
    return made.path


def called(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_an_index_is_built_and_asked(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = called("index", str(run), "--nlist", "3")
    assert "24 entities in 3 clusters" in said
    assert "exact search is faster" in said
    assert (run / INDEX).is_file()
    monkeypatch.setattr(index_top, "_DRAWN", 10)
    monkeypatch.setattr(index_top, "_SUMMED", 4)
    monkeypatch.setattr(index_top, "_EXACT", 2)
    question = "?x : exists ?y . next(n1, ?y) & next(?y, ?x)"
    reply = json.loads(
        called("ask", str(run), question, "--candidates", "index", "--nprobe", "3", "--json")
    )
    assert reply["estimated"] is True
    assert reply["certified"] is False
    assert reply["answers"][0]["entity"] == "n3"
    assert "Scores are estimates" in called("ask", str(run), question, "--candidates", "index")
    exact = json.loads(
        called("ask", str(run), question, "--search", "certified", "--candidates", "scan", "--json")
    )
    assert exact["estimated"] is False
    assert exact["certified"] is True


def test_a_run_without_an_index_says_what_to_do(run: Path) -> None:
    with pytest.raises(RunError, match="build one first"):
        called("ask", str(run), "?x : next(n1, ?x)", "--candidates", "index")
