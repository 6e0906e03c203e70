"""Ctrl-C as a stop request that takes effect between steps, or inside `breakable` code."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(KeyboardInterrupt):
    """A training stopped between two steps on request."""


class Broken(KeyboardInterrupt):
    """A step was abandoned on request before it changed any weight."""


class StopRequest(threading.Event):
    """A stop request; `at_once` says that it may interrupt `breakable` code."""

    at_once = False


_REQUEST: StopRequest | None = None  # of the training in the main thread
_BREAKABLE = False  # whether the main thread may be interrupted here


@contextmanager
def breakable() -> Iterator[None]:
    """Let a signal raise `Broken` in this block at once, where a training allows it.

    Python delivers signals to the main thread, so in others this does nothing.
    """
    global _BREAKABLE
    request = _REQUEST
    was_breakable = _BREAKABLE
    if (
        request is None
        or not request.at_once
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    try:
        _BREAKABLE = True
        if request.is_set():
            raise Broken
        yield
    finally:
        _BREAKABLE = was_breakable


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Record a first SIGINT or SIGTERM in the yielded event; a second one interrupts.

    Weights are consistent between steps only, so a signal may not break into one where they change.
    Outside the main thread, where Python delivers no signals, nothing is installed.
    """
    global _REQUEST
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, frame: FrameType | None) -> None:
        global _BREAKABLE
        is_second = stop.is_set()
        breaks = _BREAKABLE
        stop.set()
        _BREAKABLE = False  # exception handlers must not be interrupted
        if breaks:
            raise Broken
        if is_second:
            raise KeyboardInterrupt

    outer = _REQUEST
    _REQUEST = stop
    handlers = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        _REQUEST = outer
        for number, handler in handlers.items():
            signal.signal(number, handler)
