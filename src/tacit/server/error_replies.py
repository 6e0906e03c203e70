"""Everything that can go wrong between a request and its route, as one sentence and never a trace."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from tacit.errors import TacitError
from tacit.server.replies import Reply, failure, refusal

log = logging.getLogger("tacit.server")


def add_error_replies(app: FastAPI) -> None:
    """Give an application its error replies."""
    app.add_exception_handler(TacitError, _refused)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _fault)


def _response(reply: Reply, headers: dict[str, str] | None = None) -> Response:
    return Response(reply.body, reply.status, headers, reply.media_type)


async def _refused(request: Request, error: Exception) -> Response:
    return _response(refusal(error) if isinstance(error, TacitError) else failure(500, "a fault in Tacit"))


async def _malformed(request: Request, error: Exception) -> Response:
    problems: list[Any] = list(error.errors()) if isinstance(error, RequestValidationError) else []
    first: dict[str, Any] = problems[0] if problems else {"type": "", "loc": (), "msg": "it cannot be read"}
    if first["type"] == "json_invalid":
        return _response(failure(400, f"the request is not JSON: {first.get('ctx', {}).get('error', 'it has no end')}"))
    kind = request.headers.get("content-type", "")
    if first["loc"] == ("body",) and "json" not in kind:
        return _response(failure(422, "send the request as JSON, with the header 'Content-Type: application/json'"))
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query") or len(first["loc"]) == 1)
    place = "query" if first["loc"] in (("body", "query"), ("query", "query")) else place
    where = "the request" if place in ("", "body") else f"'{place[:80]}'"
    return _response(failure(422, f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}"))


async def _http(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 404:
        return _response(failure(404, f"there is no {request.url.path[:100]} here; /openapi.json lists what there is"))
    if status == 405:
        allowed = (getattr(error, "headers", None) or {}).get("Allow", "")
        hint = f"; use {allowed}" if allowed else ""
        return _response(
            failure(405, f"{request.url.path[:100]} does not answer {request.method}{hint}"),
            {"allow": allowed} if allowed else None,
        )
    return _response(failure(status, str(getattr(error, "detail", "the request was refused"))))


async def _fault(request: Request, error: Exception) -> Response:
    log.error("a request failed: %s %s", request.method, request.url.path, exc_info=error)
    return _response(failure(500, "the request could not be answered because of a fault in Tacit; the log has it"))
