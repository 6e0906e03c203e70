"""Values of attributes in SPARQL where they are predicted: the scores and the cells of answers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from test_value_answers import ATTRIBUTES, Flat, engine, graph

from tacit.engine.answers.answers import Answers
from tacit.engine.engine import Engine
from tacit.errors import QueryError
from tacit.graph.attributes import Attributes
from tacit.graph.graph import Graph
from tacit.graph.quantities import Quantity
from tacit.server.sparql_results import CSV, XML, results, serialized

pytest.importorskip("rdflib")
XSD = "http://www.w3.org/2001/XMLSchema#"
PREFIX = f"PREFIX : <tacit:> PREFIX xsd: <{XSD}> PREFIX answer: <tacit:answer#> "
NEIGHBOURS = ":Brazil :borders ?c . ?c :population ?p"


def scores(answers: Answers) -> dict[str, tuple[float, bool]]:
    return {a.entity: (pytest.approx(a.score), a.known) for a in answers}


def cells(engine: Engine, text: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = results(
        engine.graph, engine.read(PREFIX + text), engine.ask(PREFIX + text)
    )["results"]["bindings"]
    return rows


def test_a_query_has_the_scores_of_the_same_question_in_the_text_syntax() -> None:
    asked = engine()
    for sparql, text in [
        ("?p < 1000000", "population(?c) < 1_000_000"),
        ("700000 <= ?p && 1000000 > ?p", "700_000 <= population(?c) < 1_000_000"),
        ("?p != 592000", "(population(?c) < 592_000 | population(?c) > 592_000)"),
        ("!(?p >= 1000000)", "population(?c) < 1_000_000"),
        ("?p IN (592000, 786000)", "(population(?c) = 592_000 | population(?c) = 786_000)"),
    ]:
        found = asked.ask(f"{PREFIX} SELECT ?c {{ {NEIGHBOURS} FILTER({sparql}) }} LIMIT 9")
        assert scores(found) == scores(asked.ask(f"?c : borders(Brazil, ?c) & {text}")), sparql
        assert len(found) > 1


def test_filters_on_a_value_are_one_range_wherever_they_stand() -> None:
    one = engine().ask(f"{PREFIX} SELECT ?c {{ {NEIGHBOURS} FILTER(?p > 6e5 && ?p < 9e5) }}")
    two = engine().ask(
        f"{PREFIX} SELECT ?c {{ FILTER(?p < 9e5) :Brazil :borders ?c FILTER(?p > 6e5) "
        "?c :population ?p }"
    )
    assert scores(one) == scores(two)
    chile = next(answer for answer in one if answer.entity == "Chile")
    assert chile.score == pytest.approx((1 - 2.0**-10) * 0.8 * 0.3 / 2)  # 0.6 M to 0.9 M of 2 M


def test_a_selected_value_is_a_typed_literal_known_or_the_median() -> None:
    text = f"SELECT ?c ?p ?k {{ {NEIGHBOURS} . ?c answer:known ?k }} LIMIT 9"
    found = {row["c"]["value"].removeprefix("tacit:"): row for row in cells(engine(), text)}
    integer = {"type": "literal", "datatype": f"{XSD}integer"}
    assert found["Suriname"]["p"] == integer | {"value": "592000"}
    assert found["Chile"]["p"] == integer | {"value": "1500000"}
    assert (found["Suriname"]["k"]["value"], found["Chile"]["k"]["value"]) == ("true", "false")
    born = cells(engine(), "SELECT ?c ?d { ?c :born ?d } LIMIT 3")
    assert {(row["d"]["value"], row["d"]["datatype"].removeprefix(XSD)) for row in born} == {
        ("1822-09-07", "date"), ("1821", "gYear"), ("1966-05", "gYearMonth"),
    }  # fmt: skip
    (area,) = cells(engine(), "SELECT ?a { :Suriname :area ?a }")
    assert area["a"]["datatype"] == "tacit:km%C2%B2"
    listed = cells(engine(), "SELECT ?p ?o { :Guyana ?p ?o }")
    assert {"786000", "1966-05"} <= {row["o"]["value"] for row in listed}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?c (?p AS ?n) (?s AS ?t) { FILTER(?p < 2000000) ?c answer:score ?s }",
        "SELECT ?c ?n ?t { BIND(?p AS ?n) FILTER(?n < 2000000) ?c answer:score ?s BIND(?s AS ?t) }",
    ],
)
def test_another_name_changes_no_score_and_no_cell(text: str) -> None:
    asked = engine()
    plain = f"SELECT ?c ?p ?s {{ {NEIGHBOURS} FILTER(?p < 2000000) ?c answer:score ?s }}"
    expected = cells(asked, f"{plain} ORDER BY DESC(?p) LIMIT 9")
    text = text.replace("{", f"{{ {NEIGHBOURS} ")
    found = cells(asked, f"{text} ORDER BY DESC(?n) LIMIT 9")
    assert [(r["c"], r["n"], r["t"]) for r in found] == [(r["c"], r["p"], r["s"]) for r in expected]
    assert {"592000", "1500000"} <= {row["n"]["value"] for row in found}  # known, and predicted


def test_results_in_other_formats_have_the_values() -> None:
    pytest.importorskip("pyoxigraph")
    asked = engine()
    text = f"{PREFIX} SELECT ?c ?d {{ ?c :born ?d FILTER(?d > '1900'^^xsd:gYear) }}"
    written = json.dumps(results(asked.graph, asked.read(text), asked.ask(text, top=1))).encode()
    assert serialized(written, CSV) == b"c,d\r\ntacit:Guyana,1966-05\r\n"
    assert f'datatype="{XSD}gYearMonth">1966-05<'.encode() in serialized(written, XML)


def test_values_order_the_answers_and_pages() -> None:
    text = f"{PREFIX} SELECT ?c {{ ?c :population ?p }} ORDER BY DESC(?p)"
    every = engine().ask(text)
    assert every.entities == ["Brazil", "Peru", "Chile", "Guyana", "Suriname"]  # 1.5 M predicted
    assert engine().ask(f"{text} LIMIT 2 OFFSET 2").entities == ["Chile", "Guyana"]
    asked = engine(search="symbolic")
    known = asked.ask(f"{text.replace('DESC(?p)', '?p')} LIMIT 2")
    assert known.entities == ["Suriname", "Guyana"]
    table = f"{PREFIX} SELECT ?c ?p {{ :Brazil :borders ?c OPTIONAL {{ ?c :population ?p }} }}"
    rows = [answer.values["c"] for answer in engine().ask(f"{table} ORDER BY DESC(?p) LIMIT 2")]
    assert rows == ["Guyana", "Suriname"]  # a row without a value is the least
    rows = [answer.values["c"] for answer in engine().ask(f"{table} ORDER BY ?p LIMIT 3")]
    assert rows[:2] in (["Peru", "Chile"], ["Chile", "Peru"])
    assert rows[2] == "Suriname"


def several() -> Engine:
    """The population of Guyana is known twice."""
    known = graph()
    guyana = known.entities.id("Guyana")
    rows = [(guyana, 0, Quantity(n), 0) for n in (1e5, 5e5, 786e3)]
    values = Attributes.of(ATTRIBUTES, [*rows, (known.entities.id("Peru"), 0, Quantity(3e7), 0)])
    known = replace(known, attributes=values)
    return Engine(
        known, engine().scorer, values=Flat(known.num_entities), calibration="sigmoid",
        search="exact",
    )  # fmt: skip


def test_several_values_are_rows_of_their_own_and_one_alone_is_compared() -> None:
    asked = several()
    text = f"SELECT ?c ?p {{ {NEIGHBOURS} FILTER(?p < 600000) }} LIMIT 4"
    rows = [(row["c"]["value"][6:], row["p"]["value"]) for row in cells(asked, text)]
    assert sorted(rows[:2]) == [("Guyana", "100000"), ("Guyana", "500000")]
    assert ("Chile", "1500000") in rows  # predicted, and less likely to be in the range
    none = asked.ask(f"{PREFIX} SELECT ?c {{ {NEIGHBOURS} FILTER(?p > 2e5 && ?p < 4e5) }} LIMIT 9")
    assert "Guyana" not in none.entities
    paged = cells(asked, text.replace("LIMIT 4", "LIMIT 1 OFFSET 1"))
    assert len(paged) == 1


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?c :born ?d FILTER(?d < 1900)", "born, a date, with the number 1900 .*xsd:gYear"),
        ("?c :population ?d FILTER(?d < '5')", "population, a number, with another literal"),
        ("?c :area ?d FILTER(?d > '5'^^<tacit:m>)", "area is in km², and FILTER compares .* 5 m"),
        ("?c :borders ?d FILTER(?d > 5)", r"\?d, which stands for an entity.*: population, area"),
        ("?c :area ?d FILTER(?c > 5)", r"\?c, which stands for an entity"),
        ("?c :area ?a ; :population ?p FILTER(?a > ?p)", "area is a number in km² and popul"),
        ("?c :population ?d FILTER(?d + 1 > 5)", "by other functions, is not supported"),
        ("?c :population ?d BIND(?d * 2 AS ?e)", "BIND of anything but a variable"),
        ("?c :borders ?d } ORDER BY ?d #", "ORDER BY of anything but values of attributes"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_what_can(query: str, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        engine().ask(f"{PREFIX} SELECT ?c {{ {query}\n }}".replace("#\n }", ""))


def test_a_wrong_attribute_is_noted_and_a_graph_without_any_reads_filters() -> None:
    found = engine().ask(f"{PREFIX} SELECT ?c {{ ?c :populaton ?p FILTER(?p > 5) }}")
    assert (len(found), "did you mean 'population'?" in found.unknown[0]) == (0, True)
    plain = Engine.of_facts(Graph.of([("a", "p", "b")]))
    assert len(plain.ask(f"{PREFIX} SELECT ?c {{ ?c :size ?p FILTER(?p > 5) }}")) == 0


def test_filters_with_too_many_alternatives_are_refused_at_once() -> None:
    either = " && ".join("(?p > 5 || ?a > 5)" for _ in range(30))
    with pytest.raises(QueryError, match="more than 64 alternatives"):
        engine().ask(f"{PREFIX} SELECT ?c {{ ?c :population ?p ; :area ?a FILTER({either}) }}")
