"""Timeouts for silent clients, and a limit on the number of connections.

A connection is known by its client's address, which both asyncio and the ASGI scope have; the rest
is left to uvicorn's own protocol.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from tacit.server.workers.jobs import failure

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("tacit.server")
HEAD_SECONDS = 10.0  # timeout of the head of a request
Address = tuple[str, int]


@dataclass(eq=False)
class Connections:
    """An ASGI middleware that knows the open connections of its requests.

    A client that does not send the head of its request in time is disconnected. With more than
    `most` connections, so is the longest silent one: idle sockets cannot keep others out. Clients
    that wait for a reply stay; if all of them wait, the newest is refused.
    """

    app: ASGIApp
    most: int
    # by client address, the longest silent one first
    open: dict[Address | None, TimedProtocol] = field(default_factory=dict)
    untracked: bool = False  # whether connections cannot be tracked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note with its connection that its head is here."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        client = scope.get("client")
        connection = self.open.get((client[0], client[1]) if client else None)
        if connection is not None:
            await connection.reply(self.app, scope, receive, send)
            return
        if not self.untracked:
            self.untracked = True
            log.warning(
                "this version of uvicorn does not say whose a request is: slow clients are not let "
                "go"
            )
        await self.app(scope, receive, send)

    def add(self, connection: TimedProtocol) -> None:
        """Add a connection, and end the longest silent one if there are too many."""
        self.open[connection.address] = connection
        if len(self.open) <= self.most or self.untracked:
            return
        # An ended connection stays open here until it is lost: its last request may still come.
        alive = [each for each in self.open.values() if not each.transport.is_closing()]
        if len(alive) <= self.most:
            return
        silent = next(each for each in alive if not each.awaits_reply)
        if silent is connection:  # all others wait for a reply
            connection.refused = True
        else:
            silent.transport.abort()

    def protocol(self, **options: Any) -> TimedProtocol:
        """The protocol of the next connection, from uvicorn's options for its own."""
        return TimedProtocol(self, H11Protocol(**options))


class TimedProtocol(asyncio.Protocol):
    """A connection that passes its data to uvicorn's protocol, with a timeout."""

    def __init__(self, connections: Connections, inner: asyncio.Protocol) -> None:
        self.connections = connections
        self.inner = inner
        self.address: Address | None = None
        self.refused = False
        self.awaits_reply = False  # whether a whole request awaits its reply
        self._requests = 0  # with their heads here, without full replies
        # whether the next request began before the last reply ended
        self._next_began = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock with the connection."""
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self.address = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else None
        self.inner.connection_made(transport)
        self.connections.add(self)
        self._start_clock()

    def data_received(self, data: bytes) -> None:
        """Start the clock again when a further request begins on the same connection."""
        if self.connections.open.get(self.address) is self:  # it moves to the end
            self.connections.open[self.address] = self.connections.open.pop(self.address)
        if self._requests:
            self._next_began = self._next_began or self.awaits_reply
        elif self._deadline is None:
            self._start_clock()
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return self.inner.eof_received()

    def pause_writing(self) -> None:
        """Pass it on."""
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self.inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock with the connection."""
        if self.connections.open.get(self.address) is self:
            del self.connections.open[self.address]
        self._stop_clock()
        self.inner.connection_lost(exc)

    async def reply(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose head is here."""
        self._requests += 1
        self._stop_clock()
        self.awaits_reply = scope["method"] in ("GET", "HEAD", "OPTIONS")

        async def receive_tracked() -> Message:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                self.awaits_reply = True
            return message

        async def send_tracked(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                self.awaits_reply = False

        try:
            await (_refuse_connection if self.refused else app)(
                scope, receive_tracked, send_tracked
            )
        finally:
            self._requests -= 1
            self.awaits_reply = False
            if self._next_began and not self._requests:
                self._next_began = False
                self._start_clock()

    def _start_clock(self) -> None:
        self._deadline = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._close_if_silent)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close_if_silent(self) -> None:
        self._deadline = None
        if (
            not self._requests
            and not self.connections.untracked
            and not self.transport.is_closing()
        ):
            self.transport.close()


async def _refuse_connection(scope: Scope, receive: Receive, send: Send) -> None:
    """Reply that there are too many connections."""
    reply = failure(
        503, "there are as many connections as may be, all of them at work; ask again later"
    )
    await reply.response(connection="close")(scope, receive, send)
