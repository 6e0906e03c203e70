"""Adaptation of a run folder, from queries of a folder or of the graph itself."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import tacit
from tacit.adapt.adaptation import adapt
from tacit.adapt.adapter import Adapter, load_adapter, save_adapter
from tacit.adapt.adapter_training import AdapterTraining
from tacit.adapt.settings import AdaptSettings
from tacit.adapt.training_queries import training_queries, validation_queries
from tacit.cli import app
from tacit.errors import DataError, LimitError, RunError, SettingsError, TrainingError
from tacit.fitting import loop
from tacit.fitting.progress import Event
from tacit.graph.formats.betae import write_betae
from tacit.graph.graph import Graph
from tacit.links.models import load_model, save_model
from tacit.query.sampling.queries import read_queries, write_queries
from tacit.run_folder.files import ADAPTATION, ADAPTER, MODEL
from tacit.run_folder.folder import RunFolder

SETTINGS = AdaptSettings(
    steps=20, batch=32, validate_every=10, validate_queries=10, device="cpu", patience=50
)
# sigmoid scores, training queries
PLAIN = replace(SETTINGS, calibration="sigmoid", observed=(), held_out=False)


@pytest.mark.parametrize("shapes", [("2i", "3in"), ("2p", "2u", "inp")])
def test_the_link_predictor_does_not_change_by_a_bit(
    run: RunFolder, shapes: tuple[str, ...]
) -> None:
    graph = run.graph()
    model = load_model(run)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    file = (run.path / MODEL).read_bytes()
    settings = replace(PLAIN, shapes=shapes, steps=5, k=5)
    result = adapt(graph, model, training_queries(graph, settings, count=40), settings, run=run)
    assert any(parameter.any() for parameter in result.adapter.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert (run.path / MODEL).read_bytes() == file


def test_an_adapter_is_not_learned_from_weights_that_the_run_no_longer_has(run: RunFolder) -> None:
    opened = tacit.open(run.path, device="cpu")
    save_model(run, load_model(run))  # as another process does that trains it again
    with pytest.raises(RunError, match=r"the weights of run .* were changed since it was opened"):
        opened.adapt(count=30, recipe="paper", steps=2, device="cpu")
    assert not run.has(ADAPTER)
    tacit.open(run.path, device="cpu").adapt(count=30, recipe="paper", steps=2, device="cpu")
    assert run.has(ADAPTER)


@pytest.mark.parametrize("condition", ["none", "p", "sp", "spo"])
def test_an_adapter_comes_back_from_its_run(run: RunFolder, condition: str) -> None:
    graph = run.graph()
    model = load_model(run)
    settings = replace(PLAIN, condition=condition, steps=3, layers=2, logic="product", strength=2.0)
    result = adapt(graph, model, training_queries(graph, settings, count=30), settings, valid={})
    assert result.adapter is not None
    save_adapter(run, result.adapter, result.settings)
    engine = tacit.open(run.path, device="cpu").engine
    found = {
        name: engine.config[name]
        for name in ("logic", "negation", "strength", "calibration", "adapted")
    }
    assert found == {
        "logic": "product",
        "negation": "standard",
        "strength": 2.0,
        "calibration": "sigmoid",
        "adapted": True,
    }
    heads = torch.arange(6)
    relations = torch.arange(6)
    logits = model.logits(heads, relations)
    again = engine.adapter
    assert again is not None
    assert torch.equal(
        again(logits.clone(), heads, relations),
        result.calibration(logits.clone(), heads, relations),
    )


def test_an_adapter_that_helps_nothing_is_not_kept(run: RunFolder) -> None:
    graph = run.graph()
    settings = replace(PLAIN, steps=3, lr=1e-12)
    result = adapt(
        graph, load_model(run), training_queries(graph, settings, count=30), settings, run=run
    )
    assert result.summary["best_step"] == 0
    assert not run.has(ADAPTER)
    assert "adapt" not in run.settings


def test_an_adapter_goes_with_the_weights_it_was_trained_on(run: RunFolder) -> None:
    model = load_model(run)
    save_adapter(run, Adapter(model), PLAIN)
    assert run.has(ADAPTER)
    save_model(run, model)
    assert not run.has(ADAPTER)


def test_a_damaged_adapter_is_one_clear_error(run: RunFolder) -> None:
    run.write_tensors(ADAPTER, {"bias": torch.zeros(3)}, {"settings": "{}"})
    run.write_settings("adapt", AdaptSettings().to_dict())
    with pytest.raises(
        RunError,
        match=r"adapter\.safetensors is damaged or does not fit the run .*; "
        r"ask without it, or drop it",
    ):
        load_adapter(run, load_model(run))


def test_training_is_the_same_under_a_seed_and_keeps_the_best(run: RunFolder) -> None:
    graph = run.graph()
    model = load_model(run)
    queries = training_queries(graph, PLAIN, count=60)
    valid = validation_queries(graph, PLAIN)
    first, second = (adapt(graph, model, queries, PLAIN, valid=valid) for _ in range(2))
    assert [event["loss"] for event in first.trace] == [event["loss"] for event in second.trace]
    assert [event["step"] for event in first.trace] == [0, 10, 20]
    assert first.trace[-1]["loss"] < first.trace[1]["loss"]
    best = max(first.trace, key=lambda event: event["valid_mrr"])
    assert (first.summary["valid_mrr"], first.summary["best_step"]) == (
        best["valid_mrr"],
        best["step"],
    )


@pytest.mark.parametrize("logic", ["godel", "lukasiewicz"])
@pytest.mark.parametrize("negation", ["standard", "cosine"])
def test_every_logic_can_be_learned_in(run: RunFolder, logic: str, negation: str) -> None:
    graph = run.graph()
    model = load_model(run)
    settings = replace(
        PLAIN, shapes=("2i", "2in", "2u"), logic=logic, negation=negation, strength=2.0, steps=5
    )
    result = adapt(graph, model, training_queries(graph, settings, count=30), settings)
    assert all(parameter.isfinite().all() for parameter in result.adapter.parameters())
    assert result.trace[-1]["loss"] is not None


@pytest.mark.parametrize("loss", ["log", "1vsall", "bce"])
def test_an_adapter_on_all_three_learns_under_minmax(run: RunFolder, loss: str) -> None:
    graph = run.graph()
    model = load_model(run)
    settings = replace(
        PLAIN, shapes=("2i", "2in", "2u"), calibration="minmax", condition="spo", loss=loss, steps=5
    )
    # Without validation the last step is kept, even if so few steps improve no ranking.
    result = adapt(graph, model, training_queries(graph, settings, count=30), settings, valid={})
    assert all(parameter.isfinite().all() for parameter in result.adapter.parameters())
    assert any(parameter.any() for parameter in result.adapter.parameters())


def test_patience_ends_training(run: RunFolder) -> None:
    graph = run.graph()
    model = load_model(run)
    settings = replace(PLAIN, lr=1e-12, steps=1000, validate_every=1, patience=3)
    result = adapt(graph, model, training_queries(graph, settings, count=30), settings)
    assert result.summary["steps"] == 3  # nothing gets better than where it started


def test_a_share_of_the_queries(run: RunFolder) -> None:
    graph = run.graph()
    model = load_model(run)
    queries = training_queries(graph, PLAIN, count=50)
    settings = replace(PLAIN, share=0.1, steps=1)
    result = adapt(graph, model, queries, settings, valid={})
    assert result.summary["queries"] == {
        name: round(0.1 * len(one)) for name, one in queries.items()
    }


def interrupt(event: Event, at: int = 0) -> None:
    if event.what == "validation" and event.done == at:
        os.kill(os.getpid(), signal.SIGINT)


def test_an_interruption_leaves_the_run_as_it_was_beside_a_checkpoint(run: RunFolder) -> None:
    graph = run.graph()
    model = load_model(run)
    added = ("trace.jsonl", ADAPTATION)
    before = {file.name: file.read_bytes() for file in run.path.iterdir() if file.name not in added}
    with pytest.raises(KeyboardInterrupt, match=r"stopped at step [01] of 20 and saved"):
        adapt(
            graph,
            model,
            training_queries(graph, PLAIN, count=20),
            PLAIN,
            run=run,
            progress=interrupt,
        )
    assert {
        file.name: file.read_bytes() for file in run.path.iterdir() if file.name not in added
    } == before


@pytest.mark.parametrize("loss", ["log", "bce"])
@pytest.mark.parametrize("stopped_after", [0, 10])
def test_resuming_leads_to_the_very_same_adapter(
    run: RunFolder, loss: str, stopped_after: int
) -> None:
    graph = run.graph()
    model = load_model(run)
    settings = replace(PLAIN, loss=loss, layers=2)
    queries = training_queries(graph, settings, count=40)
    valid = validation_queries(graph, settings)
    whole = adapt(graph, model, queries, settings, valid=valid)

    stop = partial(interrupt, at=stopped_after)
    with pytest.raises(KeyboardInterrupt):
        adapt(graph, model, queries, settings, valid=valid, run=run, progress=stop)
    again = adapt(graph, model, queries, settings, valid=valid, run=run, resume=True)
    assert all(
        torch.equal(tensor, again.adapter.state_dict()[name])
        for name, tensor in whole.adapter.state_dict().items()
    )
    assert [(one["step"], one["loss"], one["mrr"]) for one in again.trace] == [
        (one["step"], one["loss"], one["mrr"]) for one in whole.trace
    ]
    assert not run.has(ADAPTATION)


def test_a_step_that_is_broken_off_is_taken_again_with_the_same_queries(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = run.graph()
    model = load_model(run)
    settings = replace(PLAIN, loss="bce")
    queries = training_queries(graph, settings, count=40)
    valid = validation_queries(graph, settings)
    whole = adapt(graph, model, queries, settings, valid=valid)
    accumulate = AdapterTraining.accumulate
    calls = [0]

    def broken(training: AdapterTraining) -> torch.Tensor:
        # which draws queries and negatives
        loss = accumulate(training)
        calls[0] = calls[0] + 1
        if calls[0] == 7:
            signal.raise_signal(signal.SIGINT)
        return loss

    with monkeypatch.context() as patch:
        patch.setattr(loop, "SLOW", 0.0)
        patch.setattr(AdapterTraining, "accumulate", broken)
        with pytest.raises(KeyboardInterrupt, match="stopped at step 6 of 20 and saved"):
            adapt(graph, model, queries, settings, valid=valid, run=run)
    again = adapt(graph, model, queries, settings, valid=valid, run=run, resume=True)
    assert [(one["step"], one["loss"]) for one in again.trace] == [
        (one["step"], one["loss"]) for one in whole.trace
    ]
    assert all(
        torch.equal(tensor, again.adapter.state_dict()[name])
        for name, tensor in whole.adapter.state_dict().items()
    )


def test_resuming_with_other_settings_or_queries_is_refused(run: RunFolder) -> None:
    graph = run.graph()
    model = load_model(run)
    queries = training_queries(graph, PLAIN, count=40)
    with pytest.raises(KeyboardInterrupt):
        adapt(graph, model, queries, PLAIN, run=run, progress=interrupt)
    others = training_queries(graph, PLAIN, count=30)
    fewer = replace(graph, test=graph.test[1:])
    for other_graph, other_queries, settings, what in (
        (graph, queries, replace(PLAIN, lr=0.2), "settings"),
        (graph, others, PLAIN, "queries"),
        (fewer, queries, PLAIN, "facts"),
    ):
        with pytest.raises(RunError, match=f"other {what}"):
            adapt(other_graph, model, other_queries, settings, run=run, resume=True)
    run.write_tensors(ADAPTATION, {"bias": torch.zeros(3)}, {"kind": "else"})
    with pytest.raises(RunError, match="is no checkpoint of this version"):
        adapt(graph, model, queries, PLAIN, run=run, resume=True)


def test_too_little_memory_is_a_limit(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = run.graph()
    monkeypatch.setattr(AdapterTraining, "accumulate", lambda self: torch.empty(2**62))
    with pytest.raises(LimitError, match="out of memory at batch 32 and k 64; lower those or `mem"):
        adapt(graph, load_model(run), training_queries(graph, PLAIN, count=10), PLAIN)


def test_nothing_to_learn_from_is_said(run: RunFolder) -> None:
    with pytest.raises(TrainingError, match="no query of any shape has an answer to learn from"):
        adapt(run.graph(), load_model(run), {}, PLAIN)


def test_answers_that_a_folder_lacks_are_found_in_the_graph(run: RunFolder, tmp_path: Path) -> None:
    graph = run.graph()
    settings = replace(PLAIN, shapes=("2i", "2in"))
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


def test_a_folder_without_held_out_queries_is_refused(run: RunFolder, tmp_path: Path) -> None:
    write_queries(tmp_path, "train", training_queries(run.graph(), PLAIN, count=20))
    with pytest.raises(
        DataError,
        match=r"has no valid-queries.pkl, but train queries; learn from those by `held_out=False`",
    ):
        training_queries(run.graph(), SETTINGS, tmp_path)


def test_queries_of_another_graph_are_refused(run: RunFolder, tmp_path: Path) -> None:
    other = Graph.of([(f"a{i}", "r", f"b{i % 7}") for i in range(90)])
    settings = replace(PLAIN, shapes=("2i",))
    write_betae(other, tmp_path)
    write_queries(tmp_path, "train", training_queries(other, settings, count=60))
    with pytest.raises(DataError, match="its queries were made of other facts"):
        training_queries(run.graph(), settings, tmp_path)


@pytest.mark.parametrize(
    ("entity", "relation", "ids"),
    [(99, 0, "entity 99"), (-1, 0, "entity -1"), (0, -2, "relation -2")],
)
def test_ids_that_the_graph_does_not_have_are_refused(
    run: RunFolder, entity: int, relation: int, ids: str
) -> None:
    """A table that is padded has a row of zeros for 99, and arrays take -1 for the last one."""
    right = training_queries(run.graph(), replace(PLAIN, shapes=("2i",)), count=20)["2i"]
    entities = right.entities.copy()
    relations = right.relations.copy()
    entities[3, 1], relations[3, 1] = (entity or entities[3, 1]), (relation or relations[3, 1])
    wrong = replace(right, entities=entities, relations=relations)
    for queries, valid in ((wrong, right), (right, wrong)):
        with pytest.raises(
            DataError, match=f"the 2i queries speak of {ids}, but families has 0 to"
        ):
            adapt(run.graph(), load_model(run), {"2i": queries}, PLAIN, valid={"2i": valid})


@pytest.mark.parametrize(
    "flags", [["--calibration", "sigmoid", "--observed", "none"], ["--held-out"]]
)
def test_tacit_adapt(run: RunFolder, flags: list[str]) -> None:
    words = [
        "adapt",
        str(run.path),
        "--count",
        "40",
        "--steps",
        "4",
        "--batch",
        "16",
        "--device",
        "cpu",
    ]
    done = CliRunner().invoke(app, [*words, *flags])
    assert done.exit_code == 0, done.output
    assert "34 parameters, 4 steps" in done.output
    assert ("not kept: " in done.output) is not run.has(ADAPTER)
    assert ("adapt" in run.settings) is ("adapt" in run.results()) is run.has(ADAPTER)
    assert [event["step"] for event in run.events() if event["event"] == "adapt"] == [0, 4]


@pytest.mark.parametrize("queries", [["2i"], {"2i": "all"}])
def test_what_is_no_query_set_is_refused(run: RunFolder, queries: Any) -> None:
    with pytest.raises(
        SettingsError, match="neither a query folder nor query sets by shape"
    ) as caught:
        tacit.open(run.path, device="cpu").adapt(queries)
    assert caught.value.parameter == "queries"
