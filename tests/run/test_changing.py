"""Facts added to a run and taken out of it: known at once, whole after a crash, and nothing learned is lost."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from test_exchange import images

import tacit
from tacit.adapt.adapter import Adapter, load_adapter, save_adapter
from tacit.adapt.settings import AdaptSettings
from tacit.engine.engine import Engine
from tacit.errors import DataError, RunError, SettingsError
from tacit.evaluate.report import sections
from tacit.links.loading import load_model
from tacit.links.training import growing
from tacit.run import opened as opening
from tacit.run.changes import add_facts, remove_facts
from tacit.run.folder import ADAPTER, CHECKPOINT, FOUND_BY, RESULTS, TRACE, RunFolder

MORE = [("zoe", "lives", "t1"), ("zoe", "sibling", "p4"), ("p3", "likes", "zoe"), ("p0", "lives", "t0")]
LIVES = "?t : lives(zoe, ?t)"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "MOST", 10)


def known(run: tacit.Run, question: str) -> list[str]:
    return [answer.entity for answer in run.ask(question, top=50) if answer.known]


def test_added_facts_are_known_at_once_and_vectors_stay(run: RunFolder, tmp_path: Path) -> None:
    opened = tacit.open(run.path, device="cpu")
    before, graph = {name: rows.clone() for name, rows in opened.engine.scorer.state_dict().items()}, opened.graph
    (tmp_path / "facts.csv").write_text("tail,head,relation\n" + "".join(f"{t},{h},{r}\n" for h, r, t in MORE))
    change = opened.add(tmp_path / "facts.csv")
    assert (change.added, change.unchanged, change.entities, change.relations) == (3, 1, 1, 1)
    assert str(change) == "3 facts added, 1 were there already; vectors for 1 entity and 1 relation"
    for run_now in (opened, tacit.open(run.path, device="cpu")):
        assert known(run_now, LIVES) == ["t1"]
        assert known(run_now, "?p : likes^-1(zoe, ?p)") == ["p3"]
        assert run_now.graph.entities.labels == [*graph.entities.labels, "zoe"]
        for name, rows in run_now.engine.scorer.state_dict().items():
            assert torch.equal(rows[: len(before[name])], before[name])
    # softmax-count multiplies by the number of known tails: p4 has one sibling more, which is zoe
    heads, relations = torch.tensor([graph.entities.id("p4")]), torch.tensor([graph.relations.id("sibling^-1")])
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
    assert torch.equal(opened.engine.scorer.logits(torch.arange(5), torch.zeros(5, dtype=torch.long)), before)
    assert opened.results["changes"] == {"added": 0, "removed": 1}
    with pytest.raises(DataError, match="no such fact"):
        opened.remove([("p1", "lives", "t0")])


def test_results_say_that_the_graph_has_changed(run: RunFolder) -> None:
    opened = tacit.open(run.path, device="cpu")
    opened.evaluate(split="test")
    opened.add(MORE)
    results = opened.results
    changed = "the graph has changed since this was measured"
    assert [measured["outdated"] for measured in (results["train"], *results["eval"])] == 2 * [changed]
    assert next(iter(sections(opened.folder))).text == f"this run: {changed}."
    opened.evaluate(split="test")  # which is measured now, in place of what was measured before
    assert ["outdated" in measured for measured in opened.results["eval"]] == [False]
    opened.remove(MORE[:1])
    assert opened.results["changes"] == {"added": 3, "removed": 1}


def test_what_was_made_for_other_weights_goes_and_what_is_not_ours_stays(run: RunFolder) -> None:
    pytest.importorskip("faiss")
    opened = tacit.open(run.path, device="cpu")
    opened.index()
    opened.engine.using(candidates="scan").ask("?c : exists ?d . knows(p1, ?d) & lives(?d, ?c)")
    (run.path / "notes.txt").write_text("mine")
    assert {*FOUND_BY, CHECKPOINT} <= {file.name for file in run.path.iterdir()}
    assert opened.add(MORE).index_removed
    left = {file.name for file in run.path.iterdir()}
    assert not {*FOUND_BY, CHECKPOINT} & left
    assert "notes.txt" in left
    assert [event["added"] for event in opened.folder.events() if event["event"] == "change"] == [3]
    before = (run.path / RESULTS).stat().st_ino
    assert opened.add(MORE).added == 0  # and nothing was written
    assert (run.path / RESULTS).stat().st_ino == before


def test_names_come_along_with_facts_that_are_there_and_nothing_else_changes(run: RunFolder, tmp_path: Path) -> None:
    opened = tacit.open(run.path, device="cpu")
    files = {file.name: file.read_bytes() for file in run.path.iterdir() if file.is_file() and file.name != TRACE}
    (tmp_path / "facts.tsv").write_text("p0\tlives\tt0\n")
    (tmp_path / "names.tsv").write_text("p0\tAda\nt0\tOslo\nlives\tlives in\n")
    change = opened.add(tmp_path / "facts.tsv", labels=tmp_path / "names.tsv")
    assert str(change) == "0 facts added, 1 were there already; 3 names added"
    for run_now in (opened, tacit.open(run.path, device="cpu")):
        assert "Oslo" in [answer.name for answer in run_now.ask('?t : "lives in"(Ada, ?t)', top=50)]
    for name, content in files.items():
        assert (run.path / name).read_bytes() == content
    again = opened.add(tmp_path / "facts.tsv", labels=tmp_path / "names.tsv")
    assert (again.names, str(again)) == (0, "0 facts added, 1 were there already")
    assert [event["names"] for event in opened.folder.events() if event["event"] == "change"] == [3]
    for nothing in (opened.add([]), opened.remove([])):
        assert str(nothing) == "no facts were given, and nothing changed"


@pytest.mark.parametrize(
    ("condition", "by_id", "learns"), [("p", True, "both"), ("p", False, "scores"), ("spo", False, "both")]
)
def test_an_adapter_says_of_old_relations_what_it_did(run: RunFolder, condition: str, by_id: bool, learns: str) -> None:
    model, draw = load_model(run), torch.Generator().manual_seed(0)
    adapter = Adapter(model, condition, by_id=by_id, learns=learns)
    for values in adapter.state_dict().values():
        values.copy_(torch.randn(values.shape, generator=draw))
    settings = AdaptSettings(condition=condition, learn=learns, calibration="sigmoid")
    save_adapter(run, adapter.requires_grad_(False).eval(), settings)
    run.write_settings("adapt", settings.to_dict())
    add_facts(run.path, MORE)
    larger = load_model(RunFolder.open(run.path))
    grown, again = load_adapter(RunFolder.open(run.path), larger)
    assert again == settings
    atoms = torch.arange(6), torch.arange(6), torch.arange(6, 12)
    for mine, theirs in zip(grown(*atoms), adapter(*atoms), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    if by_id:  # of the new relation and its inverse it says the mean
        outputs = adapter.state_dict()["first.p"].mean(0)
        assert torch.allclose(grown.state_dict()["first.p"][6:], outputs.expand(2, 2))
    if learns == "both":
        before, after = adapter.state_dict()["strengths"], grown.state_dict()["strengths"]
        assert torch.equal(after[[0, 1, 2, 3, 4, 5, 8]], before)
        assert torch.allclose(after[6:8], before[:6].mean())
    assert known(tacit.open(run.path, device="cpu"), LIVES) == ["t1"]


def test_a_crash_at_any_moment_leaves_the_old_run_or_the_new_one(run: RunFolder, tmp_path: Path) -> None:
    settings = AdaptSettings(calibration="sigmoid")
    save_adapter(run, Adapter(load_model(run)).requires_grad_(False).eval(), settings)
    run.write_settings("adapt", settings.to_dict())
    with images(run.path, tmp_path / "images") as kept:
        add_facts(run.path, MORE)
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
        add_facts(run.path, [(f"new{i}", "lives", "t1"), (f"new{i}", f"relation{i}", "p1")])

    def look() -> None:
        while any(writer.is_alive() for writer in writers):
            opened = tacit.open(run.path, device="cpu")  # an error where files of two runs are mixed
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
    opened, heard, read = tacit.open(run.path, device="cpu"), [], opening.read_weights

    def slowly(*given: Any) -> opening.RunWeights:
        heard.append(known(opened, "?p : lives^-1(t1, ?p)"))
        return read(*given)

    before = known(opened, "?p : lives^-1(t1, ?p)")
    monkeypatch.setattr(opening, "read_weights", slowly)
    opened.add(MORE)
    assert heard == [before]
    assert sorted(known(opened, "?p : lives^-1(t1, ?p)")) == sorted([*before, "zoe"])
    assert heard == [before]  # and nobody else had to wait for it


def test_a_plan_and_an_evaluation_are_of_one_moment_of_the_run(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, labels = tacit.open(run.path, device="cpu"), iter(["zoe", "yan"])
    folder, prepared = tacit.Run.folder, Engine.prepare

    def change() -> None:
        monkeypatch.setattr(tacit.Run, "folder", folder)
        monkeypatch.setattr(Engine, "prepare", prepared)
        opened.add([(next(labels), "lives", "t1")])

    def late(run_now: tacit.Run) -> RunFolder:
        there = run_now._opened.folder
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


def test_what_cannot_be_changed_is_said(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="there is no run folder"):
        add_facts(run.path / "absent", MORE)
    assert not (run.path / "absent").exists()
    with pytest.raises(DataError, match="a NoneType is no source of facts"):
        add_facts(run.path, None)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="half of a surrogate pair"):
        add_facts(run.path, [("half \ud800", "r", "a")])
    with pytest.raises(SettingsError, match="columns '1,3,2' are of a table"):
        add_facts(run.path, MORE, columns="1,3,2")  # which would have been left out of account
    run.remove("model.safetensors")
    with pytest.raises(RunError, match="has not finished"):
        remove_facts(run.path, MORE)
    monkeypatch.setenv("TACIT_CACHE", str(run.path.parent))
    with pytest.raises(RunError, match="the run of world is Tacit's own"):
        add_facts(run.path, MORE)
    with pytest.raises(RunError, match="the run of world is Tacit's own"):
        add_facts("world", MORE)
    assert not run.has(ADAPTER)
