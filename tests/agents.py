"""Agents: clients of the official library, over both transports, that tests drive step by step."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from source_tree import ROOT

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


class Agent:
    """A client whose calls wait for their results."""

    def __init__(self, portal: Any, client: Client) -> None:
        self.portal = portal
        self.client = client

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """What a tool replies; its text is the same."""
        result = self.portal.call(self.client.call_tool, name, arguments)
        assert not result.is_error, result.content[0].text
        data: dict[str, Any] = result.structured_content
        assert json.loads(result.content[0].text) == data
        return data

    def error(self, name: str, **arguments: Any) -> str:
        """The sentence of a call that is refused."""
        result = self.portal.call(self.client.call_tool, name, arguments)
        assert result.is_error, result.structured_content
        assert result.structured_content is None
        (content,) = result.content
        text: str = content.text
        assert len(text.splitlines()) == 1
        assert "Traceback" not in text
        return text

    def tools(self) -> dict[str, Any]:
        """The tools by name."""
        return {tool.name: tool for tool in self.portal.call(self.client.list_tools).tools}

    def read(self, uri: str) -> str:
        """The text of a resource."""
        text: str = self.portal.call(self.client.read_resource, uri).contents[0].text
        return text

    def prompt(self, **arguments: str) -> str:
        """The text of the prompt."""
        result = self.portal.call(self.client.get_prompt, "ask_the_graph", arguments)
        (message,) = result.messages
        text: str = message.content.text
        return text


@contextmanager
def connected(server: Any, mode: str = "auto") -> Iterator[Agent]:
    """An agent of a server, which speaks the newest version of the protocol or an older one."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(
            Client(server, mode=mode, read_timeout_seconds=60)
        ) as client,
    ):
        yield Agent(portal, client)


def by_process(*arguments: str, **environment: str) -> StdioServerParameters:
    """`tacit mcp` with some arguments, as a program starts it."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "tacit", "mcp", *arguments],
        env=ENVIRONMENT | environment,
    )


@asynccontextmanager
async def by_http(url: str, key: str | None = None, query: str = "") -> AsyncIterator[Any]:
    """The transport to `/mcp` of a service."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        streamable_http_client(f"{url}mcp{query}", http_client=http) as streams,
    ):
        yield streams


def fake_missing(folder: Path, module: str) -> str:
    """A folder to put on the path, where a module cannot be found."""
    text = f"raise ModuleNotFoundError('it is missing', name={module!r})\n"
    (folder / f"{module}.py").write_text(text, encoding="utf-8")
    return os.pathsep.join([str(folder), str(ROOT / "src")])
