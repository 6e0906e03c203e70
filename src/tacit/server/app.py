"""The service as an application: its routes, middleware, error replies and document."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from tacit import __version__
from tacit.errors import TacitError
from tacit.server import fact_routes, routes, rule_routes, sparql_protocol, value_routes
from tacit.server.admission import OPEN, Admission
from tacit.server.mcp import transports
from tacit.server.middleware import Guard
from tacit.server.schemas import MANY, ONE, ErrorReply, sentence_of
from tacit.server.served_run import Served
from tacit.server.service import Runs
from tacit.server.settings import ServerSettings
from tacit.server.workers.jobs import failure, refusal

log = logging.getLogger("tacit.server")
DESCRIPTION = (
    "Answers logical questions over a knowledge graph that is missing facts, and says why. Every "
    "reply that is not a success has one sentence in `error.message`, and the place in the "
    "question it points at."
)

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorReply, "description": description}
    for status, description in {
        400: "The request is not JSON, or the SPARQL query is wrong.",
        401: "The service needs a key.",
        403: "A page of another site asks, or the Host header has an unknown name.",
        404: "No run of this name is served.",
        408: "The request did not arrive in time.",
        413: "The request is too large.",
        422: "The question or a setting is wrong, or asks for more than is allowed.",
        429: "Too many questions wait already, or too many of this client.",
        500: "A fault in Tacit; its log has it.",
        503: "The question was lost or waited too long; ask again.",
    }.items()
}
# errors of requests with a body, and of routes that need a key
OF_BODIES = ("408", "413")
OF_QUESTIONS = ("401", "429")
SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


async def _refused(request: Request, error: TacitError) -> Response:
    return refusal(error).response()


async def _malformed(request: Request, error: RequestValidationError) -> Response:
    first: dict[str, Any] = error.errors()[0]
    if first["type"] == "json_invalid":
        why = first.get("ctx", {}).get("error", "it has no end")
        return failure(400, f"the request is not JSON: {why}").response()
    loc = [part for part in first["loc"] if part not in (ONE, MANY)]
    if loc == ["body"] and "json" not in request.headers.get("content-type", ""):
        return failure(
            422, "send the request as JSON, with the header 'Content-Type: application/json'"
        ).response()
    # The first part is body or query.
    return failure(422, sentence_of(loc[1:], first["msg"])).response()


async def _http(request: Request, error: HTTPException) -> Response:
    status = error.status_code
    message = error.detail
    path = request.url.path[:100]
    if status == 404 and message == "Not Found":  # Starlette's default
        message = f"there is no {path} here; /openapi.json lists what there is"
    if status == 405:
        allowed = (error.headers or {}).get("Allow", "")
        allowed = "GET, HEAD" if allowed == "GET" else allowed  # the guard answers HEAD by GET
        hint = f"; use {allowed}" if allowed else ""
        return failure(405, f"{path} does not answer {request.method}{hint}").response(
            allow=allowed
        )
    if message == "There was an error parsing the body":  # FastAPI's default
        message = "the request is not JSON: it is not UTF-8, or a number has too many digits"
    return failure(status, message).response()


async def _fault(request: Request, error: Exception) -> Response:
    log.error("a request failed: %s %s", request.method, request.url.path, exc_info=error)
    return failure(
        500, "the request could not be answered because of a fault in Tacit; the log has it"
    ).response()


ERROR_REPLIES: dict[int | type[Exception], Any] = {
    TacitError: _refused,
    RequestValidationError: _malformed,
    HTTPException: _http,
    Exception: _fault,
}


def describe(app: FastAPI, keyed: bool) -> None:
    """Add the use of keys to the OpenAPI document, and drop impossible errors from routes."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = FastAPI.openapi(app)
            document["components"]["securitySchemes"] = SCHEMES
            keys: list[dict[str, list[str]]] = [{name: []} for name in SCHEMES]
            for path, methods in document["paths"].items():
                for route in methods.values():
                    never = (() if "requestBody" in route else OF_BODIES) + (
                        OF_QUESTIONS if path in OPEN else ()
                    )
                    for status in never:
                        del route["responses"][status]
                    if path not in OPEN:
                        route["security"] = keys if keyed else [*keys, {}]
        return app.openapi_schema or {}

    vars(app)["openapi"] = openapi


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
    routers = (
        routes.questions,
        sparql_protocol.routes,
        routes.about_entities,
        fact_routes.routes,
        rule_routes.routes,
        value_routes.routes,
    )
    for router in routers:
        app.include_router(router)
    app.router.routes.append(transports.AgentEndpoint(runs, settings).route)
    app.mount("/static", StaticFiles(directory=str(routes.PAGE)), name="static")
    # CORS goes outside of the guard, since preflight requests bring no key.
    paths = {
        route.path for router in routers for route in router.routes if isinstance(route, Route)
    }
    app.add_middleware(
        Guard,
        admission=admission,
        log=runs.log,
        metrics=runs.metrics,
        routes=paths | {"/openapi.json", transports.PATH},
    )
    if settings.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-API-Key", *transports.HEADERS],
        )
    return app
