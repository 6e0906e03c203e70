"""Graphs and their index, against brute force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tacit.errors import DataError, SettingsError
from tacit.graph.datasets import load
from tacit.graph.graph import SPLITS, Graph

GRAPH = Graph.of(
    [("a", "r", "b"), ("b", "s", "c")], [("a", "s", "c")], [("c", "r", "a")], name="abc"
)


def test_inverse_ids_are_interleaved() -> None:
    assert GRAPH.relations.labels == ["r", "r^-1", "s", "s^-1"]
    assert GRAPH.triples("train").tolist() == [[0, 0, 1], [1, 1, 0], [1, 2, 2], [2, 3, 1]]
    assert GRAPH.index("train").tails(2, 3).tolist() == [1]
    assert GRAPH.index().tails(2, 3).tolist() == [0, 1]


def test_splits_by_name() -> None:
    assert [len(GRAPH.split(split)) for split in SPLITS] == [2, 1, 1]
    assert GRAPH.facts("valid", "test").tolist() == [[0, 2, 2], [2, 0, 0]]
    for method in (GRAPH.split, GRAPH.facts, GRAPH.triples, GRAPH.index, GRAPH.evaluable):
        with pytest.raises(
            SettingsError, match="split is 'dev'; it must be one of train, valid, test"
        ):
            method("dev")
    with pytest.raises(SettingsError, match="split is 'dev'"):
        GRAPH.index("train", "dev")


ROWS = [
    ("a", "r", "b"),
    ("c ", "r^-1", "a"),
    ("a", " r ", "b"),
    ("x", "s^-1", "y"),
    ("y", "s", "x"),
]


def test_facts_in_python_are_read_as_those_of_files(tmp_path: Path) -> None:
    valid = [("b", "r^-1", "a"), ("c", "s", "b"), ("z", "r", "b")]
    for part, rows in (("train", ROWS), ("valid", valid), ("test", valid)):
        (tmp_path / f"{part}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    graph = Graph.of(ROWS, valid, map(list, valid))
    read = load(tmp_path)
    assert (graph.entities, graph.relations, graph.notes) == (
        read.entities,
        read.relations,
        read.notes,
    )
    assert [graph.split(part).tolist() for part in SPLITS] == [
        read.split(part).tolist() for part in SPLITS
    ]
    assert graph.train.tolist() == [[0, 0, 1], [0, 0, 2], [4, 2, 3]]
    assert graph.relations.labels == ["r", "r^-1", "s", "s^-1"]
    assert graph.notes[0] == "train: 2 duplicate facts dropped"


@pytest.mark.parametrize(
    "row",
    [
        ("a", "r"),
        ("a", "r", "b", "c"),
        "arb",
        ("a", "", "b"),
        ("a", " ", "b"),
        ("a", "r", 3),
        ("a", None, "b"),
        7,
        {"a": 1},
    ],
)
def test_rows_that_are_no_facts_are_refused_and_numbered(row: Any) -> None:
    with pytest.raises(
        DataError, match=r"valid fact 2 is .*; expected head, relation and tail, none of them empty"
    ):
        Graph.of([("a", "r", "b")], [("a", "r", "b"), row])


def test_the_index_is_built_once() -> None:
    assert GRAPH.index("train", "valid") is GRAPH.index("valid", "train")
    assert GRAPH.index() is not GRAPH.index("train")


def test_repr_and_html_say_what_there_is() -> None:
    assert repr(GRAPH) == "Graph(abc: 3 entities, 2 relations, 2 train, 1 valid, 1 test facts)"
    html = Graph.of([("<script>", "r & s", "b")], name="<b>")._repr_html_()
    assert "<td>&lt;script&gt;</td><td>r &amp; s</td><td>b</td>" in html
    assert "<script>" not in html
    assert "<b>" not in html
    assert len(load_many()._repr_html_()) < 1500


def load_many() -> Graph:
    return Graph.of([(str(i), "r", str(i + 1)) for i in range(1000)])
