"""The queue of waiting questions, in groups that can be answered together."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from time import monotonic

from tacit.server.settings import Limits
from tacit.server.workers.jobs import Job, Reply

FIRST = 4  # batch size of a structure without timing
FAIR = 0.03  # seconds after which the oldest goes before the largest
AIM = 0.1  # seconds a batch should take, so that no structure holds a worker for long
REMEMBERED = 1024  # structures


@dataclass(eq=False)
class Ticket:
    """A job that waits for its reply; its key says whom it waits with."""

    job: Job
    key: object
    reply: asyncio.Future[Reply]
    arrived: float = field(default_factory=monotonic)
    lost: bool = False  # by a worker that died


class Queue:
    """Waiting jobs by key; a group is ready when it is large, or has waited long enough."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.length = 0
        self._groups: OrderedDict[object, list[Ticket]] = OrderedDict()
        self._arrived = asyncio.Event()
        # seconds per question by key, the latest last
        self._seconds: dict[object, float] = {}

    def put(self, job: Job) -> asyncio.Future[Reply]:
        """Add a job; its reply comes with the future."""
        ticket = Ticket(job, job.key, asyncio.get_running_loop().create_future())
        ticket.reply.add_done_callback(lambda _: self._drop(ticket))
        self._add(ticket)
        return ticket.reply

    def requeue(self, ticket: Ticket) -> None:
        """Put the job of a dead worker first and alone, since it may have been the cause."""
        ticket.key = ("alone", id(ticket))
        self._add(ticket)
        self._groups.move_to_end(ticket.key, last=False)

    def _add(self, ticket: Ticket) -> None:
        self._groups.setdefault(ticket.key, []).append(ticket)
        self.length += 1
        self._arrived.set()

    def _drop(self, ticket: Ticket) -> None:
        """Remove a job whose caller has gone, if no worker has it yet."""
        group = self._groups.get(ticket.key, [])
        if ticket in group:
            group.remove(ticket)
            self.length -= 1
            if not group:
                del self._groups[ticket.key]

    async def take(self) -> list[Ticket]:
        """The next batch of one key: the largest ready group, or the oldest after a while."""
        while True:
            if not self._groups:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            now = monotonic()
            ready = [key for key, group in self._groups.items() if self._is_ready(key, group, now)]
            if not ready:
                first = min(group[0].arrived for group in self._groups.values())
                await asyncio.sleep(max(0.0, first + self.limits.patience - now))
                continue
            waited = now - self._groups[ready[0]][0].arrived
            return self._pop(
                ready[0] if waited > FAIR else max(ready, key=lambda key: len(self._groups[key]))
            )

    def _is_ready(self, key: object, group: list[Ticket], now: float) -> bool:
        return now - group[0].arrived >= self.limits.patience or len(group) >= self._size(key)

    def _pop(self, key: object) -> list[Ticket]:
        size = self._size(key)
        group = self._groups.pop(key)
        batch = group[:size]
        if group[size:]:  # at the end, so that other structures have their turn
            self._groups[key] = group[size:]
        self.length -= len(batch)
        return batch

    def clear(self) -> list[Ticket]:
        """Everything that waits, taken out at once."""
        tickets = [ticket for group in self._groups.values() for ticket in group]
        self._groups.clear()
        self.length = 0
        return tickets

    def record_time(self, batch: list[Ticket], seconds: float) -> None:
        """Record how long a batch took, for the size of the next one of its structure."""
        key = batch[0].job.key
        self._seconds.pop(key, None)
        self._seconds[key] = seconds / len(batch)
        if len(self._seconds) > REMEMBERED:
            del self._seconds[next(iter(self._seconds))]

    def _size(self, key: object) -> int:
        seconds = self._seconds.get(key)
        size = FIRST if seconds is None else int(AIM / max(seconds, 1e-9))
        return max(1, min(self.limits.batch, size))
