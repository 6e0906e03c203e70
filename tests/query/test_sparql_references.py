"""IRIs in SPARQL: how references are resolved beside a base, and what is advised of prefixes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tacit.errors import QueryError
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.query.plans.compile import compile_query
from tacit.query.question import bind
from tacit.query.sparql.iris import resolve_iri
from tacit.query.sparql.sparql import parse_sparql

pytest.importorskip("rdflib")

LABEL = "http://www.w3.org/2000/01/rdf-schema#label"


def labelled() -> Graph:
    """A graph from RDF with names in its own namespace and in a well-known one."""
    graph = Graph.of([("ex:a", "rdfs:label", "ex:b"), ("ex:a", "ex:in", "ex:b")])
    return replace(graph, prefixes=Prefixes({"ex": "http://ex.org/"}, [LABEL]))


@pytest.mark.parametrize(
    ("text", "namespace"),
    [
        ("SELECT ?x { ex:a <http://ex.org/in> ?x }", "http://ex.org/"),  # as the graph has it
        ("SELECT ?x { ?x rdfs:label ?y }", LABEL.removesuffix("label")),  # as everybody has it
    ],
)
def test_the_declaration_that_is_advised_works(text: str, namespace: str) -> None:
    graph = labelled()
    with pytest.raises(
        QueryError, match=f"; PREFIX (ex|rdfs): <{namespace}> declares it$"
    ) as caught:
        parse_sparql(text, graph)
    advised = str(caught.value).partition("; ")[2].removesuffix(" declares it")
    bind(compile_query(parse_sparql(f"{advised} {text}", graph).query), graph)


@pytest.mark.parametrize(
    ("text", "advised"),
    [
        ("SELECT ?x { exx:a <http://ex.org/in> ?x }", "ex"),  # of the graph
        ("PREFIX long: <http://ex.org/> SELECT ?x { lnog:a <http://ex.org/in> ?x }", "long"),
    ],
)
def test_a_prefix_that_is_misspelt_is_answered_with_the_nearest(text: str, advised: str) -> None:
    graph = labelled()
    with pytest.raises(QueryError, match=f"; did you mean '{advised}:'") as refused:
        parse_sparql(text, graph)
    mended = re.sub(r"(exx|lnog):", f"{advised}:", text)
    declared = re.search(r"(PREFIX .*) declares that$", str(refused.value))
    mended = f"{declared[1]} {mended}" if declared else mended
    compiled = compile_query(parse_sparql(mended, graph).query)
    assert bind(compiled, graph) == ([graph.entities.id("ex:a")], [graph.relations.id("ex:in")])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?x { ?x <http://ex.org/has_capital> ?y }",
        "SELECT ?x { ?x <http://ex.org/capital_of> <http://ex.org/Franc> }",
        'SELECT ?x { ?x <http://ex.org/capital_of> "Franc" }',
    ],
)
def test_a_term_that_is_advised_works(text: str) -> None:
    """An inverse relation is no IRI, and a readable name is none of the empty prefix."""
    graph = Graph.of([("ex:Q1", "ex:capital_of", "ex:Q2"), ("Q3", "ex:capital_of", "ex:Q2")])
    graph = replace(
        graph,
        prefixes=Prefixes({"ex": "http://ex.org/", "": "http://other.org/"}),
        entities=Vocabulary(graph.entities.labels, names={"ex:Q1": ["France"]}),
    )
    (error,) = parse_sparql(text, graph).unknown
    unknown = re.search(r"<http://ex.org/(has_capital|Franc)>|\"Franc\"", text)
    assert unknown is not None
    assert error.suggestions
    for term in error.suggestions:
        bind(compile_query(parse_sparql(text.replace(unknown[0], f"<{term}>"), graph).query), graph)


@pytest.mark.parametrize("prefix", ["", "mine"])
def test_a_prefix_that_nobody_knows_is_not_advised_as_a_name(prefix: str) -> None:
    text = f"SELECT ?x {{ ?x {prefix}:in ?y }}"
    words = f"; PREFIX {prefix}: <...>, with the IRI that it stands for, declares it"
    with pytest.raises(QueryError, match=words):
        parse_sparql(text, labelled())


EXAMPLES = {  # RFC 3986, section 5.4
    "g:h": "g:h", "g": "http://a/b/c/g", "./g": "http://a/b/c/g", "g/": "http://a/b/c/g/",
    "/g": "http://a/g", "//g": "http://g", "?y": "http://a/b/c/d;p?y", "g?y": "http://a/b/c/g?y",
    "#s": "http://a/b/c/d;p?q#s",
    "g#s": "http://a/b/c/g#s", "g?y#s": "http://a/b/c/g?y#s", ";x": "http://a/b/c/;x",
    "g;x": "http://a/b/c/g;x", "g;x?y#s": "http://a/b/c/g;x?y#s", "": "http://a/b/c/d;p?q",
    ".": "http://a/b/c/", "./": "http://a/b/c/", "..": "http://a/b/", "../": "http://a/b/",
    "../g": "http://a/b/g", "../..": "http://a/", "../../": "http://a/", "../../g": "http://a/g",
    "../../../g": "http://a/g", "../../../../g": "http://a/g", "/./g": "http://a/g",
    "/../g": "http://a/g", "g.": "http://a/b/c/g.", ".g": "http://a/b/c/.g",
    "g..": "http://a/b/c/g..", "..g": "http://a/b/c/..g", "./../g": "http://a/b/g",
    "./g/.": "http://a/b/c/g/", "g/./h": "http://a/b/c/g/h", "g/../h": "http://a/b/c/h",
    "g;x=1/./y": "http://a/b/c/g;x=1/y", "g;x=1/../y": "http://a/b/c/y",
    "g?y/./x": "http://a/b/c/g?y/./x", "g?y/../x": "http://a/b/c/g?y/../x",
    "g#s/./x": "http://a/b/c/g#s/./x",
    "g#s/../x": "http://a/b/c/g#s/../x", "http:g": "http:g",
}  # fmt: skip


def asked_of_oxigraph(base: str, reference: str) -> str:
    query = f"BASE <{base}> SELECT ?x {{ BIND(<{reference}> AS ?x) }}"
    ((term,),) = pytest.importorskip("pyoxigraph").Store().query(query)
    found: str = term.value
    return found


@pytest.mark.parametrize(("reference", "iri"), EXAMPLES.items())
def test_references_are_resolved_as_the_standard_says(reference: str, iri: str) -> None:
    assert resolve_iri(reference, "http://a/b/c/d;p?q") == iri
    assert asked_of_oxigraph("http://a/b/c/d;p?q", reference) == iri


BASES = ["http://e/x#f", "http://e/x?q#f", "http://e", "http://e?q", "http://e/a/b/", "tacit:",
         "tacit:x/y", "urn:a:b",
         "file:///a/b"]  # fmt: skip


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(
    "reference", ["", "#g", "g", "?q", "../g", "/g/../h", "./", "g#", "g?#", "//h/g"]
)
def test_a_base_of_any_form_is_one_to_oxigraph_too(base: str, reference: str) -> None:
    assert resolve_iri(reference, base) == asked_of_oxigraph(base, reference)


def test_a_base_leaves_its_fragment() -> None:
    graph = Graph.of([("<http://e/x>", "in", "b"), ("<http://e/x#f>", "in", "c")])
    reading = parse_sparql("BASE <http://e/x#f> SELECT ?x { <> <tacit:in> ?x }", graph)
    assert str(reading.query) == '?x : in("<http://e/x>", ?x)'
    prefixed = parse_sparql(
        "BASE <http://e/x#f> PREFIX : <#> SELECT ?x { :f <tacit:in> ?x }", graph
    )
    assert str(prefixed.query) == '?x : in("<http://e/x#f>", ?x)'
