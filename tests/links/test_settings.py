"""Training settings: what is refused, and what survives a run folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.errors import SettingsError
from tacit.folder import RunFolder
from tacit.graph.graph import Graph
from tacit.links.settings import TrainSettings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": "bert"}, "model is 'bert'; it must be one of complex"),
        ({"rank": 0}, "rank is 0; it must be at least 1"),
        ({"rank": 1.5}, r"rank is 1\.5; it must be a whole number"),
        ({"lr": 0.0}, r"lr is 0\.0; it must be above 0"),
        ({"lr": float("nan")}, "lr is nan; it must be a finite number"),
        ({"reg": -1}, "reg is -1; it must be 0 or more"),
        ({"memory": -1.0}, "memory is"),
        ({"norm": 3}, "norm is 3"),
        ({"device": 3}, "device is 3; it must be a word"),
        ({"model": "transe", "relation_weight": 1.0}, "cannot predict relations"),
        ({"negatives": 5, "optimizer": "adam"}, "use adagrad"),
        ({"speed": 1}, "unknown training setting 'speed'"),
    ],
)
def test_settings_that_make_no_sense(values: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        TrainSettings.of(values)


def test_settings_survive_the_run_folder(tmp_path: Path) -> None:
    settings = TrainSettings(lr=1e-7, memory=0.5, model="cp", seed=7)
    run = RunFolder.create(tmp_path / "run", Graph.of([("a", "r", "b")]), settings.to_dict())
    assert TrainSettings.of(run.settings["train"]) == settings
    assert TrainSettings.of(TrainSettings().to_dict()) == TrainSettings()


def test_only_what_leaves_the_weights_alone_may_change() -> None:
    before = TrainSettings()
    TrainSettings(epochs=99, patience=9, device="cpu", memory=1.0, checkpoint_seconds=1.0).check_continues(before)
    for changed in (
        TrainSettings(rank=7),
        TrainSettings(seed=1),
        TrainSettings(batch=9),
        TrainSettings(validate_every=1),
    ):
        with pytest.raises(SettingsError, match="leave it out to go on with the run"):
            changed.check_continues(before)
