"""A training killed at any moment leaves a whole checkpoint and ends the same."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch

from rank_processes import in_processes
from tacit.disk import LOCK
from tacit.graph.graph import Graph
from tacit.links.settings import TrainSettings
from tacit.links.training.finished import is_complete
from tacit.links.training.link_training import train
from tacit.run_folder.files import CHECKPOINT
from tacit.run_folder.folder import RunFolder

KILLS = 8
GRAPH = Graph.of([(f"e{i}", "r", f"e{(i * 7 + 1) % 150}") for i in range(150)])
SETTINGS = TrainSettings(rank=16, epochs=15, batch=50, checkpoint_seconds=0, device="cpu")


def written(run: RunFolder) -> int:
    """When the checkpoint was written, in nanoseconds; 0 before the first one."""
    path = run.path / CHECKPOINT
    return path.stat().st_mtime_ns if path.exists() else 0


def killed(number: int, folder: Path) -> tuple[int, dict[str, torch.Tensor]]:
    """The number of distinct checkpoints of killed trainings, and an unkilled one's weights."""
    # first, so that a child need not load what this takes
    whole = train(GRAPH, SETTINGS, progress=False)
    run = RunFolder.create(folder, GRAPH, SETTINGS.to_dict())
    moments = random.Random(0)
    seen = set()
    for _ in range(KILLS):
        child = os.fork()
        if not child:
            train(GRAPH, SETTINGS, run, progress=False, resume=True)
            os._exit(0)
        before = written(run)
        while written(run) == before and not os.waitid(
            os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT
        ):
            time.sleep(0.001)
        time.sleep(moments.uniform(0.0, 0.03))  # some checkpoints more, or into the middle of one
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if run.has(CHECKPOINT):
            assert run.tensors(CHECKPOINT)
            seen.add(run.metadata(CHECKPOINT)["position"])
    return len(seen), dict(whole.state_dict())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_many_times(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ((seen, expected),) = in_processes(1, tmp_path, killed, folder)
    assert seen >= 4
    run = RunFolder.open(folder)
    found = train(GRAPH, SETTINGS, run, progress=False, resume=True).state_dict()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert is_complete(run)
    names = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    assert [name for name in names if not name.startswith(LOCK)] == []
