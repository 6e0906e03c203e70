"""The example notebooks run from top to bottom, with small settings, and show what they promise."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from quick_world import quick_world
from source_tree import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
SMALL = {"TACIT_EPOCHS": "3", "TACIT_COUNT": "10", "TACIT_STEPS": "10", "OMP_NUM_THREADS": "1"}


def executed(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the code cells of a notebook show, as data by kind."""
    quick_world(folder / "cache")
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    for key, value in {**SMALL, "TACIT_CACHE": str(folder / "cache"), "PYTHONPATH": paths}.items():
        monkeypatch.setenv(key, value)
    notebook = nbformat.read(ROOT / "examples" / name, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return [dict(output.get("data", {"text/plain": output.get("text", "")})) for output in outputs]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_own_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = executed("own-graph.ipynb", tmp_path, monkeypatch)
    html = [output["text/html"] for output in shown if "text/html" in output]
    assert "2,310 entities" in html[0]
    assert html[1].count("<meter") == 6
    assert "<b>Czechia</b>" in html[1]
    assert "<th>known</th>" in html[2]
    assert shown[-1]["text/plain"] == "unknown relation 'boarders' at column 6; did you mean 'borders'?\n"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = executed("one-row.ipynb", tmp_path, monkeypatch)
    table = next(output["text/html"] for output in shown if "<th>avg_n</th>" in output.get("text/html", ""))
    assert all(f"<th>{shape}</th>" in table for shape in ("1p", "3in", "pni"))
    assert shown[-1]["image/svg+xml"].startswith("<svg")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_kept_without_output(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.outputs for cell in code] == [[]] * len(code)
    assert {cell.execution_count for cell in code} == {None}
