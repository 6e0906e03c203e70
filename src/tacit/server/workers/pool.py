"""The pool of workers behind a queue; a slow or dead worker is replaced alone."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from tacit.distributed.threads import allowed_cores
from tacit.errors import RunError, TacitError
from tacit.server.metrics import Metrics
from tacit.server.routes.replies import Reply, failure
from tacit.server.served_run import Served
from tacit.server.settings import ServerSettings
from tacit.server.workers.jobs import Job
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
FAULT = failure(
    500, "the question could not be answered because of a fault in Tacit; the log has it"
)
LOST = failure(503, "the workers that held this question stopped; ask again, or with a smaller k")


class Pool:
    """Answers jobs with a fixed number of workers."""

    def __init__(
        self, served: Served, settings: ServerSettings, run: str, metrics: Metrics
    ) -> None:
        self.served = served
        self.size = settings.workers
        self.shards = settings.shards
        self.limits = settings.limits
        self._sizes = metrics.batches.labels(run)
        self._restarts = metrics.restarts.labels(run)
        # by number of a worker that is down: why none replaces it
        self._problems: dict[int, str] = {}
        self._delays: dict[int, float] = {}  # by number: seconds until the next attempt
        self._open: set[asyncio.Future[Reply]] = set()  # without a reply yet
        self.settings: dict[str, Any] = {}
        self._workers: dict[int, Worker] = {}
        self._made: set[Worker] = set()  # those that run or start
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False

    @property
    def problem(self) -> str:
        """The reason why a worker cannot be replaced; empty where none is down."""
        return next(iter(self._problems.values()), "")

    async def start(self) -> None:
        """Start every worker and return when all are ready."""
        self.queue = Queue(self.limits)
        # Per worker one thread waits for it, and one starts its successor.
        self._threads = ThreadPoolExecutor(2 * self.size, thread_name_prefix="tacit-worker")
        try:
            self._start_threads()
            started = await asyncio.gather(
                *(self._start() for _ in range(self.size)), return_exceptions=True
            )
            self._workers = {
                i: worker for i, worker in enumerate(started) if isinstance(worker, Worker)
            }
            for problem in started:
                if isinstance(problem, BaseException):
                    raise problem
        except BaseException:
            await self.stop()
            raise
        self.settings = self._workers[0].settings
        self._tasks = [asyncio.create_task(self._attend(number)) for number in self._workers]

    def _start_threads(self) -> None:
        """Start all threads, so that a system that has no more of them cannot lose a call later."""
        gate = threading.Event()
        try:
            for _ in range(2 * self.size):
                self._threads.submit(gate.wait)
        except RuntimeError as error:
            raise RunError(
                f"the threads that wait for workers could not be started ({error})"
            ) from None
        finally:
            gate.set()

    def give_up(self) -> None:
        """Kill workers, also those that still start; a signal handler may call this."""
        self._stopped = True
        for worker in tuple(self._made):
            worker.kill()

    async def stop(self) -> None:
        """Stop all workers, also busy ones and those that still start."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in set(self._made):
            worker.kill()
        self._threads.shutdown(wait=True)
        for worker in set(self._made):
            self._discard(worker)
        self._workers = {}

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

    @property
    def alive(self) -> list[int]:
        """The process ids of running workers; of a sharded worker, that of its first process."""
        return [worker.pid for worker in self._workers.values() if worker.alive]

    async def _attend(self, number: int) -> None:
        """Give a worker batches for ever; a fault is logged, or the worker's place were lost."""
        while True:
            try:
                await self._serve_batch(number)
            except Exception:
                log.exception("a worker could not be attended to")
                await asyncio.sleep(WATCH)

    async def _serve_batch(self, number: int) -> None:
        """Let a worker answer the next batch; replace one that died while idle."""
        try:
            async with asyncio.timeout(WATCH):
                taken = await self.queue.take()
        except TimeoutError:
            if not self._workers[number].alive:
                self._log_end(number)
                await self._replace(number, idle=True)
            return
        batch = [ticket for ticket in taken if not ticket.reply.done()]
        if batch:
            await self._run(number, batch)

    async def _run(self, number: int, batch: list[Ticket]) -> None:
        worker = self._workers[number]
        start = monotonic()
        self._sizes.observe(len(batch))
        running = asyncio.create_task(self._thread(worker.run, [ticket.job for ticket in batch]))
        # Mark the exception as retrieved, for when the pool stops.
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        late = False
        try:
            if await self._overdue(running, batch):
                late = True
                worker.kill()
            replies = await running
        except (EOFError, OSError):
            if late:
                advice = "ask with a smaller k, another search, or in parts"
                reply = failure(
                    422, f"the question took longer than {self.limits.seconds:g} s; {advice}"
                )
                self._deliver(batch, [reply] * len(batch))
            else:
                self._log_end(number)
                self._lost(batch)
            await self._replace(number)
        except Exception:
            # A job or reply could not be sent, so the state of the pipe is unknown.
            log.exception("a question failed: %.500s", batch[0].job.question)
            self._deliver(batch, [FAULT] * len(batch))
            await self._replace(number)
        else:
            self.queue.timed(batch, monotonic() - start)
            self._deliver(batch, replies)

    async def _overdue(self, running: asyncio.Task[list[Reply]], batch: list[Ticket]) -> bool:
        """Whether a batch exceeds its time, or runs on after all callers have gone."""
        # done when every caller has gone
        left = asyncio.create_task(asyncio.wait([ticket.reply for ticket in batch]))
        try:
            await asyncio.wait(
                {running, left}, timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if running.done():
                return False
            if left.done():
                await asyncio.wait({running}, timeout=ABANDONED)
            else:
                log.warning(
                    "a question ran longer than %g s: %.200s",
                    self.limits.seconds,
                    batch[0].job.question,
                )
            return not running.done()
        finally:
            left.cancel()

    def _lost(self, batch: list[Ticket]) -> None:
        """Queue the open questions of a dead worker again; the second time, reply with an error."""
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

    def _log_end(self, number: int) -> None:
        pid = self._workers[number].pid
        log.warning(
            "worker %d of %d (process %d) ended by itself; another one starts",
            number + 1,
            self.size,
            pid,
        )

    async def _replace(self, number: int, idle: bool = False) -> None:
        """Replace a worker; where none starts, or idle ones end at once, retry with a delay."""
        self._restarts.inc()
        old = self._workers[number]
        await self._thread(self._discard, old)
        if not idle or monotonic() - old.started >= STEADY:
            self._delays.pop(number, None)
        elif number not in self._delays:  # the first time may be chance
            self._delays[number] = 0.0
        else:
            await self._put_off(
                number, f"a worker ended within {STEADY:g} s of its start; is there enough memory?"
            )
        while True:
            try:
                self._workers[number] = await self._start()
            except TacitError as error:
                await self._put_off(number, str(error))
            else:
                if self._problems.pop(number, ""):
                    log.warning("worker %d of %d runs again", number + 1, self.size)
                return

    async def _put_off(self, number: int, problem: str) -> None:
        """Say why a worker is down, where that is news, and wait before the next try."""
        delay = self._delays[number] = min(
            MAX_DELAY, max(FIRST_DELAY, 2 * self._delays.get(number, 0.0))
        )
        if self._problems.get(number) != problem:
            self._problems[number] = problem
            log.error(
                "worker %d of %d is down and will be tried again: %s",
                number + 1,
                self.size,
                problem,
            )
        if not self.alive:
            waiting = self.queue.clear()
            self._deliver(waiting, [failure(503, problem)] * len(waiting))
        await asyncio.sleep(delay)

    async def _start(self) -> Worker:
        """A worker that is ready; a `TacitError` says why none could start."""
        try:
            worker: Worker = await self._thread(self._started)
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

    def _started(self) -> Worker:
        """Start a worker and wait for it, in a thread; `stop` ends the wait."""
        share = max(1, int(allowed_cores() // (self.size * self.shards)))
        worker = Worker(self.served, self.limits, share, self.shards)
        self._made.add(worker)
        if self._stopped:
            worker.kill()
        try:
            worker.wait_until_ready()
        except BaseException:
            self._discard(worker)
            raise
        return worker

    def _discard(self, worker: Worker) -> None:
        """Stop a worker for good."""
        worker.stop()
        self._made.discard(worker)

    async def _thread(self, act: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, act, *arguments)
