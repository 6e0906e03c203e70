"""Replies of the service: JSON, and errors as one sentence with the place they point at."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.errors import TacitError

if TYPE_CHECKING:
    from starlette.responses import Response

JSON = "application/json"
# the unread rest of the body would look like the next request
CLOSE = {"connection": "close"}
LATER = {"retry-after": "1"}
HEADERS = {401: {"www-authenticate": "Bearer"}, 408: CLOSE, 413: CLOSE, 429: LATER, 503: LATER}


@dataclass(frozen=True)
class Reply:
    """A status and a body, small enough to send from a worker to the service."""

    status: int
    body: bytes
    media_type: str = JSON

    def response(self, **headers: str) -> Response:
        """The reply as Starlette sends it, with the headers its status asks for."""
        from starlette.responses import Response  # local, since workers do not need it

        return Response(
            self.body, self.status, HEADERS.get(self.status, {}) | headers, self.media_type
        )


def encoded(data: Any) -> bytes:
    """Plain data as compact JSON; NaN and infinity raise, since JSON has neither."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "replace")


def success(data: Any) -> Reply:
    """The reply that tells plain data."""
    return Reply(200, encoded(data))


def failure(status: int, message: str) -> Reply:
    """An error reply: what went wrong, and what would work, in one sentence."""
    return Reply(status, encoded({"error": TacitError(message).to_dict()}))


def refusal(error: TacitError) -> Reply:
    """The reply to a question that is wrong, or larger than the service allows."""
    return Reply(422, encoded({"error": error.to_dict()}))
