"""`tacit mcp` as a program starts it, and facts that agents change."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

import tacit
from agents import ENVIRONMENT, Agent, by_http, by_process, connected, fake_missing
from served import running
from served_graphs import europe
from tacit.server.served_run import ServedRun
from tacit.server.settings import ServerSettings

FACT = ["Portugal", "borders", "Atlantis"]
NEIGHBOURS = "?c : borders(Portugal, ?c)"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "europe"
    tacit.train(europe(), folder, progress=False, rank=4, epochs=1, batch=8, device="cpu")
    return folder


def known(agent: Agent) -> list[str]:
    answers = agent.call("ask", query=NEIGHBOURS, top=20)["answers"]
    return sorted(row["entity"] for row in answers if row["known"])


def add_and_remove(agent: Agent) -> None:
    """Change a fact and back, so that a module's run serves several tests."""
    listed = agent.tools()
    assert listed["remove_facts"].annotations.destructive_hint
    assert not listed["add_facts"].annotations.read_only_hint
    assert known(agent) == ["Spain"]
    misspelt = agent.error("add_facts", facts=[["Portugal", "boarders", "Spain"]])
    assert "boarders" in misspelt
    assert "`new" in misspelt
    assert "facts" in agent.error("add_facts", facts=[["Portugal", "borders"]])
    assert "at least 1 item" in agent.error("add_facts", facts=[])
    added = agent.call("add_facts", facts=[FACT], new=True)
    assert (added["added"], added["unchanged"]) == (1, 0)
    assert known(agent) == ["Atlantis", "Spain"]
    assert agent.call("add_facts", facts=[FACT])["unchanged"] == 1
    assert agent.call("remove_facts", facts=[FACT])["removed"] == 1
    assert known(agent) == ["Spain"]


def test_facts_are_changed_where_that_is_allowed(run: Path) -> None:
    with connected(by_process(str(run), "--write")) as agent:
        add_and_remove(agent)


def test_facts_are_changed_through_a_service_with_a_key(run: Path) -> None:
    settings = ServerSettings(workers=1, api_key="sesame", write=True)
    with (
        running({"europe": ServedRun.at(run, "cpu")}, settings) as service,
        connected(by_http(service.url, "sesame")) as agent,
    ):
        add_and_remove(agent)


def test_two_agents_ask_one_run_at_once_and_none_can_write(run: Path) -> None:
    def ask(mode: str) -> list[str]:
        with connected(by_process(str(run)), mode) as agent:
            assert "add_facts" not in agent.tools()
            with pytest.raises(MCPError, match="there is no tool 'remove_facts'"):
                agent.error("remove_facts", facts=[FACT])
            too_large = agent.error("ask", query="x" * 70_000)
            assert "larger than 65,536 bytes" in too_large
            return known(agent)

    with ThreadPoolExecutor(2) as agents:
        assert list(agents.map(ask, ("auto", "legacy"))) == [["Spain"]] * 2


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command as a process with pipes, which is ended."""
    with subprocess.Popen(
        [sys.executable, "-m", "tacit", "mcp", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def exchange(process: subprocess.Popen[str], line: str) -> Any:
    """The next message after a line."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def test_garbage_is_passed_over_and_the_end_of_input_ends_it(run: Path) -> None:
    with started(str(run)) as process:
        assert exchange(process, json.dumps(HELLO))["result"]["serverInfo"]["name"] == "tacit"
        assert process.stdin is not None
        for garbage in ("{", "[" * 50_000, "\x00\x1b[2J", '{"jsonrpc": 5}'):
            process.stdin.write(garbage + "\n")
        reply = exchange(process, json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}))
        while reply.get("id") != 2:  # garbage may be answered
            assert process.stdout is not None
            reply = json.loads(process.stdout.readline())
        assert reply["result"] == {}
        assert process.communicate(timeout=20)[0] == ""
        assert process.returncode == 0


def test_ctrl_c_ends_it_while_it_waits(run: Path) -> None:
    with started(str(run)) as process:
        exchange(process, json.dumps(HELLO))
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 130


def test_an_agent_that_reads_no_answers_leaves_no_traceback(run: Path) -> None:
    with started(str(run)) as process:
        exchange(process, json.dumps(HELLO))
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}) + "\n")
        process.stdin.close()
        assert process.wait(timeout=20) == 0
        assert process.stderr.read() == ""


def refused(*arguments: str, **environment: str) -> str:
    """The last line of a call that is refused; standard output is empty."""
    done = subprocess.run(
        [sys.executable, "-m", "tacit", "mcp", *arguments],
        capture_output=True,
        text=True,
        env=ENVIRONMENT | environment,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    *_, line = done.stderr.splitlines()  # behind what was mined
    return line


def test_what_cannot_be_served_is_said_in_a_line(run: Path, tmp_path: Path) -> None:
    assert "there is no run or graph 'runs/nowhere'" in refused("runs/nowhere")
    (tmp_path / "facts.tsv").write_text("France\tborders\tSpain\n", encoding="utf-8")
    of_facts = refused(str(tmp_path / "facts.tsv"), "--write", TACIT_CACHE=str(tmp_path))
    assert "train a run of your own" in of_facts
    for module in ("mcp", "fastapi"):
        line = refused(str(run), PYTHONPATH=fake_missing(tmp_path, module))
        assert line == (
            f"error: answering agents needs {module}; install it with: pip install 'tacit-kg[mcp]'"
        )
        (tmp_path / f"{module}.py").unlink()


def test_the_service_loads_the_protocol_when_an_agent_comes() -> None:
    code = "import sys, tacit.server.app; print('mcp' in sys.modules, 'mcp_types' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, check=True
    )
    assert done.stdout.split() == ["False", "False"]
