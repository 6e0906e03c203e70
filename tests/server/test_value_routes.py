"""Numbers and dates of a served run: over HTTP and to agents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tacit
from served import Running, running
from served_graphs import FOUNDED, LARGEST, MEASURED, POPULATIONS, WICKED
from tacit.client import Client
from tacit.server.served_run import ServedRun
from tacit.server.settings import Limits, ServerSettings
from tacit.server.value_routes import AttributeReply, AttributesReply, EntityValuesReply
from value_graphs import places

BELOW = "?c : borders(?c, Germany) & population(?c) < 40_000_000"


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running(MEASURED, ServerSettings(workers=1, limits=Limits(top=100))) as found:
        yield found


def get(service: Running, path: str, schema: Any = None, **query: Any) -> Any:
    """The reply to a request, which is JSON without NaN, and fits a schema."""
    response = service.client.get(path, params=query)
    assert response.status_code == 200, response.text

    def refuse(word: str) -> None:
        raise AssertionError(word)

    if schema is not None:
        schema.model_validate(response.json())
    return json.loads(response.text, parse_constant=refuse)


def test_attributes_are_completed_with_their_ranges(service: Running) -> None:
    matches = get(service, "/attributes", AttributesReply, q="pop")["matches"]
    assert [(each["label"], each["kind"], each["values"]) for each in matches] == [
        ("population", "number", len(POPULATIONS))
    ]
    assert matches[0]["range"] == "10 M to 84 M"
    (area,) = get(service, "/attributes", q="are")["matches"]
    assert (area["unit"], area["range"]) == ("km²", "552,000 to 644,000 km²")
    every = get(service, "/attributes")["matches"]
    assert {each["label"] for each in every} == {"population", "area", "founded", WICKED}
    assert service.client.get("/health").json()["graph"]["attributes"] == 4
    # those that have values come first, as in the facts of a relation
    names = get(service, "/entities", q="", relation="founded", limit=3)["matches"]
    assert {each["label"] for each in names} == set(FOUNDED)


def test_an_attribute_has_statistics_and_entities_known_ones_first(service: Running) -> None:
    reply = get(service, "/attribute", AttributeReply, label="population")
    ranked = sorted(POPULATIONS, key=lambda country: -POPULATIONS[country])
    assert [row["entity"] for row in reply["rows"]] == [*ranked, "Poland"]
    assert [row["value"]["known"] for row in reply["rows"]] == [True] * 5 + [False]
    poland = reply["rows"][-1]["value"]
    assert (poland["value"], poland["low"], poland["high"], poland["level"]) == (
        38e6,
        30e6,
        46e6,
        0.8,
    )
    assert (reply["known"], reply["predicted"], reply["entities"]) == (5, 1, 5)
    assert (reply["lowest"], reply["median"]) == ("10,500,000", "59,000,000")
    assert sum(reply["histogram"]["counts"]) == 5
    assert len(reply["histogram"]["texts"]) == len(reply["histogram"]["edges"]) == 13
    # seven countries border another, France among them, and two of them have no value
    assert reply["among_words"] == "borders"
    ascending = get(service, "/attribute", label="population", descending=False, limit=2, offset=1)
    assert [row["entity"] for row in ascending["rows"]] == ["Spain", "Italy"]
    # of several values the one counts that comes first
    area = get(service, "/attribute", label="area")["rows"]
    assert [(row["entity"], row["value"]["values"]) for row in area] == [
        ("France", [551_695.0, 643_801.0])
    ]
    dates = get(service, "/attribute", label="founded", descending=False)["rows"]
    assert [row["value"]["value"] for row in dates] == sorted(FOUNDED.values())


def test_numbers_of_any_size_are_valid_json(service: Running) -> None:
    reply = get(service, "/attribute", AttributeReply, label=WICKED)
    assert [row["value"]["value"] for row in reply["rows"]] == [LARGEST, -LARGEST]
    assert reply["histogram"]["edges"][0] == -LARGEST
    assert sum(reply["histogram"]["counts"]) == 2
    name = json.dumps(WICKED)
    found = service.client.post("/explain", json={"query": f"?x : {name}(?x) > -1e308"}).json()
    assert [row["entity"] for row in found["answers"]][:1] == ["Spain"]


def test_an_entity_has_known_values_and_predicted_ones(service: Running) -> None:
    france = get(service, "/entity/values", EntityValuesReply, label="France")
    assert [(each["attribute"], each["text"], each["known"]) for each in france["values"]] == [
        ("area", "551,695 km² or 643,801 km²", True),
        ("founded", "0843", True),
        ("population", "68,000,000", True),
    ]
    poland = get(service, "/entity/values", EntityValuesReply, label="Poland")
    assert [(each["text"], each["known"]) for each in poland["values"]] == [
        ("38 M (30–46 M)", False)
    ]
    assert poland["whole"]
    assert get(service, "/entity/values", label="French")["values"] == []
    # asked for, it is told however improbable it is that there is one
    (french,) = get(service, "/entity/values", label="French", attribute="population")["values"]
    assert french["presence"] == 0


@pytest.mark.parametrize(
    ("path", "query", "message"),
    [
        ("/attribute", {"label": "populaton"}, "did you mean 'population'?"),
        ("/attribute", {"label": "population", "limit": 101}, "at most 100"),
        ("/attribute", {"label": "population", "offset": -1}, "'offset'"),
        ("/attribute", {}, "'label'"),
        ("/entity/values", {"label": "Frnace"}, "unknown entity 'Frnace'"),
        ("/entity/values", {"label": "France", "attribute": "borders"}, "unknown attribute"),
        ("/attributes", {"limit": 10**9}, "'limit'"),
        ("/attributes", {"q": "a" * 201}, "'q'"),
    ],
)
def test_what_cannot_be_told_is_refused(
    service: Running, path: str, query: dict[str, Any], message: str
) -> None:
    response = service.client.get(path, params=query)
    assert response.status_code == 422
    assert message in response.json()["error"]["message"]


def test_the_endpoint_gives_values_another_name(service: Running) -> None:
    pytest.importorskip("rdflib")
    select = "PREFIX : <tacit:> SELECT ?c (?p AS ?inhabitants) { ?c :population ?p"
    bound = select.replace("(?p AS ?inhabitants)", "?inhabitants") + " BIND(?p AS ?inhabitants)"
    for text in (select, bound):
        text += " FILTER(?p > 20000000) } ORDER BY DESC(?inhabitants) LIMIT 3"
        reply = service.client.get("/sparql", params={"query": text, "format": "csv"})
        header, *rows = reply.text.split()
        assert (reply.status_code, header) == (200, "c,inhabitants")
        largest = sorted(POPULATIONS, key=lambda name: -POPULATIONS[name])[:3]
        assert rows == [f"tacit:{name},{POPULATIONS[name]:.0f}" for name in largest]


def test_the_client_asks_for_values(service: Running) -> None:
    client = Client(service.url)
    assert [row["label"] for row in client.attributes("fou")] == ["founded"]
    assert client.attribute("population", limit=1)["rows"][0]["entity"] == "Germany"
    assert [row["text"] for row in client.values("Poland")] == ["38 M (30–46 M)"]
    assert client.values("France", "founded")[0]["value"] == "0843"


def test_answers_have_columns_and_reasons_have_comparisons(service: Running) -> None:
    reply = service.ask("?c, ?n : borders(?c, Germany) & ?n = population(?c) order by ?n").json()
    assert reply["quantities"] == ["?n"]
    rows = {row["entity"]: row["quantities"]["?n"] for row in reply["answers"]}
    assert list(rows) == ["Poland", "France"]
    assert (rows["Poland"]["known"], rows["France"]["known"]) == (False, True)
    poland = service.client.post("/explain", json={"query": BELOW}).json()["answers"][0]
    (part,) = [
        each for each in poland["witnesses"][0]["tree"]["parts"] if each["kind"] == "comparison"
    ]
    compared = part["comparison"]
    assert compared["values"][0]["numbers"] == [38e6, 30e6, 46e6]
    assert (compared["low"], compared["ends"]) == (None, ["", "40,000,000"])
    assert part["score"] == pytest.approx((40 - 28) / 20)


def test_agents_are_told_of_attributes_and_values(service: Running) -> None:
    pytest.importorskip("mcp")
    from agents import by_http, connected

    with connected(by_http(service.url)) as agent:
        described = agent.call("describe_graph")
        assert [each["attribute"] for each in described["attributes"]][:3] == [
            "population",
            "area",
            "founded",
        ]
        assert agent.call("describe_graph", search="popu")["relations"] == []
        poland = agent.call("values", entity="Poland")["values"]
        assert [(each["known"], each["low"], each["high"]) for each in poland] == [
            (False, 30e6, 46e6)
        ]
        assert "unknown attribute" in agent.error("values", entity="Poland", attribute="heigt")
        (first, *_) = agent.call("explain", query=BELOW)["answers"]
        (comparison,) = first["reasons"][0]["comparisons"]
        assert not comparison["known"]
        assert comparison["text"].startswith("population(Poland) predicted 38 M (30–46 M) < 40,")
        shown = agent.call("ask", query="?c, ?n : borders(?c, Spain) & ?n = area(?c)")["answers"]
        assert shown[0]["quantities"]["?n"]["text"] == "551,695 km² or 643,801 km²"


def test_a_run_says_what_carried_a_prediction(tmp_path: Path) -> None:
    graph = places(160)
    run = tacit.train(graph, tmp_path / "run", model="rules", progress=False)
    known = {*graph.attributes.column(0)[0].tolist()}
    town = next(i for i in range(160) if graph.entities.id(f"t{i}") not in known)
    expected = run.value(f"t{town}", "latitude")
    assert expected is not None
    with running(ServedRun.at(tmp_path / "run", "cpu"), ServerSettings(workers=1)) as service:
        found = get(service, "/entity/values", EntityValuesReply, label=f"t{town}")["values"]
        (value,) = [each for each in found if each["attribute"] == "latitude"]
        assert value == json.loads(json.dumps(expected.to_dict()))
        assert value["evidence"][0]["text"] == str(expected.evidence[0])
        assert sum(each["share"] for each in value["evidence"]) <= 1.001
        ranked = get(service, "/attribute", AttributeReply, label="latitude", limit=200)
        predicted = [row for row in ranked["rows"] if not row["value"]["known"]]
        assert len(predicted) == ranked["predicted"] > 0
        medians = [row["value"]["value"] for row in predicted]
        assert medians == sorted(medians, reverse=True)
        assert f"t{town}" in {row["entity"] for row in predicted}
