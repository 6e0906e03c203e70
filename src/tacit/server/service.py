"""What is served and how to exchange it: a graph, its workers, and the questions they are handed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any

from fastapi.responses import Response

from tacit import __version__
from tacit.errors import LimitError, TacitError
from tacit.query.text import tokens
from tacit.query.words.completions import Completions
from tacit.query.words.examples import examples
from tacit.server import schemas
from tacit.server.metrics import RunMetrics
from tacit.server.routes.replies import Reply, refusal
from tacit.server.served_run import Served
from tacit.server.settings import ServerSettings
from tacit.server.workers.jobs import Job, Kind
from tacit.server.workers.pool import Pool

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


_LIMITS = ("body", "questions", "atoms", "nesting", "k", "top", "offset", "paths")  # that requests are told


class Edition:
    """A graph and the workers that answer questions about it; a reload replaces both together."""

    def __init__(self, served: Served, settings: ServerSettings, metrics: RunMetrics) -> None:
        self.served, self.graph = served, served.graph()
        self.graph.entities.complete("a"), self.graph.relations.complete("a")  # builds their tables
        self.names = Completions(self.graph)
        self.pool = Pool(served, settings.workers, settings.limits, metrics, settings.shards)

    @cached_property
    def examples(self) -> list[dict[str, str]]:
        """Questions to start with."""
        return examples(self.graph)


class Service:
    """The edition of a run that answers, and the one way to exchange it."""

    def __init__(self, name: str, served: Served, settings: ServerSettings, metrics: RunMetrics) -> None:
        self.name, self.settings, self.limits, self.metrics = name, settings, settings.limits, metrics
        self.edition = Edition(served, settings, self.metrics)
        self.metrics.queue.set_function(lambda: self.edition.pool.queue.length)
        self.metrics.workers.set_function(lambda: len(self.edition.pool.alive))
        self.announce: Callable[[], Any] = lambda: None
        self._reloading: asyncio.Task[None] | None = None
        self._many = asyncio.Semaphore(max(1, self.limits.queue // 2))  # what lists leave of the queue is for others

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Workers run as long as this is entered."""
        await self.edition.pool.start()
        try:
            yield
        finally:
            if self._reloading is not None:
                self._reloading.cancel()
                await asyncio.wait((self._reloading,))
            await self.edition.pool.stop()

    def reload(self) -> asyncio.Task[None]:
        """Open what is served as it stands now, one reload at a time, and announce it."""
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.create_task(self._reload())
        return self._reloading

    async def change_over(self) -> bool:
        """Reload until answers come from what is served as it stands now; whether they do in the end."""
        for _ in range(_TRIES):
            if await self._is_current():
                return True
            await asyncio.wait((self.reload(),))
        return await self._is_current()

    async def _is_current(self) -> bool:
        return await asyncio.to_thread(self.edition.served.renewed) == self.edition.served

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
        return (await self._reply(kind, asked)).response()

    async def answer_each(self, asked: Sequence[schemas.AskRequest]) -> Response:
        """The response to many questions: the reply to each in its place, right or wrong, none longer than one's."""
        self.limits.allow("questions", len(asked), f"{len(asked)} questions at once")
        wanted = sum(each.top for each in asked)
        self.limits.allow("top", wanted, f"top is {wanted} of all questions together")
        replies = await asyncio.gather(*(self._one_of_many(each) for each in asked))
        return Reply(200, b"[" + b",".join(reply.body for reply in replies) + b"]").response()

    async def _one_of_many(self, asked: schemas.AskRequest) -> Reply:
        async with self._many:
            return await self._reply(Kind.ASK, asked)

    async def _reply(self, kind: Kind, asked: schemas.PlanRequest) -> Reply:
        try:
            for name, value in asked.model_dump(include={"k", "top", "paths", "offset"}, exclude_none=True).items():
                self.limits.allow(name, value)
        except LimitError as error:
            return refusal(error)
        page = asked.model_dump(include={"top", "paths", "offset", "min_score"})  # of what this kind of request has
        job = Job(kind, asked.query, changes=asked.changes, parameters=tuple(asked.parameters.items()), **page)
        return await self.edition.pool.answer(job)

    def health(self) -> dict[str, Any]:
        """What the service is, and how it is doing."""
        graph, pool = self.edition.graph, self.edition.pool
        alive = len(pool.alive)
        return {
            "status": "ok" if alive else "failing" if pool.problem else "starting",
            "version": __version__,
            "run": self.name,
            "graph": {
                "name": graph.name,
                "entities": graph.num_entities,
                "relations": graph.num_relations // 2,
                "facts": len(graph.train) + len(graph.valid) + len(graph.test),
            },
            "model": pool.settings.get("model"),
            "encoder": pool.settings.get("encoder"),
            "workers": {"alive": alive, "wanted": pool.size},
            "settings": {name: pool.settings.get(name) for name in schemas.CHANGEABLE},
            "limits": {name: getattr(self.limits, name) for name in _LIMITS} | {"seconds": self.limits.seconds},
            "syntax": SYNTAX,
        }
