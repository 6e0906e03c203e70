"""Training that is stopped goes on to the same weights; one that is complete can be made longer."""

from __future__ import annotations

import errno
import shlex
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import tacit
from ring_runs import GRAPH, SIZE, SMALL, interrupt_at, new_run, stopped_run
from tacit.cli import app
from tacit.errors import LimitError, RunError, SettingsError
from tacit.fitting import loop
from tacit.graph.graph import Graph
from tacit.links.models import MODELS, load_model, make_model, save_model
from tacit.links.settings import TrainSettings
from tacit.links.training.fact_validation import Validation
from tacit.links.training.finished import is_complete
from tacit.links.training.link_training import train
from tacit.run_folder.files import ADAPTER, CHECKPOINT, MODEL
from tacit.run_folder.folder import RunFolder
from tacit.server.served_run import ServedRun

Whole = Callable[[TrainSettings], tuple[RunFolder, dict[str, torch.Tensor]]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """An uninterrupted training, run once for all tests: its run and its weights."""

    @cache
    def trained(settings: TrainSettings) -> tuple[RunFolder, dict[str, torch.Tensor]]:
        run = new_run(tmp_path_factory.mktemp("whole") / "run", settings)
        return run, train(GRAPH, settings, run).state_dict()

    return trained


@pytest.mark.parametrize(
    "extra", [{}, {"negatives": 5}, {"optimizer": "adam"}, {"model": "rotate"}]
)
@pytest.mark.parametrize("step", [1, 9, 20, 27])
def test_resuming_ends_at_the_very_same_weights(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    whole: Whole,
    step: int,
    extra: dict[str, object],
) -> None:
    settings = replace(SMALL, **extra)  # type: ignore[arg-type]
    unstopped, expected = whole(settings)
    run = new_run(tmp_path / "cut", settings)
    with monkeypatch.context() as patch:
        interrupt_at(patch, step)
        with pytest.raises(KeyboardInterrupt, match=r"stopped in epoch \d of 6 and saved"):
            train(GRAPH, settings, run)
    assert run.has(CHECKPOINT)
    found = train(GRAPH, settings, run, resume=True).state_dict()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert is_complete(run)
    assert run.results()["train"]["valid_mrr"] == unstopped.results()["train"]["valid_mrr"]
    traced = [event["epoch"] for event in run.events() if event["event"] == "epoch"]
    assert traced == [1, 2, 3, 4, 5, 6]


def test_a_stopped_run_can_be_opened_and_a_finished_one_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stopped_run(tmp_path / "run", monkeypatch, 20)
    assert load_model(run).num_entities == SIZE
    train(GRAPH, SMALL, run, resume=True)
    written = (run.path / MODEL).stat().st_mtime_ns
    train(GRAPH, SMALL, run, resume=True)
    assert (run.path / MODEL).stat().st_mtime_ns == written


def test_checkpoints_on_the_way_change_nothing(tmp_path: Path) -> None:
    often = replace(SMALL, checkpoint_seconds=0, epochs=2)
    found = train(GRAPH, often, new_run(tmp_path / "run", often)).state_dict()
    expected = train(GRAPH, replace(SMALL, epochs=2)).state_dict()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_full_disk_stops_training_and_keeps_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stopped_run(tmp_path / "run", monkeypatch, 9)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(LimitError, match="disk is full"):
            train(GRAPH, SMALL, run, resume=True)
    found = train(GRAPH, SMALL, run, resume=True).state_dict()
    assert torch.equal(
        found["entities.weight"], train(GRAPH, SMALL).state_dict()["entities.weight"]
    )


def test_the_signal_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    train(GRAPH, replace(SMALL, epochs=1))
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_checkpoints_that_are_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stopped_run(tmp_path / "run", monkeypatch, 9)
    whole = (run.path / CHECKPOINT).read_bytes()
    (run.path / CHECKPOINT).write_bytes(whole[:-100])
    with pytest.raises(RunError, match="truncated"):
        train(GRAPH, SMALL, run, resume=True)
    run.write_tensors(CHECKPOINT, {"x": torch.zeros(1)})
    with pytest.raises(RunError, match="no checkpoint of this version"):
        train(GRAPH, SMALL, run, resume=True)
    (run.path / CHECKPOINT).write_bytes(whole)
    with pytest.raises(
        RunError,
        match=r"other settings \(lr 0\.1, not 0\.2\); give those, or start again with `force=True`",
    ):
        train(GRAPH, replace(SMALL, lr=0.2), run, resume=True)
    for split in ("train", "valid", "test"):
        facts = {
            name: getattr(GRAPH, name)[: -1 if name == split else None]
            for name in ("train", "valid", "test")
        }
        with pytest.raises(RunError, match="trained on other facts than"):
            train(replace(GRAPH, **facts), SMALL, run, resume=True)
    with pytest.raises(RunError, match="another vocabulary"):
        train(Graph.of([("a", "r", "b")]), SMALL, run, resume=True)
    train(GRAPH, SMALL, run, resume=True)


def test_a_complete_training_without_its_weights_starts_again(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    train(GRAPH, SMALL, run)
    run.remove(MODEL)
    with pytest.raises(
        RunError,
        match=r"complete training, and model\.safetensors .* is gone; "
        "start again with `force=True`",
    ):
        train(GRAPH, SMALL, run, resume=True)


def test_more_epochs_than_planned_are_the_longer_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stopped_run(tmp_path / "run", monkeypatch, 9)
    longer = SMALL.continued(epochs=8)
    found = train(GRAPH, longer, run, resume=True).state_dict()
    expected = train(GRAPH, longer).state_dict()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    with pytest.raises(SettingsError, match=r"lr is 0\.2, and the run has 0\.1"):
        SMALL.continued(lr=0.2)


@pytest.mark.parametrize(
    "extra", [{}, {"negatives": 5}, {"optimizer": "adam"}, {"validate_every": 50}]
)
# 5: the first part ends with a validation that the whole does not have
@pytest.mark.parametrize("first", [4, 5])
def test_a_complete_run_trained_further_is_the_longer_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    whole: Whole,
    first: int,
    extra: dict[str, object],
) -> None:
    settings = replace(SMALL, epochs=10, patience=100, **extra)  # type: ignore[arg-type]
    unstopped, expected = whole(settings)
    part = replace(settings, epochs=first)
    run = new_run(tmp_path / "run", part)
    train(GRAPH, part, run)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 7)
        with pytest.raises(KeyboardInterrupt):
            train(GRAPH, settings, run, resume=True)
    assert not is_complete(run)
    weights = train(GRAPH, settings, run, resume=True).state_dict()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    assert run.settings["train"]["epochs"] == 10
    fields = ("epochs", "valid_mrr", "best_epoch")
    results = [one.results()["train"] for one in (unstopped, RunFolder.open(tmp_path / "run"))]
    assert [results[0][key] for key in fields] == [results[1][key] for key in fields]
    assert [event["epoch"] for event in run.events() if event["event"] == "epoch"] == list(
        range(1, 11)
    )


def test_training_further_survives_a_crash_between_the_files_of_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = replace(SMALL, validate_every=1, patience=100)
    whole = replace(part, epochs=9)
    expected = train(GRAPH, whole).state_dict()
    run = new_run(tmp_path / "run", part)
    train(GRAPH, part, run)

    def crash(*_: object) -> None:
        raise RuntimeError("lights out")

    with monkeypatch.context() as patch:  # the model is written, its checkpoint is not
        patch.setattr(RunFolder, "write_results", crash)
        with pytest.raises(RuntimeError, match="lights out"):
            train(GRAPH, whole, run, resume=True)
    weights = train(GRAPH, whole, run, resume=True).state_dict()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


def test_what_a_complete_run_keeps_to_go_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = iter([0.2, 0.5, 0.4])
    monkeypatch.setattr(Validation, "mrr", lambda self, model: next(figures))
    run = new_run(tmp_path / "run")  # the best is that of the second of three validations
    train(GRAPH, SMALL, run)
    groups = {key.split(".")[0] for key in run.tensors(CHECKPOINT)}
    assert groups == {"model", "optimizer"}  # the best weights are in the model's own file
    none = new_run(tmp_path / "none", graph=Graph(GRAPH.entities, GRAPH.relations, GRAPH.train))
    train(Graph(GRAPH.entities, GRAPH.relations, GRAPH.train), SMALL, none)
    # so are the last ones
    assert {key.split(".")[0] for key in none.tensors(CHECKPOINT)} == {"optimizer"}
    none.remove(CHECKPOINT)
    assert is_complete(none, SMALL)
    with pytest.raises(
        RunError,
        match=r"no checkpoint\.safetensors to go on from; train anew with `force=True`, "
        "or leave `epochs` at 6",
    ):
        is_complete(none, replace(SMALL, epochs=7))


def test_training_further_drops_the_adapter_of_the_weights_before(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    train(GRAPH, SMALL, run)
    run.write_tensors(ADAPTER, {"bias": torch.zeros(2)})
    run.write_settings("adapt", {"steps": 1})
    searches = "beam", "exact", "continuous", "symbolic", "encoder"
    measured = [{"mrr": {"1p": 0.5}, "settings": {"search": search}} for search in searches]
    run.write_results({**run.results(), "adapt": {"steps": 1}, "eval": measured})
    train(GRAPH, replace(SMALL, epochs=8), run, resume=True)
    mark = {"outdated": "the weights have changed since this was measured"}
    of_weights_before = [each | mark for each in measured[:3]]
    # facts and encoders are as they were
    assert run.results()["eval"] == [*of_weights_before, *measured[3:]]
    assert not run.has(ADAPTER)
    assert "adapt" not in run.settings
    assert "adapt" not in run.results()


def test_what_was_not_trained_is_not_gone_on_with(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "imported", GRAPH, {"model": "complex", "rank": 2})
    save_model(run, make_model("complex", GRAPH.num_entities, GRAPH.num_relations, 2))
    with pytest.raises(
        RunError, match="holds a model that was not trained there; train in another folder"
    ):
        tacit.train(GRAPH, run.path, resume=True, epochs=3, device="cpu", progress=False)


def test_a_finished_run_is_not_gone_on_with_on_other_facts(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    train(GRAPH, SMALL, run)
    with pytest.raises(RunError, match="trained on other facts than"):
        train(replace(GRAPH, train=GRAPH.train[1:]), SMALL, run, resume=True)


def test_a_run_whose_training_was_stopped_says_so_until_it_went_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = stopped_run(tmp_path / "my run", monkeypatch, 20).path  # of 9 steps an epoch
    note = f"the training of run '{path}' stopped after epoch 2 of 6; go on with: "
    note += f"tacit train '{path}' --out '{path}' --resume"
    opened = tacit.open(path, device="cpu")
    assert (opened.notes, caplog.messages) == ((note,), [note])
    assert note in repr(opened)
    for ask in (
        lambda: CliRunner().invoke(app, ["ask", str(path), "?x : next(n0, ?x)"]),
        ServedRun.at(path).graph,
    ):
        caplog.clear()
        ask()
        assert caplog.messages == [note]
    done = CliRunner().invoke(app, shlex.split(note.partition("go on with: tacit ")[2]))
    assert done.exit_code == 0
    caplog.clear()
    assert tacit.open(path, device="cpu").notes == ()
    assert is_complete(RunFolder.open(path))
    (path / CHECKPOINT).write_bytes(b"nothing")  # what cannot be read keeps nobody from asking
    assert tacit.open(path, device="cpu").notes == ()
    assert caplog.messages == []


def signal_at(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, call: int) -> list[int]:
    """Send this process a Ctrl-C after the n-th call of a method."""
    original = getattr(kind, name)
    calls = [0]

    def called(*arguments: object, **named: object) -> object:
        calls[0] += 1
        found = original(*arguments, **named)
        if calls[0] == call:
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("nothing broke off")
        return found

    monkeypatch.setattr(kind, name, called)
    return calls


@pytest.mark.parametrize("extra", [{}, {"model": "rotate"}, {"model": "transe"}, {"negatives": 5}])
@pytest.mark.parametrize(("where", "call"), [("compose", 14), ("validation", 2), ("validation", 3)])
def test_what_is_broken_off_is_done_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    whole: Whole,
    where: str,
    call: int,
    extra: dict[str, object],
) -> None:
    settings = replace(SMALL, **extra)  # type: ignore[arg-type]
    unstopped, expected = whole(settings)
    run = new_run(tmp_path / "cut", settings)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "SLOW", 0.0)  # as where each step takes seconds
        kind = Validation if where == "validation" else MODELS[settings.model]
        calls = signal_at(patch, kind, "mrr" if where == "validation" else where, call)
        with pytest.raises(KeyboardInterrupt, match=r"stopped in epoch \d of 6 and saved"):
            train(GRAPH, settings, run)
        assert calls == [call]
    assert not is_complete(run)
    found = train(GRAPH, settings, run, resume=True).state_dict()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert is_complete(run)
    assert run.results()["train"]["valid_mrr"] == unstopped.results()["train"]["valid_mrr"]
    assert [event["epoch"] for event in run.events() if event["event"] == "epoch"] == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]


def test_fast_steps_are_not_broken_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "SLOW", 1e9)
    signal_at(monkeypatch, MODELS["complex"], "compose", 14)
    with pytest.raises(AssertionError, match="nothing broke off"):
        train(GRAPH, SMALL, new_run(tmp_path / "run"))
