"""Handlers that turn every error of a request into one sentence, without a traceback."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from tacit.errors import TacitError
from tacit.server.routes.replies import failure, refusal
from tacit.server.schemas import MANY, ONE

log = logging.getLogger("tacit.server")


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
    place = ".".join(str(part) for part in loc[1:])
    where = f"'{place[:80]}'" if place else "the request"
    return failure(422, f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}").response()


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
