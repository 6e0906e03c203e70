"""Bad lines of tables: one message a file, skipped and counted, in every reader."""

from __future__ import annotations

import csv
import gzip
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tacit
from seeds import seeds
from tacit.cli import app
from tacit.errors import DataError, SettingsError
from tacit.graph.datasets import load
from tacit.graph.formats import duckdb_tables
from tacit.graph.graph import Graph

ROWS = [
    ["a", "r", "b"],
    ["a", "", "c"],
    ["b", "r"],
    ["c", "s", "a"],
    ["", "s", "b"],
    ["b", "s", "c"],
]
GOOD = [("a", "r", "b"), ("c", "s", "a"), ("b", "s", "c")]
NOTE = "(line 2: the relation is empty, line 3: has 2 columns, line 5: the head is empty)"


def facts(graph: Graph) -> list[tuple[str, str, str]]:
    return [
        (graph.entities[h], graph.relations[r], graph.entities[t])
        for h, r, t in graph.facts().tolist()
    ]


def write(path: Path, rows: list[list[str]], separator: str = ",") -> Path:
    path.write_text("".join(separator.join(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "separator"), [("g.tsv", "\t"), ("g.csv", ","), ("g.csv", ";"), ("g.txt", "\t")]
)
def test_all_bad_lines_of_a_table_are_told_together_or_skipped(
    tmp_path: Path, name: str, separator: str
) -> None:
    path = write(tmp_path / name, ROWS, separator)
    with pytest.raises(DataError) as refused:
        load(path)
    expected = (
        f"{path}, line 2: the relation is empty; expected head, relation and tail; 3 bad lines in "
        "all (line 3: has 2 columns, line 5: the head is empty); `skip_bad=True` skips them"
    )
    assert (str(refused.value), refused.value.line) == (expected, 2)
    graph = load(path, skip_bad=True)
    assert facts(graph) == GOOD
    assert graph.notes[0] == f"train: 3 bad lines of {name} skipped {NOTE}"


def test_of_many_bad_lines_the_first_are_told_and_all_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "g.tsv", [["a", "r", "b"], *[["a", "r", ""]] * 12_345], "\t")
    with pytest.raises(
        DataError,
        match=r"12,345 bad lines in all \(line 3: .*, line 6: the tail is empty, \.\.\.\)",
    ):
        load(path)
    assert (
        load(path, skip_bad=True)
        .notes[0]
        .startswith("train: 12,345 bad lines of g.tsv skipped (line 2: ")
    )


def test_a_file_of_bad_lines_alone_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "g.tsv", [["a", "r"], ["b", "s"]], "\t")
    with pytest.raises(
        DataError, match=r"line 1: has 2 columns; .* 2 bad lines in all \(line 2: has 2 columns\)$"
    ):
        load(path, skip_bad=True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.tsv", "Paris  in  France\nRome  in  Italy\n"),
        ("g.csv", "Paris in France\nRome in Italy\n"),
        ("g.csv", "head,relation,tail\na,,b\nb,r,\n"),
        ("g.csv", "x,head,relation,tail\n1,a,,b\n2,b,r,\n"),
        ("g.csv", ":START_ID,:END_ID,:TYPE\na,,r\n,b,r\n"),
    ],
)
def test_skipping_is_not_advised_where_it_leaves_nothing(
    tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    for options in ({}, {"skip_bad": True}):
        with pytest.raises(DataError, match="2 bad lines in all") as refused:
            load(path, **options)
        assert "skip" not in str(refused.value).replace(str(tmp_path), "")


def test_skipping_is_not_advised_where_it_leaves_no_row() -> None:
    for rows in ([("a", "r", None)], [("a", "r"), ("b", "r")]):
        for source in (rows, np.array(rows, dtype=object)):
            with pytest.raises(DataError) as refused:
                load(source)
            assert "skip" not in str(refused.value)


def test_bad_lines_of_wide_tables_and_before_a_header(tmp_path: Path) -> None:
    wide = [
        ["x", "head", "relation", "tail"],
        ["1", "a", "r", "b"],
        ["2", "a", "r"],
        ["", "b", "r", "a"],
        ["4", "", "r", "a"],
    ]
    path = write(tmp_path / "g.csv", wide)
    with pytest.raises(
        DataError,
        match=r"line 3: has 3 columns; the table has 4; 2 bad lines in all \(line 5: the he",
    ):
        load(path)
    assert facts(load(path, skip_bad=True)) == [("a", "r", "b"), ("b", "r", "a")]
    for head in (["subject", "object", "type"], ["id", "subject", "object", "type"]):
        rows = [["An export"], head, [*"x" * (len(head) - 3), "a", "b", "r"]]
        titled = write(tmp_path / "t.tsv", rows, "\t")
        assert facts(load(titled, skip_bad=True)) == [("a", "r", "b")]


def test_what_is_wrong_with_a_whole_file_is_not_skipped(tmp_path: Path) -> None:
    for name, content in (("g.tsv", b"a\tr\tb\na\tr\t\xff\n"), ("g.csv", b'a,r,b\n"a,r,b\n')):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match="line 2: is not"):
            load(tmp_path / name, skip_bad=True)
    with pytest.raises(SettingsError, match="skip_bad is given, but graph is no table"):
        load(Graph.of(GOOD), skip_bad=True)


def test_rows_of_frames_lists_and_arrays_are_skipped_alike(tmp_path: Path) -> None:
    whole = [["a", "r", "b"], ["a", None, "c"], ["c", "s", "a"], ["", "s", "b"], ["b", "s", "c"]]
    message = (
        "2: the relation is empty; expected head, relation and tail; 2 bad rows in all (row 4: "
        "the head is empty)"
    )
    sources: dict[str, Any] = {
        "DataFrame": pd.DataFrame(whole),
        "triples": [tuple(row) for row in whole],
        "array": np.array(whole, dtype=object),
    }
    for name, source in sources.items():
        with pytest.raises(DataError) as refused:
            load(source)
        assert str(refused.value) == f"{name}: row {message}; `skip_bad=True` skips them"
        graph = load(source, skip_bad=True)
        assert (facts(graph), graph.notes[0].split(" (")[0]) == (
            GOOD,
            f"train: 2 bad rows of {name} skipped",
        )
    with pytest.raises(
        DataError,
        match="triples: row 2: has 2 columns; expected head, relation and tail; `skip_bad",
    ):
        load([("a", "r", "b"), ("a", "r")])


def test_rows_of_parquet_are_skipped_alike(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "g.parquet"
    rows = [("a", "r", "b"), ("a", None, "c"), ("c", "s", "a"), (" ", "s", "b"), ("b", "s", "c")]
    values = ", ".join(str(row).replace("None", "NULL") for row in rows)
    duckdb.sql(f"SELECT * FROM (VALUES {values}) t(h, r, t)").write_parquet(str(path))
    with pytest.raises(
        DataError,
        match=r"row 2: the relation is empty; .*; 2 bad rows in all \(row 4: the head is empty",
    ):
        load(path)
    graph = load(path, skip_bad=True)
    assert (facts(graph), len(graph.notes)) == (GOOD, 1)


def test_bad_lines_of_an_export_and_of_names(tmp_path: Path) -> None:
    export = [
        [":START_ID", ":END_ID", ":TYPE"],
        ["a", "b", "r"],
        ["a", "", "r"],
        ["a", "b"],
        ["c", "a", "s"],
    ]
    path = write(tmp_path / "g.csv", export)
    with pytest.raises(
        DataError,
        match=r"line 3: the :END_ID is empty; .* 2 bad lines in all \(line 4: has 2 columns",
    ):
        load(path)
    assert facts(load(path, skip_bad=True)) == GOOD[:2]
    names = write(tmp_path / "names.tsv", [["a", "Ada"], ["b", ""], ["c", "Cleo"]], "\t")
    table = write(tmp_path / "g.tsv", [list(fact) for fact in GOOD], "\t")
    with pytest.raises(DataError, match=r"names\.tsv, line 2: the name is empty"):
        load(table, labels=names)
    named = load(table, labels=names, skip_bad=True)
    assert named.names == {"a": ("Ada",), "c": ("Cleo",)}
    assert named.notes[-1] == "names: 1 bad line of names.tsv skipped (line 2: the name is empty)"


@pytest.mark.parametrize("seed", seeds(30))
def test_both_readers_make_the_same_of_odd_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Facts are those of the csv module, and reading by DuckDB changes nothing."""
    pytest.importorskip("duckdb")
    draw = random.Random(seed)
    name, separator = draw.choice(
        [("g.tsv", "\t"), ("g.csv", ","), ("g.csv", ";"), ("g.csv", "\t")]
    )
    labels = [
        "a",
        "b",
        "x;y" if separator == "," else "x,y",
        "São Paulo",
        "NULL",
        "1.0",
        "d'e",
        *(["", " "] if seed % 3 else []),
    ]
    rows = [[draw.choice(labels) for _ in range(3)] for _ in range(60)]
    for _ in range(draw.choice([0, 0, 3])):
        rows[draw.randrange(60)] = draw.choice([["a"], ["a", "b"], ["a", "b", "c", "d"]])
    path = write(tmp_path / name, rows, separator)
    if draw.random() < 0.3:
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        path = packed
    text = separator.join(["x", "y", "z"]) + "\n" + (tmp_path / name).read_text(encoding="utf-8")
    read = [
        [cell.strip(" ") for cell in row]
        for row in csv.reader(text.splitlines()[1:], delimiter=separator)
    ]
    good = [tuple(row) for row in read if len(row) == 3 and all(row)]
    bad = [row for row in read if any(row) and not (len(row) == 3 and all(row))]
    monkeypatch.setattr("tacit.graph.formats.files.BLOCK", 128)
    results = []
    for size in (1 << 60, 0):
        monkeypatch.setattr(duckdb_tables, "LARGE", size)
        if bad:
            with pytest.raises(DataError) as refused:
                load(path, columns="1,2,3")
            results.append((str(refused.value), refused.value.line))
            assert len(bad) == 1 or f"{len(bad)} bad lines in all" in str(refused.value)
        graph = load(path, columns="1,2,3", skip_bad=True)
        assert facts(graph) == list(dict.fromkeys(good))
        results.append((facts(graph), graph.notes))
    assert results[: len(results) // 2] == results[len(results) // 2 :]
    assert any(f"{len(bad)} bad line" in note for note in graph.notes) == bool(bad)


@pytest.mark.parametrize(
    ("text", "expected", "separator"),
    [
        ("a;r;b\nc;s;d\n", ("a", "r", "b"), "semicolons"),
        ('"Smith; Jo";r;b\nc;s;d\n', ("Smith; Jo", "r", "b"), "semicolons"),
        (
            "Washington, D.C.;in;USA\nOslo;in;Norway\n",
            ("Washington, D.C.", "in", "USA"),
            "semicolons",
        ),
        ("Smith, Jo;knows;Doe, Jane\n", ("Smith, Jo", "knows", "Doe, Jane"), "semicolons"),
        ("Smith; Jo,knows,Doe; Jane\n", ("Smith; Jo", "knows", "Doe; Jane"), None),
        ("a, r, b\nx;y, r, z;y\n", ("a", "r", "b"), None),
        ("x,r,a;b;c\ny,r,b;c;d\n", ("x", "r", "a;b;c"), None),
        ("a\tr\tb\nc\ts\td, e\n", ("a", "r", "b"), "tabs"),
        ("subject;object;type\nb;a;r\nc;d\nd;c;s\n", ("b", "r", "a"), "semicolons"),
    ],
)
def test_the_separator_is_what_most_lines_agree_on(
    tmp_path: Path, text: str, expected: tuple[str, str, str], separator: str | None
) -> None:
    (tmp_path / "g.csv").write_text(text)
    graph = load(tmp_path / "g.csv", skip_bad=True)
    assert facts(graph)[0] == expected
    notes = [note for note in graph.notes if "separated by" in note]
    assert notes == (
        [f"train: the columns of g.csv are separated by {separator}"] if separator else []
    )


def test_an_export_and_a_wide_table_may_have_semicolons(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text(":START_ID;:END_ID;:TYPE;since\na;b;r;1,5\n")
    assert facts(load(tmp_path / "g.csv")) == GOOD[:1]
    (tmp_path / "w.csv").write_text("id;source;kind;target\n1;a;r;b\n")
    assert facts(load(tmp_path / "w.csv", columns="source,kind,target")) == GOOD[:1]


@pytest.mark.parametrize(
    "command",
    [
        ["data", "describe", "FILE"],
        ["data", "split", "FILE", "--out", "parts", "--valid", "0", "--test", "0.4"],
        ["train", "FILE", "--out", "run", "--rank", "2", "--epochs", "1", "--device", "cpu"],
        ["ask", "FILE", "?x : s(c, ?x)", "--symbolic"],
        ["plan", "?x : s(c, ?x)", "--graph", "FILE"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_commands_skip_bad_lines_by_a_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "g.tsv", [*ROWS, ["a", "s", "b"], ["c", "r", "b"], ["b", "r", "c"]], "\t")
    words = ["g.tsv" if word == "FILE" else word for word in command]
    refused = CliRunner().invoke(app, words)
    assert "; --skip-bad skips them" in str(refused.exception)
    done = CliRunner().invoke(app, [*words, "--skip-bad"])
    assert "note: train: 3 bad lines of g.tsv skipped" in done.output
    if "split" not in words:
        assert done.exit_code == 0, done.output


def test_messages_about_tables_name_flags_on_the_command_line(tmp_path: Path) -> None:
    """Parameters in Python, flags here: in errors and in notes."""
    swapped = write(
        tmp_path / "g.tsv", [[f"p{i}", f"p{i + 1}", "kr"[i % 2]] for i in range(200)], "\t"
    )
    refused = CliRunner().invoke(app, ["data", "describe", str(swapped)])
    with pytest.raises(
        DataError, match="which is the relation, `columns='1,3,2'` or `columns='1,2,3'`"
    ):
        load(swapped)
    assert "which is the relation, --columns 1,3,2 or --columns 1,2,3" in str(refused.exception)
    headed = write(
        tmp_path / "h.tsv",
        [["who", "what", "value"], *[[f"p{i}", "r", f"p{i + 1}"] for i in range(20)]],
        "\t",
    )
    noted = CliRunner().invoke(app, ["data", "describe", str(headed)])
    assert "if it is a header, give --columns who,what,value\n" in noted.stderr
    assert load(headed).notes[0].endswith("if it is a header, give `columns='who,what,value'`")
    (tmp_path / "g.nt").write_text('<http://a.org/a> <http://a.org/r> "b" .\n')
    unread = CliRunner().invoke(app, ["data", "describe", str(tmp_path / "g.nt"), "--skip-bad"])
    assert str(unread.exception) == f"--skip-bad is given, but {tmp_path / 'g.nt'} is no table"
    literal = CliRunner().invoke(app, ["data", "describe", str(tmp_path / "g.nt")])
    assert str(literal.exception).endswith(
        "has literals as its only objects; --literals keeps them"
    )


def test_what_reads_facts_in_python_takes_the_options_of_reading(tmp_path: Path) -> None:
    """A table in another order with bad lines: what a command can, a call can."""
    rows = [
        (head, tail, relation)
        for head, relation, tail in [*GOOD, ("a", "s", "b"), ("c", "r", "b"), ("b", "r", "c")]
    ]
    wrong: Any = [*rows, ("a", "", "r")]
    options: dict[str, Any] = {"columns": "1,3,2", "skip_bad": True}
    small: dict[str, Any] = {"rank": 2, "epochs": 1, "batch": 4, "device": "cpu", "progress": False}
    run = tacit.train(pd.DataFrame(wrong), tmp_path / "run", **options, **small)
    expected = {(head, relation, tail) for head, tail, relation in rows}
    assert set(facts(run.graph)) == expected
    assert set(facts(tacit.split(wrong, test=0, valid=0, **options))) == expected
    assert set(facts(tacit.load(np.array(rows), columns="1,3,2"))) == expected
    assert set(facts(tacit.load([rows, [("x", "y", "r")]], columns="1,3,2"))) == expected | {
        ("x", "r", "y")
    }
    assert [
        each.entity for each in tacit.Engine.of_facts(wrong, **options).ask("?x : s(c, ?x)")
    ] == ["a"]
    assert run.add([("a", "d", "r"), ("", "d", "r")], **options).added == 1
    with pytest.raises(SettingsError, match=r"columns says how facts are read, and .* is a run"):
        tacit.train_encoder(tmp_path / "run", columns="1,3,2", model="gqe")
    numbers = tacit.load(np.array([[1, 7, 2], [2, 7, 3]]))
    assert facts(numbers) == [("1", "7", "2"), ("2", "7", "3")]
    with pytest.raises(
        DataError, match=r"array: row 1: column '1' holds float; labels are text or whole numbers$"
    ):
        tacit.load(np.array([[0.5, 1.0, 2.0]]))
    with pytest.raises(DataError, match="array: row 1: is 'a'; expected head, relation and tail"):
        tacit.load(np.array(["a", "r", "b"]))
