"""Running the service: its socket, its signals, and the line that says where it is."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType
from typing import Any
from urllib.parse import urlencode

import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from tacit.errors import RunError, SettingsError
from tacit.server.app import create_app
from tacit.server.connections import Connections
from tacit.server.monitoring import write_log_lines
from tacit.server.served_run import Served
from tacit.server.service import Runs, Service
from tacit.server.settings import ServerSettings

log = logging.getLogger("tacit.server")
SPARE = 200  # files beside connections


class Server(uvicorn.Server):
    """A uvicorn server that announces its runs when they are ready, and reloads on SIGHUP."""

    def __init__(
        self,
        served: Mapping[str, Served],
        settings: ServerSettings,
        listener: socket.socket,
        ready: Callable[[Service, str], Any],
    ) -> None:
        app: Any = create_app(served, settings)
        self.runs: Runs = app.state.runs
        if settings.trusted_proxies:
            app = ProxyHeadersMiddleware(app, trusted_hosts=list(settings.trusted_proxies))
        # Outermost, since the clients of a proxy are no connections.
        connections = Connections(app, settings.limits.connections)
        config = uvicorn.Config(
            connections,
            http=connections.protocol,  # type: ignore[arg-type]  # it makes protocols, as a class does
            ws="none",
            log_level="critical",  # faults are logged once, by the application
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=settings.grace,
        )
        self.ended_by: int | None = None  # a signal during the start
        super().__init__(config)
        for service in self.runs.services.values():
            place = "" if service is self.runs.first else f"?{urlencode({'run': service.name})}"
            service.announce = partial(ready, service, url(listener) + place)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal; before the start has ended, stop waiting for workers that load."""
        super().handle_exit(sig, frame)
        if not self.started:
            self.ended_by = sig
            for service in self.runs.services.values():
                service.snapshot.pool.kill()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the workers, then listen."""
        await super().startup(sockets)
        self.loop = asyncio.get_running_loop()
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            self.loop.add_signal_handler(signal.SIGHUP, self.runs.reload)
        if self.started and not self.should_exit:
            for service in self.runs.services.values():
                service.announce()


def serve_runs(
    served: Mapping[str, Served], settings: ServerSettings, ready: Callable[[Service, str], Any]
) -> None:
    """Serve until interrupted; `ready` gets each service and its address when it is ready."""
    write_log_lines()
    raise_file_limit(settings.limits.connections + SPARE)
    with listen(settings.host, settings.port) as listener:
        server = Server(served, settings, listener, ready)
        try:
            server.run(sockets=[listener])
        except SystemExit:  # uvicorn's sign that the application did not start
            if server.ended_by is not None:
                signal.raise_signal(server.ended_by)
            raise server.runs.problem or RunError("the service did not start") from None


def raise_file_limit(count: int) -> None:
    """Raise the limit of open files, if the system allows it: each connection is one."""
    if sys.platform == "win32":  # it has no such limit
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        most = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        if most < count:
            log.warning(
                "%d connections need %d files, and this process may open %d",
                count - SPARE,
                count,
                most,
            )


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address; one that cannot be had is an error that says why."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With the protocol named, asyncio sets TCP_NODELAY.
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
        raise SettingsError(
            f"cannot listen at {host} port {port} ({reason}); try another `port`"
        ) from None
    return listener


def url(listener: socket.socket) -> str:
    """The address to open in a browser."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{host}:{port}/"
