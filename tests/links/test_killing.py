"""A training process killed at any moment leaves a whole checkpoint, and ends where an unkilled one does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = 12

# One process loads torch and forks the trainings it kills: starting each from nothing would take most of the time.
SCRIPT = """
import os, random, signal, sys, time
import torch
torch.set_num_threads(1)
from tacit.graph.graph import Graph
from tacit.links.settings import TrainSettings
from tacit.links.finished import is_complete
from tacit.links.training import train
from tacit.folder import CHECKPOINT, RunFolder

folder, kills = sys.argv[1], int(sys.argv[2])
graph = Graph.of([(f"e{i}", "r", f"e{(i * 7 + 1) % 150}") for i in range(150)])
settings = TrainSettings(rank=16, epochs=40, batch=50, checkpoint_seconds=0, device="cpu")
expected = train(graph, settings).state_dict()
run = RunFolder.create(folder, graph, settings.to_dict())
random.seed(0)
seen = set()
for _ in range(kills):
    child = os.fork()
    if not child:
        train(graph, settings, run, resume=True)
        os._exit(0)
    time.sleep(random.uniform(0.02, 0.2))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if run.has(CHECKPOINT):
        assert run.tensors(CHECKPOINT)
        seen.add(run.metadata(CHECKPOINT)["position"])
found = train(graph, settings, run, resume=True).state_dict()
assert all(torch.equal(found[name], expected[name]) for name in expected), "other weights"
assert is_complete(run)
print(len(seen), "checkpoints seen")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_many_times(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "run"), str(KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) >= 2
    assert not [path.name for path in (tmp_path / "run").iterdir() if path.name.startswith(".tacit-")]
