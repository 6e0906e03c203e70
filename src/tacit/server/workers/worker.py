"""A worker: processes with an engine, which can be killed at any moment."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from tacit.errors import RunError, SettingsError, TacitError
from tacit.server.monitoring import write_log_lines
from tacit.server.served_run import TIMEOUT, Served, ServiceGroup
from tacit.server.settings import Limits
from tacit.server.workers import fork_server
from tacit.server.workers.jobs import Job, Reply

if TYPE_CHECKING:
    from tacit.distributed.shards import Shards
    from tacit.engine.engine import Engine

# seconds between heartbeats to the processes of an idle worker
BEAT = TIMEOUT / 5
STARTING = 300.0  # seconds to load a graph and its weights
LAST_WORDS = 2.0  # seconds for the first process to send its error


class Worker:
    """A process, or several that share a model's entities, that answers batches of jobs.

    Every method blocks, so it is called from a thread. Of several processes the first one is spoken
    to, and all of them live or none does.
    """

    def __init__(self, served: Served, limits: Limits, threads: int, shards: int) -> None:
        context = fork_server.context()
        self._connection, theirs = context.Pipe()
        self._meeting: Path | None = None
        self.processes: list[Any] = []  # the started ones
        try:
            if shards > 1:
                self._meeting = Path(tempfile.mkdtemp(prefix="tacit-"))
            place = self._meeting.joinpath("meeting").as_uri() if self._meeting is not None else ""
            for rank in range(shards):
                group = ServiceGroup(rank, shards, place)
                arguments = None if rank else theirs, served, limits, threads, group
                process = context.Process(target=_work, args=arguments, daemon=True)
                process.start()
                self.processes.append(process)
        except BaseException:
            self.stop()
            raise
        finally:
            theirs.close()
        self.started = monotonic()
        self.settings: dict[str, Any] = {}

    @property
    def pid(self) -> int:
        """The id of the process that is spoken to."""
        return int(self.processes[0].pid)

    @property
    def alive(self) -> bool:
        """Whether all processes run."""
        return all(process.is_alive() for process in self.processes)

    def wait_until_ready(self) -> None:
        """Return once the engine is loaded, or raise the error that prevented it."""
        try:
            message = self._receive(STARTING)
        except TimeoutError:
            message = RunError(f"a worker did not start within {STARTING:.0f} s")
        except (EOFError, OSError):
            message = RunError("a worker stopped while it started; is there enough memory?")
            with suppress(EOFError, OSError):
                # The first process may still send its error.
                if self._connection.poll(LAST_WORDS):
                    message = self._connection.recv()
        if isinstance(message, TacitError):
            raise message
        self.settings = message
        self.started = monotonic()

    def run(self, jobs: Sequence[Job]) -> list[Reply]:
        """The replies to a batch; `EOFError` or `OSError` where a process is gone."""
        self._connection.send(jobs)
        replies: list[Reply] = self._receive()
        return replies

    def _receive(self, timeout: float | None = None) -> Any:
        """The next message of the first process; `EOFError` if a process ends before."""
        ready = wait([self._connection, *(process.sentinel for process in self.processes)], timeout)
        if not ready:
            raise TimeoutError
        if self._connection not in ready:
            raise EOFError("a process of the worker ended")
        return self._connection.recv()

    def kill(self) -> None:
        """End the processes, which ends the thread that waits for them, too."""
        for process in self.processes:
            process.kill()

    def stop(self) -> None:
        """End the processes and release their resources."""
        self.kill()
        for process in self.processes:
            process.join()
        self._connection.close()
        if self._meeting is not None:
            shutil.rmtree(self._meeting, ignore_errors=True)


def _work(
    connection: Connection | None, served: Served, limits: Limits, threads: int, group: ServiceGroup
) -> None:
    """Answer batches until the service, or another process of the same worker, ends."""
    import torch

    from tacit.server.workers.answering import Answerer

    write_log_lines()
    # A terminal sends these to all processes; the service alone ends its workers.
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    torch.set_num_threads(threads)
    try:
        answerer = Answerer(served.engine(group), limits)
        shards = _ready_shards(answerer.engine)
    except TacitError as error:
        if connection is not None:
            connection.send(error if isinstance(error, SettingsError) else RunError(str(error)))
        return
    try:
        if connection is not None:
            connection.send(answerer.config)
        while not shards.lost:
            jobs = _next_batch(connection, shards)
            replies = answerer.replies(jobs) if jobs else []
            # The jobs of a broken group are queued again by the service.
            if connection is not None and jobs and not shards.lost:
                connection.send(replies)
    except (EOFError, OSError, TacitError):
        return


def _ready_shards(engine: Engine) -> Shards:
    """The shards of the engine, once every process has loaded its own."""
    from tacit.links.scorer import shards_of

    shards = shards_of(engine.scorer)
    if shards.world > 1:
        _ = engine.atoms  # raises if the engine cannot be sharded
        shards.wait()
    return shards


def _next_batch(connection: Connection | None, shards: Shards) -> Sequence[Job]:
    """The next batch, the same for all processes.

    It is empty if no job came for a while, so that no process times out.
    """
    nothing: Sequence[Job] = ()
    if connection is None or (shards.world > 1 and not connection.poll(BEAT)):
        return shards.broadcast(nothing)
    jobs: Sequence[Job] = connection.recv()
    return shards.broadcast(jobs)
