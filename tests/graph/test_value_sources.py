"""Values in RDF, DataFrames, Parquet files and Neo4j's exports, beside readers of others."""

from __future__ import annotations

import base64
import datetime as dt
from pathlib import Path
from random import Random

import numpy as np
import pytest

import tacit
from tacit.errors import DataError, UnknownName
from tacit.graph.attributes import Attribute
from tacit.graph.formats.arrow_schema import UNITS, arrow_durations
from tacit.graph.graph import Graph

TURTLE = """
@prefix : <http://x.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix dbd: <http://dbpedia.org/datatype/> .
:France :borders :Spain ; :population 68000000 ; :area "643801.0"^^dbd:squareKilometre ;
  :founded "0843-08"^^xsd:gYearMonth ; :motto "Liberté" ; :gini 0.32, "NaN"^^xsd:double ;
  :member true ; :lasted "P1Y"^^xsd:duration ; :code "75"^^xsd:string .
:Spain :population "+48000000"^^xsd:decimal ; :founded "-0043"^^xsd:gYear .
:Only :population 5, 7 .
"""


def values(graph: Graph) -> set[tuple[str, str, str]]:
    names = graph.attributes.names
    return {
        (
            graph.entities[row["entity"]],
            names[row["attribute"]],
            str(graph.attributes.quantity(row)),
        )
        for row in graph.attributes.rows
    }


def test_typed_literals_are_values(tmp_path: Path) -> None:
    (tmp_path / "g.ttl").write_text(TURTLE)
    graph = tacit.load(tmp_path / "g.ttl")
    assert values(graph) == {
        ("France", "population", "68000000"),
        ("Spain", "population", "48000000"),
        ("Only", "population", "5"),
        ("Only", "population", "7"),
        ("France", "area", "643801"),
        ("France", "founded", "0843-08"),
        ("Spain", "founded", "-0043"),
        ("France", "gini", "0.32"),
        ("France", "lasted", "P365DT5H49M12S"),
    }
    units = {each.name: (each.kind, each.unit) for each in graph.attributes.listed}
    assert units["area"] == ("number", "squareKilometre")
    assert units["founded"] == ("date", "")
    assert graph.entities.labels == ["France", "Spain", "Only"]
    assert graph.notes == (
        "train: 4 facts with a literal skipped; `literals=True` keeps them",
        "5 relations are attributes: population, area (squareKilometre), founded (dates), gini, "
        "lasted (durations); `attributes=False` reads none",
    )


@pytest.mark.parametrize("format", ["nt", "xml", "json-ld"])
def test_other_formats_have_the_same_values(tmp_path: Path, format: str) -> None:
    rdflib = pytest.importorskip("rdflib")
    suffix = {"nt": "nt", "xml": "rdf", "json-ld": "jsonld"}[format]
    parsed = rdflib.Graph().parse(data=TURTLE.replace(', "NaN"^^xsd:double', ""), format="turtle")
    (tmp_path / f"h.{suffix}").write_text(parsed.serialize(format=format))
    numbers = {
        (str(s).rpartition("/")[2], float(o)) for s, _, o in parsed.triples((None,
         rdflib.URIRef("http://x.org/population"), None))
    }  # fmt: skip
    graph = tacit.load(tmp_path / f"h.{suffix}")
    assert {
        (s.rpartition(":")[2], float(v)) for s, p, v in values(graph) if "popul" in p
    } == numbers


def test_named_attributes_of_rdf_alone_are_read(tmp_path: Path) -> None:
    (tmp_path / "g.ttl").write_text(TURTLE)
    for name in ("population", ":population", "http://x.org/population"):
        graph = tacit.load(tmp_path / "g.ttl", attributes=[name])
        assert [each.name for each in graph.attributes.listed] == ["population"]
    both = tacit.load(tmp_path / "g.ttl", attributes="population", literals=True)
    assert [each.name for each in both.attributes.listed] == ["population"]
    assert '"0.32"^^xsd:decimal' in both.entities
    assert '"68000000"^^xsd:integer' not in both.entities
    for options in ({"attributes": False}, {"literals": True}):
        assert tacit.load(tmp_path / "g.ttl", **options).attributes.listed == ()
    with pytest.raises(UnknownName, match="unknown relation 'height'"):
        tacit.load(tmp_path / "g.ttl", attributes="height")


def test_most_values_of_an_attribute_tell_its_kind(tmp_path: Path) -> None:
    (tmp_path / "g.ttl").write_text(
        "@prefix : <http://x.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> ."
        ":a :r :b ; :year '1950'^^xsd:gYear . :b :year '1951'^^xsd:gYear . :c :year 1952 ; :r :a ."
    )
    graph = tacit.load(tmp_path / "g.ttl")
    assert values(graph) == {("a", "year", "1950"), ("b", "year", "1951")}
    assert "year: 1 value in number skipped, since most are in date" in graph.notes


def test_a_predicate_may_have_entities_and_values(tmp_path: Path) -> None:
    (tmp_path / "g.ttl").write_text("@prefix : <http://x.org/> . :a :size :big . :b :size 5 .")
    graph = tacit.load(tmp_path / "g.ttl")
    assert values(graph) == {("b", "size", "5")}
    assert graph.relations.labels[0] == "size"
    graph.write(tmp_path / "out")
    again = tacit.load(tmp_path / "out")
    assert (values(again), len(again.train)) == (values(graph), 1)


def test_names_of_predicates_are_those_of_attributes(tmp_path: Path) -> None:
    (tmp_path / "g.ttl").write_text(
        "@prefix : <http://x.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        ":a :P1082 5 . :P1082 rdfs:label 'population'@en ."
    )
    graph = tacit.load(tmp_path / "g.ttl")
    assert graph.attributes.names.id("population") == 0
    assert graph.names == {graph.attributes.listed[0].name: ("population",)}


def test_typed_columns_of_frames_are_values() -> None:
    pd = pytest.importorskip("pandas")
    wide = pd.DataFrame(
        {
            "head": ["a", "b"],
            "size": [1.5, None],
            "born": pd.to_datetime(["2001-02-03", "2001-02-03 12:00"], format="ISO8601"),
            "took": pd.to_timedelta([90, 2.5], "s"),
        }
    )
    frame = wide.melt("head", var_name="relation", value_name="tail").dropna()
    graph = tacit.load(frame)
    assert values(graph) == {
        ("a", "size", "1.5"),
        ("a", "born", "2001-02-03"),
        ("b", "born", "2001-02-03T12:00:00Z"),
        ("a", "took", "PT1M30S"),
        ("b", "took", "PT2.5S"),
    }
    numbers = graph.attributes.column(graph.attributes.names.id("size"))[1].tolist()
    assert numbers == wide["size"].dropna().tolist()


def test_midnight_in_a_zone_is_a_moment_elsewhere() -> None:
    pd = pytest.importorskip("pandas")
    born = ["2001-02-03T00:00+02:00", "2001-02-03T01:00+02:00"]
    frame = pd.DataFrame({"head": ["a", "b"], "relation": "born", "tail": pd.to_datetime(born)})
    assert values(tacit.load(frame)) == {
        ("a", "born", "2001-02-02T22:00:00Z"),
        ("b", "born", "2001-02-02T23:00:00Z"),
    }
    in_utc = frame.assign(tail=pd.to_datetime(["2001-02-03", "2001-02-03"], utc=True))
    assert ("a", "born", "2001-02-03") in values(tacit.load(in_utc))


def test_numbers_and_dates_of_python_are_values() -> None:
    rows = [("a", "size", np.float32(0.5)), ("a", "born", dt.date(2001, 2, 3)), ("a", "age", 30)]
    assert values(tacit.load(rows)) == {
        ("a", "size", "0.5"),
        ("a", "born", "2001-02-03"),
        ("a", "age", "30"),
    }
    for wrong in (float("inf"), True):
        with pytest.raises(DataError, match="row 1: column '3' holds"):
            tacit.load([("a", "size", wrong)])
    with pytest.raises(DataError, match="row 1: the tail is empty"):
        tacit.load([("a", "size", float("nan"))])
    with pytest.raises(DataError, match="holds float; labels are text or whole numbers"):
        tacit.load([("a", "size", 0.5)], attributes=False)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("1.5::DOUBLE", "1.5"),
        ("1.5::FLOAT", "1.5"),
        ("1e300::DOUBLE", "1e+300"),
        ("1.50::DECIMAL(10,2)", "1.5"),
        ("DATE '2001-02-03'", "2001-02-03"),
        ("TIMESTAMP '2001-02-03 04:05:06.25'", "2001-02-03T04:05:06.25Z"),
        ("TIMESTAMPTZ '2001-02-03 04:05:06.25+02'", "2001-02-03T02:05:06.25Z"),
        ("TIMESTAMPTZ '0045-01-01 (BC) 12:00:00+00'", "-0044-01-01T12:00:00Z"),
        ("DATE '0045-03-15 (BC)'", "-0044-03-15"),
        ("DATE '0001-02-01 (BC)'", "0000-02-01"),
        ("DATE '12001-01-01 (BC)'", "-12000-01-01"),
        ("TIMESTAMP '0045-03-15 (BC) 12:00:00'", "-0044-03-15T12:00:00Z"),
        ("INTERVAL '3 days 90 minutes 2.5 seconds'", "P3DT1H30M2.5S"),
        ("INTERVAL '2 years'", "P730DT11H38M24S"),
        ("INTERVAL '0 days'", "P0D"),
        ("7", "7"),
    ],
)
def test_typed_columns_of_parquet_are_values(tmp_path: Path, column: str, expected: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "g.parquet"
    query = f"SELECT 'a' AS head, 'r' AS relation, {column} AS tail"
    both = query + " UNION ALL " + query.replace("'a'", "'b'")
    duckdb.sql(f"COPY ({both}) TO '{path}'")
    assert values(tacit.load(path)) == {("a", "r", expected), ("b", "r", expected)}
    if expected != "7":
        with pytest.raises(DataError, match="labels are text or integers"):
            tacit.load(path, attributes=False)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", ["duration", "timestamp", "zoned"])
def test_durations_and_moments_of_arrow_are_values(tmp_path: Path, unit: str, kind: str) -> None:
    pytest.importorskip("duckdb")
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    size = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    ticks = [0, 1, 90 * size + 1, -5 * size - 1, 2_000_000 * size, None]
    if unit != "ns":  # whose moments end in 1677
        ticks.append(-63_600_000_000 * size)
    types = {
        "duration": pa.duration(unit),
        "timestamp": pa.timestamp(unit),
        "zoned": pa.timestamp(unit, tz="Asia/Tokyo"),
    }
    columns = {
        "id": list(range(len(ticks))),
        "head": [f"h{at}" for at in range(len(ticks))],
        "relation": ["r"] * len(ticks),
        "tail": pa.array(ticks, types[kind]),
    }
    parquet.write_table(pa.table(columns), tmp_path / "g.parquet")
    graph = tacit.load(tmp_path / "g.parquet", skip_bad=True)
    days = 1 if kind == "duration" else 86_400
    expected = {f"h{at}": tick / size / days for at, tick in enumerate(ticks) if tick is not None}
    found = {graph.entities[row["entity"]]: row["value"] for row in graph.attributes.rows}
    assert found == pytest.approx(expected, rel=1e-12, abs=1.1e-6 / days)
    assert graph.attributes.listed == (Attribute("r", "duration" if days == 1 else "date"),)
    columns["head"] = columns["tail"]
    parquet.write_table(pa.table(columns), tmp_path / "g.parquet")
    with pytest.raises(DataError, match="column 'head' holds"):
        tacit.load(tmp_path / "g.parquet")


def test_an_arrow_schema_that_is_broken_has_no_durations() -> None:
    pa = pytest.importorskip("pyarrow")
    schema = pa.schema(
        [("a", pa.struct([("b", pa.duration("s"))])), ("c", pa.duration("us")), ("d", pa.int64())]
    )
    message = schema.serialize().to_pybytes()
    assert arrow_durations(base64.b64encode(message)) == {1: 10**6}
    assert arrow_durations(base64.b64encode(message[4:])) == {1: 10**6}  # before Arrow 0.15
    random = Random(0)
    for _ in range(500):
        broken = bytearray(message)
        for _ in range(random.randint(1, 20)):
            broken[random.randrange(len(broken))] = random.randrange(256)
        assert set(arrow_durations(base64.b64encode(broken)).values()) <= set(UNITS)
    for wrong in (b"", b"%", b"\xff", base64.b64encode(message[:100])):
        assert arrow_durations(wrong) == {}


def test_statements_of_parquet_have_moments_and_dates_before_year_1(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "g.parquet"
    duckdb.sql(
        "COPY (SELECT 'a' AS head, 'r' AS relation, 'b' AS tail, DATE '0045-01-01 (BC)' AS "
        f"valid_from, TIMESTAMPTZ '2001-02-03 04:05:06+02' AS valid_until) TO '{path}'"
    )
    graph = tacit.load(path)
    (statement,) = graph.qualifiers.statements(0, 0, 1)
    found = (str(statement.valid_from), str(statement.valid_until))
    assert found == ("-0044-01-01", "2001-02-03T02:05:06Z")


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        ("1.5", "'inf'::DOUBLE", "1.5"),
        ("1.5", "'nan'::DOUBLE", "1.5"),
        ("1.5", "NULL::DOUBLE", "1.5"),
        ("INTERVAL '1 day'", "NULL", "P1D"),
        ("DATE '2001-02-03'", "'infinity'::DATE", "2001-02-03"),
        ("'2001-02-03 04:05Z'::TIMESTAMPTZ", "'-infinity'::TIMESTAMPTZ", "2001-02-03T04:05:00Z"),
    ],
)
def test_values_of_parquet_that_are_none_are_bad_rows(
    tmp_path: Path, good: str, bad: str, expected: str
) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "g.parquet"
    first = f"SELECT 'a' AS head, 'r' AS relation, {good} AS tail"
    duckdb.sql(f"COPY ({first} UNION ALL SELECT 'b', 'r', {bad}) TO '{path}'")
    with pytest.raises(DataError, match="row 2: the tail is empty"):
        tacit.load(path)
    assert values(tacit.load(path, skip_bad=True)) == {("a", "r", expected)}


NODES = """id:ID,name,age:int,born:date,scores:float[],zip
1,Ada,36,1815-12-10,1.5;2,01234
2,Ben,,1815,,
3,Lone,30,,,10115
"""
TIES = ":START_ID,:TYPE,:END_ID,since:int\n1,KNOWS,2,1830\n"


def test_typed_properties_of_nodes_are_values(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "ties.csv").write_text(TIES)
    graph = tacit.load(tmp_path)
    born = {("1", "born", "1815-12-10"), ("2", "born", "1815")}
    age = {("1", "age", "36"), ("3", "age", "30")}
    assert values(graph) == born | age | {("1", "scores", "1.5"), ("1", "scores", "2")}
    assert graph.entities.name(graph.entities.id("3")) == "Lone"  # a node by its values alone
    assert "train: properties are no facts and were left out: zip, since" in graph.notes
    assert tacit.load(tmp_path, attributes=False).attributes.listed == ()
    named = tacit.load(tmp_path, attributes="zip,age")
    assert values(named) == age | {("1", "zip", "1234"), ("3", "zip", "10115")}
    (tmp_path / "nodes.csv").write_text(NODES.replace("36", "old"))
    with pytest.raises(DataError, match=r"nodes\.csv, line 2: age is 'old', no number"):
        tacit.load(tmp_path)


def test_graphs_of_triples_have_the_attributes_that_are_named() -> None:
    facts = [("Oslo", "founded", "1048"), ("Oslo", "in", "Norway"), ("Oslo", "zip", "01234")]
    assert Graph.of(facts).attributes.listed == ()
    graph = Graph.of(facts, [("Rome", "founded", "-0752")], attributes=["founded[date]"])
    assert graph.attributes.listed == (Attribute("founded", "date"),)
    assert values(graph) == {("Oslo", "founded", "1048"), ("Rome", "founded", "-0752")}
    with pytest.raises(DataError, match="'Norway' of 'Oslo' is no number"):
        Graph.of(facts, attributes=["in"])
