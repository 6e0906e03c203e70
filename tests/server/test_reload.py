"""A run replaced under a running service: answers are of the old or the new one."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tacit
from served import Running, running
from tacit.errors import RunError
from tacit.graph.graph import Graph
from tacit.run_folder.files import (
    ADAPTER,
    MODEL,
    QUESTIONS,
    RESULTS,
    SETTINGS,
    TRACE,
    WEIGHTS,
)
from tacit.run_folder.folder import RunFolder
from tacit.server.served_run import ServedRun
from tacit.server.settings import ServerSettings

OLD = Graph.of([("France", "borders", "Spain"), ("Italy", "speaks", "Italian")], name="old")
NEW = Graph.of(
    [("France", "borders", "Italy"), ("Spain", "speaks", "Italian"), ("Ghana", "speaks", "Twi")],
    name="new",
)


def train(graph: Graph, folder: Path) -> None:
    tacit.train(graph, folder, progress=False, force=True, rank=2, epochs=1, batch=2, device="cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    train(OLD, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def service(folder: Path) -> Iterator[Running]:
    with running(ServedRun.at(folder, "cpu"), ServerSettings(workers=2)) as service:
        yield service


def known(service: Running) -> list[str] | int:
    """Known neighbours of France (Spain: old run, Italy: new run), or a refusal's status."""
    response = service.ask("?c : borders(France, ?c)")
    if response.status_code != 200:
        return response.status_code
    return [row["entity"] for row in response.json()["answers"] if row["known"]]


def kill_a_worker(service: Running) -> None:
    os.kill(service.first.snapshot.pool.alive[0], signal.SIGKILL)


def reload(service: Running) -> None:
    service.server.loop.call_soon_threadsafe(service.first.reload)


def test_a_worker_that_dies_is_not_replaced_by_one_of_another_run(
    service: Running, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train(NEW, folder)
    kill_a_worker(service)
    pool = service.first.snapshot.pool
    end = time.monotonic() + 30
    while not pool.problem and time.monotonic() < end:
        assert known(service) == ["Spain"]
    assert [known(service) for _ in range(10)] == [["Spain"]] * 10
    assert service.client.get("/health").json()["workers"] == {"alive": 1, "wanted": 2}
    kill_a_worker(service)
    refused = service.ask("?c : borders(France, ?c)")
    assert refused.status_code == 503
    assert "the run was changed on disk" in refused.json()["error"]["message"]
    assert service.client.get("/health").json()["status"] == "failing"
    assert service.client.get("/entities", params={"q": "gha"}).json()["matches"] == []
    assert [
        record.message for record in caplog.records if "changed on disk" in record.message
    ] != []
    reload(service)
    seen: list[list[str] | int] = []
    while ["Italy"] not in seen and time.monotonic() < end + 30:
        seen.append(known(service))
    assert seen[-1] == ["Italy"]
    assert all(each in (503, ["Italy"]) for each in seen)


def test_a_reload_exchanges_graph_and_workers_while_questions_are_answered(
    service: Running, folder: Path
) -> None:
    seen: list[list[list[str] | int]] = [[], [], []]
    stop = threading.Event()

    def ask(mine: list[list[str] | int]) -> None:
        while not stop.is_set():
            mine.append(known(service))

    clients = [threading.Thread(target=ask, args=(mine,), daemon=True) for mine in seen]
    for client in clients:
        client.start()
    train(NEW, folder)
    reload(service)
    end = time.monotonic() + 60
    while any(mine[-1:] != [["Italy"]] for mine in seen) and time.monotonic() < end:
        time.sleep(0.05)
    health = service.client.get("/health").json()
    stop.set()
    for client in clients:
        client.join()
    assert (health["graph"]["name"], health["workers"]["alive"]) == ("new", 2)
    assert (
        service.client.get("/entities", params={"q": "gha"}).json()["matches"][0]["label"]
        == "Ghana"
    )
    for mine in seen:  # every question got an answer, and nobody saw the old run after the new one
        first = mine.index(["Italy"])
        assert mine == [["Spain"]] * first + [["Italy"]] * (len(mine) - first)


def test_what_cannot_be_reloaded_leaves_everything_as_it_was(
    service: Running, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / MODEL).unlink()
    reload(service)
    end = time.monotonic() + 30
    while not caplog.records and time.monotonic() < end:
        time.sleep(0.05)
    assert "nothing was reloaded" in caplog.records[0].message
    assert known(service) == ["Spain"]
    assert service.client.get("/health").json()["workers"]["alive"] == 2


@pytest.mark.parametrize(
    ("name", "same"), [(TRACE, True), (RESULTS, True), (ADAPTER, False), (SETTINGS, False)]
)
def test_only_what_an_engine_is_made_of_counts_as_a_change(
    folder: Path, name: str, same: bool
) -> None:
    served = ServedRun.at(folder, "cpu")
    with (folder / name).open("a") as file:
        file.write("\n")
    if same:
        assert served.engine().graph.name == served.graph().name == "old"
    else:
        for read in (served.graph, served.engine):
            with pytest.raises(RunError, match="the run was changed on disk"):
                read()


def test_a_run_that_changes_while_it_is_read_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = ServedRun.at(folder, "cpu")
    graph = RunFolder.graph

    def slow(run: RunFolder) -> Graph:
        read = graph(run)
        train_again(run)
        return read

    def train_again(run: RunFolder) -> None:
        monkeypatch.undo()
        train(NEW, run.path)

    monkeypatch.setattr(RunFolder, "graph", slow)
    with pytest.raises(RunError, match="the run was changed on disk"):
        served.engine()


def test_what_questions_leave_in_a_run_is_no_change_of_it(folder: Path) -> None:
    """A scan keeps the hash of the weights; a worker that dies after that must be replaced."""
    served = ServedRun.at(folder, "cpu")
    engine = served.engine().with_settings(candidates="scan", rules=False)
    answers = engine.ask("?c : exists ?d . borders(France, ?d) & speaks(?d, ?c)")
    (folder / QUESTIONS).write_bytes(b"of a training under way")
    assert (folder / WEIGHTS).is_file()
    assert served.engine().ask(answers.query).entities == answers.entities
