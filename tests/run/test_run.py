"""A run from Python: train, ask, adapt, sample and evaluate, each in one call."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors

import tacit
from tacit.errors import DataError, RunError, SettingsError, TacitError
from tacit.graph.graph import Graph
from tacit.run_folder.files import ADAPTER, MODEL, SETTINGS
from tacit.run_folder.folder import RunFolder
from turning_run import GRAPH, turning_run, with_adapter

SMALL: dict[str, Any] = {"progress": False, "rank": 4, "epochs": 2, "batch": 8, "device": "cpu"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return turning_run(tmp_path / "run")


def test_settings_and_weights_are_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_adapter(path)
    read = Counter[str]()
    bytes_of = Path.read_bytes
    tensors_of = safetensors.safe_open

    def counted(name: Path, *arguments: Any, **options: Any) -> Any:
        read[name.name] += 1
        return tensors_of(name, *arguments, **options) if arguments or options else bytes_of(name)

    monkeypatch.setattr(Path, "read_bytes", counted)
    monkeypatch.setattr(safetensors, "safe_open", counted)
    assert tacit.open(path).ask("?x : next(e1, ?x)", top=1).entities == ["e2"]
    assert {name: read[name] for name in (SETTINGS, MODEL, ADAPTER)} == {
        SETTINGS: 1,
        MODEL: 1,
        ADAPTER: 1,
    }


def test_an_adapter_that_is_replaced_while_it_is_read_keeps_to_its_settings(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for calibration, moved in (("softmax-count", 2.0), ("sigmoid", 0.0)):
        with_adapter(path, calibration=calibration)
        folder = RunFolder.open(path)
        tensors = {name: tensor + moved for name, tensor in folder.tensors(ADAPTER).items()}
        folder.write_tensors(ADAPTER, tensors, folder.metadata(ADAPTER))
        shutil.copy(path / ADAPTER, tmp_path / calibration)
    opened = safetensors.safe_open

    def replaced(name: Path, *arguments: Any, **options: Any) -> Any:
        file = opened(name, *arguments, **options)
        if name.name == ADAPTER:
            shutil.copy(tmp_path / "softmax-count", path / "other")
            (path / "other").replace(name)
        return file

    monkeypatch.setattr(safetensors, "safe_open", replaced)
    adapter = tacit.open(path).engine.adapter
    assert adapter is not None
    moved_by = next(adapter.adapter.parameters()).flatten()[0].item()  # type: ignore[union-attr]
    assert (adapter.kind, moved_by) in (("sigmoid", 0.0), ("softmax-count", 2.0))


def test_a_graph_of_ones_own_is_trained_and_opened_again(tmp_path: Path) -> None:
    graph = Graph.of([("a", "knows", "b"), ("b", "knows", "c"), ("c", "knows", "a")])
    run = tacit.train(graph, tmp_path / "run", progress=False, rank=4, epochs=2)
    question = "?x : exists ?y . knows(a, ?y) & knows(?y, ?x)"
    assert run.ask(question, top=1).entities == ["c"]
    again = tacit.open(tmp_path / "run")
    assert (
        again.ask(question, top=1) == run.ask(question, top=1) == run.ask_many([question], top=1)[0]
    )
    assert again.explain(question, top=1)[0].witnesses
    assert run.settings["train"]["rank"] == 4
    assert run.results["train"]["epochs"] == 2
    assert "project" in run.plan(question) or "knows" in run.plan(question)


def test_training_goes_on_where_it_was_or_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "run"
    tacit.train(GRAPH, out, resume=True, **SMALL)  # nothing to resume: it begins
    tacit.train(GRAPH, out, resume=True, **SMALL)
    with pytest.raises(
        RunError, match="holds a run; go on with it by `resume=True`, replace it by `force=True`"
    ):
        tacit.train(GRAPH, out, **SMALL)
    with pytest.raises(SettingsError, match="rank is 5, and the run has 4") as caught:
        tacit.train(GRAPH, out, resume=True, **SMALL | {"rank": 5})
    assert caught.value.parameter == "rank"
    with pytest.raises(
        SettingsError, match="`resume=True` goes on with a run and `force=True` replaces it"
    ):
        tacit.train(GRAPH, out, resume=True, force=True, **SMALL)
    with pytest.raises(RunError, match="was trained on other facts than ring has now"):
        tacit.train(replace(GRAPH, train=GRAPH.train[1:]), out, resume=True, **SMALL)
    with pytest.raises(
        SettingsError, match="unknown training setting 'epoch'; did you mean 'epochs'"
    ):
        tacit.train(GRAPH, tmp_path / "other", epoch=3)
    assert not (tmp_path / "other").exists()


def test_a_fact_is_scored_and_answers_are_counted(path: Path) -> None:
    run = tacit.open(path)
    head = GRAPH.entities[0]
    relation = GRAPH.relations[0]
    tail = GRAPH.entities[1]
    scored = {e.entity: e for e in run.ask(f"?x : {relation}({head}, ?x)", top=100)}
    for label in (tail, GRAPH.entities[3]):
        found = run.score(head, relation, label)
        assert (found.score, found.known) == (
            pytest.approx(scored[label].score),
            scored[label].known,
        )
        assert str(found) == f"{found.score:.3f} {'known' if found.known else 'predicted'}"
    known = [e for e in scored.values() if e.known]
    predicted = sum(e.score for e in scored.values() if not e.known)
    assert run.count(f"?x : {relation}({head}, ?x)") == (
        len(known),
        pytest.approx(len(known) + predicted),
    )


def test_a_calibration_never_drops_the_adapter(path: Path) -> None:
    with_adapter(path, calibration="sigmoid", logic="godel")
    run = tacit.open(path)
    assert run.engine.config["adapted"]
    assert (run.engine.settings.calibration, run.engine.settings.logic) == ("sigmoid", "godel")
    assert tacit.open(path, calibration="sigmoid").engine.config["adapted"]
    with pytest.raises(
        SettingsError,
        match=r"calibration is 'minmax', and the adapter was trained for 'sigmoid'.*adapted=False",
    ):
        tacit.open(path, calibration="minmax")
    with pytest.raises(SettingsError, match="adapted=False"):
        run.evaluate(calibration="minmax")
    plain = tacit.open(path, adapted=False, calibration="minmax")
    assert not plain.engine.config["adapted"]
    assert plain.evaluate().settings["calibration"] == "minmax"


def test_an_adapter_is_dropped(path: Path) -> None:
    with_adapter(path)
    run = tacit.open(path)
    run.drop_adapter()
    assert not run.folder.has(ADAPTER)
    assert "adapt" not in run.settings
    assert "adapt" not in run.results
    assert not run.engine.config["adapted"]
    assert tacit.open(path).engine.settings.calibration == "softmax-count"
    with pytest.raises(RunError, match="has no adapter to drop"):
        run.drop_adapter()


def test_adapting_is_one_call(path: Path) -> None:
    run = tacit.open(path)
    heard = []
    options: dict[str, Any] = {"shapes": "2i", "steps": 4, "validate_every": 2, "batch": 8}
    summary = run.adapt(count=12, progress=heard.append, **options)
    assert summary["steps"] == 4
    assert [event.done for event in heard if event.what != "step"] == [0, 2, 4]
    assert run.engine.config["adapted"] == run.folder.has(ADAPTER) == summary["kept"]
    drawn = run.sample(shapes="2i", count=12, waste=0.99)
    assert run.adapt({"2i": drawn["2i"].queries}, **options)["queries"].keys() == {"2i"}
    with pytest.raises(
        SettingsError, match="unknown adaptation setting 'step'; did you mean 'steps'"
    ):
        run.adapt(step=3)


def test_continuous_search_takes_plain_sigmoids_through_every_door(path: Path) -> None:
    question = "?x : next(e0, ?x)"
    settings = {"search": "continuous", "steps": 2}
    plain = tacit.open(path, adapted=False, calibration="sigmoid", **settings).ask(question)
    assert tacit.open(path, **settings).ask(question) == plain
    with_adapter(path, calibration="softmax-count")
    for engine in (
        tacit.open(path, **settings).engine,
        tacit.open(path).engine.with_settings(**settings),
    ):
        assert engine.ask(question) == plain
        assert (engine.config["calibration"], engine.config["adapted"]) == ("sigmoid", False)
    report = tacit.open(path).evaluate(**settings).settings
    assert (report["calibration"], report["adapted"], "adapter" in report) == (
        "sigmoid",
        False,
        False,
    )
    with pytest.raises(SettingsError, match="adapter was trained for 'softmax-count'"):
        tacit.open(path, calibration="sigmoid", **settings)
    with_adapter(path, calibration="sigmoid")
    assert tacit.open(path, **settings).engine.config["adapted"] is True


def test_a_run_in_the_working_folder_is_compared_by_its_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path)
    compared = tacit.compare(".", shapes="1p", limit=1)
    assert [row.run for row in compared.rows] == [path.name]


@pytest.mark.parametrize("source", [None, 3, tacit.parse])
def test_what_is_no_path_names_no_run(source: Any) -> None:
    for attempt in (tacit.open, lambda value: tacit.compare([value])):
        with pytest.raises(RunError, match="by the path of its folder, not by a"):
            attempt(source)


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda run: tacit.parse(3), "a question is a text here, not int"),
        (lambda run: run.paraphrase(None), "a question is a text here, not NoneType"),
        (lambda run: tacit.split(run.graph, valid="a tenth"), "valid is 'a tenth'; it must be a"),
        (lambda run: run.index(nlist="4"), "nlist is '4'; it must be a whole number"),
        (lambda run: run.entities("e", relation="next", end="tail"), "end is 'tail'; it must be"),
        (lambda run: run.index(seed=None), "seed is None; it must be a whole number"),
        (lambda run: run.entities(None), "typed is None; it must be a text"),
        (lambda run: run.relations("n", limit=1.5), "limit is 1.5; it must be a whole number"),
        (lambda run: run.complete(relations=None), "relations is None; it must be labels"),
        (lambda run: run.complete(entities=[1]), "entity is 1; it must be a text"),
        (lambda run: run.facts(None), "entity is None; it must be a text"),
        (lambda run: run.facts("e0", relation=["next"]), "relation is .'next'.; it must be a text"),
        (lambda run: run.evaluate(shapes=1), "shapes is 1; it must be names of shapes"),
        (lambda run: run.evaluate(shapes=[1]), "shapes is .1.; it must be names of shapes"),
        (lambda run: tacit.serve({}), "there are no runs to serve"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(
    path: Path, attempt: Callable[[Any], Any], message: str
) -> None:
    with pytest.raises(TacitError, match=message):
        attempt(tacit.open(path))


def test_sampling_is_one_call(tmp_path: Path) -> None:
    cycle = "?t : exists ?x . r(?x, ?t) & q(?t, ?x)"  # no tuple says it, and none is asked for
    assert len(tacit.sample(GRAPH, templates=[cycle], count=4, waste=0.99)[cycle].queries) > 0
    # not its letters
    assert list(tacit.sample(GRAPH, templates=cycle, count=4, waste=0.99)) == [cycle]
    samples = tacit.sample(
        GRAPH, tmp_path / "q", shapes="2p", templates=["?t : r(a, ?t)"], count=4, waste=0.99
    )
    assert set(samples) == {"2p", "1p"}
    assert all(np.diff(drawn.queries.hard.offsets).all() for drawn in samples.values())
    with pytest.raises(
        DataError,
        match="holds train queries; choose another folder, or replace them by `force=True`",
    ):
        tacit.sample(GRAPH, tmp_path / "q", shapes="2p", count=4)


def test_a_report_is_one_call(path: Path, tmp_path: Path) -> None:
    run = tacit.open(path)
    run.evaluate()
    assert "ring" in run.report(tmp_path / "page.md").read_text(encoding="utf-8")


def test_new_answers_and_missing_links_are_one_call_each(path: Path) -> None:
    run = tacit.open(path)
    assert run.ask("?x : next(e0, ?x)", top=1).entities == ["e1"]
    new = run.ask("?x : next(e0, ?x)", top=8, new=True)
    assert (new.left_out, "e1" in new.entities) == (1, False)
    assert run.explain("?x : next(e0, ?x)", 8, new=True).entities == new.entities
    assert run.ask_many(["?x : next(e0, ?x)"], 8, new=True)[0].entities == new.entities
    assert run.ask("?x : next(e0, ?x)", top=1).entities == ["e1"]
    (found,) = run.sample(shapes="2p", split="test", count=3, missing=1).values()
    evaluation = run.evaluate({"2p": found.queries}, by_missing=True)
    # beside the training facts, valid ones may be missing too
    assert set(evaluation.by_missing["2p"]) <= {1, 2}
    assert sum(row["answers"] for row in evaluation.by_missing["2p"].values()) == len(
        found.queries.hard.ids
    )


def test_a_preset_leaves_the_adapter_out(path: Path) -> None:
    with_adapter(path, calibration="sigmoid", observed="train")
    run = tacit.open(path)
    assert run.engine.config["adapted"]
    for engine in (tacit.open(path, preset="qto").engine, run.engine.with_settings(preset="qto")):
        assert (engine.config["preset"], engine.config["adapted"]) == ("qto", False)
        assert engine.config["calibration"] == "softmax-count"
    evaluation = run.evaluate(preset="qto")
    assert (evaluation.settings["preset"], evaluation.settings["adapted"]) == ("qto", False)
    assert "adapter" not in evaluation.settings


def test_settings_without_their_weights_can_be_dropped(path: Path) -> None:
    """Someone has deleted the file, as its error advises."""
    with_adapter(path)
    folder = RunFolder.open(path)
    folder.write_settings("encode", {"model": "gqe"})
    folder.remove(ADAPTER)
    run = tacit.open(path, device="cpu")
    with pytest.raises(RunError, match="has not finished"):
        run.add([("e0", "skip", "e5")])
    run.drop_encoder()
    run.drop_adapter()
    assert run.settings.keys().isdisjoint({"adapt", "encode"})
    assert run.add([("e0", "skip", "e5")]).added == 1
    for drop in (run.drop_adapter, run.drop_encoder):
        with pytest.raises(RunError, match="to drop"):
            drop()


def test_every_value_that_a_run_returns_can_be_in_a_set(path: Path, tmp_path: Path) -> None:
    run = tacit.open(path, device="cpu")
    question = "?y : exists ?x . next(e0, ?x) & skip(?x, ?y)"
    (tmp_path / "questions.txt").write_text(question)
    answers = run.explain(question)
    file = run.ask_file(tmp_path / "questions.txt")
    completion = run.complete("next", min_score=0.1)
    sampled = run.sample(count=2, shapes="2p")["2p"]
    added = run.add([("e0", "nex", "E1")], dry_run=True)
    removed = run.remove([("e0", "next", "e1")], dry_run=True)
    values = [
        *(answers, answers[0], answers[0].witnesses[0], run.ask("?a, ?b : next(?a, ?b)")),
        *(run.count(question), run.score("e0", "next", "e1", explain=True)),
        *(run.engine.prepare(question), run.engine.settings, run.graph, run.graph.statistics()),
        *(run.facts("e0"), run.facts("e0", predicted=True), file, *file, completion, *completion),
        *(run.evaluate(per_relation=True, reliability=True), sampled, sampled.queries),
        *(added, added.new_names, removed),
    ]
    assert len(set(values)) == len(values)
