"""The number of threads for a computation, by its work and the free cores.

Threads that share a product wait for each other. Where other processes keep the cores busy, one of
them is not running when the others wait for it, and a question that takes milliseconds alone takes
seconds. So small work gets one thread, and larger work the cores that this process may use and that
no other process uses.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
SMALL_STEP = 4e9  # FLOP of a training step below which a second thread does not pay
LOOK = 0.1  # seconds between two measurements of other processes
STALE = 2.0  # seconds after which a measurement says little about the present
# spinning time of a waiting thread: 0.1 ms instead of 4 (GNU) or 200 (Intel, LLVM)
WAITING = {"GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "0"}


def free_cores(allowed: int, quota: float = math.inf, others: float = 0.0) -> int:
    """The cores to compute on, at least one: `allowed` ones less a `quota` and `others`.

    >>> free_cores(4), free_cores(4, quota=1.5)
    (4, 2)
    >>> free_cores(4, others=2.8), free_cores(2, others=2.0)
    (1, 1)
    """
    return max(1, math.floor(min(quota, allowed - others) + 0.5))


def quota(
    groups: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")
) -> float:
    """The cores that the control groups of this process allow, the least of all levels."""
    limits = [math.inf]
    for line in _text(groups).splitlines():
        # empty for a malformed line
        controllers, _, place = line.partition(":")[2].partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        for root in (mounted / controllers, mounted / "cpu") if controllers else (mounted,):
            own = root / place.lstrip("/")
            limits += [
                _limit(folder) for folder in (own, *own.parents) if folder.is_relative_to(root)
            ]
    return min(limits)


def _limit(folder: Path) -> float:
    """The limit of one control group, of version 2 or 1."""
    numbers = _text(folder / "cpu.max").split() or [
        _text(folder / name) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    ]
    try:
        share, period = (float(number) for number in numbers)
    except ValueError:  # "max", or no such files
        return math.inf
    return share / period if share > 0 and period > 0 else math.inf


def busy(stat: str, cpus: Collection[int]) -> tuple[float, int]:
    """The busy ticks of some cores and the number of running threads, from `/proc/stat`.

    >>> busy("cpu0 10 0 5 900 20 1 2 3 0 0\\ncpu1 7 0 0 9 9 0 0 0 0 0\\nprocs_running 3\\n", {0})
    (21.0, 3)
    """
    ticks = 0.0
    running = 0
    for line in stat.splitlines():
        name, _, values = line.partition(" ")
        numbers = [int(value) for value in values.split() if value.isdigit()]
        if name == "procs_running":
            running = sum(numbers[:1])
        elif name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            # user, nice, system; irq, softirq, steal
            ticks += sum(numbers[:3]) + sum(numbers[5:8])
    return ticks, running


class Watch:
    """Measures the cores that other processes use, between two looks."""

    def __init__(self) -> None:
        self._looked = -math.inf
        self._ticks = 0.0
        self._own = 0.0
        # read once and lazily, since system files are slow
        self._quota: float | None = None
        self._free = os.cpu_count() or 1

    def free(self) -> int:
        """The number of cores free for this process, measured now or a moment ago."""
        now = time.monotonic()
        passed = now - self._looked
        if passed < LOOK:
            return self._free
        # set first, so that another thread does not measure an empty interval
        self._looked = now
        cpus = _cpus()
        (ticks, running), own = busy(_text(Path("/proc/stat")), cpus), time.process_time()
        if passed < STALE:
            per_second = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
            others = ((ticks - self._ticks) / per_second - (own - self._own)) / passed
        else:  # this thread runs too, and others may run on cores that this process may not use
            others = running - 1 - ((os.cpu_count() or 1) - len(cpus))
        self._ticks = ticks
        self._own = own
        self._quota = quota() if self._quota is None else self._quota
        self._free = free_cores(len(cpus), self._quota, min(max(0.0, others), len(cpus)))
        return self._free


def allowed_cores() -> float:
    """The cores that this process may use, by its affinity and its control groups."""
    return min(len(_cpus()), quota())


def _cpus() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


_WATCH = Watch()
_SECTIONS = threading.local()  # of each thread: the work it is at, and its threads before
# Python threads at work, with the number of threads that each may compute on
_AT_WORK: dict[int, int] = {}


@contextmanager
def threads_for(work: float, threshold: float = SMALL_STEP) -> Iterator[None]:
    """Compute on as many threads as the work is worth and cores are free.

    They are never more than before.
    """
    import torch

    outer = getattr(_SECTIONS, "current", None)
    thread = threading.get_ident()
    limit = torch.get_num_threads()
    if outer is None:  # torch reports the number that another thread has chosen
        limit = max(limit, *_AT_WORK.values(), 1)
    _SECTIONS.current = work, threshold, limit
    _AT_WORK.setdefault(thread, limit)
    choose_again()
    try:
        yield
    finally:
        _SECTIONS.current = outer
        if outer is None:
            _AT_WORK.pop(thread, None)
        if torch.get_num_threads() != limit:
            torch.set_num_threads(limit)


def choose_again() -> None:
    """Adjust the number of threads in the middle of long work.

    The free cores are shared by all Python threads that are at work.
    """
    section = getattr(_SECTIONS, "current", None)
    if section is None:
        return
    import torch

    work, threshold, limit = section
    free = min(limit, _WATCH.free()) if work >= threshold and limit > 1 else 1
    threads = max(1, free // max(1, len(_AT_WORK)))
    if threads != torch.get_num_threads():
        torch.set_num_threads(threads)


def spread(do: Callable[[T], object], pieces: Iterable[T], alone: bool = False) -> None:
    """Run independent pieces of work on the current number of threads, or on this one.

    Threads that share one product after another wait for each other each time; these wait once, at
    the end.
    """
    import torch

    pieces = list(pieces)
    choose_again()
    limit = torch.get_num_threads()
    with_grad = torch.is_grad_enabled()
    inference = torch.is_inference_mode_enabled()
    threads = 1 if alone else min(limit, len(pieces))
    if threads < 2:
        for piece in pieces:
            choose_again()
            do(piece)
        return
    from concurrent.futures import ThreadPoolExecutor

    queue = iter(pieces)  # shared, so that each piece goes to one thread

    def work() -> None:
        torch.set_num_threads(1)
        # these modes are local to a thread
        with torch.inference_mode(inference), torch.set_grad_enabled(with_grad):
            try:
                for piece in queue:
                    do(piece)
            except BaseException:
                list(queue)  # ends the other threads as well
                raise

    try:
        with ThreadPoolExecutor(threads - 1) as others:
            started = [others.submit(work) for _ in range(threads - 1)]
            work()
        for future in started:
            future.result()
    finally:
        torch.set_num_threads(limit)


def nobody_at_work() -> None:
    """Forget the other Python threads, which are gone in a forked process."""
    _AT_WORK.clear()


def wait_asleep(environment: MutableMapping[str, str]) -> None:
    """Let waiting threads sleep soon, unless the environment says how they wait.

    The libraries read this once, when torch is loaded: it is for processes of our own, before that.
    """
    if "OMP_WAIT_POLICY" not in environment:
        for name, value in WAITING.items():
            environment.setdefault(name, value)


def _text(path: Path) -> str:
    """The text of a system file, or "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
