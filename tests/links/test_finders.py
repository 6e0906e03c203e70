"""What finds tails in a run belongs to the weights that the run was opened with."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import tacit
from ring_runs import GRAPH
from tacit.errors import RunError
from tacit.folder import INDEX

QUESTION = "?x : exists ?y . next(n1, ?y) & after(?y, ?x)"


def trained(path: Path, seed: int) -> tacit.Run:
    return tacit.train(
        GRAPH, path, force=True, progress=False, seed=seed, rank=4, epochs=3, batch=10, validate_every=3, device="cpu"
    )


def test_a_run_that_was_trained_anew_keeps_no_rows_of_its_former_weights(tmp_path: Path) -> None:
    """Whoever has the former weights open finds by them, and would keep that as if it were of those on disk."""
    former = trained(tmp_path / "run", 0)
    copied = pickle.loads(pickle.dumps(former.engine))
    now = trained(tmp_path / "run", 1)
    for engine in (former.engine, copied):
        with pytest.raises(RunError, match="were changed since it was opened; open it again"):
            engine.using(candidates="scan").ask(QUESTION)
    assert former.ask(QUESTION).entities  # over rows, by the weights that it has
    listed, plain = (now.engine.using(candidates=each, search="certified").ask(QUESTION) for each in ("scan", "rows"))
    assert listed.entities == plain.entities
    assert [each.score for each in listed] == pytest.approx([each.score for each in plain], abs=1e-5)


def test_no_index_of_former_weights_is_built(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    former = trained(tmp_path / "run", 0)
    trained(tmp_path / "run", 1)
    with pytest.raises(RunError, match="were changed since it was opened; open it again"):
        former.index()
    assert not (tmp_path / "run" / INDEX).exists()
