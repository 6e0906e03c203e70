"""Running the service: sockets, patience with slow clients, and the line that says where it is."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tacit.errors import RunError, SettingsError
from tacit.server.app import create_app
from tacit.server.log_lines import write_log_lines
from tacit.server.routes.replies import failure
from tacit.server.served_run import Served
from tacit.server.service import Runs, Service
from tacit.server.settings import ServerSettings

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

log = logging.getLogger("tacit.server")
SPARE = 200  # files that are no connection
HEAD_SECONDS = 10.0  # for the head of a request to arrive


class PatientProtocol(H11Protocol):
    """HTTP/1.1, but a client that does not get its request's head out in time is let go.

    So is the one that has been silent longest where there are more than `most` connections: sockets that say nothing
    cannot keep others out. Those that wait for a reply stay; where all do, the newest is turned away.
    """

    _deadline: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, most: int, order: dict[PatientProtocol, None], **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.most, self.order = most, order  # of the server's connections, those that were silent longest first

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock with the connection."""
        super().connection_made(transport)
        self.order[self] = None
        if len(self.order) > self.most:
            silent = next(each for each in self.order if not each.waits)  # this one, where all others wait
            if silent is self:
                self.app = _turned_away
            else:
                del self.order[silent]
                silent.transport.abort()
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._let_go)

    def data_received(self, data: bytes) -> None:
        """Start the clock again when a further request begins on the same connection."""
        self.order.pop(self, None)
        self.order[self] = None
        if self._deadline is None and self.conn.their_state is h11.IDLE:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._let_go)
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock with the connection."""
        self.order.pop(self, None)
        self._stop_clock()
        super().connection_lost(exc)

    @property
    def waits(self) -> bool:
        """Whether the whole request is here, and its reply is not out."""
        return self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _let_go(self) -> None:
        self._deadline = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


async def _turned_away(scope: Scope, receive: Receive, send: Send) -> None:
    """The reply where there is no room for a connection."""
    reply = failure(503, "there are as many connections as may be, all of them at work; ask again later")
    await reply.response(connection="close")(scope, receive, send)


class Server(uvicorn.Server):
    """Serves at a socket, says its runs and address once questions can be asked, and reloads when told to."""

    def __init__(
        self,
        served: Mapping[str, Served],
        settings: ServerSettings,
        listener: socket.socket,
        ready: Callable[[Service, str], Any],
    ) -> None:
        config = uvicorn.Config(
            create_app(served, settings),
            http=partial(PatientProtocol, most=settings.limits.connections, order={}),  # type: ignore[arg-type]
            ws="none",
            log_level="critical",  # faults are logged once, by the application
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=list(settings.trusted_proxies),
            timeout_keep_alive=30,
            timeout_graceful_shutdown=settings.grace,
        )
        super().__init__(config)
        self.runs: Runs = config.app.state.runs  # type: ignore[union-attr]
        for service in self.runs.services.values():
            place = "" if service is self.runs.first else f"?{urlencode({'run': service.name})}"
            service.announce = partial(ready, service, url(listener) + place)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the workers, then listen."""
        await super().startup(sockets)
        self.loop = asyncio.get_running_loop()
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            self.loop.add_signal_handler(signal.SIGHUP, self.runs.reload)
        if self.started and not self.should_exit:
            for service in self.runs.services.values():
                service.announce()


def serve_runs(served: Mapping[str, Served], settings: ServerSettings, ready: Callable[[Service, str], Any]) -> None:
    """Serve until interrupted; `ready` gets each service and its address once questions can be asked."""
    write_log_lines()
    allow_files(settings.limits.connections + SPARE)
    with listen(settings.host, settings.port) as listener:
        server = Server(served, settings, listener, ready)
        try:
            server.run(sockets=[listener])
        except SystemExit:  # how uvicorn says that the application did not start
            raise server.runs.problem or RunError("the service did not start") from None


def allow_files(wanted: int) -> None:
    """Let this process open so many files, if the system lets it: each connection is one, and many start with few."""
    if sys.platform == "win32":  # which counts none
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        if most < wanted:
            log.warning("%d connections need %d files, and this process may open %d", wanted - SPARE, wanted, most)


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
