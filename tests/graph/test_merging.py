"""Facts joined to a graph or taken out of it, against sets of label triples."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seeds import seeds
from tacit.errors import DataError, UnknownName
from tacit.graph.datasets import load
from tacit.graph.graph import SPLITS, Graph
from tacit.graph.labels.prefixes import Prefixes, n_triples
from tacit.graph.merging import join_graphs, with_facts, without_facts

GRAPH = Graph.of([("a", "r", "b"), ("b", "s", "c")], [("c", "r", "a")], [("a", "s", "c")], "four")


def labelled(graph: Graph, *splits: str) -> list[tuple[str, str, str]]:
    return [
        (graph.entities[h], graph.relations[r], graph.entities[t])
        for h, r, t in graph.facts(*splits).tolist()
    ]


@pytest.mark.parametrize("seed", seeds(20))
def test_facts_come_and_go_as_in_sets_of_labels(seed: int) -> None:
    draw = random.Random(seed)
    additions = [
        (draw.choice("abcdef"), draw.choice(["r", "s", "t", "r^-1"]), draw.choice("abcdef"))
        for _ in range(9)
    ]
    meant = {
        (t, r.removesuffix("^-1"), h) if r.endswith("^-1") else (h, r, t) for h, r, t in additions
    }
    before = set(labelled(GRAPH))
    more = with_facts(GRAPH, Graph.of(additions))
    assert set(labelled(more.graph)) == before | meant
    assert len(labelled(more.graph)) == len(before | meant)  # none twice
    assert (more.changed, more.unchanged) == (len(meant - before), len(meant & before))
    for split in SPLITS:  # ids stay, and so does what a fact is there for
        assert labelled(more.graph, split)[: len(GRAPH.split(split))] == labelled(GRAPH, split)
    assert more.graph.entities.labels[:3] == GRAPH.entities.labels
    assert more.graph.relations.labels[:4] == GRAPH.relations.labels
    assert more.graph.relations.labels[1::2] == [
        label + "^-1" for label in more.graph.relations.labels[0::2]
    ]
    less = without_facts(more.graph, Graph.of([*additions, ("nobody", "r", "a")]))
    assert set(labelled(less.graph)) == before - meant
    assert (less.changed, less.unchanged) == (len(meant), 1)
    assert less.graph.entities == more.graph.entities


def test_names_are_read_as_in_questions_and_come_along() -> None:
    graph = GRAPH.named({"a": ["Anna"], "b": ["Bob"], "c": ["Bob"], "r": ["likes"]})
    more = Graph.of([("Anna", "likes^-1", "d")]).named({"d": ["Dora"], "Anna": ["Annie"]})
    merged = with_facts(graph, more)
    assert labelled(merged.graph, "train")[-1] == ("d", "r", "a")
    entities = merged.graph.entities
    assert (entities.names["d"], entities.names["a"]) == (("Dora",), ("Anna", "Annie"))
    assert merged.graph.relations.name(1) == "likes^-1"
    twice = Graph.of([("a", "r", "b"), ("Anna", "r", "b"), ("a", "s", "a"), ("Anna", "likes", "a")])
    assert with_facts(graph, twice)[1:3] == (2, 1)
    assert without_facts(
        graph, Graph.of([("a", "r", "b"), ("Anna", "likes", "b"), ("x", "r", "b")])
    )[1:3] == (1, 1)
    with pytest.raises(
        DataError, match="entity 'Bob' is the name of 'b' and 'c'; write the label instead"
    ):
        with_facts(graph, Graph.of([("Bob", "r", "a")]))


def test_iris_are_the_same_whatever_their_prefixes(tmp_path: Path) -> None:
    (tmp_path / "one.ttl").write_text("@prefix g: <http://a.org/geo#> . g:Oslo g:in g:Norway .")
    (tmp_path / "two.ttl").write_text(
        "@prefix x: <http://a.org/geo#> . @prefix g: <http://b.org/> . x:Oslo x:in g:Norway . "
        "g:Oslo g:in x:Norway ."
    )
    merged = with_facts(load(tmp_path / "one.ttl"), load(tmp_path / "two.ttl")).graph
    assert labelled(merged) == [
        ("g:Oslo", "g:in", "g:Norway"),
        ("g:Oslo", "g:in", "g2:Norway"),
        ("g2:Oslo", "g2:in", "g:Norway"),
    ]
    assert [merged.iri(label) for label in ("g:Oslo", "g2:Oslo")] == [
        "http://a.org/geo#Oslo",
        "http://b.org/Oslo",
    ]
    whole = Graph.of([("http://a.org/geo#Oslo", "g:in", "<http://a.org/geo#Norway>")])
    assert with_facts(merged, whole)[1:3] == (0, 1)


def test_added_files_come_in_as_files_read_together_do(tmp_path: Path) -> None:
    """Blank nodes are of their file, and types of literals have its prefixes."""
    for name, prefix in (("one", "xsd"), ("two", "t")):
        (tmp_path / f"{name}.ttl").write_text(
            f"@prefix {prefix}: <http://www.w3.org/2001/XMLSchema#> . @prefix : <http://a.org/> .\n"
            f":{name} :has _:x . _:x :size '{len(prefix)}'^^{prefix}:byte . :{name} :year "
            f"'1984'^^{prefix}:gYear ."
        )
    one, two = (load(tmp_path / f"{name}.ttl", literals=True) for name in ("one", "two"))
    merged = with_facts(one, two)
    assert labelled(merged.graph) == labelled(join_graphs([one, two], "both"))
    assert len(merged.graph.entities) == len(
        {"one", "two", "_:x of one", "_:x of two", "3", "1", "1984"}
    )
    assert (
        without_facts(merged.graph, Graph.of([("two", "year", '"1984"^^xsd:gYear')])).changed == 1
    )
    # a blank node has no name by which to remove it
    assert without_facts(merged.graph, two)[1:3] == (1, 2)
    named = [("_:b1", "size", "big")]
    assert labelled(with_facts(one, Graph.of(named), apart=False).graph)[-1:] == named


def test_no_prefix_that_comes_along_takes_the_label_of_an_iri_away(tmp_path: Path) -> None:
    obo = "http://purl.obolibrary.org/obo/"
    many = [f"http://n{i}.org/" for i in range(101)]
    lines = [
        f"<{obo}GO_1> <{obo}part_of> <{obo}GO_2> .",
        *(f"<{n}a> <{n}r> <{n}b> ." for n in many),
    ]
    (tmp_path / "one.nt").write_text("\n".join(lines))
    declared = f"@prefix GO: <{obo}GO_> . @prefix h: <{obo}HP_> . @prefix last: <{many[-1]}> ."
    (tmp_path / "two.ttl").write_text(f"{declared} GO:3 h:r GO:1 . last:a last:r last:c .")
    graph = load(tmp_path / "one.nt")
    more = load(tmp_path / "two.ttl")
    whole = [
        *lines,
        f"<{obo}GO_3> <{obo}HP_r> <{obo}GO_1> .",
        f"<{many[-1]}a> <{many[-1]}r> <{many[-1]}c> .",
    ]
    merged = with_facts(graph, more).graph
    terms = [
        " ".join(n_triples(label, merged.prefixes) for label in fact) + " ."
        for fact in labelled(merged)
    ]
    assert set(terms) == set(whole)
    assert merged.entities.labels[: graph.num_entities] == graph.entities.labels
    assert "h:r" in merged.relations  # nothing stood in the way of this one


@pytest.mark.parametrize("text", ['"^^_:b', '5"^^xsd:int', '"^^a:b"@en'])
def test_a_literal_that_quotes_a_type_has_none(tmp_path: Path, text: str) -> None:
    literal = '"' + text.replace('"', '\\"') + '"'
    for name, subject in (("one", "a"), ("two", "b")):
        (tmp_path / f"{name}.nt").write_text(
            f"<http://a.org/{subject}> <http://a.org/r> {literal} .\n"
        )
    one, two = (load(tmp_path / name, literals=True) for name in ("one.nt", "two.nt"))
    for both in (with_facts(one, two).graph, load([one, two])):
        assert both.entities.labels == ["a:a", literal, "a:b"]


def test_no_prefix_makes_an_iri_of_a_plain_label() -> None:
    plain = Graph.of([("Oslo", "in", "Norway")])
    bare = replace(Graph.of([("Bergen", "in", "Norway")]), prefixes=Prefixes({"": "http://a.org/"}))
    merged = with_facts(plain, bare).graph
    assert labelled(merged)[1] == ("a:Bergen", "in", "Norway")
    assert merged.iri("Oslo") is None


def test_what_is_not_there_cannot_be_removed() -> None:
    with pytest.raises(UnknownName, match="unknown relation 'q'"):
        without_facts(GRAPH, Graph.of([("a", "q", "b")]))
    with pytest.raises(DataError, match="four has no such fact"):
        without_facts(GRAPH, Graph.of([("b", "r", "a")]))
    everything = without_facts(GRAPH, GRAPH).graph
    assert len(everything.facts()) == 0
    assert everything.index().tails(0, 0).tolist() == np.array([]).tolist()


def test_columns_in_another_order_are_not_added() -> None:
    graph = Graph.of([("France", "borders", "Spain"), ("Spain", "speaks", "Spanish")], name="small")
    for fact in (("Italy", "France", "borders"), ("borders", "France", "Portugal")):
        with pytest.raises(
            DataError, match="'France' of small for its relation, and the relation 'borders' at"
        ):
            with_facts(graph, Graph.of([("Italy", "speaks", "Italian"), fact]))
    # Facts about relations, and relations that entities have the names of, are facts like others.
    for fact in (("borders", "kind_of", "speaks"), ("Italy", "France", "Rome")):
        assert with_facts(graph, Graph.of([fact])).changed == 1


def test_a_label_that_is_there_as_it_is_written_is_meant() -> None:
    """A table may have an IRI with angle brackets and without."""
    graph = Graph.of([("http://a.org/x", "r", "b"), ("<http://a.org/x>", "r", "c")])
    added = with_facts(
        graph, Graph.of([("http://a.org/x", "r", "d"), ("<http://a.org/x>", "r", "e")])
    ).graph
    assert labelled(added)[2:] == [("http://a.org/x", "r", "d"), ("<http://a.org/x>", "r", "e")]
    left = without_facts(added, Graph.of([("http://a.org/x", "r", "b")])).graph
    assert labelled(left) == labelled(added)[1:]


def test_statements_of_rdf_may_speak_of_relations(tmp_path: Path) -> None:
    facts = tmp_path / "facts.nt"
    about = tmp_path / "about.nt"
    facts.write_text("<http://ex.org/a> <http://ex.org/q> <http://ex.org/p> .\n")
    about.write_text("<http://ex.org/q> <http://ex.org/p> <http://ex.org/c> .\n")
    merged = with_facts(load(facts), load(about))  # p was an entity alone, and q a relation
    assert labelled(merged.graph) == [("ex:a", "ex:q", "ex:p"), ("ex:q", "ex:p", "ex:c")]
