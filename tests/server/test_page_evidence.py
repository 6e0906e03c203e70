"""Evidence of predictions, over HTTP and on the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from served import Running, running
from served_graphs import BORDERS, RULED, RULED_MARKUP, SCRIPT, SPEAKS, WICKED
from tacit.server.graph_schemas import EntityReply
from tacit.server.schemas import AnswersReply
from tacit.server.settings import ServerSettings
from visits import SIZES, Visit, needs_chromium

FACTS = {(a, "borders", b) for pair in BORDERS for a, b in (pair, pair[::-1])}
FACTS |= {(country, "speaks", language) for country, language in SPEAKS}
QUESTION = "?l : speaks(Portugal, ?l)"
FORMULA = "borders(?x, ?z) & speaks(?z, ?y) => speaks(?x, ?y)"
REASON = (
    "because Portugal borders Spain, and Spain speaks Spanish: speaks is known for 61 of 214 such "
    "pairs (confidence 28 %, rule 0)"
)


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running({"europe": RULED, "markup": RULED_MARKUP}, ServerSettings(workers=1)) as found:
        yield found


@pytest.fixture(params=SIZES)
def ruled(request: pytest.FixtureRequest, browser: Any, service: Running) -> Iterator[Visit]:
    visit = Visit(browser, service.url, request.param)
    yield visit
    assert visit.faults == []
    visit.context.close()


def explained(service: Running, query: str, **more: Any) -> Any:
    reply = service.client.post("/explain", json={"query": query, "top": 1, **more})
    assert reply.status_code == 200, reply.text
    AnswersReply.model_validate(reply.json())
    return reply.json()["answers"][0]["witnesses"][0]


def test_a_reason_has_the_rules_that_speak_for_its_atoms(service: Running) -> None:
    found = explained(service, QUESTION)
    (atom,) = found["atoms"]
    assert found["tree"]["parts"][0]["atom"] if "parts" in found["tree"] else atom
    assert (atom["object"], atom["observed"], atom["rule_share"]) == ("Spanish", False, 1.0)
    (evidence,) = atom["evidence"]
    assert evidence["text"] == REASON
    assert evidence["rule"]["formula"] == FORMULA
    (path,) = evidence["paths"]
    shown = [(fact["subject"], fact["relation"], fact["object"]) for fact in path["facts"]]
    assert shown == [("Portugal", "borders", "Spain"), ("Spain", "speaks", "Spanish")]
    assert FACTS.issuperset(shown)


def test_known_atoms_have_no_evidence(service: Running) -> None:
    (atom,) = explained(service, "?l : speaks(Spain, ?l)")["atoms"]
    assert atom["observed"]
    assert not {"evidence", "rule_share", "analogies"} & atom.keys()


def test_predictions_about_an_entity_say_why_where_that_is_asked(service: Running) -> None:
    for explain in (False, True):
        reply = service.client.get(
            "/entity/predictions", params={"label": "Portugal", "explain": explain}
        ).json()
        EntityReply.model_validate(reply)
        (relation,) = reply["relations"]
        (fact,) = relation["facts"]
        assert (relation["relation"], fact["entity"]) == ("speaks", "Spanish")
        assert [each["text"] for each in fact.get("evidence", [])] == [REASON] * explain


def test_predictions_that_lead_to_an_entity_are_explained_forward(service: Running) -> None:
    reply = service.client.get(
        "/entity/predictions", params={"label": "Spanish", "explain": True}
    ).json()
    (relation,) = reply["relations"]
    assert relation["relation"] == "speaks^-1"
    for fact in relation["facts"]:
        paths = fact["evidence"][0]["paths"]
        assert paths[0]["text"].startswith(f"{fact['entity']} borders Spain, and ")
        shown = {
            (each["subject"], each["relation"], each["object"])
            for path in paths
            for each in path["facts"]
        }
        assert shown <= FACTS | {
            ("Slowland", "borders", "Spain"),
            ("Crashland", "borders", "Spain"),
        }


@needs_chromium
def test_evidence_is_opened_under_its_atom_and_links_its_facts(ruled: Visit) -> None:
    page = ruled.page
    ruled.ask(QUESTION)
    why = ruled.open("Spanish")
    evidence = why.locator("details.evidence")
    assert evidence.locator("summary").inner_text() == REASON
    assert not evidence.locator("ol").is_visible()
    evidence.locator("summary").click()
    assert evidence.locator("li > p").first.inner_text() == (
        "Rule 0: speaks is known for 61 of 214 such pairs (confidence 28 %)"
    )
    assert evidence.locator("p code").inner_text() == FORMULA
    assert evidence.locator(".grounding code").all_inner_texts() == [
        "borders(Portugal, Spain)",
        "speaks(Spain, Spanish)",
    ]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    evidence.locator(".grounding a", has_text="Spain").first.click()
    page.locator("h1", has_text="Spain").wait_for()


@needs_chromium
def test_evidence_of_what_is_denied_is_called_so(ruled: Visit) -> None:
    ruled.ask("?c : borders(?c, Spain) & !speaks(?c, Spanish)")
    why = ruled.open("Portugal")
    (summary,) = why.locator("details.evidence summary").all_inner_texts()
    assert summary.startswith("against it: Portugal borders Spain, and Spain speaks Spanish: ")


@needs_chromium
def test_the_page_of_an_entity_says_why_a_fact_is_predicted(ruled: Visit, service: Running) -> None:
    ruled.go(f"{service.url}?entity=Portugal")
    evidence = ruled.page.locator(".ends.predicted details.evidence")
    evidence.wait_for()
    assert evidence.locator("summary").inner_text() == "why"
    evidence.locator("summary").click()
    assert evidence.locator("p").first.inner_text() == REASON
    assert evidence.locator(".grounding code").count() == 2
    assert ruled.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@needs_chromium
def test_labels_in_evidence_stay_text(ruled: Visit, service: Running) -> None:
    page = ruled.page
    ruled.go(f"{service.url}?run=markup")
    ruled.ask("?x : '<b>bold</b>'(?y, ?x)")
    ruled.page.locator(".answer").first.wait_for()
    page.goto(f"{service.url}?run=markup&entity={WICKED.replace(' ', '%20')}")
    evidence = page.locator(".ends.predicted details.evidence").first
    evidence.wait_for()
    evidence.locator("summary").click()
    assert SCRIPT in evidence.inner_text()
    assert page.title() != "owned"


@needs_chromium
@pytest.mark.parametrize(
    ("atom", "summary"),
    [
        ({"rule_share": 0.0, "evidence": []}, "no rule speaks for it; nearest analogies"),
        ({}, "nearest analogies"),
    ],
)
def test_analogies_are_named_as_such(visit: Visit, atom: dict[str, Any], summary: str) -> None:
    analogy = {"subject": "Spain", "relation": "speaks", "object": "Spanish"}
    analogy |= {f"{each}_label": label for each, label in analogy.items()}
    found = {"subject": "Portugal", "relation": "speaks", "object": "Spanish", "score": 0.3}
    found |= {"observed": False, "negated": False, "analogies": [analogy], **atom}
    row = {"rank": 1, "entity": "Spanish", "name": "Spanish", "values": {"l": "Spanish"}}
    row |= {"score": 0.3, "log_score": -1.0, "known": False}
    witness = {"score": 0.3, "labels": {}, "variables": {}, "atoms": [found]}
    visit.reply("/ask", row)
    visit.reply("/explain", row | {"witnesses": [witness]})
    visit.ask(QUESTION)
    evidence = visit.open("Spanish").locator("details.evidence")
    assert evidence.locator("summary").inner_text() == summary
    evidence.locator("summary").click()
    assert evidence.locator(".grounding code").all_inner_texts() == ["speaks(Spain, Spanish)"]
