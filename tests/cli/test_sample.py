"""`tacit sample`, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit.cli import app, main
from tacit.graph.datasets import load
from tacit.query.sampling.queries import read_queries, with_answers
from tacit.query.sampling.shapes import NEGATIVE


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, ["sample", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str | Path
) -> str:
    monkeypatch.setattr("sys.argv", ["tacit", "sample", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_the_folder_stands_by_itself(tmp_path: Path) -> None:
    shown = run(
        "world",
        "--out",
        tmp_path / "q",
        "--split",
        "test",
        "--shapes",
        "2i,pni.up-DM",
        "--count",
        "20",
    )
    assert [line.split()[:2] for line in shown.splitlines()[1:4]] == [
        ["2i", "20"],
        ["pni", "20"],
        ["up-DM", "20"],
    ]
    assert "wrote 60 test queries of 3 shapes" in shown
    world = load("world")
    again = load(tmp_path / "q")
    assert (again.entities, again.relations) == (world.entities, world.relations)
    sets = read_queries(tmp_path / "q", "test")
    assert {name: len(one) for name, one in sets.items()} == {"2i": 20, "pni": 20, "up-DM": 20}
    for one in sets.values():
        exact = with_answers(one, again, "test")
        assert exact.easy.to_sets() == one.easy.to_sets()
        assert exact.hard.to_sets() == one.hard.to_sets()
    report = json.loads((tmp_path / "q" / "test-sample.json").read_text())
    assert (report["graph"], report["seed"], report["shapes"]["2i"]["queries"]) == ("world", 0, 20)


def test_splits_share_a_folder_and_seeds_repeat(tmp_path: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        for split in ("train", "valid"):
            run(
                "world",
                "--out",
                tmp_path / name,
                "--split",
                split,
                "--shapes",
                "2p",
                "--count",
                "15",
                "--seed",
                seed,
            )
    tuples = {name: read_queries(tmp_path / name, "train")["2p"].tuples() for name in "abc"}
    assert tuples["a"] == tuples["b"] != tuples["c"]
    assert len(read_queries(tmp_path / "a", "valid")["2p"]) == 15


def test_a_single_file_gives_train_queries(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text("a\tlikes\tb\nb\tlikes\tc\nc\tlikes\ta\na\tlikes\tc\n")
    shown = run(
        tmp_path / "g.tsv",
        "--out",
        tmp_path / "q",
        "--shapes",
        "1p",
        "--count",
        "50",
        "--waste",
        "0.9",
    )
    assert "note: fewer than asked for: 1p: 6 of 50 queries in 500 tries" in shown
    assert len(load(tmp_path / "q").train) == 4
    assert len(read_queries(tmp_path / "q", "train")["1p"]) == 6


def test_templates(tmp_path: Path) -> None:
    question = "?t : a(x, ?u) & b(?u, ?v) & c(?v, ?w) & d(?w, ?t)"
    run(
        "world",
        "--out",
        tmp_path,
        "--template",
        question,
        "--template",
        "?t : a(x, ?t) & !b(y, ?t)",
        "--count",
        "5",
    )
    assert set(read_queries(tmp_path, "train")) == {"(e,(r,r,r,r))", "2in"}


def test_all_negations_by_one_word(tmp_path: Path) -> None:
    run("world", "--out", tmp_path, "--shapes", "negative", "--count", "3")
    assert set(read_queries(tmp_path, "train")) == set(NEGATIVE)


def test_what_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "g.tsv").write_text("a\tlikes\tb\n")
    out = tmp_path / "q"
    say = [
        (("world", "--out", out, "--shapes", "2j"), "unknown shape '2j'; did you mean"),
        (
            ("world", "--out", out, "--template", "?t : r(?t, ?t)"),
            "cannot be written as BetaE tuples",
        ),
        ((tmp_path / "g.tsv", "--out", out, "--split", "test"), "the graph has no test facts"),
        (
            (tmp_path / "g.tsv", "--out", out, "--shapes", "3i", "--waste", "0.5"),
            "no query found; 3i: 0 of 1,000",
        ),
    ]
    for arguments, message in say:
        assert message in refused(monkeypatch, capsys, *arguments)
        assert not out.exists()
    few = ("--shapes", "1p", "--count", "2")
    run("world", "--out", out, *few)
    assert "holds train queries" in refused(monkeypatch, capsys, "world", "--out", out, *few)
    run("world", "--out", out, *few, "--force")
    assert "holds another graph" in refused(
        monkeypatch, capsys, tmp_path / "g.tsv", "--out", out, *few, "--force"
    )


def test_missing_links_choose_the_shapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(
        "world",
        "--out",
        tmp_path / "q",
        "--split",
        "test",
        "--missing",
        "3",
        "--count",
        "2",
        "--waste",
        "0.99",
    )
    assert set(read_queries(tmp_path / "q", "test")) <= {"3p", "3i", "pi", "ip"}
    options = ("--out", tmp_path / "r", "--missing", "2", "--shapes", "1p")
    assert "miss at most 1" in refused(monkeypatch, capsys, "world", "--split", "test", *options)
    assert "nothing is known before the train facts" in refused(
        monkeypatch, capsys, "world", *options
    )
