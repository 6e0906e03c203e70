"""One worker: a process of its own with an engine, so that it can be stopped in the middle of anything."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from tacit.engine.engine import Engine
from tacit.errors import RunError, TacitError
from tacit.server.jobs import Job
from tacit.server.replies import Reply
from tacit.server.settings import Limits

Opener = Callable[[], Engine]
STARTING = 300.0  # seconds to load a graph and its weights


def _context() -> Any:
    # A fork server has torch loaded and no threads: its children start at once and share its pages.
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tacit.server.answering"])
    return context


class Worker:
    """A process that answers batches of jobs; every method blocks, so it is called from a thread."""

    def __init__(self, opener: Opener, limits: Limits, threads: int = 1) -> None:
        context = _context()
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, opener, limits, threads), daemon=True)
        try:
            self._process.start()
        finally:
            theirs.close()
        self.settings: dict[str, Any] = {}

    def wait_until_ready(self) -> None:
        """Return once the engine is loaded; what kept it from loading is raised here."""
        try:
            ready = self._connection.poll(STARTING)
            said = self._connection.recv() if ready else f"a worker did not start within {STARTING:.0f} s"
        except (EOFError, OSError):
            said = "a worker stopped while it started; is there enough memory?"
        if isinstance(said, str):
            self.stop()
            raise RunError(said)
        self.settings = said

    def run(self, jobs: Sequence[Job]) -> list[Reply]:
        """The replies to a batch; `EOFError` or `OSError` where the process is gone."""
        self._connection.send(jobs)
        replies: list[Reply] = self._connection.recv()
        return replies

    @property
    def pid(self) -> int | None:
        """The process id."""
        pid: int | None = self._process.pid
        return pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return bool(self._process.is_alive())

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()

    def stop(self) -> None:
        """End the process and let go of what belonged to it."""
        self._process.kill()
        self._process.join()
        self._connection.close()


def _work(connection: Connection, opener: Opener, limits: Limits, threads: int) -> None:
    """Answer batches until the service goes away."""
    import torch

    from tacit.server.answering import Answerer

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which then ends its workers
    torch.set_num_threads(threads)
    try:
        answerer = Answerer(opener(), limits)
    except TacitError as error:
        connection.send(str(error))
        return
    connection.send(answerer.engine.settings)
    while True:
        try:
            jobs = connection.recv()
            connection.send(answerer.replies(jobs))
        except (EOFError, OSError):
            return
