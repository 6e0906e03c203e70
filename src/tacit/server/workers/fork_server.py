"""The process that workers are forked from, with torch loaded and without threads."""

from __future__ import annotations

import multiprocessing
import sys
from contextlib import suppress
from typing import Any


def context() -> Any:
    """The multiprocessing context of workers; on Windows they cannot be forked."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    started = multiprocessing.get_context("forkserver")
    started.set_forkserver_preload(["tacit.server.workers.answering", "tacit.server.served_run"])
    return started


def start() -> None:
    """Start the server, which loads torch while this process reads the run."""
    context()
    with suppress(ImportError):  # without it, as on Windows, the first worker starts it
        from multiprocessing.forkserver import ensure_running

        ensure_running()
