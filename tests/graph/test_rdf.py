"""RDF files."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from tacit.errors import DataError
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.graph.prefixes import Prefixes

TURTLE = """
@prefix geo: <http://example.org/geo/> .
@prefix : <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
geo:France geo:borders geo:Spain, :Andorra ; rdfs:label "France"@fr ; geo:area 643801 .
geo:Spain geo:seeAlso <http://other.net/wiki/Spain> .
"""
XML = """<?xml version="1.0" encoding="utf-8"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:geo="http://example.org/geo/">
  <rdf:Description rdf:about="http://example.org/geo/France">
    <geo:borders rdf:resource="http://example.org/geo/Spain"/>
    <geo:name>France</geo:name>
  </rdf:Description>
</rdf:RDF>
"""
TRIPLES = """# geography
<http://example.org/geo/France> <http://example.org/geo/borders> <http://example.org/geo/Spain> .

<http://example.org/geo/France> <http://example.org/geo/name> "Fran\\u00E7a \\"x\\""@ca . # Catalan
_:somewhere <http://example.org/geo/near> <http://example.org/geo/Fran\\u00e7a> .
<http://example.org/geo/Fran\u00e7a>\t<http://example.org/geo/area> "5"^^<http://www.w3.org/2001/XMLSchema#integer>.
"""


def facts(graph: Graph) -> set[tuple[str, str, str]]:
    return {(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in graph.facts().tolist()}


def read(tmp_path: Path, name: str, text: str, literals: bool = False) -> Graph:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return load(tmp_path / name, literals=literals)


def test_turtle_labels_use_the_prefixes_of_the_file(tmp_path: Path) -> None:
    graph = read(tmp_path, "g.ttl", TURTLE)
    assert facts(graph) == {
        ("geo:France", "geo:borders", "geo:Spain"),
        ("geo:France", "geo:borders", "Andorra"),
        ("geo:Spain", "geo:seeAlso", "wiki:Spain"),
    }
    assert graph.notes == ("train: 2 facts with a literal skipped; ask for literals to keep them",)
    assert graph.prefixes[""] == "http://example.org/"
    assert graph.prefixes["wiki"] == "http://other.net/wiki/"


def test_literals_are_kept_where_asked_for(tmp_path: Path) -> None:
    graph = read(tmp_path, "g.ttl", TURTLE, literals=True)
    assert ("geo:France", "rdfs:label", '"France"@fr') in facts(graph)
    assert ("geo:France", "geo:area", '"643801"^^xsd:integer') in facts(graph)
    assert len(graph.train) == 5
    assert graph.notes == ()


def test_rdf_xml(tmp_path: Path) -> None:
    assert facts(read(tmp_path, "g.rdf", XML)) == {("geo:France", "geo:borders", "geo:Spain")}
    assert ("geo:France", "geo:name", '"France"') in facts(read(tmp_path, "g.owl", XML, literals=True))


def test_n_triples_derive_prefixes_from_the_iris(tmp_path: Path) -> None:
    graph = read(tmp_path, "g.nt", TRIPLES)
    assert facts(graph) == {
        ("geo:France", "geo:borders", "geo:Spain"),
        ("_:somewhere", "geo:near", "geo:França"),
    }
    assert graph.notes == ("train: 2 facts with a literal skipped; ask for literals to keep them",)
    kept = read(tmp_path, "g.nt", TRIPLES, literals=True)
    assert ("geo:France", "geo:name", '"França \\"x\\""@ca') in facts(kept)
    assert ("geo:França", "geo:area", '"5"^^xsd:integer') in facts(kept)


def test_a_string_is_one_entity_with_or_without_its_type(tmp_path: Path) -> None:
    line = '<http://a.org/x> <http://a.org/name> "x"{} .\n'
    text = line.format("") + line.format("^^<http://www.w3.org/2001/XMLSchema#string>")
    graph = read(tmp_path, "g.nt", text, literals=True)
    assert facts(graph) == {("a:x", "a:name", '"x"')}
    assert graph.notes == ("train: 1 duplicate fact dropped",)


def test_n_triples_need_no_rdflib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdflib", None)
    assert len(read(tmp_path, "g.nt", TRIPLES, literals=True).train) == 4
    with pytest.raises(
        DataError, match=r"g\.ttl: needs rdflib to be read; install it with: pip install 'tacit\[rdf\]'"
    ):
        read(tmp_path, "g.ttl", TURTLE)


def test_every_format_may_be_packed(tmp_path: Path) -> None:
    for name, text in (("g.ttl", TURTLE), ("g.rdf", XML), ("g.nt", TRIPLES)):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        assert facts(load(tmp_path / f"{name}.gz")) == facts(read(tmp_path, name, text))


def test_the_same_statements_in_two_formats_are_one_graph(tmp_path: Path) -> None:
    rdflib = pytest.importorskip("rdflib")
    parsed = rdflib.Graph().parse(data=TURTLE, format="turtle")
    turtle = read(tmp_path, "g.ttl", TURTLE, literals=True)
    lines = read(tmp_path, "g.nt", parsed.serialize(format="nt"), literals=True)
    wanted = {tuple(term.n3() for term in triple) for triple in parsed}

    def expanded(graph: Graph) -> set[tuple[str, ...]]:
        prefixes = Prefixes(graph.prefixes)

        def term(label: str) -> str:
            if label.startswith('"'):
                text, mark, kind = label.partition('"^^')
                return f'{text}"^^<{prefixes.iri(kind)}>' if mark else label
            return f"<{prefixes.iri(label)}>"

        return {tuple(map(term, fact)) for fact in facts(graph)}

    assert expanded(turtle) == expanded(lines) == wanted


def test_blank_nodes_are_numbered_alike_in_every_run(tmp_path: Path) -> None:
    text = "@prefix : <http://a.org/> . :x :knows [ :knows :y ] . _:q :knows _:q ."
    expected = {("x", "knows", "_:b1"), ("_:b1", "knows", "y"), ("_:b2", "knows", "_:b2")}
    assert facts(read(tmp_path, "g.ttl", text)) == expected
    assert facts(read(tmp_path, "h.ttl", text)) == expected


def test_a_folder_of_rdf_parts_shares_ids_but_not_blank_nodes(tmp_path: Path) -> None:
    for part, text in (("train", ":a :r :b, _:n ."), ("valid", ":b :r :a ."), ("test", ":a :r _:n .")):
        (tmp_path / f"{part}.ttl").write_text(f"@prefix : <http://a.org/> . {text}")
    graph = load(tmp_path)
    assert graph.entities.labels == ["a", "b", "_:b1", "_:test1"]
    assert [len(graph.part(part)) for part in ("train", "valid", "test")] == [2, 1, 1]
    (tmp_path / "test.ttl").unlink()
    (tmp_path / "test.tsv").write_text("a\tr\ta\n")
    with pytest.raises(DataError, match=r"test\.tsv: is a table beside RDF files"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.ttl", "@prefix a: <http://a/> .\na:x a:y\na:z .\noops\n", "g.ttl, line 4: cannot be parsed"),
        ("g.ttl", "x:a x:b x:c .", "g.ttl, line 1: cannot be parsed: .*x:"),
        ("g.ttl", "", "g.ttl: holds no RDF statements"),
        ("g.ttl", '<http://a/b> <http://a/c> "d" .', "has literals as its only objects; ask for literals"),
        ("g.rdf", XML.replace("</rdf:RDF>", ""), "g.rdf, line 8: cannot be parsed"),
        ("g.nt", "<a:b> <a:c> <a:d> .\n<a:b> <a:c> .\n", "g.nt, line 2: is not an N-Triples statement.*<a:b> <a:c> ."),
        ("g.nt", "<a:b> <a:c> <a:d>\n", "g.nt, line 1: is not an N-Triples statement"),
        ("g.nt", '"a" <a:c> <a:d> .\n', "g.nt, line 1: is not an N-Triples statement"),
        ("g.nt", '<a:b> <a:c> "\\uD800" .\n', "g.nt, line 1: is not an N-Triples statement"),
        ("g.nt", "<a:b> <a:c> <a:d> . <a:b> <a:c> <a:d> .\n", "g.nt, line 1: is not an N-Triples statement"),
        ("g.nt", "# nothing\n", "g.nt: holds no RDF statements"),
    ],
)
def test_bad_rdf_names_the_file_and_the_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, name, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["g.ttl", "g.nt", "g.rdf"])
def test_bytes_that_are_not_utf8_are_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"<http://a/b> <http://a/c>\n <http://a/\xff> .\n")
    with pytest.raises(DataError, match=name):
        load(tmp_path / name)


def test_xml_reads_no_other_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    head = '<!DOCTYPE rdf [<!ENTITY x SYSTEM "{}">]>'.format((tmp_path / "secret").as_uri())
    body = XML.partition("?>\n")[2].replace(">France<", ">a&x;b<")
    try:
        labels = read(tmp_path, "g.rdf", head + body, literals=True).entities.labels
    except DataError:
        labels = []
    assert not any("secret" in label for label in labels)


def test_xml_entities_are_read_but_not_entities_of_entities(tmp_path: Path) -> None:
    body = XML.partition("?>\n")[2].replace("http://example.org/geo/S", "&geo;S")
    plain = '<!DOCTYPE rdf [<!ENTITY geo "http://example.org/geo/">]>'
    assert facts(read(tmp_path, "g.rdf", plain + body)) == {("geo:France", "geo:borders", "geo:Spain")}
    nested = plain.replace("]>", '<!ENTITY lots "&geo;&geo;&geo;&geo;">]>')
    with pytest.raises(DataError, match=r"g\.rdf: declares entity 'lots' by other entities; write it out"):
        read(tmp_path, "g.rdf", nested + body)


def test_labels_are_unambiguous_and_lead_back_to_their_iris() -> None:
    iris = [
        "http://a.org/x/Oslo",
        "http://b.org/x/Oslo",
        "http://a.org/Oslo",
        "http://a.org/x/",
        "http://a.org/x/a:b",
        "http://a.org/_x",
        "urn:isbn:1",
        "http://www.w3.org/2000/01/rdf-schema#label",
        "http://obo.org/GO_12",
        "x:Oslo",
    ]
    prefixes = Prefixes({"": "http://a.org/", "go": "http://obo.org/GO_", "x": "http://a.org/x/"}, iris)
    labels = [prefixes.label(iri) for iri in iris]
    assert labels == [
        "x:Oslo",
        "b:Oslo",
        "Oslo",
        "<http://a.org/x/>",
        "x:a:b",
        "<http://a.org/_x>",
        "<urn:isbn:1>",
        "rdfs:label",
        "go:12",
        "<x:Oslo>",
    ]
    assert [prefixes.iri(label) for label in labels] == iris
    assert prefixes.iri("nobody:Oslo") is None
