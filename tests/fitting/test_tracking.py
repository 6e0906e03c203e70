"""Trainings logged in TensorBoard, MLflow and Weights & Biases, read back by their own readers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

import tacit
from tacit.errors import SettingsError
from tacit.fitting import tracking
from tacit.fitting.progress import Event
from tacit.fitting.trackers import tensorboard
from tacit.fitting.tracking import TRACKERS, TrackedRun, Training, check_tracker
from tacit.run_folder.files import MODEL

Logged = tuple[dict[str, Any], dict[str, dict[int, float]]]
# warnings within the libraries, which their users cannot mend
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:The ``noload`` loader"),
]
SETTINGS: dict[str, Any] = {
    "rank": 4,
    "epochs": 6,
    "validate_every": 2,
    "validate_on": "facts",
    "device": "cpu",
    "rules": False,
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where MLflow and W&B write: one makes tables for seconds, the other reads its place once."""
    return tmp_path_factory.mktemp("logs")


@pytest.fixture
def facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: Path) -> Path:
    """A graph with validation facts, in a folder that trackers may write to as well."""
    for name, value in {
        "MLFLOW_TRACKING_URI": f"sqlite:///{logs}/mlflow.db",
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(logs),
        "WANDB_ERROR_REPORTING": "false",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "facts"
    folder.mkdir()
    ring = [(f"e{i}", "next", f"e{(i + 1) % 9}") for i in range(9)]
    for name, rows in (("train", ring), ("valid", [("e0", "next", "e2")]), ("test", [])):
        (folder / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    return folder


def of_tensorboard(run: tacit.Run, id: str) -> Logged:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    events = EventAccumulator(str(run.folder.path / "tensorboard" / id)).Reload()
    started = HParamsPluginData.FromString(
        events.PluginTagToContent("hparams")["_hparams_/session_start_info"]
    ).session_start_info
    parameters = {
        name: getattr(value, str(value.WhichOneof("kind")))
        for name, value in started.hparams.items()
    }
    scalars = {
        name: {event.step: event.value for event in events.Scalars(name)}
        for name in events.Tags()["scalars"]
    }
    return parameters, scalars


def of_mlflow(run: tacit.Run, id: str) -> Logged:
    from mlflow.tracking import MlflowClient

    client = MlflowClient()
    data = client.get_run(id).data
    metrics = {
        name: {each.step: each.value for each in client.get_metric_history(id, name)}
        for name in data.metrics
    }
    return data.params, metrics


def wandb_records(file: Path) -> list[Any]:
    """The records of an offline run, once its own process has written the last of them."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    end = time.monotonic() + 30
    records: list[Any] = []
    while not records or records[-1].WhichOneof("record_type") != "exit":
        assert time.monotonic() < end, f"{file} does not end"
        time.sleep(0.05)
        store = DataStore()
        store.open_for_scan(str(file))
        lines = iter(store.scan_data, None)
        records = [wandb_internal_pb2.Record.FromString(line) for line in lines]
        store.close()
    return records


def of_wandb(run: tacit.Run, id: str) -> Logged:
    parameters: dict[str, Any] = {}
    metrics: dict[str, dict[int, float]] = {}
    logs = Path(os.environ["WANDB_DIR"], "wandb")
    for record in chain.from_iterable(
        map(wandb_records, logs.glob(f"offline-run-*-{id}/run-{id}.wandb"))
    ):
        for each in record.run.config.update:
            parameters[each.key] = json.loads(each.value_json)
        row = {
            each.key or each.nested_key[0]: json.loads(each.value_json)
            for each in record.history.item
        }
        for name in row.keys() & {"loss", "valid_mrr", "examples_per_s", "seconds"}:
            metrics.setdefault(name, {})[row["step"]] = row[name]
    return parameters, metrics


READERS: dict[str, Callable[[tacit.Run, str], Logged]] = {
    "tensorboard": of_tensorboard,
    "mlflow": of_mlflow,
    "wandb": of_wandb,
}


def test_every_tracker_is_read_back() -> None:
    assert READERS.keys() == set(TRACKERS)


def ids(run: tacit.Run) -> list[str]:
    """The tracked runs that the trace names."""
    return [event["id"] for event in run.folder.events() if event["event"] == "track"]


@pytest.mark.parametrize("name", TRACKERS)
def test_what_is_logged_is_what_was_reported(name: str, facts: Path, tmp_path: Path) -> None:
    pytest.importorskip(name)
    events: list[Event] = []
    run = tacit.train(facts, tmp_path / "run", track=name, progress=events.append, **SETTINGS)
    (id,) = ids(run)
    parameters, metrics = READERS[name](run, id)
    config = run.settings["train"]
    for key, value in {
        **{key: config[key] for key in ("rank", "epochs", "model", "seed", "lr")},
        "graph.name": "facts",
        "graph.train": 9,
        "folder": str((tmp_path / "run").resolve()),
    }.items():
        assert str(type(value)(parameters[key])) == str(value)
    rounds = [event for event in events if event.loss is not None]
    assert len(rounds) == 6
    assert metrics["loss"] == pytest.approx({event.done: event.loss for event in rounds})
    assert metrics["seconds"] == pytest.approx({event.done: event.seconds for event in rounds})
    validations = {event.done: event.metric for event in events if event.what == "validation"}
    assert len(validations) == 3
    assert metrics["valid_mrr"] == pytest.approx(validations)
    assert [event.note for event in events if name in event.note] != []


@pytest.mark.parametrize("name", TRACKERS)
def test_a_resumed_training_goes_on_in_its_tracked_run(
    name: str, facts: Path, tmp_path: Path
) -> None:
    pytest.importorskip(name)

    def interrupt(event: Event) -> None:
        if event.what == "validation":
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        tacit.train(facts, "run", track=name, progress=interrupt, **SETTINGS)
    if name == "wandb":
        time.sleep(1.1)  # it names its files by the second
    run = tacit.train(facts, "run", resume=True, epochs=8, track=name, progress=False)
    first, second = ids(run)
    assert first == second
    parameters, metrics = READERS[name](run, first)
    assert sorted(metrics["loss"]) == list(range(1, 9))
    if name == "mlflow":  # whose parameters cannot change
        from mlflow.tracking import MlflowClient

        tracked = MlflowClient().get_run(first)
        assert (parameters["epochs"], tracked.data.tags["resumed.epochs"]) == ("6", "8")
        assert tracked.info.status == "FINISHED"
    again = tacit.train(facts, "run", force=True, track=name, progress=False, **SETTINGS)
    assert ids(again) != [first]


def test_mlflow_knows_how_a_training_ended(facts: Path, tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    def raising(error: BaseException) -> Callable[[Event], None]:
        def hear(event: Event) -> None:
            if event.what == "validation":
                raise error

        return hear

    for error, status in ((KeyboardInterrupt(), "KILLED"), (ValueError("mine"), "FAILED")):
        out = tmp_path / status
        with pytest.raises(type(error)):
            tacit.train(facts, out, track="mlflow", progress=raising(error), **SETTINGS)
        (id,) = ids(tacit.Run(tacit.run.run.RunFolder.open(out)))
        assert MlflowClient().get_run(id).info.status == status


@pytest.mark.parametrize("when", ["open", "log", "close", "hang", "exit"])
def test_a_failing_tracker_is_reported_once_and_changes_nothing(
    when: str, facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tacit.train(facts, tmp_path / "plain", progress=False, **SETTINGS)
    forever = threading.Event()

    def fail(step: str) -> None:
        if when == step:
            raise ConnectionError("the server\nis gone")
        if when == "exit":
            sys.exit("no licence")
        if when == "hang" and step == "log":
            forever.wait(60)

    def open_run(training: Training) -> TrackedRun:
        fail("open")
        return TrackedRun("1", "here", lambda event: fail("log"), lambda code: fail("close"))

    monkeypatch.setattr(tensorboard, "open_run", open_run)
    monkeypatch.setattr(tracking, "PATIENCE", 0.3)
    events: list[Event] = []
    run = tacit.train(
        facts, tmp_path / "run", track="tensorboard", progress=events.append, **SETTINGS
    )
    forever.set()
    notes = [event.note for event in events if "tensorboard" in event.note]
    failures = [note for note in notes if "tracked by" not in note]
    expected = {
        "hang": "tensorboard does not answer; what it has not taken by now may be lost",
        "exit": "tensorboard failed, and the training goes on without it: no licence",
    }
    default = "tensorboard failed, and the training goes on without it: the server is gone"
    assert failures == [expected.get(when, default)]
    weights, expected_weights = (each.folder.tensors(MODEL) for each in (run, plain))
    assert weights.keys() == expected_weights.keys()
    assert all(torch.equal(weights[name], expected_weights[name]) for name in weights)


def test_adapters_and_encoders_are_tracked_too(
    facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: dict[str, list[Event]] = {}
    codes: list[int] = []

    def open_run(training: Training) -> TrackedRun:
        events = logged.setdefault(training.part, [])
        assert training.parameters["graph.name"] == "facts"
        assert training.parameters["steps"] == 4
        return TrackedRun(training.part, "here", events.append, codes.append)

    run = tacit.train(facts, tmp_path / "run", progress=False, **SETTINGS)
    monkeypatch.setattr(tensorboard, "open_run", open_run)
    few = {"steps": 4, "device": "cpu", "track": "tensorboard"}
    run.adapt(count=20, shapes="2i", batch=8, validate_every=2, **few)
    run.encode(model="gqe", width=4, hidden=4, batch=4, negatives=2, shapes="1p", **few)
    assert [event.done for event in logged["adapt"] if event.loss is not None][-1] == 4
    assert [event.done for event in logged["encode"] if event.loss is not None][-1] == 4
    assert codes == [0, 0]


def test_a_tracker_that_cannot_be_is_refused_before_anything_is_written(
    facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = {
        "aim": r"track is 'aim'; it must be one of tensorboard, mlflow, wandb",
        "mlflow": r"is not installed; install it with: pip install 'tacit-kg\[mlflow\]'",
    }
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name, says in calls.items():
        for call in (tacit.train, tacit.train_encoder):
            with pytest.raises(SettingsError, match=says):
                call(facts, tmp_path / "run", track=name)
    assert not (tmp_path / "run").exists()
    with pytest.raises(SettingsError, match="rules are mined at once, not trained"):
        check_tracker("mlflow", "rules")


def test_weights_and_biases_asks_nobody_for_a_key(
    facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    done = subprocess.run(
        [sys.executable, "-m", "tacit", "train", "facts", "--out", "run", "--rank", "4",
         "--epochs", "2", "--track", "wandb"],
        env={**os.environ, "WANDB_MODE": "online", "HOME": str(tmp_path), "WANDB_API_KEY": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr.count("it has no API key; set WANDB_API_KEY, or WANDB_MODE=offline") == 1
    assert "2 epochs" in done.stdout
