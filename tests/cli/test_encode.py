"""`tacit encode` and `tacit compare`, as a user types them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import tacit
from encoder_runs import TINY
from family_runs import families
from rank_processes import in_processes
from tacit.cli import app, main
from tacit.errors import RunError, SettingsError
from tacit.evaluate.protocol import evaluate
from tacit.graph.formats.fact_files import write_facts
from tacit.query.sampling.shapes import SHAPES
from tacit.run.compare import compare
from tacit.run_folder.files import ENCODER, ENCODING
from tacit.run_folder.folder import RunFolder

FLAGS = [
    word for name, value in TINY.items() for word in (f"--{name.replace('_', '-')}", str(value))
]


def printed(*arguments: str, code: int = 0) -> str:
    """Return the output of a command."""
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, done.output + str(done.exception)
    return done.output


@pytest.fixture
def run_with_encoder(run: RunFolder, gqe_run: Path) -> Path:
    """A run with a link predictor, and the encoder of the other run of its graph beside it."""
    shutil.copyfile(gqe_run / ENCODER, run.path / ENCODER)
    run.write_settings("encode", RunFolder.open(gqe_run).settings["encode"])
    return run.path


def refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> str:
    """The one line of a call that ends with an error."""
    monkeypatch.setattr(sys, "argv", ["tacit", *arguments])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 2
    return capsys.readouterr().err.strip()


def test_a_run_is_encoded_asked_and_evaluated(tmp_path: Path) -> None:
    write_facts(families(), tmp_path / "families")
    out = str(tmp_path / "run")
    output = printed(
        "encode", str(tmp_path / "families"), "--out", out, *FLAGS, "--steps", "3", "--model", "q2b"
    )
    assert "3 steps in" in output
    assert "tacit eval" in output
    answers = printed("ask", out, "?x : lives(p1, ?x)", "--explain", "--top", "2")
    assert "Scores of Query2Box order the answers; they are no probabilities." in answers
    assert "no reasons to show" in answers
    table = printed("eval", out, "--search", "encoder", "--limit", "2", "--device", "cpu").replace(
        "\n", " "
    )
    assert "encoder Query2Box, encoding q2b, recipe lean, 3 steps" in table
    assert "search beam" in printed(
        "eval", out, "--search", "beam", "--limit", "2", "--device", "cpu"
    ).replace("\n", " ")


def test_errors_name_flags(
    gqe_run: Path,
    run: RunFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    question = "?x : lives(p1, ?x)"
    for arguments, why in {
        (
            "encode",
            str(gqe_run),
        ): "has an encoder, gqe; replace it with --force, go on with --resume",
        ("encode", str(gqe_run), "--drop"): "holds an encoder alone; delete the folder",
        ("encode", str(tmp_path)): "is no run to add the encoder to; name the run to make by --out",
        (
            "encode",
            str(gqe_run),
            "--out",
            str(tmp_path / "x"),
            "--checkpoint",
            "w.pth",
        ): "--checkpoint is given, and --model q2b is not imported from one",
        (
            "encode",
            str(gqe_run),
            "--out",
            str(tmp_path / "x"),
            "--model",
            "lmpnn",
        ): "no model.safetensors",
        ("ask", str(gqe_run), question, "--k", "8"): "--k is 8, which means nothing to an encoder",
        ("ask", str(gqe_run), "count ?x : lives(p1, ?x)"): "asks for a count, and GQE",
        ("index", str(gqe_run)): "an index is one of a link predictor",
        (
            "ask",
            str(run.path),
            question,
            "--search",
            "encoder",
        ): "--search is 'encoder', and there is none here",
    }.items():
        assert why in refused(monkeypatch, capsys, *arguments)


def test_a_folder_called_world_is_read_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("world").mkdir()
    Path("world/facts.tsv").write_text("a\tb\tlikes\nb\tc\tlikes\nc\ta\tlikes\n", encoding="utf-8")
    printed("encode", "world", "--out", "q", "--columns", "1,3,2", *FLAGS, "--steps", "2")
    graph = RunFolder.open("q").graph()
    assert (sorted(graph.entities), graph.relations.labels[0]) == (["a", "b", "c"], "likes")


def test_how_facts_are_read_is_refused_where_none_are(
    gqe_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = ("--out", str(tmp_path / "q"))
    columns = ("--columns", "1,3,2")
    for run in (str(gqe_run), "world"):
        message = refused(monkeypatch, capsys, "encode", run, *out, *columns)
        assert (
            message == f"error: --columns says how facts are read, and '{run}' is a run, "
            "whose facts were; leave it out"
        )
    for arguments in (("plan", "?x : r(a, ?x)"), ("import", "weights.pt", *out)):
        message = refused(monkeypatch, capsys, *arguments, *columns)
        assert (
            message
            == "error: --columns says how facts are read, and no graph is given; leave it out"
        )
    assert not (tmp_path / "q").exists()


def test_a_comparison_asks_the_same_of_all(
    run_with_encoder: Path, gqe_run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "compare.json"
    shapes = ("--shapes", "1p,2i,pin", "--limit", "4", "--device", "cpu")
    output = printed("compare", str(run_with_encoder), str(gqe_run), *shapes, "--out", str(out))
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert [(row["run"], row["what"], row["model"]) for row in rows] == [
        ("run", "predictor", "ComplEx"),
        ("run", "encoder", "GQE"),
        ("gqe", "encoder", "GQE"),
    ]
    assert rows[1]["mrr"] == rows[2]["mrr"]  # of one encoder, by the same queries
    assert set(rows[0]["mrr"]) == {"1p", "2i", "pin"}
    assert set(rows[1]["mrr"]) == {"1p", "2i"}  # GQE cannot negate
    # rank 8, complex numbers, 40 entities and 6 relations
    assert rows[0]["parameters"] == 2 * 8 * (40 + 6)
    assert "observed train, ties realistic" in output
    drawn = tacit.sample(families(), shapes="1p,2i,pin", split="test", count=4)
    engine = tacit.open(run_with_encoder, device="cpu", observed="train").engine
    by_hand = evaluate(engine.reasoner, {name: one.queries for name, one in drawn.items()}).mrr
    assert rows[0]["mrr"] == pytest.approx(by_hand)
    wrong = (
        CliRunner()
        .invoke(app, ["compare", str(run_with_encoder), *shapes, "--ties", "foo"])
        .exception
    )
    assert str(wrong) == "--ties is 'foo'; it must be one of realistic, optimistic, pessimistic"


def test_an_adapter_has_a_row_of_its_own(run: RunFolder) -> None:
    linked = tacit.open(run.path, device="cpu")
    linked.adapt(count=20, steps=4, validate_every=2, batch=16, shapes="2i", recipe="paper")
    found = compare(run.path, shapes="1p", limit=3, device="cpu")
    assert [row.what for row in found.rows] == ["predictor", "adapted"]
    assert found.rows[1].parameters > found.rows[0].parameters
    assert "shapes 2i" in found.rows[1].trained
    assert "adapted" in str(found)
    for none in (partial(compare, run.path), linked.evaluate):
        with pytest.raises(SettingsError, match="limit is 0; it must be at least 1"):
            none(limit=0)


def test_runs_of_different_graphs_are_refused_by_name(gqe_run: Path, tmp_path: Path) -> None:
    other = tacit.Graph.of([("a", "r", "b"), ("b", "r", "a")], name="other")
    tacit.train_encoder(other, tmp_path / "other", progress=False, **TINY | {"steps": 1})
    named = f"{gqe_run}/."  # as it was typed, also where the folder is called otherwise
    with pytest.raises(RunError) as refused:
        compare([named, tmp_path / "other"], device="cpu")
    assert f"runs '{named}' and '{tmp_path / 'other'}' are of different graphs" in str(
        refused.value
    )


def encoded(facts: Path, out: Path, *more: str) -> None:
    """`tacit encode` as it is typed; it ends this process where it fails."""
    sys.argv = ["tacit", "encode", str(facts), "--out", str(out), *more]
    try:
        main()
    except SystemExit as done:
        if done.code:
            raise


def killed(
    number: int, facts: Path, folder: Path, whole: Path, flags: list[str]
) -> tuple[bool, bool]:
    """Fork an encoding, kill it at its first checkpoint and go on.

    Returns whether it had begun then, and not ended.
    """
    encoded(facts, whole, *flags)  # first, so that a child need not load what this takes
    child = os.fork()
    if not child:
        encoded(facts, folder, *flags)
        os._exit(0)
    for _ in range(5000):
        if (folder / ENCODING).exists():
            break
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    left = RunFolder(folder)
    begun = left.has(ENCODING)
    ended = left.has(ENCODER)
    encoded(facts, folder, "--resume")
    return begun, not ended


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_was_killed_goes_on_by_its_own_settings(tmp_path: Path) -> None:
    flags = [*FLAGS, "--steps", "24", "--validate-every", "0.5", "--checkpoint-seconds", "0"]
    facts, folder, whole = (tmp_path / name for name in ("facts", "killed", "whole"))
    write_facts(families(), facts)
    assert in_processes(1, tmp_path, killed, facts, folder, whole, flags) == [(True, True)]
    ids = torch.arange(4).view(2, 2)
    one, other = (
        tacit.open(path, device="cpu").engine.search.ranking(SHAPES["2i"].plan, ids, ids)
        for path in (folder, whole)
    )
    assert torch.equal(one, other)
    assert one[one.isfinite()].std() > 1e-2


def test_a_comparison_reads_as_one_table(run_with_encoder: Path) -> None:
    found = compare([run_with_encoder], shapes="1p,pin", limit=2, device="cpu")
    lines = [line.replace("│", " ").split() for line in str(found).splitlines()]
    printed = {
        name: [
            f"{100 * row.results.mrr[name]:.1f}" for row in found.rows if name in row.results.mrr
        ]
        for name in ("1p", "pin")
    }
    assert ["1p", *printed["1p"]] in lines
    assert ["pin", *printed["pin"]] in lines  # and a blank for the encoder
    assert len(printed["pin"]) == 1
    assert ["parameters", *(f"{row.parameters:,}" for row in found.rows)] in lines


def test_a_comparison_counts_the_queries_that_were_ranked(run_with_encoder: Path) -> None:
    drawn = tacit.sample(families(), shapes="1p", split="test", count=3)["1p"].queries
    hard = drawn.hard.where(drawn.hard.rows > 0)  # which leaves nothing to rank of the first
    found = compare([run_with_encoder], {"1p": replace(drawn, hard=hard)}, device="cpu")
    assert found.shared["queries"] == {"1p": 2}
    assert {row.to_json()["queries"]["1p"] for row in found.rows} == {2}


@pytest.mark.parametrize("kind", ["of other facts", "damaged"])
def test_a_run_whose_encoder_does_not_fit_is_asked_without_it_and_repaired(
    run_with_encoder: Path,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    question = "?t : lives(p0, ?t)"
    before = (run_with_encoder / ENCODER).read_bytes()
    tacit.open(run_with_encoder, device="cpu").add([("p0", "lives", "t5")])
    (run_with_encoder / ENCODER).write_bytes(before if kind == "of other facts" else b"nothing")
    why = (
        "trained on other facts" if kind == "of other facts" else "truncated or no safetensors file"
    )
    opened = tacit.open(run_with_encoder, device="cpu")
    assert {answer.entity for answer in opened.ask(question) if answer.known} == {"t0", "t5"}
    assert ["its encoder cannot be asked" in note and why in note for note in opened.notes] == [
        True
    ]
    assert "its encoder cannot be asked" in repr(opened)
    for ask in (
        lambda: tacit.open(run_with_encoder, search="encoder"),
        lambda: opened.engine.with_settings(search="encoder"),
    ):
        with pytest.raises(RunError, match=why):
            ask()
    assert why in refused(
        monkeypatch, capsys, "ask", str(run_with_encoder), question, "--search", "encoder"
    )
    assert "t5" in printed("ask", str(run_with_encoder), question)
    assert (
        printed("encode", str(run_with_encoder), "--drop")
        == f"{run_with_encoder}: the encoder is deleted\n"
    )
    assert tacit.open(run_with_encoder, device="cpu").notes == ()
    assert "encode" not in RunFolder.open(run_with_encoder).settings
