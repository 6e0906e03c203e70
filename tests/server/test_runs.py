"""Several runs in one service, and the settings their engines are started with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import tacit
from served import Running, running
from served_graphs import EUROPE, Made, engine_of
from tacit.cli.serve import runs_by_name
from tacit.errors import SettingsError
from tacit.graph.graph import Graph
from tacit.server.served_run import ServedRun
from tacit.server.settings import ServerSettings
from visits import Visit, needs_chromium

QUERY = "?c : borders(Portugal, ?c)"


def islands() -> Graph:
    return Graph.of(
        [("Portugal", "borders", "Madeira"), ("Madeira", "grows", "Banana")], name="islands"
    )


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running(
        {"europe": EUROPE, "the islands": Made(islands)}, ServerSettings(workers=1)
    ) as found:
        yield found


def known_answers(service: Running, **named: str) -> list[str]:
    response = service.client.post("/ask", json={"query": QUERY}, params=named)
    return [row["entity"] for row in response.json()["answers"] if row["known"]]


def test_a_request_names_the_run_it_is_about(service: Running) -> None:
    assert known_answers(service) == known_answers(service, run="europe") == ["Spain"]
    assert known_answers(service, run="the islands") == ["Madeira"]
    client = service.client
    other = {"run": "the islands"}
    assert [
        match["label"] for match in client.get("/relations", params=other).json()["matches"]
    ] == [
        "borders",
        "grows",
    ]
    assert [
        match["label"]
        for match in client.get("/entities", params=other | {"q": "b"}).json()["matches"]
    ] == ["Banana"]
    assert client.get("/ready", params=other).json()["ready"] is True
    plan = client.post("/plan", json={"query": "?x : grows(Madeira, ?x)"}, params=other)
    assert "from Madeira over grows" in plan.json()["plan"]
    assert client.post("/plan", json={"query": "?x : grows(Madeira, ?x)"}).status_code == 422
    sparql = client.get(
        "/sparql",
        params=other | {"query": "SELECT ?x { <tacit:Madeira> <tacit:grows> ?x } LIMIT 1"},
    )
    assert sparql.json()["results"]["bindings"][0]["x"]["value"] == "tacit:Banana"
    for example in client.get("/examples", params=other).json()["examples"]:
        assert engine_of(islands()).with_settings(search="symbolic").ask(example["query"])


def test_a_runs_endpoint_describes_itself_and_no_other(service: Running) -> None:
    reply = service.client.get(
        "/sparql", params={"run": "the islands"}, headers={"accept": "application/n-triples"}
    )
    (endpoint,) = [line.split()[2] for line in reply.text.splitlines() if "#endpoint>" in line]
    query = {"query": "ASK { <tacit:Madeira> <tacit:grows> <tacit:Banana> }"}
    assert service.client.post(endpoint.strip("<>"), data=query).json()["boolean"] is True


@needs_chromium
def test_the_page_stays_with_the_run_of_its_address(service: Running, browser: Any) -> None:
    visit = Visit(browser, service.url)
    page = visit.page

    def answered(entity: str, run: str) -> None:
        page.wait_for_function(
            "([name, run]) => document.querySelector('.answer .name')?.textContent === name && "
            "document.querySelector('#run').value === run",
            arg=[entity, run],
        )

    visit.ask(QUERY)
    answered("Spain", "europe")
    page.select_option("#run", "the islands")
    answered("Madeira", "the islands")
    assert visit.url_query()["run"] == ["the islands"]
    page.locator(".taking").get_by_role("button", name="curl").click()
    assert "/ask?run=the%20islands" in page.locator(".snippet pre").inner_text()
    page.locator(".visit").first.click()
    page.locator("#entity h1", has_text="Madeira").wait_for()
    assert visit.url_query() == {"run": ["the islands"], "entity": ["Madeira"]}
    page.go_back()
    page.go_back()
    answered("Spain", "europe")
    assert "run" not in visit.url_query()
    page.go_forward()
    answered("Madeira", "the islands")
    page.locator("#home").click()
    page.locator("#before summary").click()
    # what was asked of this run
    assert page.locator("#before .again code").all_inner_texts() == [QUERY]
    assert visit.url_query() == {"run": ["the islands"]}
    visit.ask("?x : grows(Madeira, ?x)")
    assert visit.url_query() == {"run": ["the islands"], "q": ["?x : grows(Madeira, ?x)"]}
    assert visit.faults == []
    visit.context.close()


def test_the_health_lists_the_runs(service: Running) -> None:
    first, second = (
        service.client.get("/health", params=parameters).json()
        for parameters in ({}, {"run": "the islands"})
    )
    assert [health["runs"] for health in (first, second)] == [["europe", "the islands"]] * 2
    assert [(health["run"], health["graph"]["name"]) for health in (first, second)] == [
        ("europe", "europe"),
        ("the islands", "islands"),
    ]


@pytest.mark.parametrize(
    "route", ["/health", "/entities", "/examples", "/ready", "/sparql?query=ASK"]
)
def test_a_run_that_is_not_served_is_not_found(service: Running, route: str) -> None:
    response = service.client.get(
        route, params={"run": "Europe"} | ({"query": "x"} if "sparql" in route else {})
    )
    assert response.status_code == 404
    assert (
        response.json()["error"]["message"]
        == "there is no run 'Europe' here; there is europe, the islands"
    )


def test_a_parameter_that_a_route_does_not_have_is_not_passed_over(service: Running) -> None:
    mistyped = service.client.get("/entities", params={"query": "fr"})
    known = "'q', 'limit', 'relation', 'end', 'run'"
    assert mistyped.status_code == 422
    assert (
        mistyped.json()["error"]["message"]
        == f"'query' is in the address, where only {known} may be"
    )
    assert service.client.get("/ready", params={"at": "noon"}).status_code == 200


def test_each_run_is_counted_apart(service: Running) -> None:
    def batches() -> dict[str, float]:
        families = text_string_to_metric_families(service.client.get("/metrics").text)
        samples = [sample for family in families for sample in family.samples]
        return {
            each.labels["run"]: each.value
            for each in samples
            if each.name == "tacit_batch_size_sum"
        }

    before = batches()
    known_answers(service, run="the islands")
    after = batches()
    assert {name: after[name] - before[name] for name in after} == {"europe": 0, "the islands": 1}


def test_runs_go_by_their_folders_names(tmp_path: Path) -> None:
    (tmp_path / "a=b").mkdir()
    assert runs_by_name(["world", f"{tmp_path}/runs/x/", "y=runs/x"]) == {
        "world": "world",
        "x": f"{tmp_path}/runs/x/",
        "y": "runs/x",
    }
    assert runs_by_name([str(tmp_path / "a=b")]) == {"a=b": str(tmp_path / "a=b")}
    with pytest.raises(
        SettingsError, match="two runs are called 'x'; give each a name of its own, as in NAME=RUN"
    ):
        runs_by_name(["one/x", "two/x"])
    with pytest.raises(SettingsError, match="the run '=x' has no name"):
        runs_by_name(["=x"])


def test_a_run_is_served_with_the_settings_it_is_given(tmp_path: Path) -> None:
    tacit.train(islands(), tmp_path, progress=False, rank=2, epochs=1, batch=2, device="cpu")
    served = ServedRun.at(tmp_path, "cpu", adapted=False, observed="none", search="exact", k=7)
    for each in (served, served.renewed()):
        about = each.engine().config
        assert (about["observed"], about["search"], about["k"]) == ("none", "exact", 7)


def test_a_browser_asks_whether_the_code_of_the_page_is_still_the_same(service: Running) -> None:
    """Code of two versions would make one page after an upgrade."""
    first = service.client.get("/static/app.js")
    assert first.headers["cache-control"] == "no-cache"
    again = service.client.get("/static/app.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert service.client.get("/health").headers["cache-control"] == "no-store"
