"""SPARQL results as CSV and TSV read back, whatever their terms hold."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, QueryResultsFormat, RdfFormat, Store, parse_query_results

from tacit.engine.engine import Engine
from tacit.graph.datasets import load
from tacit.server.settings import Limits
from tacit.server.sparql_results import CSV, TSV, serialized
from tacit.server.workers.answering import Answerer
from tacit.server.workers.jobs import Job

XSD = "http://www.w3.org/2001/XMLSchema#"
Row = list[dict[str, str] | None]

LETTERS = st.text(st.sampled_from(",;'\"\\\t\r\n |=+-@_:?<>^aé1\x0b\x0c\x85\u2028😀"), max_size=8)
IRIS = st.text(st.sampled_from(",;'()*!$&=+@a1é/?%"), max_size=8).map(
    lambda end: f"http://x.org/{end.replace('%', '%2C')}"
)
NUMBERS = st.sampled_from(
    ["1", "-1", "+01", "1.5", "1.", "1e5", "-0.0E0", "true", "false", "INF", "one", "1\t2"]
)
TAGS = st.sampled_from(["en", "nb-no"])
TERMS = st.one_of(
    IRIS.map(lambda value: {"type": "uri", "value": value}),
    st.sampled_from("ab").map(lambda name: {"type": "bnode", "value": name}),
    LETTERS.map(lambda value: {"type": "literal", "value": value}),
    st.builds(
        lambda value, tag: {"type": "literal", "value": value, "xml:lang": tag}, LETTERS, TAGS
    ),
    st.builds(
        lambda value, kind: {"type": "literal", "value": value, "datatype": kind}, LETTERS, IRIS
    ),
    st.builds(
        lambda value, kind: {"type": "literal", "value": value, "datatype": f"{XSD}{kind}"},
        NUMBERS,
        st.sampled_from(["integer", "decimal", "double", "boolean", "date"]),
    ),
    st.none(),
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[Row]]:
    width = draw(st.integers(1, 3))
    return ["a", "b", "c"][:width], draw(
        st.lists(st.lists(TERMS, min_size=width, max_size=width), max_size=4)
    )


def results(names: list[str], rows: list[Row]) -> bytes:
    bindings = [{name: term for name, term in zip(names, row, strict=True) if term} for row in rows]
    return json.dumps({"head": {"vars": names}, "results": {"bindings": bindings}}).encode()


@settings(max_examples=200, deadline=None)
@given(tables())
def test_csv_reads_back_with_pythons_own_reader(table: tuple[list[str], list[Row]]) -> None:
    names, rows = table
    read = csv.reader(
        io.StringIO(serialized(results(names, rows), CSV).decode(), newline=""), strict=True
    )
    plain = [
        [f"{'_:' * (term['type'] == 'bnode')}{term['value']}" if term else "" for term in row]
        for row in rows
    ]
    assert list(read) == [names, *plain]


def as_json(term: Any) -> tuple[str, ...] | None:
    """Return the key of a term of another library; a blank node has no lasting name."""
    if isinstance(term, Literal):
        return term.value, term.language or "", term.datatype.value
    return (
        None
        if term is None
        else (
            type(term).__name__,
            getattr(term, "value", "") * (type(term).__name__ != "BlankNode"),
        )
    )


@settings(max_examples=200, deadline=None)
@given(tables())
def test_tsv_reads_back_as_the_same_terms(table: tuple[list[str], list[Row]]) -> None:
    names, rows = table
    data = results(names, rows)
    text = serialized(data, TSV)
    cells = list(
        csv.reader(io.StringIO(text.decode(), newline=""), delimiter="\t", quoting=csv.QUOTE_NONE)
    )
    assert cells[0] == [f"?{name}" for name in names]
    if len(names) > 1:  # a line of one open cell is an empty line
        assert [len(row) for row in cells] == [len(names)] * (1 + len(rows))
    expected: Any = parse_query_results(data, QueryResultsFormat.JSON)
    found: Any = parse_query_results(text, QueryResultsFormat.TSV)
    assert [list(map(as_json, row)) for row in found] == [
        list(map(as_json, row)) for row in expected
    ]


@pytest.mark.parametrize("media_type", [CSV, TSV])
def test_an_endpoint_replies_with_rows_that_other_stores_have(
    tmp_path: Path, media_type: str
) -> None:
    """Terms of all kinds, with what separates columns and lines in IRIs and literals."""
    turtle = r"""@prefix : <http://x.org/> .
    <http://x.org/Washington,_D.C.> :r <http://x.org/a,b>, <http://x.org/it's;(1)>, "a,b", "",
        "hallo, du"@de, "say \"hi\", you\r\nthere\t!", "1,5"^^:odd,
        "7"^^<http://www.w3.org/2001/XMLSchema#integer> ."""
    (tmp_path / "g.ttl").write_text(turtle)
    store = Store()
    store.load(turtle, format=RdfFormat.TURTLE)
    graph = load(tmp_path / "g.ttl", literals=True)
    query = "SELECT ?s ?o { ?s <http://x.org/r> ?o }"
    answerer = Answerer(Engine.of_facts(graph), Limits())
    (reply,) = answerer.replies([Job("sparql", f"{query} LIMIT 100", media_type=media_type)])
    expected: Any = store.query(query)
    if media_type == CSV:
        header, *found = csv.reader(io.StringIO(reply.body.decode(), newline=""), strict=True)
        assert header == ["s", "o"]
        assert sorted(found) == sorted([s.value, o.value] for s, o in expected)
    else:
        rows: Any = parse_query_results(reply.body, QueryResultsFormat.TSV)
        assert sorted(map(str, rows)) == sorted(map(str, expected))
