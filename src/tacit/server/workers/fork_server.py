"""The process that workers are forked from: it has torch loaded and no threads, so that they start at once."""

from __future__ import annotations

import multiprocessing
import sys
from typing import Any


def context() -> Any:
    """How workers are started; where processes cannot be forked, each starts from nothing."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    started = multiprocessing.get_context("forkserver")
    started.set_forkserver_preload(["tacit.server.workers.answering", "tacit.server.served_run"])
    return started


def start() -> None:
    """Let it load torch while this process reads the run, and not after it."""
    if sys.platform != "win32":
        from multiprocessing.forkserver import ensure_running

        context()
        ensure_running()
