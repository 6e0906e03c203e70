"""An adapter is kept where it wins on validation, against the one the run has and against none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import tacit
from tacit.adapt import adaptation
from tacit.adapt.adaptation import AdaptResult, adapt
from tacit.adapt.adapter import Adapter, save_adapter
from tacit.adapt.settings import AdaptSettings
from tacit.adapt.training_queries import set_apart, training_queries, validation_queries
from tacit.cli import app
from tacit.engine.engine import Engine
from tacit.errors import RunError
from tacit.evaluate.protocol import evaluate
from tacit.links.models import load_model
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.shapes import SHAPES
from tacit.run_folder.files import ADAPTER
from tacit.run_folder.folder import RunFolder

SIGMOID = AdaptSettings(
    calibration="sigmoid",
    observed=(),
    held_out=False,
    steps=10,
    batch=32,
    validate_every=10,
    k=40,
    device="cpu",
)


def adapted(run: RunFolder, settings: AdaptSettings = SIGMOID) -> AdaptResult:
    graph = run.graph()
    model = load_model(run)
    queries = training_queries(graph, settings, count=60)
    return adapt(
        graph, model, queries, settings, valid=validation_queries(graph, settings), run=run
    )


def figures(monkeypatch: pytest.MonkeyPatch, *mrr: Mapping[str, float]) -> None:
    """Sets the figures of the rivals of a comparison: none, present (if any), new."""
    left = list(mrr)
    monkeypatch.setattr(
        adaptation, "mean_reciprocal_ranks", lambda reasoner, queries: dict(left.pop(0))
    )


def test_what_wins_is_kept_until_something_better_comes(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures(monkeypatch, {"2i": 0.5, "2in": 0.3}, {"2i": 0.45, "2in": 0.2})
    result = adapted(run)
    assert not run.has(ADAPTER)
    assert "adapt" not in run.settings
    assert "adapt" not in run.results()
    assert result.summary["compared"] == {"none": 0.4, "new": 0.325}
    assert result.summary["verdict"] == "not kept: validation MRR 32.50% with it, 40.00% without"

    figures(monkeypatch, {"2i": 0.5, "2in": 0.3}, {"2i": 0.6, "2in": 0.3})
    assert adapted(run).summary["kept"]
    first = (run.path / ADAPTER).read_bytes()
    about = run.results()["adapt"]
    assert run.settings["adapt"]["calibration"] == "sigmoid"

    # better than none, and worse than what the run has
    figures(monkeypatch, {"2i": 0.5, "2in": 0.3}, {"2i": 0.6, "2in": 0.3}, {"2i": 0.55, "2in": 0.3})
    verdict = (
        "not kept: validation MRR 42.50% with it, 45.00% with the adapter of the run, "
        "40.00% without"
    )
    assert adapted(run, replace(SIGMOID, lr=0.5)).summary["verdict"] == verdict
    assert (run.path / ADAPTER).read_bytes() == first
    assert run.results()["adapt"] == about

    # what was evaluated with an adapter is of that one alone
    run.write_results(
        {**run.results(), "eval": [{"settings": {}}, {"settings": {"adapted": True}}]}
    )
    figures(monkeypatch, {"2i": 0.5, "2in": 0.3}, {"2i": 0.6, "2in": 0.3}, {"2i": 0.6, "2in": 0.4})
    assert adapted(run, replace(SIGMOID, lr=0.5)).summary["kept"]
    assert (run.path / ADAPTER).read_bytes() != first
    assert ["outdated" in each for each in run.results()["eval"]] == [False, True]


def test_negation_is_not_bought_with_everything_else() -> None:
    none = {"2i": 0.6, "2in": 0.1}
    new = {"2i": 0.5, "2in": 0.6}
    worse = adaptation.AdapterComparison({"none": none, "new": new}, frozenset({"2in"}))
    assert not worse.won
    assert str(worse).endswith("; without negation 50.00% with it, 60.00% without")
    assert adaptation.AdapterComparison(
        {"none": none, "new": new | {"2i": 0.6}}, frozenset({"2in"})
    ).won


def test_rivals_are_measured_as_engines_answer(run: RunFolder) -> None:
    """A comparison reports the figures of an evaluation of its engines."""
    graph = run.graph()
    model = load_model(run)
    first = adapted(run, replace(SIGMOID, recipe="paper", loss="1vsall"))
    assert first.summary["kept"]  # whoever asks for the paper's recipe gets it
    valid = validation_queries(graph, SIGMOID)
    second = adapted(run, replace(SIGMOID, lr=0.5, strength=2.0))
    assert valid is not None

    def mrr(engine: Engine) -> float:
        return float(np.mean(list(evaluate(engine.reasoner, valid).mrr.values())))

    # as a run is asked, though learned with nothing observed
    run_engine = Engine(graph, model, observed="train", k=40)
    sigmoid = run_engine.with_settings(calibration="sigmoid")
    present = Engine(graph, model, sigmoid.settings, adapter=first.calibration)
    new = Engine(graph, model, sigmoid.settings, adapter=second.calibration, strength=2.0)
    expected = {"none": mrr(run_engine), "present": mrr(present), "new": mrr(new)}
    assert second.summary["compared"] == pytest.approx(expected)


def test_an_adapter_can_be_dropped(run: RunFolder) -> None:
    before = {
        file.name: file.read_bytes() for file in run.path.iterdir() if file.name != "trace.jsonl"
    }
    adapted(run, replace(SIGMOID, recipe="paper", loss="1vsall"))
    assert tacit.open(run.path, device="cpu").engine.adapter is not None
    assert run.drop("adapt")
    assert tacit.open(run.path, device="cpu").engine.adapter is None
    assert {
        file.name: file.read_bytes() for file in run.path.iterdir() if file.name != "trace.jsonl"
    } == before
    assert not run.drop("adapt")


@pytest.mark.parametrize("learn", ["scores", "negation", "both"])
def test_an_adapter_of_an_earlier_version_is_read_or_refused(run: RunFolder, learn: str) -> None:
    """Such a one may hold strengths of negation, one for each relation."""
    model = load_model(run)
    state = Adapter(model, layers=2, hidden=8).state_dict()
    if learn != "scores":
        state["strengths"] = torch.zeros(model.num_relations + 1)
    retired = {"learn": learn, "halved": learn != "scores", "hidden": 8, "masked": None}
    stored = {**SIGMOID.to_dict(), "layers": 2, **retired}
    run.write_tensors(ADAPTER, state, {"settings": json.dumps(stored)})
    run.write_settings("adapt", stored)
    if learn == "scores":
        assert tacit.open(run.path, device="cpu").engine.adapter is not None
        return
    with pytest.raises(
        RunError,
        match=r"does not fit the run \(it holds a strength of negation for each relation, which is "
        r"no longer supported: set `strength`\); ask without it, or drop it",
    ):
        tacit.open(run.path, device="cpu")
    assert tacit.open(run.path, device="cpu", adapted=False).ask("?x : lives(p1, ?x)")
    assert run.drop("adapt")
    assert tacit.open(run.path, device="cpu").engine.adapter is None


def test_train_facts_are_not_known_where_they_are_asked_for(run: RunFolder) -> None:
    # which was trained with them known
    save_adapter(run, Adapter(load_model(run)), AdaptSettings())
    opened = tacit.open(run.path, device="cpu")
    observed = [
        opened.evaluate(split=split, limit=2).settings["observed"] for split in ("train", "test")
    ]
    assert observed == ["none", "train"]


def test_nothing_is_validated_that_is_learned_from(run: RunFolder) -> None:
    pairs = [(e, r, f, s) for e in range(6) for f in range(6) for r in range(3) for s in range(3)]
    # each with its branches swapped
    slots = np.array(pairs + [(f, s, e, r) for e, r, f, s in pairs], dtype=np.int32)
    hard = AnswerSets.of([{(3 * e + r) * (3 * f + s)} for e, r, f, s in slots.tolist()])
    queries = QuerySet(
        SHAPES["2i"], slots[:, [0, 2]], slots[:, [1, 3]], AnswerSets.none(len(slots)), hard
    )
    learned, apart = set_apart({"2i": queries}, 30, np.random.default_rng(0))

    def questions(chosen: QuerySet) -> set[frozenset[tuple[int, int]]]:
        entities = chosen.entities.tolist()
        relations = chosen.relations.tolist()
        return {frozenset(zip(e, r, strict=True)) for e, r in zip(entities, relations, strict=True)}

    assert len(apart["2i"]) == 30
    assert not questions(learned["2i"]) & questions(apart["2i"])
    assert len(learned["2i"]) >= len(queries) - 4 * 30  # each question is listed four times


def test_nothing_is_kept_where_there_is_nothing_to_validate_with(tmp_path: Path) -> None:
    facts = tacit.Graph.of([("a", "r", "b"), ("b", "r", "c"), ("c", "q", "a")])
    run = tacit.train(facts, tmp_path / "run", epochs=1, device="cpu", progress=False)
    before = [answer.to_dict() for answer in run.ask("?x : r(a, ?x)")]
    settings = {"steps": 2, "batch": 4, "device": "cpu"}
    summary = run.adapt(**settings)
    assert (summary["kept"], summary["verdict"]) == (
        False,
        "not kept: there was nothing to validate with",
    )
    assert not run.folder.has(ADAPTER)
    assert "adapt" not in run.settings | run.results
    assert [
        answer.to_dict()
        for answer in tacit.open(run.folder.path, device="cpu").ask("?x : r(a, ?x)")
    ] == before
    verdict = "kept by the paper's recipe, though there was nothing to validate with"
    assert run.adapt(recipe="paper", **settings)["verdict"] == verdict
    assert tacit.open(run.folder.path, device="cpu").engine.adapter is not None


def test_an_adapter_without_its_settings_is_an_error_and_can_be_dropped(run: RunFolder) -> None:
    before = tacit.open(run.path, device="cpu").ask("?x : lives(p1, ?x)")
    save_adapter(run, Adapter(load_model(run)), SIGMOID)
    opened = tacit.open(run.path, device="cpu")
    for table, why in (
        (None, "is gone"),
        (SIGMOID.to_dict() | {"observed": ["train"]}, "has other settings"),
    ):
        run.write_settings("adapt", table)
        for ask in (lambda: tacit.open(run.path, device="cpu"), opened.evaluate):
            with pytest.raises(
                RunError, match=rf"the table \[adapt\] of settings\.toml {why}\); ask without it"
            ) as error:
                ask()
            assert error.value.command == f"adapt {run.path} --drop"
        assert tacit.open(run.path, device="cpu", adapted=False).ask("?x : lives(p1, ?x)") == before
    done = CliRunner().invoke(app, ["adapt", str(run.path), "--drop"])
    assert done.output == f"{run.path}: the adapter is deleted\n"
    assert tacit.open(run.path, device="cpu").ask("?x : lives(p1, ?x)") == before
