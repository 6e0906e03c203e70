"""`tacit serve` as a person starts it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from rule_runs import SCORE, write_cities
from served_graphs import europe
from source_tree import ROOT
from tacit.cli import app
from tacit.cli.serve import notes
from tacit.errors import RunError, SettingsError
from tacit.run.training import train
from tacit.run_folder.folder import RunFolder
from tacit.server.serving import raise_file_limit
from tacit.server.settings import ServerSettings


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "europe"
    train(europe(), folder, progress=False, rank=4, epochs=1, batch=8, device="cpu")
    return folder


def test_it_says_where_it_is_answers_reloads_and_ends_with_ctrl_c(run: Path) -> None:
    command = [sys.executable, "-m", "tacit", "serve", str(run), "--port", "0", "--workers", "1"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "TACIT_API_KEY": "sesame"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        line = process.stdout.readline()  # type: ignore[union-attr]
        found = re.search(r"europe: 15 entities, ready at (http://127\.0\.0\.1:\d+/)", line)
        try:
            assert found, line
            body = {"query": "?c : borders(Portugal, ?c)", "top": 1}
            assert httpx.post(found[1] + "ask", json=body).status_code == 401
            answers = httpx.post(
                found[1] + "ask", json=body, headers={"x-api-key": "sesame"}
            ).json()["answers"]
            assert [(answer["entity"], answer["known"]) for answer in answers] == [("Spain", True)]
            # the workers alone need torch, and have it from one process
            if Path("/proc/self/maps").is_file():
                assert "libtorch" not in Path(f"/proc/{process.pid}/maps").read_text(
                    encoding="utf-8"
                )
            process.send_signal(signal.SIGHUP)
            assert process.stdout.readline() == line  # type: ignore[union-attr]
            assert (
                httpx.post(found[1] + "ask", json=body, headers={"x-api-key": "sesame"}).json()[
                    "answers"
                ]
                == answers
            )
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
    assert errors == ""
    assert process.returncode in (0, 130)


def test_facts_without_a_run_are_served_with_predictions(tmp_path: Path) -> None:
    path = write_cities(tmp_path / "cities.tsv")
    command = [sys.executable, "-m", "tacit", "serve", str(path), "--port", "0", "--workers", "1"]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"),
        "TACIT_CACHE": str(tmp_path / "cache"),
    }
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        line = process.stdout.readline()  # type: ignore[union-attr]
        found = re.search(r"cities: 12 entities, ready at (http://127\.0\.0\.1:\d+/)", line)
        try:
            assert found, line
            (entry,) = (tmp_path / "cache").iterdir()
            with pytest.raises(RunError, match="in use"), RunFolder(entry).in_use(changes=True):
                pass  # the cache keeps what is served
            body = {"query": "?k : capital_of(c5, ?k)", "top": 1}
            (answer,) = httpx.post(found[1] + "ask", json=body).json()["answers"]
            assert (answer["entity"], answer["known"]) == ("k5", False)
            assert answer["score"] == pytest.approx(SCORE, abs=1e-6)
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
    assert errors.startswith("mined ")
    assert process.returncode in (0, 130)


@pytest.mark.skipif(os.name == "nt", reason="signals are sent otherwise there")
def test_ctrl_c_ends_a_service_whose_workers_still_load(run: Path, tmp_path: Path) -> None:
    """Workers that never finish to load stand in for those of a large run."""
    script = (
        "import os, signal, sys, threading, time\n"
        "from tacit.server.workers import pool, worker\n"
        "class Slow(worker.Worker):\n"
        "    def wait_until_ready(self):\n"
        "        super().wait_until_ready()\n"
        "        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "        self._receive()  # which says nothing more\n"
        "if __name__ == '__main__':\n"
        "    pool.Worker = Slow\n"
        "    sys.argv = ['tacit', 'serve', sys.argv[1], '--port', '0', '--workers', '1']\n"
        "    from tacit.cli import main\n"
        "    main()\n"
    )
    path = tmp_path / "serve.py"
    path.write_text(script)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, path, run],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("flags", "error", "words"),
    [
        (["--cors", "there.example"], SettingsError, "--cors is 'there.example'; it must be"),
        (["--timeout", "0"], SettingsError, "--timeout is 0.0; it must be above 0"),
        (["--max-k", "0"], SettingsError, "--max-k is 0; it must be at least 1"),
        (["--host", "no.such.host.invalid"], SettingsError, "no address 'no.such.host.invalid'"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    run: Path, flags: list[str], error: type, words: str
) -> None:
    result = CliRunner().invoke(app, ["serve", str(run), "--port", "0", *flags])
    assert isinstance(result.exception, error)
    assert words in str(result.exception)


def test_a_port_in_use_is_said_so(run: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["serve", str(run), "--port", str(port)])
    assert isinstance(result.exception, SettingsError)
    assert f"cannot listen at 127.0.0.1 port {port}" in str(result.exception)
    assert "try another --port" in str(result.exception)


def test_a_run_that_is_none_is_said_so(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["serve", str(tmp_path / "nowhere")])
    assert isinstance(result.exception, RunError)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--k", "0"], "--k is 0; it must be at least 1"),
        (["--max-k", "0"], "--max-k is 0; it must be at least 1"),
        (["--search", "magic"], "--search is 'magic'; it must be one of"),
        (["--new", "--observed", "none"], "--new leaves out what is known"),
        (["--device", "vulkan"], "--device is 'vulkan'; it must be auto"),
    ],
)
def test_engine_settings_and_limits_of_one_name_are_told_apart(
    run: Path, flags: list[str], words: str
) -> None:
    result = CliRunner().invoke(app, ["serve", str(run), "--port", "0", *flags])
    assert words in str(result.exception)


def test_it_says_what_a_service_that_others_reach_lets_them_do() -> None:
    everyone, any_name = notes(ServerSettings(host="0.0.0.0"))
    assert "everyone who can reach 0.0.0.0 may ask; --api-key" in everyone
    assert "answers to any name" in any_name
    assert "--trust-host NAME" in any_name
    assert (
        list(notes(ServerSettings(host="0.0.0.0", trusted_hosts=("a.example",), api_key="sesame")))
        == []
    )
    assert list(notes(ServerSettings())) == []


def test_it_may_open_as_many_files_as_its_connections_need() -> None:
    resource = pytest.importorskip("resource")  # not on Windows, which counts no files
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (600, before[1]))
        for wanted, allowed in ((500, 600), (700, 700), (650, 700)):
            raise_file_limit(wanted)
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == allowed
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
