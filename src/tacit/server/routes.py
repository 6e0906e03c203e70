"""The routes of questions, names and entities, and of the service itself."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Depends, HTTPException, Query, Request
from fastapi.responses import FileResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from tacit.errors import RunError
from tacit.query.text import MAX_CHARACTERS
from tacit.server import graph_schemas, schemas
from tacit.server.admission import OPEN
from tacit.server.service import Runs, Service
from tacit.server.workers.jobs import EntityJob, Job, failure, success

PAGE = files("tacit.server") / "static"
questions = APIRouter()
about_entities = APIRouter(tags=["entities"])
Typed = Annotated[
    str, Query(alias="q", max_length=200, description="What was typed so far.", examples=["fr"])
]
CountParameter = Annotated[int, Query(ge=1, le=100, description="Matches wanted, at most.")]


async def requested_service(
    request: Request,
    run: Annotated[
        str | None, Query(max_length=255, description="The run to ask; the first one by default.")
    ] = None,
) -> Service:
    """The service of the run that a request names; unknown parameters are refused.

    SPARQL clients and health checks may send parameters that are not known here.
    """
    runs: Runs = request.app.state.runs
    # Unlike the path of the URL, the route's has no mount prefix.
    route = getattr(request.scope.get("route"), "path", request.url.path)
    method = request.method
    described = request.app.openapi()["paths"].get(route, {}).get(method.lower())
    if request.query_params and route not in ("/sparql", *OPEN) and described is not None:
        known = [each["name"] for each in described["parameters"]]
        others = [name for name in request.query_params if name not in known]
        if others:
            place = f"in the address, where only {', '.join(map(repr, known))} may be"
            elsewhere = "; send it in the body" if method == "POST" else ""
            raise HTTPException(422, f"'{others[0][:80]}' is {place}{elsewhere}")
    try:
        return runs.find(run)
    except RunError as error:
        raise HTTPException(404, str(error)) from None


RequestedService = Annotated[Service, Depends(requested_service)]


@questions.post("/ask", response_model=schemas.AskReply, tags=["questions"])
async def ask(
    request: Annotated[schemas.AskRequests, Body(title="Asked")], service: RequestedService
) -> Response:
    """The best answers to a question, best first; to a list, a reply or an error for each
    question, in order.
    """
    if isinstance(request, list):
        return await service.ask_each(request)
    return await service.ask("ask", request)


@questions.post("/explain", response_model=schemas.AnswersReply, tags=["questions"])
async def explain(request: schemas.ExplainRequest, service: RequestedService) -> Response:
    """The best answers, each with its reasons, and whether the search provably missed nothing."""
    return await service.ask("explain", request)


@questions.post("/plan", response_model=schemas.PlanReply, tags=["questions"])
async def plan(request: schemas.PlanRequest, service: RequestedService) -> Response:
    """How a question would be answered, and what each step costs."""
    return await service.ask("plan", request)


@questions.post("/read", response_model=schemas.ReadReply, tags=["questions"])
async def read(request: schemas.ReadRequest, service: RequestedService) -> Response:
    """A question as it is understood: as nested conditions, as a sentence and as SPARQL."""
    return await service.answer(Job("read", request.query))


@questions.get("/entities", response_model=graph_schemas.MatchesReply, tags=["names"])
def entities(  # in a thread, since it may search many names
    service: RequestedService,
    q: Typed = "",
    limit: CountParameter = 10,
    relation: Annotated[
        str | None,
        Query(max_length=1000, description="A relation; entities in its facts come first."),
    ] = None,
    end: Annotated[
        Literal["subject", "object"],
        Query(description="The end of the relation's facts that is meant."),
    ] = "object",
) -> Response:
    """Entities whose name, or a word of it, starts with what was typed, those first that a
    relation leads to.
    """
    return success({"matches": service.snapshot.names.entities(q, limit, relation, end)}).response()


@questions.get("/relations", response_model=graph_schemas.MatchesReply, tags=["names"])
async def relations(
    service: RequestedService, q: Typed = "", limit: CountParameter = 10
) -> Response:
    """Relations whose name, or a word of it, starts with what was typed."""
    return success({"matches": service.snapshot.names.relations(q, limit)}).response()


@questions.get("/examples", response_model=graph_schemas.ExamplesReply, tags=["names"])
def example_questions(service: RequestedService) -> Response:
    """Questions that the loaded graph has answers to, one for each of several shapes."""
    return success({"examples": service.snapshot.examples}).response()


@questions.get("/health", response_model=schemas.HealthReply, tags=["service"])
async def health(service: RequestedService, request: Request) -> Response:
    """What the service is, how a run is doing, and which others there are."""
    return success(service.health() | {"runs": list(request.app.state.runs.services)}).response()


@questions.get("/ready", response_model=schemas.ReadyReply, tags=["service"])
async def ready(service: RequestedService) -> Response:
    """Whether questions are answered: 503 as long as no worker runs, so that load balancers ask
    elsewhere.

    Where only some workers run, it says how many, and what keeps the others from starting.
    """
    pool = service.snapshot.pool
    alive = len(pool.alive)
    problem = pool.problem or None
    if not alive:
        reason = f" ({problem})" if problem else ""
        return failure(503, f"no worker runs{reason}; ask again later").response()
    return success(
        {"ready": True, "workers": {"alive": alive, "wanted": pool.size}, "problem": problem}
    ).response()


@questions.get(
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


@questions.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
async def page() -> FileResponse:
    """The page to ask on."""
    return FileResponse(str(PAGE / "index.html"), media_type="text/html; charset=utf-8")


async def known(
    request: Request,
    service: RequestedService,
    label: Annotated[
        str,
        Query(
            max_length=MAX_CHARACTERS,
            description="The entity's label or name.",
            examples=["France"],
        ),
    ],
    relation: Annotated[
        str | None,
        Query(
            max_length=MAX_CHARACTERS,
            description="One relation alone, as a question writes it: `speaks^-1` for the entities "
            "that speak it.",
        ),
    ] = None,
    limit: Annotated[int, Query(ge=1, description="Facts of each relation, at most.")] = 20,
    offset: Annotated[
        int, Query(ge=0, le=2**31, description="Facts of each relation to leave out first.")
    ] = 0,
) -> EntityJob:
    """The job that lists known facts about the entity of a request."""
    if "limit" not in request.query_params:
        limit = min(limit, service.limits.top)
    service.limits.allow("top", limit, f"limit is {limit}")
    return EntityJob("entity", label, limit, relation=relation, offset=offset)


Known = Annotated[EntityJob, Depends(known)]


@about_entities.get("/entity", response_model=graph_schemas.EntityReply)
async def entity(service: RequestedService, job: Known) -> Response:
    """The known facts about an entity, by relation and direction."""
    return await service.answer(job)


@about_entities.get("/entity/predictions", response_model=graph_schemas.EntityReply)
async def predictions(
    service: RequestedService,
    job: Known,
    min_score: Annotated[
        float, Query(ge=0.05, le=1, description="The least score of a prediction.")
    ] = 0.1,
    start: Annotated[
        str | None,
        Query(
            max_length=MAX_CHARACTERS,
            description="The relation to go on with, as `next` of the reply before named it.",
        ),
    ] = None,
    explain: Annotated[
        bool,
        Query(description="Whether to say which rule, or which known facts, speak for each."),
    ] = False,
) -> Response:
    """The facts about an entity that the graph is most probably missing, by relation and
    direction, best first.
    """
    typed = (("typed", True),)  # as facts are completed
    predicted = replace(job, changes=typed, predicted=True, explain=explain)
    return await service.answer(replace(predicted, min_score=min_score, start=start))
