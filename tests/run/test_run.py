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
import torch

import tacit
from tacit.adapt.adapter import Adapter, save_adapter
from tacit.adapt.settings import AdaptSettings
from tacit.errors import DataError, RunError, SettingsError, TacitError
from tacit.graph.graph import Graph
from tacit.links.models import make_model, save_model
from tacit.run_folder.files import ADAPTER, MODEL, SETTINGS
from tacit.run_folder.folder import RunFolder

# A ring of eight with steps of one and of two; valid and test hold one fact each.
RING = [(f"e{i}", "next", f"e{(i + 1) % 8}") for i in range(8)]
SKIP = [(f"e{i}", "skip", f"e{(i + 2) % 8}") for i in range(8)]
GRAPH = Graph.of(RING[:7] + SKIP[:7], valid=SKIP[7:], test=RING[7:], name="ring")
SMALL: dict[str, Any] = {"progress": False, "rank": 4, "epochs": 2, "batch": 8, "device": "cpu"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run whose model knows the ring: `i` is a turn by `i/8`, `next` by 1/8, `skip` by 2/8."""
    folder = RunFolder.create(tmp_path / "run", GRAPH, {"model": "complex", "rank": 1})
    model = make_model("complex", 8, 4, 1)
    angles = torch.arange(8) * torch.pi / 4
    turns = torch.tensor([1.0, -1.0, 2.0, -2.0]) * torch.pi / 4
    entities, relations = (4 * torch.stack((a.cos(), a.sin()), 1) for a in (angles, turns))
    model.load_state_dict({"entities.weight": entities, "relations.weight": relations})
    save_model(folder, model)
    return folder.path


def with_adapter(path: Path, **settings: Any) -> AdaptSettings:
    """Give a run an adapter that changes nothing yet."""
    folder = RunFolder.open(path)
    chosen = AdaptSettings(**settings)
    save_adapter(folder, Adapter(tacit.open(path, adapted=False).engine.scorer, "p"), chosen)
    folder.write_settings("adapt", chosen.to_dict())
    folder.write_results({**folder.results(), "adapt": {"steps": 1}})
    return chosen


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
    asked = "?x : exists ?y . knows(a, ?y) & knows(?y, ?x)"
    assert run.ask(asked, top=1).entities == ["c"]
    again = tacit.open(tmp_path / "run")
    assert again.ask(asked, top=1) == run.ask(asked, top=1) == run.ask_many([asked], top=1)[0]
    assert again.explain(asked, top=1)[0].witnesses
    assert run.settings["train"]["rank"] == 4
    assert run.results["train"]["epochs"] == 2
    assert "project" in run.plan(asked) or "knows" in run.plan(asked)


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


@pytest.mark.parametrize("given", [{}, {"strength": 2.0}])
def test_an_adapter_that_is_left_out_leaves_none_of_its_settings(
    path: Path, given: dict[str, float]
) -> None:
    with_adapter(path, calibration="sigmoid", logic="godel", negation="cosine", strength=3.0)
    adapted = tacit.open(path, **given).engine
    assert adapted.settings.logic == "godel"
    assert (
        adapted.with_settings(preset="fit").settings
        == tacit.open(path, preset="fit", **given).engine.settings
    )
    assert (
        adapted.with_settings(adapted=False).settings
        == tacit.open(path, adapted=False, **given).engine.settings
    )


def test_given_queries_do_not_take_the_place_of_held_out_facts(path: Path) -> None:
    run = tacit.open(path)
    own = run.evaluate()
    given = run.evaluate({"1p": own.figures["1p"].queries[:1]})
    assert [kept["queries"]["1p"] for kept in run.results["eval"]] == [len(own.figures["1p"]), 1]
    assert (own.settings.get("queries"), given.settings["queries"]) == (None, "given")


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


def test_continuous_search_takes_plain_sigmoids_through_every_door(path: Path) -> None:
    asked = "?x : next(e0, ?x)"
    settings = {"search": "continuous", "steps": 2}
    plain = tacit.open(path, adapted=False, calibration="sigmoid", **settings).ask(asked)
    assert tacit.open(path, **settings).ask(asked) == plain
    with_adapter(path, calibration="softmax-count")
    for engine in (
        tacit.open(path, **settings).engine,
        tacit.open(path).engine.with_settings(**settings),
    ):
        assert engine.ask(asked) == plain
        assert (engine.config["calibration"], engine.config["adapted"]) == ("sigmoid", False)
    told = tacit.open(path).evaluate(**settings).settings
    assert (told["calibration"], told["adapted"], "adapter" in told) == ("sigmoid", False, False)
    with pytest.raises(SettingsError, match="adapter was trained for 'softmax-count'"):
        tacit.open(path, calibration="sigmoid", **settings)
    with_adapter(path, calibration="sigmoid")
    assert tacit.open(path, **settings).engine.config["adapted"] is True


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
    assert evaluation.unkept == "the folder may only be read"


def test_nothing_of_weights_that_were_changed_in_memory_is_kept(path: Path) -> None:
    run = tacit.open(path)
    scorer: Any = run.engine.scorer
    with torch.no_grad():
        next(scorer.parameters()).mul_(0.5)
    assert "written to in memory" in run.evaluate().unkept
    with pytest.raises(RunError, match="written to in memory"):
        run.adapt(count=5, steps=1, shapes="2p")
    assert run.evaluate(search="symbolic").unkept == ""  # takes none of them
    assert [each["settings"]["search"] for each in run.results["eval"]] == ["symbolic"]


def test_evaluations_can_be_hashed(path: Path) -> None:
    run = tacit.open(path)
    assert len({run.evaluate(), run.evaluate(limit=1)}) == 2


def test_a_run_in_the_working_folder_is_compared_by_its_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path)
    compared = tacit.compare(".", shapes="1p", limit=1)
    assert [row.run for row in compared.rows] == [path.name]


@pytest.mark.parametrize("source", [None, 3, tacit.parse])
def test_what_is_no_path_names_no_run(source: Any) -> None:
    for attempt in (tacit.open, lambda given: tacit.compare([given])):
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
