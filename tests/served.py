"""Small graphs to serve, and a server that runs in a thread of the test."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import httpx
import torch

from tacit.engine.engine import Engine
from tacit.graph.graph import Graph
from tacit.links.scorer import GraphScorer
from tacit.server.serving import Server, listen, url
from tacit.server.settings import Limits, ServerSettings
from tacit.server.worker import Opener

BORDERS = [
    ("France", "Spain"),
    ("Spain", "Portugal"),
    ("France", "Italy"),
    ("France", "Germany"),
    ("Germany", "Poland"),
]
SPEAKS = [("Spain", "Spanish"), ("France", "French"), ("Italy", "Italian"), ("Germany", "German"), ("Poland", "Polish")]
SLOW, DEADLY = "Slowland", "Crashland"
WICKED = "<img src=x onerror=\"document.title='owned'\">"
SCRIPT = "</script><script>document.title='owned'</script>"


def europe() -> Graph:
    """Five countries that border each other, their languages, and two that are trouble."""
    facts = [(a, "borders", b) for pair in BORDERS for a, b in (pair, pair[::-1])]
    facts += [(country, "speaks", language) for country, language in SPEAKS]
    facts += [("New York", "borders", "Nowhere"), (SLOW, "borders", "Spain"), (DEADLY, "borders", "Spain")]
    return Graph.of(facts, name="europe")


def wicked() -> Graph:
    """A graph whose labels are markup."""
    return Graph.of(
        [(WICKED, SCRIPT, "plain"), ("plain", SCRIPT, WICKED), ("plain", "<b>bold</b>", '"><svg onload=alert(1)>')],
        name="<i>wicked</i>",
    )


class TroubledScorer(GraphScorer):
    """The facts as a scorer, except that one entity takes for ever and another ends the process."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.index(), graph.num_entities)
        self.slow, self.deadly = graph.entities.get(SLOW), graph.entities.get(DEADLY)

    def logits(self, heads: torch.Tensor, relations: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """`±scale`, once the trouble is over."""
        if self.slow is not None and bool((heads == self.slow).all()):
            time.sleep(60)
        if self.deadly is not None and bool((heads == self.deadly).all()):
            os._exit(1)
        return super().logits(heads, relations, out)


def engine_of(graph: Graph) -> Engine:
    """An engine that predicts nothing: its answers can be worked out by hand."""
    return Engine(graph, TroubledScorer(graph), calibration="sigmoid")


def open_europe() -> Engine:
    """What a worker opens."""
    return engine_of(europe())


def open_wicked() -> Engine:
    """What a worker opens."""
    return engine_of(wicked())


@dataclass(frozen=True)
class Running:
    """A service that runs, and a client for it."""

    url: str
    client: httpx.Client
    server: Server

    def ask(self, query: str, **more: object) -> httpx.Response:
        """The response to a question."""
        return self.client.post("/ask", json={"query": query, **more})

    def entities(self, query: str) -> list[str]:
        """The answers to a question that hold: the facts as a scorer leave a trace of everything else."""
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
def running(graph: Graph, opener: Opener, settings: ServerSettings) -> Iterator[Running]:
    """A service in a thread, on a free port."""
    ready = threading.Event()
    with listen("127.0.0.1", 0) as listener:
        server = Server(graph, opener, settings, listener, lambda address: ready.set())
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
