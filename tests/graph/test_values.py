"""Numbers and dates as entities."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit.cli import app
from tacit.graph.graph import Graph
from tacit.graph.statistics import Statistics, ValueRelation, values


@pytest.mark.parametrize(
    "label",
    [
        "7",
        "-7",
        "+3.5",
        "3.",
        ".5",
        "1e9",
        "1,234,567.8",
        "12%",
        "1984",
        '"7"^^xsd:integer',
        '"0.5"',
    ],
)
def test_a_number_is_recognised(label: str) -> None:
    assert [one.kind for one in values(Graph.of([("Anna", "has", label)]))] == ["numbers"]


@pytest.mark.parametrize(
    "label",
    ["2024-05-01", "2024-05", "2024-05-01T10:30:00Z", "2024-05-01 10:30", "1.5.2024", "05/01/2024",
     "2024/5/1", '"1984"^^xsd:gYear', '"2024-05-01"^^<http://www.w3.org/2001/XMLSchema#date>',
     '"-0044"^^xsd:gYear'],
)  # fmt: skip
def test_a_date_is_recognised(label: str) -> None:
    assert [one.kind for one in values(Graph.of([("Anna", "born", label)]))] == ["dates"]


@pytest.mark.parametrize(
    "label",
    [
        "Q7",
        "7 Up",
        "Boeing 747",
        "1.2.3.4",
        "",
        "-",
        ".",
        "e",
        "%",
        "1-2",
        "1984a",
        "a1",
        '"7 people"',
        '"x"@en',
        '"',
    ],
)
def test_a_name_is_no_number(label: str) -> None:
    assert values(Graph.of([("Anna", "has", label or " x")])) == ()


def test_counts_worked_out_by_hand() -> None:
    # two ages, ten persons each
    ages = [(f"person {i}", "age", str(20 + i % 2)) for i in range(20)]
    heights = [(f"person {i}", "height", f"1.{60 + i}") for i in range(4)] + [
        ("person 9", "height", "tall")
    ]
    eras = [("1984", "year of", "Neuromancer")]
    lives = [(f"person {i}", "lives in", f"{i} Main St") for i in range(5)]
    assert values(Graph.of(ages + heights, eras, lives)) == (
        ValueRelation("age", "tail", "numbers", 20, 2, ("20", "21"), True),
        ValueRelation("height", "tail", "numbers", 4, 4, ("1.60", "1.61", "1.62"), False),
        ValueRelation("year of", "head", "numbers", 1, 1, ("1984",), False),
    )
    assert [one.shared for one in values(Graph.of(ages + heights))] == [True, False]


def test_identifiers_are_no_values() -> None:
    assert values(Graph.of([("12", "knows", "7"), ("7", "knows", "9")])) == ()
    assert values(Graph.of([("Anna", "bought", "4711"), ("4711", "made by", "Acme")])) == ()
    # a third is less than half
    mixed = [("Anna", "likes", "7"), ("Anna", "likes", "Bo"), ("Bo", "likes", "Anna")]
    assert values(Graph.of(mixed)) == ()


def test_describe_says_which_and_what_to_do(tmp_path: Path) -> None:
    lines = [f"film {i}\treleased\t{1950 + i}-01-02\nfilm {i}\trated\t{i % 2}\n" for i in range(30)]
    (tmp_path / "g.tsv").write_text("".join(lines))
    shown = (
        CliRunner()
        .invoke(
            app,
            ["data", "describe", str(tmp_path / "g.tsv"), "--no-attributes"],
            catch_exceptions=False,
        )
        .output
    )
    table = shown[shown.index("Numbers and dates as entities") :].splitlines()
    rated, released = (
        next(line for line in table if line.split()[:1] == [word]) for word in ("rated", "released")
    )
    assert " ".join(released.split()) == (
        "released 30 30 dates 1950-01-02, 1951-01-02, 1952-01-02 leave out, or use ranges"
    )
    assert " ".join(rated.split()) == "rated 30 2 numbers 0, 1 may stay: many facts share each"
    assert "Name such relations by --attributes, leave the facts out, or replace" in shown
    output = (
        CliRunner()
        .invoke(app, ["data", "describe", str(tmp_path / "g.tsv"), "--json", "--no-attributes"])
        .output
    )
    assert {one["relation"]: one["shared"] for one in json.loads(output)["values"]} == {
        "released": False,
        "rated": True,
    }
    assert Statistics.of(Graph.of([("a", "r", "b")])).values == ()
