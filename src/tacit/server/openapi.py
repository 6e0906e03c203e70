"""The parts of the OpenAPI document that FastAPI cannot make from the routes."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from tacit.server.admission import OPEN
from tacit.server.routes.sparql_protocol import DIRECT, FORM
from tacit.server.routes.sparql_results import DESCRIPTIONS, DOUBLE, JSON, RESULTS
from tacit.server.schemas import ErrorReply

DESCRIPTION = (
    "Answers logical questions over a knowledge graph that is missing facts, and says why. Every "
    "reply that is not a success has one sentence in `error.message`, and the place in the "
    "question it points at."
)

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {
        "model": ErrorReply,
        "description": "The request is not JSON, or the SPARQL query is wrong.",
    },
    401: {"model": ErrorReply, "description": "The service needs a key."},
    403: {
        "model": ErrorReply,
        "description": "A page of another site asks, or the Host header has an unknown name.",
    },
    404: {"model": ErrorReply, "description": "No run of this name is served."},
    408: {"model": ErrorReply, "description": "The request did not arrive in time."},
    413: {"model": ErrorReply, "description": "The request is too large."},
    422: {
        "model": ErrorReply,
        "description": "The question or a setting is wrong, or asks for more than is allowed.",
    },
    429: {
        "model": ErrorReply,
        "description": "Too many questions wait already, or too many of this client.",
    },
    500: {"model": ErrorReply, "description": "A fault in Tacit; its log has it."},
    503: {
        "model": ErrorReply,
        "description": "The question was lost or waited too long; ask again.",
    },
}
# errors of requests with a body, and of routes that need a key
OF_BODIES = ("408", "413")
OF_QUESTIONS = ("401", "429")
SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}

NOT_ACCEPTABLE = {
    "model": ErrorReply,
    "description": "Results come in no format that the request accepts.",
}

EXAMPLE = (
    "PREFIX : <tacit:> SELECT ?c WHERE { :France :borders ?c MINUS { ?c :speaks :German } } LIMIT 5"
)

SPARQL_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            DIRECT: {"schema": {"type": "string"}, "example": EXAMPLE},
            FORM: {
                "schema": {
                    "type": "object",
                    "properties": {"query": {"type": "string"}},
                    "required": ["query"],
                }
            },
        },
    }
}

_BINDING = {
    "c": {"type": "uri", "value": "tacit:Spain"},
    "score": {"type": "literal", "datatype": DOUBLE, "value": "0.97"},
}
SPARQL_REPLY: dict[str, Any] = {
    "description": (
        "SPARQL 1.1 query results, with the columns that were selected; or the service description."
    ),
    "content": {
        JSON: {
            "schema": {"type": "object", "required": ["head"]},
            "example": {"head": {"vars": ["c", "score"]}, "results": {"bindings": [_BINDING]}},
        }
    }
    | {kind: {"schema": {"type": "string"}} for kind in (*RESULTS, *DESCRIPTIONS) if kind != JSON},
}


def describe(app: FastAPI, keyed: bool) -> None:
    """Add the use of keys to the OpenAPI document, and drop impossible errors from routes."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = FastAPI.openapi(app)
            document["components"]["securitySchemes"] = SCHEMES
            ways: list[dict[str, list[str]]] = [{name: []} for name in SCHEMES]
            for path, methods in document["paths"].items():
                for route in methods.values():
                    never = (() if "requestBody" in route else OF_BODIES) + (
                        OF_QUESTIONS if path in OPEN else ()
                    )
                    for status in never:
                        del route["responses"][status]
                    if path not in OPEN:
                        route["security"] = ways if keyed else [*ways, {}]
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]
