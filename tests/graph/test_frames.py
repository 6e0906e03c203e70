"""DataFrames as graphs."""

from __future__ import annotations

from datetime import date
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.errors import DataError, SettingsError

FACTS = [
    ("France", "borders", "Spain"),
    ("Paris", "capital of", "France"),
    ("Madrid", "capital of", "Spain"),
]
COLUMNS = ("head", "relation", "tail")


def facts(graph: tacit.Graph) -> list[tuple[str, str, str]]:
    return [
        (graph.entities[h], graph.relations[r], graph.entities[t])
        for h, r, t in graph.facts().tolist()
    ]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_columns_by_name_and_by_position(order: tuple[int, ...]) -> None:
    rows = [[fact[i] for i in order] for fact in FACTS]
    named = pd.DataFrame(rows, columns=[COLUMNS[i] for i in order])
    assert facts(tacit.load(named)) == FACTS
    bare = pd.DataFrame(rows)
    assert (
        facts(tacit.load(bare, columns=",".join(str(order.index(i) + 1) for i in range(3))))
        == FACTS
    )
    wide = named.assign(weight=0.5, note=None)
    assert facts(tacit.load(wide)) == FACTS
    strange = pd.DataFrame(rows, columns=["abc"[i] for i in order]).assign(d=1.0)
    assert facts(tacit.load(strange, columns="a,b,c")) == FACTS
    assert facts(tacit.load(strange, columns=["a", "b", "c"])) == FACTS


def test_without_names_columns_are_head_relation_and_tail() -> None:
    graph = tacit.load(pd.DataFrame(FACTS))
    assert facts(graph) == FACTS
    assert (graph.name, graph.notes) == ("graph", ())


def test_types_that_are_labels() -> None:
    frame = pd.DataFrame(
        {
            "head": [1, 2],
            "relation": pd.Categorical(["r", "s"]),
            "tail": pd.array(["x ", "y"], "string"),
        }
    )
    assert facts(tacit.load(frame)) == [("1", "r", "x"), ("2", "s", "y")]
    mixed = pd.DataFrame({"head": ["x", np.int64(2)], "relation": "r", "tail": "y"})
    assert facts(tacit.load(mixed)) == [("x", "r", "y"), ("2", "r", "y")]


def test_a_table_of_entities_and_their_properties_is_melted_first() -> None:
    people = pd.DataFrame(
        {"head": ["Ada", "Bo"], "born_in": ["Oslo", None], "works_for": ["Acme", "Acme"]}
    )
    graph = tacit.load(people.melt("head", var_name="relation", value_name="tail").dropna())
    assert facts(graph) == [
        ("Ada", "born_in", "Oslo"),
        ("Ada", "works_for", "Acme"),
        ("Bo", "works_for", "Acme"),
    ]


def test_whole_numbers_that_pandas_made_floats_of_can_be_had_back() -> None:
    places = pd.DataFrame(
        {"head": ["Oslo", "Rome"], "country": ["Norway", "Italy"], "founded": [1048, None]}
    )
    melted = places.convert_dtypes().melt("head", var_name="relation", value_name="tail").dropna()
    assert facts(tacit.load(melted, attributes=False))[2:] == [("Oslo", "founded", "1048")]


@pytest.mark.parametrize(
    ("tails", "message"),
    [
        (["b", None], "DataFrame: row 2: the tail is empty; expected head, relation and tail"),
        (["b", float("nan")], "row 2: the tail is empty"),
        (["b", pd.NA], "row 2: the tail is empty"),
        (["b", pd.NaT], "row 2: the tail is empty"),
        (["b", " "], "row 2: the tail is empty"),
        (
            [0.5, 1.0],
            "row 1: column 't' holds float; labels are text or whole numbers: frame.convert",
        ),
        (["b", True], "row 2: column 't' holds bool"),
        (["b", date(2024, 1, 1)], "row 2: column 't' holds date"),
        # as lists of a Parquet file become
        (["b", np.array([1, 2])], "row 2: column 't' holds ndarray"),
        (["b", np.float32("nan")], "row 2: the tail is empty"),
        ([], "DataFrame: holds no facts"),
    ],
)
def test_what_is_no_label_is_named_by_its_row(tails: list[Any], message: str) -> None:
    frame = pd.DataFrame(
        {"h": ["a"] * len(tails), "r": ["r"] * len(tails), "t": pd.Series(tails, dtype=object)}
    )
    with pytest.raises(DataError, match=message):
        tacit.load(frame, attributes=False)


def test_columns_that_are_not_told_are_refused() -> None:
    with pytest.raises(
        DataError,
        match=r"DataFrame: has 4 columns; expected 3 .*; give `columns='1,2,3'`, "
        "the positions of these",
    ):
        tacit.load(pd.DataFrame([list("abcd")]))
    with pytest.raises(DataError, match="DataFrame: has 2 columns"):
        tacit.load(pd.DataFrame([list("ab")]))
    with pytest.raises(SettingsError, match="must name three of"):
        tacit.load(pd.DataFrame([list("abcd")], columns=list("wxyz")), columns="w,x,v")
    lives = pd.DataFrame([("Ada", "Oslo", "lives_in")], columns=["person", "city", "relation"])
    with pytest.raises(
        DataError, match=r"its columns \(person, city, relation\) are not all named"
    ):
        tacit.load(lives)
    assert facts(tacit.load(lives, columns="1,3,2")) == [("Ada", "lives_in", "Oslo")]
    assert facts(tacit.load(lives[["person", "relation", "city"]])) == [("Ada", "lives_in", "Oslo")]
    friends = pd.DataFrame([(f"p{i}", f"p{i + 1}", ("knows", "likes")[i % 2]) for i in range(200)])
    with pytest.raises(
        DataError, match="DataFrame: column 2, read as the relation, has 200 different values"
    ):
        tacit.load(friends)
    assert len(tacit.load(friends, columns="1,3,2").relations) == 4
