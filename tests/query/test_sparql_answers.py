"""SPARQL: what a query says of its answers, its columns, and what it cannot say of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tacit.errors import QueryError
from tacit.query.question import ParsedQuestion
from tacit.query.sparql.sparql import parse_sparql
from tacit.query.text import parse

pytest.importorskip("rdflib")

PREFIX = "PREFIX : <tacit:>\n"

SCORED = "SELECT ?c { :a :p ?c . ?c answer:score ?s ; answer:known ?k "
WANTED: dict[str, dict[str, object]] = {
    "SELECT ?c { :a :p ?c } LIMIT 7": {"limit": 7},
    "SELECT ?c { :a :p ?c } OFFSET 3": {"offset": 3},
    "SELECT ?c { :a :p ?c } OFFSET 0 LIMIT 0": {"limit": 0},
    "SELECT ?c { :a :p ?c VALUES ?c { :a :b } }": {"among": ("a", "b")},
    "SELECT ?c { { :a :p ?c } VALUES ?c { :b } } VALUES ?c { :a :b }": {"among": ("b",)},
    SCORED + "}": {},
    SCORED + "} ORDER BY DESC(?s) LIMIT 2": {"limit": 2, "by_score": True},
    SCORED + "} ORDER BY DESC(?k) DESC(?s)": {},
    SCORED + "FILTER(?s >= 0.5) }": {"min_score": 0.5},
    SCORED + "FILTER(0.25 <= ?s) FILTER(?s >= 0.125) }": {"min_score": 0.25},
    SCORED + "FILTER(?s > 0.5) }": {"min_score": 0.5000000000000001},
    SCORED + "FILTER(?s >= -1) }": {"min_score": 5e-324},
    SCORED + "FILTER(?k) }": {"known": True},
    SCORED + "FILTER(!?k && ?s >= 5e-1) }": {"known": False, "min_score": 0.5},
    SCORED + "FILTER(?k = false) }": {"known": False},
    SCORED + "FILTER(?k != false && (true = ?k)) FILTER EXISTS { ?c :p :a } }": {"known": True},
}


@pytest.mark.parametrize("text", WANTED)
def test_reads_which_answers_are_wanted(text: str) -> None:
    reading = parse_sparql(PREFIX + "PREFIX answer: <tacit:answer#> " + text)
    expected = "?c : p(a, ?c) & p(?c, a)" if "EXISTS" in text else "?c : p(a, ?c)"
    assert replace(reading, columns=()) == ParsedQuestion(parse(expected), **WANTED[text])


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT ?d ?c { ?c :p ?d }", [("d", "value", ""), ("c", "value", "")]),
        (
            "SELECT * { ?c answer:score ?s . ?d :p ?c }",
            [("c", "value", ""), ("s", "score", ""), ("d", "value", "")],
        ),
        (
            "SELECT ?k ?s ?c { ?c answer:known ?k ; answer:score ?s ; :p :a }",
            [("k", "known", ""), ("s", "score", ""), ("c", "value", "")],
        ),
        ("SELECT ?c ?d { ?c :p ?d } VALUES ?d { :a }", [("c", "value", ""), ("d", "value", "a")]),
        ("SELECT (COUNT(?c) AS ?n) { ?c :p :a }", [("n", "count", "c")]),
        (
            "SELECT (COUNT(DISTINCT ?c) AS ?n) (SUM(?s) AS ?e) { ?c :p :a ; answer:score ?s }",
            [("n", "count", "c"), ("e", "expected", "c")],
        ),
        ("ASK { ?c :p :a }", []),
    ],
)
def test_reads_the_columns(text: str, columns: list[tuple[str, str, str]]) -> None:
    assert list(parse_sparql(PREFIX + "PREFIX answer: <tacit:answer#> " + text).columns) == columns


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        (
            "SELECT ?x { ?x :p :a ; answer:score ?s } ORDER BY ?s",
            42,
            "ORDER BY of anything but values of attributes and DESC",
        ),
        (
            "SELECT ?x { ?x :p :a ; answer:score ?s } ORDER BY DESC(?x)",
            42,
            "ORDER BY of anything but values of attributes and DESC",
        ),
        (
            "SELECT ?x { ?x :p :a ; answer:score ?s FILTER(?s < 0.5) }",
            40,
            "compares a score by > or >=",
        ),
        (
            "SELECT ?x { ?x :p :a ; answer:score ?s FILTER(?s > 0.5 || EXISTS { ?x :q :a }) }",
            40,
            "FILTER of its own",
        ),
        (
            "SELECT ?x { ?x :p :a ; answer:score ?s FILTER(?s > ?x) }",
            40,
            "compares a score by > or >=",
        ),
        ("SELECT ?x { ?x :p :a ; answer:score ?s FILTER(?s > 1) }", 40, "no score is above 1"),
        (
            "SELECT ?x { ?x :p :a ; answer:known ?k FILTER(?k) FILTER(!?k) }",
            None,
            "both known and predicted",
        ),
        ("SELECT ?x { ?x :p :a ; answer:known true }", 24, "between two variables"),
        ("SELECT ?x { ?x :p :a ; answer:rank ?s }", 24, "answer:rank says nothing of entities"),
        ("SELECT ?x { ?x :p :a { ?x answer:score ?s } }", 27, "in the outermost braces"),
        ("SELECT ?x { ?x :p :a ; ^answer:score ?s }", 25, "in the outermost braces"),
        ("SELECT ?x { ?x :p ?y . ?y answer:score ?s }", 19, "a variable that is not selected"),
        ("ASK { ?x :p :a ; answer:score ?s }", 7, "a variable that is not selected"),
        ("SELECT ?x { ?x :p ?s ; answer:score ?s }", 19, "can be nothing else"),
        ("SELECT ?x { ?x :p :a ; answer:score ?s MINUS { ?x :q ?s } }", 37, "can be nothing else"),
        ("SELECT ?x { ?x :p :a ; answer:score ?s, ?t }", 41, "not the only variable"),
        ("SELECT ?s { ?x :p :a ; answer:score ?s }", 1, "no variable of an entity"),
        ("SELECT * { :a :p [] }", 1, "no variable of an entity"),  # which is no ASK
        (
            "SELECT (COUNT(?x) AS ?n) { ?x :p :a ; answer:score ?s FILTER(?s > 0.5) }",
            55,
            "what is counted",
        ),
    ],
)
def test_refuses_what_cannot_be_said_of_answers(text: str, column: int | None, words: str) -> None:
    with pytest.raises(QueryError, match=words) as caught:
        parse_sparql(PREFIX + "PREFIX answer: <tacit:answer#>\n" + text)
    assert caught.value.column == column
    assert caught.value.line == (3 if column else None)
