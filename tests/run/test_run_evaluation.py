"""Evaluations of a run from Python: their queries, settings and results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import tacit
from tacit.errors import DataError, RunError, SettingsError, TacitError
from tacit.run_folder.folder import RunFolder
from turning_run import turning_run, with_adapter


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return turning_run(tmp_path / "run")


def test_held_out_facts_are_evaluated_by_default(path: Path) -> None:
    run = tacit.open(path)
    evaluation = run.evaluate(per_relation=True, reliability=True)
    assert evaluation.mrr == {"1p": 1.0}  # e7 next e0, and back
    assert repr(evaluation) == "Evaluation(test: mrr 1p 1.000)"
    assert evaluation.average("avg_p") is None
    assert evaluation.relations is not None
    assert {name: row["queries"] for name, row in evaluation.relations.items()} == {
        "next": 1,
        "next^-1": 1,
    }
    assert set(evaluation.reliability) == {"atoms", "ten best answers"}
    assert run.results["eval"] == [evaluation.to_json()]


def test_sampled_queries_are_evaluated_from_folder_and_memory(path: Path, tmp_path: Path) -> None:
    run = tacit.open(path, search="exact")
    samples = run.sample(tmp_path / "queries", shapes="1p,2p", split="test", count=2, waste=0.99)
    seen: list[Any] = []
    by_folder = run.evaluate(tmp_path / "queries", progress=seen.append)
    by_hand = run.evaluate({name: drawn.queries for name, drawn in samples.items()})
    assert by_folder.mrr == by_hand.mrr
    assert by_folder.settings["queries"] == "queries"
    assert by_hand.settings["queries"] == "given"
    assert by_folder.settings["search"] == "exact"  # as the run was opened
    assert {event.what for event in seen} == {"count"}
    assert (seen[-1].where, seen[-1].done) == ("2p", seen[-1].total)
    assert list(run.evaluate(tmp_path / "queries", shapes="2p").mrr) == ["2p"]


def test_what_is_to_be_predicted_is_never_observed(path: Path) -> None:
    run = tacit.open(path)
    assert run.evaluate().settings["observed"] == "train"
    assert run.evaluate(observed="train+valid").settings["observed"] == "train+valid"
    for split, observed in (("test", "all"), ("valid", "train+valid"), ("train", "train")):
        with pytest.raises(SettingsError, match="cannot be observed while") as caught:
            run.evaluate(split=split, observed=observed)
        assert caught.value.parameter == "observed"


@pytest.mark.parametrize("changes", [{}, {"strength": 2.0}])
def test_an_adapter_that_is_left_out_leaves_none_of_its_settings(
    path: Path, changes: dict[str, float]
) -> None:
    with_adapter(path, calibration="sigmoid", logic="godel", negation="cosine", strength=3.0)
    adapted = tacit.open(path, **changes).engine
    assert adapted.settings.logic == "godel"
    assert (
        adapted.with_settings(preset="fit").settings
        == tacit.open(path, preset="fit", **changes).engine.settings
    )
    assert (
        adapted.with_settings(adapted=False).settings
        == tacit.open(path, adapted=False, **changes).engine.settings
    )


def test_given_queries_do_not_take_the_place_of_held_out_facts(path: Path) -> None:
    run = tacit.open(path)
    own = run.evaluate()
    by_queries = run.evaluate({"1p": own.figures["1p"].queries[:1]})
    assert [entry["queries"]["1p"] for entry in run.results["eval"]] == [len(own.figures["1p"]), 1]
    assert (own.settings.get("queries"), by_queries.settings["queries"]) == (None, "given")


def test_results_say_what_they_depend_on(path: Path) -> None:
    protocol = {"ties": "realistic", "mean": "question", "filtered": "easy and hard answers"}
    assert tacit.open(path).evaluate().settings == {
        "graph": "ring", "split": "test", "search": "beam", "k": 256, "logic": "product",
        "negation": "standard", "strength": 1.0, "calibration": "softmax-count",
        "observed": "train", "observed_score": 1 - 2**-10, "precision": "float32", "adapted": False,
        "loops": False, "typed": False, **protocol,
    }  # fmt: skip
    with_adapter(path, calibration="sigmoid", observed="train", shapes="2i,3i")
    adapted = tacit.open(path).evaluate(search="exact", observed="none").settings
    assert (adapted["calibration"], adapted["adapted"]) == ("sigmoid", True)
    assert (
        adapted["adapter"]
        == "condition p, layers 1, loss log, shapes 2i+3i, observed train, seed 0"
    )
    assert not {"k", "observed_score", "steps", "step_size", "vector_reg", "memory"} & set(adapted)
    continuous = tacit.open(path).evaluate(search="continuous", steps=2, observed="none").settings
    assert (continuous["steps"], continuous["step_size"]) == (2, 0.1)
    symbolic = tacit.open(path, adapted=False).evaluate(search="symbolic").settings
    assert symbolic == {
        "graph": "ring",
        "split": "test",
        "search": "symbolic",
        "observed": "train",
        **protocol,
    }


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"split": "dev"}, SettingsError, "split is 'dev'; it must be one of train, valid, test"),
        ({"shapes": "2i"}, SettingsError, "shapes is 2i, and facts alone are 1p queries"),
        ({"queries": "nowhere"}, DataError, r"there is no such folder"),
        ({"ties": "random"}, TacitError, "realistic, optimistic, pessimistic"),
        ({"out": "no/such/folder.json"}, DataError, "there is no folder"),
        ({"logic": "fuzzy"}, SettingsError, "logic is 'fuzzy'"),
    ],
)
def test_evaluations_that_make_no_sense(
    path: Path, arguments: dict[str, Any], error: type[TacitError], message: str
) -> None:
    run = tacit.open(path)
    with pytest.raises(error, match=message):
        run.evaluate(**arguments)
    assert run.results == {}


def test_results_are_given_back_where_the_run_cannot_be_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RunError("the folder may only be read")

    monkeypatch.setattr(RunFolder, "write_results", refuse)
    evaluation = tacit.open(path).evaluate()
    assert evaluation.mrr == {"1p": 1.0}
    assert evaluation.unstored_reason == "the folder may only be read"


def test_nothing_of_weights_that_were_changed_in_memory_is_kept(path: Path) -> None:
    run = tacit.open(path)
    scorer: Any = run.engine.scorer
    with torch.no_grad():
        next(scorer.parameters()).mul_(0.5)
    assert "written to in memory" in run.evaluate().unstored_reason
    with pytest.raises(RunError, match="written to in memory"):
        run.adapt(count=5, steps=1, shapes="2p")
    assert run.evaluate(search="symbolic").unstored_reason == ""  # takes none of them
    assert [each["settings"]["search"] for each in run.results["eval"]] == ["symbolic"]


def test_nothing_of_an_encoder_that_was_changed_in_memory_is_kept(gqe_run: Path) -> None:
    run = tacit.open(gqe_run, device="cpu")
    encoder: Any = run.weights.encoder
    with torch.no_grad():
        next(encoder.parameters()).mul_(-0.5)
    for settings in ({}, {"search": "beam", "observed": "none"}):
        assert "written to in memory" in run.evaluate(split="valid", **settings).unstored_reason
    with pytest.raises(RunError, match="written to in memory"):
        run.adapt(count=5, steps=1, shapes="2p")
    assert run.results.get("eval") is None


def test_evaluations_can_be_hashed(path: Path) -> None:
    run = tacit.open(path)
    assert len({run.evaluate(), run.evaluate(limit=1)}) == 2
