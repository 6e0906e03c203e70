"""Training settings: what is refused, and what survives a run folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.errors import SettingsError
from tacit.graph.graph import Graph
from tacit.links.settings import TrainSettings
from tacit.run_folder.folder import RunFolder


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": "bert"}, "model is 'bert'; it must be one of complex"),
        ({"rank": 0}, "rank is 0; it must be at least 1"),
        ({"rank": 1.5}, r"rank is 1\.5; it must be a whole number"),
        ({"lr": 0.0}, r"lr is 0\.0; it must be above 0"),
        # optimizers compute in 32 bits
        ({"lr": 1e308}, r"lr is 1e\+308; it must be at most 1000000"),
        ({"lr": float("nan")}, "lr is nan; it must be a finite number"),
        ({"lr": 10**400}, "lr is 1000000.*; it must be a finite number"),
        ({"lr": [0.1]}, r"lr is \(0\.1,\); it must be a finite number"),
        ({"reg": -1}, "reg is -1; it must be 0 or more"),
        ({"memory": -1.0}, "memory is"),
        ({"norm": 3}, "norm is 3"),
        ({"device": 3}, "device is 3; it must be a word"),
        ({"model": "transe", "relation_weight": 1.0}, "cannot predict relations"),
        ({"negatives": 5, "optimizer": "adam"}, "it must be adagrad"),
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
    free = {"epochs": 99, "patience": 9, "device": "cpu", "memory": 1.0, "checkpoint_seconds": 1.0}
    assert before.continued(**free) == TrainSettings(**free)
    for name, value in {"rank": 7, "seed": 1, "batch": 9, "validate_every": 1}.items():
        with pytest.raises(SettingsError, match=f"{name} is {value}.*leave it out to go on"):
            before.continued(**{name: value})


@pytest.mark.parametrize(
    ("facts", "entities", "rank", "reg", "epochs", "batch", "every"),
    [
        (32, 20, 100, 0.05, 100, 500, 100),  # an epoch is one step, however large a batch
        (1592, 14, 200, 0.0075, 100, 500, 16),  # an epoch has 7 steps: 100 of them are 15.7 epochs
        (5216, 135, 200, 0.0075, 100, 500, 10),  # ten validations
        (4393, 2310, 100, 0.05, 30, 500, 6),  # two facts an entity
        (32_888, 2034, 200, 0.01, 30, 500, 5),
        (114_213, 63_361, 100, 0.05, 30, 1000, 5),
    ],
)
def test_what_is_not_given_is_chosen_by_size(
    facts: int, entities: int, rank: int, reg: float, epochs: int, batch: int, every: int
) -> None:
    settings = TrainSettings(seed=3).with_derived(facts, entities)
    assert settings == TrainSettings(
        seed=3, rank=rank, reg=reg, epochs=epochs, batch=batch, validate_every=every
    )
    assert settings.with_derived(1, 1) == settings  # nothing is left to choose
    explicit_settings = TrainSettings(rank=7, reg=0.0, epochs=1, batch=2, validate_every=3)
    assert explicit_settings.with_derived(facts, entities) == explicit_settings
    assert not explicit_settings.describe_defaults(explicit_settings, facts, entities)
    assert TrainSettings(batch=2**63 - 1).with_derived(facts, entities).validate_every == 100
