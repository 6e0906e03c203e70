"""A run that is asked by its encoder, over HTTP and on the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from served import Running, running
from served_graphs import EncodedAtlas
from tacit.server.settings import ServerSettings
from visits import Visit, needs_chromium

SENTENCE = "Scores of Stand-in order the answers; they are no probabilities."
LANGUAGES = "?c : speaks(?c, Spanish)"


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running({"atlas": EncodedAtlas()}, ServerSettings(workers=1)) as found:
        yield found


def test_health_names_the_model(service: Running) -> None:
    health = service.client.get("/health").json()
    assert (health["model"], health["encoder"]) == ("Stand-in", "Stand-in")
    assert health["settings"]["search"] == "encoder"


def test_answers_say_what_their_scores_are(service: Running) -> None:
    reply = service.ask(LANGUAGES, top=2).json()
    assert [(row["entity"], row["known"]) for row in reply["answers"]] == [
        ("Spain", True),
        ("Portugal", False),
    ]
    assert (reply["uncalibrated"], reply["likely"]) == (SENTENCE, None)
    linked = service.ask(LANGUAGES, top=2, search="exact").json()
    assert linked.get("uncalibrated") is None
    assert service.client.post("/explain", json={"query": LANGUAGES}).json()["explained"] is False


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            {"query": "?c : borders(France, ?c) & !speaks(?c, Italian)"},
            "Stand-in has no complement",
        ),
        ({"query": "count ?c : speaks(?c, Spanish)"}, "asks for a count, and Stand-in"),
        ({"query": LANGUAGES, "k": 8}, "k is 8, which means nothing to an encoder"),
    ],
)
def test_what_the_encoder_refuses_is_told(service: Running, body: dict[str, Any], why: str) -> None:
    reply = service.client.post("/ask", json=body)
    assert reply.status_code == 422
    assert why in reply.json()["error"]["message"]


def test_sparql_wants_a_limit_where_no_score_says_what_is_likely(service: Running) -> None:
    query = "SELECT ?c WHERE { ?c <speaks> <Spanish> }"
    reply = service.client.get("/sparql", params={"query": query})
    assert reply.status_code == 400
    assert "by LIMIT" in reply.text
    limited = service.client.get("/sparql", params={"query": f"{query} LIMIT 2"})
    assert limited.status_code == 200


@needs_chromium
def test_the_page_names_the_model_and_offers_what_applies(service: Running, browser: Any) -> None:
    visit = Visit(browser, service.url)
    page = visit.page
    assert "Stand-in" in page.locator("#graph").inner_text()
    assert visit.ask(LANGUAGES)[:2] == ["Spain", "Portugal"]
    assert page.locator(".uncalibrated").inner_text() == SENTENCE
    assert page.locator(".cut").count() == 0  # nothing says where sensible answers end
    page.locator("#settings summary").click()
    assert page.locator("[name=k]").is_disabled()
    assert page.locator("[name=logic]").is_disabled()
    assert page.locator("[name=search]").input_value() == "encoder"
    with page.expect_response("**/ask*") as response:
        page.locator("[name=search]").select_option("exact")
    assert response.value.status == 200
    assert page.locator("[name=logic]").is_enabled()
    page.locator(".uncalibrated").wait_for(state="detached")
    assert visit.faults == []
    visit.context.close()
