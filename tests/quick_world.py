"""The embedded graph, hardly trained, in a cache of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tacit.graph.datasets import load
from tacit.run import world as training


def quick_world(cache: Path) -> Path:
    """A `world` run trained for an epoch, where `TACIT_CACHE=cache` finds it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_CACHE", str(cache))
        folder = training.world_folder(load("world"))
        patch.setattr(training, "WORLD", replace(training.WORLD, epochs=1, rank=16))
        return training.world_run().rename(folder)
