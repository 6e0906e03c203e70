"""A small trained run to adapt, for the tests that ask for one.

What is heavy is imported where it is used: this file is also read by the process that only hands
tests out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tacit.graph.graph import Graph
    from tacit.run_folder.folder import RunFolder


def families() -> Graph:
    """Thirty people in ten families: siblings share a town and have friends in another."""
    from tacit.graph.graph import Graph

    facts = []
    for i in range(30):
        facts += [(f"p{i}", "lives", f"t{i // 3}"), (f"p{i}", "knows", f"p{(i * 7 + 3) % 30}")]
        facts += [(f"p{i}", "sibling", f"p{3 * (i // 3) + j}") for j in range(3) if j != i % 3]
    held_out = facts[4::11]
    return Graph.of(
        [fact for fact in facts if fact not in held_out], held_out[::2], held_out[1::2], "families"
    )


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of families; tests change copies of it alone."""
    from tacit.links.settings import TrainSettings
    from tacit.links.training.link_training import train
    from tacit.run_folder.folder import RunFolder

    path = tmp_path_factory.mktemp("runs") / "families"
    settings = TrainSettings(rank=8, epochs=20, batch=50, device="cpu")
    train(
        families(), settings, RunFolder.create(path, families(), settings.to_dict()), progress=False
    )
    return path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> RunFolder:
    from tacit.run_folder.folder import RunFolder

    copy = tmp_path / "run"
    copy.mkdir()
    for file in trained.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return RunFolder.open(copy)
