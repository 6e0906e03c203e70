"""The HTTP service: routes that check a request and pass it to the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.responses import FileResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from tacit import __version__
from tacit.server import schemas
from tacit.server.admission import Admission
from tacit.server.middleware import Guard
from tacit.server.openapi import (
    DESCRIPTION,
    ERRORS,
    EXAMPLE,
    NOT_ACCEPTABLE,
    SPARQL_BODY,
    SPARQL_REPLY,
    describe,
)
from tacit.server.routes import entity_routes, fact_routes
from tacit.server.routes.error_replies import ERROR_REPLIES
from tacit.server.routes.replies import failure, success
from tacit.server.routes.sparql_protocol import Asking, asking
from tacit.server.served_run import Served
from tacit.server.service import Chosen, Runs, Service
from tacit.server.settings import ServerSettings
from tacit.server.workers.jobs import Job

PAGE = files("tacit.server") / "static"
routes = APIRouter()


def create_app(served: Mapping[str, Served], settings: ServerSettings | None = None) -> FastAPI:
    """The service of some runs as an ASGI application; their workers start and stop with it."""
    settings = settings or ServerSettings()
    runs = Runs(served, settings)
    app = FastAPI(
        title="Tacit",
        version=__version__,
        description=DESCRIPTION,
        lifespan=runs.running,
        docs_url=None,  # FastAPI's own pages load scripts from other hosts
        redoc_url=None,
        responses=ERRORS,
        exception_handlers=ERROR_REPLIES,
    )
    app.state.runs = runs
    # Made before the guard, which Starlette makes after the start.
    admission = Admission(settings)
    describe(app, keyed=bool(admission.keys))
    routers = (routes, entity_routes.routes, fact_routes.routes)
    for router in routers:
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=str(PAGE)), name="static")
    # CORS goes outside of the guard, since preflight requests bring no key.
    paths = {
        route.path for router in routers for route in router.routes if isinstance(route, Route)
    }
    app.add_middleware(
        Guard,
        admission=admission,
        log=runs.log,
        metrics=runs.metrics,
        routes=paths | {"/openapi.json"},
    )
    if settings.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-API-Key"],
        )
    return app


@routes.post("/ask", response_model=schemas.AskReply, tags=["questions"])
async def ask(asked: schemas.AskRequests, service: Chosen) -> Response:
    """The best answers to a question, best first; to a list, a reply or an error for each
    question, in order.
    """
    return await (service.ask_each(asked) if isinstance(asked, list) else service.ask("ask", asked))


@routes.post("/explain", response_model=schemas.AnswersReply, tags=["questions"])
async def explain(asked: schemas.ExplainRequest, service: Chosen) -> Response:
    """The best answers, each with its reasons, and whether the search provably missed nothing."""
    return await service.ask("explain", asked)


@routes.post("/plan", response_model=schemas.PlanReply, tags=["questions"])
async def plan(asked: schemas.PlanRequest, service: Chosen) -> Response:
    """How a question would be answered, and what each step costs."""
    return await service.ask("plan", asked)


@routes.post("/read", response_model=schemas.ReadReply, tags=["questions"])
async def read(asked: schemas.ReadRequest, service: Chosen) -> Response:
    """A question as it is understood: as nested conditions, as a sentence and as SPARQL."""
    return await service.answer(Job("read", asked.query))


Typed = Annotated[
    str, Query(alias="q", max_length=200, description="What was typed so far.", examples=["fr"])
]
Protocol = Annotated[Asking, Depends(asking)]
SparqlQuery = Annotated[
    str | None, Query(description="A SPARQL query: SELECT or ASK.", examples=[EXAMPLE])
]
Format = Annotated[
    str | None, Query(description="Goes before `Accept`: json, xml, csv, tsv.", examples=["csv"])
]
New = Annotated[bool, Query(description=schemas.SETTINGS["new"]["help"])]
Near = Annotated[
    str | None, Query(max_length=1000, description="A relation; entities in its facts come first.")
]
EndParameter = Annotated[
    Literal["subject", "object"],
    Query(description="The end of the relation's facts that is meant."),
]
CountParameter = Annotated[int, Query(ge=1, le=100, description="Matches wanted, at most.")]


@routes.get("/entities", response_model=schemas.MatchesReply, tags=["names"])
def entities(  # in a thread, since it may search many names
    service: Chosen,
    q: Typed = "",
    limit: CountParameter = 10,
    relation: Near = None,
    end: EndParameter = "object",
) -> Response:
    """Entities whose name, or a word of it, starts with what was typed, those first that a
    relation leads to.
    """
    return success({"matches": service.edition.names.entities(q, limit, relation, end)}).response()


@routes.get("/relations", response_model=schemas.MatchesReply, tags=["names"])
async def relations(service: Chosen, q: Typed = "", limit: CountParameter = 10) -> Response:
    """Relations whose name, or a word of it, starts with what was typed."""
    return success({"matches": service.edition.names.relations(q, limit)}).response()


@routes.get("/examples", response_model=schemas.ExamplesReply, tags=["names"])
def example_questions(service: Chosen) -> Response:
    """Questions that the loaded graph has answers to, one for each of several shapes."""
    return success({"examples": service.edition.examples}).response()


@routes.get("/health", response_model=schemas.HealthReply, tags=["service"])
async def health(service: Chosen, request: Request) -> Response:
    """What the service is, how a run is doing, and which others there are."""
    return success(service.health() | {"runs": list(request.app.state.runs.services)}).response()


@routes.get("/ready", response_model=schemas.ReadyReply, tags=["service"])
async def ready(service: Chosen) -> Response:
    """Whether questions are answered: 503 as long as no worker runs, so that load balancers ask
    elsewhere.

    Where only some workers run, it says how many, and what keeps the others from starting.
    """
    pool = service.edition.pool
    alive = len(pool.alive)
    problem = pool.problem or None
    if not alive:
        reason = f" ({problem})" if problem else ""
        return failure(503, f"no worker runs{reason}; ask again later").response()
    return success(
        {"ready": True, "workers": {"alive": alive, "wanted": pool.size}, "problem": problem}
    ).response()


@routes.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}},
    tags=["service"],
)
async def metrics(request: Request) -> Response:
    """Counters and histograms, in Prometheus' text format."""
    return Response(
        generate_latest(request.app.state.runs.metrics.registry), media_type=CONTENT_TYPE_LATEST
    )


_SPARQL: dict[str, Any] = {
    "responses": {200: SPARQL_REPLY, 406: NOT_ACCEPTABLE},
    "response_class": Response,
    "tags": ["questions"],
}


async def _sparql(service: Service, asked: Asking, new: bool) -> Response:
    """The reply of the endpoint."""
    if asked.query is None:
        return asked.description().response()
    job = Job(
        "sparql", asked.query, changes=(("new", True),) if new else (), media_type=asked.media_type
    )
    reply = await service.edition.pool.answer(job)
    # The protocol wants 400; clients show its message.
    return (replace(reply, status=400) if reply.status == 422 else reply).response()


@routes.get("/sparql", **_SPARQL)
async def sparql_get(
    service: Chosen,
    asked: Protocol,
    query: SparqlQuery = None,
    new: New = False,
    format: Format = None,
) -> Response:
    """The results of a SPARQL query; without one, what the endpoint says of itself."""
    return await _sparql(service, asked, new)


@routes.post("/sparql", openapi_extra=SPARQL_BODY, **_SPARQL)
async def sparql_post(
    service: Chosen, asked: Protocol, new: New = False, format: Format = None
) -> Response:
    """The same, with the query as a form field or as the body itself."""
    return await _sparql(service, asked, new)


@routes.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
async def page() -> FileResponse:
    """The page to ask on."""
    return FileResponse(str(PAGE / "index.html"), media_type="text/html; charset=utf-8")
