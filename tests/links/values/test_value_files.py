"""Fitted attributes in run folders: read as they were written, and fitted again where they fail."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tacit.errors import RunError
from tacit.graph.graph import Graph
from tacit.links.values import value_files
from tacit.links.values.fitting import fit_values
from tacit.links.values.value_files import RunValues, complete_values, load_values
from tacit.run_folder.files import VALUES
from tacit.run_folder.folder import RunFolder
from value_graphs import places


@pytest.fixture
def graph() -> Graph:
    return places(120)


@pytest.fixture
def folder(graph: Graph, tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", graph, {"model": "complex"})


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """The graphs that were fitted."""
    found: list[Graph] = []

    def counted(graph: Graph, *arguments: object) -> object:
        found.append(graph)
        return fit_values(graph, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(value_files, "fit_values", counted)
    return found


def test_they_are_read_as_they_were_written(
    folder: RunFolder, graph: Graph, fits: list[Graph]
) -> None:
    complete_values(folder, graph, False)
    read, fitted = load_values(folder, graph), fit_values(graph)
    for attribute in (0, 1):
        one, two = read.fitted[attribute], fitted.fitted[attribute]
        assert one is not None
        assert two is not None
        assert one.held_out == two.held_out
        for low, high in ((0.0, 10.0), (-np.inf, 1000.0)):
            assert torch.equal(
                read.probability(attribute, low, high), fitted.probability(attribute, low, high)
            )
    complete_values(folder, graph, False)
    assert len(fits) == 1
    assert set(folder.results()["values"]["held_out_error"]) == {"latitude", "people"}


def test_damage_and_foreign_files_are_replaced(
    folder: RunFolder, graph: Graph, fits: list[Graph], tmp_path: Path
) -> None:
    complete_values(folder, graph, False)
    whole = (folder.path / VALUES).read_bytes()
    other = places(120, seed=9)
    foreign = RunFolder.create(tmp_path / "other", other, {"model": "complex"})
    complete_values(foreign, other, False)
    fits.clear()
    for content in (whole[:100], b"", (foreign.path / VALUES).read_bytes()):
        (folder.path / VALUES).write_bytes(content)
        with pytest.raises(RunError):
            load_values(folder, graph)
        assert RunValues(folder, graph).predicted(0, 0) is not None
        assert load_values(folder, graph).predicted(0, 0) == RunValues(folder, graph).predicted(
            0, 0
        )
    assert len(fits) == 3


def test_impossible_numbers_are_refused(folder: RunFolder, graph: Graph) -> None:
    complete_values(folder, graph, False)
    tensors = folder.tensors(VALUES)
    changes: dict[str, Any] = {
        "0.spreads": lambda t: t * 0,
        "0.presence": lambda t: t + 2,
        "0.locations": lambda t: t[:-1],
        "0.knots": lambda t: t.flip(0),
        "1.codes": lambda t: t.float(),
        "1.slopes": lambda t: t * torch.nan,
    }
    for name, change in changes.items():
        folder.write_tensors(VALUES, {**tensors, name: change(tensors[name])})
        with pytest.raises(RunError, match="damaged"):
            load_values(folder, graph)
    folder.write_tensors(VALUES, {n: t for n, t in tensors.items() if n != "0.errors"})
    with pytest.raises(RunError, match="damaged"):
        load_values(folder, graph)


def test_a_folder_that_cannot_be_written_still_answers(
    folder: RunFolder, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RunError("read-only")

    monkeypatch.setattr(RunFolder, "write_tensors", refuse)
    values = RunValues(folder, graph)
    assert values.predicted(0, 0) is not None
    assert not folder.has(VALUES)
    assert values.fitted is values.fitted


def test_they_travel_to_other_processes(folder: RunFolder, graph: Graph) -> None:
    values = RunValues(folder, graph)
    first = values.probability(0, 0.0, 10.0)
    again = pickle.loads(pickle.dumps(values))
    assert torch.equal(again.probability(0, 0.0, 10.0), first)
