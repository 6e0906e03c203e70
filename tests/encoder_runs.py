"""A small graph to train encoders on, and a run with a trained one alone.

What is heavy is imported where it is used, as in `family_runs`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from family_runs import families

if TYPE_CHECKING:
    from tacit.graph.graph import Graph

QUICK: dict[str, Any] = {
    "steps": 12, "width": 4, "batch": 16, "negatives": 8, "validate_queries": 5,
    "validate_every": 0.5, "device": "cpu",
}  # fmt: skip
TINY: dict[str, Any] = {
    "model": "gqe", "width": 8, "batch": 32, "negatives": 16, "steps": 40, "validate_every": 0.5,
    "validate_queries": 5, "device": "cpu",
}  # fmt: skip


def grid() -> Graph:
    """Thirty entities in five rows of six, with the next of a row and that below."""
    from tacit.graph.graph import Graph

    facts = [(f"e{i}", "next", f"e{i + 1}") for i in range(30) if i % 6 < 5]
    facts += [(f"e{i}", "leap", f"e{i + 6}") for i in range(24)]
    return Graph.of(facts, valid=[("e0", "next", "e2"), ("e3", "leap", "e5"), ("e7", "next", "e9")])


@pytest.fixture(scope="session")
def gqe_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of families with GQE alone; tests leave it as it is."""
    from tacit.run.training import train_encoder

    out = tmp_path_factory.mktemp("runs") / "gqe"
    return train_encoder(families(), out, progress=False, **TINY).folder.path
