"""Checks of every request before its route: admission, size, time limits and headers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from logging import Logger
from time import perf_counter
from typing import TYPE_CHECKING

import anyio

from tacit.server.admission import Admission, RequestHead
from tacit.server.monitoring import Metrics
from tacit.server.workers.jobs import Reply, failure

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOK = 0.1  # seconds before the first look whether the client has gone
GONE = 499  # what a log calls a request whose client did not wait for its reply
STOPPING = failure(
    503, "the service stops, and had no time left for this question; ask again later"
)
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


@dataclass
class Guard:
    """Middleware that admits or refuses a request and reads its body within the limits.

    It cancels a request whose client has gone, and adds the headers of every reply.
    """

    app: ASGIApp
    admission: Admission
    log: Logger | None
    metrics: Metrics
    routes: Collection[str]

    @cached_property
    def too_large(self) -> Reply:
        """The refusal of a body above the limit."""
        most = f"{self.admission.limits.body:,} bytes, the most this service reads"
        return failure(413, f"the request is larger than {most}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        head = RequestHead(scope, self.admission.keys)
        status = GONE
        start = perf_counter()

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # Browsers must check for new page code after an upgrade.
                caching = b"no-cache" if head.path.startswith("/static/") else b"no-store"
                message["headers"] = [
                    *message.get("headers", ()),
                    *HEADERS,
                    (b"cache-control", caching),
                ]
            elif head.method == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        try:
            with self.admission.admit(head) as refusal:
                body = refusal or await self._body(head, receive)
                if isinstance(body, Reply):
                    await body.response()(scope, receive, answer)
                else:
                    request_scope = {**scope, "method": "GET"} if head.method == "HEAD" else scope
                    await run_for_client(self.app, request_scope, body, receive, answer)
        except asyncio.CancelledError:
            if status != GONE:
                raise
            # The grace period ended while the service stopped.
            await STOPPING.response()(scope, receive, answer)
        finally:
            seconds = perf_counter() - start
            self.metrics.request(self._route(head.path), status, seconds)
            if self.log is not None:
                self.log.info(head.line(status, seconds))

    def _route(self, path: str) -> str:
        """The label of a path in the metrics."""
        if path in self.routes:
            return path
        return "/static" if path.startswith("/static/") else "other"

    async def _body(self, head: RequestHead, receive: Receive) -> bytes | Reply:
        """The whole body, before anything else is done with the request."""
        if head.method in ("GET", "HEAD", "OPTIONS"):
            return b""
        limits = self.admission.limits
        if head.length > limits.body:
            return self.too_large
        body = bytearray()
        try:
            async with asyncio.timeout(limits.receive):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return failure(400, "the request ended before its body did")
                    body += message.get("body", b"")
                    if len(body) > limits.body:
                        return self.too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            return failure(408, f"the request did not arrive within {limits.receive:g} s")


async def run_for_client(
    app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send
) -> None:
    """Run an application until its client disconnects before the reply has begun."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    gone = asyncio.Event()
    began = False

    async def replay() -> Message:
        if unread:
            return unread.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def forward(message: Message) -> None:
        nonlocal began
        began = True
        await send(message)

    async def watch() -> None:
        await asyncio.sleep(LOOK)  # most are answered by then
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()
        if not began:
            working.cancel()

    with anyio.CancelScope() as working:
        watching = asyncio.create_task(watch())
        try:
            await app(scope, replay, forward)
        finally:
            watching.cancel()
