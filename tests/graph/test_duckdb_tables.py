"""Tables through DuckDB: the facts, ids, notes and errors of the own reader; Parquet."""

from __future__ import annotations

import gzip
import lzma
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from source_tree import SRC
from tacit.errors import DataError
from tacit.graph.builder import Builder
from tacit.graph.datasets import load
from tacit.graph.formats import duckdb_tables
from tacit.graph.graph import SPLITS, Graph

ADD = Builder.add_coded


@pytest.fixture(autouse=True)
def duckdb() -> Any:
    return pytest.importorskip("duckdb")


def shown(graph: Graph) -> tuple[Any, ...]:
    return (
        list(graph.entities),
        list(graph.relations),
        [graph.split(s).tolist() for s in SPLITS],
        graph.notes,
    )


def read_in_both_ways(
    path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> tuple[Any, Any, bool]:
    """Results or errors of both readers, and whether DuckDB read the table."""
    found: list[Any] = []
    counted: list[int] = []
    monkeypatch.setattr(
        Builder, "add_coded", lambda *arguments: counted.append(1) or ADD(*arguments)
    )
    monkeypatch.setattr("tacit.graph.formats.files.BLOCK", 256)
    for size in (1 << 60, 0):
        monkeypatch.setattr(duckdb_tables, "LARGE", size)
        try:
            found.append(shown(load(path, **options)))
        except DataError as error:
            found.append((str(error), error.line))
    return found[0], found[1], bool(counted)


def random_lines(separator: str, seed: int) -> list[str]:
    random = Random(seed)
    ends = [f"e{i}" for i in range(30)] + [
        "São Paulo",
        "日本",
        "a'b",
        "x;y",
        "NULL",
        "null",
        "1",
        "1.0",
        "#a",
        "\\N",
        "é",
    ]
    kinds = ["r", "s", "r^-1", "in", "NULL"]
    return [separator.join(random.choice(f) for f in (ends, kinds, ends)) for _ in range(200)]


@pytest.mark.parametrize("separator", ["\t", ","])
@pytest.mark.parametrize("columns", [None, "1,2,3", "2,3,1", "tail,head,relation"])
def test_a_regular_table_is_read_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, separator: str, columns: str | None
) -> None:
    ending = {"\t": "tsv", ",": "csv"}[separator]
    path = tmp_path / f"we*ird [name]?.{ending}"
    (tmp_path / f"weXird n?.{ending}").write_text("not\tthe\tsame\n")  # what a pattern would match
    for number, (header, last) in enumerate(
        [("", "\n"), ("subject,predicate,object\n", "\n"), ("", "")]
    ):
        text = header.replace(",", separator) + "\n".join(random_lines(separator, number)) + last
        path.write_text(text, encoding="utf-8")
        options = {} if columns is None else {"columns": columns}
        own, by_duckdb, went = read_in_both_ways(path, monkeypatch, **options)
        assert own == by_duckdb
        assert went
        packed = path.with_name(path.name + ".gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        own, by_duckdb, went = read_in_both_ways(packed, monkeypatch, **options)
        assert own == by_duckdb
        assert went
        packed = path.with_name(path.name + ".xz")
        packed.write_bytes(lzma.compress(path.read_bytes()))
        again, by_duckdb, went = read_in_both_ways(packed, monkeypatch, **options)
        assert again[:3] == by_duckdb[:3] == own[:3]
        assert not went  # DuckDB does not unpack it


def test_the_ids_of_splits_go_on_from_one_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed, split in enumerate(SPLITS):
        (tmp_path / f"{split}.tsv").write_text(
            "\n".join(random_lines("\t", seed)) + "\n", encoding="utf-8"
        )
    own, by_duckdb, went = read_in_both_ways(tmp_path, monkeypatch)
    assert own == by_duckdb
    assert went


@pytest.mark.parametrize(
    "line",
    ["a\tr", "a\tr\tb\tc", "a\t\tb", " a\tr\tb ", "", "\t\t", " ", "a\tr\tb\r", "a\r\tr\tb",
     "\ufeffa\tr\tb",
     'a\t"r\tb"', "a\tr\t\0"],
)  # fmt: skip
@pytest.mark.parametrize("at", [0, 100, 200])
def test_an_irregular_table_is_left_to_the_own_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, at: int
) -> None:
    """Where DuckDB reads it, both readers agree; an error names the same line."""
    for name, separator in (("g.tsv", "\t"), ("g.csv", ",")):
        lines = random_lines(separator, 7)
        lines.insert(at, line.replace("\t", separator))
        (tmp_path / name).write_bytes(("\n".join(lines) + "\n").encode())
        own, by_duckdb, _ = read_in_both_ways(tmp_path / name, monkeypatch)
        assert own == by_duckdb


def test_what_is_not_utf8_is_named_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "g.tsv").write_bytes("\n".join(random_lines("\t", 0)).encode() + b"\na\tr\t\xff\n")
    own, by_duckdb, _ = read_in_both_ways(tmp_path / "g.tsv", monkeypatch)
    assert own == by_duckdb
    assert "line 201: is not UTF-8" in own[0]


def test_without_duckdb_tables_of_text_are_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "g.tsv").write_text("\n".join(random_lines("\t", 0)), encoding="utf-8")
    monkeypatch.setattr(duckdb_tables, "find_spec", lambda _: None)
    own, again, went = read_in_both_ways(tmp_path / "g.tsv", monkeypatch)
    assert own == again
    assert not went


def parquet(path: Path, rows: list[tuple[Any, ...]], names: str, types: str = "VARCHAR") -> Path:
    import duckdb

    columns = names.split(",")
    kinds = (types.split(",") * len(columns))[: len(columns)]
    with duckdb.connect() as connection:
        described = ", ".join(f'"{name}" {kind}' for name, kind in zip(columns, kinds, strict=True))
        connection.execute(f"CREATE TABLE t ({described})")
        if rows:
            connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", rows)
        connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
    return path


def test_parquet_is_a_table_like_any_other(tmp_path: Path) -> None:
    rows = [tuple(line.split("\t")) for line in random_lines("\t", 3)]
    (tmp_path / "g.tsv").write_text(
        "".join("\t".join(row) + "\n" for row in rows), encoding="utf-8"
    )
    expected = shown(load(tmp_path / "g.tsv"))
    assert shown(load(parquet(tmp_path / "g.parquet", rows, "a,b,c"))) == expected
    turned = [(t, h, r) for h, r, t in rows]
    named = load(parquet(tmp_path / "n.parquet", turned, "object,subject,predicate"))
    assert shown(named)[:3] == expected[:3]
    assert named.notes[0] == "train: the columns of n.parquet were read as tail, head, relation"
    graph = load(parquet(tmp_path / "t.parquet", turned, "x,y,z"), columns="tail,head,relation")
    assert shown(graph) == expected
    wide = [(i, t, 0.5, r, h) for i, (h, r, t) in enumerate(rows)]
    kinds = "BIGINT,VARCHAR,DOUBLE,VARCHAR,VARCHAR"
    path = parquet(tmp_path / "w.parquet", wide, "id,target,weight,type,source", kinds)
    assert shown(load(path))[:3] == expected[:3]
    assert shown(load(path, columns="5,4,2"))[:3] == expected[:3]
    spaced = [(f" {h}", f"{r}  ", t) for h, r, t in rows]
    assert shown(load(parquet(tmp_path / "s.parquet", spaced, "a,b,c"))) == expected


def test_a_folder_of_parquet_files_and_numbers_for_labels(tmp_path: Path) -> None:
    for split in SPLITS:
        parquet(
            tmp_path / f"{split}.parquet",
            [(12, "r", 7), (7, "r", 9)],
            "h,r,t",
            "BIGINT,VARCHAR,UINTEGER",
        )
    graph = load(tmp_path)
    assert list(graph.entities) == ["12", "7", "9"]
    assert graph.train.tolist() == [[0, 0, 1], [1, 0, 2]]


def test_the_folder_of_a_parquet_file_is_no_column(tmp_path: Path) -> None:
    folder = tmp_path / "relation=near" / "year=2020"
    folder.mkdir(parents=True)
    graph = load(
        parquet(folder / "g.parquet", [("a", "r", "b"), ("b", "s", "a")], "head,relation,tail")
    )
    assert list(graph.relations)[0::2] == ["r", "s"]
    assert graph.notes == ()


def test_names_may_be_in_parquet(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text("Q90\tin\tQ142\n")
    names = parquet(
        tmp_path / "names.parquet", [("Q90", "Paris"), ("Q142", "France")], "label,name"
    )
    assert load(tmp_path / "g.tsv", labels=names).entities.names == {
        "Q90": ("Paris",),
        "Q142": ("France",),
    }


@pytest.mark.parametrize(
    ("rows", "names", "types", "message"),
    [
        ([("a", "r")], "h,r", "VARCHAR", "has 2 columns; expected 3 (head, relation, tail)"),
        (
            [("a", "r", "b"), ("a", None, "b")],
            "h,r,t",
            "VARCHAR",
            "row 2: the relation is empty; expected head, ",
        ),
        ([("a", "r", "b"), ("a", "r", "  ")], "h,r,t", "VARCHAR", "row 2: the tail is empty"),
        (
            [("a", "r", 0.5)],
            "h,r,t",
            "VARCHAR,VARCHAR,DOUBLE",
            "column 't' holds DOUBLE; labels are text or integers",
        ),
        ([("a", "r", ["b"])], "h,r,t", "VARCHAR,VARCHAR,VARCHAR[]", "column 't' holds VARCHAR[]"),
        ([], "h,r,t", "VARCHAR", "holds no facts"),
    ],
)
def test_bad_parquet_is_told(
    tmp_path: Path, rows: list[tuple[Any, ...]], names: str, types: str, message: str
) -> None:
    path = parquet(tmp_path / "g.parquet", rows, names, types)
    with pytest.raises(DataError) as raised:
        load(path, attributes=False)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)


def test_what_is_no_parquet_and_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "g.parquet").write_text("a\tr\tb\n")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        load(tmp_path / "g.parquet")
    monkeypatch.setattr(duckdb_tables, "find_spec", lambda _: None)
    with pytest.raises(
        DataError,
        match=r"needs duckdb to be read; install it with: pip install 'tacit-kg\[large\]'",
    ):
        load(tmp_path / "g.parquet")


@pytest.mark.parametrize(
    "made",
    [
        "SELECT 'a' AS head, 'b' AS relation, 'c' AS tail FROM range(3000000)",
        "SELECT repeat('a', 1000000) || i AS head, 'b' AS relation, 'c' AS tail FROM range(40) "
        "t(i)",
    ],
    ids=["rows", "letters"],
)
def test_a_parquet_file_of_far_more_than_its_size_is_refused(
    tmp_path: Path, duckdb: Any, made: str
) -> None:
    path = tmp_path / "x.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({made}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match=r"x\.parquet: has [\d,]+ rows in [\d,]+ bytes"):
        load(path)


ENDLESS = (
    "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range % 7 = b.range % 5"
)
INTERRUPTED = f"""
import concurrent.futures, os, signal, threading, time
import duckdb  # an import that Ctrl-C breaks off cannot be repeated
from tacit.graph.formats import duckdb_tables
from tacit.graph.formats.duckdb_tables import connected

signal.signal(signal.SIGINT, signal.default_int_handler)
for after in (0.0, 0.01, 0.1, 0.3):
    try:
        threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT)).start()
        with connected() as database:
            database.execute("{ENDLESS}").fetchall()
    except KeyboardInterrupt:
        print("ended", flush=True)

class Interrupted(concurrent.futures.ThreadPoolExecutor):
    def submit(self, work, *arguments):  # Ctrl-C comes before it returns
        result = super().submit(work, *arguments)
        if arguments:
            self.works = getattr(self, "works", 0) + 1
            if self.works == 2:
                raise KeyboardInterrupt
        return result

duckdb_tables.ThreadPoolExecutor = Interrupted
try:
    with connected() as database:
        database.execute("{ENDLESS}").fetchall()
except KeyboardInterrupt:
    print("ended", flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals are sent otherwise there")
def test_ctrl_c_ends_what_duckdb_does_whenever_it_comes() -> None:
    # a process of its own, since one that waits in DuckDB cannot be ended by a timeout inside
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(SRC)},
    )
    assert (done.stdout.split(), done.stderr) == (["ended"] * 5, "")


def test_nothing_is_said_at_the_end_of_a_command_that_used_duckdb(
    tmp_path: Path, duckdb: Any
) -> None:
    path = tmp_path / "facts.parquet"
    duckdb.sql("SELECT 'a' AS head, 'r' AS relation, 'b' AS tail").write_parquet(str(path))
    command = [sys.executable, "-m", "tacit", "data", "describe", str(path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(SRC)},
    )
    assert "facts" in done.stdout
    assert done.stderr == ""
