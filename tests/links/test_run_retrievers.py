"""What finds tails in a run belongs to the weights that the run was opened with."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from torch import Tensor

import tacit
from ring_runs import GRAPH
from tacit.engine.atoms import atoms, derived_weights
from tacit.errors import RunError
from tacit.links import run_retrievers
from tacit.links.codes import Codes
from tacit.run_folder.files import BYTES, INDEX

QUESTION = "?x : exists ?y . next(n1, ?y) & after(?y, ?x)"


def trained(path: Path, seed: int) -> tacit.Run:
    return tacit.train(
        GRAPH,
        path,
        force=True,
        progress=False,
        seed=seed,
        rank=4,
        epochs=3,
        batch=10,
        validate_every=3,
        rules=False,
        device="cpu",
    )


def test_a_run_that_was_trained_anew_keeps_no_rows_of_its_former_weights(tmp_path: Path) -> None:
    """A process with the former weights open must not cache rows as if of the new ones."""
    former = trained(tmp_path / "run", 0)
    copied = pickle.loads(pickle.dumps(former.engine))
    now = trained(tmp_path / "run", 1)
    for engine in (former.engine, copied):
        with pytest.raises(RunError, match="were changed since it was opened; open it again"):
            engine.with_settings(candidates="scan").ask(QUESTION)
    assert former.ask(QUESTION).entities  # over rows, by the weights that it has
    listed, plain = (
        now.engine.with_settings(candidates=each, search="certified").ask(QUESTION)
        for each in ("scan", "rows")
    )
    assert listed.entities == plain.entities
    assert [each.score for each in listed] == pytest.approx(
        [each.score for each in plain], abs=1e-5
    )


def test_no_index_of_former_weights_is_built(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    trained(tmp_path / "run", 0)
    former = tacit.open(tmp_path / "run", device="cpu")
    trained(tmp_path / "run", 1)
    with pytest.raises(RunError, match="were changed since it was opened; open it again"):
        former.index()
    assert not (tmp_path / "run" / INDEX).exists()


def test_processes_share_the_codes_of_a_run_and_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atoms, "_LARGE", 0)
    monkeypatch.setattr(derived_weights, "_CODED_AFTER", 3)
    path = tmp_path / "run"
    question = "?x : next(n1, ?x)"
    trained(path, 0)
    run = tacit.open(path, device="cpu")
    plain = [run.ask(question).to_dict()["answers"] for _ in range(3)]
    assert not (path / BYTES).exists()
    coded = [run.ask(question).to_dict()["answers"] for _ in range(2)]
    assert plain[2:] * 2 == coded
    assert (path / BYTES).exists()

    made = list[int]()
    of = Codes.of

    def counted(keys: Tensor) -> Codes:
        made.append(len(keys))
        return of(keys)

    monkeypatch.setattr(Codes, "of", counted)
    other = tacit.open(path, device="cpu")
    assert other.ask(question).to_dict()["answers"] == coded[0]
    assert made == []  # from its first question on
    assert other.engine.atoms.codes(0).numbers.data_ptr() % 64 == 0  # type: ignore[union-attr]

    changed = tacit.open(path, device="cpu")
    changed.engine.scorer.entities.weight.mul_(-3.0)  # type: ignore[union-attr]
    best = changed.engine.with_settings(search="exact", candidates="rows").ask(question)
    assert changed.ask(question).entities == best.entities
    assert len(made) == 1
    # what is kept is as it was
    assert tacit.open(path, device="cpu").ask(question).to_dict()["answers"] == coded[0]


def test_codes_that_are_damaged_or_cannot_be_kept_are_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atoms, "_LARGE", 0)
    monkeypatch.setattr(derived_weights, "_CODED_AFTER", -1)
    path = tmp_path / "run"
    question = "?x : next(n1, ?x)"
    trained(path, 0)
    expected = tacit.open(path, device="cpu").ask(question).to_dict()["answers"]
    for damage in (
        b"nothing",
        (path / BYTES).read_bytes()[:-40],
        (path / BYTES).read_bytes()[:-40] + bytes(40),
    ):
        (path / BYTES).write_bytes(damage)
        assert tacit.open(path, device="cpu").ask(question).to_dict()["answers"] == expected
    (path / BYTES).unlink()

    def refuse(*arguments: object) -> None:
        raise RunError("this disk takes no more")

    monkeypatch.setattr(run_retrievers, "write_array", refuse)
    assert tacit.open(path, device="cpu").ask(question).to_dict()["answers"] == expected
    assert not (path / BYTES).exists()


@pytest.mark.parametrize("copied", [False, True])
def test_weights_that_others_took_the_place_of_are_not_taken_for_those_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: bool
) -> None:
    """An assigned state dict brings tensors that nobody has written to."""
    monkeypatch.setattr(atoms, "_LARGE", 0)
    monkeypatch.setattr(derived_weights, "_CODED_AFTER", -1)
    question = "?x : next(n1, ?x)"
    path = tmp_path / "run"
    trained(path, 0)
    others = trained(tmp_path / "other", 1).engine.scorer.state_dict()  # type: ignore[attr-defined]
    run = tacit.open(path, device="cpu")
    engine = pickle.loads(pickle.dumps(run.engine)) if copied else run.engine
    engine.scorer.load_state_dict(
        {name: weight.clone() for name, weight in others.items()}, assign=True
    )
    exact = engine.with_settings(search="exact").ask(question)
    assert engine.ask(question).entities == exact.entities
    assert not (path / BYTES).exists()
    retrievers = engine.parts.retrievers
    assert retrievers is not None
    with pytest.raises(RunError, match="were written to in memory"):
        retrievers.build(engine.scorer)
    if not copied:
        assert "written to in memory" in run.evaluate().unstored_reason
        assert run.results.get("eval") is None


def test_codes_of_a_writer_that_was_killed_on_the_way_are_refused(tmp_path: Path) -> None:
    """Bytes and scales lie in two files, which one writer after the other may leave."""
    pytest.importorskip("faiss")
    question = "?x : next(n1, ?x)"
    settings = {"candidates": "scan", "calibration": "sigmoid", "device": "cpu"}
    trained(tmp_path / "other", 1).index()
    run = trained(tmp_path / "run", 0)
    run.index()
    assert tacit.open(tmp_path / "run", **settings).ask(question).entities
    (tmp_path / "run" / BYTES).write_bytes((tmp_path / "other" / BYTES).read_bytes())
    with pytest.raises(RunError, match=r"codes.safetensors does not fit codes.npy; build it again"):
        tacit.open(tmp_path / "run", **settings).ask(question)
    run.index()
    assert tacit.open(tmp_path / "run", **settings).ask(question).entities
