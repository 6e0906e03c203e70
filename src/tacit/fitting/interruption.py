"""Ctrl-C as a wish, granted between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(KeyboardInterrupt):
    """A training ended between two steps because somebody asked for it."""


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Note a first SIGINT or SIGTERM in the event it yields; a second one interrupts at once.

    Weights are consistent between steps only, so a signal may not break into one. Outside the main thread, where
    Python delivers no signals, nothing is installed.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
