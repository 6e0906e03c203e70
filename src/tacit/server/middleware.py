"""What every request passes before it reaches a route, where Starlette has nothing: key, size, patience, headers."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Collection
from time import perf_counter
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware

from tacit.server.metrics import Metrics
from tacit.server.replies import Reply, failure
from tacit.server.settings import ServerSettings

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN = ("/", "/health", "/ready", "/openapi.json")  # these need no key, nor does the page's own code below /static/
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


class KnownHosts:
    """Starlette's check of the Host header, with a refusal that says what would work."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self.app, self.hosts = app, [f"[{host}]" if ":" in host else host for host in hosts]
        self.refusal = failure(
            403, f"this service goes by {', '.join(sorted(hosts))} alone; its setting trusted_hosts adds names"
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on that calls the service by one of its names."""

        async def known(scope: Scope, receive: Receive, _: Send) -> None:
            await self.app(scope, receive, send)

        async def refuse(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self.refusal.response()(scope, receive, send)

        await TrustedHostMiddleware(known, self.hosts, www_redirect=False)(scope, receive, refuse)


class Guard:
    """Asks for the key, reads a body within the limits, counts requests, and adds what every reply carries."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, metrics: Metrics, routes: Collection[str]) -> None:
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
            body = self._refused(Headers(scope=scope), path) or await self._body(scope, receive)
            app = body.response() if isinstance(body, Reply) else self.app
            unread = [{"type": "http.request", "body": body, "more_body": False}]

            async def again() -> Message:
                return unread.pop() if unread else await receive()

            await app(scope, again, answer)
        finally:
            route = path if path in self.routes else "/static" if path.startswith("/static/") else "other"
            self.metrics.request(route, status, perf_counter() - start)

    def _refused(self, headers: Headers, path: str) -> Reply | None:
        if self.settings.api_key and path not in OPEN and not path.startswith("/static/"):
            scheme, _, bearer = headers.get("authorization", "").partition(" ")
            given = headers.get("x-api-key") or (bearer.strip() if scheme.lower() == "bearer" else "")
            if not hmac.compare_digest(given.encode("latin-1"), self.settings.api_key.encode()):
                return failure(401, "this service needs its key: send it as 'Authorization: Bearer KEY' or 'X-API-Key'")
        declared = headers.get("content-length", "0")
        return self._too_large if declared.isdecimal() and int(declared) > self.settings.limits.body else None

    @property
    def _too_large(self) -> Reply:
        return failure(
            413, f"the request is larger than {self.settings.limits.body:,} bytes, the most this service reads"
        )

    async def _body(self, scope: Scope, receive: Receive) -> bytes | Reply:
        """The whole body, before anything else is done with the request."""
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            return b""
        limits, body = self.settings.limits, bytearray()
        try:
            async with asyncio.timeout(limits.receive):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return failure(400, "the request ended before its body did")
                    body += message.get("body", b"")
                    if len(body) > limits.body:
                        return self._too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            return failure(408, f"the request did not arrive within {limits.receive:g} s")
