"""The served runs by name, with the graph and workers of each, and how to reload them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import fields
from functools import cached_property
from typing import Any

from fastapi import FastAPI
from fastapi.responses import Response

from tacit import __version__
from tacit.errors import LimitError, RunError, TacitError
from tacit.query import tokens
from tacit.query.graph_schema import GraphSchema
from tacit.query.suggestions import Completions, examples
from tacit.server import schemas
from tacit.server.monitoring import Metrics, access_log
from tacit.server.served_run import Served
from tacit.server.settings import RequestLimits, ServerSettings
from tacit.server.workers.jobs import Job, Kind, Reply, refusal
from tacit.server.workers.pool import Pool

log = logging.getLogger("tacit.server")
_RELOAD_ATTEMPTS = 5  # since the run may change meanwhile
SYNTAX = {  # for the page, which colours and completes what is typed
    "letter": tokens.javascript(tokens.LETTER),
    "inside": tokens.javascript(tokens.INSIDE),
    "name": tokens.javascript(tokens.NAME),
    "string": tokens.javascript(f"{tokens.UNCLOSED}|{tokens.IRI}"),
    "opening": tokens.OPENING,
    "variable": tokens.javascript(tokens.VARIABLE),
    "inverse": tokens.INVERSE,
    "keywords": list(tokens.KEYWORDS),
}


class RunSnapshot:
    """A graph and the workers that answer over it; a reload replaces both."""

    def __init__(self, served: Served, pool: Pool) -> None:
        self.served = served
        self.pool = pool
        self.graph = served.graph()
        self.graph.entities.complete("a"), self.graph.relations.complete("a")  # builds their tables
        self.names = Completions(self.graph)

    @cached_property
    def examples(self) -> list[dict[str, str]]:
        """Questions to start with."""
        return examples(self.graph)

    @cached_property
    def schema(self) -> GraphSchema:
        """The relations of the graph in words."""
        return GraphSchema(self.graph, self.names)


class Service:
    """The current snapshot of a run, and its replacement by a reload."""

    def __init__(
        self, name: str, served: Served, settings: ServerSettings, metrics: Metrics
    ) -> None:
        self.name = name
        self.settings = settings
        self.limits = settings.limits
        self.metrics = metrics
        self.snapshot = self._open_snapshot(served)
        metrics.queue.labels(name).set_function(lambda: self.snapshot.pool.queue.length)
        metrics.workers.labels(name).set_function(lambda: len(self.snapshot.pool.alive))
        self.announce: Callable[[], Any] = lambda: None
        self._reloading: asyncio.Task[None] | None = None
        # Lists of questions may fill only half of the queue.
        self._many = asyncio.Semaphore(max(1, self.limits.queue // 2))

    def _open_snapshot(self, served: Served) -> RunSnapshot:
        return RunSnapshot(served, Pool(served, self.settings, self.name, self.metrics))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Workers run as long as this is entered."""
        await self.snapshot.pool.start()
        try:
            yield
        finally:
            if self._reloading is not None:
                self._reloading.cancel()
                await asyncio.wait((self._reloading,))
            await self.snapshot.pool.stop()

    def reload(self) -> asyncio.Task[None]:
        """Start to open the current files, unless a reload is running, and return its task."""
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.create_task(self._reload())
        return self._reloading

    async def change_over(self) -> bool:
        """Reload until answers come from the current files; return whether they do."""
        for _ in range(_RELOAD_ATTEMPTS):
            if await self._is_current():
                return True
            await asyncio.wait((self.reload(),))
        return await self._is_current()

    async def _is_current(self) -> bool:
        return await asyncio.to_thread(self.snapshot.served.renewed) == self.snapshot.served

    async def _reload(self) -> None:
        """Replace the snapshot by one of the current files once its workers are ready.

        Until then the old snapshot answers; it stays if no new one can be opened.
        """
        old = self.snapshot
        try:
            new = await asyncio.to_thread(lambda: self._open_snapshot(old.served.renewed()))
            await new.pool.start()
        except TacitError as error:
            log.error("nothing was reloaded, and what was served goes on: %s", error)
            return
        except Exception:  # no file, thread or memory is left
            log.exception("nothing was reloaded, and what was served goes on")
            return
        self.snapshot = new
        self.announce()
        await old.pool.finish()

    async def answer(self, job: Job) -> Response:
        """The response to a job."""
        return (await self.snapshot.pool.answer(job)).response()

    async def ask(self, kind: Kind, request: schemas.PlanRequest) -> Response:
        """The response to a question, within the limits."""
        if isinstance(request, schemas.AskRequest):
            (request,) = self._with_top([request])
        return await self.answer(self._job(kind, request))

    async def ask_each(self, requests: Sequence[schemas.AskRequest]) -> Response:
        """The response to many questions: a reply or an error for each, in order."""
        self.limits.allow("questions", len(requests), f"{len(requests)} questions at once")
        requests = self._with_top(requests)
        total = sum(each.top for each in requests)
        self.limits.allow("top", total, f"top is {total} of all questions together")

        async def reply_to(each: schemas.AskRequest) -> bytes:
            try:
                job = self._job("ask", each)
            except LimitError as error:
                return refusal(error).body
            async with self._many:
                return (await self.snapshot.pool.answer(job)).body

        return Reply(
            200, b"[" + b",".join(await asyncio.gather(*map(reply_to, requests))) + b"]"
        ).response()

    def _with_top(self, requests: Sequence[schemas.AskRequest]) -> list[schemas.AskRequest]:
        """Set the number of answers where a request has none: the default, within the limit."""
        named = [each.top for each in requests if "top" in each.model_fields_set]
        unnamed = len(requests) - len(named)
        left = max(1, (self.limits.top - sum(named)) // unnamed) if unnamed else 0
        return [
            each
            if "top" in each.model_fields_set
            else each.model_copy(update={"top": min(each.top, left)})
            for each in requests
        ]

    def _job(self, kind: Kind, request: schemas.PlanRequest) -> Job:
        """The job of a question; a `LimitError` if it exceeds a limit."""
        for name, value in request.model_dump(
            include={"k", "top", "paths", "offset"}, exclude_none=True
        ).items():
            self.limits.allow(name, value)
        # Only the fields that this kind of request has.
        page = request.model_dump(include={"top", "paths", "offset", "min_score"})
        return Job(
            kind,
            request.query,
            changes=request.changes,
            parameters=tuple(request.parameters.items()),
            **page,
        )

    def health(self) -> dict[str, Any]:
        """The state of the service, its run, workers, settings and limits."""
        graph = self.snapshot.graph
        pool = self.snapshot.pool
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
                "attributes": len(graph.attributes.listed),
            },
            "model": pool.settings.get("model"),
            "encoder": pool.settings.get("encoder"),
            "workers": {"alive": alive, "wanted": pool.size},
            "problem": pool.problem or None,
            "settings": {name: pool.settings.get(name) for name in schemas.CHANGEABLE},
            "limits": {
                each.name: getattr(self.limits, each.name) for each in fields(RequestLimits)
            },
            "syntax": SYNTAX,
        }


class Runs:
    """A service for each run, with its own workers; the first is the default."""

    def __init__(self, served: Mapping[str, Served], settings: ServerSettings) -> None:
        self.metrics = Metrics()
        self.log = access_log(settings.access_log)
        self.problem: TacitError | None = None  # what kept workers from starting
        self.services = {
            name: Service(name, each, settings, self.metrics) for name, each in served.items()
        }

    @asynccontextmanager
    async def running(self, app: FastAPI | None = None) -> AsyncIterator[None]:
        """Workers start and stop with the application."""
        async with AsyncExitStack() as stack:
            for handler in self.log.handlers if self.log is not None else ():
                stack.callback(handler.close)
            try:
                for service in self.services.values():
                    await stack.enter_async_context(service.running())
            except TacitError as error:
                self.problem = error
                raise
            yield

    @property
    def first(self) -> Service:
        """The service of the first run."""
        return next(iter(self.services.values()))

    def find(self, name: str | None) -> Service:
        """The service of a run by its name, or of the first; a `RunError` lists the names."""
        if name is None:
            return self.first
        if name not in self.services:
            raise RunError(f"there is no run '{name}' here; there is {', '.join(self.services)}")
        return self.services[name]

    def reload(self) -> None:
        """Open every run as it stands now."""
        for service in self.services.values():
            service.reload()
