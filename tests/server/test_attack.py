"""Clients that hang up, ask too much or hold connections do not stop others."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace
from unittest.mock import Mock

import httpx
import pytest
from fastapi import HTTPException, Request

from served import Running, running
from served_graphs import EUROPE, SLOW
from tacit.server import admission, connections
from tacit.server.admission import Admission, RequestHead
from tacit.server.routes import requested_service
from tacit.server.settings import Limits, ServerSettings
from tacit.server.workers import pool as workers

HEAVY = f"?c : borders({SLOW}, ?c)"
LIMITS = Limits(seconds=6.0, per_client=6, connections=20)


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running(
        EUROPE, ServerSettings(workers=2, trusted_proxies=("127.0.0.1",), limits=LIMITS)
    ) as found:
        yield found


def ask_and_hold(service: Running, query: str, **more: object) -> socket.socket:
    """A connection over which a question was asked."""
    connection = service.connect()
    body = json.dumps({"query": query, **more}).encode()
    head = (
        b"POST /ask HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n"
    )
    connection.sendall(head % len(body) + body)
    return connection


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def in_flight(service: Running) -> int:
    return len(service.first.snapshot.pool._open)


def settle(service: Running) -> None:
    """Wait until nothing is in flight, by the reply to a further request."""
    wait_until(lambda: in_flight(service) == 0)
    service.client.get("/health")


def restarts(service: Running) -> float:
    name = "tacit_worker_restarts_total"
    return service.server.runs.metrics.registry.get_sample_value(name, {"run": "only"}) or 0.0


def test_four_heavy_questions_that_nobody_waits_for_hold_up_nobody(service: Running) -> None:
    before = restarts(service)
    left = [ask_and_hold(service, HEAVY, top=top) for top in range(1, 5)]  # each a batch of its own
    wait_until(lambda: in_flight(service) == 4)
    for connection in left:
        connection.close()
    start = time.monotonic()
    assert service.healthy()
    assert time.monotonic() - start < 4  # of the 6 s that each of them may take
    wait_until(lambda: in_flight(service) == 0)
    assert service.first.snapshot.pool.queue.length == 0
    assert restarts(service) - before <= 2  # those that waited never reached a worker


def test_light_questions_that_nobody_waits_for_cost_no_worker(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "ABANDONED", 5.0)  # on a busy machine light ones take a while
    pool = service.first.snapshot.pool
    wait_until(lambda: len(pool.alive) == 2)
    before = set(pool.alive)
    for _ in range(20):
        ask_and_hold(service, "?c : borders(France, ?c)").close()
        settle(service)
    assert service.healthy()
    assert set(pool.alive) == before


def test_one_address_has_so_many_questions_at_once(service: Running) -> None:
    settle(service)
    held = [ask_and_hold(service, HEAVY, top=top) for top in range(1, LIMITS.per_client + 1)]
    try:
        wait_until(lambda: in_flight(service) == LIMITS.per_client)
        refused = service.ask("?c : borders(France, ?c)")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert "6 questions of yours" in refused.json()["error"]["message"]
        assert [service.client.get(path).status_code for path in ("/", "/health", "/ready")] == [
            200
        ] * 3
        others = service.client.get("/entities", headers={"x-forwarded-for": "192.0.2.7"})
        assert others.status_code == 200
    finally:
        for connection in held:
            connection.close()
    assert service.ask("?c : borders(France, ?c)", top=1).status_code in (200, 429)
    wait_until(lambda: service.ask("?c : borders(France, ?c)").status_code == 200)


def test_sockets_that_say_nothing_keep_nobody_out(service: Running) -> None:
    silent = [service.connect() for _ in range(3 * LIMITS.connections)]
    half = [service.connect() for _ in range(LIMITS.connections)]
    try:
        for connection in half:
            connection.sendall(
                b"POST /ask HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n\r\n{"
            )
        with httpx.Client(base_url=service.url) as fresh:
            assert (
                fresh.post("/ask", json={"query": "?c : borders(Portugal, ?c)"}).status_code == 200
            )
        assert len(service.server.server_state.connections) <= LIMITS.connections
        # the one that was silent longest made room, and hears of it so or so
        with suppress(ConnectionResetError):
            assert silent[0].recv(1) == b""
    finally:
        for connection in silent + half:
            connection.close()


def test_where_every_connection_is_at_work_a_further_one_is_turned_away() -> None:
    settings = ServerSettings(workers=1, grace=1, limits=Limits(seconds=30, connections=2))
    with running(EUROPE, settings) as service:
        held = [ask_and_hold(service, HEAVY, top=top) for top in (1, 2)]
        wait_until(lambda: in_flight(service) == 2)
        refused = service.client.get("/health")
        assert (refused.status_code, refused.headers["connection"]) == (503, "close")
        assert "as many connections as may be" in refused.json()["error"]["message"]
        service.server.should_exit = True  # as a signal does
        replies = [b"".join(iter(lambda: each.recv(65_536), b"")) for each in held]  # noqa: B023
        for each in held:
            each.close()
    for reply in replies:
        head, _, body = reply.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in head
        assert "the service stops" in json.loads(body)["error"]["message"]


def test_a_question_goes_on_while_one_of_those_who_asked_waits() -> None:
    with running(
        EUROPE, ServerSettings(workers=1, limits=Limits(seconds=1.5, patience=0.2))
    ) as service:
        start = time.monotonic()
        with ThreadPoolExecutor(1) as thread, ask_and_hold(service, HEAVY) as left:
            stays = thread.submit(service.ask, HEAVY)
            pool = service.first.snapshot.pool
            wait_until(lambda: in_flight(service) == 2 and not pool.queue.length)
            left.close()
            response = stays.result()
        assert (response.status_code, "took longer than 1.5 s" in response.text) == (422, True)
        assert time.monotonic() - start > 1.5  # an abandoned one ends after half a second


def test_what_is_in_flight_when_the_service_is_stopped_gets_its_reply() -> None:
    settings = ServerSettings(workers=1, grace=20, limits=Limits(seconds=1.0, per_client=1))
    with running(EUROPE, settings) as service, ThreadPoolExecutor(1) as threads:
        slow = threads.submit(service.ask, HEAVY)
        wait_until(lambda: in_flight(service) == 1)
        other = httpx.get(service.url + "entities", headers={"x-forwarded-for": "192.0.2.7"})
        assert other.status_code == 429  # no proxy is trusted: whoever says so is the one that asks
        service.server.should_exit = True
        assert "took longer than 1 s" in slow.result().text


def visit(client: str = "192.0.2.7", path: str = "/ask", **headers: str) -> RequestHead:
    given = {"host": "localhost", **headers}
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()]
    return RequestHead({"method": "POST", "path": path, "headers": sent, "client": (client, 1)}, {})


def test_one_address_asks_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [0.0] * 8 + [0.1 * step for step in range(1, 50)] + [30.0] * 8
    allowed: list[float] = []
    gate = Admission(ServerSettings(limits=Limits(rate=4)))
    for now in times:
        monkeypatch.setattr(admission, "monotonic", lambda now=now: 1000 + now)
        with gate.admit(visit()) as refusal:
            allowed += [now] if refusal is None else []
    # never more than the burst and the rate together, and never fewer than the rate
    for now in times:
        assert sum(now <= each < now + 1 for each in allowed) <= 8
        assert sum(each <= now for each in allowed) <= 4 + 4 * now + 1e-6
    assert allowed[:5] == [0.0] * 4 + [pytest.approx(0.3)]
    assert sum(each < 5 for each in allowed) >= 4 * 4.9
    with gate.admit(visit("192.0.2.8")) as other, gate.admit(visit(path="/health")) as open_to_all:
        assert (other, open_to_all) == (None, None)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/ask", {"sec_fetch_site": "cross-site"}, 403),
        ("/sparql", {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, 403),
        ("/ask", {"sec_fetch_site": "cross-site", "origin": "https://elsewhere.example"}, 403),
        ("/ask", {"sec_fetch_site": "cross-site", "origin": "https://there.example"}, None),
        ("/ask", {"sec_fetch_site": "same-origin"}, None),
        ("/ask", {"sec_fetch_site": "none"}, None),
        ("/ask", {}, None),
        ("/", {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, None),
        ("/static/page.js", {"sec_fetch_site": "cross-site"}, None),
    ],
)
def test_pages_of_other_sites_may_not_ask(
    path: str, headers: dict[str, str], status: int | None
) -> None:
    gate = Admission(ServerSettings(cors=("https://there.example",)))
    with gate.admit(visit(path=path, **headers)) as refusal:
        assert (refusal.status if refusal else None) == status


def test_another_sites_page_hears_why(service: Running) -> None:
    refused = service.client.get("/entities", headers={"sec-fetch-site": "cross-site"})
    assert refused.status_code == 403
    assert "a page of another site" in refused.json()["error"]["message"]
    assert service.client.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200


def test_where_uvicorn_does_not_say_whose_a_request_is_all_are_answered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = connections.TimedProtocol.connection_made

    def hidden(connection: connections.TimedProtocol, transport: asyncio.Transport) -> None:
        made(connection, transport)
        connection.connections.open.clear()

    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(connections.TimedProtocol, "connection_made", hidden)
    with running(EUROPE, ServerSettings(workers=1)) as service, service.connect() as silent:
        assert service.healthy()
        assert service.healthy()
        time.sleep(0.6)
        silent.sendall(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
        assert silent.recv(12) == b"HTTP/1.1 200"
    assert [record.getMessage() for record in caplog.records].count(
        "this version of uvicorn does not say whose a request is: slow clients are not let go"
    ) == 1


def test_an_ended_connection_whose_request_still_comes_leaves_the_timeouts_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.05)

    async def app(*request: object) -> None:
        pass

    async def two_clients() -> Mock:
        tracked = connections.Connections(app, most=1)
        first, second = (Mock(**{"is_closing.return_value": False}) for _ in range(2))
        first.abort.side_effect = lambda: first.is_closing.configure_mock(return_value=True)
        for port, transport in enumerate((first, second)):
            transport.get_extra_info.return_value = ("192.0.2.7", port)
            connections.TimedProtocol(tracked, Mock()).connection_made(transport)
        first.abort.assert_called_once()
        await tracked({"type": "http", "method": "GET", "client": ("192.0.2.7", 0)}, Mock(), Mock())
        await asyncio.sleep(0.2)
        return second

    asyncio.run(two_clients()).close.assert_called_once()


def test_a_scope_without_a_route_is_read_by_its_path(service: Running) -> None:
    routes = {"paths": {"/entities": {"get": {"parameters": [{"name": "q"}]}}}}
    names = {
        "app": SimpleNamespace(
            state=SimpleNamespace(runs=service.server.runs), openapi=lambda: routes
        )
    }
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/entities",
        "headers": [],
        "server": ("h", 80),
        **names,
    }
    fine = Request(scope | {"query_string": b"q=fr"})
    assert asyncio.run(requested_service(fine, None)) is service.first
    with pytest.raises(HTTPException, match="'x' is in the address, where only 'q' may be"):
        asyncio.run(requested_service(Request(scope | {"query_string": b"q=fr&x=1"}), None))
