"""Adaptation as a user runs it: in a run folder, from queries of a folder or of the graph itself."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from tacit.adapt.loading import load_adapted, load_adapter
from tacit.adapt.settings import AdaptSettings
from tacit.adapt.sources import training_queries, validation_queries
from tacit.adapt.training import adapt
from tacit.cli import app
from tacit.engine.facts import Facts
from tacit.errors import DataError, RunError, TrainingError
from tacit.folder import ADAPTATION, ADAPTER, MODEL, RunFolder
from tacit.graph.betae import write_betae
from tacit.graph.graph import Graph
from tacit.links.loading import load_model, save_model
from tacit.links.settings import TrainSettings
from tacit.links.training import train
from tacit.query.queries import read_queries, write_queries
from tacit.run import open_engine

SETTINGS = AdaptSettings(steps=20, batch=32, validate_every=10, validate_queries=10, device="cpu", patience=50)


def families() -> Graph:
    """Thirty people in ten families: siblings share a town and have friends in another."""
    facts = []
    for i in range(30):
        facts += [(f"p{i}", "lives", f"t{i // 3}"), (f"p{i}", "knows", f"p{(i * 7 + 3) % 30}")]
        facts += [(f"p{i}", "sibling", f"p{3 * (i // 3) + j}") for j in range(3) if j != i % 3]
    held_out = facts[4::11]
    return Graph.of([fact for fact in facts if fact not in held_out], held_out[::2], held_out[1::2], "families")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "families"
    settings = TrainSettings(rank=8, epochs=20, batch=50, device="cpu")
    train(families(), settings, RunFolder.create(path, families(), settings.to_dict()), progress=False)
    return path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> RunFolder:
    copy = tmp_path / "run"
    copy.mkdir()
    for file in trained.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return RunFolder.open(copy)


@pytest.mark.parametrize("shapes", [("2i", "3in"), ("2p", "2u", "inp")])
def test_the_link_predictor_does_not_change_by_a_bit(run: RunFolder, shapes: tuple[str, ...]) -> None:
    graph, model = run.graph(), load_model(run)
    before, file = (
        {name: tensor.clone() for name, tensor in model.state_dict().items()},
        (run.path / MODEL).read_bytes(),
    )
    settings = replace(SETTINGS, shapes=shapes, steps=5, k=5)
    result = adapt(graph, model, training_queries(graph, settings, count=40), settings, run=run)
    assert any(parameter.any() for parameter in result.adapter.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert (run.path / MODEL).read_bytes() == file


@pytest.mark.parametrize("condition", ["none", "p", "sp", "spo"])
def test_an_adapter_comes_back_from_its_run(run: RunFolder, condition: str) -> None:
    graph, model = run.graph(), load_model(run)
    settings = replace(SETTINGS, condition=condition, steps=3, layers=2, hidden=4, logic="product", strength=2.0)
    result = adapt(graph, model, training_queries(graph, settings, count=30), settings, run=run, valid={})
    facts = Facts(graph.index("train"))
    found = load_adapted(run, load_model(run), facts)
    assert found is not None
    again, engine = found
    assert engine == {"logic": "product", "negation": "standard", "strength": 2.0, "calibration": "sigmoid"}
    heads, relations = torch.arange(6), torch.arange(6)
    logits = model.logits(heads, relations)
    assert torch.equal(again(logits.clone(), heads, relations), result.calibration(logits.clone(), heads, relations))
    assert open_engine(run.path, device="cpu").about["adapted"]


def test_an_adapter_that_helps_nothing_is_not_kept(run: RunFolder) -> None:
    graph, settings = run.graph(), replace(SETTINGS, steps=3, lr=1e-12)
    result = adapt(graph, load_model(run), training_queries(graph, settings, count=30), settings, run=run)
    assert result.summary["best_step"] == 0
    assert not run.has(ADAPTER)
    assert "adapt" not in run.settings


def test_a_run_without_an_adapter_has_none(run: RunFolder) -> None:
    assert load_adapted(run, load_model(run), Facts(run.graph().index("train"))) is None


def test_an_adapter_goes_with_the_weights_it_was_trained_on(run: RunFolder) -> None:
    graph, model = run.graph(), load_model(run)
    adapt(graph, model, training_queries(graph, SETTINGS, count=20), replace(SETTINGS, steps=1), run=run, valid={})
    assert run.has(ADAPTER)
    save_model(run, model)
    assert not run.has(ADAPTER)


def test_a_damaged_adapter_is_one_clear_error(run: RunFolder) -> None:
    run.write_tensors(ADAPTER, {"bias": torch.zeros(3)}, {"settings": "{}"})
    with pytest.raises(RunError, match=r"adapter\.safetensors does not fit the run .*; adapt the run again"):
        load_adapter(run, load_model(run))


def test_training_is_the_same_under_a_seed_and_keeps_the_best(run: RunFolder) -> None:
    graph, model = run.graph(), load_model(run)
    queries = training_queries(graph, SETTINGS, count=60)
    valid = validation_queries(graph, SETTINGS)
    one, other = (adapt(graph, model, queries, SETTINGS, valid=valid) for _ in range(2))
    assert [event["loss"] for event in one.trace] == [event["loss"] for event in other.trace]
    assert [event["step"] for event in one.trace] == [0, 10, 20]
    assert one.trace[-1]["loss"] < one.trace[1]["loss"]
    best = max(one.trace, key=lambda event: event["valid_mrr"])
    assert (one.summary["valid_mrr"], one.summary["best_step"]) == (best["valid_mrr"], best["step"])


@pytest.mark.parametrize("logic", ["godel", "lukasiewicz"])
@pytest.mark.parametrize("negation", ["standard", "cosine"])
def test_every_logic_can_be_learned_in(run: RunFolder, logic: str, negation: str) -> None:
    graph, model = run.graph(), load_model(run)
    settings = replace(SETTINGS, shapes=("2i", "2in", "2u"), logic=logic, negation=negation, strength=2.0, steps=5)
    result = adapt(graph, model, training_queries(graph, settings, count=30), settings)
    assert all(parameter.isfinite().all() for parameter in result.adapter.parameters())
    assert result.trace[-1]["loss"] is not None


@pytest.mark.parametrize("loss", ["log", "1vsall", "bce"])
def test_an_adapter_on_all_three_learns_under_minmax(run: RunFolder, loss: str) -> None:
    graph, model = run.graph(), load_model(run)
    settings = replace(SETTINGS, shapes=("2i", "2in", "2u"), calibration="minmax", condition="spo", loss=loss, steps=5)
    result = adapt(graph, model, training_queries(graph, settings, count=30), settings)
    assert all(parameter.isfinite().all() for parameter in result.adapter.parameters())
    assert any(parameter.any() for parameter in result.adapter.parameters())


def test_patience_ends_training(run: RunFolder) -> None:
    graph, model = run.graph(), load_model(run)
    settings = replace(SETTINGS, lr=1e-12, steps=1000, validate_every=1, patience=3)
    result = adapt(graph, model, training_queries(graph, settings, count=30), settings)
    assert result.summary["steps"] == 3  # nothing gets better than where it started


def test_a_share_of_the_queries(run: RunFolder) -> None:
    graph, model = run.graph(), load_model(run)
    queries = training_queries(graph, SETTINGS, count=50)
    settings = replace(SETTINGS, share=0.1, steps=1)
    result = adapt(graph, model, queries, settings, valid={})
    assert result.summary["queries"] == {name: round(0.1 * len(one)) for name, one in queries.items()}


def interrupt(event: object) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interruption_leaves_the_run_as_it_was_beside_a_checkpoint(run: RunFolder) -> None:
    graph, model = run.graph(), load_model(run)
    added = ("trace.jsonl", ADAPTATION)
    before = {file.name: file.read_bytes() for file in run.path.iterdir() if file.name not in added}
    with pytest.raises(KeyboardInterrupt, match="stopped at step 1 and saved; go on with --resume"):
        adapt(graph, model, training_queries(graph, SETTINGS, count=20), SETTINGS, run=run, report=interrupt)
    assert {file.name: file.read_bytes() for file in run.path.iterdir() if file.name not in added} == before


@pytest.mark.parametrize("loss", ["log", "bce"])
@pytest.mark.parametrize("stopped_after", [0, 10])
def test_resuming_leads_to_the_very_same_adapter(run: RunFolder, loss: str, stopped_after: int) -> None:
    graph, model = run.graph(), load_model(run)
    settings = replace(SETTINGS, loss=loss, layers=2, hidden=4)
    queries, valid = training_queries(graph, settings, count=40), validation_queries(graph, settings)
    whole = adapt(graph, model, queries, settings, valid=valid)

    def stop(event: dict[str, Any]) -> None:
        if event["step"] == stopped_after:
            interrupt(event)

    with pytest.raises(KeyboardInterrupt):
        adapt(graph, model, queries, settings, valid=valid, run=run, report=stop)
    again = adapt(graph, model, queries, settings, valid=valid, run=run, resume=True)
    assert all(
        torch.equal(tensor, again.adapter.state_dict()[name]) for name, tensor in whole.adapter.state_dict().items()
    )
    assert [(one["step"], one["loss"], one["mrr"]) for one in again.trace] == [
        (one["step"], one["loss"], one["mrr"]) for one in whole.trace
    ]
    assert not run.has(ADAPTATION)


def test_resuming_with_other_settings_or_queries_is_refused(run: RunFolder) -> None:
    graph, model = run.graph(), load_model(run)
    queries = training_queries(graph, SETTINGS, count=40)
    with pytest.raises(KeyboardInterrupt):
        adapt(graph, model, queries, SETTINGS, run=run, report=interrupt)
    others = training_queries(graph, SETTINGS, count=30)
    for given, settings in ((queries, replace(SETTINGS, lr=0.2)), (others, SETTINGS)):
        with pytest.raises(RunError, match="other settings or queries; give those, or adapt without --resume"):
            adapt(graph, model, given, settings, run=run, resume=True)
    run.write_tensors(ADAPTATION, {"bias": torch.zeros(3)}, {"kind": "else"})
    with pytest.raises(RunError, match="is no checkpoint of an adaptation"):
        adapt(graph, model, queries, SETTINGS, run=run, resume=True)


def test_nothing_to_learn_from_is_said(run: RunFolder) -> None:
    with pytest.raises(TrainingError, match="no query of any shape has an answer to learn from"):
        adapt(run.graph(), load_model(run), {}, SETTINGS)


def test_answers_that_a_folder_lacks_are_found_in_the_graph(run: RunFolder, tmp_path: Path) -> None:
    graph, settings = run.graph(), replace(SETTINGS, shapes=("2i", "2in"))
    sampled = training_queries(graph, settings, count=20)
    write_betae(graph, tmp_path)
    write_queries(tmp_path, "train", {"2i": sampled["2i"]})
    (tmp_path / "train-answers.pkl").unlink()
    found = training_queries(graph, settings, tmp_path, count=20)  # 2in is not there: sampled
    listed = read_queries(tmp_path, "train")["2i"]
    assert found["2i"].tuples() == listed.tuples()
    right = dict(zip(sampled["2i"].tuples(), sampled["2i"].hard.to_sets(), strict=True))
    assert dict(zip(found["2i"].tuples(), found["2i"].hard.to_sets(), strict=True)) == right
    assert found["2in"].tuples() == sampled["2in"].tuples()


def test_queries_of_another_graph_are_refused(run: RunFolder, tmp_path: Path) -> None:
    other = Graph.of([(f"a{i}", "r", f"b{i % 7}") for i in range(90)])
    settings = replace(SETTINGS, shapes=("2i",))
    write_betae(other, tmp_path)
    write_queries(tmp_path, "train", training_queries(other, settings, count=60))
    with pytest.raises(DataError, match="its queries were made of other facts"):
        training_queries(run.graph(), settings, tmp_path)


@pytest.mark.parametrize("held_out", [False, True])
def test_tacit_adapt(run: RunFolder, held_out: bool) -> None:
    words = ["adapt", str(run.path), "--count", "40", "--steps", "4", "--batch", "16", "--device", "cpu"]
    done = CliRunner().invoke(app, [*words, *(["--held-out"] if held_out else [])])
    assert done.exit_code == 0, done.output
    if run.has(ADAPTER):
        assert "34 parameters, 4 steps" in done.output
        assert run.settings["adapt"]["held_out"] is held_out
        assert run.results()["adapt"]["steps"] == 4
    else:
        assert "no step improved validation MRR" in done.output
    assert [event["step"] for event in run.events() if event["event"] == "adapt"] == [0, 4]
