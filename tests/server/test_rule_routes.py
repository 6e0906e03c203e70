"""The rules of served runs: over HTTP, on their page, and after a change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from served import Running, running
from served_graphs import EUROPE, RULED, RULED_MARKUP
from tacit.graph.graph import Graph
from tacit.links.rules.rule_files import save_rules
from tacit.links.rules.rule_set import Rule, RuleSet
from tacit.run.rules import add_rule, switch_rules
from tacit.run_folder.folder import RunFolder
from tacit.server.rule_routes import RulesReply
from tacit.server.served_run import ServedRun
from tacit.server.settings import ServerSettings
from visits import SIZES, Visit, needs_chromium

GRAPH = Graph.of(
    [
        ("Portugal", "borders", "Spain"),
        ("Spain", "borders", "France"),
        ("Spain", "speaks", "Spanish"),
        ("Portugal", "speaks", "Portuguese"),
    ]
)
NEIGHBOURS = "borders(?x, ?z) & speaks(?z, ?y) => speaks(?x, ?y)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The folder of a run of one rule."""
    folder = RunFolder.create(tmp_path / "run", GRAPH, {"model": "rules"})
    rule = Rule((1,), 0, support=0, groundings=2, confidence=0.1)
    save_rules(folder, RuleSet.of([rule, rule._replace(body=(0,), relation=1)]))
    return folder.path


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running(
        {"europe": RULED, "markup": RULED_MARKUP, "plain": EUROPE}, ServerSettings(workers=1)
    ) as found:
        yield found


def rules(service: Running, **filters: object) -> list[dict[str, Any]]:
    """The rules of a reply, which fits its schema."""
    reply = service.client.get("/rules", params=filters)  # type: ignore[arg-type]
    assert reply.status_code == 200, reply.text
    RulesReply.model_validate(reply.json())
    listed: list[dict[str, Any]] = reply.json()["rules"]
    return listed


def test_rules_are_listed_over_http(service: Running) -> None:
    (rule,) = rules(service)
    assert rule["formula"] == NEIGHBOURS
    assert (rule["id"], rule["support"], rule["groundings"]) == (0, 61, 214)
    assert rule["examples"] == rule["counter_examples"] == []
    assert service.client.get("/rules").json()["count"] == 2
    (rule,) = rules(service, examples=2)
    assert len(rule["counter_examples"]) == 2
    assert all(fact["relation"] == "speaks" for fact in rule["counter_examples"])
    assert rules(service, relation="borders") == []
    assert rules(service, written=True) == []
    assert rules(service, offset=1) == []
    assert rules(service, run="plain") == []


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"relation": "boarders"}, "unknown relation 'boarders'; did you mean 'borders'?"),
        ({"limit": 0}, "'limit'"),
        ({"limit": 10**6}, "limit is 1000000"),
        ({"examples": 11}, "'examples'"),
        ({"confidence": 1}, "'confidence' is in the address"),
    ],
)
def test_wrong_filters_are_refused(service: Running, filters: dict[str, Any], message: str) -> None:
    reply = service.client.get("/rules", params=filters)
    assert reply.status_code == 422
    assert message in reply.json()["error"]["message"]


def test_a_served_run_answers_by_changed_rules_once_it_reloads(path: Path) -> None:
    def score(service: Running) -> float:
        reply = service.client.post("/explain", json={"query": "?l : speaks(Portugal, ?l)"})
        rows = {row["entity"]: row for row in reply.json()["answers"]}
        return float(rows["Spanish"]["score"])

    def wait_for(service: Running, count: int) -> None:
        service.server.loop.call_soon_threadsafe(service.first.reload)
        end = time.monotonic() + 30
        while len(rules(service)) != count and time.monotonic() < end:
            time.sleep(0.05)
        assert len(rules(service)) == count

    with running(ServedRun.at(path, "cpu"), ServerSettings(workers=1)) as service:
        assert len(rules(service)) == 1
        assert score(service) < 0.01
        rule = add_rule(path, NEIGHBOURS, 0.6)
        assert score(service) < 0.01  # until it reloads
        wait_for(service, 2)
        assert score(service) == pytest.approx(0.6, abs=1e-3)
        assert [each["id"] for each in rules(service, written=True)] == [rule.id]
        switch_rules(path, off=[rule.id])
        assert service.server.runs.first.snapshot.served.renewed() != (
            service.server.runs.first.snapshot.served
        )


@pytest.fixture(params=SIZES)
def visit(request: pytest.FixtureRequest, browser: Any, service: Running) -> Iterator[Visit]:
    visit = Visit(browser, service.url, request.param)
    yield visit
    assert visit.faults == []
    visit.context.close()


@needs_chromium
def test_the_page_lists_rules_and_keeps_its_filters_in_the_address(
    visit: Visit, service: Running
) -> None:
    page = visit.page
    page.click(".guide summary")
    page.click("#rules")
    page.wait_for_selector("#rules li")
    assert NEIGHBOURS in page.inner_text("#rules li")
    assert "61 of 214" in page.inner_text("#rules li")
    page.check("input[name=examples]")
    page.click(".go")
    page.wait_for_selector("#rules li p:nth-child(4)")
    assert "Not known: speaks(" in page.inner_text("#rules li")
    page.fill("input[name=relation]", "borders")
    page.press("input[name=relation]", "Enter")
    page.wait_for_function("() => document.getElementById('status').textContent.startsWith('No')")
    assert "relation=borders" in page.url
    page.go_back()
    page.wait_for_selector("#rules li")
    page.fill("input[name=relation]", "boarders")
    page.click(".go")
    page.wait_for_selector("#problem:not([hidden])")
    assert "did you mean 'borders'" in page.inner_text("#problem")
    width = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    assert width <= 0


@needs_chromium
def test_labels_that_are_markup_stay_text_on_the_page(visit: Visit, service: Running) -> None:
    visit.page.goto(f"{service.url}static/rules.html?run=markup&examples=1")
    visit.page.wait_for_selector("#rules li")
    assert visit.page.title() == "Rules · Tacit"
    assert visit.page.query_selector_all("#rules img, #rules script") == []
    assert visit.page.get_attribute("#home", "href") == "/?run=markup"
