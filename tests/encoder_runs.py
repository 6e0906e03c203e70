"""A small run with a trained encoder alone, for the tests that ask for one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from family_runs import families

TINY: dict[str, Any] = {
    "model": "gqe", "width": 8, "batch": 32, "negatives": 16, "steps": 40, "validate_every": 0.5,
    "validate_queries": 5, "device": "cpu",
}  # fmt: skip


@pytest.fixture(scope="session")
def gqe_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of families with GQE alone; tests leave it as it is."""
    from tacit.run.training import train_encoder  # heavy, as in family_runs

    out = tmp_path_factory.mktemp("runs") / "gqe"
    return train_encoder(families(), out, progress=False, **TINY).folder.path
