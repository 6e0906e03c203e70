"""A server that runs in a thread of the test."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import httpx

from tacit.server.served_run import Served
from tacit.server.service import Service
from tacit.server.serving import Server, listen, url
from tacit.server.settings import Limits, ServerSettings


@dataclass(frozen=True)
class Running:
    """A service that runs, and a client for it."""

    url: str
    client: httpx.Client
    server: Server

    @property
    def first(self) -> Service:
        """The service of the first run."""
        return self.server.runs.first

    def ask(self, query: str, **more: object) -> httpx.Response:
        """The response to a question."""
        return self.client.post("/ask", json={"query": query, **more})

    def entities(self, query: str) -> list[str]:
        """The answers to a question that score above one half, as facts do."""
        response = self.ask(query)
        assert response.status_code == 200, response.text
        return [row["entity"] for row in response.json()["answers"] if row["score"] > 0.5]

    def healthy(self) -> bool:
        """Whether questions are answered."""
        return self.entities("?c : borders(Portugal, ?c)") == ["Spain"]

    def connect(self) -> socket.socket:
        """A connection of one's own, to misuse."""
        host, port = self.url.removeprefix("http://").rstrip("/").split(":")
        return socket.create_connection((host, int(port)), timeout=20)


@contextmanager
def running(served: Served | Mapping[str, Served], settings: ServerSettings) -> Iterator[Running]:
    """A service in a thread, on a free port."""
    runs = served if isinstance(served, Mapping) else {"only": served}
    ready = threading.Event()
    with listen("127.0.0.1", 0) as listener:
        server = Server(runs, settings, listener, lambda service, address: ready.set())
        thread = threading.Thread(target=partial(server.run, sockets=[listener]), daemon=True)
        thread.start()
        try:
            assert ready.wait(60), "the service did not start"
            with httpx.Client(base_url=url(listener), timeout=30) as client:
                yield Running(url(listener), client, server)
        finally:
            server.should_exit = True
            thread.join(30)


def limited(**limits: float) -> ServerSettings:
    """Settings with one worker and some limits changed."""
    return ServerSettings(workers=1, limits=Limits(**limits))  # type: ignore[arg-type]
