"""IRIs, their labels, and the way back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.graph.datasets import load
from tacit.graph.formats.betae import write_betae
from tacit.graph.formats.fact_files import write_facts
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes
from tacit.graph.split import split


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
    prefixes = Prefixes(
        {"": "http://a.org/", "go": "http://obo.org/GO_", "x": "http://a.org/x/"}, iris
    )
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


# Pieces of IRIs, prefixes and labels that cover every way to confuse them.
PIECES = [
    "http://",
    "a.org",
    "/",
    "#",
    ":",
    "x",
    "Oslo",
    "%41",
    "%2F",
    "é",
    "東",
    "_",
    "_:",
    "<",
    ">",
    '"',
    "geo",
    "^-1",
    ".",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=7).map("".join)
IRIS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["http://a.org/", "http://a.org/x#", "urn:x:", "geo:", ""]),
    TEXTS,
    TEXTS,
)
NAMES = st.sampled_from(["", "x", "geo", "http", "urn", "_", "é", "a.b-c", '"', "<", "x:y", "1"])


@given(
    declared=st.dictionaries(NAMES, IRIS, max_size=5), iris=st.lists(IRIS, max_size=8), label=TEXTS
)
def test_every_iri_has_one_label_and_every_label_at_most_one_iri(
    declared: dict[str, str], iris: list[str], label: str
) -> None:
    prefixes = Prefixes(declared, iris[:4])
    labels = [prefixes.label(iri) for iri in iris]
    assert [prefixes.iri(short) for short in labels] == iris
    # a literal and a blank node look like that
    assert not any(short.startswith(('"', "_:")) for short in labels)
    stood_for = prefixes.iri(label)
    assert stood_for is None or prefixes.label(stood_for) == label
    again = Prefixes(dict(prefixes))
    assert again == prefixes
    assert [again.label(iri) for iri in iris] == labels


@given(
    declared=st.dictionaries(NAMES, IRIS, max_size=3),
    rows=st.lists(st.tuples(*[st.one_of(TEXTS, IRIS).filter(bool)] * 3), min_size=1, max_size=6),
    iri=IRIS,
)
def test_a_label_of_a_graph_and_its_iri_lead_to_one_another(
    declared: dict[str, str], rows: list[tuple[str, str, str]], iri: str
) -> None:
    plain = Graph.of(rows)
    graph = Graph(plain.entities, plain.relations, plain.train, prefixes=Prefixes(declared))
    for label in (*graph.entities, *graph.relations):
        stood_for = graph.iri(label)
        assert stood_for is None or graph.label_of(stood_for) == label
    label = graph.label_of(iri)
    assert label is None or graph.iri(label) == iri


TURTLE = """@prefix : <http://example.org/> . @prefix ex: <http://example.org/geo#> .
ex:Sweden ex:borders ex:Norway, ex:Finland ;
    :near <urn:x:Denmark>, <http://example.org/geo/Åland%20Islands> .
ex:Norway ex:borders ex:Sweden, ex:Finland . ex:Finland ex:borders ex:Sweden, ex:Norway .
:Oslo :near ex:Norway .
"""
IRIS_OF_TURTLE = {
    "ex:Sweden": "http://example.org/geo#Sweden",
    "ex:borders": "http://example.org/geo#borders",
    "Oslo": "http://example.org/Oslo",
    "<urn:x:Denmark>": "urn:x:Denmark",
    "geo:Åland%20Islands": "http://example.org/geo/Åland%20Islands",
}


@pytest.mark.parametrize("form", ["file", "split", "folder", "BetaE folder"])
def test_prefixes_survive_splitting_writing_and_reading(tmp_path: Path, form: str) -> None:
    (tmp_path / "g.ttl").write_text(TURTLE, encoding="utf-8")
    graph = load(tmp_path / "g.ttl")
    if form != "file":
        graph = split(graph, 0.2, 0.2)
    if form == "folder":
        write_facts(graph, tmp_path / "out")
        graph = load(tmp_path / "out")
    if form == "BetaE folder":
        write_betae(graph, tmp_path / "out")
        graph = load(tmp_path / "out")
    for label, iri in IRIS_OF_TURTLE.items():
        assert (graph.iri(label), graph.label_of(iri)) == (iri, label)
    assert graph.label_of("http://elsewhere.org/geo#Sweden") is None
    assert graph.label_of("ex:Sweden") is None
    assert graph.iri("ex:borders^-1") is None


def test_prefixes_of_an_earlier_graph_do_not_stay_behind(tmp_path: Path) -> None:
    graph = Graph.of([("geo:a", "r", "b")], [("b", "r", "geo:a")], [("b", "r", "b")])
    (tmp_path / "prefixes.tsv").write_text("geo:\thttp://a.org/\n")
    write_facts(graph, tmp_path)
    assert load(tmp_path).iri("geo:a") is None
    (tmp_path / "prefixes.tsv").write_text("geo:\thttp://a.org/\n:\thttp://b.org/\n")
    assert load(tmp_path).iri("geo:a") == "http://a.org/a"
    assert load(tmp_path).iri("b") == "http://b.org/b"


def test_tables_of_whole_iris_have_them() -> None:
    graph = Graph.of([("http://a.org/x", "<http://a.org/r>", "geo:y"), ("mailto:z", "in", "plain")])
    assert [graph.iri(label) for label in graph.entities] == ["http://a.org/x", None, None, None]
    assert graph.iri("<http://a.org/r>") == "http://a.org/r"
    assert graph.label_of("http://a.org/r") == "<http://a.org/r>"
