"""What every request passes before it reaches a route: host, key, size and patience; and what every reply carries."""

from __future__ import annotations

import asyncio
import hmac
from time import perf_counter
from typing import TYPE_CHECKING

from tacit.server.metrics import Metrics
from tacit.server.replies import Reply, failure
from tacit.server.settings import ServerSettings

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN = ("/", "/health", "/openapi.json")  # these need no key, nor does the page's own code below /static/
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", POLICY.encode()),
)


class Guard:
    """ASGI middleware: refuses what the settings do not allow, and counts the rest."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, metrics: Metrics, routes: frozenset[str]) -> None:
        self.app, self.settings, self.metrics, self.routes = app, settings, metrics, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status, path = perf_counter(), 500, scope["path"]

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
                if not path.startswith("/static/"):
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        try:
            body = self._refused(scope) or await self._body(scope, receive)
            if isinstance(body, Reply):
                await respond(body, answer)
            else:
                await self.app(scope, _again(body, receive), answer)
        finally:
            route = path if path in self.routes else "/static" if path.startswith("/static/") else "other"
            self.metrics.request(route, status, perf_counter() - start)

    def _refused(self, scope: Scope) -> Reply | None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        hosts = self.settings.hosts
        name = _host(headers.get(b"host", b"").decode("latin-1"))
        if hosts is not None and name not in hosts:
            known = ", ".join(sorted(hosts))
            return failure(403, f"this service is not known as '{name[:80]}' but as {known}; see --trust-host")
        path = scope["path"]
        if self.settings.api_key and path not in OPEN and not path.startswith("/static/"):
            given = headers.get(b"x-api-key", b"")
            bearer = headers.get(b"authorization", b"")
            if not given and bearer[:7].lower() == b"bearer ":
                given = bearer[7:].strip()
            if not hmac.compare_digest(given, self.settings.api_key.encode()):
                return failure(401, "this service needs its key: send it as 'Authorization: Bearer KEY' or 'X-API-Key'")
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self.settings.limits.body:
            return self._too_large()
        return None

    def _too_large(self) -> Reply:
        return failure(
            413, f"the request is larger than {self.settings.limits.body:,} bytes, the most this service reads"
        )

    async def _body(self, scope: Scope, receive: Receive) -> bytes | Reply:
        """The whole body, before anything else is done with the request."""
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            return b""
        limits, parts, size = self.settings.limits, [], 0
        try:
            async with asyncio.timeout(limits.receive):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return failure(400, "the request ended before its body did")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limits.body:
                        return self._too_large()
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            return failure(408, f"the request did not arrive within {limits.receive:g} s")


def _host(header: str) -> str:
    """The name in a Host header, without the port."""
    if header.startswith("["):
        return header[1:].split("]")[0]
    return header.split(":")[0].lower()


def _again(body: bytes, receive: Receive) -> Receive:
    """A `receive` that hands a body out that was read before."""
    sent = False

    async def receive_again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


async def respond(reply: Reply, send: Send) -> None:
    """Send a reply; one to a request that was not read in full ends the connection."""
    headers = [(b"content-type", reply.media_type.encode()), (b"content-length", str(len(reply.body)).encode())]
    if reply.status in (400, 408, 413):
        headers.append((b"connection", b"close"))
    if reply.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
