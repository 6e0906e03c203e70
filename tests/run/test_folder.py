"""Run folders: whole or absent, and never mistaken for another's."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tacit.disk import to_toml
from tacit.errors import RunError
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.graph.stored import FACTS, fingerprint
from tacit.run_folder.files import ADAPTATION, ADAPTER, CHECKPOINT, MODEL, RESULTS, SETTINGS, TRACE
from tacit.run_folder.folder import RunFolder, versions

GRAPH = Graph.of(
    [("a", "r", "b"), ("b\\n", "r", "line\nbreak"), ("\u2028é", "s", "a")],
    [("a", "s", "b")],
    [("b", "r", "a")],
    "five",
)
OTHER = Graph.of([("x", "r", "y")])


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(
        tmp_path / "run", GRAPH, {"rank": 3, "lr": 0.1, "model": 'a "b"', "memory": None}
    )


def test_opens_with_the_same_graph_and_settings(run: RunFolder) -> None:
    opened = RunFolder.open(run.path)
    graph = opened.graph()
    assert graph.entities == GRAPH.entities
    assert graph.relations == GRAPH.relations
    assert graph.name == "five"
    for part in ("train", "valid", "test"):
        assert np.array_equal(graph.split(part), GRAPH.split(part))
    assert opened.settings["train"] == {"rank": 3, "lr": 0.1, "model": 'a "b"'}
    opened.write_settings("adapter", {"steps": 5, "shapes": ["2i", "3i"], "held_out": True})
    assert run.settings["adapter"] == {"steps": 5, "shapes": ["2i", "3i"], "held_out": True}
    assert run.settings["train"]["rank"] == 3


def test_settings_are_those_of_the_file_and_nobody_elses(run: RunFolder) -> None:
    run.settings["train"]["rank"] = 4  # in a copy
    assert run.settings["train"]["rank"] == 3
    RunFolder.open(run.path).write_settings("train", {"rank": 5})
    assert run.settings["train"] == {"rank": 5}
    (run.path / SETTINGS).unlink()
    with pytest.raises(RunError, match=r"has no settings\.toml"):
        _ = run.settings


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="there is no run "):
        RunFolder.open(tmp_path / "absent")
    with pytest.raises(RunError, match=r"has no settings\.toml"):
        RunFolder.open(tmp_path)


def test_a_run_in_which_nothing_was_trained_is_replaced(run: RunFolder) -> None:
    assert RunFolder.create(run.path, OTHER, {}).graph().entities == OTHER.entities


def test_refuses_to_overwrite(run: RunFolder, tmp_path: Path) -> None:
    run.trace({"event": "start"})
    with pytest.raises(
        RunError, match="go on with it by `resume=True`, replace it by `force=True`"
    ):
        RunFolder.create(run.path, OTHER, {})
    assert run.graph().name == "five"
    replaced = RunFolder.create(run.path, OTHER, {}, force=True)
    assert replaced.graph().entities == OTHER.entities
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("1")
    with pytest.raises(RunError, match="not empty"):
        RunFolder.create(tmp_path / "thesis", GRAPH, {}, force=True)
    with pytest.raises(RunError, match="is a file"):
        RunFolder.create(tmp_path / "thesis" / "chapter.txt", GRAPH, {})


def test_force_leaves_other_files_alone(run: RunFolder) -> None:
    (run.path / "notes.txt").write_text("mine")
    (run.path / "rows.cache").write_text("of an earlier version")
    run.trace({"event": "old"})
    assert RunFolder.open(run.path).graph().num_entities == GRAPH.num_entities
    RunFolder.create(run.path, GRAPH, {}, force=True)
    assert (run.path / "notes.txt").read_text() == "mine"
    assert not (run.path / TRACE).exists()
    assert not (run.path / "rows.cache").exists()


def test_tensors_keep_values_and_metadata(run: RunFolder) -> None:
    table = torch.arange(6.0).view(2, 3)
    run.write_tensors(MODEL, {"table": table, "turned": table.T}, {"rank": "3"})
    assert torch.equal(run.tensors(MODEL)["turned"], table.T)
    assert run.metadata(MODEL)["rank"] == "3"


@pytest.mark.parametrize("rank", ["3", "30", "300000", "ü"])
def test_the_first_table_of_a_file_starts_at_a_line_of_memory(run: RunFolder, rank: str) -> None:
    for rows in (1, 7, 12_345):
        run.write_tensors(
            MODEL, {"b": torch.ones(rows, 3), "a": torch.zeros(rows, 200)}, {"rank": rank}
        )
        header = int.from_bytes((run.path / MODEL).read_bytes()[:8], "little")
        assert (8 + header) % 64 == 0
        assert run.tensors(MODEL)["a"].shape == (rows, 200)


def test_files_are_as_readable_as_any_other(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "any").touch()
    run.write_tensors(MODEL, {"table": torch.zeros(1)})
    assert {(run.path / name).stat().st_mode for name in (MODEL, SETTINGS)} == {
        (tmp_path / "any").stat().st_mode
    }


def test_weights_of_another_graph(run: RunFolder, tmp_path: Path) -> None:
    other = RunFolder.create(tmp_path / "other", OTHER, {})
    other.write_tensors(MODEL, {"table": torch.zeros(1)})
    (run.path / MODEL).write_bytes((other.path / MODEL).read_bytes())
    with pytest.raises(RunError, match="another vocabulary"):
        run.tensors(MODEL)
    with pytest.raises(RunError, match="another vocabulary"):
        run.check(OTHER)
    run.check(GRAPH)


def test_weights_of_other_facts(run: RunFolder, tmp_path: Path) -> None:
    """The same labels in the same order, and one fact that moved from valid to train."""
    moved = replace(GRAPH, train=GRAPH.facts("train", "valid"), valid=GRAPH.valid[:0])
    other = RunFolder.create(tmp_path / "other", moved, {})
    for name in (MODEL, ADAPTER, CHECKPOINT, ADAPTATION):
        other.write_tensors(name, {"table": torch.zeros(1)})
        (run.path / name).write_bytes((other.path / name).read_bytes())
        with pytest.raises(RunError, match=f"{name} was trained on other facts"):
            run.tensors(name)
    with pytest.raises(RunError, match="was trained on other facts than five has now"):
        run.check(moved)


def test_facts_changed_behind_its_back(run: RunFolder, tmp_path: Path) -> None:
    moved = replace(GRAPH, train=GRAPH.facts("valid", "train"), valid=GRAPH.valid[:0])
    other = RunFolder.create(tmp_path / "other", moved, {})
    (run.path / FACTS).write_bytes((other.path / FACTS).read_bytes())
    with pytest.raises(RunError, match=r"the facts in .* are not those the run was made with"):
        RunFolder.open(run.path).graph()


def test_prefixes_of_iris_are_kept(tmp_path: Path) -> None:
    prefixes = {"": "http://a.example/#", "ex": "http://é.example/", "a.b-c": "urn:x:"}
    RunFolder.create(tmp_path / "run", replace(GRAPH, prefixes=prefixes), {})
    assert RunFolder.open(tmp_path / "run").graph().prefixes == prefixes


def test_names_of_entities_are_kept(tmp_path: Path) -> None:
    names = {"Q142": ("France", "République\tfrançaise"), "Q1\\n": ("a\nb",)}
    entities = Vocabulary(["Q142", "Q183", "Q1\\n"], kind="entity", names=names)
    graph = replace(
        Graph.of([("Q142", "borders", "Q183"), ("Q142", "borders", "Q1\\n")]), entities=entities
    )
    RunFolder.create(tmp_path / "run", graph, {})
    assert RunFolder.open(tmp_path / "run").graph().entities.names == names


@pytest.mark.parametrize(
    "content", [b"", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      ", b"not tensors at all"]
)
def test_files_that_are_no_tensors(run: RunFolder, content: bytes) -> None:
    with pytest.raises(RunError, match="has no model"):
        run.tensors(MODEL)
    (run.path / MODEL).write_bytes(content)
    with pytest.raises(RunError, match=r"truncated|not written by Tacit"):
        run.tensors(MODEL)


def test_damage_is_named(run: RunFolder) -> None:
    run.write_tensors(MODEL, {"table": torch.zeros(100)})
    for name, match in (
        (MODEL, "truncated"),
        (FACTS, "facts"),
        (SETTINGS, "settings"),
        (RESULTS, "results"),
    ):
        run.write_results({"a": 1})
        whole = (run.path / name).read_bytes()
        (run.path / name).write_bytes(whole[: len(whole) // 2])
        opened = RunFolder(run.path)
        with pytest.raises(RunError, match=match):
            {MODEL: lambda r: r.tensors(MODEL), RESULTS: lambda r: r.results()}.get(
                name, lambda r: r.graph()
            )(opened)
        (run.path / name).write_bytes(whole)


def test_labels_changed_behind_its_back(run: RunFolder) -> None:
    labels = (run.path / "entities.txt").read_text(encoding="utf-8")
    (run.path / "entities.txt").write_text(labels + "one more\n", encoding="utf-8")
    with pytest.raises(RunError, match="not those the run was made with"):
        RunFolder.open(run.path).graph()


def test_trace_survives_a_cut_line(run: RunFolder) -> None:
    run.trace({"event": "epoch", "loss": 0.5})
    with (run.path / TRACE).open("a") as file:
        file.write('{"event": "ep')
    assert run.events() == [{"event": "epoch", "loss": 0.5}]


def test_results_record_versions(run: RunFolder) -> None:
    run.write_results({"mrr": 0.5})
    stored = json.loads((run.path / RESULTS).read_text())
    assert stored["mrr"] == 0.5
    assert stored["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert set(versions()) - {"git"} == {"python", "numpy", "torch", "tacit"}


def test_fingerprints_tell_orders_and_kinds_apart() -> None:
    swapped = Graph.of([("b", "r", "a")])
    assert fingerprint(Graph.of([("a", "r", "b")])) != fingerprint(swapped)
    assert fingerprint(GRAPH) == fingerprint(GRAPH)


def test_toml_of_every_kind() -> None:
    import tomllib

    values = {
        "flag": True,
        "size": 1e-3,
        "label": 'tab\t"quote" \x7f',
        "list": [1, 2],
        "none": None,
    }
    assert tomllib.loads(to_toml({"t": values}))["t"] == {
        k: v for k, v in values.items() if v is not None
    }


def test_a_fingerprint_tells_labels_from_facts() -> None:
    graph = Graph.of([("a", "r", "b"), ("b", "r", "c")], [("a", "r", "c")])
    # the same facts, split in another way
    moved = Graph.of([("a", "r", "b"), ("b", "r", "c"), ("a", "r", "c")])
    renamed = Graph.of([("a", "r", "b"), ("b", "r", "d")], [("a", "r", "d")])
    assert fingerprint(graph).labels == fingerprint(moved).labels
    assert fingerprint(graph).facts != fingerprint(moved).facts
    assert fingerprint(graph).labels != fingerprint(renamed).labels
    assert fingerprint(graph).facts == fingerprint(renamed).facts


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text there")
def test_names_that_are_no_text(tmp_path: Path) -> None:
    facts = tmp_path / os.fsdecode(b"facts\xff.tsv")
    facts.write_text("a\tr\tb\n", encoding="utf-8")
    graph = load(facts)
    assert (
        RunFolder.open(RunFolder.create(tmp_path / "run", graph, {}).path).graph().name == "facts?"
    )
    with pytest.raises(RunError, match="is not UTF-8"):
        RunFolder.create(tmp_path / os.fsdecode(b"run\xff"), graph, {})


def test_a_run_is_of_the_graph_that_it_was_opened_with(run: RunFolder) -> None:
    with run.in_use():  # others may use it as well, and nobody may replace it
        with RunFolder.open(run.path).in_use():
            pass
        with pytest.raises(RunError, match="is in use"):
            RunFolder.create(run.path, OTHER, {}, force=True)
        with (
            pytest.raises(RunError, match="is in use"),
            RunFolder.open(run.path).in_use(changes=True),
        ):
            pass
    RunFolder.create(run.path, OTHER, {}, force=True).write_tensors(MODEL, {"table": torch.ones(1)})
    for step in (
        lambda: run.write_tensors(MODEL, {"table": torch.zeros(1)}),
        lambda: run.tensors(MODEL),
        lambda: run.begin(GRAPH),
    ):
        with pytest.raises(
            RunError, match=r"the facts of run .* were changed since it was opened; open it again"
        ):
            step()
    assert torch.equal(RunFolder.open(run.path).tensors(MODEL)["table"], torch.ones(1))
