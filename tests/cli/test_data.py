"""`tacit data`, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit.cli import app, main
from tacit.errors import DataError, SettingsError
from tacit.graph.datasets import load
from tacit.run_folder.folder import RunFolder


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["data", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_list_names_the_world() -> None:
    assert run("list").startswith("world  2,")


def test_describe_prints_parts_relations_degrees_and_hubs() -> None:
    shown = run("describe", "world")
    graph = load("world")
    assert (
        f"world: {graph.num_entities:,} entities, 10 relations, {len(graph.facts()):,} facts"
        in shown
    )
    for title in ("Facts by split", "Relations", "Facts per entity", "Largest hubs"):
        assert title in shown
    assert shown.splitlines()[-1] == f"  ... and {graph.num_entities - 10:,} more entities"
    (borders,) = (line for line in shown.splitlines() if line.split()[:1] == ["borders"])
    assert borders.split()[-1] == "symmetric"
    assert all(name in shown for name in graph.relations.labels[::2])


def test_describe_shows_labels_as_they_are_and_what_repeats_what(tmp_path: Path) -> None:
    facts = [f"[red]{i}\t{relation}\tb{i}\n" for i in range(9) for relation in ("[/x]", "y[bold]")]
    (tmp_path / "g.tsv").write_text("".join(facts), encoding="utf-8")
    shown = run("describe", str(tmp_path / "g.tsv")).splitlines()
    assert any(
        line.split()[:1] == ["[/x]"] and line.rstrip().endswith("repeats y[bold]") for line in shown
    )
    assert any(line.split()[:2] == ["[red]0", "2"] for line in shown)


def test_describe_json_can_be_read_back(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text("Málaga\tin\tSpain\n", encoding="utf-8")
    shown = json.loads(run("describe", str(tmp_path / "g.tsv"), "--json"))
    assert shown["name"] == "g"
    assert shown["facts"] == {"train": 1, "valid": 0, "test": 0}
    assert shown["hubs"] == [["Málaga", 1], ["Spain", 1]]


def test_labels_are_printed_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text("[bold]a[/]\t:smile:\t[red\n")
    shown = run("describe", str(tmp_path / "g.tsv"))
    assert "[bold]a[/]" in shown
    assert ":smile:" in shown


def test_control_characters_of_labels_are_written_out(tmp_path: Path) -> None:
    path = tmp_path / "facts.tsv"
    path.write_text("a\x1b[31m\tr\x1b[2J\tb\x9b\n")
    printed = run("describe", str(path))
    assert not {"\x1b", "\x9b"} & set(printed)
    assert all(shown in printed for shown in (r"a\x1b[31m", r"r\x1b[2J", r"b\x9b"))


def test_long_lists_of_relations_are_cut_and_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text("".join(f"a\tr{i}\tb{i}\n" for i in range(40)))
    assert "... and 15 more relations: --json lists them all" in run(
        "describe", str(tmp_path / "g.tsv")
    )


def test_notes_go_to_standard_error(tmp_path: Path) -> None:
    (tmp_path / "g.nt").write_text(
        '<http://a/b> <http://a/c> <http://a/d> .\n<http://a/b> <http://a/n> "d" .\n'
    )
    result = CliRunner().invoke(app, ["data", "describe", str(tmp_path / "g.nt"), "--json"])
    assert result.stderr == "note: train: 1 fact with a literal skipped; --literals keeps them\n"
    assert json.loads(result.stdout)["facts"]["train"] == 1
    with_literals = CliRunner().invoke(
        app, ["data", "describe", str(tmp_path / "g.nt"), "--json", "--literals"]
    )
    assert with_literals.stderr == ""
    assert json.loads(with_literals.stdout)["facts"]["train"] == 2


def test_world_is_written_whole(tmp_path: Path) -> None:
    graph = load("world")
    assert f"wrote {len(graph.facts()):,} facts and 4,834 values" in run(
        "world", "--out", str(tmp_path / "w.tsv")
    )
    assert len(load(tmp_path / "w.tsv").train) == len(graph.facts())
    run("world", "--out", str(tmp_path / "w"))
    assert [len(load(tmp_path / "w").split(p)) for p in ("train", "valid", "test")] == [
        len(graph.split(p)) for p in ("train", "valid", "test")
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tr\tb\na\tr\n", "line 2: has 2 columns"),
        (b"", "holds no facts"),
        (b"a\tr\t\xff\n", "line 1: is not UTF-8"),
    ],
)
def test_a_broken_file_is_one_line_and_exit_code_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    content: bytes,
    message: str,
) -> None:
    (tmp_path / "g.tsv").write_bytes(content)
    monkeypatch.setattr("sys.argv", ["tacit", "data", "describe", str(tmp_path / "g.tsv")])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    assert message in shown.err


def test_split_writes_parts_that_can_be_loaded(tmp_path: Path) -> None:
    folder = str(tmp_path / "parts")
    said = run("split", "world", "--out", folder, "--valid", "0.05", "--test", "0.2")
    parts = load(folder)
    whole = load("world")
    sizes = [len(parts.split(name)) for name in ("train", "valid", "test")]
    values = np.bincount(parts.attributes.rows["split"]).tolist()
    counts = "{:,} train, {:,} valid, {:,} test"
    facts = f"{counts.format(*sizes)} facts and {counts.format(*values)} values"
    assert said == f"wrote {facts} to {folder}\n"
    assert sum(values) == len(whole.attributes) == 4834
    assert [round(size / len(whole.facts()), 2) for size in sizes] == [0.75, 0.05, 0.2]
    assert sum(sizes) == len(whole.facts())


def test_names_and_columns_reach_the_graph(tmp_path: Path) -> None:
    rows = [(f"Q{i}", f"Q{(i * 7 + j) % 30}") for i in range(30) for j in (1, 2)]
    (tmp_path / "g.csv").write_text(
        "".join(f"{head},{tail},P{i % 2}\n" for i, (head, tail) in enumerate(rows))
    )
    (tmp_path / "names.tsv").write_text("Q3\tThree\nP1\todd\n")
    source = (
        str(tmp_path / "g.csv"),
        "--labels",
        str(tmp_path / "names.tsv"),
        "--columns",
        "head,tail,relation",
    )
    run("split", *source, "--out", str(tmp_path / "out"))
    graph = load(tmp_path / "out")
    assert set(graph.relations.labels[0::2]) == {"P0", "P1"}
    assert graph.entities.name(graph.entities.id("Q3")) == "Three"
    assert json.loads(run("describe", *source, "--json"))["num_relations"] == 2


def test_several_files_and_standard_input_are_one_graph(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("Oslo\tNorway\tin\n")
    (tmp_path / "b.csv").write_text("Bergen,Norway,in\n")
    source = [str(tmp_path / "a.tsv"), str(tmp_path / "b.csv"), "-"]
    fed = {
        "input": "<http://a.org/Ulm> <http://a.org/in> <http://a.org/Germany> .\n",
        "catch_exceptions": False,
    }
    shown = CliRunner().invoke(
        app, ["data", "describe", *source, "--format", "nt", "--columns", "1,3,2", "--json"], **fed
    )
    assert json.loads(shown.stdout)["facts"]["train"] == 3
    assert json.loads(shown.stdout)["num_entities"] == 5
    made = CliRunner().invoke(
        app,
        [
            "train",
            *source,
            "--format",
            "nt",
            "--columns",
            "1,3,2",
            "--out",
            str(tmp_path / "run"),
            "--epochs",
            "1",
        ],
        **fed,
    )
    assert made.exit_code == 0
    graph = RunFolder.open(tmp_path / "run").graph()
    assert {"Oslo", "Bergen", "Norway"} < set(graph.entities)
    with pytest.raises(SettingsError, match=r"^--columns '1,3' must name the three"):
        run("describe", source[1], "--columns", "1,3")


def test_split_replaces_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="exists already"):
        run("split", "world", "--out", str(tmp_path))
    with pytest.raises(DataError, match=r"must name a folder; leave the extension '\.tsv' out"):
        run("split", "world", "--out", str(tmp_path / "parts.tsv"))


def test_a_graph_too_small_to_split(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text("Oslo\tin\tNorway\n", encoding="utf-8")
    with pytest.raises(DataError, match="no facts to spare for valid and test"):
        run("split", str(tmp_path / "g.tsv"), "--out", str(tmp_path / "parts"))
    assert not (tmp_path / "parts").exists()


def test_a_run_stands_for_its_graph(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", load("world"), {})
    assert run("describe", str(tmp_path / "run")) == run("describe", "world")


def test_hardness_of_a_graph_and_of_its_queries(tmp_path: Path) -> None:
    drawn = json.loads(run("hardness", "world", "--shapes", "1p,2i,pi", "--count", "30", "--json"))
    assert set(drawn["1p"]) == {"1"}
    assert set(drawn["pi"]) <= {"1", "2", "3"}
    sampled = CliRunner().invoke(
        app,
        ["sample", "world", "--out", str(tmp_path / "q"), "--split", "test", "--shapes", "2i",
         "--missing", "2", "--count", "5", "--max-answers", "5"],
    )  # fmt: skip
    assert sampled.exit_code == 0
    shown = run("hardness", str(tmp_path / "q"))
    (line,) = (line for line in shown.splitlines() if line.split()[:1] == ["2i"])
    assert line.split()[1] == "-"  # no answer is left hard that one link is missing for
    assert line.split()[-1] == "100.0%"
    assert json.loads((tmp_path / "q" / "test-sample.json").read_text())["missing"] == "2"
    some = json.loads(run("hardness", str(tmp_path / "q"), "--observed", "train", "--json"))
    assert sum(some["2i"].values()) >= 5
    with pytest.raises(SettingsError, match="the test facts cannot be observed"):
        run("hardness", "world", "--observed", "all")


NORWAY = (
    "Oslo\tin\tNorway\nBergen\tin\tNorway\nOslo\tpopulation[people]\t717710\n"
    "Bergen\tpopulation[people]\t291940\nOslo\tfounded\t1048-05\n"
)


def test_describe_shows_attributes(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text(NORWAY)
    result = CliRunner().invoke(app, ["data", "describe", str(tmp_path / "g.tsv")])
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "g: 3 entities, 1 relations, 2 facts, 3 values of attributes" in lines
    assert "population 2 0 0 291,940 291,940 717,710 0% in people █ █" in lines
    assert "founded 1 0 0 1048-05 1048-05 1048-05 50% in date █" in lines
    note = (
        "note: 2 relations are attributes: population (people), founded (dates); as entities with"
    )
    assert f"{note} --no-attributes" in result.stderr
    as_json = CliRunner().invoke(app, ["data", "describe", str(tmp_path / "g.tsv"), "--json"])
    assert json.loads(as_json.stdout)["attributes"][0]["values"] == {
        "train": 2,
        "valid": 0,
        "test": 0,
    }


def test_attributes_are_named_or_none(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text(NORWAY)
    called = ["data", "describe", str(tmp_path / "g.tsv"), "--json"]
    plain = json.loads(CliRunner().invoke(app, [*called, "--no-attributes"]).stdout)
    assert (plain["attributes"], plain["num_relations"]) == ([], 3)
    named = json.loads(CliRunner().invoke(app, [*called, "--attributes", "population"]).stdout)
    assert [each["name"] for each in named["attributes"]] == ["population"]
    both = CliRunner().invoke(app, [*called, "--attributes", "population", "--no-attributes"])
    assert str(both.exception) == "give --attributes or --no-attributes, not both"
    (tmp_path / "g.tsv").write_text(NORWAY + "Rome\tpopulation[people]\tmany\n")
    wrong = CliRunner().invoke(app, [*called, "--attributes", "population"])
    assert "g.tsv, line 6: 'many' of 'Rome' is no number" in str(wrong.exception)
    assert "leave it out by --skip-bad, or read all as entities by --no-attributes" in str(
        wrong.exception
    )


def test_split_says_how_many_values_it_wrote(tmp_path: Path) -> None:
    ring = [f"n{i}\tnext\tn{(i + 1) % 40}\nn{i}\tsize\t{i}.5\n" for i in range(40)]
    (tmp_path / "g.tsv").write_text("".join(ring))
    result = CliRunner().invoke(
        app, ["data", "split", str(tmp_path / "g.tsv"), "--out", str(tmp_path / "out")]
    )
    assert "and 32 train, 4 valid, 4 test values to" in result.output
