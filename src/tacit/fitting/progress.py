"""Progress events of long work, shown as a bar on a terminal and as lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

LINE_SECONDS = 10.0  # between plain lines


@dataclass(frozen=True)
class Count:
    """How much of some work is done, in its units."""

    what: str
    done: int
    total: int
    where: str = ""  # in words: "epoch 3 of 30", or what is counted: "2p"


@dataclass(frozen=True)
class Event(Count):
    """The progress of some work: `done` of `total`, where a total of 0 is unknown.

    In a training they are steps, and `what` happened is a `step` (reported a few times a second), a
    `round` that ended, a `validation`, or a `note` for the reader. Elsewhere it is a `count` of
    what `where` names: drawn or ranked queries of a shape, completed relations or entities, fetched
    facts.
    """

    loss: float | None = None  # the mean of the last round
    metric: float | None = None  # of the last validation: the mean reciprocal rank
    rate: float | None = None  # examples a second
    examples: str = "examples"  # what is learned from
    seconds: float = 0.0
    note: str = ""
    measured: str = ""  # what the metric is the mean of, and on what scale

    def __str__(self) -> str:
        if self.note:
            return self.note
        place = f"{self.where}: {self.amount}" if self.what == "count" else self.where
        loss = "" if self.loss is None else f", loss {self.loss:.4f}"
        measured = f" ({self.measured})" if self.measured else ""
        metric = "" if self.metric is None else f", validation MRR {self.metric:.2%}{measured}"
        rate = "" if self.rate is None else f", {self.rate:,.0f} {self.examples}/s"
        time_left = f", {duration(self.left)} left" if self.left else ""
        return f"{place}{loss}{metric}{rate}{time_left}"

    @property
    def amount(self) -> str:
        """The number done, with the total if it is known."""
        return f"{self.done:,} of {self.total:,}" if self.total else f"{self.done:,}"

    @property
    def left(self) -> float | None:
        """The estimated seconds left, at the speed so far."""
        if not 0 < self.done < self.total:
            return None
        return self.seconds / self.done * (self.total - self.done)


# calls with progress take such a function, or True to show it, or False
Progress = Callable[[Event], None]


@contextmanager
def shown(progress: Progress | bool) -> Iterator[Progress]:
    """Yield a function that takes events: a callback, a bar, or lines on standard error."""
    if callable(progress):
        yield progress
    elif not progress:
        yield lambda event: None
    elif sys.stderr.isatty():
        with bar() as tell:
            yield tell
    else:
        yield lines(sys.stderr)


@contextmanager
def counting(progress: Progress | bool) -> Iterator[Callable[[str, int], Callable[[int], None]]]:
    """Yield a factory of progress counters, by name and total.

    >>> with counting(print) as counts:
    ...     tell = counts("2p", 1000)
    ...     tell(1000)
    2p: 1,000 of 1,000
    """
    with shown(progress) as tell:

        def counts(what: str, total: int) -> Callable[[int], None]:
            began = time.monotonic()
            return lambda done: tell(
                Event("count", done, total, what, seconds=time.monotonic() - began)
            )

        yield counts


def lines(stream: TextIO) -> Progress:
    """Print events as lines: validations, notes, and progress every few seconds."""
    last = time.monotonic()

    def tell(event: Event) -> None:
        nonlocal last
        now = time.monotonic()
        if event.what in ("validation", "note") or now - last >= LINE_SECONDS:
            last = now
            print(event, file=stream, flush=True)

    return tell


@contextmanager
def bar(stream: TextIO | None = None, width: int | None = None) -> Iterator[Progress]:
    """Show events as progress bars with figures and time left, removed at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(
        file=stream, stderr=stream is None, force_terminal=True if stream else None, width=width
    )
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[figures]}"),
    )
    # output to a pipe must not be redirected to the console
    piped = not sys.stdout.isatty()
    with Bar(
        *columns, TimeRemainingColumn(), console=console, transient=True, redirect_stdout=not piped
    ) as shown_bar:
        tasks: dict[str, Any] = {}
        latest: dict[str, float] = {}  # since not every event has every figure

        def tell(event: Event) -> None:
            if event.note:
                console.print(event.note, highlight=False)
                return
            counted = event.where if event.what == "count" else ""
            if counted not in tasks:
                tasks[counted] = shown_bar.add_task("", total=None, figures="")
            figures = {
                "loss {:.4f}": event.loss,
                "valid MRR {:.2%}": event.metric,
                f"{{:,.0f}} {event.examples}/s": event.rate,
            }
            latest.update({text: value for text, value in figures.items() if value is not None})
            texts = [event.amount] if counted else []
            texts += [text.format(value) for text, value in latest.items()]
            shown_bar.update(
                tasks[counted],
                description=event.where,
                completed=event.done,
                total=event.total or None,
                figures="  ".join(texts),
            )

        yield tell


def duration(seconds: float) -> str:
    """A duration in words.

    >>> [duration(seconds) for seconds in (1.2, 8.2, 200, 9000, 500_000)]
    ['1 second', '8 seconds', '3 minutes', '2.5 hours', '6 days']
    """
    for unit, size, digits, minimum in (
        ("days", 86400, 0, 172_800),
        ("hours", 3600, 1, 6000),
        ("minutes", 60, 0, 100),
    ):
        if seconds >= minimum:
            return f"{seconds / size:.{digits}f} {unit}"
    return "1 second" if round(seconds) == 1 else f"{seconds:.0f} seconds"
