"""Agents are answered over standard input and output, and at `/mcp` of the service."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from starlette.routing import Route

from tacit.errors import TacitError
from tacit.server.mcp import load_protocol
from tacit.server.monitoring import write_log_lines
from tacit.server.served_run import Served
from tacit.server.service import Runs
from tacit.server.settings import ServerSettings
from tacit.server.workers.jobs import failure

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server
    from starlette.types import Receive, Scope, Send

PATH = "/mcp"
# of requests, which a page of another origin must be allowed to send
HEADERS = ("Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name")


class AgentEndpoint:
    """The protocol over HTTP: each request is answered on its own, by one reply in JSON."""

    def __init__(self, runs: Runs, settings: ServerSettings) -> None:
        self.runs = runs
        self.settings = settings

    @property
    def route(self) -> Route:
        """The route; without sessions there is nothing to get or to delete."""
        return Route(PATH, self, methods=["POST"])

    @cached_property
    def _server(self) -> Server[Any]:
        server: Server[Any] = load_protocol().create_server(self.runs, self.settings.write)
        return server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; the first one loads the protocol, which takes half a second."""
        try:
            server = await asyncio.to_thread(lambda: self._server)
        except TacitError as error:
            await failure(501, str(error)).response()(scope, receive, send)
            return
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        manager = StreamableHTTPSessionManager(
            server,
            json_response=True,
            stateless=True,
            max_request_body_size=self.settings.limits.body,
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)


def take_output() -> TextIO:
    """Standard output as a file of its own; what else is printed goes to standard error.

    Processes that are started later do not have it, so it ends with this process.
    """
    sys.stdout.flush()
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace", newline="\n")
    os.dup2(2, 1)
    return output


def serve_stdio(
    served: Mapping[str, Served], settings: ServerSettings, output: TextIO, write: bool
) -> None:
    """Answer one agent over standard input and an output until it goes away."""
    write_log_lines()
    # A thread that waits for input cannot be interrupted, and nothing is left to be done.
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))
    try:
        asyncio.run(_serve_stdio(served, settings, output, write))
    except* BrokenPipeError:  # the agent went away while it was answered
        # what is left of the answer is flushed at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())


async def _serve_stdio(
    served: Mapping[str, Served], settings: ServerSettings, output: TextIO, write: bool
) -> None:
    import anyio
    from mcp.server.stdio import stdio_server

    runs = Runs(served, settings)
    async with runs.running(), stdio_server(stdout=anyio.wrap_file(output)) as streams:
        server = load_protocol().create_server(runs, write)
        await server.run(*streams, server.create_initialization_options())
