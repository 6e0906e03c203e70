"""Label facts in three columns."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import random
from functools import partial
from pathlib import Path

import pytest

from seeds import seeds
from tacit.errors import DataError
from tacit.graph.datasets import load
from tacit.graph.formats.fact_files import write_facts
from tacit.graph.graph import Graph

FACTS = [
    ("France", "borders", "Spain"),
    ("Paris", "capital of", "France"),
    ("Málaga", "city in", "Spain"),
]
PACK = {".gz": partial(gzip.compress, mtime=0), ".bz2": bz2.compress, ".xz": lzma.compress}
UNPACK = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}


def facts(graph: Graph, *parts: str) -> list[tuple[str, str, str]]:
    """The facts of a graph by label."""
    return [
        (graph.entities[h], graph.relations[r], graph.entities[t])
        for h, r, t in graph.facts(*parts).tolist()
    ]


def lines(rows: list[tuple[str, str, str]], separator: str = "\t") -> str:
    return "".join(separator.join(row) + "\n" for row in rows)


def test_ids_follow_first_occurrence(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text(lines(FACTS), encoding="utf-8")
    graph = load(tmp_path / "g.tsv")
    assert graph.name == "g"
    assert graph.entities.labels == ["France", "Spain", "Paris", "Málaga"]
    assert graph.relations.labels[0::2] == ["borders", "capital of", "city in"]
    assert graph.relations.labels[1] == "borders^-1"
    assert graph.train.tolist() == [[0, 0, 1], [2, 2, 0], [3, 4, 1]]
    assert not len(graph.valid)
    assert not len(graph.test)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("g.txt", lines(FACTS)),
        ("g.tsv", "\ufeff" + lines(FACTS)),
        ("g.tsv", lines(FACTS).replace("\n", "\r\n")),
        ("g.tsv", "\n" + lines(FACTS) + "\n \n"),
        ("g.tsv", lines(FACTS).rstrip("\n")),
        ("g.tsv", lines(FACTS, " \t ")),
        ("g.tsv", "Head\tRelation\tTail\n" + lines(FACTS)),
        ("g.csv", lines(FACTS, ",")),
        ("g.csv", "\n" + lines(FACTS, ",").replace("\n", "\r\n  \r\n,,\r\n")),
        ("g.csv", "subject,predicate,object\n" + lines(FACTS, ", ")),
        ("g.csv", '"France",borders,"Spain"\n' + lines(FACTS[1:], ",")),
        ("g.TSV", lines(FACTS)),
    ],
)
def test_the_same_facts_however_they_are_laid_out(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_bytes(content.encode())
    assert facts(load(tmp_path / name)) == FACTS
    for packing, pack in PACK.items():
        (tmp_path / (name + packing)).write_bytes(pack(content.encode()))
        assert facts(load(tmp_path / (name + packing))) == FACTS
        assert load(tmp_path / (name + packing)).name == "g"


def test_a_skipped_header_is_noted(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text("head\trelation\ttail\na\tr\tb\n")
    assert load(tmp_path / "g.tsv").notes == (
        "train: the first line of g.tsv was taken for a header and skipped",
    )


def test_csv_fields_may_hold_commas_quotes_and_newlines(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text('"Washington, D.C.",in,"the ""States"""\n"two\nlines",in,x\n')
    assert facts(load(tmp_path / "g.csv")) == [
        ("Washington, D.C.", "in", 'the "States"'),
        ("two\nlines", "in", "x"),
    ]


@pytest.mark.parametrize("seed", seeds(20))
def test_odd_labels_are_those_that_the_csv_module_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    pieces = [
        "a",
        "é",
        "\u00a0",
        "\u2028",
        "\x85",
        "\x0b",
        "\x1c",
        '"',
        "'",
        ",",
        "\\",
        "\n",
        "\r\n",
        "\r",
        "\t",
        "𝕏",
    ]
    labels = ["x" + "".join(rng.choices(pieces, k=3)) for _ in range(6)]
    rows = [tuple(rng.choices(labels, k=3)) for _ in range(12)]
    with (tmp_path / "g.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(
            file, lineterminator=rng.choice(["\n", "\r\n"]), quoting=csv.QUOTE_ALL
        ).writerows(rows)
    with (tmp_path / "g.csv").open(encoding="utf-8", newline="") as file:
        expected = list(dict.fromkeys(map(tuple, csv.reader(file))))
    assert set(expected) == set(rows)
    monkeypatch.setattr("tacit.graph.formats.files.BLOCK", rng.choice([1, 5, 1 << 16]))
    assert facts(load(tmp_path / "g.csv")) == expected


def test_a_line_of_unusual_spaces_is_a_fact(tmp_path: Path) -> None:
    rows = [("\u00a0", "\u3000", "\u2003"), ("a", "\u3000", "b")]
    (tmp_path / "g.tsv").write_text(lines(rows) + " \t \n", encoding="utf-8")
    assert facts(load(tmp_path / "g.tsv")) == rows


def test_quotes_in_a_tsv_are_part_of_the_label(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text('"a"\tr\tb "c"\n')
    assert facts(load(tmp_path / "g.tsv")) == [('"a"', "r", 'b "c"')]


def test_blocks_are_cut_between_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(f"entity {i % 700}", f"relation {i % 13}", f"entitä {i}") for i in range(3000)]
    (tmp_path / "g.tsv").write_text(lines(rows), encoding="utf-8")
    (tmp_path / "g.csv").write_text(lines(rows, ","), encoding="utf-8")
    for size in (7, 100, 4096):
        monkeypatch.setattr("tacit.graph.formats.files.BLOCK", size)
        assert facts(load(tmp_path / "g.tsv")) == rows
        assert facts(load(tmp_path / "g.csv")) == rows


def test_an_inverse_label_is_the_fact_the_other_way_round(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text("a\tr\tb\nc\tr ^-1\td\ne\ts^-1\tf\n")
    graph = load(tmp_path / "g.tsv")
    assert facts(graph) == [("a", "r", "b"), ("d", "r", "c"), ("f", "s", "e")]
    assert graph.relations.labels == ["r", "r^-1", "s", "s^-1"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "g.tsv",
            b"a\tr\tb\na\tr\n",
            "g.tsv, line 2: has 2 columns; expected 3 .* separated by tabs",
        ),
        ("g.tsv", b"a\tr\tb\n\na\tr\tb\tc\n", "g.tsv, line 3: has 4 columns"),
        ("g.tsv", b"a\tr\tb\tc\td\ta\n", "g.tsv, line 1: has 6 columns"),
        ("g.tsv", b"a r b\n", "g.tsv, line 1: has 1 column; expected 3"),
        ("g.tsv", b"a\tr\tb\na\t\tb\n", "g.tsv, line 2: the relation is empty"),
        ("g.tsv", b"a\tr\tb\na\tr\t\n", "g.tsv, line 2: the tail is empty"),
        ("g.tsv", b"a\tr\tb\na\tr\t\xff\n", "g.tsv, line 2: is not UTF-8 .byte 0xff.; save"),
        ("g.tsv", "a\tr\tb\n".encode("utf-16"), "g.tsv, line 1: is not UTF-8"),
        ("g.tsv", b"", "g.tsv: holds no facts"),
        ("g.tsv", b"\n \n", "g.tsv: holds no facts"),
        ("g.tsv", b"head\trelation\ttail\n", "g.tsv: holds no facts"),
        (
            "g.csv",
            b"a,r,b\na,r\n",
            "g.csv, line 2: has 2 columns; expected 3 .* separated by commas",
        ),
        ("g.csv", b'a,r,b\n"a,r,b\n', "g.csv, line 2: is not CSV"),
        ("g.csv", b"", "g.csv: holds no facts"),
        *((f"g.tsv{p}", b"a\tr\tb\n", f"g.tsv{p}: is not a whole {p} file") for p in PACK),
        *(
            (f"g.tsv{p}", PACK[p](b"a\tr\tb\n" * 99)[:-9], f"g.tsv{p}: is not a whole {p} file")
            for p in PACK
        ),
    ],
)
def test_bad_files_name_the_file_and_the_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        load(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_bad_line_far_into_a_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.graph.formats.files.BLOCK", 64)
    (tmp_path / "g.tsv").write_bytes(b"a\tr\tb\n" * 900 + b"a\tr\xff\tb\n" + b"a\tr\tb\n" * 90)
    with pytest.raises(DataError) as caught:
        load(tmp_path / "g.tsv")
    assert caught.value.line == 901
    assert caught.value.path == tmp_path / "g.tsv"


def test_an_endless_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.graph.formats.files.BLOCK", 1 << 10)
    monkeypatch.setattr("tacit.graph.formats.files.LONGEST_LINE", 1 << 14)
    (tmp_path / "g.tsv").write_bytes(b"a" * (1 << 15))
    with pytest.raises(DataError, match="line 1: is longer than"):
        load(tmp_path / "g.tsv")


@pytest.mark.parametrize("name", ["out.tsv", *(f"out.txt{packing}" for packing in PACK)])
def test_written_files_read_back(tmp_path: Path, name: str) -> None:
    graph = Graph.of(FACTS)
    write_facts(graph, tmp_path / "deep" / name)
    written = (tmp_path / "deep" / name).read_bytes()
    assert UNPACK.get(Path(name).suffix, bytes)(written).decode() == lines(FACTS)
    assert facts(load(tmp_path / "deep" / name)) == FACTS
    assert [p.name for p in (tmp_path / "deep").iterdir()] == [name]


def test_written_folders_read_back(tmp_path: Path) -> None:
    graph = Graph.of(FACTS[:1], [("Spain", "borders", "France")], FACTS[:1:-1])
    write_facts(graph, tmp_path / "out")
    back = load(tmp_path / "out")
    for part in ("train", "valid", "test"):
        assert facts(back, part) == facts(graph, part)
    assert sorted(p.name for p in tmp_path.rglob("*")) == [
        "out",
        "test.tsv",
        "train.tsv",
        "valid.tsv",
    ]


@pytest.mark.parametrize("first", [("source", "type", "target"), ("start", "antonym", "end")])
def test_a_first_fact_that_looks_like_a_header_reads_back(
    tmp_path: Path, first: tuple[str, str, str]
) -> None:
    write_facts(Graph.of([first, *FACTS]), tmp_path / "out.tsv")
    assert facts(load(tmp_path / "out.tsv")) == [first, *FACTS]


def test_valid_and_test_may_be_empty(tmp_path: Path) -> None:
    write_facts(Graph.of(FACTS), tmp_path / "out")
    assert facts(load(tmp_path / "out")) == FACTS


def test_a_label_that_would_break_the_file_is_refused_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "out.tsv").write_text("kept")
    with pytest.raises(DataError, match="tab"):
        write_facts(Graph.of([("a\tb", "r", "c")]), tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_text() == "kept"
    assert len(list(tmp_path.iterdir())) == 1


def test_no_other_extension_is_written_and_no_file_replaced_by_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"out\.csv: must end in \.tsv"):
        write_facts(Graph.of(FACTS), tmp_path / "out.csv")
    assert not list(tmp_path.iterdir())
    (tmp_path / "out").write_text("")
    with pytest.raises(DataError, match="is a file where a folder is to be written"):
        write_facts(Graph.of(FACTS), tmp_path / "out")


def test_a_label_that_begins_with_a_byte_order_mark_keeps_it(tmp_path: Path) -> None:
    # as where files that begin with one were joined
    facts = [("\ufeffa", "r", "b"), ("b", "r", "\ufeffa")]
    write_facts(Graph.of(facts), tmp_path / "facts.tsv")
    assert load(tmp_path / "facts.tsv").entities.labels == ["\ufeffa", "b"]
