"""A ring to train on in no time, and trainings of it that are stopped on the way."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch

from tacit.graph.graph import Graph
from tacit.links.settings import TrainSettings
from tacit.links.training.link_training import train
from tacit.links.training.step import TrainStep
from tacit.run_folder.folder import RunFolder

SIZE = 24


def ring() -> Graph:
    """A ring in which the step of two can be inferred from steps of one."""
    one = [(f"n{i}", "next", f"n{(i + 1) % SIZE}") for i in range(SIZE)]
    two = [(f"n{i}", "after", f"n{(i + 2) % SIZE}") for i in range(SIZE)]
    return Graph.of(one + two[6:], two[:3], two[3:6], "ring")


GRAPH = ring()
SMALL = TrainSettings(rank=4, epochs=6, batch=10, validate_every=2, device="cpu")


def new_run(path: Path, settings: TrainSettings = SMALL, graph: Graph = GRAPH) -> RunFolder:
    return RunFolder.create(path, graph, settings.to_dict())


def interrupt_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Send this process a Ctrl-C in the middle of a step."""
    seen = 0
    original = TrainStep.__call__

    def call(self: TrainStep, triples: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        nonlocal seen
        seen += 1
        if seen == step:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, triples, generator)

    monkeypatch.setattr(TrainStep, "__call__", call)


def stopped_run(path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> RunFolder:
    """A run whose training was stopped in a step."""
    run = new_run(path)
    with monkeypatch.context() as patch:
        interrupt_at(patch, step)
        with pytest.raises(KeyboardInterrupt):
            train(GRAPH, SMALL, run)
    return run
