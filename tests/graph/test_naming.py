"""Readable names of labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.engine.engine import Engine
from tacit.errors import DataError, UnknownName
from tacit.graph.datasets import load
from tacit.graph.formats.betae import write_betae
from tacit.graph.formats.fact_files import write_facts
from tacit.graph.graph import Graph
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.graph.split import split

NAMES = {
    "Q90": ("Paris", "City of Light"),
    "Q830149": ("Paris",),
    "Q64": ("Berlin",),
    "Q1": ("Q64", "Universe"),
}
CITIES = Vocabulary(["Q90", "Q64", "Q830149", "Q1", "Q2"], names=NAMES)


def test_a_name_that_one_entity_has_is_as_good_as_its_label() -> None:
    assert CITIES.id("City of Light") == CITIES.get("City of Light") == CITIES.id("Q90") == 0
    assert CITIES.id("Q64") == 1  # a label, whoever else is called so
    assert [CITIES.name(i) for i in range(5)] == ["Paris", "Berlin", "Paris", "Q64", "Q2"]
    assert CITIES.names["Q90"] == ("Paris", "City of Light")
    assert "Berlin" not in CITIES
    assert Vocabulary(["a"], names={"a": ["x", "x"], "b": ["y"]}).id("x") == 0


def test_a_single_name_is_not_taken_for_its_letters() -> None:
    graph = Graph.of([("Q90", "P36", "Q142")]).named({"Q90": "Paris", "Q142": ""})
    assert graph.names == {"Q90": ("Paris",)}


def test_an_ambiguous_name_is_an_error_that_lists_the_labels() -> None:
    assert CITIES.get("Paris") is None
    with pytest.raises(
        UnknownName, match=r"entity 'Paris' is ambiguous: 2 are called so; .*: 'Q90', 'Q830149'$"
    ):
        CITIES.id("Paris")
    many = Vocabulary([f"Q{i}" for i in range(12)], names={f"Q{i}": ["Atrium"] for i in range(12)})
    with pytest.raises(
        UnknownName, match=r"is ambiguous: 12 are called so; .*: 'Q0', .*, 'Q9', \.\.\.$"
    ) as caught:
        many.id("Atrium")
    assert caught.value.suggestions == tuple(f"Q{i}" for i in range(10))


def test_an_ambiguous_name_in_a_question_is_told_with_its_place() -> None:
    graph = Graph.of([("a1", "in", "Oslo"), ("a2", "in", "Bergen")]).named(
        {"a1": "Atrium", "a2": "Atrium"}
    )
    for question in ("?c : in(Atrium, ?c)", "PREFIX : <tacit:> SELECT ?c { :Atrium :in ?c }"):
        with pytest.raises(
            UnknownName, match=r"entity 'Atrium' is ambiguous at column .*: 'a1', 'a2'$"
        ) as caught:
            Engine.of_facts(graph).ask(question)
        assert caught.value.to_dict()["suggestions"] == ["a1", "a2"]
        assert caught.value.column == question.index("Atrium") + (1 if question[0] == "?" else 0)


def test_what_is_suggested_can_be_written() -> None:
    assert CITIES.nearest("berln") == ["Berlin"]
    assert CITIES.nearest("city-of-light") == ["City of Light"]
    assert CITIES.nearest("Pariss") == ["Q90", "Q830149"]
    assert CITIES.complete("ber") == ["Berlin"]
    assert CITIES.complete("light") == ["City of Light"]
    assert CITIES.complete("par") == ["Q90", "Q830149"]
    assert CITIES.complete("q") == ["Q1", "Q2", "Q64", "Q90", "Q830149"]


TURTLE = """
@prefix : <http://a.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> . @prefix schema: <https://schema.org/> .
:Q183 rdfs:label "Allemagne"@fr, "Germany"@EN, "Deutschland"@de, "Federal Republic"@en-GB ;
    :near :Q142 .
:Q142 schema:name "La France"@fr ; skos:prefLabel "France", " the\\n\\"Hexagon\\" " ;
    :near :Q183, :Q31 .
:near rdfs:label "is near"@en . :Q31 rdfs:label :Q142, "" . :Q99 rdfs:label "Nowhere" .
"""


def test_labels_of_rdf_are_names_and_no_facts(tmp_path: Path) -> None:
    (tmp_path / "g.ttl").write_text(TURTLE)
    graph = load(tmp_path / "g.ttl")
    assert graph.entities.labels == ["Q183", "Q142", "Q31"]
    assert graph.entities.names == {
        "Q183": ("Germany", "Federal Republic", "Allemagne", "Deutschland"),
        "Q142": ("France", 'the "Hexagon"', "La France"),
    }
    assert graph.relations.labels == ["near", "near^-1", "rdfs:label", "rdfs:label^-1"]
    assert graph.relations.names == {"near": ("is near",), "near^-1": ("is near^-1",)}
    assert len(graph.train) == 4
    assert graph.notes == ()
    french = load(tmp_path / "g.ttl", language="fr")
    assert [french.entities.name(i) for i in range(3)] == ["Allemagne", "La France", "Q31"]
    assert french.entities.id("Germany") == 0
    assert len(load(tmp_path / "g.ttl", literals=True).train) == 4


@pytest.mark.parametrize("write", [write_facts, write_betae])
def test_names_survive_splitting_writing_and_reading(tmp_path: Path, write) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "g.ttl").write_text(TURTLE)
    graph = split(load(tmp_path / "g.ttl"), 0.2, 0.2)
    write(graph, tmp_path / "out")
    again = load(tmp_path / "out")
    assert again.entities.names == graph.entities.names
    assert again.relations.names == graph.relations.names
    blank = Graph.of([("a", "r", "b")]).named(
        {"a": [" "], "b": ["", "Ben"], "r": ["knows"], "r^-1": [" "]}
    )
    write(blank, tmp_path / "out")
    assert load(tmp_path / "out").entities.names == {"b": ("Ben",)}  # what is blank is no name
    assert (
        load(tmp_path / "out").relations.names
        == blank.relations.names
        == {"r": ("knows",), "r^-1": ("knows^-1",)}
    )
    write(Graph.of([("a", "r", "b")]), tmp_path / "out")
    assert load(tmp_path / "out").entities.names == {}


def test_a_table_names_the_labels_of_any_graph(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text("Q90\tP36\tQ142\nhttp://a.org/x\tP36\tQ142\n")
    (tmp_path / "names.csv").write_text(
        "label,name\nQ90,Paris\nQ90,Lutetia\nP36,capital of\n<http://a.org/x>,X\nQ5,Y\n"
    )
    graph = load(tmp_path / "g.tsv", labels=tmp_path / "names.csv")
    assert graph.entities.names == {"Q90": ("Paris", "Lutetia"), "http://a.org/x": ("X",)}
    assert graph.relations.id("capital of^-1") == 1
    assert graph.notes == ("names.csv: 1 name of labels that the graph does not have skipped",)
    (tmp_path / "g.ttl").write_text(TURTLE)
    (tmp_path / "names.tsv").write_text("http://a.org/Q183\tBRD\nQ183\tGermany\n")
    assert load(tmp_path / "g.ttl", labels=tmp_path / "names.tsv").entities.names["Q183"] == (
        *("BRD", "Germany", "Federal Republic"),
        *("Allemagne", "Deutschland"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Q5\tY\n", "names.tsv: names no label of the graph; expected lines of label and name"),
        ("a\n", r"names.tsv, line 1: has 1 column; expected 2 \(label, name\) separated by tabs"),
        ("a\t\n", "names.tsv, line 1: the name is empty; expected label and name"),
    ],
)
def test_bad_tables_of_names_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "g.tsv").write_text("a\tr\tb\n")
    (tmp_path / "names.tsv").write_text(text)
    with pytest.raises(DataError, match=message):
        load(tmp_path / "g.tsv", labels=tmp_path / "names.tsv")
