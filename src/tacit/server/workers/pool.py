"""The pool of workers behind a queue; a slow or dead worker is replaced alone."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import Any

from tacit.distributed.threads import allowed_cores
from tacit.errors import RunError, TacitError
from tacit.server.monitoring import Metrics
from tacit.server.served_run import Served
from tacit.server.settings import ServerSettings
from tacit.server.workers.jobs import FAULT, Job, Reply, failure
from tacit.server.workers.queue import Queue, Ticket
from tacit.server.workers.worker import Worker

log = logging.getLogger("tacit.server")
WATCH = 1.0  # seconds between checks of an idle worker
# Seconds that an abandoned question may run on; replacing a worker takes as long.
ABANDONED = 0.25
STEADY = 5.0  # an idle worker that ends within these seconds is at fault
# seconds between attempts to start a worker
FIRST_DELAY = 0.5
MAX_DELAY = 30.0
LOST = failure(503, "the workers that held this question stopped; ask again, or with a smaller k")


class WorkerStarter:
    """Starts workers and ends them, in threads, since all of that blocks."""

    def __init__(self, served: Served, settings: ServerSettings) -> None:
        self.served = served
        self.settings = settings
        # Per worker one thread waits for it, and one starts its successor.
        self._num_threads = 2 * settings.workers
        self._threads = ThreadPoolExecutor(self._num_threads, thread_name_prefix="tacit-worker")
        self._workers: set[Worker] = set()  # that run or start
        self._stopped = False

    def start_threads(self) -> None:
        """Start all threads, so that a system that has no more of them cannot lose a call later."""
        gate = threading.Event()
        try:
            for _ in range(self._num_threads):
                self._threads.submit(gate.wait)
        except RuntimeError as error:
            raise RunError(
                f"the threads that wait for workers could not be started ({error})"
            ) from None
        finally:
            gate.set()

    def in_thread(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """The result of a call in one of the threads."""
        return asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    async def start(self) -> Worker:
        """A worker that is ready; a `TacitError` says why none could start."""
        try:
            worker: Worker = await self.in_thread(self._start_and_wait)
        except TacitError:
            raise
        except EOFError:
            raise RunError(
                "the process that workers are forked from ended; is there enough memory?"
            ) from None
        except Exception as error:  # no process, pipe or file is left
            raise RunError(
                f"a worker could not be started ({error or type(error).__name__})"
            ) from error
        return worker

    def _start_and_wait(self) -> Worker:
        settings = self.settings
        threads = max(1, int(allowed_cores() // (settings.workers * settings.shards)))
        worker = Worker(self.served, settings.limits, threads, settings.shards)
        self._workers.add(worker)
        if self._stopped:
            worker.kill()
        try:
            worker.wait_until_ready()
        except BaseException:
            self.discard(worker)
            raise
        return worker

    def discard(self, worker: Worker) -> None:
        """Stop a worker for good."""
        worker.stop()
        self._workers.discard(worker)

    def kill(self) -> None:
        """Kill all workers, also those that still start; a signal handler may call this."""
        self._stopped = True
        for worker in tuple(self._workers):
            worker.kill()

    def stop(self) -> None:
        """End all workers and threads."""
        self.kill()
        self._threads.shutdown(wait=True)
        for worker in tuple(self._workers):
            self.discard(worker)


@dataclass
class WorkerSlot:
    """The place of a worker in a pool, which its successors take."""

    name: str
    worker: Worker
    problem: str = ""  # why no worker replaces it
    delay: float | None = None  # seconds until the next attempt


class Pool:
    """Answers jobs with a fixed number of workers."""

    def __init__(
        self, served: Served, settings: ServerSettings, run: str, metrics: Metrics
    ) -> None:
        self.size = settings.workers
        self.limits = settings.limits
        self.queue = Queue(self.limits)
        self.settings: dict[str, Any] = {}  # of the engine
        self._starter = WorkerStarter(served, settings)
        self._batch_sizes = metrics.batches.labels(run)
        self._restarts = metrics.restarts.labels(run)
        self._open: set[asyncio.Future[Reply]] = set()  # without a reply yet
        self._slots: list[WorkerSlot] = []
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def problem(self) -> str:
        """The reason why a worker cannot be replaced; empty where none is down."""
        return next((slot.problem for slot in self._slots if slot.problem), "")

    @property
    def alive(self) -> list[int]:
        """The process ids of running workers; of a sharded worker, that of its first process."""
        return [slot.worker.pid for slot in self._slots if slot.worker.alive]

    async def start(self) -> None:
        """Start every worker and return when all are ready."""
        try:
            self._starter.start_threads()
            started = await asyncio.gather(
                *(self._starter.start() for _ in range(self.size)), return_exceptions=True
            )
            for worker in started:
                if isinstance(worker, BaseException):
                    raise worker
                name = f"worker {len(self._slots) + 1} of {self.size}"
                self._slots.append(WorkerSlot(name, worker))
        except BaseException:
            await self.stop()
            raise
        self.settings = self._slots[0].worker.settings
        self._tasks = [asyncio.create_task(self._serve_batches(slot)) for slot in self._slots]

    def kill(self) -> None:
        """Kill workers, also those that still start; a signal handler may call this."""
        self._starter.kill()

    async def stop(self) -> None:
        """Stop all workers, also busy ones and those that still start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._starter.stop()
        self._slots = []

    async def finish(self) -> None:
        """Stop once every question has its reply."""
        try:
            while self._open:
                await asyncio.sleep(0.01)
        finally:
            await self.stop()

    async def answer(self, job: Job) -> Reply:
        """The reply to a job; cancelling the caller cancels the job."""
        if self.queue.length >= self.limits.queue:
            return failure(
                429, f"{self.queue.length} questions wait already, as many as may; ask again later"
            )
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

    async def _serve_batches(self, slot: WorkerSlot) -> None:
        """Give a worker batches until cancelled; a fault is logged, and its place is not lost."""
        while True:
            try:
                await self._serve_batch(slot)
            except Exception:
                log.exception("a worker could not be attended to")
                await asyncio.sleep(WATCH)

    async def _serve_batch(self, slot: WorkerSlot) -> None:
        """Let a worker answer the next batch; replace one that died while idle."""
        try:
            async with asyncio.timeout(WATCH):
                tickets = await self.queue.take()
        except TimeoutError:
            if not slot.worker.alive:
                _log_end(slot)
                await self._replace(slot, idle=True)
            return
        batch = [ticket for ticket in tickets if not ticket.reply.done()]
        if batch:
            await self._run(slot, batch)

    async def _run(self, slot: WorkerSlot, batch: list[Ticket]) -> None:
        start = monotonic()
        self._batch_sizes.observe(len(batch))
        running = self._starter.in_thread(slot.worker.run, [ticket.job for ticket in batch])
        # Mark the exception as retrieved, for when the pool stops.
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        late = False
        try:
            if await self._is_overdue(running, batch):
                late = True
                slot.worker.kill()
            replies = await running
        except (EOFError, OSError):
            if late:
                advice = "ask with a smaller k, another search, or in parts"
                _reply_to_all(
                    batch, 422, f"the question took longer than {self.limits.seconds:g} s; {advice}"
                )
            else:
                _log_end(slot)
                self._requeue(batch)
            await self._replace(slot)
        except Exception:
            # A job or reply could not be sent, so the state of the pipe is unknown.
            log.exception("a question failed: %.500s", batch[0].job.question)
            _deliver(batch, [FAULT] * len(batch))
            await self._replace(slot)
        else:
            self.queue.record_time(batch, monotonic() - start)
            _deliver(batch, replies)

    async def _is_overdue(self, running: asyncio.Future[Any], batch: list[Ticket]) -> bool:
        """Whether a batch exceeds its time, or runs on after all callers have gone."""
        abandoned = asyncio.create_task(asyncio.wait([ticket.reply for ticket in batch]))
        try:
            await asyncio.wait(
                {running, abandoned},
                timeout=self.limits.seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if running.done():
                return False
            if abandoned.done():
                await asyncio.wait({running}, timeout=ABANDONED)
            else:
                log.warning(
                    "a question ran longer than %g s: %.200s",
                    self.limits.seconds,
                    batch[0].job.question,
                )
            return not running.done()
        finally:
            abandoned.cancel()

    def _requeue(self, batch: list[Ticket]) -> None:
        """Queue the open questions of a dead worker again; the second time, reply with an error."""
        for ticket in batch:
            if ticket.reply.done():
                continue
            if ticket.lost:
                ticket.reply.set_result(LOST)
            else:
                ticket.lost = True
                self.queue.requeue(ticket)

    async def _replace(self, slot: WorkerSlot, idle: bool = False) -> None:
        """Replace a worker; if none starts, or idle ones end at once, retry with a delay."""
        self._restarts.inc()
        await self._starter.in_thread(self._starter.discard, slot.worker)
        if not idle or monotonic() - slot.worker.started >= STEADY:
            slot.delay = None
        elif slot.delay is None:  # the first time may be chance
            slot.delay = 0.0
        else:
            await self._wait_to_retry(
                slot, f"a worker ended within {STEADY:g} s of its start; is there enough memory?"
            )
        while True:
            try:
                slot.worker = await self._starter.start()
            except TacitError as error:
                await self._wait_to_retry(slot, str(error))
            else:
                if slot.problem:
                    log.warning("%s runs again", slot.name)
                    slot.problem = ""
                return

    async def _wait_to_retry(self, slot: WorkerSlot, problem: str) -> None:
        """Log why a worker is down, unless the log has it, and wait before the next try."""
        slot.delay = min(MAX_DELAY, max(FIRST_DELAY, 2 * (slot.delay or 0.0)))
        if slot.problem != problem:
            slot.problem = problem
            log.error("%s is down and will be tried again: %s", slot.name, problem)
        if not self.alive:
            _reply_to_all(self.queue.clear(), 503, problem)
        await asyncio.sleep(slot.delay)


def _deliver(batch: Sequence[Ticket], replies: Sequence[Reply]) -> None:
    for ticket, reply in zip(batch, replies, strict=True):
        if not ticket.reply.done():
            ticket.reply.set_result(reply)


def _reply_to_all(batch: Sequence[Ticket], status: int, message: str) -> None:
    _deliver(batch, [failure(status, message)] * len(batch))


def _log_end(slot: WorkerSlot) -> None:
    log.warning("%s (process %d) ended by itself; another one starts", slot.name, slot.worker.pid)
