"""The workers and the queue in front of them; one that is slow or dies is replaced, and takes only its own along."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from tacit.distributed.threads import allowed_cores
from tacit.errors import TacitError
from tacit.server.metrics import Metrics
from tacit.server.routes.replies import Reply, failure
from tacit.server.served_run import Served
from tacit.server.settings import ServerSettings
from tacit.server.workers.jobs import Job
from tacit.server.workers.queue import Queue, Ticket
from tacit.server.workers.worker import Worker

log = logging.getLogger("tacit.server")
WATCH = 1.0  # seconds without a question after which a worker is looked at
# A question that nobody waits for runs on so long: most are done by then, and a worker takes as long to replace.
ABANDONED = 0.25
LOST = failure(503, "the workers that held this question stopped; ask again, or with a smaller k")


class Pool:
    """Answers jobs with a fixed number of workers."""

    def __init__(self, served: Served, settings: ServerSettings, run: str, metrics: Metrics) -> None:
        self.served, self.size, self.shards, self.limits = served, settings.workers, settings.shards, settings.limits
        self._sizes, self._restarts = metrics.batches.labels(run), metrics.restarts.labels(run)
        self.problem = ""  # what keeps workers from being replaced
        self._open: set[asyncio.Future[Reply]] = set()  # what has no reply yet
        self.settings: dict[str, Any] = {}
        self._workers: dict[int, Worker] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start every worker and return when all are ready."""
        self.queue = Queue(self.limits)
        # One thread waits for each worker; one more per worker starts its successor.
        self._threads = ThreadPoolExecutor(2 * self.size, thread_name_prefix="tacit-worker")
        try:
            started = await asyncio.gather(*(self._start() for _ in range(self.size)), return_exceptions=True)
            self._workers = {i: worker for i, worker in enumerate(started) if isinstance(worker, Worker)}
            for problem in started:
                if isinstance(problem, BaseException):
                    raise problem
        except BaseException:
            await self.stop()
            raise
        self.settings = self._workers[0].settings
        self._tasks = [asyncio.create_task(self._attend(number)) for number in self._workers]

    async def stop(self) -> None:
        """Stop every worker, whatever it is doing."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in self._workers.values():
            worker.stop()
        self._workers = {}
        self._threads.shutdown(wait=True)

    async def finish(self) -> None:
        """Stop once every question has its reply."""
        try:
            while self._open:
                await asyncio.sleep(0.01)
        finally:
            await self.stop()

    async def answer(self, job: Job) -> Reply:
        """The reply to a job; nobody works for one whose caller is cancelled."""
        if self.queue.length >= self.limits.queue:
            return failure(429, f"{self.queue.length} questions wait already, as many as may; ask again later")
        if self.problem and not self.alive:
            return failure(503, self.problem)
        reply = self.queue.put(job)
        self._open.add(reply)
        try:
            async with asyncio.timeout(2 * self.limits.seconds):
                return await reply
        except TimeoutError:
            return failure(503, "too many questions were waiting before this one; ask again later")
        finally:
            self._open.discard(reply)

    @property
    def alive(self) -> list[int]:
        """The process ids of workers that run; of a worker of several processes, that of the first."""
        return [worker.pid for worker in self._workers.values() if worker.alive]

    async def _attend(self, number: int) -> None:
        """Give one worker its batches, one after the other; one that dies while nobody asks is replaced as well."""
        while True:
            try:
                async with asyncio.timeout(WATCH):
                    taken = await self.queue.take()
            except TimeoutError:
                if not self._workers[number].alive:
                    await self._replace(number)
                continue
            batch = [ticket for ticket in taken if not ticket.reply.done()]
            if batch:
                await self._run(number, batch)

    async def _run(self, number: int, batch: list[Ticket]) -> None:
        worker, start = self._workers[number], monotonic()
        self._sizes.observe(len(batch))
        running = asyncio.create_task(self._thread(worker.run, [ticket.job for ticket in batch]))
        late = False
        try:
            if await self._overdue(running, batch):
                late = True
                worker.kill()
            replies = await running
        except (EOFError, OSError):
            if late:
                advice = "ask with a smaller k, another search, or in parts"
                reply = failure(422, f"the question took longer than {self.limits.seconds:g} s; {advice}")
                self._deliver(batch, [reply] * len(batch))
            else:
                self._lost(batch)
            await self._replace(number)
        else:
            self.queue.timed(batch, monotonic() - start)
            self._deliver(batch, replies)

    async def _overdue(self, running: asyncio.Task[list[Reply]], batch: list[Ticket]) -> bool:
        """Whether a batch takes longer than it may, or goes on with nobody left to wait for it."""
        left = asyncio.create_task(asyncio.wait([ticket.reply for ticket in batch]))  # by all who asked
        try:
            await asyncio.wait({running, left}, timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return False
            if left.done():
                await asyncio.wait({running}, timeout=ABANDONED)
            else:
                log.warning("a question ran longer than %g s: %.200s", self.limits.seconds, batch[0].job.question)
            return not running.done()
        finally:
            left.cancel()

    def _lost(self, batch: list[Ticket]) -> None:
        """Ask once more what a dead worker left unanswered; what two workers died of is given up."""
        for ticket in batch:
            if ticket.reply.done():
                continue
            if ticket.lost:
                self._deliver([ticket], [LOST])
            else:
                ticket.lost = True
                self.queue.put_back(ticket)

    def _deliver(self, batch: list[Ticket], replies: list[Reply]) -> None:
        for ticket, reply in zip(batch, replies, strict=True):
            if not ticket.reply.done():
                ticket.reply.set_result(reply)

    async def _replace(self, number: int) -> None:
        """Put a fresh worker in a place; where none starts, try again until one does."""
        self._restarts.inc()
        await self._thread(self._workers[number].stop)
        wait = 0.5
        while True:
            try:
                self._workers[number] = await self._start()
                self.problem = ""
                return
            except TacitError as error:
                if self.problem != str(error):
                    self.problem = str(error)
                    log.error("a worker could not be replaced: %s", error)
                if not self.alive:
                    waiting = self.queue.clear()
                    self._deliver(waiting, [failure(503, self.problem)] * len(waiting))
                await asyncio.sleep(wait)
                wait = min(30.0, 2 * wait)

    async def _start(self) -> Worker:
        share = max(1, int(allowed_cores() // (self.size * self.shards)))
        worker: Worker = await self._thread(Worker, self.served, self.limits, share, self.shards)
        await self._thread(worker.wait_until_ready)
        return worker

    async def _thread(self, act: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, act, *arguments)
