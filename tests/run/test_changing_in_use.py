"""Facts that change while a run is read, trained, evaluated or changed by others."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_exchange import images

import tacit
from encoder_runs import TINY
from tacit import disk
from tacit import loaded_run as opening
from tacit.adapt import adaptation
from tacit.adapt.adapter import Adapter, save_adapter
from tacit.adapt.settings import AdaptSettings
from tacit.encode.models import make_encoder, save_encoder
from tacit.encode.settings import EncodeSettings
from tacit.engine.engine import Engine
from tacit.errors import RunError
from tacit.fitting.progress import Event
from tacit.links import models
from tacit.links.models import load_model, save_model
from tacit.links.settings import TrainSettings
from tacit.links.training import new_embeddings
from tacit.links.training.link_training import train
from tacit.run.changes import add_facts, remove_facts
from tacit.run_folder.files import ADAPTER, ENCODER, PARTS
from tacit.run_folder.folder import RunFolder

MORE = [
    ("zoe", "lives", "t1"),
    ("zoe", "sibling", "p4"),
    ("p3", "likes", "zoe"),
    ("p0", "lives", "t0"),
]
LIVES = "?t : lives(zoe, ?t)"


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_embeddings, "MOST", 10)


def with_adapter(run: RunFolder) -> None:
    """Give a run an adapter that changes nothing."""
    settings = AdaptSettings(calibration="sigmoid")
    save_adapter(run, Adapter(load_model(run)).requires_grad_(False).eval(), settings)


def known(run: tacit.Run, question: str) -> list[str]:
    return [answer.entity for answer in run.ask(question, top=50) if answer.known]


def test_a_crash_at_any_moment_leaves_the_old_run_or_the_new_one(
    run: RunFolder, tmp_path: Path
) -> None:
    with_adapter(run)
    with images(run.path, tmp_path / "images") as copies:
        add_facts(run.path, MORE, new=True)
    sizes = []
    for image in copies:
        opened = tacit.open(image, device="cpu")
        has_zoe = "zoe" in opened.graph.entities
        assert known(opened, LIVES) == ["t1"] if has_zoe else "zoe" not in opened.graph.entities
        assert opened.engine.adapter is not None
        assert ("changes" in opened.results) == has_zoe
        sizes.append(opened.graph.num_entities)
        shutil.rmtree(image)
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 2
    assert not [file.name for file in run.path.iterdir() if file.is_dir()]


def test_adds_at_the_same_time_wait_for_each_other_and_readers_see_one_run(run: RunFolder) -> None:
    wrong: list[str] = []

    def add(i: int) -> None:
        add_facts(
            run.path, [(f"new{i}", "lives", "t1"), (f"new{i}", f"relation{i}", "p1")], new=True
        )

    def open_repeatedly() -> None:
        while any(writer.is_alive() for writer in writers):
            # an error where files of two runs are mixed
            opened = tacit.open(run.path, device="cpu")
            if len(known(opened, "?p : lives^-1(t1, ?p)")) != 3 + opened.graph.num_entities - 40:
                wrong.append(str(opened.graph))

    writers = [threading.Thread(target=add, args=(i,), daemon=True) for i in range(3)]
    reader = threading.Thread(target=open_repeatedly, daemon=True)
    for thread in (*writers, reader):
        thread.start()
    for thread in (*writers, reader):
        thread.join()
    assert wrong == []
    graph = RunFolder.open(run.path).graph()
    assert {f"new{i}" for i in range(3)} < set(graph.entities)
    assert graph.num_relations == 6 + 2 * 3


def test_who_asks_while_a_run_is_read_anew_has_what_was_there_before(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = tacit.open(run.path, device="cpu")
    heard = []
    read = opening.read_weights

    def slowly(*arguments: Any) -> opening.LoadedWeights:
        heard.append(known(opened, "?p : lives^-1(t1, ?p)"))
        return read(*arguments)

    before = known(opened, "?p : lives^-1(t1, ?p)")
    monkeypatch.setattr(opening, "read_weights", slowly)
    opened.add(MORE, new=True)
    assert heard == [before]
    assert sorted(known(opened, "?p : lives^-1(t1, ?p)")) == sorted([*before, "zoe"])
    assert heard == [before]  # and nobody else had to wait for it


@pytest.mark.parametrize("long", [lambda run: run.adapt(), lambda run: run.index(nlist=2)])
def test_facts_that_come_right_after_a_training_keep_their_weights(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, long: Callable[[tacit.Run], Any]
) -> None:
    """Another thread adds facts between the end of the work and the reading of its results."""
    opened = tacit.open(run.path, device="cpu")
    assert known(opened, "?p : lives^-1(t1, ?p)")
    in_use = RunFolder.in_use

    @contextmanager
    def followed(folder: RunFolder, changes: bool = False) -> Iterator[None]:
        monkeypatch.setattr(RunFolder, "in_use", in_use)
        with in_use(folder, changes):
            yield
        opened.add(MORE, new=True)

    result = SimpleNamespace(summary={"kept": True})
    monkeypatch.setattr(adaptation, "adapt", lambda *_, **__: result)
    monkeypatch.setattr(RunFolder, "in_use", followed)
    long(opened)
    assert known(opened, LIVES) == ["t1"]
    assert opened.engine.scorer.num_entities == opened.graph.num_entities


def test_a_plan_and_an_evaluation_are_of_one_moment_of_the_run(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = tacit.open(run.path, device="cpu")
    labels = iter(["zoe", "yan"])
    folder = tacit.Run.folder
    prepared = Engine.prepare

    def change() -> None:
        monkeypatch.setattr(tacit.Run, "folder", folder)
        monkeypatch.setattr(Engine, "prepare", prepared)
        opened.add([(next(labels), "lives", "t1")])

    def late(run_now: tacit.Run) -> RunFolder:
        run_folder = run_now._loaded.folder
        change()
        return run_folder

    def prepared_late(engine: Engine, *arguments: Any, **named: Any) -> Any:
        question = prepared(engine, *arguments, **named)
        change()
        return question

    monkeypatch.setattr(tacit.Run, "folder", property(late))
    assert opened.evaluate(split="test").mrr
    monkeypatch.setattr(tacit.Run, "folder", folder)
    whole = opened.plan("?p : lives^-1(t1, ?p)")
    monkeypatch.setattr(Engine, "prepare", prepared_late)
    assert opened.plan("?p : lives^-1(t1, ?p)") == whole


TRAININGS: dict[str, Callable[..., Any]] = {
    "an encoder": lambda run, progress: run.encode(progress=progress, **TINY),
    "an adapter": lambda run, progress: run.adapt(
        progress=progress, count=20, steps=2, batch=8, validate_every=1
    ),
    "links": lambda run, progress: train(
        run.graph,
        TrainSettings.of({**run.settings["train"], "epochs": 25}),
        run.folder,
        progress,
        resume=True,
    ),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_facts_stay_while_something_is_trained_on_them(run: RunFolder, name: str) -> None:
    refused: list[str] = []

    def change(event: Event) -> None:
        if refused:
            return
        for attempt in (
            lambda: add_facts(run.path, MORE, new=True),
            lambda: remove_facts(run.path, [("p0", "lives", "t0")]),
        ):
            with pytest.raises(
                RunError, match="is in use: at this moment it is being trained"
            ) as error:
                attempt()
            refused.append(str(error.value))

    TRAININGS[name](tacit.open(run.path, device="cpu"), change)
    assert len(refused) == 2
    opened = tacit.open(run.path, device="cpu")
    assert (opened.notes, known(opened, "?t : lives(p0, ?t)")) == ((), ["t0"])
    if opened.engine.parts.encoder_reasoner is None:  # an encoder learns no entities beside its own
        assert opened.add(MORE, new=True).added == 3
        assert known(tacit.open(run.path, device="cpu"), LIVES) == ["t1"]
    else:
        assert opened.remove(MORE[3:]).removed == 1
        answers = tacit.open(run.path, device="cpu", search="encoder").ask("?t : lives(p0, ?t)")
        assert [answer.entity for answer in answers if answer.known] == []


def test_nobody_uses_a_run_before_all_its_changed_files_are_in_place(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training that began before would have learned from facts that the run has no longer."""
    refused: set[Path] = set()
    sync = disk._sync_folder

    def attempted(folder: Path) -> None:  # once the draft is whole, and once it is in place
        with pytest.raises(RunError, match="is in use"), run.in_use():
            pass
        refused.add(folder)
        sync(folder)

    monkeypatch.setattr(disk, "_sync_folder", attempted)
    add_facts(run.path, MORE, new=True)
    assert refused == {run.path / disk.DRAFT, run.path}
    with run.in_use():
        assert "zoe" in RunFolder.open(run.path).graph().entities


@pytest.mark.parametrize("name", ["an encoder", "an adapter"])
def test_what_was_trained_on_other_facts_is_not_written(
    run: RunFolder, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a file system locks nothing, facts may change all the same."""
    monkeypatch.setattr(RunFolder, "in_use", lambda self, changes=False: nullcontext())
    monkeypatch.setattr(
        adaptation, "_verdict", lambda *arguments: {"kept": True, "verdict": "kept"}
    )
    changed: list[int] = []

    def change(event: Event) -> None:
        if not changed:
            changed.append(add_facts(run.path, [("p0", "lives", "t5")]).added)

    before = {name for name in (ADAPTER, ENCODER) if run.has(name)}
    with pytest.raises(
        RunError, match=r"the facts of run .* were changed since it was opened; open it again"
    ):
        TRAININGS[name](tacit.open(run.path, device="cpu"), change)
    opened = tacit.open(run.path, device="cpu")
    assert {name for name in (ADAPTER, ENCODER) if run.has(name)} == before
    assert sorted(known(opened, "?t : lives(p0, ?t)")) == ["t0", "t5"]
    assert all(
        "outdated" in opened.results[part]
        for part in ("train", "adapt", "encode")
        if part in opened.results
    )


def test_an_evaluation_of_what_a_run_was_is_marked(run: RunFolder) -> None:
    stale = tacit.open(run.path, device="cpu")
    other = tacit.open(run.path, device="cpu")
    other.add(MORE, new=True)
    graph = "the graph has changed since this was measured"
    weights = "the weights have changed since this was measured"
    measured = stale.evaluate(split="test", out=run.path / "figures.json")
    assert (measured.outdated, measured.unstored_reason) == (graph, "")
    assert [each["outdated"] for each in other.results["eval"]] == [graph]
    assert json.loads((run.path / "figures.json").read_text())["outdated"] == graph
    assert other.evaluate(split="test").outdated == ""  # in its place
    assert ["outdated" in each for each in other.results["eval"]] == [False]
    before = other.results["eval"]
    assert stale.evaluate(split="test").unstored_reason == f"{graph}, and the run was measured anew"
    assert other.results["eval"] == before
    # as a training that went on does
    save_model(RunFolder.open(run.path), load_model(RunFolder.open(run.path)))
    assert other.evaluate(split="test").outdated == weights
    assert other.evaluate(split="test", search="symbolic").outdated == ""  # which asks none
    assert tacit.open(run.path, device="cpu").evaluate(split="test").outdated == ""


def test_who_reads_an_adapter_that_is_dropped_has_it_whole_or_has_none(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_adapter(run)
    dropping = threading.Thread(target=RunFolder.open(run.path).drop, args=("adapt",), daemon=True)
    contents = RunFolder.contents

    def slowly(folder: RunFolder, name: str, tensors: bool = True) -> Any:
        found = contents(folder, name, tensors)
        if name == ADAPTER:  # its settings are read after it
            dropping.start()
            dropping.join(0.2)
        return found

    monkeypatch.setattr(RunFolder, "contents", slowly)
    assert tacit.open(run.path, device="cpu").engine.adapter is not None
    dropping.join()
    assert tacit.open(run.path, device="cpu").engine.adapter is None


def test_a_crash_leaves_a_dropped_part_whole_or_nothing_of_it(
    run: RunFolder, tmp_path: Path
) -> None:
    with_adapter(run)
    with run.changed_results() as results:
        results["adapt"] = {"kept": True}
    with images(run.path, tmp_path / "images") as copies:
        assert run.drop("adapt")
    traces = set()
    for image in copies:
        left = RunFolder.open(image)
        traces.add((left.has(ADAPTER), "adapt" in left.settings, "adapt" in left.results()))
    assert traces == {(True,) * 3, (False,) * 3}


@pytest.mark.parametrize("part", ["adapt", "encode"])
def test_a_crash_leaves_a_trained_part_whole_or_its_checkpoint(
    run: RunFolder, part: str, tmp_path: Path
) -> None:
    """Else its results would be of another training, and going on would refuse what it made."""
    weights, under_way, _ = PARTS[part]
    chosen = EncodeSettings.of({**TINY, "steps": 1}).with_derived(run.graph().num_entities)
    encoder = make_encoder(chosen, run.graph())
    (run.path / under_way).touch()
    with images(run.path, tmp_path / "images") as kept:
        if part == "adapt":
            save_adapter(run, Adapter(load_model(run)), AdaptSettings(), {"kept": True})
        else:
            save_encoder(run, encoder, chosen, {"steps": 1})
    traces = {
        (left.has(weights), part in left.settings, part in left.results(), left.has(under_way))
        for left in map(RunFolder.open, kept)
    }
    assert traces == {(False, False, False, True), (True, True, True, False)}


def test_a_predictor_is_copied_with_the_facts_that_it_is_for(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts that another process adds meanwhile wait."""
    load = models.load_model
    writers: list[threading.Thread] = []

    def and_add(*given: Any, **more: Any) -> Any:
        model = load(*given, **more)
        if not writers:
            writers.append(
                threading.Thread(target=partial(add_facts, run.path, MORE, new=True), daemon=True)
            )
            writers[0].start()
            writers[0].join(1.0)
        return model

    monkeypatch.setattr(models, "load_model", and_add)
    settings = TINY | {"model": "lmpnn", "steps": 1, "hidden": 8, "validate_queries": 1}
    own = tacit.train_encoder(run.path, tmp_path / "own", progress=False, **settings)
    writers[0].join(60)
    assert own.engine.scorer.num_entities == own.graph.num_entities == 40
    assert "zoe" in tacit.open(run.path, device="cpu").graph.entities


def test_what_is_measured_while_facts_change_is_kept(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure() -> None:
        with RunFolder.open(run.path).changed_results() as results:
            results["figure"] = 1

    writer = threading.Thread(target=measure, daemon=True)
    save = models.save_model

    def slowly(*arguments: Any) -> None:  # when the results to take over have been read
        writer.start()
        writer.join(0.2)
        save(*arguments)

    monkeypatch.setattr(models, "save_model", slowly)
    add_facts(run.path, MORE, new=True)
    writer.join()
    results = RunFolder.open(run.path).results()
    assert (results["figure"], results["changes"]) == (1, {"added": 3, "removed": 0})
