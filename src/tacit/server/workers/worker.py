"""One worker: processes of its own with an engine, so that it can be stopped in the middle of anything."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import RunError, SettingsError, TacitError
from tacit.server.log_lines import write_log_lines
from tacit.server.routes.replies import Reply
from tacit.server.served_run import TIMEOUT, Served, ServiceGroup
from tacit.server.settings import Limits
from tacit.server.workers import fork_server
from tacit.server.workers.jobs import Job

if TYPE_CHECKING:
    from tacit.distributed.shards import Shards
    from tacit.engine.engine import Engine

BEAT = TIMEOUT / 5  # seconds without a question after which processes of a worker are told to wait on
STARTING = 300.0  # seconds to load a graph and its weights
LAST_WORDS = 2.0  # seconds for the first process to say why, where another has ended


class Worker:
    """Answers batches of jobs by a process, or by several that share a model's entities out; every method blocks, so
    it is called from a thread. Of several processes the first one is spoken to, and all of them live or none does.
    """

    def __init__(self, served: Served, limits: Limits, threads: int, shards: int) -> None:
        context = fork_server.context()
        self._connection, theirs = context.Pipe()
        self._meeting = Path(tempfile.mkdtemp(prefix="tacit-")) if shards > 1 else None
        place = self._meeting.joinpath("meeting").as_uri() if self._meeting is not None else ""
        self.processes = [
            context.Process(
                target=_work,
                args=(None if rank else theirs, served, limits, threads, ServiceGroup(rank, shards, place)),
                daemon=True,
            )
            for rank in range(shards)
        ]
        try:
            for process in self.processes:
                process.start()
        finally:
            theirs.close()
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
        """Return once the engine is loaded; what kept it from loading is raised here."""
        try:
            said = self._heard(STARTING)
        except TimeoutError:
            said = RunError(f"a worker did not start within {STARTING:.0f} s")
        except (EOFError, OSError):
            said = RunError("a worker stopped while it started; is there enough memory?")
            if self._connection.poll(LAST_WORDS):  # where several ended of the same, the first one says of what
                with suppress(EOFError, OSError):
                    said = self._connection.recv()
        if isinstance(said, TacitError):
            self.stop()
            raise said
        self.settings = said

    def run(self, jobs: Sequence[Job]) -> list[Reply]:
        """The replies to a batch; `EOFError` or `OSError` where a process is gone."""
        self._connection.send(jobs)
        replies: list[Reply] = self._heard()
        return replies

    def _heard(self, timeout: float | None = None) -> Any:
        """What the first process says next, unless one of them ends before."""
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
        """End the processes and let go of what belonged to them."""
        self.kill()
        for process in self.processes:
            process.join()
        self._connection.close()
        if self._meeting is not None:
            shutil.rmtree(self._meeting, ignore_errors=True)


def _work(connection: Connection | None, served: Served, limits: Limits, threads: int, group: ServiceGroup) -> None:
    """Answer batches until the service goes away, or one of the processes that share the entities does."""
    import torch

    from tacit.server.workers.answering import Answerer

    write_log_lines()
    for name in ("SIGINT", "SIGHUP"):  # a terminal sends them to all; the service alone acts, and ends its workers
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    torch.set_num_threads(threads)
    try:
        answerer = Answerer(served.engine(group), limits)
        shards = _ready(answerer.engine)
    except TacitError as error:
        if connection is not None:
            connection.send(error if isinstance(error, SettingsError) else RunError(str(error)))
        return
    try:
        if connection is not None:
            connection.send(answerer.about)
        while not shards.lost:
            jobs = _next(connection, shards)
            replies = answerer.replies(jobs) if jobs else []
            if connection is not None and jobs and not shards.lost:  # what is lost with a process is asked again
                connection.send(replies)
    except (EOFError, OSError, TacitError):
        return


def _ready(engine: Engine) -> Shards:
    """How the engine's entities are shared out, once every process has loaded its own."""
    from tacit.links.scorer import shards_of

    shards = shards_of(engine.scorer)
    if shards.world > 1:
        _ = engine.atoms  # what cannot be shared out is refused here
        shards.wait()
    return shards


def _next(connection: Connection | None, shards: Shards) -> Sequence[Job]:
    """The next batch, the same for all processes; an empty one where none came for a while, so that nobody gives up."""
    nothing: Sequence[Job] = ()
    if connection is None or (shards.world > 1 and not connection.poll(BEAT)):
        return shards.broadcast(nothing)
    jobs: Sequence[Job] = connection.recv()
    return shards.broadcast(jobs)
