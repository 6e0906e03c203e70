"""The queue of waiting questions: who goes together, and who goes first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from tacit.server.settings import Limits
from tacit.server.workers.jobs import Job
from tacit.server.workers.queue import Queue


def job(question: str, **more: object) -> Job:
    return Job("ask", question, **more)  # type: ignore[arg-type]


PATHS = [job(f"?x : r(e{i}, ?y) & s(?y, ?x)") for i in range(100)]
HOPS = [job(f"?x : r(e{i}, ?x)") for i in range(100)]


def run(act: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(act())  # type: ignore[arg-type]


async def taken(queue: Queue) -> list[Job]:
    return [ticket.job for ticket in await queue.take()]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (job("?c : r(a, ?c)"), job("?c:r('b c',?c)"), True),
        (job("?c : r(a, ?c)"), job("?d : r(a, ?d)"), False),
        (job("?c : r(a, ?c) & s(b, ?c)"), job("?c : r(a, ?c) | s(b, ?c)"), False),
        (job("?c : r(a, ?c)"), job("?c : not r(a, ?c)"), False),
        (job("?c : r(a, ?c)"), job("?c : r(a, ?c)", top=3), False),
        (job("?c : r(a, ?c)"), job("?c : r(a, ?c)", changes=(("k", 3),)), False),
    ],
)
def test_questions_of_one_structure_share_a_key(one: Job, other: Job, same: bool) -> None:
    assert (one.key == other.key) is same


@pytest.mark.parametrize(
    "unit", ['\\"', '"\\', "+", "<", "'", '"', "?", "a", ".", "a.", "<+", "+?"]
)
@pytest.mark.parametrize("first", ['"', "", "a", "<"])
def test_no_text_takes_long_to_sort(unit: str, first: str) -> None:
    start = time.process_time()
    key = job(first + unit * (20_000 // len(unit))).key
    assert time.process_time() - start < 0.05
    assert hash(key)


def test_a_lone_question_waits_no_longer_than_the_patience() -> None:
    async def act() -> None:
        queue = Queue(Limits(patience=0.05))
        queue.put(HOPS[0])
        start = time.monotonic()
        assert await taken(queue) == HOPS[:1]
        assert 0.04 < time.monotonic() - start < 5

    run(act)


def test_a_batch_is_as_large_as_its_time_allows() -> None:
    async def act() -> None:
        queue = Queue(Limits(patience=0.0, batch=64))
        for each in HOPS:
            queue.put(each)
        first = await queue.take()
        assert len(first) == 4  # nobody knows yet how long they take
        queue.record_time(first, seconds=0.04)
        assert [ticket.job for ticket in await queue.take()] == HOPS[4:14]  # ten of 10 ms each
        queue.record_time(first, seconds=0.0004)
        assert len(await queue.take()) == 64
        assert queue.length == 100 - 4 - 10 - 64

    run(act)


def test_the_largest_group_goes_first_until_the_oldest_has_waited() -> None:
    async def act() -> None:
        queue = Queue(Limits(patience=0.0))
        queue.put(PATHS[0])
        for each in HOPS[:3]:
            queue.put(each)
        assert await taken(queue) == HOPS[:3]
        for each in HOPS[3:6]:
            queue.put(each)
        await asyncio.sleep(0.04)
        assert await taken(queue) == PATHS[:1]

    run(act)


def test_what_a_dead_worker_held_goes_first_and_alone() -> None:
    async def act() -> None:
        queue = Queue(Limits(patience=0.0))
        for each in HOPS[:2]:
            queue.put(each)
        lost = await queue.take()
        queue.put(PATHS[0])
        await asyncio.sleep(0.04)
        for ticket in lost:
            queue.requeue(ticket)
        assert [await taken(queue) for _ in range(3)] == [HOPS[1:2], HOPS[:1], PATHS[:1]]
        assert queue.length == 0

    run(act)


def test_what_nobody_waits_for_leaves_the_queue_at_once() -> None:
    async def act() -> None:
        queue = Queue(Limits(patience=0.0))
        replies = [queue.put(each) for each in (*HOPS[:3], PATHS[0])]
        for reply in (replies[1], replies[3]):
            reply.cancel()
        await asyncio.sleep(0)
        assert queue.length == 2
        assert await taken(queue) == [HOPS[0], HOPS[2]]
        replies[0].cancel()  # a worker has it: nothing is left to take out
        await asyncio.sleep(0)
        assert queue.length == 0

    run(act)
