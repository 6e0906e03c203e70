"""Runs trained by several processes: their files, also after a stop or a kill."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

import tacit
from rank_processes import in_processes, on_ranks
from ring_runs import GRAPH, SIZE, SMALL, new_run
from tacit.cli import main
from tacit.distributed.shards import Shards, share
from tacit.errors import LimitError, RunError
from tacit.graph.graph import Graph
from tacit.graph.stored import write_graph
from tacit.links.models import load_model
from tacit.links.settings import TrainSettings
from tacit.links.training.finished import is_complete
from tacit.links.training.link_training import train
from tacit.links.training.step import TrainStep
from tacit.run_folder import folder as folders
from tacit.run_folder.files import CHECKPOINT, MODEL
from tacit.run_folder.folder import RunFolder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes meet over the device lo")

# Weights that are never near 0, so that float32 sums in another order lead to the same model: that
# of the last step, since nothing is validated before.
SETTINGS = replace(SMALL, init=1.0, reg=0.1, lr=0.05, validate_every=100)
SAMPLED = replace(SETTINGS, negatives=5, optimizer="rowwise", model="cp")
CLOSE: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-4}
Weights = dict[str, torch.Tensor]


@contextmanager
def at_step(number: int, work: Callable[[], None]) -> Iterator[None]:
    """Do something in the middle of a step."""
    original = TrainStep.__call__
    seen = 0

    def call(self: TrainStep, triples: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        nonlocal seen
        seen += 1
        if seen == number:
            work()
        return original(self, triples, generator)

    TrainStep.__call__ = call  # type: ignore[method-assign]
    try:
        yield
    finally:
        TrainStep.__call__ = original  # type: ignore[method-assign]


def trained(folder: Path, settings: TrainSettings = SETTINGS, resume: bool = False) -> Weights:
    model = train(GRAPH, settings, RunFolder.open(folder), progress=False, resume=resume)
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def two(rank: int, world: int, folder: Path) -> dict[str, Any]:
    """Runs that are whole, sampled, stopped on one rank, and killed on one rank."""
    found: dict[str, Any] = {
        "whole": trained(folder / "whole"),
        "sampled": trained(folder / "sampled", SAMPLED),
    }
    with at_step(20 if rank else 10**9, lambda: os.kill(os.getpid(), signal.SIGINT)):
        try:
            trained(folder / "stopped")
        except KeyboardInterrupt as interrupt:
            found["stopped"] = str(interrupt)
    with at_step(30 if rank else 10**9, lambda: os.kill(os.getpid(), signal.SIGKILL)):
        began = time.monotonic()
        try:
            trained(folder / "killed", replace(SETTINGS, checkpoint_seconds=0))
        except LimitError as error:
            found["killed"] = str(error), time.monotonic() - began
    return found


def three(rank: int, world: int, folder: Path) -> dict[str, Any]:
    """Three ranks open and continue the training that two ranks left."""
    shards = Shards.joined(SIZE)
    opened = load_model(RunFolder.open(folder / "whole"), shards=shards)
    return {
        "opened": dict(opened.state_dict()),
        "stopped": trained(folder / "stopped", resume=True),
        "longer": trained(folder / "longer", replace(SETTINGS, epochs=8), resume=True),
    }


def joined(of_ranks: list[Weights]) -> Weights:
    """The weights of all ranks as one."""
    return {
        key: tensor
        if key.startswith("relations")
        else torch.cat([weights[key] for weights in of_ranks])
        for key, tensor in of_ranks[0].items()
    }


def check(found: Weights, expected: Weights) -> None:
    assert found.keys() == expected.keys()
    for key, tensor in expected.items():
        torch.testing.assert_close(found[key], tensor, **CLOSE)


def test_runs_of_several_processes(tmp_path: Path) -> None:
    folders = {name: new_run(tmp_path / name, SETTINGS) for name in ("whole", "stopped", "killed")}
    new_run(tmp_path / "sampled", SAMPLED)
    alone = dict(train(GRAPH, SETTINGS, progress=False).state_dict())
    results = on_ranks(2, tmp_path / "two", two, tmp_path)
    assert results[1] is None  # it was killed
    found = results[0]

    whole = folders["whole"]
    assert sorted(path.name for path in whole.path.glob("model*")) == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors",
    ]
    assert not list(whole.path.glob("best*"))
    assert [whole.metadata(f"model-0000{n}-of-00002.safetensors")["start"] for n in (1, 2)] == [
        "0",
        "12",
    ]
    assert is_complete(whole)
    assert [event["epoch"] for event in whole.events() if event["event"] == "epoch"] == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]
    check(dict(load_model(whole).state_dict()), alone)
    first = load_model(whole).state_dict()["entities.weight"][: SIZE // 2]
    assert torch.equal(first, found["whole"]["entities.weight"])
    sampled = load_model(RunFolder(tmp_path / "sampled")).state_dict()
    assert torch.equal(sampled["tails.weight"][:12], found["sampled"]["tails.weight"])

    assert found["stopped"] == "stopped in epoch 3 of 6 and saved"
    assert load_model(folders["stopped"]).num_entities == SIZE
    said, seconds = found["killed"]
    assert "rank 0 of 2 lost another" in said
    assert seconds < 20
    assert not folders["killed"].has(MODEL)
    shutil.copytree(whole.path, tmp_path / "longer")
    shutil.copytree(folders["killed"].path, tmp_path / "again")

    ranks = on_ranks(3, tmp_path / "three", three, tmp_path)
    assert len(ranks[0]["opened"]["entities.weight"]) == share(SIZE, 0, 3)[1]
    assert torch.equal(
        joined([rank["opened"] for rank in ranks])["entities.weight"],
        load_model(whole).entities.weight,
    )
    check(joined([rank["stopped"] for rank in ranks]), alone)
    longer = dict(train(GRAPH, replace(SETTINGS, epochs=8), progress=False).state_dict())
    check(joined([rank["longer"] for rank in ranks]), longer)
    assert not list((tmp_path / "longer").glob("*-of-00002*"))
    for name in ("killed", "again"):  # by one process, to the end
        check(trained(tmp_path / name, replace(SETTINGS, checkpoint_seconds=0), resume=True), alone)
        assert not list((tmp_path / name).glob("*-of-*"))


def slowly(rank: int, world: int, folder: Path) -> list[str]:
    """A training whose first process writes the graph for longer than ranks' timeout."""

    def write(graph: Graph, path: Path) -> Any:
        time.sleep(6.0)
        return write_graph(graph, path)

    folders.write_graph = write  # type: ignore[attr-defined]
    run = tacit.train(GRAPH, folder / "run", progress=False, rank=2, epochs=1, device="cpu")
    return [path.name for path in run.folder.path.glob("model-*")]


def test_ranks_wait_for_the_one_that_writes_the_graph(tmp_path: Path) -> None:
    names = on_ranks(2, tmp_path / "ranks", slowly, tmp_path, timeout=4.0)
    assert [len(each) for each in names] == [2, 2]


def ends(rank: int, world: int) -> tuple[str, float]:
    """Return the error of a rank that waits for a killed one, and the seconds until it came."""
    shards = Shards.joined(SIZE)
    began = time.monotonic()
    shards.wait()
    if rank:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        shards.wait()
    except LimitError as error:
        return str(error), time.monotonic() - began
    return "", 0.0


def test_nobody_waits_for_a_rank_that_was_killed(tmp_path: Path) -> None:
    said, seconds = on_ranks(2, tmp_path / "ranks", ends)[0]
    assert "rank 0 of 2 lost another" in said
    assert seconds < 20


def test_parts_of_different_times_are_not_taken_together(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", SETTINGS)
    train(GRAPH, SETTINGS, run, progress=False)
    weights = run.tensors(MODEL)
    about = run.metadata(MODEL)
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for number, name in enumerate(names):
        start, stop = share(SIZE, number, 2)
        rows = {"entities.weight": weights["entities.weight"][start:stop]}
        run.write_tensors(name, rows, {"start": str(start), "mark": "one"})
    common = {"relations.weight": weights["relations.weight"]}
    run.write_tensors(MODEL, common, {**about, "parts": " ".join(names), "mark": "one"})
    assert torch.equal(load_model(run).entities.weight, weights["entities.weight"])
    run.write_tensors(
        names[1],
        {"entities.weight": weights["entities.weight"][12:]},
        {"start": "12", "mark": "two"},
    )
    with pytest.raises(
        RunError, match=r"model-00002-of-00002.safetensors does not belong to model.safetensors"
    ):
        load_model(run)
    (run.path / names[1]).unlink()
    with pytest.raises(RunError, match="has no model-00002"):
        load_model(run)
    run.write_tensors(MODEL, common, {**about, "parts": names[0], "mark": "one"})
    with pytest.raises(RunError, match=r"entities\.weight has not 24 rows"):
        load_model(run)


def typed(folder: str, *arguments: str) -> None:
    """A command in a process that `torchrun` started, with what it says in two files."""
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    sys.argv = ["tacit", *arguments]
    main()


def launched(number: int, folder: str, *arguments: str) -> None:
    """`torchrun --standalone --nproc-per-node 2` by forks of a process with all imports."""
    config = LaunchConfig(
        1,
        1,
        2,
        run_id="ring",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        start_method="fork",
        max_restarts=0,
    )
    elastic_launch(config, typed)(folder, *arguments)


def test_torchrun_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = tmp_path / "ring.tsv"
    facts.write_text("".join(f"n{i}\tnext\tn{(i + 1) % 9}\n" for i in range(9)), encoding="utf-8")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    settings = "--rank", "2", "--epochs", "2", "--device", "cpu"
    out = str(tmp_path / "run")
    in_processes(1, tmp_path, launched, str(tmp_path), "train", str(facts), "--out", out, *settings)
    assert (tmp_path / "stdout").read_text().count("2 epochs in") == 1
    assert (tmp_path / "stderr").read_text().count("Graph(") == 1
    run = RunFolder.open(tmp_path / "run")
    assert run.has(CHECKPOINT)
    assert load_model(run).num_entities == 9
