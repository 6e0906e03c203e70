"""Labels as RDF terms, and names in the scheme `tacit:`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from tacit.errors import DataError
from tacit.graph.datasets import load
from tacit.graph.formats.writing import write_scored
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes, n_triples
from tacit.graph.merging import with_facts
from tacit.server.sparql_results import term


def facts(graph: Graph) -> set[tuple[str, str, str]]:
    return {
        (graph.entities[h], graph.relations[r], graph.entities[t])
        for h, r, t in graph.facts().tolist()
    }


def read(tmp_path: Path, name: str, text: str, literals: bool = False) -> Graph:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return load(tmp_path / name, literals=literals)


def test_names_that_were_written_as_iris_are_read_as_what_they_were(tmp_path: Path) -> None:
    """Facts from tables go to RDF and back, and are those of the first graph."""
    named = [("New York", "lives in", "Z\u00fcrich"), ('a "b"', "r", "x:y"), ("_:b1", "r", "<x>")]
    write_scored(tmp_path / "facts.nt", [(*fact, 0.5) for fact in named], Prefixes())
    back = load(tmp_path / "facts.nt")
    assert [
        (back.entities[h], back.relations[r], back.entities[t]) for h, r, t in back.facts()
    ] == named
    (tmp_path / "mixed.ttl").write_text(
        "@prefix t: <tacit:> . @prefix : <http://a.org/> . t:Oslo t:in t:Norway . :Oslo :in "
        ":Norway ."
    )
    mixed = load(tmp_path / "mixed.ttl")  # the labels of the others are taken by IRIs
    assert len(mixed.entities) == 4
    (tmp_path / "plain.ttl").write_text("@prefix t: <tacit:> . t:Oslo t:in t:Norway .")
    assert with_facts(Graph.of([("Oslo", "in", "Norway")]), load(tmp_path / "plain.ttl"))[1:3] == (
        0,
        1,
    )
    # of which Tacit writes one alone
    (tmp_path / "other.nt").write_text("<tacit:a,b> <tacit:r> <tacit:a%2Cb> .\n")
    assert load(tmp_path / "other.nt").entities.labels == ["<tacit:a,b>", "a,b"]
    (tmp_path / "hand.ttl").write_text(
        "@prefix : <tacit:> . :Z\u00fcrich :in <tacit:a,b/c> .", encoding="utf-8"
    )
    assert load(tmp_path / "hand.ttl").entities.labels == ["Z\u00fcrich", "a,b/c"]


@pytest.mark.parametrize("extension", ["nt", "ttl"])
def test_plain_labels_beside_bare_ones_are_written_as_no_iri_that_is_none(
    tmp_path: Path, extension: str
) -> None:
    prefixes = Prefixes({"": "http://a.org/"})
    named = [("100%", "r", "a[1]"), ("x\x85y", "r", "50%25"), ("<http://[::1]/x>", "r", "\ufdd0")]
    write_scored(tmp_path / f"facts.{extension}", [(*fact, 0.5) for fact in named], prefixes)
    back = load(tmp_path / f"facts.{extension}")
    terms = [[n_triples(label, prefixes) for label in fact] for fact in named]
    assert [
        [
            n_triples(label, back.prefixes)
            for label in (back.entities[h], back.relations[r], back.entities[t])
        ]
        for h, r, t in back.facts()
    ] == terms
    assert terms[1][2] == "<http://a.org/50%25>"
    assert terms[2][0] == "<http://[::1]/x>"


@pytest.mark.parametrize("extension", ["nt", "ttl"])
def test_half_a_surrogate_pair_is_an_error_that_names_the_label(
    tmp_path: Path, extension: str
) -> None:
    for label in ("x\ud800", "a:\ud800", '"\ud800"'):
        with pytest.raises(DataError, match=r"^label '.*\\ud800\"?' has half a surrogate pair"):
            write_scored(
                tmp_path / f"facts.{extension}",
                [(label, "r", "b", 0.5)],
                Prefixes({"a": "http://a.b/"}),
            )
    assert not any(tmp_path.iterdir())


def test_terms_of_a_graph_without_namespaces_are_written_as_what_they_are(tmp_path: Path) -> None:
    lines = ['<urn:a> <urn:p> "Oslo" .', "_:b <urn:p> <urn:a> ."]
    (tmp_path / "in.nt").write_text("\n".join(lines) + "\n")
    graph = load(tmp_path / "in.nt", literals=True)
    facts = [
        (graph.entities[h], graph.relations[r], graph.entities[t], 1.0)
        for h, r, t in graph.train.tolist()
    ]
    write_scored(tmp_path / "out.nt", facts, graph.prefixes)
    assert (tmp_path / "out.nt").read_text().splitlines() == lines


@pytest.mark.parametrize("label", ['"Weird Al" Yankovic', '"Oslo', '"', '"a"b"@en', "_:b 1", "_:"])
def test_names_that_begin_as_literals_and_blank_nodes_do_are_neither(
    tmp_path: Path, label: str
) -> None:
    import pyoxigraph

    prefixes = Prefixes({"geo": "http://example.org/geo/"})
    write_scored(tmp_path / "out.nt", [("geo:a", "geo:p", label, 1.0)], prefixes)
    (quad,) = pyoxigraph.parse(path=tmp_path / "out.nt")
    assert quad.object == pyoxigraph.NamedNode(f"tacit:{quote(label, safe='')}")
    assert term(label, prefixes) == {"type": "uri", "value": quad.object.value}
    assert label in load(tmp_path / "out.nt").entities
