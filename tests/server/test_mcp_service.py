"""`/mcp` of the service: keys, limits, hostile arguments, and several clients at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

import httpx
import pytest
from mcp.shared.exceptions import MCPError
from starlette.testclient import TestClient

from agents import Agent, by_http, connected
from documents import blocks
from served import Running, limited, running
from served_graphs import EUROPE, SLOW
from source_tree import ROOT
from tacit.errors import SettingsError
from tacit.server import mcp
from tacit.server.app import create_app
from tacit.server.mcp import transports
from tacit.server.mcp.tools import tools
from tacit.server.settings import ServerSettings

PAGE = ROOT / "docs" / "agents.md"
PORTUGAL = "?c : borders(Portugal, ?c)"


@pytest.fixture(scope="module", params=["auto", "legacy"])
def agent(request: pytest.FixtureRequest, europe_service: Running) -> Iterator[Agent]:
    """An agent that speaks the newest version of the protocol, and one that does not."""
    with connected(by_http(europe_service.url), request.param) as agent:
        yield agent


def neighbours(agent: Agent, country: str) -> set[str]:
    reply = agent.call("ask", query="?c : borders($who, ?c)", parameters={"who": country})
    return {row["entity"] for row in reply["answers"] if row["known"]}


HOSTILE: list[tuple[str, dict[str, Any], str]] = [
    ("ask", {}, "'query': field required; the arguments are query,"),
    ("ask", {"query": 5}, "'query': input should be a valid string"),
    ("ask", {"query": None}, "'query': input should be a valid string"),
    ("ask", {"query": ["?c"]}, "'query': input should be a valid string"),
    ("ask", {"query": ""}, "'query': string should have at least 1 character"),
    ("ask", {"query": "x" * 20_001}, "at most 20000 characters"),
    ("ask", {"query": "\x00\x1b[2J\u202e"}, "unexpected"),
    ("ask", {"query": f"?c : {'!' * 5000}borders(France, ?c)"}, "levels"),
    ("ask", {"query": f"?c : {'(' * 9000}borders(France, ?c)"}, "levels"),
    ("ask", {"query": "?c : " + " & ".join(["borders(France, ?c)"] * 40)}, "40 atoms"),
    ("ask", {"query": PORTUGAL, "top": "many"}, "'top': input should be a valid integer"),
    ("ask", {"query": PORTUGAL, "top": True}, "'top': input should be a valid integer"),
    ("ask", {"query": PORTUGAL, "top": 0}, "'top': input should be greater than or equal to 1"),
    ("ask", {"query": PORTUGAL, "top": 10**30}, "'top': input should be less than or equal to 100"),
    ("ask", {"query": PORTUGAL, "tpo": 3}, "'tpo': extra inputs are not permitted; the arguments"),
    ("ask", {"query": PORTUGAL, "k": 10**9}, "k is 1000000000, this service allows at most"),
    ("ask", {"query": PORTUGAL, "search": "magic"}, "search is 'magic'; it must be one of"),
    ("ask", {"query": PORTUGAL, "parameters": {"x": "y"}}, "x"),
    ("ask", {"query": "?c : borders($who, ?c)"}, "parameter $who has no value"),
    ("ask", {"query": PORTUGAL, "run": "other"}, "there is no run 'other' here; there is only"),
    ("explain", {"query": PORTUGAL, "top": 21}, "less than or equal to 20"),
    ("explain", {"query": PORTUGAL, "paths": 99}, "less than or equal to 3"),
    ("score", {"subject": "France", "relation": "borders"}, "'object': field required"),
    ("score", {"subject": "Frnce", "relation": "borders", "object": "Spain"}, "mean 'France'"),
    ("score", {"subject": "\n", "relation": "\n", "object": "\n"}, "unknown"),
    ("complete", {"entity": "France", "min_score": 0}, "greater than or equal to 0.05"),
    ("complete", {"entity": "Frnce"}, "did you mean 'France'?"),
    ("entity", {"entity": "Frnce"}, "did you mean 'France'?"),
    ("entity", {"entity": "France", "relation": "boarders"}, "did you mean 'borders'"),
    ("rules", {"limit": -1}, "greater than or equal to 1"),
    ("find_entities", {"text": "a" * 201}, "at most 200 characters"),
    ("find_entities", {"text": "a", "end": "middle"}, "'end': input should be 'subject' or"),
    ("describe_graph", {"limit": 1e9}, "'limit'"),
]


@pytest.mark.parametrize(("tool", "arguments", "sentence"), HOSTILE)
def test_what_is_wrong_with_a_call_is_told_to_who_made_it(
    agent: Agent, tool: str, arguments: dict[str, Any], sentence: str
) -> None:
    assert sentence in agent.error(tool, **arguments)
    assert neighbours(agent, "Portugal") == {"Spain"}


def test_what_is_not_there_is_named_with_what_is(agent: Agent) -> None:
    for call, sentence in (
        (lambda: agent.error("drop_everything"), "there is no tool 'drop_everything'; there is "),
        (lambda: agent.error("add_facts", facts=[["a", "b", "c"]]), "there is no tool 'add_facts'"),
        (lambda: agent.read("tacit://runs/other/schema"), "there is tacit://query-language"),
        (lambda: agent.read("file:///etc/passwd"), "there is no resource"),
        (lambda: agent.portal.call(agent.client.get_prompt, "x"), "there is ask_the_graph"),
        (lambda: agent.prompt(run="other"), "there is no run 'other' here"),
    ):
        with pytest.raises(MCPError, match=sentence):
            call()


def post(service: Running, content: bytes, timeout: float = 30, **headers: str) -> Any:
    return service.client.post(
        "/mcp",
        content=content,
        timeout=timeout,
        headers={"content-type": "application/json", "accept": "application/json", **headers},
    )


def called(name: str, arguments: str) -> bytes:
    """A call of a tool as raw JSON."""
    call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":%s}}'
    return (call % (name, arguments)).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"[" * 20_000,
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":5}',
        b'{"jsonrpc":"2.0","id":1,"method":"no/such"}',
        called("ask", '{"query": "\\ud800"}'),
        called("ask", '{"query": "?c : borders(\\ud800, ?c)"}'),
        called("ask", '{"query": "?c", "run": "\\ud800"}'),
        called("ask", '{"query": "?c", "parameters": ' + '{"a":' * 5000 + "1" + "}" * 5000 + "}"),
        called("ask", '{"query": NaN}'),
        called("ask", "[1, 2]"),
        called("\\ud800", "{}"),
    ],
    ids=range(16),
)
def test_nothing_that_is_sent_is_a_fault(europe_service: Running, content: bytes) -> None:
    reply = post(europe_service, content)
    assert reply.status_code < 500, reply.text
    assert "Traceback" not in reply.text
    assert "fault" not in reply.text
    assert europe_service.healthy()


def test_a_request_that_is_too_large_is_not_read(europe_service: Running) -> None:
    reply = post(europe_service, called("ask", json.dumps({"query": "x" * 70_000})))
    assert reply.status_code == 413
    assert "65,536" in reply.json()["error"]["message"]


def test_only_posts_are_answered(europe_service: Running) -> None:
    for method in ("GET", "DELETE"):
        reply = europe_service.client.request(method, "/mcp")
        assert reply.status_code == 405
        assert reply.headers["allow"] == "POST"
        assert "does not answer" in reply.json()["error"]["message"]


def test_pages_of_other_sites_and_other_names_are_refused(europe_service: Running) -> None:
    assert post(europe_service, b"{}", **{"sec-fetch-site": "cross-site"}).status_code == 403
    assert post(europe_service, b"{}", host="evil.example").status_code == 403


def test_two_clients_at_once_get_their_own_answers(europe_service: Running) -> None:
    expected = {
        "Portugal": {"Spain"},
        "Poland": {"Germany"},
        "Spain": {"France", "Portugal"},
        "France": {"Spain", "Italy", "Germany"},
    }

    def ask(mode: str) -> list[str]:
        with connected(by_http(europe_service.url), mode) as agent:
            asked = [*expected] * 5
            return [each for each in asked if neighbours(agent, each) != expected[each]]

    with ThreadPoolExecutor(2) as clients:
        assert list(clients.map(ask, ("auto", "legacy"))) == [[], []]


def test_a_client_that_hangs_up_frees_its_worker(europe_service: Running) -> None:
    question = json.dumps({"query": f"?c : borders({SLOW}, ?c)", "search": "exact"})
    began = monotonic()
    with pytest.raises(httpx.ReadTimeout):
        post(europe_service, called("ask", question), timeout=0.5)
    assert europe_service.healthy()
    # long before the question would have been stopped
    assert monotonic() - began < europe_service.first.limits.seconds


def test_keys_and_limits_are_those_of_the_service() -> None:
    settings = ServerSettings(
        workers=1, api_key="sesame", limits=limited(seconds=0.7, atoms=2, k=100).limits
    )
    with running(EUROPE, settings) as service:
        assert post(service, called("ask", "{}")).status_code == 401
        assert post(service, called("ask", "{}"), authorization="Bearer x").status_code == 401
        with connected(by_http(service.url, "sesame")) as agent:
            assert neighbours(agent, "Portugal") == {"Spain"}
            three = "?c : borders(France, ?c) & borders(?c, ?x) & borders(?x, ?y)"
            assert "3 atoms, this service allows at most 2" in agent.error("ask", query=three)
            assert "k is 101" in agent.error("ask", query=PORTUGAL, k=101)
            slow = agent.error("ask", query=f"?c : borders({SLOW}, ?c)", search="exact")
            assert slow.startswith("the question took longer than 0.7 s; ask with a smaller k")
            assert neighbours(agent, "Portugal") == {"Spain"}
        metrics = service.client.get("/metrics", headers={"x-api-key": "sesame"}).text
        assert 'tacit_requests_total{route="/mcp",status="200"}' in metrics


def test_the_page_shows_what_the_tools_are_and_say() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (.*?) \|", text, flags=re.MULTILINE))
    shown = {name: takes for names, takes in rows.items() for name in re.findall(r"\w+", names)}
    offered = tools(write=True)
    assert set(shown) == set(offered)
    for name, takes in shown.items():
        assert set(re.findall(r"`(\w+)`", takes)) - {"new", "force"} <= set(
            offered["ask" if name == "explain" else name].arguments.model_fields
        ) | {"paths"}
    for block in (block.text for block in blocks(PAGE) if block.language == "json"):
        (server,) = json.loads(block)["mcpServers"].values()
        if "command" in server:
            assert [server["command"], *server["args"][:1]] == ["tacit", "mcp"]
        else:
            assert server["url"].endswith(transports.PATH)


def test_pages_that_are_allowed_to_may_send_the_headers_of_the_protocol() -> None:
    app = create_app({"only": EUROPE}, ServerSettings(cors=("https://a.example",)))
    client = TestClient(app, base_url="http://127.0.0.1")  # not entered, so no worker starts
    reply = client.options(
        "/mcp",
        headers={
            "origin": "https://a.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type,mcp-protocol-version,mcp-method",
        },
    )
    assert reply.status_code == 200, reply.text


def test_writing_needs_a_key() -> None:
    with pytest.raises(SettingsError, match="nothing says who may"):
        ServerSettings(write=True)
    assert ServerSettings(write=True, api_key="sesame").write


def test_without_the_library_the_rest_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named 'mcp', wanted by {name}", name="mcp")

    monkeypatch.setattr(mcp, "import_module", missing)
    with running(EUROPE, ServerSettings(workers=1)) as service:
        reply = post(service, called("ask", "{}"))
        assert reply.status_code == 501
        message = reply.json()["error"]["message"]
        assert message == "answering agents needs mcp; install it with: pip install 'tacit-kg[mcp]'"
        assert service.healthy()
