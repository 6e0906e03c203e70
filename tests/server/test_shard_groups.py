"""A worker of two processes that share the entities answers, lives and dies as one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

import tacit
from ring_runs import GRAPH
from served import Running, running
from tacit.adapt.adapter import Adapter
from tacit.adapt.calibrated import Adapted
from tacit.distributed.shards import Shards
from tacit.engine.atoms.calibration import Sigmoid
from tacit.engine.engine import Engine
from tacit.errors import SettingsError
from tacit.links.models import load_model
from tacit.server.served_run import ServedRun, ServiceGroup
from tacit.server.settings import Limits, ServerSettings
from tacit.server.workers.worker import Worker

QUESTION = "?c : exists ?x . next(n3, ?x) & next(?x, ?c) & not after(n5, ?c)"
OTHERS = (
    "?a, ?b : next(n3, ?a) & after(?a, ?b)",
    ": next(n3, ?x) & after(?x, n5)",
    "?r : ?r(n3, n4)",
    f"count {QUESTION}",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tacit.Run:
    return tacit.train(
        GRAPH,
        tmp_path_factory.mktemp("runs") / "run",
        progress=False,
        rank=4,
        epochs=3,
        device="cpu",
    )


@pytest.fixture(scope="module")
def service(run: tacit.Run) -> Iterator[Running]:
    # a group that was started anew takes a second or two for its first question
    settings = ServerSettings(workers=1, shards=2, limits=Limits(seconds=6.0))
    # as the command has it
    with running(ServedRun.at(run.folder.path, "cpu", adapted=True), settings) as service:
        yield service


def worker(service: Running) -> Worker:
    return service.first.snapshot.pool._slots[0].worker


def rounded(data: Any) -> Any:
    """Plain data with numbers to four digits, without analogies, which need all vectors."""
    if isinstance(data, dict):
        return {name: rounded(value) for name, value in data.items() if name != "analogies"}
    if isinstance(data, list):
        return [rounded(value) for value in data]
    return float(f"{data:.4g}") if isinstance(data, float) else data


def test_a_group_answers_as_one_process_does(service: Running, run: tacit.Run) -> None:
    for k in (2, 256):
        expected = run.engine.with_settings(k=k).ask(QUESTION, 5, explain=True, paths=2).to_dict()
        reply = service.client.post(
            "/explain", json={"query": QUESTION, "top": 5, "paths": 2, "k": k}
        )
        assert reply.status_code == 200, reply.text
        assert rounded(reply.json()) == rounded(expected)
    for question in OTHERS:
        reply = service.client.post("/explain", json={"query": question, "top": 5, "k": 2})
        assert rounded(reply.json()) == rounded(
            run.engine.with_settings(k=2).explain(question, 5).to_dict()
        )
    wrong = service.ask("?c : next(nobody, ?c)")
    assert wrong.status_code == 422
    assert "nobody" in wrong.json()["error"]["message"]
    assert len(worker(service).processes) == 2


def test_each_process_has_its_own_rows_alone(service: Running, run: tacit.Run) -> None:
    whole = run.engine.scorer.keys()  # type: ignore[attr-defined]
    for rank in range(3):
        shards = Shards(GRAPH.num_entities, rank, 3)
        share = load_model(run.folder, "cpu", shards)
        assert share.num_entities == GRAPH.num_entities
        assert share.tail_table.weight.tolist() == whole[shards.start : shards.stop].tolist()


def test_a_process_that_dies_is_replaced_with_its_group(service: Running) -> None:
    expected = service.ask(QUESTION).json()["answers"]
    for rank in (1, 0):
        before = worker(service)
        os.kill(before.processes[rank].pid, signal.SIGKILL)
        reply = service.ask(QUESTION)
        assert (reply.status_code, reply.json().get("answers")) == (200, expected)
        assert not any(process.is_alive() for process in before.processes)


def test_a_group_is_replaced_though_nobody_asks(service: Running) -> None:
    os.kill(worker(service).processes[1].pid, signal.SIGKILL)
    seen = []
    end = time.monotonic() + 30
    while seen[-2:] != [503, 200] and time.monotonic() < end:
        status = service.client.get("/ready").status_code
        seen += [status] if seen[-1:] != [status] else []
    assert seen[-2:] == [503, 200]  # a load balancer asks elsewhere meanwhile


def test_a_process_that_hangs_costs_one_question_its_time(service: Running) -> None:
    expected = service.ask(QUESTION).json()["answers"]
    os.kill(worker(service).processes[1].pid, signal.SIGSTOP)
    late = service.ask(QUESTION)
    assert late.status_code == 422
    assert "took longer than 6 s" in late.json()["error"]["message"]
    assert service.ask(QUESTION).json()["answers"] == expected


def test_what_cannot_be_shared_out_is_refused(run: tacit.Run) -> None:
    with pytest.raises(SettingsError, match="shards is 25, but there are only 24 entities"):
        ServiceGroup(24, 25).joined(24, "cpu")
    share = load_model(run.folder, "cpu", Shards(24, 0, 2))
    sees_heads = Adapted(Sigmoid(), Adapter(run.engine.scorer, "sp"))
    with pytest.raises(SettingsError, match="looks at the vectors of entities"):
        _ = Engine(GRAPH, share, calibration="sigmoid", adapter=sees_heads).atoms
