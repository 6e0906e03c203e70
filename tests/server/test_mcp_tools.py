"""What the tools, resources and prompts say, on graphs whose answers are worked out by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agents import Agent, by_http, connected
from served import running
from served_graphs import BORDERS, MISSING, RULED, SPEAKS, Atlas, Made
from tacit.graph.graph import Graph
from tacit.query.graph_schema import GraphSchema
from tacit.query.text import parse
from tacit.server.mcp import guides
from tacit.server.mcp.tools import tools
from tacit.server.settings import Limits, ServerSettings
from tacit.server.workers import answering
from tacit.server.workers.jobs import CompletionJob

READING = [
    "describe_graph", "find_entities", "ask", "explain", "score", "complete", "entity", "values",
    "rules",
]  # fmt: skip
WORKS = [
    ("Ann", "works_for", "Acme"),
    ("Bob", "works_for", "Acme"),
    ("Ann", "rdf:type", "Person"),
    ("Bob", "rdf:type", "Person"),
    ("Acme", "rdf:type", "Company"),
]


def works() -> Graph:
    """Two people and their firm, each with its type."""
    return Graph.of(WORKS, name="works").named({"works_for": ["is employed by"]})


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    runs = {"ruled": RULED, "atlas": Atlas(), "works": Made(works)}
    with (
        running(runs, ServerSettings(workers=1)) as service,
        connected(by_http(service.url)) as agent,
    ):
        yield agent


def test_the_tools_have_schemas_and_only_read(agent: Agent) -> None:
    listed = agent.tools()
    assert list(listed) == READING
    for tool in listed.values():
        Draft202012Validator.check_schema(tool.input_schema)
        Draft202012Validator.check_schema(tool.output_schema)
        assert tool.input_schema["additionalProperties"] is False
        assert tool.annotations.read_only_hint
        for name, field in tool.input_schema["properties"].items():
            assert field.get("description") or "$ref" in field, f"{tool.name}: {name}"
    assert sum(len(json.dumps(tool.input_schema)) for tool in listed.values()) < 12_000
    assert [name for name in tools(write=True) if name not in listed] == [
        "add_facts",
        "remove_facts",
    ]


def test_the_graph_is_described_by_its_relations(agent: Agent) -> None:
    reply = agent.call("describe_graph")
    assert reply["run"] == "ruled"
    assert reply["runs"] == ["ruled", "atlas", "works"]
    assert reply["graph"] == "europe"
    facts = 2 * len(BORDERS) + 3
    assert reply["facts"] == facts + 5
    borders, speaks = reply["relations"]
    assert borders["relation"] == borders["words"] == "borders"
    assert borders["facts"] == facts
    # five of Europe's countries and Poland, Portugal, New York, and two that are trouble
    assert borders["subjects"]["count"] == len({a for pair in BORDERS for a in pair}) + 3
    assert borders["subjects"]["examples"][0] == "France"
    assert speaks["subjects"]["count"] == speaks["objects"]["count"] == 5
    assert not speaks["symmetric"]
    assert borders["example"] == "borders(France, Spain)"
    found = agent.call("describe_graph", search="SPEAK")
    assert [each["relation"] for each in found["relations"]] == ["speaks"]
    assert found["matching"] == 1
    page = agent.call("describe_graph", limit=1, offset=1)
    assert [each["relation"] for each in page["relations"]] == ["speaks"]
    assert page["matching"] == 2


def test_ends_have_types_where_the_graph_says_them(agent: Agent) -> None:
    reply = agent.call("describe_graph", run="works", search="employed")
    (relation,) = reply["relations"]
    assert relation["relation"] == '"is employed by"'
    assert relation["words"] == "is employed by"
    assert relation["subjects"] == {"count": 2, "examples": ["Ann", "Bob"], "types": ["Person"]}
    assert relation["objects"] == {"count": 1, "examples": ["Acme"], "types": ["Company"]}
    parse(f": {relation['example']}")


def test_relations_without_facts_are_described() -> None:
    graph = Graph.of([("a", "r", "b")], test=[("a", "s", "b")])
    schema = GraphSchema(Graph(graph.entities, graph.relations, graph.train))
    empty = schema.describe(2)
    assert empty["facts"] == empty["subjects"]["count"] == 0
    assert empty["example"] == ""
    assert [graph.relations[each] for each in schema.matches("")] == ["r", "s"]


def test_entities_are_found_by_beginnings_and_by_spelling(agent: Agent) -> None:
    reply = agent.call("find_entities", text="new")
    assert reply == {
        "matches": [{"entity": "New York", "name": "New York", "text": '"New York"'}],
        "exact": True,
    }
    reply = agent.call("find_entities", text="Germny")
    assert reply["matches"][0]["entity"] == "Germany"
    assert not reply["exact"]
    at_end = agent.call("find_entities", text="s", relation="speaks", end="object", limit=1)
    assert [row["entity"] for row in at_end["matches"]] == ["Spanish"]
    assert agent.call("find_entities", text="qqqqqq") == {"matches": [], "exact": False}


def test_reasons_hold_the_rules_and_the_facts_they_rest_on(agent: Agent) -> None:
    reply = agent.call("explain", query="?l : speaks(Portugal, ?l)", top=2, min_score=0.1)
    (row,) = reply["answers"]
    assert (row["entity"], row["known"]) == ("Spanish", False)
    (reason,) = row["reasons"]
    assert not reason["known"]
    (atom,) = reason["atoms"]
    assert (atom["subject"], atom["relation"], atom["object"]) == ("Portugal", "speaks", "Spanish")
    assert not atom["known"]
    (evidence,) = atom["evidence"]
    assert (evidence["rule"]["support"], evidence["rule"]["groundings"]) == (61, 214)
    assert evidence["rule"]["confidence"] == 0.28
    (grounding,) = evidence["groundings"]
    assert grounding["facts"] == [
        {"subject": "Portugal", "relation": "borders", "object": "Spain"},
        {"subject": "Spain", "relation": "speaks", "object": "Spanish"},
    ]
    known = agent.call("explain", query="?l : speaks(Spain, ?l)", top=1)["answers"][0]
    assert known["known"]
    assert known["reasons"][0]["known"]
    assert "evidence" not in known["reasons"][0]["atoms"][0]


def test_a_fact_is_scored_with_its_evidence(agent: Agent) -> None:
    known = agent.call("score", subject="France", relation="borders", object="Spain")
    assert known["known"]
    backwards = agent.call("score", subject="Spanish", relation="speaks^-1", object="Spain")
    assert backwards["known"]
    predicted = agent.call("score", subject="Portugal", relation="speaks", object="Spanish")
    assert not predicted["known"]
    assert predicted["reasons"][0]["atoms"][0]["evidence"]
    expected = RULED.engine().score("Portugal", "speaks", "Spanish").score
    assert predicted["score"] == pytest.approx(expected, rel=1e-3)
    text = agent.error("score", subject="Portugal", relation="speaks", object="Klingon")
    assert "describe_graph" in text or "did you mean" in text


def test_missing_facts_are_completed_by_relation_and_by_entity(agent: Agent) -> None:
    def facts(**arguments: Any) -> set[tuple[str, str, str]]:
        reply = agent.call("complete", run="atlas", **arguments)
        assert not any(row["known"] for row in reply["facts"])
        return {(row["subject"], row["relation"], row["object"]) for row in reply["facts"]}

    spoken = {fact for fact in MISSING if fact[1] == "speaks"}
    assert facts(relation="speaks") == spoken
    assert facts(relation="speaks^-1") == spoken
    assert facts(entity="Italy") == {fact for fact in MISSING if "Italy" in fact}
    assert facts(entity="Italy", relation="speaks") == {("Italy", "speaks", "French")}
    assert agent.call("complete", run="atlas", relation="speaks", top=1)["cut_by"] == "top"
    assert "cut_by" not in agent.call("complete", run="atlas", relation="speaks")
    assert "`relation`" in agent.error("complete", run="atlas")


def test_a_completion_that_takes_too_long_ends_with_what_was_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class AtOnce:
        """A clock that has run out."""

        def __init__(self, seconds: float, call: Any) -> None:
            self.start = call

        def cancel(self) -> None:
            """Nothing."""

    job = CompletionJob("complete", "speaks", 10, min_score=0.5)
    answerer = answering.Answerer(Atlas().engine(), Limits())
    (whole,) = answerer.replies([job])
    assert json.loads(whole.body)["cut_by"] is None
    monkeypatch.setattr(answering, "Timer", AtOnce)
    (cut,) = answerer.replies([job])
    assert json.loads(cut.body) == {"facts": [], "cut_by": "time"}


def test_the_facts_of_an_entity_and_the_rules_are_listed(agent: Agent) -> None:
    reply = agent.call("entity", entity="Spain")
    assert reply["known"] is True
    found = {
        each["relation"]: {row["entity"] for row in each["facts"]} for each in reply["relations"]
    }
    assert found["borders"] == {"France", "Portugal"}
    assert found["borders^-1"] == {"France", "Portugal", "Slowland", "Crashland"}
    assert found["speaks"] == {"Spanish"}
    page = agent.call("entity", entity="France", run="atlas", relation="city_in^-1", limit=2)
    assert page["relations"][0]["count"] == 45
    assert [row["entity"] for row in page["relations"][0]["facts"]] == ["City 00", "City 01"]
    rules = agent.call("rules", relation="speaks", examples=2)
    (rule,) = rules["rules"]
    assert rule["formula"] == "borders(?x, ?z) & speaks(?z, ?y) => speaks(?x, ?y)"
    both = {(a, b) for pair in BORDERS for a, b in (pair, pair[::-1])}
    implied = {(a, language) for a, b in both for land, language in SPEAKS if land == b}
    wrong = [(fact["subject"], fact["object"]) for fact in rule["counter_examples"]]
    assert len({*wrong}) == 2
    assert {*wrong} <= implied - {*SPEAKS}


def test_the_language_fits_on_a_page_and_its_formulas_are_questions(agent: Agent) -> None:
    text = agent.read("tacit://query-language")
    assert text == guides.LANGUAGE
    assert len(text.split()) <= 350
    formulas = re.findall(r"`((?:count )?(?:\?\w+(?:, \?\w+)*)? ?: [^`]+)`", text)
    assert len(formulas) >= 7
    for formula in formulas:
        parse(formula.replace("relation(Subject", "r(A"))


def test_the_schema_is_a_resource_of_each_run(agent: Agent) -> None:
    listed = agent.portal.call(agent.client.list_resources).resources
    assert [each.uri for each in listed] == [
        "tacit://query-language",
        "tacit://runs/ruled/schema",
        "tacit://runs/atlas/schema",
        "tacit://runs/works/schema",
    ]
    schema = json.loads(agent.read("tacit://runs/works/schema"))
    assert schema["run"] == "works"
    assert schema["relations"] == agent.call("describe_graph", run="works")["relations"]


def test_a_prompt_of_a_graph_too_small_for_examples_still_says_how(agent: Agent) -> None:
    assert guides.LANGUAGE in agent.prompt(run="works")


def test_a_reply_that_is_too_long_asks_for_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.server.mcp.tools.LONGEST_REPLY", 500)
    with (
        running(RULED, ServerSettings(workers=1)) as service,
        connected(by_http(service.url)) as agent,
    ):
        assert "more than 500; ask for fewer" in agent.error("describe_graph")
        assert agent.call("describe_graph", limit=1)
