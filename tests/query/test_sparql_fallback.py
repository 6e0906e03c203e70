"""SPARQL by another rdflib, whose grammar cannot be told to take a tab as one."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from tacit.errors import QueryError
from tacit.graph.graph import Graph
from tacit.query.question import ParsedQuestion
from tacit.query.sparql.sparql import parse_sparql
from tacit.query.text import parse

pytest.importorskip("rdflib")

PREFIX = "PREFIX : <tacit:>\n"
READ = (
    "SELECT ?c WHERE { :France :borders ?c }",
    "SELECT ?c { { :a :p ?c } UNION { :b :q ?c } }",
    "SELECT ?c { :a :p|:q/^:r ?c }",
    "SELECT ?c { :a :p ?c FILTER NOT EXISTS { ?c :q ?x } } ORDER BY ?c LIMIT 3",
    "SELECT ?c { :a :p ?c MINUS { ?c :q ?x . ?x :r :b } }",
    "SELECT (COUNT(DISTINCT ?c) AS ?n) { :a :p ?c }",
    "SELECT ?c { ?c :p }",
)


def test_another_rdflib_without_that_grammar_reads_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = Graph.of([("a\tb", "in", "x"), ("#", "in", "y")])
    texts = [PREFIX + text for text in READ]
    texts += [
        "SELECT\t?x { <tacit:a%09b>\t<tacit:in> ?x\t} # \t'",
        "SELECT ?x { ?x <tacit:in> 'a\tb' }",
    ]

    def read(text: str) -> ParsedQuestion | str:
        try:
            return parse_sparql(text, graph if "%09" in text else None)
        except QueryError as error:
            return str(error)

    before = [read(text) for text in texts]
    assert before[-2].query == parse("?x : in('a\tb', ?x)")  # type: ignore[union-attr]
    parser = sys.modules["rdflib.plugins.sparql.parser"]
    grammar = parser.Query
    monkeypatch.setattr(parser, "Query", SimpleNamespace(parse_string=grammar.parse_string))
    with pytest.raises(AttributeError):
        _ = parser.Query.copy
    assert [read(text) for text in texts] == before
