"""Facts added to a run and removed: known at once, crash-safe, nothing unlearned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import tacit
from ring_runs import ring
from tacit.adapt.adapter import Adapter, load_adapter, save_adapter
from tacit.adapt.settings import AdaptSettings
from tacit.errors import DataError, RunError, SettingsError
from tacit.evaluate.report import sections
from tacit.links.models import load_model
from tacit.links.training import new_embeddings
from tacit.run.changes import add_facts, remove_facts
from tacit.run_folder.files import ADAPTER, CHECKPOINT, RESULTS, RETRIEVAL_FILES, TRACE
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
    assert {*RETRIEVAL_FILES, CHECKPOINT} <= {file.name for file in run.path.iterdir()}
    assert opened.add(MORE, new=True).index_removed
    left = {file.name for file in run.path.iterdir()}
    assert not {*RETRIEVAL_FILES, CHECKPOINT} & left
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


def test_added_names_that_differ_from_each_other_in_case_alone_need_force(run: RunFolder) -> None:
    opened = tacit.open(run.path, device="cpu")
    facts = [("Neu", "lives", "t0"), ("neu", "lives", "t1")]
    says = r"1 new name differing from another new one .* alone: 'neu' \('Neu'\); write one name"
    for consent in ({}, {"new": True}):
        with pytest.raises(DataError, match=f"{says} for each, .* with `force=True`"):
            opened.add(facts, **consent)
    tried = opened.add(facts, dry_run=True)
    assert (tried.new_names.repeated, tried.new_names.is_doubtful) == ({"neu": "Neu"}, True)
    assert opened.add(facts, force=True).entities == 2


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
    for fact, message in (
        (
            ("t0", "lives", "p1"),
            "no such fact: t0 lives p1: the graph has it the other way round, p1 lives t0",
        ),
        (("p1", "lives", "t1"), "no such fact: p1 lives t1: the graph has p1 lives t0"),
        (("t0", "lives", "t1"), "no such fact: t0 lives t1: the graph has no lives of t0"),
        (("p1", "live", "t0"), "unknown relation 'live'; did you mean 'lives'"),
    ):
        with pytest.raises(tacit.TacitError, match=message):
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
