"""How many threads to compute on: as many as the work is worth, and as there are cores free for them.

Threads that share a product wait for each other. Where other processes keep the cores busy, one of them is not running
when the others wait for it, and a question that takes milliseconds alone takes seconds. So small work gets one thread,
and larger work those cores that this process may use and that nobody else does.
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
SMALL_STEP = 4e9  # FLOP of a training step below which a second thread costs more than it helps
LOOK = 0.1  # seconds between two looks at what other processes do
STALE = 2.0  # seconds after which the time between two looks says little about this moment
# How long a thread waits at full speed for the others before it sleeps: some 0.1 ms, where the libraries would take 4
# (GNU's) or 200 (Intel's and LLVM's). Between the steps of a product others come sooner, unless they are not running.
WAITING = {"GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "0"}


def free_cores(allowed: int, quota: float = math.inf, others: float = 0.0) -> int:
    """How many cores there are to compute on, at least one: of those `allowed`, what a `quota` and `others` leave.

    >>> free_cores(4), free_cores(4, quota=1.5), free_cores(4, others=2.8), free_cores(2, others=2.0)
    (4, 2, 1, 1)
    """
    return max(1, math.floor(min(quota, allowed - others) + 0.5))


def quota(groups: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")) -> float:
    """How many cores' time the control groups of this process leave it: the least of its own and those around it."""
    limits = [math.inf]
    for line in _text(groups).splitlines():
        controllers, _, place = line.partition(":")[2].partition(":")  # nothing, where a line is no such line
        if controllers and "cpu" not in controllers.split(","):
            continue
        for root in (mounted / controllers, mounted / "cpu") if controllers else (mounted,):
            own = root / place.lstrip("/")
            limits += [_limit(folder) for folder in (own, *own.parents) if folder.is_relative_to(root)]
    return min(limits)


def _limit(folder: Path) -> float:
    """The limit of one control group, of version 2 or 1: microseconds in a period of so many."""
    given = _text(folder / "cpu.max").split()
    given = given or (_text(folder / "cpu.cfs_quota_us") + " " + _text(folder / "cpu.cfs_period_us")).split()
    try:
        share, period = (float(number) for number in given)
    except ValueError:  # "max", or no such files
        return math.inf
    return share / period if share > 0 and period > 0 else math.inf


def busy(stat: str, cpus: Collection[int]) -> tuple[float, int]:
    """Of `/proc/stat`: the ticks that some cores have worked, or that a host took from them, and the running threads.

    >>> busy("cpu0 10 0 5 900 20 1 2 3 0 0\\ncpu1 7 0 0 9 9 0 0 0 0 0\\nprocs_running 3\\n", {0})
    (21.0, 3)
    """
    ticks, running = 0.0, 0
    for line in stat.splitlines():
        name, _, values = line.partition(" ")
        numbers = [int(value) for value in values.split() if value.isdigit()]
        if name == "procs_running":
            running = sum(numbers[:1])
        elif name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            ticks += sum(numbers[:3]) + sum(numbers[5:8])  # of user, nice, system; of interrupts, soft ones, and a host
    return ticks, running


class Watch:
    """Looks at the cores now and then; between two looks, what other processes used is all that this one did not."""

    def __init__(self) -> None:
        self._looked, self._ticks, self._own = -math.inf, 0.0, 0.0
        self._quota: float | None = None  # not read before it is needed, and once: files of the system are slow
        self._free = os.cpu_count() or 1

    def free(self) -> int:
        """How many cores are free for this process, or were a moment ago."""
        now = time.monotonic()
        passed = now - self._looked
        if passed < LOOK:
            return self._free
        self._looked = now  # first of all: a second thread would find that nobody did anything since the first looked
        cpus = _cpus()
        (ticks, running), own = busy(_text(Path("/proc/stat")), cpus), time.process_time()
        if passed < STALE:
            per_second = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
            others = ((ticks - self._ticks) / per_second - (own - self._own)) / passed
        else:  # this thread is one of those that run; others may be on cores that are not for this process
            others = running - 1 - ((os.cpu_count() or 1) - len(cpus))
        self._ticks, self._own = ticks, own
        self._quota = quota() if self._quota is None else self._quota
        self._free = free_cores(len(cpus), self._quota, min(max(0.0, others), len(cpus)))
        return self._free


def allowed_cores() -> float:
    """How many cores this process may use, by its affinity and its control groups."""
    return min(len(_cpus()), quota())


def _cpus() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


_WATCH = Watch()
_SECTIONS = threading.local()  # of each thread: the work it is at, and its threads before
_AT_WORK: dict[int, int] = {}  # the threads of Python that are at work, and how many each may compute on


@contextmanager
def threads_for(work: float, least: float = SMALL_STEP) -> Iterator[None]:
    """Compute on as many threads as some work is worth and cores are free, and never more than there were before."""
    import torch

    around, me, most = getattr(_SECTIONS, "now", None), threading.get_ident(), torch.get_num_threads()
    if around is None:  # to torch, a thread has as many as another one has chosen for its work
        most = max(most, *_AT_WORK.values(), 1)
    _SECTIONS.now = work, least, most
    _AT_WORK.setdefault(me, most)
    choose_again()
    try:
        yield
    finally:
        _SECTIONS.now = around
        if around is None:
            _AT_WORK.pop(me, None)
        if torch.get_num_threads() != most:
            torch.set_num_threads(most)


def choose_again() -> None:
    """In the midst of long work: look whether the cores are still as free as they were.

    Those that are free are shared by all threads of Python that are at work.
    """
    section = getattr(_SECTIONS, "now", None)
    if section is None:
        return
    import torch

    work, least, most = section
    chosen = min(most, _WATCH.free()) if work >= least and most > 1 else 1
    chosen = max(1, chosen // max(1, len(_AT_WORK)))
    if chosen != torch.get_num_threads():
        torch.set_num_threads(chosen)


def spread(do: Callable[[T], object], pieces: Iterable[T], alone: bool = False) -> None:
    """Do pieces of work that need nothing of each other on the threads there are, or on this one alone.

    Threads that share one product after another wait for each other each time; these wait once, at the end.
    """
    import torch

    pieces = list(pieces)
    choose_again()
    most, with_grad, inference = torch.get_num_threads(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    threads = 1 if alone else min(most, len(pieces))
    if threads < 2:
        for piece in pieces:
            choose_again()
            do(piece)
        return
    from concurrent.futures import ThreadPoolExecutor

    left = iter(pieces)  # which hands each piece to one of the threads that ask

    def work() -> None:
        torch.set_num_threads(1)
        with torch.inference_mode(inference), torch.set_grad_enabled(with_grad):  # of each thread its own
            try:
                for piece in left:
                    do(piece)
            except BaseException:
                list(left)  # so that the others end as well
                raise

    try:
        with ThreadPoolExecutor(threads - 1) as others:
            started = [others.submit(work) for _ in range(threads - 1)]
            work()
        for future in started:
            future.result()
    finally:
        torch.set_num_threads(most)


def nobody_at_work() -> None:
    """Forget the other threads of Python: in a process that was forked off they are gone."""
    _AT_WORK.clear()


def wait_asleep(environment: MutableMapping[str, str]) -> None:
    """Let threads that wait for others sleep soon, unless somebody has said how they are to wait.

    The libraries read this once, when torch is loaded: it is for processes of our own, before that.
    """
    if "OMP_WAIT_POLICY" not in environment:
        for name, value in WAITING.items():
            environment.setdefault(name, value)


def _text(path: Path) -> str:
    """What stands in a file of the system; nothing where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
