"""`tacit train`, as a user types it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from source_tree import SRC
from tacit.cli import main
from tacit.distributed.threads import threads_for
from tacit.graph.graph import Graph
from tacit.links.models import load_model
from tacit.links.settings import TrainSettings
from tacit.links.training.link_training import Training
from tacit.links.training.step import TrainStep
from tacit.run_folder.files import CHECKPOINT, MODEL
from tacit.run_folder.folder import RunFolder

FLAGS = ("--rank", "4", "--epochs", "4", "--batch", "8", "--device", "cpu")


@pytest.fixture
def facts(tmp_path: Path) -> str:
    path = tmp_path / "ring.tsv"
    path.write_text("".join(f"n{i}\tnext\tn{(i + 1) % 12}\n" for i in range(12)))
    return str(path)


def tacit(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of a call."""
    monkeypatch.setattr(sys, "argv", ["tacit", "train", *arguments])
    try:
        main()
    except SystemExit as done:
        return int(done.code or 0)
    return 0


def interrupted_at(monkeypatch: pytest.MonkeyPatch, step: int) -> pytest.MonkeyPatch:
    seen = [0]
    original = TrainStep.__call__

    def call(self: TrainStep, triples: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        seen[0] += 1
        if seen[0] == step:
            signal.raise_signal(signal.SIGINT)
        return original(self, triples, generator)

    monkeypatch.setattr(TrainStep, "__call__", call)
    return monkeypatch


def test_a_run_can_be_opened(
    facts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    assert (
        tacit(monkeypatch, facts, "--out", out, *FLAGS, "--model", "distmult", "--no-such-flag")
        == 2
    )
    assert tacit(monkeypatch, facts, "--out", out, *FLAGS, "--model", "distmult") == 0
    assert "4 epochs in" in capsys.readouterr().out
    run = RunFolder.open(out)
    assert run.settings["train"]["model"] == "distmult"
    assert load_model(run).logits(torch.tensor([0]), torch.tensor([1])).shape == (1, 12)
    assert [event["epoch"] for event in run.events() if event["event"] == "epoch"] == [1, 2, 3, 4]


def test_what_is_chosen_by_size_is_said_and_kept(
    facts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    assert (
        tacit(monkeypatch, facts, "--out", out, "--epochs", "1", "--reg", "0", "--device", "cpu")
        == 0
    )
    said = capsys.readouterr().err
    assert "rank 100, batch 500, for 12 facts of 12 entities; set them to choose yourself" in said
    settings = RunFolder.open(out).settings["train"]
    assert (settings["rank"], settings["batch"], settings["epochs"], settings["reg"]) == (
        100,
        500,
        1,
        0.0,
    )
    assert tacit(monkeypatch, facts, "--out", out, "--resume") == 0
    # the run has settings of its own
    assert "set them to choose yourself" not in capsys.readouterr().err


def test_stops_and_goes_on(
    facts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = str(tmp_path / "whole")
    cut = str(tmp_path / "cut it")
    wide = tmp_path / "wide.tsv"
    wide.write_text(
        "".join(
            f"{number}\t{line}\n"
            for number, line in enumerate(Path(facts).read_text().splitlines())
        )
    )
    assert tacit(monkeypatch, facts, "--out", whole, *FLAGS) == 0
    with monkeypatch.context() as patch:
        arguments = (str(wide), "--columns", "2,3,4", "--out", cut, "--force", *FLAGS)
        assert tacit(interrupted_at(patch, 5), *arguments) == 130
    said = capsys.readouterr().err
    assert "stopped in epoch 2 of 4 and saved; go on with: tacit train" in said
    assert RunFolder.open(cut).has(CHECKPOINT)
    assert tacit(monkeypatch, facts, "--out", cut, "--rank", "5", "--resume") == 2
    assert "rank is 5, and the run has 4" in capsys.readouterr().err
    assert tacit(monkeypatch, *shlex.split(said.split("go on with: tacit train ")[1])) == 0
    tables = [RunFolder.open(path).tensors(MODEL) for path in (whole, cut)]
    assert all(torch.equal(tables[0][name], tables[1][name]) for name in tables[0])
    capsys.readouterr()
    assert tacit(monkeypatch, facts, "--out", cut, "--resume") == 0
    assert f"{cut}: 4 epochs in" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="signals are sent otherwise there")
def test_ctrl_c_waits_for_no_step_of_rotate(tmp_path: Path) -> None:
    """A step over 64 times the entities takes 64 times as long, however busy the machine is."""
    small = 128
    large = 8192
    settings = TrainSettings(model="rotate", rank=64, batch=1000, epochs=1, device="cpu")
    few = Graph.of(
        [(f"n{i % small}", "r", f"n{(7 * i + i // small) % small}") for i in range(1000)]
    )
    step = Training(few, settings, validate=lambda model: {})
    step.step(0)
    path = tmp_path / "facts.tsv"
    path.write_text("".join(f"n{i % large}\tr\tn{(7 * i + 1) % large}\n" for i in range(large)))
    out = tmp_path / "run"
    flags = [
        "--model",
        "rotate",
        "--rank",
        "64",
        "--batch",
        "1000",
        "--epochs",
        "50",
        "--device",
        "cpu",
    ]
    command = [sys.executable, "-m", "tacit", "train", str(path), "--out", str(out), *flags]
    environment = os.environ | {"PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        while not (out / "trace.jsonl").exists():  # which the first step follows
            assert process.poll() is None
            time.sleep(0.01)
        with threads_for(0.0):
            began = time.monotonic()
            step.step(1)
            whole_step = (time.monotonic() - began) * large / small
        time.sleep(0.2)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=120)[1]
        waited = time.monotonic() - began
    assert process.returncode == 130
    assert "Traceback" not in said
    assert "and saved; go on with: tacit train" in said
    assert waited < max(1.0, whole_step / 3), whole_step
    assert RunFolder.open(out).has(CHECKPOINT)


def test_refusals(
    facts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    for arguments, message in (
        ((facts, "--rank", "0"), "rank is 0; it must be at least 1"),
        ((facts, "--resume", "--force"), "--resume goes on with a run and --force replaces it"),
        ((str(tmp_path / "gone.tsv"),), "no such file"),
    ):
        assert tacit(monkeypatch, *arguments, "--out", out) == 2
        assert message in capsys.readouterr().err
        assert not Path(out).exists()
    assert tacit(monkeypatch, facts, "--out", out, *FLAGS) == 0
    assert tacit(monkeypatch, facts, "--out", out, *FLAGS) == 2
    assert "go on with it by --resume, replace it by --force" in capsys.readouterr().err
    assert tacit(monkeypatch, facts, "--out", out, *FLAGS, "--force") == 0


def test_resume_starts_a_run_that_is_not_there(
    facts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tacit(monkeypatch, facts, "--out", str(tmp_path / "run"), *FLAGS, "--resume") == 0
    assert RunFolder.open(tmp_path / "run").has(MODEL)


def test_a_device_that_is_not_there_leaves_no_folder(
    facts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tacit(monkeypatch, facts, "--out", str(tmp_path / "run"), "--device", "toaster") == 2
    assert "must be auto, cpu, cuda" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_refused_training_does_not_stand_in_the_way_of_the_next(
    facts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ("--out", str(tmp_path / "run"))
    assert tacit(monkeypatch, facts, *out, "--rank", "100000000000", "--device", "cpu") == 2
    assert "lower --rank or use --negatives or use --optimizer rowwise" in capsys.readouterr().err
    assert tacit(monkeypatch, facts, *out, *FLAGS) == 0


def test_what_was_noticed_in_the_facts_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "twice.tsv").write_text("a\tr\tb\na\tr\tb\nb\tr\ta\n")
    assert (
        tacit(monkeypatch, str(tmp_path / "twice.tsv"), "--out", str(tmp_path / "run"), *FLAGS) == 0
    )
    assert "note: " in capsys.readouterr().err


@pytest.mark.parametrize(("number", "said_first"), [("0", True), ("1", False)])
def test_of_several_processes_on_a_machine_the_first_one_says_what_went_wrong(
    number: str,
    said_first: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The others wait to be ended by torchrun, and say it if the first one has not failed."""
    before: list[str] = []
    monkeypatch.setenv("LOCAL_RANK", number)
    monkeypatch.setattr("sys.argv", ["tacit", "plan", "?x : "])
    monkeypatch.setattr("time.sleep", lambda seconds: before.append(capsys.readouterr().err))
    with pytest.raises(SystemExit):
        main()
    assert before == ([] if said_first else [""])
    assert capsys.readouterr().err.startswith("error: ")
