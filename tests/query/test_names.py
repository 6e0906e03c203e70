"""Names in the text syntax: the labels of a graph that they stand for."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tacit.errors import TacitError, UnknownName
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import Prefixes
from tacit.query.plans.compile import compile_query
from tacit.query.question import bind
from tacit.query.text import locate, parse


def test_graphs_with_such_labels_are_asked() -> None:
    graph = Graph.of([("“Heroes”", "by", "Bowie"), ("L’Aquila", "in", "Italy")])
    assert bind(compile_query(parse('?x : by("“Heroes”", ?x)')), graph) == ([0], [0])
    assert bind(compile_query(parse("?x : in('L’Aquila', ?x)")), graph) == ([2], [2])


@pytest.mark.parametrize(
    "text",
    [
        "?c : <http://ex.org/borders>(<http://ex.org/France>, ?c)",
        "?c : ex:borders(<http://ex.org/France>, ?c)",
        "?c : <http://ex.org/borders>^-1(?c, ex:France)",
        '?c : "<http://ex.org/borders>"(ex:France, ?c)',
    ],
)
def test_full_iris_find_their_labels(text: str) -> None:
    facts = Graph.of(
        [("ex:France", "ex:borders", "ex:Spain"), ("ex:Spain", "ex:borders", "<urn:x>")]
    )
    graph = replace(facts, prefixes=Prefixes({"ex": "http://ex.org/"}))
    assert str(parse(str(parse(text)))) == str(parse(text))
    assert bind(compile_query(parse(text)), graph) == ([0], [0])
    assert bind(compile_query(parse("?c : ex:borders(?c, <urn:x>)")), graph) == ([2], [0])
    unknown = "unknown entity '<http://ex.org/Spian>' at column 18; did you mean 'ex:Spain'?"
    with pytest.raises(UnknownName, match=re.escape(unknown)):
        bind(compile_query(parse("?c : ex:borders( <http://ex.org/Spian>, ?c)")), graph)


@pytest.mark.parametrize(
    "iri", ["http://ex.org/France", "http://ex.org/a#b", "http://ex.org/?q=1", "http://ex.org/%C3"]
)
def test_an_iri_without_brackets_is_answered_with_what_works(iri: str) -> None:
    facts = Graph.of([("ex:France", "ex:in", "<http://ex.org/a#b>")])
    graph = replace(facts, prefixes=Prefixes({"ex": "http://ex.org/"}))
    with pytest.raises(TacitError, match=r"did you mean 'ex:|; a full IRI goes in angle brackets"):
        bind(compile_query(parse(f"?c : ex:in({iri}, ?c)")), graph)
    with pytest.raises(UnknownName, match=r"; did you mean 'ex:France'\?"):
        bind(compile_query(parse('?c : ex:in("http://ex.org/France", ?c)')), graph)


def test_iris_of_tables_are_labels_or_names_in_the_scheme() -> None:
    graph = Graph.of([("<http://a.b/x>", "r", "http://a.b/x"), ("New York", "r", "http://a.b/y")])
    for name, entity in [
        ("<http://a.b/x>", 0),
        ("'http://a.b/x'", 1),
        ("<tacit:New%20York>", 2),
        ("<http://a.b/y>", 3),
    ]:
        assert bind(compile_query(parse(f"?c : <tacit:r>({name}, ?c)")), graph) == (
            [entity],
            [0],
        ), name


GRAPH = Graph.of(
    [("France", "borders", "Spain"), ("New York", "part_of", "USA"), ("usa", "part_of", "US-A")]
)


def bound(text: str) -> tuple[list[int], list[int]]:
    return bind(compile_query(parse(text)), GRAPH)


def test_names_are_matched_exactly_then_loosely() -> None:
    assert bound("?c : borders(France, ?c) & part_of(usa, ?c)") == ([0, 4], [0, 2])
    assert bound("?c : Borders(france, ?c) & 'Part Of'(new_york, ?c)") == ([0, 2], [0, 2])
    assert bound("?c : 'borders^-1'(Spain, ?c)") == ([1], [1])


@pytest.mark.parametrize(
    ("label", "typed"), [("Malmo\u0308", "Malm\u00f6"), ("\u00c5re", "a\u030are")]
)
def test_accents_are_the_same_in_either_form(label: str, typed: str) -> None:
    graph = Graph.of([("x", "r", label)])
    assert bind(compile_query(parse(f"?x : r(?x, '{typed}')")), graph)[0] == [1]


@pytest.mark.parametrize(
    ("labels", "names", "meant"),
    [
        # more than are suggested, some with accents
        (["a b", "á b", "à b", "A-B"], {}, {"a b", "A-B"}),
        # a name that two have
        (["A B", "q1", "q2"], {"q1": ["a-b"], "q2": ["a-b"]}, {"A B", "q1", "q2"}),
    ],
)
def test_a_name_that_several_may_have_is_refused(
    labels: list[str], names: dict[str, list[str]], meant: set[str]
) -> None:
    graph = Graph.of([("x", "r", label) for label in labels]).named(names)
    with pytest.raises(UnknownName, match="entity 'a_b' is ambiguous at column 12") as caught:
        bind(compile_query(parse("?x : r(?x, a_b)")), graph)
    assert set(caught.value.suggestions) == meant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "?c : boarders(France, ?c)",
            "unknown relation 'boarders' at column 6; did you mean 'borders'?",
        ),
        (
            "?c : borders(?c,\n 'Frence')",
            "unknown entity 'Frence' at line 2, column 2; did you mean 'France'?",
        ),
        (
            "?c : borders(Usa, ?c)",
            "entity 'Usa' is ambiguous at column 14: 2 are called so; write the label",
        ),
        ("?c : part_of^-1(borders, ?c)", "unknown entity 'borders' at column 17"),
    ],
)
def test_an_unknown_or_ambiguous_name_is_located(text: str, message: str) -> None:
    with pytest.raises(UnknownName) as caught:
        bound(text)
    assert str(caught.value).startswith(message)


def test_a_name_is_located_by_its_role() -> None:
    assert locate("?a : a(b, ?a) & a(a, ?a)", "entity", "a") == (1, 19)
    assert locate("?a : p(b, ?a)", "entity", "a") is None
