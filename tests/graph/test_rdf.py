"""RDF files."""

from __future__ import annotations

import gzip
import sys
import time
from pathlib import Path

import pytest

from tacit.errors import DataError
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes

TURTLE = """
@prefix geo: <http://example.org/geo/> .
@prefix : <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
geo:France geo:borders geo:Spain, :Andorra ; rdfs:label "France"@fr ; geo:area 643801 .
geo:Spain geo:seeAlso <http://other.net/wiki/Spain> .
"""
XML = """<?xml version="1.0" encoding="utf-8"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" \
xmlns:geo="http://example.org/geo/">
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
<http://example.org/geo/Fran\u00e7a>\t<http://example.org/geo/area> \
"5"^^<http://www.w3.org/2001/XMLSchema#integer>.
"""


def facts(graph: Graph) -> set[tuple[str, str, str]]:
    return {
        (graph.entities[h], graph.relations[r], graph.entities[t])
        for h, r, t in graph.facts().tolist()
    }


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
    assert graph.notes == ("1 relation is an attribute: geo:area; `attributes=False` reads none",)
    assert graph.prefixes[""] == "http://example.org/"
    assert graph.prefixes["wiki"] == "http://other.net/wiki/"


def test_literals_are_kept_where_asked_for(tmp_path: Path) -> None:
    graph = read(tmp_path, "g.ttl", TURTLE, literals=True)
    assert ("geo:France", "geo:area", '"643801"^^xsd:integer') in facts(graph)
    assert len(graph.train) == 4
    assert graph.notes == ()


def test_rdf_xml(tmp_path: Path) -> None:
    assert facts(read(tmp_path, "g.rdf", XML)) == {("geo:France", "geo:borders", "geo:Spain")}
    assert ("geo:France", "geo:name", '"France"') in facts(
        read(tmp_path, "g.owl", XML, literals=True)
    )


def test_n_triples_derive_prefixes_from_the_iris(tmp_path: Path) -> None:
    graph = read(tmp_path, "g.nt", TRIPLES)
    assert facts(graph) == {
        ("geo:France", "geo:borders", "geo:Spain"),
        ("_:somewhere", "geo:near", "geo:França"),
    }
    assert graph.notes == (
        "train: 1 fact with a literal skipped; `literals=True` keeps them",
        "1 relation is an attribute: geo:area; `attributes=False` reads none",
    )
    with_literals = read(tmp_path, "g.nt", TRIPLES, literals=True)
    assert ("geo:France", "geo:name", '"França \\"x\\""@ca') in facts(with_literals)
    assert ("geo:França", "geo:area", '"5"^^xsd:integer') in facts(with_literals)


def test_a_string_is_one_entity_with_or_without_its_type(tmp_path: Path) -> None:
    line = '<http://a.org/x> <http://a.org/name> "x"{} .\n'
    text = line.format("") + line.format("^^<http://www.w3.org/2001/XMLSchema#string>")
    graph = read(tmp_path, "g.nt", text, literals=True)
    assert facts(graph) == {("a:x", "a:name", '"x"')}
    assert graph.notes == ("train: 1 duplicate fact dropped",)


def test_rdf_needs_pyoxigraph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    with pytest.raises(
        DataError,
        match=r"g\.nt: needs pyoxigraph to be read; install it with: pip install 'tacit-kg\[rdf\]'",
    ):
        read(tmp_path, "g.nt", TRIPLES)


OTHERS = {
    "g.trig": TURTLE,
    "g.n3": TURTLE,
    "g.nq": TRIPLES,
    "g.jsonld": """{"@context": {"geo": "http://example.org/geo/"}, "@id": "geo:France",
        "geo:borders": [{"@id": "geo:Spain"}, {"@id": "http://example.org/Andorra"}],
        "geo:area": 643801}""",
}


@pytest.mark.parametrize(
    ("name", "text"),
    [("g.ttl", TURTLE), ("g.rdf", XML), ("g.nt", TRIPLES), *OTHERS.items()],
    ids=lambda value: value[:8],
)
def test_every_format_may_be_packed_and_begin_with_a_mark(
    tmp_path: Path, name: str, text: str
) -> None:
    plain = facts(read(tmp_path, name, text))
    assert ("geo:France", "geo:borders", "geo:Spain") in plain
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    assert facts(load(tmp_path / f"{name}.gz")) == plain
    assert facts(read(tmp_path, name, "\ufeff" + text)) == plain
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode())[:-9])
    with pytest.raises(DataError, match=r"is not a whole \.gz file"):
        load(tmp_path / f"{name}.gz")


def test_named_graphs_are_merged_and_counted(tmp_path: Path) -> None:
    text = (
        "@prefix : <http://a.org/> . :a :r :b . :g { :a :r :b . :b :r :c . } GRAPH _:h { :c :r 5 }"
    )
    graph = read(tmp_path, "g.trig", text)
    assert facts(graph) == {("a", "r", "b"), ("b", "r", "c")}
    assert graph.notes == (
        "train: 3 facts of named graphs merged with the others",
        "train: 1 duplicate fact dropped",
        "1 relation is an attribute: r; `attributes=False` reads none",
    )
    lines = '<a:a> <a:r> <a:b> <a:g> .\n<a:b> <a:r> "<x> y" <a:g> .\n'
    assert facts(read(tmp_path, "g.nq", lines, literals=True)) == {
        ("<a:a>", "<a:r>", "<a:b>"),
        ("<a:b>", "<a:r>", '"<x> y"'),
    }


def test_facts_about_facts_and_formulas_are_skipped_and_counted(tmp_path: Path) -> None:
    star = "@prefix : <http://a.org/> . :a :r :b {| :source :web |} . :a :says <<( :b :r :c )>> ."
    graph = read(tmp_path, "g.ttl", star)
    assert facts(graph) == {("a", "r", "b")}
    assert graph.notes == ("train: 1 fact about other facts skipped",)
    graph = read(
        tmp_path, "g.n3", "@prefix : <http://a.org/> . :a :r :b . { :b :r :c . :c :r :d } :r :e ."
    )
    assert facts(graph) == {("a", "r", "b"), ("_:b1", "r", "e")}
    assert graph.notes == ("train: 2 facts inside N3 formulas skipped",)


def test_triples_nested_without_end_are_refused(tmp_path: Path) -> None:
    for depth in (1_200, 40_000):
        text = "<a:a> <a:r> " + "<<( <a:a> <a:r>\n" * depth + "<a:b>" + " )>>" * depth + " ."
        for name in ("g.ttl", "g.nt"):
            with pytest.raises(DataError, match="nests more than 1,000 triples"):
                read(tmp_path, name, text if name == "g.ttl" else text.replace("\n", " "))
    lines = "<a:a> <a:r> <a:b> .\n" + "<a:a> <a:r> <<( <a:a> <a:r> <a:b> )>> .\n" * 3_000
    assert len(read(tmp_path, "g.nt", lines).train) == 1


def expanded(graph: Graph) -> set[tuple[str, ...]]:
    """The facts of a graph as N-Triples writes them."""
    prefixes = Prefixes(graph.prefixes)

    def term(label: str) -> str:
        if label.startswith('"'):
            text, mark, kind = label.partition('"^^')
            return f'{text}"^^<{prefixes.iri(kind)}>' if mark else label
        return f"<{prefixes.iri(label)}>"

    return {tuple(map(term, fact)) for fact in facts(graph)}


ROOT = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:a="http://a.org/">'
ATTRIBUTES = " ".join(f'a:b{i}="1"' for i in range(2_000))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.ttl", "<http://a.org/a> <http://a.org/b> " + "(" * 1_000_000, "brackets in a row"),
        ("x.n3", "{ " * 1_000_000, "brackets in a row"),
        ("x.jsonld", '{"http://a.org/p":' * 300_000, "cannot be parsed"),
        ("x.jsonld", "[" * 1_000_000, "brackets in a row"),
        ("x.rdf", ROOT + "<a:B><a:p>" * 200_000, "nests more than 1,000 elements"),
        ("x.rdf", f"{ROOT}<a:B {ATTRIBUTES}/></rdf:RDF>", "as many attributes"),
        ("x.rdf", f'<?xml version="1.0" encoding="UTF-J"?>{ROOT}</rdf:RDF>', "unknown encoding"),
    ],
)
def test_what_nests_without_end_is_refused_at_once(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    start = time.process_time()
    with pytest.raises(DataError, match=message):
        load(tmp_path / name)
    assert time.process_time() - start < 2


def test_the_same_statements_in_other_formats_are_one_graph(tmp_path: Path) -> None:
    rdflib = pytest.importorskip("rdflib")
    parsed = rdflib.Graph().parse(data=TURTLE, format="turtle")
    expected = {
        tuple(term.n3() for term in triple) for triple in parsed if triple[1] != rdflib.RDFS.label
    }
    assert expanded(read(tmp_path, "g.ttl", TURTLE, literals=True)) == expected
    for name, format in (("g.nt", "nt"), ("g.n3", "n3"), ("g.rdf", "xml"), ("g.jsonld", "json-ld")):
        assert (
            expanded(read(tmp_path, name, parsed.serialize(format=format), literals=True))
            == expected
        )


def test_a_bad_line_far_into_an_n_triples_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.graph.formats.files.BLOCK", 64)
    with pytest.raises(DataError, match=r"g\.nt, line 901: cannot be parsed"):
        read(
            tmp_path,
            "g.nt",
            "<a:a> <a:r> <a:b> .\n" * 900 + "<a:a> <a:r> .\n" + "<a:a> <a:r> <a:b> .\n" * 90,
        )


def test_blank_nodes_are_numbered_alike_in_every_run(tmp_path: Path) -> None:
    text = "@prefix : <http://a.org/> . :x :knows [ :knows :y ] . _:q :knows _:q ."
    expected = {("x", "knows", "_:b1"), ("_:b1", "knows", "y"), ("_:b2", "knows", "_:b2")}
    assert facts(read(tmp_path, "g.ttl", text)) == expected
    assert facts(read(tmp_path, "h.ttl", text)) == expected


def test_a_folder_of_rdf_parts_shares_ids_but_not_blank_nodes(tmp_path: Path) -> None:
    for part, text in (
        ("train", ":a :r :b, _:n ."),
        ("valid", ":b :r :a ."),
        ("test", ":a :r _:n ."),
    ):
        (tmp_path / f"{part}.ttl").write_text(f"@prefix : <http://a.org/> . {text}")
    graph = load(tmp_path)
    assert graph.entities.labels == ["a", "b", "_:b1", "_:test1"]
    assert [len(graph.split(part)) for part in ("train", "valid", "test")] == [2, 1, 1]
    (tmp_path / "test.ttl").unlink()
    (tmp_path / "test.tsv").write_text("a\tr\ta\n")
    with pytest.raises(DataError, match=r"test\.tsv: is a table beside RDF files"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "g.ttl",
            "@prefix a: <http://a/> .\na:x a:y\na:z .\noops\n",
            "g.ttl, line 4: cannot be parsed",
        ),
        ("g.ttl", "x:a x:b x:c .", "g.ttl, line 1: cannot be parsed: .*x:"),
        ("g.ttl", "", "g.ttl: holds no RDF statements that are facts"),
        (
            "g.ttl",
            '<http://a/b> <http://a/c> "d" .',
            "has literals as its only objects; `literals=True` keeps",
        ),
        (
            "g.trig",
            "@prefix a: <http://a/> .\na:g { a:x a:y a:z . oops }\n",
            "g.trig, line 2: cannot be parsed",
        ),
        (
            "g.rdf",
            XML.replace("</rdf:RDF>", ""),
            "g.rdf, line 8: cannot be parsed: no element found",
        ),
        (
            "g.rdf",
            XML.replace("</geo:name>", "</geo:mane>"),
            "g.rdf, line 5: cannot be parsed: mismatched tag",
        ),
        (
            "g.rdf",
            XML.replace("/geo/Spain", "/geo/ Spain"),
            "g.rdf, line 4: cannot be parsed: .*IRI",
        ),
        ("g.jsonld", '{"@id": "a:b",\n "a:c": }', "g.jsonld, line 2: cannot be parsed"),
        (
            "g.jsonld",
            '{"@context": "https://schema.org/"}',
            "g.jsonld, line 1: cannot be parsed: its context is another file",
        ),
        (
            "g.n3",
            "@prefix : <http://a/> .\n:a :b :c .\n{ ?x :b ?y } => { ?y :b ?x } .",
            "g.n3, line 3: .*variables",
        ),
        (
            "g.nt",
            "<a:b> <a:c> <a:d> .\n<a:b> <a:c> .\n",
            "g.nt, line 2: cannot be parsed: .*object",
        ),
        ("g.nt", "<a:b> <a:c> <a:d>\n", "g.nt, line 2: cannot be parsed: .*followed by a dot"),
        ("g.nt", '"a" <a:c> <a:d> .\n', "g.nt, line 1: cannot be parsed"),
        ("g.nt", '<a:b> <a:c> "\\uD800" .\n', "g.nt, line 1: cannot be parsed"),
        ("g.nt", "<a:b> <a:c> <a:d> . <a:b> <a:c> <a:d> .\n", "g.nt, line 1: cannot be parsed"),
        ("g.nt", "# nothing\n", "g.nt: holds no RDF statements that are facts"),
    ],
)
def test_bad_rdf_names_the_file_and_the_line(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, name, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["g.ttl", "g.nt", "g.rdf"])
def test_bytes_that_are_not_utf8_are_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"<http://a/b> <http://a/c>\n <http://a/\xff> .\n")
    with pytest.raises(DataError, match=name):
        load(tmp_path / name)


def bomb(levels: int) -> str:
    declared = "".join(f'<!ENTITY l{i + 1} "{f"&l{i};" * 10}">' for i in range(levels))
    return f'<!DOCTYPE rdf [<!ENTITY l0 "laugh">{declared}]>'


PLAIN = '<!DOCTYPE rdf [<!ENTITY geo "http://example.org/geo/"> <!ENTITY e "&#233;">]>\n'


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (bomb(1), "l1"),
        (bomb(9), "l1"),
        ('<!DOCTYPE rdf [<!ENTITY a "a"><!ENTITY b "&a;">]>', "b"),
        ("<!DOCTYPE rdf [<!ENTITY a 'a'><!ENTITY b '&a;'>]>", "b"),
        ("<!DOCTYPE rdf [<!ENTITY % p \"<!ENTITY a 'a'>\">%p;]>", "p"),
        (f'<!DOCTYPE rdf [<!ENTITY long "{"x" * 1001}">]>', "long"),
        ('<!DOCTYPE rdf [<!ENTITY x SYSTEM "file:///etc/hostname">]>', "x"),
        ('<!DOCTYPE rdf [<!ENTITY x PUBLIC "x" "http://localhost/x">]>', "x"),
        ("<!--" + "x" * (1 << 20) + "-->" + bomb(9), "l1"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_xml_entities_of_entities_or_files_are_refused_at_once(
    tmp_path: Path, head: str, name: str
) -> None:
    body = XML.partition("?>\n")[2].replace(">France<", ">&l9;<")
    start = time.process_time()
    with pytest.raises(DataError, match=f"line 1: declares entity '{name}' by more than"):
        read(tmp_path, "g.rdf", head + body, literals=True)
    assert time.process_time() - start < 2


def test_xml_entities_of_plain_text_are_read(tmp_path: Path) -> None:
    body = (
        XML.partition("?>\n")[2]
        .replace("http://example.org/geo/S", "&geo;S")
        .replace(">France<", ">Franc&e;<")
    )
    graph = read(tmp_path, "g.rdf", PLAIN + body, literals=True)
    assert facts(graph) == {
        ("geo:France", "geo:borders", "geo:Spain"),
        ("geo:France", "geo:name", '"Francé"'),
    }
