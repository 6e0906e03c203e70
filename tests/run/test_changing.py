"""Facts added to a run and removed: known at once, crash-safe, nothing unlearned."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from test_exchange import images

import tacit
from encoder_runs import TINY
from ring_runs import ring
from tacit import loaded_run as opening
from tacit.adapt import adaptation
from tacit.adapt.adapter import Adapter, load_adapter, save_adapter
from tacit.adapt.settings import AdaptSettings
from tacit.engine.engine import Engine
from tacit.errors import DataError, RunError, SettingsError
from tacit.evaluate.report import sections
from tacit.fitting.progress import Event
from tacit.links import models
from tacit.links.models import load_model, save_model
from tacit.links.settings import TrainSettings
from tacit.links.training import new_embeddings
from tacit.links.training.link_training import train
from tacit.run.changes import add_facts, remove_facts
from tacit.run_folder.files import ADAPTER, CHECKPOINT, ENCODER, FOUND_BY, RESULTS, TRACE
from tacit.run_folder.folder import RunFolder

MORE = [
    ("zoe", "lives", "t1"),
    ("zoe", "sibling", "p4"),
    ("p3", "likes", "zoe"),
    ("p0", "lives", "t0"),
]
LIVES = "?t : lives(zoe, ?t)"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_embeddings, "MOST", 10)


def known(run: tacit.Run, question: str) -> list[str]:
    return [answer.entity for answer in run.ask(question, top=50) if answer.known]


def test_added_facts_are_known_at_once_and_vectors_stay(run: RunFolder, tmp_path: Path) -> None:
    opened = tacit.open(run.path, device="cpu")
    before = {name: rows.clone() for name, rows in opened.engine.scorer.state_dict().items()}
    graph = opened.graph
    (tmp_path / "facts.csv").write_text(
        "tail,head,relation\n" + "".join(f"{t},{h},{r}\n" for h, r, t in MORE)
    )
    change = opened.add(tmp_path / "facts.csv", new=True)
    assert (change.added, change.unchanged, change.entities, change.relations) == (3, 1, 1, 1)
    assert (
        str(change)
        == "3 facts added, 1 was there already; 1 new entity: zoe; 1 new relation: likes"
    )
    for run_now in (opened, tacit.open(run.path, device="cpu")):
        assert known(run_now, LIVES) == ["t1"]
        assert known(run_now, "?p : likes^-1(zoe, ?p)") == ["p3"]
        assert run_now.graph.entities.labels == [*graph.entities.labels, "zoe"]
        for name, rows in run_now.engine.scorer.state_dict().items():
            assert torch.equal(rows[: len(before[name])], before[name])
    # softmax-count multiplies by the number of known tails: p4 has one sibling more, which is zoe
    heads = torch.tensor([graph.entities.id("p4")])
    relations = torch.tensor([graph.relations.id("sibling^-1")])
    counts = opened.engine.atoms.calibration.facts.counts(heads, relations)
    assert counts.tolist() == [1 + len(graph.index().tails(int(heads), int(relations)))]


def test_removed_facts_are_no_longer_known_and_all_else_stays(run: RunFolder) -> None:
    opened = tacit.open(run.path, device="cpu")
    before = opened.engine.scorer.logits(torch.arange(5), torch.zeros(5, dtype=torch.long))
    assert "t0" in known(opened, "?t : lives(p1, ?t)")
    change = opened.remove([("t0", "lives^-1", "p1"), ("nobody", "lives", "t0")])
    assert (change.removed, change.unchanged) == (1, 1)
    assert "what was learned of it stays learned" in str(change)
    assert known(opened, "?t : lives(p1, ?t)") == []
    assert opened.graph.entities == run.graph().entities
    assert torch.equal(
        opened.engine.scorer.logits(torch.arange(5), torch.zeros(5, dtype=torch.long)), before
    )
    assert opened.results["changes"] == {"added": 0, "removed": 1}
    with pytest.raises(DataError, match="no such fact"):
        opened.remove([("p1", "lives", "t0")])


def test_results_say_that_the_graph_has_changed(run: RunFolder) -> None:
    opened = tacit.open(run.path, device="cpu")
    opened.evaluate(split="test")
    opened.add(MORE, new=True)
    results = opened.results
    changed = "the graph has changed since this was measured"
    assert [measured["outdated"] for measured in (results["train"], *results["eval"])] == 2 * [
        changed
    ]
    assert next(iter(sections(opened.folder))).text == f"this run: {changed}."
    opened.evaluate(split="test")  # which is measured now, in place of what was measured before
    assert ["outdated" in measured for measured in opened.results["eval"]] == [False]
    opened.remove(MORE[:1])
    assert opened.results["changes"] == {"added": 3, "removed": 1}


def test_what_was_made_for_other_weights_goes_and_what_is_not_ours_stays(run: RunFolder) -> None:
    pytest.importorskip("faiss")
    opened = tacit.open(run.path, device="cpu")
    opened.index()
    opened.engine.with_settings(candidates="scan").ask(
        "?c : exists ?d . knows(p1, ?d) & lives(?d, ?c)"
    )
    (run.path / "notes.txt").write_text("mine")
    assert {*FOUND_BY, CHECKPOINT} <= {file.name for file in run.path.iterdir()}
    assert opened.add(MORE, new=True).index_removed
    left = {file.name for file in run.path.iterdir()}
    assert not {*FOUND_BY, CHECKPOINT} & left
    assert "notes.txt" in left
    assert [event["added"] for event in opened.folder.events() if event["event"] == "change"] == [3]
    before = (run.path / RESULTS).stat().st_ino
    assert opened.add(MORE, new=True).added == 0  # and nothing was written
    assert (run.path / RESULTS).stat().st_ino == before


def test_names_come_along_with_facts_that_are_there_and_nothing_else_changes(
    run: RunFolder, tmp_path: Path
) -> None:
    opened = tacit.open(run.path, device="cpu")
    files = {
        file.name: file.read_bytes()
        for file in run.path.iterdir()
        if file.is_file() and file.name != TRACE
    }
    (tmp_path / "facts.tsv").write_text("p0\tlives\tt0\n")
    (tmp_path / "names.tsv").write_text("p0\tAda\nt0\tOslo\nlives\tlives in\n")
    change = opened.add(tmp_path / "facts.tsv", labels=tmp_path / "names.tsv")
    assert str(change) == "0 facts added, 1 was there already; 3 names added"
    for run_now in (opened, tacit.open(run.path, device="cpu")):
        assert "Oslo" in [answer.name for answer in run_now.ask('?t : "lives in"(Ada, ?t)', top=50)]
    for name, content in files.items():
        assert (run.path / name).read_bytes() == content
    again = opened.add(tmp_path / "facts.tsv", labels=tmp_path / "names.tsv")
    assert (again.names, str(again)) == (0, "0 facts added, 1 was there already")
    assert [event["names"] for event in opened.folder.events() if event["event"] == "change"] == [3]
    for nothing in (opened.add([]), opened.remove([])):
        assert str(nothing) == "no facts were given, and nothing changed"


@pytest.mark.parametrize("condition", ["p", "spo"])
def test_an_adapter_says_of_old_relations_what_it_did(run: RunFolder, condition: str) -> None:
    model = load_model(run)
    draw = torch.Generator().manual_seed(0)
    adapter = Adapter(model, condition)
    for values in adapter.state_dict().values():
        values.copy_(torch.randn(values.shape, generator=draw))
    settings = AdaptSettings(condition=condition, calibration="sigmoid")
    save_adapter(run, adapter.requires_grad_(False).eval(), settings)
    run.write_settings("adapt", settings.to_dict())
    add_facts(run.path, MORE, new=True)
    larger = load_model(RunFolder.open(run.path))
    fit_new_embeddings, again = load_adapter(RunFolder.open(run.path), larger)
    assert again == settings
    atoms = torch.arange(6), torch.arange(6), torch.arange(6, 12)
    for mine, theirs in zip(fit_new_embeddings(*atoms), adapter(*atoms), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    assert known(tacit.open(run.path, device="cpu"), LIVES) == ["t1"]


def test_a_crash_at_any_moment_leaves_the_old_run_or_the_new_one(
    run: RunFolder, tmp_path: Path
) -> None:
    settings = AdaptSettings(calibration="sigmoid")
    save_adapter(run, Adapter(load_model(run)).requires_grad_(False).eval(), settings)
    run.write_settings("adapt", settings.to_dict())
    with images(run.path, tmp_path / "images") as kept:
        add_facts(run.path, MORE, new=True)
    sizes = []
    for image in kept:
        opened = tacit.open(image, device="cpu")
        there = "zoe" in opened.graph.entities
        assert known(opened, LIVES) == ["t1"] if there else "zoe" not in opened.graph.entities
        assert opened.engine.adapter is not None
        assert ("changes" in opened.results) == there
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

    def look() -> None:
        while any(writer.is_alive() for writer in writers):
            # an error where files of two runs are mixed
            opened = tacit.open(run.path, device="cpu")
            if len(known(opened, "?p : lives^-1(t1, ?p)")) != 3 + opened.graph.num_entities - 40:
                wrong.append(str(opened.graph))

    writers = [threading.Thread(target=add, args=(i,)) for i in range(3)]
    reader = threading.Thread(target=look)
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

    def slowly(*given: Any) -> opening.LoadedWeights:
        heard.append(known(opened, "?p : lives^-1(t1, ?p)"))
        return read(*given)

    before = known(opened, "?p : lives^-1(t1, ?p)")
    monkeypatch.setattr(opening, "read_weights", slowly)
    opened.add(MORE, new=True)
    assert heard == [before]
    assert sorted(known(opened, "?p : lives^-1(t1, ?p)")) == sorted([*before, "zoe"])
    assert heard == [before]  # and nobody else had to wait for it


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
        there = run_now._loaded.folder
        change()
        return there

    def prepared_late(engine: Engine, *given: Any, **named: Any) -> Any:
        asked = prepared(engine, *given, **named)
        change()
        return asked

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


@pytest.mark.parametrize("name", ["an encoder", "an adapter"])
def test_what_was_trained_on_other_facts_is_not_written(
    run: RunFolder, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a file system locks nothing, facts may change all the same."""
    monkeypatch.setattr(RunFolder, "in_use", lambda self, changes=False: nullcontext())
    monkeypatch.setattr(adaptation, "_verdict", lambda *given: {"kept": True, "verdict": "kept"})
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
    assert (measured.outdated, measured.unkept) == (graph, "")
    assert [each["outdated"] for each in other.results["eval"]] == [graph]
    assert json.loads((run.path / "figures.json").read_text())["outdated"] == graph
    assert other.evaluate(split="test").outdated == ""  # in its place
    assert ["outdated" in each for each in other.results["eval"]] == [False]
    before = other.results["eval"]
    assert stale.evaluate(split="test").unkept == f"{graph}, and the run was measured anew"
    assert other.results["eval"] == before
    # as a training that went on does
    save_model(RunFolder.open(run.path), load_model(RunFolder.open(run.path)))
    assert other.evaluate(split="test").outdated == weights
    assert other.evaluate(split="test", search="symbolic").outdated == ""  # which asks none
    assert tacit.open(run.path, device="cpu").evaluate(split="test").outdated == ""


def test_what_is_measured_while_facts_change_is_kept(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure() -> None:
        with RunFolder.open(run.path).changed_results() as results:
            results["figure"] = 1

    writer = threading.Thread(target=measure)
    save = models.save_model

    def slowly(*given: Any) -> None:  # when the results to take over have been read
        writer.start()
        writer.join(0.2)
        save(*given)

    monkeypatch.setattr(models, "save_model", slowly)
    add_facts(run.path, MORE, new=True)
    writer.join()
    results = RunFolder.open(run.path).results()
    assert (results["figure"], results["changes"]) == (1, {"added": 3, "removed": 0})


def test_what_cannot_be_changed_is_said(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="there is no run "):
        add_facts(run.path / "absent", MORE)
    assert not (run.path / "absent").exists()
    with pytest.raises(DataError, match="a NoneType is no source of facts"):
        add_facts(run.path, None)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="half of a surrogate pair"):
        add_facts(run.path, [("half \ud800", "lives", "a")])
    with pytest.raises(DataError, match="the relation 'lives' at an end"):
        add_facts(run.path, MORE, columns="1,3,2")
    with pytest.raises(SettingsError, match=r"columns is '1,3,2', but .* is no table"):
        # which would have been left out of account
        add_facts(run.path, run.graph(), columns="1,3,2")
    run.remove("model.safetensors")
    with pytest.raises(RunError, match="has not finished"):
        remove_facts(run.path, MORE)
    monkeypatch.setenv("TACIT_CACHE", str(run.path.parent))
    with pytest.raises(RunError, match="the run of world is Tacit's own"):
        add_facts(run.path, MORE, new=True)
    with pytest.raises(RunError, match="the run of world is Tacit's own"):
        add_facts("world", MORE)
    assert not run.has(ADAPTER)


def test_names_that_may_be_misspelt_must_be_agreed_to(run: RunFolder) -> None:
    opened = tacit.open(run.path, device="cpu")
    opened.add([("Germany", "lives", "t0")])  # a name that resembles nothing needs nobody
    before = {file.name: file.read_bytes() for file in run.path.iterdir() if file.is_file()}
    wrong = {
        "near": [("Gemrany", "lives", "t0")],
        "new": [("p0", "lived", "t0")],
        "same": [("P0", "lives", "t0")],
        "relation": [("p0", "Lives", "t0")],
    }
    said = {
        "near": "1 new entity with nearly the name of a known one: "
        r"'Gemrany' \(did you mean 'Germany'\?\).*`new=True`",
        "new": r"1 new relation: 'lived' \(did you mean 'lives'\?\).*`new=True`",
        "same": r".*in case, spaces or Unicode form alone: 'P0' \('p0'\).*`force=True`",
        "relation": r".*in case, spaces or Unicode form alone: 'Lives' \('lives'\).*`force=True`",
    }
    for kind, facts in wrong.items():
        with pytest.raises(DataError, match=f"nothing was added: {said[kind]}") as refused:
            opened.add(facts)
        assert refused.value.to_dict()["suggestions"][0] in ("Germany", "lives", "p0")
        tried = opened.add(facts, dry_run=True)
        assert (tried.added, tried.dry_run) == (1, True)
        assert tried.new_names.is_doubtful
    for kind in ("same", "relation"):
        with pytest.raises(DataError, match="nothing was added"):
            opened.add(wrong[kind], new=True)
    assert {file.name: file.read_bytes() for file in run.path.iterdir() if file.is_file()} == before
    assert "Gemrany" not in opened.graph.entities
    for kind in ("near", "new"):
        assert opened.add(wrong[kind], new=True).added == 1
    for kind in ("same", "relation"):
        assert opened.add(wrong[kind], force=True).added == 1
    assert opened.graph.entities.labels[-2:] == ["Gemrany", "P0"]
    assert opened.graph.relations.labels[-4::2] == ["lived", "Lives"]


def test_a_dry_run_says_what_would_change_and_writes_nothing(run: RunFolder) -> None:
    opened = tacit.open(run.path, device="cpu")
    before = {
        file.name: (file.read_bytes(), file.stat().st_mtime_ns)
        for file in run.path.iterdir()
        if file.is_file()
    }
    change = opened.add(MORE, dry_run=True)
    assert (change.added, change.unchanged, change.entities, change.relations) == (3, 1, 1, 1)
    assert (change.new_names.entities, change.new_names.relations) == (("zoe",), {"likes": "lives"})
    assert (
        str(change)
        == "3 facts would be added, 1 was there already; 1 new entity: zoe; 1 new relation: likes"
    )
    removal = opened.remove([("p1", "lives", "t0"), ("p1", "lives", "t1")], dry_run=True)
    assert (removal.removed, removal.unchanged) == (1, 1)
    assert (
        "1 fact would be removed, 1 was not there (p1 lives t1: the graph has p1 lives t0)"
        in str(removal)
    )
    after = {
        file.name: (file.read_bytes(), file.stat().st_mtime_ns)
        for file in run.path.iterdir()
        if file.is_file()
    }
    assert after == before
    assert "zoe" not in opened.graph.entities


def test_facts_that_are_not_there_are_told_with_what_is(run: RunFolder) -> None:
    opened = tacit.open(run.path, device="cpu")
    for fact, told in (
        (
            ("t0", "lives", "p1"),
            "no such fact: t0 lives p1: the graph has it the other way round, p1 lives t0",
        ),
        (("p1", "lives", "t1"), "no such fact: p1 lives t1: the graph has p1 lives t0"),
        (("t0", "lives", "t1"), "no such fact: t0 lives t1: the graph has no lives of t0"),
        (("p1", "live", "t0"), "unknown relation 'live'; did you mean 'lives'"),
    ):
        with pytest.raises(tacit.TacitError, match=told):
            opened.remove([fact])
    change = opened.remove([("p1", "lives", "t0"), ("p1", "lifes", "t0"), ("p2", "lives", "t00")])
    assert change.absent == (
        "p1 lifes t0: no relation 'lifes', did you mean 'lives'?",
        *change.absent[1:],
    )
    assert change.absent[1].startswith("p2 lives t00: no entity 't00', did you mean 't")


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_what_learns_does_so_whatever_mode_of_torch_its_caller_is_in(
    mode: Any, tmp_path: Path
) -> None:
    """New vectors are fitted in inference mode, and models made inside learn outside."""
    small = {"rank": 4, "epochs": 2, "batch": 10, "device": "cpu", "progress": False}
    question = "?x : exists ?y . next(n0, ?y) & after(?y, ?x)"
    with mode():
        run = tacit.train(ring(), tmp_path / "run", **small)
        assert run.add([("n0", "next", "fresh")]).entities == 1
        assert "kept" in run.adapt(count=20, steps=3, shapes="2i")
        assert run.evaluate(split="valid").figures
        assert len(run.engine.with_settings(search="continuous", steps=3).ask(question, top=2)) == 2
        run.encode(model="betae", width=4, steps=2, device="cpu")
        run.drop_encoder()
    assert "kept" in run.adapt(count=20, steps=3, shapes="2i")
    assert run.add([("n1", "next", "fresher")]).entities == 1
    plain = tacit.train(ring(), tmp_path / "plain", **small)
    with mode():
        inside = tacit.train(ring(), tmp_path / "inside", **small)
    assert inside.ask(question, top=5).answers == plain.ask(question, top=5).answers
