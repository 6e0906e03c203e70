from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import tacit
from tacit.cli import app
from tacit.errors import DataError, SettingsError, TacitError
from tacit.graph.formats.betae import write_betae
from tacit.graph.graph import Graph
from tacit.links.models import make_model, save_model
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.queries import QuerySet, write_queries
from tacit.query.sampling.shapes import SHAPES
from tacit.run_folder.folder import RunFolder

# A ring of eight: everyone's next, and a second relation two steps on; test holds one fact of each.
RING = [(f"e{i}", "next", f"e{(i + 1) % 8}") for i in range(8)]
SKIP = [(f"e{i}", "skip", f"e{(i + 2) % 8}") for i in range(8)]
GRAPH = Graph.of(RING[:7] + SKIP[:7], valid=SKIP[7:], test=RING[7:], name="ring")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run whose model knows the ring: `i` is a turn by `i/8`, `next` by 1/8, `skip` by 2/8."""
    run = RunFolder.create(tmp_path / "run", GRAPH, {"model": "complex", "rank": 1})
    model = make_model("complex", 8, 4, 1)
    angles = torch.arange(8) * torch.pi / 4
    turns = torch.tensor([1.0, -1.0, 2.0, -2.0]) * torch.pi / 4
    entities, relations = (torch.stack((a.cos(), a.sin()), 1) for a in (angles, turns))
    model.load_state_dict({"entities.weight": entities, "relations.weight": relations})
    save_model(run, model)
    return run


def call(*arguments: object) -> str:
    """Return the output of a command, and raise its error if it is a Tacit error."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, TacitError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def queries(tmp_path: Path) -> Path:
    """One 2p query with the hard answer e1 (e6 -next-> e7 -skip-> e1), and two 1p queries."""
    two = QuerySet(
        SHAPES["2p"],
        np.array([[6]], np.int32),
        np.array([[0, 2]], np.int32),
        AnswerSets.of([set()]),
        AnswerSets.of([{1}]),
    )
    one = QuerySet(
        SHAPES["1p"],
        np.array([[0], [7]], np.int32),
        np.array([[0], [0]], np.int32),
        AnswerSets.of([{1}, set()]),
        AnswerSets.of([set(), {0}]),
    )
    write_betae(GRAPH, tmp_path / "queries")
    write_queries(tmp_path / "queries", "test", {"1p": one, "2p": two})
    return tmp_path / "queries"


def test_held_out_facts_of_a_run(run: RunFolder, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    text = call("eval", run.path, "--json", file, "--per-relation", "--device", "cpu")
    found = json.loads(file.read_text())
    assert found["mrr"] == {"1p": 1.0}  # e7 next e0, and back
    assert found["queries"] == {"1p": 2}
    assert found["relations"]["next^-1"]["queries"] == 1
    assert found["settings"]["observed"] == "train"
    assert found["settings"]["split"] == "test"
    assert found["avg_p"] is None
    assert "100.0" in text
    assert "graph ring, split test, search beam, k 256, logic product" in text
    assert run.results()["eval"] == [found]


def test_queries_of_a_folder(run: RunFolder, tmp_path: Path) -> None:
    folder = queries(tmp_path)
    text = call(
        "eval", run.path, "--queries", folder, "--search", "exact", "--calibration", "sigmoid"
    )
    found = run.results()["eval"][0]
    assert found["mrr"] == {"1p": 1.0, "2p": 1.0}
    assert found["queries"] == {"1p": 1, "2p": 1}
    assert found["settings"]["search"] == "exact"
    assert found["settings"]["queries"] == "queries"
    assert "avg_p is not stated: there are no 3p, 2i, 3i, pi, ip, 2u, up queries" in text
    assert "avg_n" not in text


def test_results_with_the_same_settings_are_replaced_and_reported(
    run: RunFolder, tmp_path: Path
) -> None:
    for k in (4, 4, 8):
        call("eval", run.path, "--k", k, "--reliability")
    entries = run.results()["eval"]
    assert [one["settings"]["k"] for one in entries] == [4, 8]
    assert set(entries[0]["reliability"]) == {"atoms", "ten best answers"}
    page = tmp_path / "page.md"
    assert "wrote" in call("report", run.path, "--out", page)
    assert "| #2 | 100.0 |" in page.read_text()


def test_damaged_results_do_not_cost_an_evaluation(run: RunFolder) -> None:
    (run.path / "results.json").write_text('{"eval": "none"}')
    found = tacit.open(run.path, device="cpu").evaluate()
    assert found.mrr == {"1p": 1.0}
    assert (
        "results.json is damaged or does not fit the run (eval is no list of evaluations); delete "
        "it" in found.unstored_reason
    )


def test_queries_of_one_name_do_not_take_each_others_place(run: RunFolder, tmp_path: Path) -> None:
    """Two folders called `queries`, some shapes of one, and query sets are each kept once."""
    folder = queries(tmp_path)
    moved = tmp_path / "elsewhere" / "queries"
    shutil.copytree(folder, moved)
    other = QuerySet(
        SHAPES["1p"],
        np.array([[0]], np.int32),
        np.array([[1]], np.int32),
        AnswerSets.none(1),
        AnswerSets.of([{7}]),
    )
    write_queries(moved, "test", {"1p": other})
    opened = tacit.open(run.path, device="cpu")
    for _ in range(2):
        for source, shapes in (
            (folder, None),
            (moved, None),
            (folder, "2p"),
            ({"1p": other}, None),
        ):
            opened.evaluate(source, shapes=shapes)
    entries = run.results()["eval"]
    assert [(one["settings"]["queries"], list(one["mrr"])) for one in entries] == [
        ("queries", ["1p", "2p"]),
        ("queries", ["1p"]),
        ("queries", ["2p"]),
        ("given", ["1p"]),
    ]
    checksums = [one["settings"]["checksum"] for one in entries]
    assert checksums[1] == checksums[3]  # the same queries, wherever they come from
    assert len(set(checksums)) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--observed", "train+test"],
            "test facts cannot be observed .* none or train or train.valid",
        ),
        (["--observed", "valid", "--split", "valid"], "valid facts cannot be observed"),
        (["--split", "tests"], "--split is 'tests'; it must be one of train, valid, test"),
        (["--shapes", "2i"], "--shapes is 2i, .* give their folder as --queries"),
        (["--ties", "random"], "realistic, optimistic, pessimistic"),
        (["--shapes", "2p", "--per-relation", "--queries", "."], "no test-queries.pkl"),
    ],
)
def test_what_contradicts_itself(run: RunFolder, arguments: list[str], message: str) -> None:
    with pytest.raises(TacitError, match=message):
        call("eval", run.path, *arguments)


def test_facts_to_predict_must_exist(tmp_path: Path, run: RunFolder) -> None:
    other = RunFolder.create(tmp_path / "other", Graph.of(RING), {})
    model = make_model("complex", 8, 2, 1)
    save_model(other, model)
    with pytest.raises(DataError, match="has no test facts to predict"):
        call("eval", other.path)
    with pytest.raises(DataError, match="its queries were made of other facts than graph has"):
        call("eval", other.path, "--queries", queries(tmp_path))
    with pytest.raises(SettingsError, match="is about 1p queries"):
        call("eval", run.path, "--queries", queries(tmp_path), "--shapes", "2p", "--per-relation")


def test_import_then_evaluate(tmp_path: Path, run: RunFolder) -> None:
    folder = tmp_path / "graph"
    folder.mkdir()
    for name, facts in (("train", RING[:7] + SKIP[:7]), ("valid", SKIP[7:]), ("test", RING[7:])):
        (folder / f"{name}.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts))
    weights = run.tensors("model.safetensors")
    tables = {
        "embeddings.0.weight": weights["entities.weight"],
        "embeddings.1.weight": weights["relations.weight"],
    }
    torch.save(tables, tmp_path / "kbc.pt")
    text = call("import", tmp_path / "kbc.pt", "--graph", folder, "--out", tmp_path / "imported")
    assert "complex of rank 1" in text
    call("eval", tmp_path / "imported")
    assert RunFolder.open(tmp_path / "imported").results()["eval"][0]["mrr"] == {"1p": 1.0}


def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    run: RunFolder, tmp_path: Path
) -> None:
    for place, words in ((tmp_path / "none" / "r.json", "no folder"), (tmp_path, "is a folder")):
        with pytest.raises(DataError, match=words):
            call("eval", run.path, "--json", place)
    assert run.results() == {}


def test_figures_by_missing_links(run: RunFolder, tmp_path: Path) -> None:
    """For e6 -next-> e7 -skip-> e1 only the skip, a validation fact, is missing in training."""
    file = tmp_path / "out.json"
    text = call(
        "eval",
        run.path,
        "--queries",
        queries(tmp_path),
        "--json",
        file,
        "--by-missing",
        "--device",
        "cpu",
    )
    found = json.loads(file.read_text())
    assert {name: list(rows) for name, rows in found["by_missing"].items()} == {
        "1p": ["1"],
        "2p": ["1"],
    }
    assert found["by_missing"]["2p"]["1"] == {
        **{metric: found[metric]["2p"] for metric in ("mrr", "hits@1", "hits@3", "hits@10")},
        "queries": 1,
        "answers": 1,
    }
    assert re.search(r"2p\W+1\W+100", text)  # shape, missing links, MRR
    nothing = call(
        "eval",
        run.path,
        "--queries",
        queries(tmp_path),
        "--json",
        file,
        "--by-missing",
        "--observed",
        "none",
    )
    assert "observed none" in nothing
    assert list(json.loads(file.read_text())["by_missing"]["2p"]) == ["2"]
    entries = run.results()["eval"]
    assert ["2" in one["by_missing"]["2p"] for one in entries] == [False, True]
    call("report", run.path, "--out", tmp_path / "page.md")
    assert "## By missing links" in (tmp_path / "page.md").read_text()


def test_results_with_known_answers_last_say_so(run: RunFolder, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    plain = call("eval", run.path, "--json", file, "--device", "cpu")
    assert "new" not in json.loads(file.read_text())["settings"]
    text = call("eval", run.path, "--json", file, "--new", "--device", "cpu")
    assert json.loads(file.read_text())["settings"]["new"] is True
    assert "the observed facts imply are ranked last" in text
    assert "ranked last" not in plain
    assert len(run.results()["eval"]) == 2  # one does not take the place of the other
    with pytest.raises(
        SettingsError, match="--new leaves out what is known, and with --observed none nothing is"
    ):
        call("eval", run.path, "--new", "--observed", "none", "--device", "cpu")


def test_missing_links_that_nobody_can_tell_are_refused(tmp_path: Path) -> None:
    # a run may lack the test facts
    graph = Graph.of(RING[:7] + SKIP[:7], valid=SKIP[7:], name="ring")
    run = RunFolder.create(tmp_path / "run", graph, {"model": "complex", "rank": 1})
    save_model(run, make_model("complex", 8, 4, 1))
    with pytest.raises(
        DataError, match="1 of the 1 hard answers of the 1p queries do not follow from the train"
    ):
        call("eval", run.path, "--queries", queries(tmp_path), "--by-missing", "--device", "cpu")
