"""SPARQL: literals and numbers are the labels that they are, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.errors import QueryError
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes
from tacit.query.formula import quoted
from tacit.query.plans.compile import compile_query
from tacit.query.question import bind
from tacit.query.sparql.sparql import parse_sparql
from tacit.query.text import parse

pytest.importorskip("rdflib")

PREFIX = "PREFIX : <tacit:>\n"


@pytest.mark.parametrize(
    ("written", "label"),
    [
        ("'Rio'", '"Rio"'),
        ("'Rio'@EN-gb", '"Rio"@en-gb'),
        ("'Rio'^^<http://www.w3.org/2001/XMLSchema#string>", '"Rio"'),
        ("'05'^^t:int", '"05"^^<http://t.org/int>'),
        ("5", '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'),
        ("TRUE", '"true"^^<http://www.w3.org/2001/XMLSchema#boolean>'),
        (r'"say \"hi\"\n\\"', r'"say \"hi\"\n\\"'),
    ],
)
def test_a_literal_is_the_label_that_rdf_gives_it(written: str, label: str) -> None:
    graph = Graph.of([("a:b", "a:c", label)])
    graph = Graph(
        graph.entities, graph.relations, graph.train, prefixes=Prefixes({"a": "http://a.org/"})
    )
    text = f"PREFIX t: <http://t.org/> SELECT ?x {{ ?x <http://a.org/c> {written} }}"
    assert parse_sparql(text, graph).query == parse(f"?x : a:c(?x, {quoted(label)})")


def test_literals_from_rdf_can_be_asked_about_whatever_they_hold(tmp_path: Path) -> None:
    file = tmp_path / "graph.nt"
    text = "".join(map(chr, (*range(1, 160), 0x2028, 0xFEFF, 0xFFFE, 0xFFFF)))
    written = str(pytest.importorskip("pyoxigraph").Literal(text))
    file.write_text(f"<http://a.org/b> <http://a.org/c> {written} .\n", encoding="utf-8")
    graph = load(file, literals=True)
    assert bind(
        compile_query(parse_sparql(f"SELECT ?x {{ ?x <http://a.org/c> {written} }}", graph).query),
        graph,
    )


def test_a_literal_is_one_term_however_long() -> None:
    text = "(" * 20 + " word" * 400
    assert parse_sparql(f"{PREFIX}SELECT ?x {{ ?x :p '{text}' }}").query == parse(
        f"?x : p(?x, {quoted(text)})"
    )


@pytest.mark.parametrize(
    "number", ["05", "007", "+5", "-05", "1e0", "1.0e0", "5", "-5", "1.50", "5 ."]
)
def test_a_number_is_no_other_that_has_its_value(number: str) -> None:
    labels = ["5", "7", "-5", "1.0", "1.50"]
    graph = Graph.of([("a", "p", label) for label in labels])
    try:
        found = bind(
            compile_query(parse_sparql(f"{PREFIX}SELECT ?x {{ ?x :p {number} }}", graph).query),
            graph,
        )[0]
    except QueryError as error:
        assert "is written otherwise" in str(error)  # noqa: PT017
        assert number not in labels
    else:
        assert [graph.entities[i] for i in found] == [number.removesuffix(" .")]


@pytest.mark.parametrize("beside", ["5", '"5"', "?5", ":5", ":a\\#5", "<urn:5>", "5e0"])
@pytest.mark.parametrize("number", ["05", "+5", "5"])
def test_a_number_is_no_other_that_stands_beside_it(number: str, beside: str) -> None:
    graph = Graph.of([("a", "p", label) for label in ("5", "a#5")])
    text = f"{PREFIX}SELECT ?x {{ ?x :p {number} . {beside} :p ?x ; :p ?y # 5\n }}"
    if number == "5" and beside != "5e0":
        assert "p(?x, 5)" in str(parse_sparql(text, graph).query)
    else:
        with pytest.raises(QueryError, match=r"read as 5.* is written otherwise"):
            parse_sparql(text, graph)


@pytest.mark.parametrize(
    "written",
    [
        r'"\\u006E"',
        r'"\\\\u006E"',
        r'"\u006E"',
        r'"\\\u006E"',
        r'"\\U0000006E"',
        r'"\n"',
        r'"\\\u0075006E"',
        '"a\tb"',
        '"""a\t\\""""',
    ],
)
def test_a_literal_is_the_text_it_quotes(written: str) -> None:
    from pyoxigraph import Literal, NamedNode, Quad, Store

    store = Store()
    query = f"SELECT ?s {{ ?s <urn:p> {written} }}"
    labels = [r"\u006E", r"\\u006E", "n", r"\n", r"\U0000006E", "\n", "a\tb", 'a\t"', "a       b"]
    store.extend(
        Quad(NamedNode(f"urn:{i}"), NamedNode("urn:p"), Literal(label))
        for i, label in enumerate(labels)
    )
    (meant,) = [labels[int(row[0].value.removeprefix("urn:"))] for row in store.query(query)]
    graph = Graph.of([("s", "<urn:p>", label) for label in labels])
    assert parse_sparql(query, graph).query == parse(f"?s : '<urn:p>'(?s, {quoted(meant)})")
