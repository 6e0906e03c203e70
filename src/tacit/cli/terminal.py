"""What commands print for people."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from tacit.engine.answers.aligned_cells import harmless


def say(line: str, err: bool = False) -> None:
    """Print a line for people, labels of others in it made harmless; with `err`, on standard error."""
    typer.echo(harmless(line), err=err)


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
