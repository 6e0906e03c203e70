"""Folders of encoders: how their trainings begin, stop, go on and are replaced."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import tacit
from encoder_runs import TINY
from family_runs import families
from tacit.errors import DataError, PlanError, RunError, SettingsError
from tacit.evaluate.protocol import one_hop_queries
from tacit.fitting.progress import Event
from tacit.links.models import load_model, save_model
from tacit.run.compare import compare
from tacit.run_folder.files import ENCODER, ENCODING, RESULTS
from tacit.run_folder.folder import RunFolder

GRAPH = families()


KNOWN = "?x : lives(p1, ?x)"


def encode_folder(*arguments: Any, **settings: Any) -> RunFolder:
    return tacit.train_encoder(*arguments, **settings).folder


@pytest.fixture
def gqe(gqe_run: Path, tmp_path: Path) -> Path:
    """A copy of the run, to change."""
    return Path(shutil.copytree(gqe_run, tmp_path / "gqe"))


def test_folders_are_made_replaced_and_finished(gqe: Path) -> None:
    with pytest.raises(RunError, match="holds a run"):
        encode_folder(GRAPH, gqe, progress=False, **TINY)
    assert encode_folder(GRAPH, gqe, resume=True, progress=False).has(ENCODER)  # it is complete
    with pytest.raises(SettingsError, match="width is 9, and the run has 8"):
        encode_folder(GRAPH, gqe, resume=True, progress=False, width=9)
    with pytest.raises(RunError, match=f"has no {ENCODING} to go on from"):
        encode_folder(GRAPH, gqe, resume=True, progress=False, steps=1000)
    (gqe / ENCODER).unlink()
    with pytest.raises(RunError, match=f"has no {ENCODER}: train an encoder first"):
        tacit.open(gqe)
    replaced = encode_folder(
        GRAPH, gqe, force=True, progress=False, **TINY | {"width": 4, "steps": 1}
    )
    assert replaced.settings["encode"]["width"] == 4


def test_an_encoder_stays_until_another_is_trained(gqe: Path, tmp_path: Path) -> None:
    before = tacit.open(gqe, device="cpu").ask(KNOWN, new=True).to_dict()
    with pytest.raises(DataError, match=r"weights\.pth"):
        encode_folder(gqe, model="ultra", checkpoint=tmp_path / "weights.pth", force=True)
    with pytest.raises(SettingsError, match="works on a link predictor"):
        encode_folder(gqe, force=True, progress=False, **TINY | {"model": "lmpnn"})
    with pytest.raises(PlanError, match="Query2Box has no complement"):
        encode_folder(gqe, force=True, progress=False, **TINY | {"model": "q2b", "shapes": "2in"})
    assert tacit.open(gqe, device="cpu").ask(KNOWN, new=True).to_dict() == before
    with pytest.raises(SettingsError, match="track is given beside `checkpoint`"):
        encode_folder(gqe, model="ultra", checkpoint="x", force=True, track="tensorboard")
    with pytest.raises(SettingsError, match="steps is given beside `checkpoint`"):
        encode_folder(gqe, model="ultra", checkpoint=tmp_path / "weights.pth", force=True, steps=9)
    with pytest.raises(
        RunError,
        match=f"has no {ENCODING} to go on from; train anew with `force=True`, or for 40 steps",
    ):
        encode_folder(gqe, resume=True, progress=False, minutes=5.0)


def test_queries_of_a_folder_and_those_it_lacks(tmp_path: Path) -> None:
    for split in ("train", "valid"):
        tacit.sample(GRAPH, tmp_path / "queries", shapes="1p,2i", split=split, count=8)
    run = tacit.train_encoder(
        GRAPH,
        tmp_path / "run",
        queries=tmp_path / "queries",
        progress=False,
        **TINY | {"shapes": "1p,2i,2p", "steps": 2},
    )
    assert run.results["encode"]["learned_from"] == {"1p": "given", "2i": "given", "2p": "drawn"}
    assert set(run.results["encode"]["mrr"]) == {"1p", "2i"}


def test_what_could_not_be_trained_leaves_no_folder(tmp_path: Path) -> None:
    one = one_hop_queries(GRAPH, "valid")
    elsewhere = replace(one, entities=one.entities + 1000)
    refused: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"shapes": "2in"}, PlanError),
        ({"queries": tmp_path}, DataError),
        ({"queries": one}, SettingsError),
        ({"queries": [one]}, SettingsError),
        ({"queries": {"1p": 3}}, SettingsError),
        ({"queries": {"1p": one}, "shapes": "2p"}, SettingsError),
        ({"queries": {"1p": elsewhere}}, DataError),
    ]
    for wrong, error in refused:
        with pytest.raises(error):
            encode_folder(GRAPH, tmp_path / "run", progress=False, **TINY | wrong)
        assert not (tmp_path / "run").exists()
    (tmp_path / "own").mkdir()
    with pytest.raises(PlanError):
        encode_folder(GRAPH, tmp_path / "own", progress=False, **TINY | {"shapes": "2in"})
    assert (tmp_path / "own").exists()  # it was there before


def test_checkpoints_are_of_ultra_alone(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match="checkpoint is given, and `model='q2b'` is not imported"
    ):
        tacit.train_encoder(
            GRAPH, tmp_path / "run", checkpoint=tmp_path / "weights.pth", device="cpu"
        )


def test_lmpnn_comes_with_the_link_predictor_it_works_on(run: RunFolder, tmp_path: Path) -> None:
    settings = TINY | {"model": "lmpnn", "steps": 2, "hidden": 8, "validate_queries": 1}
    own = tacit.train_encoder(run.path, tmp_path / "own", progress=False, **settings)
    linked = tacit.open(run.path, device="cpu")
    assert own.ask(KNOWN, new=True).to_dict() == linked.ask(KNOWN, new=True).to_dict()
    assert own.engine.with_settings(search="encoder").ask(KNOWN)[0].entity == "t0"
    predictor, encoder = compare([own.folder.path], shapes="1p", limit=2, device="cpu").rows
    assert encoder.parameters > predictor.parameters
    save_model(own.folder, load_model(run))  # other weights, for all it knows
    assert not own.folder.has(ENCODER)
    assert "encode" not in own.folder.settings


def stopped(event: Event) -> None:
    """Stop a training at its first validation, as Ctrl-C does."""
    if event.what == "validation":
        raise KeyboardInterrupt


def test_lmpnn_goes_on_over_the_vectors_it_began_with_alone(run: RunFolder) -> None:
    settings = TINY | {"model": "lmpnn", "hidden": 8, "steps": 4, "checkpoint_seconds": 0.0}
    with pytest.raises(KeyboardInterrupt):
        encode_folder(run.path, progress=stopped, **settings)
    model = load_model(run)
    model.relations.weight.mul_(2.0)
    save_model(run, model)
    with pytest.raises(
        RunError,
        match=r"made with other vectors of the link predictor; .* start again with `force=True`",
    ):
        encode_folder(run.path, resume=True, progress=False, **settings)
    tacit.open(run.path, device="cpu").drop_encoder()  # what was stopped is given up
    assert encode_folder(run.path, progress=False, **settings).has(ENCODER)


def test_lmpnn_in_a_run_of_its_own_goes_on_by_the_settings_it_began_with(
    run: RunFolder, tmp_path: Path
) -> None:
    settings = TINY | {"model": "lmpnn", "hidden": 8, "steps": 4, "checkpoint_seconds": 0.0}
    with pytest.raises(KeyboardInterrupt):
        encode_folder(run.path, tmp_path / "own", progress=stopped, **settings)
    own = encode_folder(run.path, tmp_path / "own", resume=True, progress=False, steps=6)
    assert own.results()["encode"]["steps"] == own.settings["encode"]["steps"] == 6
    whole = encode_folder(run.path, progress=False, **settings | {"steps": 6})
    assert own.settings["encode"] == whole.settings["encode"]


def test_a_training_that_was_stopped_goes_on_in_the_run_it_is_for(
    run: RunFolder, tmp_path: Path
) -> None:
    settings = TINY | {"checkpoint_seconds": 0.0, "steps": 6}
    for folder in (run.path, tmp_path / "own"):
        out = None if folder == run.path else folder
        source = run.path if out is None else GRAPH
        with pytest.raises(KeyboardInterrupt):
            encode_folder(source, out, progress=stopped, **settings)
        assert RunFolder.open(folder).has(ENCODING)
        if out is None:
            # by the link predictor meanwhile
            assert tacit.open(folder, device="cpu").ask(KNOWN)[0].entity == "t0"
            with pytest.raises(
                RunError, match="go on with `resume=True` where its training was stopped"
            ):
                encode_folder(source, progress=False, **settings)
            with pytest.raises(
                RunError, match=r"\(lr .*, not 0\.5\); give those, or start again with `force=True`"
            ):
                encode_folder(source, progress=False, resume=True, **settings | {"lr": 0.5})
            with pytest.raises(
                RunError, match="has not finished; go on with `resume=True` before its facts change"
            ):
                tacit.open(folder, device="cpu").add([("p1", "lives", "t5")])
        else:
            with pytest.raises(
                RunError, match="its training has not finished; go on with `resume=True`"
            ):
                tacit.open(folder, device="cpu")
        done = encode_folder(source, out, progress=False, resume=True, **settings)
        assert done.results()["encode"]["steps"] == 6
        assert not done.has(ENCODING)
    one, other = (
        RunFolder.open(folder).tensors(ENCODER) for folder in (run.path, tmp_path / "own")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_damaged_results_are_told_before_anything_is_learned(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", GRAPH, {})
    (run.path / RESULTS).write_text("{")
    events = list[Event]()
    with pytest.raises(RunError, match="is damaged"):
        encode_folder(run.path, progress=events.append, **TINY)
    assert not events
    assert not run.has(ENCODER)
