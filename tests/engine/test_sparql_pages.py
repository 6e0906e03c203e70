"""The answers a SPARQL query asks for, against a list worked out by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tables import TableScorer
from tacit.engine.answers.answers import LIKELY
from tacit.engine.engine import Engine
from tacit.errors import QueryError
from tacit.graph.graph import Graph

pytest.importorskip("rdflib")

SIZE = 5
FACT = 1 - 2.0**-10
NAMES = [f"e{i}" for i in range(SIZE)]
RANDOM = np.random.default_rng(7)
TABLES = [RANDOM.random((SIZE, SIZE)).round(2) * 0.9 + 0.05 for _ in "pqr"]
KNOWN = [RANDOM.random((SIZE, SIZE)) < 0.2 for _ in "pqr"]
for held in KNOWN:
    held[3, 3] = True  # so that loops are possible
KNOWN[1][0, 2], KNOWN[2][0, 2] = True, False
GRAPH = Graph.of(
    [
        (NAMES[s], name, NAMES[o])
        for name, held in zip("pqr", KNOWN, strict=True)
        for s, o in np.argwhere(held)
    ]
)
# A prediction is worth its share of what a fact is, and so always less.
SCORES = [np.where(held, FACT, table * FACT) for held, table in zip(KNOWN, TABLES, strict=True)]
P, Q, _ = SCORES
Row = tuple[tuple[str, ...], float, bool]

QUESTIONS: dict[str, list[Row]] = {
    "?a ?b { ?a :p ?b": [
        ((NAMES[a], NAMES[b]), P[a, b], bool(KNOWN[0][a, b]))
        for a, b in product(range(SIZE), repeat=2)
    ],
    "?a ?b { ?a :p ?b MINUS { ?a :q ?b }": [
        ((NAMES[a], NAMES[b]), P[a, b] * (1 - Q[a, b]), bool(KNOWN[0][a, b] and not KNOWN[1][a, b]))
        for a, b in product(range(SIZE), repeat=2)
    ],
    "?x { :e0 :p ?x": [((NAMES[x],), P[0, x], bool(KNOWN[0][0, x])) for x in range(SIZE)],
    "?x { VALUES ?x { :e4 :e0 :e1 :e3 } :e0 :p ?x": [
        ((NAMES[x],), P[0, x], bool(KNOWN[0][0, x])) for x in (0, 1, 3, 4)
    ],
    "?x { ?y :p ?x MINUS { ?x :q :e1 } VALUES ?y { :e0 :e2 }": [
        ((NAMES[x],), (P[0, x] + P[2, x] - P[0, x] * P[2, x]) * (1 - Q[x, 1]), known)
        for x in range(SIZE)
        for known in [bool((KNOWN[0][0, x] or KNOWN[0][2, x]) and not KNOWN[1][x, 1])]
    ],
    "?r { :e0 ?r :e2": [
        ((name,), scores[0, 2], bool(held[0, 2]))
        for name, scores, held in zip("pqr", SCORES, KNOWN, strict=True)
    ],
}


@pytest.fixture(scope="module")
def engine() -> Engine:
    order = [NAMES.index(name) for name in GRAPH.entities.labels]
    scorer = TableScorer([table[np.ix_(order, order)] for table in TABLES])
    return Engine(GRAPH, scorer, calibration="sigmoid", search="exact")


def sort_key(row: Row) -> tuple[float, list[int]]:
    """By falling score, then by ids."""
    return -row[1], [
        (GRAPH.entities if name in GRAPH.entities else GRAPH.relations).id(name) for name in row[0]
    ]


def listed(
    engine: Engine, question: str, filters: str = "", page: str = "", top: int = 1000
) -> list[Row]:
    subject = question.split()[0]
    text = f"PREFIX : <tacit:> PREFIX answer: <tacit:answer#> SELECT {question} . "
    text += f"{subject} answer:score ?s ; answer:known ?k . {filters} }} {page}"
    text = text.replace("} . ", "} ")
    return [(tuple(a.values.values()), a.score, a.known) for a in engine.ask(text, top=top)]


def same(found: list[Row], expected: list[Row]) -> bool:
    return [
        (values, pytest.approx(score, abs=1e-5), known) for values, score, known in expected
    ] == found


@pytest.mark.parametrize("question", QUESTIONS)
def test_pages_scores_and_what_is_known(engine: Engine, question: str) -> None:
    rows = sorted(QUESTIONS[question], key=sort_key)
    # known ones go first but for negation
    every = sorted(rows, key=lambda row: not row[2] and "MINUS" not in question)
    assert same(listed(engine, question), every)
    for offset, limit in ((0, 2), (1, 1), (2, 7), (len(every), 3)):
        assert same(
            listed(engine, question, "", f"LIMIT {limit} OFFSET {offset}"),
            every[offset : offset + limit],
        )
    assert same(listed(engine, question, "", "OFFSET 1", top=2), every[1:3])
    for known, words in ((True, "FILTER(?k)"), (False, "FILTER(?k = false)")):
        chosen = [row for row in every if row[2] is known]
        assert same(listed(engine, question, words), chosen)
        assert same(listed(engine, question, words, "OFFSET 1 LIMIT 1"), chosen[1:2])
    # an exact one: a bound of its own excludes it or not
    (_, score, _) = listed(engine, question)[len(every) // 2]
    above = [row for row in every if row[1] > score + 1e-6]
    assert same(listed(engine, question, f"FILTER(?s > {score!r})"), above)
    assert len(listed(engine, question, f"FILTER(?s >= {score!r})")) > len(above)
    assert same(
        listed(engine, question, f"FILTER(?s > {score!r} && !?k)"),
        [row for row in above if not row[2]],
    )


def test_what_new_answers_leave_out_is_counted_among_the_values_given(engine: Engine) -> None:
    held = int(KNOWN[0].any(axis=0).argmax())  # some object of a fact
    for ids in ([held], [i for i in range(SIZE) if i != held]):
        values = " ".join(f":{NAMES[i]}" for i in ids)
        text = f"PREFIX : <tacit:> SELECT ?x {{ ?y :p ?x VALUES ?x {{ {values} }} }}"
        assert engine.with_settings(new=True).ask(text).left_out == KNOWN[0].any(axis=0)[ids].sum()


def test_a_count_is_of_the_answers_that_are_asked_for(engine: Engine) -> None:
    every = QUESTIONS["?x { :e0 :p ?x"]
    some = [row for row in every if row[0] in (("e2",), ("e3",))]
    assert {row[2] for row in every} == {True, False}
    for words, chosen in (
        ("", every),
        ("VALUES ?x { :e2 :e3 }", some),
        ("?x answer:known ?k FILTER(?k)", [row for row in every if row[2]]),
        ("?x answer:known ?k FILTER(!?k)", [row for row in every if not row[2]]),
    ):
        text = (
            f"PREFIX : <tacit:> PREFIX answer: <tacit:answer#> SELECT ?x {{ :e0 :p ?x . {words} }}"
        )
        known, expected = engine.count(text)
        assert known == sum(row[2] for row in chosen)
        assert expected == pytest.approx(sum(1 if row[2] else row[1] for row in chosen), rel=1e-5)
    with pytest.raises(QueryError, match="a count is of all answers; leave LIMIT and OFFSET out"):
        engine.count("PREFIX : <tacit:> SELECT ?x { :e0 :p ?x } LIMIT 2")


@pytest.mark.parametrize(
    ("query", "least"),
    [
        ("SELECT ?x { :e0 :p ?x }", LIKELY),
        ("SELECT ?x { :e0 :p ?x } OFFSET 1", LIKELY),
        ("SELECT ?x { :e0 :p ?x } LIMIT 3", 0.0),  # says how many
        ("SELECT ?x { :e0 :p ?x . ?x answer:score ?s FILTER(?s >= 0.2) }", 0.2),  # says how good
    ],
)
def test_what_says_neither_how_many_nor_how_good_has_likely_answers(
    engine: Engine, query: str, least: float
) -> None:
    question = engine.likely(
        engine.prepare(f"PREFIX : <tacit:> PREFIX answer: <tacit:answer#> {query}")
    )
    scores = sorted((P[0, x] for x in range(SIZE) if P[0, x] >= least), reverse=True)
    scores = scores[question.offset :][: question.limit]
    for top in (None, SIZE, "auto", "likely"):  # which cut nothing here
        assert [
            answer.score for answer in engine.ask(question, top=top).by_score()
        ] == pytest.approx(scores)


def test_one_result_is_of_all_answers(engine: Engine) -> None:
    for query in ("SELECT (COUNT(?x) AS ?n) { :e0 :p ?x }", "ASK { :e0 :p :e1 }"):
        question = engine.prepare(f"PREFIX : <tacit:> {query}")
        assert engine.likely(question) == question


def test_known_answers_are_listed_whatever_they_score(engine: Engine) -> None:
    """With negation a known answer may score below 0.5; lists without LIMIT hold it."""
    question = next(
        question for question in QUESTIONS if "MINUS" in question and question.startswith("?a ?b")
    )
    rows = sorted(QUESTIONS[question], key=sort_key)
    expected = [row for row in rows if row[2] or row[1] >= LIKELY]
    assert any(row[1] < LIKELY for row in expected)
    text = f"PREFIX : <tacit:> SELECT {question} }}"
    found = engine.ask(engine.likely(engine.prepare(text)), top=1000)
    assert same([(tuple(a.values.values()), a.score, a.known) for a in found], expected)
    assert (found.cut_by, found.known_total) == ("likely", sum(row[2] for row in rows))
