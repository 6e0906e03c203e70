"""Running the service: sockets, patience with slow clients, and the line that says where it is."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tacit.errors import RunError, SettingsError
from tacit.server.app import create_app
from tacit.server.runs import Runs
from tacit.server.served_run import Served
from tacit.server.service import Service
from tacit.server.settings import ServerSettings

HEAD_SECONDS = 10.0  # for the head of a request to arrive


class PatientProtocol(H11Protocol):
    """HTTP/1.1, but a client that does not get its request's head out in time is let go."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock with the connection."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._let_go)

    def data_received(self, data: bytes) -> None:
        """Start the clock again when a further request begins on the same connection."""
        if self._deadline is None and self.conn.their_state is h11.IDLE:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._let_go)
        super().data_received(data)
        if self._deadline is not None and self.conn.their_state is not h11.IDLE:
            self._deadline.cancel()
            self._deadline = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock with the connection."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        super().connection_lost(exc)

    def _let_go(self) -> None:
        self._deadline = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


class Server(uvicorn.Server):
    """Serves at a socket, says its runs and address once questions can be asked, and reloads when told to."""

    def __init__(
        self,
        served: Mapping[str, Served],
        settings: ServerSettings,
        listener: socket.socket,
        say: Callable[[Service, str], Any],
    ) -> None:
        config = uvicorn.Config(
            create_app(served, settings),
            http=PatientProtocol,
            ws="none",
            log_level="critical",  # faults are logged once, by the application
            access_log=False,
            server_header=False,
            limit_concurrency=settings.limits.connections,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=5,
        )
        super().__init__(config)
        self.runs: Runs = config.app.state.runs  # type: ignore[union-attr]
        for service in self.runs.services.values():
            place = "" if service is self.runs.first else f"?{urlencode({'run': service.name})}"
            service.announce = partial(say, service, url(listener) + place)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the workers, then listen."""
        await super().startup(sockets)
        self.loop = asyncio.get_running_loop()
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            self.loop.add_signal_handler(signal.SIGHUP, self.runs.reload)
        if self.started and not self.should_exit:
            for service in self.runs.services.values():
                service.announce()


def serve(served: Mapping[str, Served], settings: ServerSettings, say: Callable[[Service, str], Any] = print) -> None:
    """Serve until interrupted; `say` gets each service and its address once questions can be asked."""
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    with listen(settings.host, settings.port) as listener:
        server = Server(served, settings, listener, say)
        try:
            server.run(sockets=[listener])
        except SystemExit:  # how uvicorn says that the application did not start
            raise server.runs.problem or RunError("the service did not start") from None


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address; one that cannot be had is an error that says why."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With the protocol named, asyncio sends replies at once instead of waiting for them to fill a packet.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"no address '{host}' on this machine ({error})") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(f"cannot listen at {host} port {port} ({reason}); try another port") from None
    return listener


def url(listener: socket.socket) -> str:
    """The address to open in a browser."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{host}:{port}/"
