"""One worker: a process of its own with an engine, so that it can be stopped in the middle of anything."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from tacit.errors import RunError, TacitError
from tacit.server.jobs import Job
from tacit.server.replies import Reply
from tacit.server.served_run import Served
from tacit.server.settings import Limits

STARTING = 300.0  # seconds to load a graph and its weights


def _context() -> Any:
    # A fork server has torch loaded and no threads: its children start at once and share its pages.
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tacit.server.answering", "tacit.server.served_run"])
    return context


class Worker:
    """A process that answers batches of jobs; every method blocks, so it is called from a thread."""

    def __init__(self, served: Served, limits: Limits, threads: int = 1) -> None:
        context = _context()
        self._connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, served, limits, threads), daemon=True)
        try:
            self.process.start()
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

    def stop(self) -> None:
        """End the process and let go of what belonged to it."""
        self.process.kill()
        self.process.join()
        self._connection.close()


def _work(connection: Connection, served: Served, limits: Limits, threads: int) -> None:
    """Answer batches until the service goes away."""
    import torch

    from tacit.server.answering import Answerer

    for name in ("SIGINT", "SIGHUP"):  # a terminal sends them to all; the service alone acts, and ends its workers
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    torch.set_num_threads(threads)
    try:
        answerer = Answerer(served.engine(), limits)
    except TacitError as error:
        connection.send(str(error))
        return
    connection.send(answerer.engine.about)
    while True:
        try:
            jobs = connection.recv()
            connection.send(answerer.replies(jobs))
        except (EOFError, OSError):
            return
