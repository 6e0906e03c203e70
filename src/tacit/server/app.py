"""The HTTP service: routes that check a request, hand it to the workers, and send what comes back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Query, Request
from fastapi.responses import FileResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from tacit import __version__
from tacit.errors import LimitError, SettingsError, TacitError
from tacit.graph.graph import INVERSE
from tacit.query import tokens
from tacit.query.formula import quoted
from tacit.server import schemas
from tacit.server.error_replies import add_error_replies
from tacit.server.examples import examples
from tacit.server.jobs import Job, Kind
from tacit.server.metrics import Metrics
from tacit.server.middleware import Guard, KnownHosts
from tacit.server.openapi import DESCRIPTION, ERRORS, EXAMPLE, SPARQL_BODY, SPARQL_REPLY
from tacit.server.pool import Pool
from tacit.server.replies import Reply, encoded
from tacit.server.served_run import Served
from tacit.server.settings import ServerSettings
from tacit.server.sparql_protocol import sparql_text

log = logging.getLogger("tacit.server")
PAGE = files("tacit.server") / "static"
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
        self.pool = Pool(served, settings.workers, settings.limits, metrics)

    @cached_property
    def examples(self) -> list[dict[str, str]]:
        """Questions to start with."""
        return examples(self.graph)

    def matches(self, kind: Literal["entities", "relations"], typed: str, limit: int) -> dict[str, Any]:
        """Labels that complete what was typed; an inverse is written with the relation's own name."""
        labels: list[str] = getattr(self.graph, kind).complete(typed, 2 * limit)
        wanted = [label for label in labels if kind == "entities" or not label.endswith(INVERSE)]
        return {"matches": [{"label": label, "text": quoted(label)} for label in wanted[:limit]]}


class Service:
    """The edition that answers, and the one way to exchange it."""

    def __init__(self, served: Served, settings: ServerSettings) -> None:
        self.settings, self.limits = settings, settings.limits
        self.metrics = Metrics()
        self.problem: TacitError | None = None  # what kept the workers from starting
        self.edition = Edition(served, settings, self.metrics)
        self.metrics.queue.set_function(lambda: self.edition.pool.queue.length)
        self.metrics.workers.set_function(lambda: len(self.edition.pool.alive))
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

    def reload(self) -> asyncio.Task[None]:
        """Open what is served as it stands now; one reload at a time."""
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.create_task(self._reload())
        return self._reloading

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
        await old.pool.finish()

    async def answer(self, kind: Kind, asked: schemas.PlanRequest) -> Response:
        """The response to a question, within the limits."""
        top, paths = getattr(asked, "top", 1), getattr(asked, "paths", 1)
        for name, value in (("k", asked.k or 1), ("top", top), ("paths", paths)):
            most = getattr(self.limits, name)
            if value > most:
                raise LimitError(f"{name} is {value}, this service allows at most {most}")
        return (await self.edition.pool.answer(Job(kind, asked.query, top, paths, asked.changes))).response()

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
            "settings": {name: pool.settings.get(name) for name in ("search", "k", "logic", "observed")},
            "limits": {name: getattr(self.limits, name) for name in ("body", "atoms", "nesting", "k", "top", "paths")}
            | {"seconds": self.limits.seconds},
            "syntax": SYNTAX,
        }


def create_app(served: Served, settings: ServerSettings | None = None) -> FastAPI:
    """The service as an ASGI application; its workers start and stop with it."""
    settings = settings or ServerSettings()
    service = Service(served, settings)

    app = FastAPI(
        title="Tacit",
        version=__version__,
        description=DESCRIPTION,
        lifespan=service.running,
        docs_url=None,  # FastAPI's own pages load scripts from other hosts
        redoc_url=None,
        responses=ERRORS,
    )
    app.state.service = service
    add_error_replies(app)
    _questions(app, service)
    _lookups(app, service)
    _sparql(app, service)
    _page(app)
    if settings.hosts is not None:
        for host in settings.hosts:
            if "*" in host.removeprefix("*."):  # Starlette asserts this, later
                raise SettingsError(f"the trusted host '{host}' may have a star only as in *.example.org")
        app.add_middleware(KnownHosts, hosts=settings.hosts)
    # The guard is outermost but for CORS, whose answers to a browser's enquiries need no key.
    routes = {route.path for route in app.routes if isinstance(route, Route)}
    app.add_middleware(Guard, settings=settings, metrics=service.metrics, routes=routes)
    if settings.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-API-Key"],
        )
    return app


def _questions(app: FastAPI, service: Service) -> None:
    @app.post("/ask", response_model=schemas.AnswersReply, tags=["questions"])
    async def ask(asked: schemas.AskRequest) -> Response:
        """The best answers to a question, best first."""
        return await service.answer(Kind.ASK, asked)

    @app.post("/explain", response_model=schemas.AnswersReply, tags=["questions"])
    async def explain(asked: schemas.ExplainRequest) -> Response:
        """The best answers, each with its reasons, and whether the search provably missed nothing."""
        return await service.answer(Kind.EXPLAIN, asked)

    @app.post("/plan", response_model=schemas.PlanReply, tags=["questions"])
    async def plan(asked: schemas.PlanRequest) -> Response:
        """How a question would be answered, and what each step costs."""
        return await service.answer(Kind.PLAN, asked)


Typed = Annotated[str, Query(alias="q", max_length=200, description="What was typed so far.", examples=["fr"])]
SparqlText = Annotated[str, Depends(sparql_text)]
SparqlQuery = Annotated[str, Query(description="A SPARQL SELECT query of one variable.", examples=[EXAMPLE])]
Count = Annotated[int, Query(ge=1, le=100, description="Matches wanted, at most.")]


def _lookups(app: FastAPI, service: Service) -> None:
    @app.get("/entities", response_model=schemas.MatchesReply, tags=["names"])
    async def entities(q: Typed = "", limit: Count = 10) -> Response:
        """Entities whose name, or a word of it, starts with what was typed."""
        return Reply(200, encoded(service.edition.matches("entities", q, limit))).response()

    @app.get("/relations", response_model=schemas.MatchesReply, tags=["names"])
    async def relations(q: Typed = "", limit: Count = 10) -> Response:
        """Relations whose name, or a word of it, starts with what was typed."""
        return Reply(200, encoded(service.edition.matches("relations", q, limit))).response()

    @app.get("/examples", response_model=schemas.ExamplesReply, tags=["names"])
    def example_questions() -> Response:
        """Questions that the loaded graph has answers to, one for each of several shapes."""
        return Reply(200, encoded({"examples": service.edition.examples})).response()

    @app.get("/health", response_model=schemas.HealthReply, tags=["service"])
    async def health() -> Response:
        """What the service is, and how it is doing."""
        return Reply(200, encoded(service.health())).response()

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}}, tags=["service"])
    async def metrics() -> Response:
        """Counters and histograms, in Prometheus' text format."""
        return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _sparql(app: FastAPI, service: Service) -> None:
    described: dict[str, Any] = {"responses": {200: SPARQL_REPLY}, "response_class": Response, "tags": ["questions"]}

    async def answer(text: str) -> Response:
        return (await service.edition.pool.answer(Job(Kind.SPARQL, text, service.limits.top))).response()

    @app.get("/sparql", **described)
    async def sparql_get(query: SparqlQuery) -> Response:
        """The answers to a SPARQL query as SPARQL results in JSON, with the variable `?score`."""
        return await answer(query)

    @app.post("/sparql", openapi_extra=SPARQL_BODY, **described)
    async def sparql_post(text: SparqlText) -> Response:
        """The same, with the query as a form field or as the body itself."""
        return await answer(text)


def _page(app: FastAPI) -> None:
    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page(request: Request) -> FileResponse:
        return FileResponse(str(PAGE / "index.html"), media_type="text/html; charset=utf-8")

    app.mount("/static", StaticFiles(directory=str(PAGE)), name="static")
