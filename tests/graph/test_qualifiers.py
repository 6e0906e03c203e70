"""Where facts come from, and when they hold: read, selected, kept and written."""

from __future__ import annotations

import calendar
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statements import Fact, Said, day, said
from tacit.errors import DataError, RunError, SettingsError
from tacit.graph.datasets import load
from tacit.graph.formats.statement_columns import split_columns
from tacit.graph.graph import SPLITS, Graph
from tacit.graph.merging import join_graphs, with_facts, without_facts
from tacit.graph.qualifiers import (
    FactSelection,
    Qualifiers,
    Statement,
    in_words,
    parsed_as_of,
    qualifier_of,
)
from tacit.graph.split import split
from tacit.graph.stored import fingerprint, read_graph, write_graph

HEADER = "head,relation,tail,source,valid_from,valid_until,confidence"
ROWS = [
    "France,borders,Spain,Wikidata,2019,,0.9",
    "France,borders,Spain,CIA,,1990-06,",
    "France,borders,Italy,,,,",
    'Spain,borders,Portugal,"An atlas, 1950",1900-05-03,1950,0.25',
]


def table(tmp_path: Path, *rows: str, name: str = "facts.csv") -> Path:
    path = tmp_path / name
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


EXPECTED: Said = {
    ("France", "borders", "Spain"): {
        Statement("Wikidata", day("2019"), None, 0.9),
        Statement("CIA", None, day("1990-06"), None),
    },
    ("France", "borders", "Italy"): set(),
    ("Spain", "borders", "Portugal"): {
        Statement("An atlas, 1950", day("1900-05-03"), day("1950"), 0.25)
    },
}


def test_a_header_names_the_columns_that_qualify_facts(tmp_path: Path) -> None:
    graph = load(table(tmp_path, HEADER, *ROWS))
    assert said(graph) == EXPECTED
    assert graph.entities.labels == ["France", "Spain", "Italy", "Portugal"]
    assert graph.notes[1] == (
        "train: of facts.csv the columns head, relation, tail, source, valid_from, valid_until, "
        "confidence were read"
    )
    spain, france = graph.entities.id("Spain"), graph.entities.id("France")
    inverse = graph.relations.id("borders^-1")
    assert len(graph.qualifiers.statements(spain, inverse, france)) == 2


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("subject,predicate,object,Provenance,Start date,endTime,Confidence", None),
        ("a,b,c,d,e,f,g", "a,b,c,source=d,valid_from=e,valid_until=f,confidence=g"),
        ("", "1,2,3,source=4,since=5,until=6,confidence=7"),
        (HEADER, "head,relation,tail,source,valid_from,valid_until,confidence"),
        (HEADER, ["head", "relation", "tail", "source", "valid_from", "valid_until", "confidence"]),
    ],
)
def test_other_names_and_positions(tmp_path: Path, header: str, columns: Any) -> None:
    rows = [header, *ROWS] if header else ROWS
    assert said(load(table(tmp_path, *rows), columns=columns)) == EXPECTED


def test_data_frames_rows_and_parquet(tmp_path: Path) -> None:
    frame = pd.read_csv(table(tmp_path, HEADER, *ROWS))
    assert said(load(frame)) == EXPECTED
    frame["valid_from"] = pd.to_datetime(frame["valid_from"], format="mixed")  # days from here on
    days = said(load(frame))
    import polars

    assert said(load(polars.from_pandas(frame))) == days
    assert {str(each) for each in days["Spain", "borders", "Portugal"]} == {
        "from An atlas, 1950, 1900-05-03 to 1950, confidence 0.25"
    }
    parquet = tmp_path / "facts.parquet"
    _parquet(frame, parquet)
    assert said(load(parquet)) == days
    rows = [("a", "r", "b", "X", 2019, None), ("a", "r", "c", None, None, None)]
    graph = load(rows, columns="1,2,3,source=4,valid_from=5,valid_until=6")
    assert said(graph) == {
        ("a", "r", "b"): {Statement("X", day("2019"))},
        ("a", "r", "c"): set(),
    }


def _parquet(frame: pd.DataFrame, path: Path) -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.register("frame", frame)
        connection.execute(f"COPY frame TO '{path}' (FORMAT parquet)")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("x,soon,,", r"line 3: valid_from is 'soon'; expected a date such as 2019"),
        ("x,,2019-13,", r"line 3: valid_until is '2019-13'; expected a date"),
        ("x,2019,2018,", r"line 3: valid_from is 2019, after valid_until, 2018; expected"),
        ("x,,,90", r"line 3: confidence is '90'; expected a number from 0 to 1"),
        ("x,,,nan", r"line 3: confidence is 'nan'"),
        ("x,,", r"line 3: has 6 columns; the table has 7"),
    ],
)
def test_bad_cells_are_bad_lines(tmp_path: Path, cells: str, message: str) -> None:
    path = table(tmp_path, HEADER, ROWS[0], f"a,r,b,{cells}", ROWS[2])
    with pytest.raises(DataError, match=message):
        load(path)
    graph = load(path, skip_bad=True)
    assert len(graph.train) == 2
    assert "a" not in graph.entities
    assert any("1 bad line of facts.csv skipped" in note for note in graph.notes)


def test_bad_cells_of_a_frame_and_of_parquet_name_their_rows(tmp_path: Path) -> None:
    frame = pd.DataFrame([("a", "r", "b", "soon")], columns=["head", "relation", "tail", "since"])
    with pytest.raises(DataError, match=r"row 1: valid_from is 'soon'"):
        load(frame)
    _parquet(frame, path := tmp_path / "f.parquet")
    with pytest.raises(DataError, match=r"row 1: valid_from is 'soon'"):
        load(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("1,2,3,weight=4", "has 'weight=4' after the first three; further columns are source, "),
        ("1,2,3,source=4,source=5", "has 'source=5' twice"),
        ("1,2,3,source=origin", "names 'origin', which is no column; there are a, r, b, x"),
        ("1,2,3,source=9", "names '9', which is no column"),
    ],
)
def test_wrong_columns(tmp_path: Path, columns: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load(table(tmp_path, "a,r,b,x", "c,r,d,y"), columns=columns)


def test_other_wide_tables_are_read_as_without_qualifiers(tmp_path: Path) -> None:
    # `source` is the head, and a weight is no confidence
    graph = load(table(tmp_path, "source,relation,target,weight", "a,r,b,7"))
    assert said(graph) == {("a", "r", "b"): set()}
    graph = load(table(tmp_path, HEADER, *ROWS), columns="head,relation,tail")
    assert not len(graph.qualifiers)
    three = load(table(tmp_path, "a,source,b", "b,since,c", "c,since,d"))
    assert len(three.train) == 3
    with pytest.raises(DataError, match="'source' and 'provenance' are both source of a fact"):
        load(table(tmp_path, "head,relation,tail,source,provenance", "a,r,b,x,y"))
    assert split_columns("a,b") == ("a,b", {})
    assert qualifier_of("x" * 1_000) is None


DAYS = st.dates(date(1995, 1, 1), date(2004, 12, 31))
TEXTS = st.builds(lambda day, size: day.isoformat()[:size], DAYS, st.sampled_from([4, 7, 10]))
SOURCES = st.sampled_from(["", "a", "b", "w:Q1", "a b, c"])
CONFIDENCES = st.sampled_from(["", "0", "0.5", "1", "0.1"])


def period(text: str) -> tuple[date, date]:
    """The first and the last day of a period, by the calendar of Python."""
    year, month, day = [*map(int, text.split("-")), 0, 0][:3]
    first = date(year, month or 1, day or 1)
    if day:
        return first, first
    last = month or 12
    return first, date(year, last, calendar.monthrange(year, last)[1])


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[str, ...]]:
    """Rows of facts, sources, periods and confidences."""
    rows = []
    for _ in range(draw(st.integers(1, 8))):
        fact = tuple(draw(st.sampled_from(each)) for each in ("xyz", "rs", "xyz"))
        since, until = draw(TEXTS | st.just("")), draw(TEXTS | st.just(""))
        if since and until and period(since)[0] > period(until)[1]:
            since, until = until, since
        rows.append((*fact, draw(SOURCES), since, until, draw(CONFIDENCES)))
    return rows


def graph_of(rows: list[tuple[str, ...]]) -> Graph:
    return load(pd.DataFrame(rows, columns=HEADER.split(",")), attributes=())


@given(tables(), TEXTS | st.just(""), st.sets(SOURCES.filter(bool), max_size=2))
def test_a_selection_is_what_one_statement_about_a_fact_says(
    rows: list[tuple[str, ...]], as_of: str, sources: set[str]
) -> None:
    graph = graph_of(rows)
    statements: dict[Fact, list[tuple[str, ...]]] = {}
    for head, relation, tail, *cells in rows:
        known = statements.setdefault((head, relation, tail), [])
        if any(cells):
            known.append(tuple(cells))

    def holds(since: str, until: str) -> bool:
        first, last = period(as_of)
        moments = [first, *([period(since)[0]] if since else [])]
        ends = [last, *([period(until)[1]] if until else [])]
        return max(moments) <= min(ends)

    expected = {
        fact
        for fact, listed in statements.items()
        if (not listed and not sources)
        or any(
            (not sources or source in sources) and (not as_of or holds(since, until))
            for source, since, until, _ in listed
        )
    }
    selection = FactSelection(parsed_as_of(as_of) if as_of else None, tuple(sorted(sources)))
    named = {row[3] for row in rows}
    if not sources <= named or (as_of and not any(row[4] or row[5] for row in rows)):
        with pytest.raises(SettingsError):
            graph.selected(selection)
        return
    selected = graph.selected(selection)
    assert set(said(selected)) == expected
    assert graph.selected(selection) is selected
    assert (graph.selected(FactSelection())) is graph


def test_moments_and_open_ends() -> None:
    rows = [("x", "r", "y", "", "2017-05-14T12:00:00Z", ""), ("x", "r", "z", "", "", "2017-05-14")]
    graph = load(pd.DataFrame(rows, columns=HEADER.split(",")[:-1]))

    def tails(as_of: str) -> list[str]:
        facts = graph.selected(FactSelection(parsed_as_of(as_of))).facts()
        return sorted(graph.entities[tail] for tail in facts[:, 2])

    assert tails("2017-05-14") == tails("2017") == ["y", "z"]
    assert tails("2017-05-14T11:59:59") == ["z"]
    assert tails("2017-05-14T12:00:00") == ["y", "z"]
    assert tails("2017-05-15") == tails("9999") == ["y"]
    assert tails("-0043") == tails("+0400") == ["z"]
    assert str(parsed_as_of(" 2015.0 ")) == "2015"
    assert str(parsed_as_of("0843")) == "0843"


def test_a_misspelt_source_and_a_graph_without_dates_are_errors(tmp_path: Path) -> None:
    graph = load(table(tmp_path, "head,relation,tail,source", "a,r,b,Wikidata"))
    with pytest.raises(SettingsError, match="'Wikidta', from which no fact comes; did you mean"):
        graph.selected(FactSelection(sources=("Wikidta",)))
    with pytest.raises(SettingsError, match="as_of is '2015', and no fact says when it holds"):
        graph.selected(FactSelection(parsed_as_of("2015")))
    with pytest.raises(SettingsError, match="none names a source"):
        Graph.of([("a", "r", "b")]).selected(FactSelection(sources=("x",)))
    for text in (
        "",
        "soon",
        "2015-02-30",
        "15",
        "20150230",
        "20150214",
        "1546300800",
        "2015.5",
        "+12345",
    ):
        with pytest.raises(SettingsError, match="expected a date"):
            parsed_as_of(text)


@settings(max_examples=10)
@given(tables())
def test_statements_survive_runs(rows: list[tuple[str, ...]]) -> None:
    graph = graph_of(rows)
    with tempfile.TemporaryDirectory() as folder:
        stored = read_graph(Path(folder), write_graph(graph, Path(folder)))
        assert said(stored) == said(graph)
        assert fingerprint(stored) == fingerprint(graph)


@given(tables(), tables(), st.booleans())
def test_statements_survive_splits_and_merging(
    rows: list[tuple[str, ...]], others: list[tuple[str, ...]], backward: bool
) -> None:
    graph = graph_of(rows)
    assert said(split(graph, 0.2, 0.2)) == said(graph)
    more = graph_of(others)
    both = union(said(graph), said(more))
    assert said(join_graphs([graph, more], "both")) == both
    if backward:  # relations that are inverses here
        turned = [(t, f"{r}^-1", h, *cells) for h, r, t, *cells in others]
        more = graph_of(turned)
    merged = with_facts(graph, more)
    assert said(merged.graph) == both
    assert merged.statements == len(merged.graph.qualifiers) - len(graph.qualifiers)
    assert with_facts(merged.graph, more).statements == 0
    removed = without_facts(merged.graph, more).graph
    assert said(removed) == {
        f: s for f, s in said(graph).items() if f not in said(graph_of(others))
    }
    assert set(removed.qualifiers.sources) <= {row[3] for row in rows}


def union(first: Said, second: Said) -> Said:
    return {fact: first.get(fact, set()) | second.get(fact, set()) for fact in first | second}


@given(tables(), st.sampled_from(["f.tsv", "f.ttl", "f.nt", "f.txt.gz", "folder"]))
def test_written_statements_are_read_again(rows: list[tuple[str, ...]], name: str) -> None:
    graph = graph_of(rows)
    with tempfile.TemporaryDirectory() as folder:
        graph.write(Path(folder) / name)
        again = load(Path(folder) / name, attributes=())
    assert said(again) == said(graph)


def test_values_have_no_statements(tmp_path: Path) -> None:
    rows = [*ROWS, "France,population,68000000,INSEE,2024,,", "Italy,population,59000000,,,,"]
    graph = load(table(tmp_path, HEADER, *rows))
    assert said(graph) == EXPECTED
    assert "1 statement about values of attributes skipped" in graph.notes
    graph.write(tmp_path / "out.tsv")
    again = load(tmp_path / "out.tsv")
    assert said(again) == EXPECTED
    assert len(again.attributes) == 2


def test_other_statements_are_another_graph(tmp_path: Path) -> None:
    one = load(table(tmp_path, HEADER, *ROWS))
    other = load(table(tmp_path, HEADER, *ROWS[:-1], ROWS[-1].replace("1950,0", "1951,0")))
    none = load(table(tmp_path, HEADER, *ROWS), columns="head,relation,tail")
    prints = {fingerprint(each).facts for each in (one, other, none)}
    assert len(prints) == 3
    assert fingerprint(none) == fingerprint(Graph.of(list(EXPECTED)))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    tables_ = write_graph(load(table(tmp_path, HEADER, *ROWS)), tmp_path)
    assert said(read_graph(tmp_path, tables_)) == EXPECTED
    content = (tmp_path / "statements.npy").read_bytes()
    (tmp_path / "statements.npy").write_bytes(content[:-1] + b"\7")
    with pytest.raises(RunError, match=r"statements\.npy was changed"):
        read_graph(tmp_path, tables_)
    (tmp_path / "statements.npy").unlink()
    with pytest.raises(RunError, match=r"has no statements\.npy"):
        read_graph(tmp_path, tables_)


def test_statements_in_words() -> None:
    listed = [
        Statement("Wikidata", day("2019"), None, 0.9),
        Statement(None, None, day("1990-06")),
        Statement(None, day("2019"), day("2019")),
        Statement("CIA", day("2017"), day("2019")),
    ]
    assert [*map(str, listed)] == [
        "from Wikidata, since 2019, confidence 0.9",
        "until 1990-06",
        "2019",
        "from CIA, 2017 to 2019",
    ]
    assert in_words(listed).endswith("; 2019; and 1 more")
    assert listed[0].to_dict() == {
        "source": "Wikidata",
        "valid_from": "2019",
        "valid_until": None,
        "confidence": 0.9,
        "text": "from Wikidata, since 2019, confidence 0.9",
    }


def test_graphs_without_statements_store_nothing(tmp_path: Path) -> None:
    graph = Graph.of([("a", "r", "b")])
    write_graph(graph, tmp_path)
    assert not (tmp_path / "statements.npy").exists()
    assert graph.qualifiers.statements(0, 0, 1) == ()
    assert not len(Qualifiers().about(np.zeros((3, 3), dtype=np.int32)))
    assert all(len(graph.split(name)) == (name == "train") for name in SPLITS)
