"""How far a command is, on a terminal, and how to go on with one that is stopped."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from tacit.cli.terminal import say


@contextmanager
def bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on standard error for each thing that is counted: its name, how many are done, and how many there are.

    It is quiet where standard error is no terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:>4}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    tasks: dict[str, Any] = {}
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:

        def advance(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = shown.add_task(name, total=total)
            shown.update(tasks[name], completed=done)

        yield advance


@contextmanager
def resumable() -> Iterator[None]:
    """End with the usual exit code where a training is interrupted, and say how to go on with it."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        from tacit.distributed.shards import process_number, world_size

        world = world_size()
        start = ["tacit"] if world == 1 else ["torchrun", "--nproc-per-node", str(world), "-m", "tacit"]
        same = [word for word in sys.argv[1:] if word not in ("--force", "--resume")]  # how the graph is read, too
        if process_number() == 0:
            again = shlex.join([*start, *same, "--resume"])
            say(f"{interrupt}; go on with: {again}" if str(interrupt) else "interrupted", err=True)
        raise typer.Exit(130) from None
