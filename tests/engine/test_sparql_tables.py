"""Tables of SPARQL over predictions, against what their parts say one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tables import TableScorer
from tacit.engine.answers import tables
from tacit.engine.answers.answers import Answers
from tacit.engine.engine import Engine
from tacit.errors import LimitError, QueryError
from tacit.graph.graph import Graph
from tacit.query.sparql import known_graph
from tacit.query.sparql import tables as algebra

pytest.importorskip("rdflib")

PREFIX = (
    "PREFIX : <tacit:> PREFIX answer: <tacit:answer#> "
    "PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "
)
SCORED = "?x answer:score ?s ; answer:known ?k"
NAMES = ["a", "b", "c", "d", "e", "f"]
FACTS = [
    ("a", "p", "b"), ("b", "p", "c"), ("c", "q", "a"), ("c", "q", "d"), ("d", "q", "e"),
    ("e", "p", "f"), ("f", "q", "f"),
]  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> Engine:
    """Six entities, and random probabilities of every fact."""
    graph = Graph.of(FACTS).named({"b": ["Bee", "Beta"], "c": ["Bee"]})
    rng = np.random.default_rng(4)
    size = graph.num_entities
    scores = [rng.uniform(0.05, 0.95, (size, size)) for _ in range(2)]
    return Engine(graph, TableScorer(scores), calibration="sigmoid", search="exact")


def rows(answers: Answers) -> list[tuple[str, ...]]:
    return [tuple(answer.values[name] for name in answers.variables) for answer in answers]


def scores(answers: Answers) -> dict[tuple[str, ...], tuple[float, bool]]:
    values = [(pytest.approx(answer.score), answer.known) for answer in answers]
    return dict(zip(rows(answers), values, strict=True))


def test_optional_extends_every_answer_by_facts_and_changes_no_score(engine: Engine) -> None:
    """All answers stay, predicted ones too, in their order and with their scores."""
    plain = engine.ask(f"{PREFIX} SELECT ?x {{ :a :p ?x }} LIMIT 6")
    found = engine.ask(f"{PREFIX} SELECT ?x ?y {{ :a :p ?x OPTIONAL {{ ?x :q ?y }} }} LIMIT 100")
    assert (
        1 == sum(answer.known for answer in plain) < len(plain) == 5
    )  # p leads no entity to itself
    expected = [
        ((x, y), answer.score, answer.known)
        for answer in plain
        for x in [answer.entity]
        for y in [t for s, r, t in FACTS if (s, r) == (x, "q")] or [""]
    ]
    assert [row for row, _, _ in expected] == rows(found)
    assert [(a.score, a.known) for a in found] == [(pytest.approx(s), k) for _, s, k in expected]
    few = engine.ask(
        f"{PREFIX} SELECT ?x ?y {{ :a :p ?x OPTIONAL {{ ?x :q ?y }} }} LIMIT 3 OFFSET 2"
    )
    assert rows(few) == rows(found)[2:5]
    assert (few.offset, few.cut_by) == (2, "LIMIT")


def test_without_limit_rows_are_known_or_likely(engine: Engine) -> None:
    found = engine.ask(f"{PREFIX} SELECT ?x ?n {{ :a :p ?x . ?x rdfs:label ?n }}")
    every = engine.ask(f"{PREFIX} SELECT ?x {{ :a :p ?x }} LIMIT 6")
    listed = [answer for answer in every if answer.known or answer.score >= 0.5]
    assert 1 < len(listed) < len(every)
    names = engine.graph.names
    assert rows(found) == [(a.entity, n) for a in listed for n in names.get(a.entity, [a.entity])]
    least = sorted(answer.score for answer in every)[1]
    text = f"SELECT ?x ?n {{ :a :p ?x . ?x rdfs:label ?n ; answer:score ?s FILTER(?s >= {least}) }}"
    passed = {answer.entity for answer in every if answer.score >= least}
    assert {x for x, _ in rows(engine.ask(PREFIX + text))} == passed
    assert len(passed) == 4


def test_limit_goes_on_until_enough_answers_have_the_facts(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst answer of all is the only one that leads to `a` by facts."""
    query = f"{PREFIX} SELECT ?x {{ :b :p ?x . ?x :q+ :a }} LIMIT 1"
    every = engine.ask(f"{PREFIX} SELECT ?x {{ :f :q ?x }} LIMIT 6")
    worst = every[-1].entity
    text = f"{PREFIX} SELECT ?x {{ :f :q ?x . ?x :p?/:q? ?y FILTER(?x = :{worst}) }} LIMIT 1"
    assert rows(engine.ask(text)) == [(worst,)]
    assert rows(engine.ask(query)) == [("c",)]
    monkeypatch.setattr(tables, "MAX_ANSWERS", 2)
    found = f"{PREFIX} SELECT ?x {{ :f :q ?x FILTER(STRENDS(STR(?x), '{worst}')) }} LIMIT 1"
    with pytest.raises(LimitError, match=r"of the 2 best answers, 0 fit .* leave LIMIT out"):
        engine.ask(found)


def test_steps_of_a_path_are_predicted_where_a_formula_says_them(engine: Engine) -> None:
    found = scores(engine.ask(f"{PREFIX} SELECT ?x {{ :a :p/:q+ ?x }} LIMIT 100"))
    first = {a.entity: a for a in engine.ask(f"{PREFIX} SELECT ?x {{ :a :p ?x }} LIMIT 6")}
    reached = {x: {x} for x in NAMES}
    for _ in NAMES:
        for x, (s, r, o) in product(NAMES, FACTS):
            if r == "q" and s in reached[x]:
                reached[x].add(o)
    expected: dict[tuple[str, ...], float] = {}
    for start, answer in first.items():
        steps = {o for s, r, o in FACTS if r == "q" and s == start}
        for end in {z for o in steps for z in reached[o]}:
            expected[end,] = max(expected.get((end,), 0.0), answer.score)
    assert {row: score for row, (score, _) in found.items()} == expected


def test_alternatives_that_bind_different_variables_are_questions_of_their_own(
    engine: Engine,
) -> None:
    found = engine.ask(f"{PREFIX} SELECT ?x ?y {{ {{ :a :p ?x }} UNION {{ :c :q ?y }} }} LIMIT 100")
    left = engine.ask(f"{PREFIX} SELECT ?x {{ :a :p ?x }} LIMIT 6")
    right = engine.ask(f"{PREFIX} SELECT ?x {{ :c :q ?x }} LIMIT 6")
    expected = {(a.entity, ""): (a.score, a.known) for a in left}
    expected |= {("", a.entity): (a.score, a.known) for a in right}
    assert scores(found) == expected
    known = [answer.known for answer in found]
    assert known == sorted(known, reverse=True)
    assert sum(known) == 3


def test_values_echo_terms_that_are_unknown(engine: Engine) -> None:
    text = (
        f"{PREFIX} SELECT * {{ ?x :p :b }} LIMIT 9 VALUES (?x ?who) "
        "{ (:a <http://local/ann>) (:c <http://local/bob>) (<http://local/ann> :a) }"
    )
    found = engine.ask(text)
    expected = {
        (x, who): (a.score, a.known)
        for x, who in (("a", "http://local/ann"), ("c", "http://local/bob"))
        for a in engine.ask(f": p({x}, b)")
    }
    assert scores(found) == expected
    assert not any("ann" in note and "relation" in note for note in found.unknown)


def test_new_leaves_out_what_is_known(engine: Engine) -> None:
    text = f"{PREFIX} SELECT ?x ?n {{ :a :p ?x . ?x rdfs:label ?n }} LIMIT 100"
    every = engine.ask(text)
    assert scores(engine.ask(text, new=True)) == {
        row: each for row, each in scores(every).items() if not each[1]
    }
    filtered = text.replace("?n }", f"?n . {SCORED} FILTER(!?k) }}")
    assert rows(engine.ask(filtered)) == rows(engine.ask(text, new=True))
    assert len(engine.ask(f"{PREFIX} SELECT ?p ?o {{ :a ?p ?o }}", new=True)) == 0


def test_yes_or_no_and_counts(engine: Engine) -> None:
    likely = engine.ask(f"{PREFIX} ASK {{ :a :p ?x . ?x :q* :e }}")
    best = max(
        answer.score
        for answer in engine.ask(f"{PREFIX} SELECT ?x {{ :a :p ?x }} LIMIT 6")
        if answer.entity in "cde"
    )
    assert (likely.truth == "yes") == (best >= 0.5)
    assert engine.ask(f"{PREFIX} ASK {{ :a :p+/:q+ :e }}").truth == "yes"
    assert engine.ask(f"{PREFIX} ASK {{ :d :p+ ?x }}").truth == "no"
    counts = engine.ask(
        f"{PREFIX} SELECT (COUNT(*) AS ?n) (COUNT(DISTINCT ?x) AS ?m) {{ ?x :q ?y }}"
    )
    assert counts[0].values == {"n": "4", "m": "3"}
    named = engine.ask(f"{PREFIX} SELECT (COUNT(*) AS ?n) {{ ?x rdfs:label 'Bee' }}")
    assert named[0].values == {"n": "2"}


def test_a_name_stands_for_the_entities_that_have_it(engine: Engine) -> None:
    one = engine.ask(f"{PREFIX} SELECT ?x {{ ?y rdfs:label 'Beta' . ?y :p ?x }} LIMIT 6")
    assert scores(one) == scores(engine.ask(f"{PREFIX} SELECT ?x {{ :b :p ?x }} LIMIT 6"))
    two = engine.ask(f"{PREFIX} SELECT ?x {{ ?x rdfs:label 'Bee'@en ; :q :f }} LIMIT 6")
    assert {x for (x,) in rows(two)} == {"b", "c"}
    nobody = engine.ask(f"{PREFIX} SELECT ?x {{ ?x rdfs:label 'Bumble' ; :q :f }} LIMIT 6")
    assert len(nobody) == 0


@pytest.mark.parametrize(
    ("query", "limit", "words"),
    [
        ("SELECT * { ?x ?p ?y . ?z ?r ?w }", (algebra, "MAX_ROWS", 50), "more than 50 solutions"),
        ("SELECT * { ?x :p+ ?y }", (known_graph, "MAX_FACTS", 3), "looks at more than 3"),
        (
            "SELECT * { { ?x :p ?y OPTIONAL { ?x :q ?z } } { ?v :p ?w OPTIONAL { ?v :q ?z } } }",
            (algebra, "MAX_PAIRS", 4),
            "compares more than 4 pairs",
        ),
        ("SELECT ?x ?n { ?x :p ?y . ?x rdfs:label ?n }", (tables, "MAX_ANSWERS", 2), "more than 2"),
    ],
)
def test_what_is_too_large_is_an_error(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    limit: tuple[object, str, int],
    words: str,
) -> None:
    monkeypatch.setattr(*limit)
    with pytest.raises(LimitError, match=words):
        engine.ask(PREFIX + query)


def test_doors_for_one_formula_say_that_this_is_none(engine: Engine) -> None:
    text = f"{PREFIX} SELECT ?p ?o {{ :a ?p ?o }}"
    for call in (engine.prepare, engine.count, engine.describe):
        with pytest.raises(QueryError, match="no single formula"):
            call(text)
    with pytest.raises(QueryError, match="reasons are given for the answers to one formula"):
        engine.explain(text)
    many = engine.ask_many([text, "?x : p(a, ?x)", f"{PREFIX} ASK {{ :a :p+ :c }}"])
    assert [answers.kind for answers in many] == ["tuples", "entities", "truth"]
    assert rows(many[0])[1:] == [("p", "b")]
