"""The tools, resources and prompts as a server of the Model Context Protocol."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from tacit import __version__
from tacit.errors import TacitError, one_line
from tacit.server.mcp import guides
from tacit.server.mcp.tools import Tool, tools
from tacit.server.service import Runs

log = logging.getLogger("tacit.server")
Context = ServerRequestContext[Any, Any]
Paged = types.PaginatedRequestParams | None
PROMPT = types.Prompt(
    name="ask_the_graph",
    title="Ask the graph",
    description="How to ask this graph, with three worked questions, and a question to answer.",
    arguments=[
        types.PromptArgument(name="question", description="The question, in words."),
        types.PromptArgument(name="run", description="The run to ask; the first one by default."),
    ],
)
FAULT = "the call could not be answered because of a fault in Tacit; its log has it"


def create_server(runs: Runs, write: bool) -> Server[Any]:
    """A server of the protocol over served runs; with `write` it may change their facts."""
    offered = tools(write)

    async def list_tools(context: Context, page: Paged) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_entry(tool) for tool in offered.values()])

    async def call_tool(
        context: Context, call: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if call.name not in offered:
            raise _unknown("tool", call.name, offered)
        return await _call(runs, offered[call.name], call.arguments or {})

    async def list_resources(context: Context, page: Paged) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=_resources(runs))

    async def read_resource(
        context: Context, request: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        try:
            media_type, text = await guides.read_resource(runs, request.uri)
        except TacitError as error:
            raise _invalid_params(str(error)) from None
        contents = types.TextResourceContents(
            uri=request.uri, mime_type=media_type, text=_encodable(text)
        )
        return types.ReadResourceResult(contents=[contents])

    async def list_prompts(context: Context, page: Paged) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[PROMPT])

    async def get_prompt(
        context: Context, request: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        if request.name != PROMPT.name:
            raise _unknown("prompt", request.name, [PROMPT.name])
        values = request.arguments or {}
        try:
            text = await guides.worked_prompt(runs, values.get("run"), values.get("question"))
        except TacitError as error:
            raise _invalid_params(str(error)) from None
        content = types.TextContent(type="text", text=_encodable(text))
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    return Server(
        "tacit",
        version=__version__,
        title="Tacit",
        instructions=guides.INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


async def _call(runs: Runs, tool: Tool, arguments: dict[str, Any]) -> types.CallToolResult:
    """The result of a call; what is wrong with it is told to the model that calls."""
    try:
        data, text = await tool.run(runs, arguments)
    except TacitError as error:
        return _failure(one_line(str(error)))
    except Exception:
        log.exception("a tool failed: %s", tool.name)
        return _failure(FAULT)
    content = types.TextContent(type="text", text=text)
    return types.CallToolResult(content=[content], structured_content=data)


def _failure(message: str) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=_encodable(message))], is_error=True
    )


def _unknown(kind: str, name: str, names: Iterable[str]) -> MCPError:
    return _invalid_params(f"there is no {kind} '{name[:80]}'; there is {', '.join(names)}")


def _invalid_params(message: str) -> MCPError:
    """The protocol's own error, of what no tool is there to answer."""
    return MCPError(types.INVALID_PARAMS, _encodable(one_line(message)))


def _encodable(text: str) -> str:
    """A text without halves of characters, which JSON may bring and UTF-8 does not have."""
    return text.encode("utf-8", "replace").decode()


def _entry(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=not tool.writes, destructive_hint=tool.writes, open_world_hint=False
    )
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=hints,
    )


def _resources(runs: Runs) -> list[types.Resource]:
    """The query language, and the schema of each run."""
    language = types.Resource(
        name="query-language",
        uri=guides.LANGUAGE_URI,
        description="The query language of ask and explain, on one page.",
        mime_type="text/markdown",
    )
    schemas = [
        types.Resource(
            name=f"schema of {service.name}",
            uri=guides.schema_uri(service),
            description="The relations in words, with domain, range, counts and examples.",
            mime_type="application/json",
        )
        for service in runs.services.values()
    ]
    return [language, *schemas]
