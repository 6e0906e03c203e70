"""What the SPARQL endpoint lists where a query has no LIMIT."""

from __future__ import annotations

import json
from urllib.parse import unquote

import numpy as np
import pytest

from served_graphs import SPEAKS, open_europe
from tables import TableScorer
from tacit.engine.engine import Engine
from tacit.graph.graph import Graph
from tacit.server.schemas import AnswersReply
from tacit.server.settings import Limits
from tacit.server.workers.answering import Answerer
from tacit.server.workers.jobs import Job

pytest.importorskip("rdflib")

PREFIXES = "PREFIX : <tacit:> PREFIX answer: <tacit:answer#> "


def answered(query: str, limits: Limits | None = None, engine: Engine | None = None) -> list[str]:
    """Return the first column of results without a service, or the error message."""
    (reply,) = Answerer(engine or open_europe(), limits or Limits()).replies(
        [Job("sparql", PREFIXES + query)]
    )
    data = json.loads(reply.body)
    if reply.status != 200:
        return [data["error"]["message"]]
    return [
        unquote(row[data["head"]["vars"][0]]["value"]).removeprefix("tacit:")
        for row in data["results"]["bindings"]
    ]


def test_without_limit_come_the_answers_that_are_likely() -> None:
    query = "SELECT ?c { :France :borders ?c . ?c answer:score ?s "
    every = answered(query + "} LIMIT 1000")
    likely = [
        answer.entity
        for answer in open_europe().ask("?c : borders(France, ?c)", top=100)
        if answer.score >= 0.5
    ]
    assert likely == every[:3] == ["Spain", "Italy", "Germany"]
    assert answered(query + "}") == likely
    assert answered(query + "} OFFSET 1") == likely[1:]
    for all_of_them in ("?s >= 0.0", "?s > 0.0", "?s > -1"):
        assert answered(query + f"FILTER({all_of_them}) }}") == every
    assert set(answered("SELECT ?a ?b { ?a :speaks ?b }")) == {name for name, _ in SPEAKS}
    assert "more than 2 answers; ask for them in parts" in answered(query + "}", Limits(top=2))[0]
    assert answered(query + "} LIMIT 2", Limits(top=2)) == likely[:2]


def test_tables_list_the_same_answers_with_what_is_looked_up() -> None:
    table = "SELECT ?c ?l { :France :borders ?c OPTIONAL { ?c :speaks ?l } ?c answer:score ?s "
    plain = "SELECT ?c { :France :borders ?c . ?c answer:score ?s "
    for rest in ("}", "FILTER(?s >= 0.05) }", "FILTER(?s >= 0.0) }", "} LIMIT 4", "} OFFSET 2"):
        assert answered(table + rest) == answered(plain + rest)
    assert answered(table + "}") == ["Spain", "Italy", "Germany"]
    assert len(answered(table + "} LIMIT 1000")) > 5
    assert "more than 2 answers; ask for them in parts" in answered(table + "}", Limits(top=2))[0]


def test_the_number_expected_is_of_all_answers() -> None:
    graph = Graph.of([("a", "r", "b"), ("b", "r", "c")])
    engine = Engine(graph, TableScorer([np.full((3, 3), 0.25)]), calibration="sigmoid", loops=True)
    (expected,) = answered(
        "SELECT (SUM(?s) AS ?e) { :a :r ?c . ?c answer:score ?s }", engine=engine
    )
    # b is known; a and c are not, and worth their share of what a fact is.
    assert float(expected) == pytest.approx(1 + 2 * 0.25 * (1 - 2.0**-10))


def test_known_answers_come_whatever_they_score_and_a_list_that_is_cut_says_so() -> None:
    """`b` and `c` follow from the facts, though each is thought to be denied."""
    facts = [("a", "r", "b"), ("a", "r", "c"), ("d", "q", "e")]
    graph = Graph.of(facts)
    size = graph.num_entities
    tables = [np.full((size, size), 0.1), np.full((size, size), 0.8)]
    engine = Engine(graph, TableScorer(tables), calibration="sigmoid", loops=True)
    assert sorted(answered("SELECT ?x { :a :r ?x MINUS { :d :q ?x } }", engine=engine)) == [
        "b",
        "c",
    ]
    asking = Job("ask", "?x : r(a, ?x) & !q(d, ?x)", top=1)
    (reply,) = Answerer(engine, Limits()).replies([asking])
    fields = json.loads(reply.body)
    assert (fields["known_total"], fields["known_at_least"], fields["cut_by"]) == (2, False, "top")
    assert AnswersReply.model_validate(fields).known_total == 2
