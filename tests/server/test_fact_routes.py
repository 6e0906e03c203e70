"""Facts changed through the service are known to all workers at its reply."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tacit
from served import Running, running
from tacit.graph.graph import Graph
from tacit.run.changes import add_facts
from tacit.server import fact_routes
from tacit.server.fact_routes import FactsRequest, change
from tacit.server.served_run import ServedRun
from tacit.server.settings import ServerSettings
from tacit.server.workers.jobs import Reply

GRAPH = Graph.of([("France", "borders", "Spain"), ("Italy", "speaks", "Italian")], name="two")
KEY = {"x-api-key": "secret"}
NEIGHBOURS = "?c : borders(France, ?c)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    tacit.train(GRAPH, path, progress=False, rank=2, epochs=1, batch=2, device="cpu")
    return path


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Running]:
    with running(
        ServedRun.at(folder, "cpu"), ServerSettings(workers=2, api_key="secret")
    ) as service:
        service.client.headers.update(KEY)
        # a change starts a process, which waits for cores that others use
        service.client.timeout = 120
        yield service


def post(service: Running, *facts: tuple[str, str, str], to: str = "/facts", **agreed: bool) -> Any:
    return service.client.post(to, json={"facts": facts, **agreed})


def known(service: Running, question: str = NEIGHBOURS) -> list[str]:
    response = service.ask(question)
    assert response.status_code == 200, response.text
    return sorted(row["entity"] for row in response.json()["answers"] if row["known"])


def test_a_change_is_seen_by_all_workers_and_fails_no_question(service: Running) -> None:
    seen: list[list[str]] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            seen.append(known(service))

    client = threading.Thread(target=ask, daemon=True)
    client.start()
    reply = post(
        service, ("France", "borders", "Atlantis"), ("Plato", "praises^-1", "Atlantis"), new=True
    )
    after = [known(service) for _ in range(6)]
    done.set()
    client.join()
    assert reply.status_code == 200, reply.text
    summary = reply.json()
    assert summary.pop("seconds") >= 0
    assert summary == {
        "added": 2,
        "removed": 0,
        "unchanged": 0,
        "values": 0,
        "entities": 2,
        "relations": 1,
    }
    assert after == [["Atlantis", "Spain"]] * 6
    first = seen.index(["Atlantis", "Spain"])
    assert seen == [["Spain"]] * first + [["Atlantis", "Spain"]] * (len(seen) - first)
    assert (
        service.client.get("/entities", params={"q": "atl"}).json()["matches"][0]["label"]
        == "Atlantis"
    )
    assert service.client.get("/health").json()["graph"]["facts"] == 4
    removed = post(service, ("France", "borders", "Atlantis"), to="/facts/remove")
    assert removed.json()["removed"] == 1
    assert [known(service) for _ in range(4)] == [["Spain"]] * 4
    assert service.client.get("/health").json()["workers"]["alive"] == 2


def test_a_change_from_outside_is_seen_after_a_reload_and_until_then_nothing_changes(
    service: Running, folder: Path
) -> None:
    add_facts(folder, [("Ghana", "speaks", "Twi")])
    assert [known(service) for _ in range(4)] == [["Spain"]] * 4
    assert service.ask("?c : speaks(Ghana, ?c)").status_code == 422
    service.server.loop.call_soon_threadsafe(service.server.runs.reload)
    end = time.monotonic() + 120
    while service.ask("?c : speaks(Ghana, ?c)").status_code != 200 and time.monotonic() < end:
        time.sleep(0.05)
    assert known(service, "?c : speaks(Ghana, ?c)") == ["Twi"]


def test_a_fact_that_another_process_has_added_is_known_once_it_is_sent(
    service: Running, folder: Path
) -> None:
    add_facts(folder, [("Ghana", "borders", "Togo")])
    assert post(service, ("Ghana", "borders", "Togo")).json()["unchanged"] == 1
    assert [known(service, "?c : borders(Ghana, ?c)") for _ in range(4)] == [["Togo"]] * 4


def test_what_is_wrong_changes_nothing(service: Running) -> None:
    before = service.client.get("/health").json()["graph"]["facts"]
    unknown = post(service, ("Frence", "borders", "Spain"), to="/facts/remove")
    assert unknown.status_code == 422
    assert unknown.json()["error"]["suggestions"][0] == "France"
    for body in (
        {"facts": []},
        {"facts": [["a", "b"]]},
        {"facts": [["a", "", "b"]]},
        {"fact": []},
        [],
    ):
        assert service.client.post("/facts", json=body).status_code == 422
    assert (
        service.client.post("/facts", json={}, headers={"x-api-key": "guessed"}).status_code == 401
    )
    assert service.client.get("/health").json()["graph"]["facts"] == before


def test_names_that_may_be_misspelt_are_named_and_must_be_agreed_to(service: Running) -> None:
    before = service.client.get("/health").json()["graph"]["facts"]
    for fact, suggested, field in (
        (("Spain", "bordres", "Italy"), "borders", "new"),
        (("Spain", "speaks", "Italiann"), "Italian", "new"),
        (("spain", "borders", "Italy"), "Spain", "force"),
    ):
        refused = post(service, fact)
        assert refused.status_code == 422
        error = refused.json()["error"]
        assert error["suggestions"] == [suggested]
        assert f"{field}=True" in error["message"]
        # of adding alone
        assert post(service, fact, to="/facts/remove", **{field: True}).status_code == 422
    assert service.client.get("/health").json()["graph"]["facts"] == before
    assert post(service, ("Spain", "speaks", "Italiann"), new=True).json()["entities"] == 1
    assert post(service, ("Spain", "speaks", "Italiann"), to="/facts/remove").json()["removed"] == 1


def test_a_change_is_taken_over_though_nobody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """The folder is another by then, and workers of the old one could not be replaced."""
    begun = threading.Event()
    done = threading.Event()

    def slow_reply(*arguments: Any) -> Reply:
        begun.set()
        done.wait(20)
        return Reply(200, b"{}")

    async def hang_up() -> list[str]:
        taken: list[str] = []

        async def change_over() -> bool:
            taken.append("over")
            return True

        settings = ServerSettings(api_key="secret")
        snapshot = SimpleNamespace(served=ServedRun.at(folder, "cpu"))
        service: Any = SimpleNamespace(
            settings=settings, snapshot=snapshot, change_over=change_over
        )
        asking = asyncio.create_task(
            change(service, FactsRequest(facts=[("a", "r", "b")]), remove=False)
        )
        await asyncio.to_thread(begun.wait, 20)
        asking.cancel()
        await asyncio.wait([asking])
        done.set()
        end = time.monotonic() + 20
        while not taken and time.monotonic() < end:
            await asyncio.sleep(0.01)
        return taken

    monkeypatch.setattr(fact_routes, "_change_in_process", slow_reply)
    assert asyncio.run(hang_up()) == ["over"]


def test_a_service_without_a_key_refuses() -> None:
    open_to_all: Any = SimpleNamespace(
        settings=ServerSettings(), snapshot=SimpleNamespace(served=None)
    )
    request = FactsRequest(facts=[("a", "r", "b")])
    refused = asyncio.run(change(open_to_all, request, remove=False))
    assert (refused.status, b"API key" in refused.body) == (403, True)
