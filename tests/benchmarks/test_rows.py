"""The rows of the tables: what they share is trained once, and every setting they name exists."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import reproduce
import tiny
from tacit.adapt.settings import AdaptSettings
from tacit.engine.settings import EngineSettings
from tacit.evaluate.protocol import evaluate
from tacit.links.settings import TrainSettings

PATHS = sorted(reproduce.ROWS.glob("*/*.toml"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_settings_of_a_row_exist(path: Path) -> None:
    row = reproduce.read_row(path)
    TrainSettings.of(row["train"])
    EngineSettings.of(row["engine"])
    if "adapt" in row:
        AdaptSettings.of({**reproduce.SIGMOID, **row["adapt"]})
    assert set(row.get("evaluate", {})) <= set(inspect.signature(evaluate).parameters)


@pytest.mark.parametrize(("table", "predictors"), [("nell995", 2), ("fb15k237", 2)])
def test_few_predictors_serve_a_table(table: str, predictors: int) -> None:
    rows = [reproduce.read_row(path) for path in PATHS if path.parent.name == table]
    assert len({json.dumps(row["train"], sort_keys=True) for row in rows}) == predictors


def test_a_predictor_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained, original = [], reproduce.train

    def train(*given: Any, **named: Any) -> Any:
        trained.append(given)
        return original(*given, **named)

    monkeypatch.setattr(reproduce, "train", train)
    data = str(tiny.write_data(tmp_path / "data"))
    rows = "cqd-beam,link-prediction,link-prediction-relations"
    reproduce.main(["fb15k237", "--tiny", "--data", data, "--out", str(tmp_path / "out"), "--rows", rows])
    assert len(list((tmp_path / "out").rglob("*.json"))) == 3
    assert len(trained) == 2  # with and without the loss that predicts relations
