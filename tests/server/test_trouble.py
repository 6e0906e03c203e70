"""Slow questions, dying workers, hostile requests: what happens to everybody else."""

from __future__ import annotations

import errno
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from served import Running, limited, running
from served_graphs import DEADLY, EUROPE, SLOW, Made, europe
from tacit.engine.engine import Engine
from tacit.errors import RunError
from tacit.server import connections, serving
from tacit.server.served_run import ALONE, ServiceGroup
from tacit.server.settings import Limits, ServerSettings
from tacit.server.workers import pool
from tacit.server.workers.jobs import Job
from tacit.server.workers.worker import Worker


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    settings = ServerSettings(workers=2, limits=Limits(seconds=1.5, receive=0.5, body=20_000))
    with running(EUROPE, settings) as found:
        yield found


def test_a_slow_question_is_stopped_and_blocks_nobody(service: Running) -> None:
    with ThreadPoolExecutor(1) as thread:
        slow = thread.submit(service.ask, f"?c : borders({SLOW}, ?c)")
        time.sleep(0.2)
        start = time.monotonic()
        for _ in range(5):
            assert service.entities("?l : speaks(Spain, ?l)") == ["Spanish"]
        assert time.monotonic() - start < 1.2
        response = slow.result()
    assert response.status_code == 422
    assert "took longer than 1.5 s" in response.json()["error"]["message"]
    assert service.healthy()


def test_a_worker_that_dies_takes_only_its_own_questions_along(service: Running) -> None:
    with ThreadPoolExecutor(8) as threads:
        fine = [threads.submit(service.entities, "?l : speaks(Spain, ?l)") for _ in range(40)]
        lost = service.ask(f"?c : borders({DEADLY}, ?c)")
        assert [answer.result() for answer in fine] == [["Spanish"]] * 40
    assert lost.status_code == 503
    assert lost.headers["retry-after"] == "1"
    assert "ask again" in lost.json()["error"]["message"]
    assert service.healthy()


def test_a_worker_killed_from_outside_costs_nobody_an_answer(service: Running) -> None:
    with ThreadPoolExecutor(4) as threads:
        answers = [threads.submit(service.entities, "?l : speaks(Spain, ?l)") for _ in range(20)]
        os.kill(service.first.snapshot.pool.alive[0], signal.SIGKILL)
        assert [answer.result() for answer in answers] == [["Spanish"]] * 20
    assert service.healthy()


def test_a_full_queue_is_said_at_once() -> None:
    with running(EUROPE, limited(queue=2, seconds=3.0)) as service:
        with ThreadPoolExecutor(8) as threads:
            slow = threads.submit(service.ask, f"?c : borders({SLOW}, ?c)")
            pool = service.first.snapshot.pool
            start = time.monotonic()
            while not pool._open or pool.queue.length:  # until a worker has it
                time.sleep(0.01)
            rest = [threads.submit(service.ask, "?c : borders(Portugal, ?c)") for _ in range(5)]
            refused = [answer.result() for answer in rest if answer.result().status_code == 429]
            assert len(refused) == 3
            assert slow.result().status_code == 422
        assert time.monotonic() - start < 20
        assert "ask again" in refused[0].json()["error"]["message"]
        assert service.healthy()
        many = service.client.post(
            "/ask", json=[{"query": "?c : borders(Portugal, ?c)", "top": 1}] * 20
        ).json()
        # a list fills no queue: others could not ask
        assert ["answers" in reply for reply in many] == [True] * 20


def broken_request(draw: random.Random) -> bytes:
    """Bytes that are no request, or one that no route wants."""
    good = b'{"query": "?c : borders(France, ?c)"}'
    head = b"POST /ask HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    noise = draw.randbytes(draw.randrange(1, 200))
    cut = good[: draw.randrange(len(good))]
    return draw.choice(
        [
            noise,
            noise + b"\r\n\r\n",
            b"GET /" + noise.replace(b"\n", b"") + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
            head + b"content-length: -5\r\n\r\n" + good,
            head + b"content-length: 99999999999999999999\r\n\r\n",
            head + b"content-length: 21000\r\n\r\n" + b"x" * 21_000,
            head
            + b"transfer-encoding: chunked\r\n\r\n"
            + b"7530\r\n"
            + b"y" * 30_000
            + b"\r\n0\r\n\r\n",
            head + b"transfer-encoding: chunked\r\n\r\nzz\r\n" + good,
            head + b"content-length: %d\r\n\r\n" % len(cut) + cut,
            head + b"content-length: %d\r\n\r\n" % len(noise) + noise,
            head + b"x: " + b"h" * 70_000 + b"\r\n\r\n",
            b"POST /ask HTTP/1.1\r\n\r\n" + good,
            b"BREW /ask HTTP/9.9\r\n\r\n",
        ]
    )


def test_two_hundred_broken_requests_leave_the_service_answering(service: Running) -> None:
    draw = random.Random(7)
    statuses: set[bytes] = set()
    for _ in range(200):
        with service.connect() as connection:
            try:
                connection.sendall(broken_request(draw))
                connection.shutdown(1)
                reply = b"".join(iter(lambda: connection.recv(65_536), b""))
            except ConnectionError:
                continue
            assert b"Traceback" not in reply
            statuses.add(reply[9:12])
    assert service.healthy()
    assert statuses <= {b"", b"400", b"403", b"404", b"405", b"413", b"422"}
    assert {b"400", b"413", b"422"} <= statuses


def test_clients_that_take_their_time_hold_nobody_up(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    head = (
        b"POST /ask HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        b"content-length: 100\r\n\r\n"
    )
    slow = [service.connect() for _ in range(60)]
    try:
        for at, connection in enumerate(slow):
            connection.sendall((head + b"{", b"POST /as", b"")[at % 3])
        assert service.healthy()
        replies = [b"".join(iter(partial(each.recv, 65_536), b"")) for each in slow]
    finally:
        for connection in slow:
            connection.close()
    assert {reply[9:12] for reply in replies[::3]} == {b"408"}  # the body did not come
    assert set(replies[1::3]) | set(replies[2::3]) == {b""}  # not even the head did
    assert service.healthy()


class Missing(Made):
    """A graph whose workers find nothing to open."""

    def engine(self, group: ServiceGroup = ALONE) -> Engine:
        """Not here."""
        raise RunError("run 'nowhere' is missing; train it first")


def test_what_keeps_a_worker_from_starting_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunError, match="run 'nowhere' is missing; train it first"):
        serving.serve_runs({"nowhere": Missing(europe)}, ServerSettings(port=0, workers=1), print)
    assert "Traceback" not in capfd.readouterr().err


def test_no_thread_or_process_is_left_behind() -> None:
    before = set(threading.enumerate())
    with running(EUROPE, limited()) as service:
        pids = service.first.snapshot.pool.alive
        assert service.healthy()
    assert len(pids) == 1
    assert not set(threading.enumerate()) - before
    assert not Path(f"/proc/{pids[0]}/exe").exists()


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def failing(monkeypatch: pytest.MonkeyPatch, errors: list[Exception]) -> None:
    """Let workers fail to start by these errors, one after the other, before they start again."""

    def start(*arguments: Any) -> Worker:
        if errors:
            raise errors.pop(0)
        return Worker(*arguments)

    monkeypatch.setattr(pool, "Worker", start)
    monkeypatch.setattr(pool, "FIRST_DELAY", 0.2)


@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        (
            [OSError(errno.EAGAIN, "Resource temporarily unavailable")] * 3,
            "Resource temporarily unavailable",
        ),
        ([OSError(errno.EMFILE, "Too many open files")], "Too many open files"),
        ([EOFError("unexpected EOF")], "the process that workers are forked from ended"),
        ([RuntimeError("can't start new thread")] * 2, "can't start new thread"),
    ],
)
def test_a_worker_that_cannot_be_replaced_is_told_of_and_tried_again(
    errors: list[Exception],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running(EUROPE, ServerSettings(workers=2)) as service:
        workers = service.first.snapshot.pool
        ready = service.client.get("/ready").json()
        assert ready == {"ready": True, "workers": {"alive": 2, "wanted": 2}, "problem": None}
        failing(monkeypatch, list(errors))
        os.kill(workers.alive[0], signal.SIGKILL)
        wait_until(lambda: workers.problem != "")
        ready = service.client.get("/ready").json()
        assert ready["workers"] == {"alive": 1, "wanted": 2}
        assert reason in ready["problem"]
        assert reason in service.client.get("/health").json()["problem"]
        assert service.healthy()  # the other one answers
        wait_until(lambda: len(workers.alive) == 2)
        assert service.client.get("/ready").json() == {
            "ready": True,
            "workers": {"alive": 2, "wanted": 2},
            "problem": None,
        }
        assert service.healthy()
    said = [record.getMessage() for record in caplog.records]
    assert sum("ended by itself" in line for line in said) == 1
    assert [line for line in said if "is down and will be tried again" in line and reason in line]
    assert said[-1].endswith("of 2 runs again")


def test_without_any_worker_the_reason_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(EUROPE, limited()) as service:
        workers = service.first.snapshot.pool
        failing(monkeypatch, [OSError(errno.EAGAIN, "Resource temporarily unavailable")] * 3)
        os.kill(workers.alive[0], signal.SIGKILL)
        wait_until(lambda: workers.problem != "")
        refused = service.ask("?c : borders(Portugal, ?c)")
        assert refused.status_code == service.client.get("/ready").status_code == 503
        assert "Resource temporarily unavailable" in refused.json()["error"]["message"]
        assert (
            "Resource temporarily unavailable"
            in service.client.get("/ready").json()["error"]["message"]
        )
        wait_until(lambda: len(workers.alive) == 1)
        assert service.healthy()


def test_a_worker_that_ends_at_once_again_and_again_is_started_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    delays: list[float | None] = [None]
    with running(EUROPE, limited()) as service:
        workers = service.first.snapshot.pool
        monkeypatch.setattr(pool, "FIRST_DELAY", 0.1)
        monkeypatch.setattr(pool, "WATCH", 0.05)
        for _ in range(4):
            wait_until(lambda: len(workers.alive) == 1)
            os.kill(workers.alive[0], signal.SIGKILL)
            wait_until(lambda: workers._slots[0].delay != delays[-1])
            delays.append(workers._slots[0].delay)
        wait_until(lambda: len(workers.alive) == 1)
        assert service.healthy()
    assert delays[1:] == pytest.approx([0.0, 0.1, 0.2, 0.4])  # once may be chance
    assert any("ended within 5 s of its start" in record.getMessage() for record in caplog.records)


@pytest.mark.skipif(os.name == "nt", reason="there is no fork server")
def test_the_service_outlives_the_process_that_forks_its_workers(service: Running) -> None:
    workers = service.first.snapshot.pool
    before = workers.alive
    os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)  # type: ignore[attr-defined]
    wait_until(lambda: len(workers.alive) == 2 and not set(workers.alive) & set(before))
    assert service.healthy()


def test_what_cannot_be_sent_to_a_worker_costs_neither_the_worker_nor_anybody_else(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Worker.run

    def unsendable(worker: Worker, jobs: list[Job]) -> object:
        if any("Atlantis" in job.question for job in jobs):
            raise TypeError("cannot pickle it")
        return run(worker, jobs)

    monkeypatch.setattr(Worker, "run", unsendable)
    assert service.ask("?c : borders(Atlantis, ?c)").status_code == 500
    assert service.healthy()
    wait_until(lambda: len(service.first.snapshot.pool.alive) == 2)


def test_a_worker_that_starts_when_the_service_stops_is_not_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Worker] = []

    def start(*arguments: Any) -> Worker:
        made.append(Worker(*arguments))
        return made[-1]

    def hang(worker: Worker) -> None:
        worker._receive()
        worker._receive()  # which says nothing more

    with running(EUROPE, limited()) as service:
        monkeypatch.setattr(pool, "Worker", start)
        monkeypatch.setattr(Worker, "wait_until_ready", hang)
        os.kill(service.first.snapshot.pool.alive[0], signal.SIGKILL)
        wait_until(lambda: len(made) == 1)
        began = time.monotonic()
    assert time.monotonic() - began < 20
    assert not made[0].alive
