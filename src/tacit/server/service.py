"""What is served and how to exchange it: a graph, its workers, and the questions they are handed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.responses import Response

from tacit import __version__
from tacit.errors import LimitError, TacitError
from tacit.graph.graph import INVERSE
from tacit.graph.vocabulary import Vocabulary
from tacit.query import tokens
from tacit.query.formula import quoted
from tacit.server import schemas
from tacit.server.examples import examples
from tacit.server.jobs import Job, Kind
from tacit.server.metrics import Metrics
from tacit.server.pool import Pool
from tacit.server.served_run import Served
from tacit.server.settings import ServerSettings

log = logging.getLogger("tacit.server")
_TRIES = 5  # to reload what is being changed
SYNTAX = {  # for the page, which colours and completes what is typed
    "letter": tokens.javascript(tokens.LETTER),
    "inside": tokens.javascript(tokens.INSIDE),
    "name": tokens.javascript(tokens.NAME),
    "string": tokens.javascript(tokens.UNCLOSED),
    "variable": tokens.javascript(tokens.VARIABLE),
    "inverse": tokens.INVERSE,
    "keywords": list(tokens.KEYWORDS),
}


class Edition:
    """A graph and the workers that answer questions about it; a reload replaces both together."""

    def __init__(self, served: Served, settings: ServerSettings, metrics: Metrics) -> None:
        self.served, self.graph = served, served.graph()
        self.graph.entities.complete("a"), self.graph.relations.complete("a")  # builds their tables
        self.pool = Pool(served, settings.workers, settings.limits, metrics, settings.shards)

    @cached_property
    def examples(self) -> list[dict[str, str]]:
        """Questions to start with."""
        return examples(self.graph)

    def matches(self, kind: Literal["entities", "relations"], typed: str, limit: int) -> dict[str, Any]:
        """Labels that complete what was typed; an inverse is written with the relation's own name."""
        words: Vocabulary = getattr(self.graph, kind)
        labels = [
            label for label in words.complete(typed, 2 * limit) if kind == "entities" or not label.endswith(INVERSE)
        ]
        rows = [{"label": label, "name": words.name(words.id(label)), "text": quoted(label)} for label in labels]
        return {"matches": rows[:limit]}


class Service:
    """The edition that answers, and the one way to exchange it."""

    def __init__(self, served: Served, settings: ServerSettings) -> None:
        self.settings, self.limits = settings, settings.limits
        self.metrics = Metrics()
        self.problem: TacitError | None = None  # what kept the workers from starting
        self.edition = Edition(served, settings, self.metrics)
        self.metrics.queue.set_function(lambda: self.edition.pool.queue.length)
        self.metrics.workers.set_function(lambda: len(self.edition.pool.alive))
        self.announce: Callable[[], Any] = lambda: None
        self._reloading: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def running(self, app: FastAPI) -> AsyncIterator[None]:
        """Workers start and stop with the application."""
        try:
            await self.edition.pool.start()
        except TacitError as error:
            self.problem = error
            raise
        try:
            yield
        finally:
            if self._reloading is not None:
                self._reloading.cancel()
                await asyncio.wait((self._reloading,))
            await self.edition.pool.stop()

    def reload(self) -> None:
        """Open what is served as it stands now, one reload at a time, and announce it."""
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.create_task(self._reload())

    async def change_over(self) -> bool:
        """Reload, and again where what is served changes meanwhile; whether that is now what is answered from."""
        for _ in range(_TRIES):
            self.reload()
            if self._reloading is not None:
                await asyncio.wait((self._reloading,))
            if await asyncio.to_thread(self.edition.served.renewed) == self.edition.served:
                return True
        return False

    async def _reload(self) -> None:
        """Exchange the edition once another is ready; until then this one answers, and it goes on where none can be."""
        old = self.edition
        try:
            new = await asyncio.to_thread(lambda: Edition(old.served.renewed(), self.settings, self.metrics))
            await new.pool.start()
        except TacitError as error:
            log.error("nothing was reloaded, and what was served goes on: %s", error)
            return
        self.edition = new
        self.announce()
        await old.pool.finish()

    async def answer(self, kind: Kind, asked: schemas.PlanRequest) -> Response:
        """The response to a question, within the limits."""
        top, paths = getattr(asked, "top", 1), getattr(asked, "paths", 1)
        for name, value in (("k", asked.k or 1), ("top", top), ("paths", paths)):
            most = getattr(self.limits, name)
            if value > most:
                raise LimitError(f"{name} is {value}, this service allows at most {most}")
        return (await self.edition.pool.answer(Job(kind, asked.query, top, paths, asked.changes))).response()

    @property
    def ready(self) -> bool:
        """Whether a question that comes now will be answered."""
        return bool(self.edition.pool.alive)

    def health(self) -> dict[str, Any]:
        """What the service is, and how it is doing."""
        graph, pool = self.edition.graph, self.edition.pool
        alive = len(pool.alive)
        return {
            "status": "ok" if alive else "failing" if pool.problem else "starting",
            "version": __version__,
            "graph": {
                "name": graph.name,
                "entities": graph.num_entities,
                "relations": graph.num_relations // 2,
                "facts": len(graph.train) + len(graph.valid) + len(graph.test),
            },
            "workers": {"alive": alive, "wanted": pool.size},
            "settings": {name: pool.settings.get(name) for name in ("search", "k", "logic", "observed", "new")},
            "limits": {name: getattr(self.limits, name) for name in ("body", "atoms", "nesting", "k", "top", "paths")}
            | {"seconds": self.limits.seconds},
            "syntax": SYNTAX,
        }
