"""RDF 1.2: reifiers that say where facts come from and when they hold, in and out."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statements import day, said
from tacit.errors import DataError
from tacit.graph.datasets import load
from tacit.graph.formats.reifiers import REIFIES
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes, relabelled_source, source_label, source_term
from tacit.graph.merging import join_graphs
from tacit.graph.qualifiers import Statement

PREFIXES = """
PREFIX : <http://a.org/>
PREFIX w: <http://w.org/>
PREFIX prov: <http://www.w3.org/ns/prov#>
PREFIX dcterms: <http://purl.org/dc/terms/>
PREFIX schema: <http://schema.org/>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
"""
TURTLE = (
    PREFIXES
    + """
:late :validFrom "1999-05"^^xsd:gYearMonth .
:France :borders :Spain {| prov:wasDerivedFrom w:Q52 ; schema:startDate "2019"^^xsd:gYear ;
    :confidence 0.9 |} {| dcterms:source "w:Q52" |} .
:France :borders :Italy ~ :mine .
:mine dcterms:source "A \\"book\\""@en, w:Q1 ; schema:endDate 1950 .
:late rdf:reifies <<( :Spain :borders :Portugal )>> .
:Spain :borders :Portugal .
<< :Spain :borders :Portugal >> :until "2020-02-03T00:00:00Z"^^xsd:dateTime .
"""
)
EXPECTED = {
    ("France", "borders", "Spain"): {
        Statement("w:Q52", day("2019"), None, 0.9),
        Statement('"w:Q52"'),
    },
    ("France", "borders", "Italy"): {
        Statement('A "book"', None, day("1950")),
        Statement("w:Q1", None, day("1950")),
    },
    ("Spain", "borders", "Portugal"): {
        Statement(None, day("1999-05")),
        Statement(None, None, day("2020-02-03T00:00:00Z")),
    },
}


def read(tmp_path: Path, name: str, text: str, **options: Any) -> Graph:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return load(tmp_path / name, **options)


@pytest.mark.parametrize("name", ["g.ttl", "g.trig", "g.ttl.xz"])
def test_annotations_reifiers_and_triple_terms(tmp_path: Path, name: str) -> None:
    if name.endswith(".xz"):
        import lzma

        (tmp_path / name).write_bytes(lzma.compress(TURTLE.encode()))
        graph = load(tmp_path / name)
    else:
        graph = read(tmp_path, name, TURTLE)
    assert said(graph) == EXPECTED
    assert graph.entities.labels == ["France", "Spain", "Italy", "Portugal"]
    assert graph.notes == ()


def lines_of(text: str) -> list[str]:
    """The N-Triples of a Turtle text, by Oxigraph."""
    from pyoxigraph import RdfFormat, parse, serialize

    written = serialize(parse(text, RdfFormat.TURTLE), format=RdfFormat.N_TRIPLES)
    return written.decode().splitlines()  # type: ignore[union-attr]


@pytest.mark.parametrize("ending", [".nt", ".nq"])
@given(seed=st.integers(0, 1_000))
def test_statements_may_come_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, ending: str, seed: int
) -> None:
    lines = lines_of(TURTLE)
    Random(seed).shuffle(lines)
    if ending == ".nq":
        lines = [f"{line[:-1]}<http://g.org/{seed}> ." for line in lines]
    graph = read(tmp_path_factory.mktemp("any"), f"g{ending}", "\n".join(lines) + "\n")
    expected = {
        ("a:France", "a:borders", "a:Spain"): {
            Statement("w:Q52", day("2019"), None, 0.9),
            Statement('"w:Q52"'),
        },
        ("a:France", "a:borders", "a:Italy"): EXPECTED["France", "borders", "Italy"],
        ("a:Spain", "a:borders", "a:Portugal"): EXPECTED["Spain", "borders", "Portugal"],
    }
    assert said(graph) == expected
    assert len(graph.entities) == 4


def test_rdf_xml_annotates(tmp_path: Path) -> None:
    graph = read(
        tmp_path,
        "g.rdf",
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
        'xmlns:dcterms="http://purl.org/dc/terms/" xmlns:a="http://a.org/" rdf:version="1.2">'
        '<rdf:Description rdf:about="http://a.org/r"><dcterms:source>a book</dcterms:source>'
        '</rdf:Description><rdf:Description rdf:about="http://a.org/x">'
        '<a:p rdf:annotation="http://a.org/r" rdf:resource="http://a.org/y"/></rdf:Description>'
        "</rdf:RDF>",
    )
    assert said(graph) == {("a:x", "a:p", "a:y"): {Statement("a book")}}


def test_properties_of_other_nodes_stay_facts(tmp_path: Path) -> None:
    plain = ":film dcterms:source :book . :film :madeIn :Oslo . :book :since :then . "
    graph = read(tmp_path, "g.ttl", PREFIXES + plain)
    order = ["film", "book", "Oslo", "then"]
    assert graph.entities.labels == order  # as without any look at properties
    facts = {
        ("film", "dcterms:source", "book"),
        ("film", "madeIn", "Oslo"),
        ("book", "since", "then"),
    }
    assert set(said(graph)) == facts
    mixed = PREFIXES + plain + ":film :by :me {| :source :film |} . :film :startDate 1999 ."
    graph = read(tmp_path, "g.ttl", mixed)
    assert said(graph) == {fact: set() for fact in facts} | {
        ("film", "by", "me"): {Statement("film")}
    }
    assert [each.name for each in graph.attributes.listed] == ["startDate"]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (":a :r :b {| :said :me |} .", "1 fact about other facts skipped"),
        (":a :r :b . :a :says <<( :b :r :c )>> .", "1 fact about other facts skipped"),
        (
            ":a :r :b . :x rdf:reifies <<( :a :r <<( :b :r :c )>> )>> .",
            "1 fact about other facts skipped",
        ),
        (
            ":a :r :b . << :b :r :c >> :source :me .",
            "1 fact of reifiers skipped: they are values, or stated nowhere",
        ),
        (
            ":a :r :b . << :b :r :a >> :source :me .",
            "1 statement about what is no fact here skipped",
        ),
        (
            ":a :r :b . :a :size 5 {| :source :me |} .",
            "1 fact of reifiers skipped: they are values, or stated nowhere",
        ),
        *(
            (
                f":a :r :b {{| {wrong} |}} .",
                "1 fact with a source, date or confidence skipped that cannot be read",
            )
            for wrong in (
                ':since "soon"',
                ":since 2019, 2020",
                ":since :b",
                ":confidence 7",
                ":source [ :of :b ]",
                ":since 2019 ; :until 2018",
            )
        ),
    ],
)
def test_what_is_no_statement_about_a_fact_is_counted(tmp_path: Path, text: str, note: str) -> None:
    graph = read(tmp_path, "g.ttl", PREFIXES + text)
    assert said(graph)["a", "r", "b"] == set()
    assert f"train: {note}".removeprefix("train: " * ("what is no" in note)) in graph.notes


def test_a_literal_may_be_the_object_where_literals_are_kept(tmp_path: Path) -> None:
    text = PREFIXES + ':a :motto "x )>> y" {| :source :me ; :since 2019 |} .'
    graph = read(tmp_path, "g.ttl", text, literals=True)
    assert said(graph) == {("a", "motto", '"x )>> y"'): {Statement("me", day("2019"))}}


@pytest.mark.parametrize("name", ["out.ttl", "out.nt"])
def test_written_rdf_says_the_same_to_oxigraph(tmp_path: Path, name: str) -> None:
    from pyoxigraph import RdfFormat, Store

    graph = read(tmp_path, "g.ttl", TURTLE)
    graph.write(tmp_path / name)
    query = (
        PREFIXES
        + """SELECT ?s ?o ?source ?begin ?end ?confidence { ?r rdf:reifies <<( ?s :borders ?o )>> .
        ?s :borders ?o . OPTIONAL { ?r prov:wasDerivedFrom|dcterms:source ?source }
        OPTIONAL { ?r schema:startDate|:validFrom ?begin }
        OPTIONAL { ?r schema:endDate|:until ?end }
        OPTIONAL { ?r :confidence|<tacit:confidence> ?confidence } }"""
    )

    def rows(path: Path) -> list[tuple[str, ...]]:
        store = Store()
        kind = RdfFormat.TURTLE if path.suffix == ".ttl" else RdfFormat.N_TRIPLES
        store.load(path=path, format=kind)
        found = [
            tuple("" if cell is None else getattr(cell, "value", "") for cell in row)
            for row in store.query(query)  # type: ignore[union-attr]
        ]
        return sorted(found)

    assert len(rows(tmp_path / name)) == 6
    assert rows(tmp_path / name) == rows(tmp_path / "g.ttl")


def test_names_are_written_as_rdf_and_read_again(tmp_path: Path) -> None:
    rows = [("New York", "is in", "USA", "a: b", "2019"), ("Oslo", "is not in", "USA", "<x>", "")]
    graph = load(rows, columns="1,2,3,source=4,since=5").named({"USA": ["United States"]})
    for name in ("o.ttl", "o.nt"):
        graph.write(tmp_path / name)
        again = load(tmp_path / name)
        assert said(again) == said(graph)
        assert again.entities.names == graph.entities.names


def test_reifiers_are_no_blank_nodes_of_the_graph(tmp_path: Path) -> None:
    line = '_:statement.1 <a:r> _:statement.2 .\n_:x <http://p.org/source> "me" .\n'
    line += f"_:x {REIFIES} <<( _:statement.1 <a:r> _:statement.2 )>> .\n"
    graph = read(tmp_path, "g.nt", line)
    graph.write(tmp_path / "o.nt")
    again = load(tmp_path / "o.nt")
    assert said(again) == said(graph)
    assert again.entities.labels == ["_:statement.1", "_:statement.2"]


@given(
    st.text(st.sampled_from('awb:"<>/ \\\n'), min_size=1, max_size=6),
    *[st.sampled_from([{}, {"": "http://a.org/"}, {"w": "http://w.org/", "a": "http://a.org/"}])]
    * 2,
)
def test_the_label_of_a_source_is_a_text_or_an_iri(
    text: str, declared: dict[str, str], others: dict[str, str]
) -> None:
    import json

    prefixes, further = Prefixes(declared), Prefixes(others)
    for term in (json.dumps(text, ensure_ascii=False), "<http://a.org/x>", "<urn:x:1>"):
        label = source_label(term, prefixes)
        assert source_term(label, prefixes) == term
        assert source_term(relabelled_source(label, prefixes, further), further) == term


def test_sources_of_joined_graphs_are_the_same_iris(tmp_path: Path) -> None:
    one = read(tmp_path, "a.ttl", PREFIXES + ":a :r :b {| :source w:Q1, 'w:Q1' |} .")
    text = "PREFIX : <http://w.org/> <http://a.org/a> <http://a.org/r> <http://a.org/b> "
    other = read(tmp_path, "b.ttl", text + "{| :source :Q1, 'Q1' |} .")
    assert set(other.qualifiers.sources) == {"Q1", '"Q1"'}
    both = join_graphs([one, other], "both")
    assert said(both) == {
        ("a", "r", "b"): {Statement("w:Q1"), Statement('"w:Q1"'), Statement('"Q1"')}
    }


def test_a_reifier_of_many_facts_and_sources_is_refused(tmp_path: Path) -> None:
    facts = "".join(f":a :r :b{i} ~ :x .\n" for i in range(1_100))
    sources = " , ".join(f":s{i}" for i in range(1_000))
    with pytest.raises(DataError, match="a reifier with 1,100 facts and many sources"):
        read(tmp_path, "g.ttl", f"{PREFIXES}{facts}:x :source {sources} .")


def test_facts_may_be_only_such_as_qualify_others_elsewhere(tmp_path: Path) -> None:
    graph = read(tmp_path, "g.ttl", PREFIXES + ":film dcterms:source <http://a.org/~book> .")
    assert set(said(graph)) == {("film", "dcterms:source", "~book")}
