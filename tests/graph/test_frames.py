"""DataFrames of every library as graphs, and graphs as DataFrames."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from datetime import date
from itertools import permutations
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
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


Columns = dict[str, list[Any]]
# of the libraries whose frames are not pandas's
FRAMES: dict[str, Callable[[Columns], Any]] = {
    "polars": pl.DataFrame,
    "polars, lazy": pl.LazyFrame,
    "polars, categories": lambda columns: pl.DataFrame(columns, schema_overrides={}).with_columns(
        pl.col(pl.String).cast(pl.Categorical)
    ),
    "pyarrow": pa.table,
    "pyarrow, in chunks": lambda columns: pa.concat_tables(
        [pa.table(columns).slice(0, 1), pa.table(columns).slice(1)]
    ),
    "pyarrow, dictionaries": lambda columns: pa.table(
        {name: pa.array(values).dictionary_encode() for name, values in columns.items()}
    ),
    "duckdb": lambda columns: duckdb.from_arrow(pa.table(columns)),
    "narwhals": lambda columns: nw.from_native(pl.DataFrame(columns)),
    "pandas on Arrow": lambda columns: pd.DataFrame(columns).convert_dtypes(
        dtype_backend="pyarrow"
    ),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_a_frame_of_any_library_is_read_as_that_of_pandas(make: Callable[[Columns], Any]) -> None:
    draw = random.Random(0)
    labels = [f"é{i}" for i in range(30)] + [" x ", "1", "a\tb"]
    rows = [tuple(draw.choice(labels) for _ in range(4)) for _ in range(200)]
    names = ("tail", "relation", "note", "head")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    there = tacit.load(make(columns))
    here = tacit.load(pd.DataFrame(columns))
    assert facts(there) == facts(here)
    assert there.entities.labels == here.entities.labels
    assert there.notes == here.notes
    numbered = {"head": [3, 1], "relation": ["r", "r"], "tail": [1, 2]}
    assert facts(tacit.load(make(numbered))) == [("3", "r", "1"), ("1", "r", "2")]
    hole = {"head": ["a", None, "c"], "relation": ["r", "r", None], "tail": ["b", "b", "d"]}
    with pytest.raises(DataError, match=r"row 2: the head is empty.*row 3: the relation is empty"):
        tacit.load(make(hole))
    assert facts(tacit.load(make(hole), skip_bad=True)) == [("a", "r", "b")]
    with pytest.raises(DataError, match="DataFrame: has 2 columns"):
        tacit.load(make({"a": ["x"], "b": ["y"]}))


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_whatever_takes_facts_takes_any_frame(make: Callable[[Columns], Any]) -> None:
    columns = dict(zip(COLUMNS, map(list, zip(*FACTS, strict=True)), strict=True))
    split = tacit.split([make(columns), [("Oslo", "capital of", "Norway")]], valid=0, test=0.25)
    assert len(split.facts()) == 4
    with pytest.raises(SettingsError, match="columns 'x,y,z' must name the three"):
        tacit.load(make(columns), columns="x,y,z")


def test_a_frame_that_cannot_be_read_says_why() -> None:
    query = pl.LazyFrame({"a": ["x"]}).select("nope")
    with pytest.raises(DataError, match=r"a polars LazyFrame cannot be read \(.*nope"):
        tacit.load(query)
    twice = pa.table([["a"], ["b"], ["c"]], names=["x", "x", "y"])
    with pytest.raises(DataError, match=r"a pyarrow Table cannot be read \(.*unique"):
        tacit.load(twice)
    for series in (pl.Series(["a"]), pd.Series(["a"]), pa.chunked_array([["a"]])):
        with pytest.raises(DataError, match="is no source of facts"):
            tacit.load(series)


def test_without_narwhals_pandas_is_read_and_others_name_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "narwhals", None)
    assert facts(tacit.load(pd.DataFrame(FACTS))) == FACTS
    with pytest.raises(
        DataError, match=r"to read a polars DataFrame takes the extra .*'tacit-kg\[frames\]'"
    ):
        tacit.load(pl.DataFrame(FACTS, orient="row"))
    with pytest.raises(SettingsError, match=r"pip install 'tacit-kg\[frames\]' polars"):
        tacit.load(FACTS).to_frame("polars")


GRAPH = tacit.Graph.of(FACTS[:2], FACTS[2:])
ROWS = [(*fact, split) for fact, split in zip(FACTS, ("train", "train", "valid"), strict=True)]


def test_a_graph_as_a_frame_of_each_library() -> None:
    frame = GRAPH.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame.columns.tolist() == ["head", "relation", "tail", "split"]
    assert list(frame.itertuples(index=False, name=None)) == ROWS
    polars = GRAPH.to_frame("polars")
    assert isinstance(polars, pl.DataFrame)
    assert polars.rows() == ROWS
    assert set(polars.dtypes) == {pl.String}
    table = GRAPH.to_frame("pyarrow")
    assert isinstance(table, pa.Table)
    assert [tuple(row.values()) for row in table.to_pylist()] == ROWS
    assert duckdb.sql(
        'SELECT split, count(*) n FROM "table" GROUP BY ALL ORDER BY n'
    ).fetchall() == [
        ("valid", 1),
        ("train", 2),
    ]
    assert GRAPH.to_frame("polars", "valid").rows() == ROWS[2:]
    assert GRAPH.to_frame("polars", "test").is_empty()
    assert GRAPH.to_frame("polars", "test").schema == polars.schema
    with pytest.raises(SettingsError, match="library is 'dask'; it must be one of pandas, polars"):
        GRAPH.to_frame("dask")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="split is 'all'"):
        GRAPH.to_frame("pandas", "all")
    assert facts(tacit.load(GRAPH.to_frame("pyarrow"))) == FACTS


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_numbers_and_dates_in_a_frame_are_attributes(make: Callable[[Columns], Any]) -> None:
    places = [f"place {i}" for i in range(12)]
    populations = {
        "head": places,
        "relation": ["population"] * 12,
        "tail": range(1000, 13000, 1000),
    }
    columns = {name: list(values) for name, values in populations.items()}
    graph = tacit.load(make(columns))
    assert (len(graph.facts()), graph.entities.labels) == (0, places)
    assert graph.attributes.column(0)[1].tolist() == list(range(1000, 13000, 1000))
    days = [date(1900 + i, 1, 2) for i in range(12)]
    graph = tacit.load(make(columns | {"relation": ["founded"] * 12, "tail": days}))
    assert [str(each) for each in graph.attributes.quantities(3, 0)] == ["1903-01-02"]
    halves = [i + 0.5 for i in range(12)]
    graph = tacit.load(make(columns | {"relation": ["area[km²]"] * 12, "tail": halves}))
    assert graph.attributes.quantities(1, 0)[0].unit == "km²"
    assert tacit.load(make(columns), attributes=False).num_entities == 24


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_values_go_through_a_frame_and_back(library: Any) -> None:
    world = tacit.load("world")
    frame = world.to_frame(library)
    back = tacit.load(frame)
    assert facts(back) == facts(world)
    assert back.attributes.listed == world.attributes.listed
    here, there = (
        [
            {(graph.entities[id_], text) for id_, text in graph.attributes.texts(number)}
            for number in range(4)
        ]
        for graph in (world, back)
    )
    assert here == there
    test = nw.from_native(world.to_frame(library, "test"), eager_only=True)
    rows = test.filter(nw.col("relation") == "population[number]")
    assert ("Guyana", "779004") in set(zip(rows["head"], rows["tail"], strict=True))
