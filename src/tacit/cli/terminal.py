"""Printing for people, and the end of an interrupted training."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from tacit.engine.answers.aligned_cells import escape_control_chars

# texts of torch's errors, on a GPU and on a CPU
_MEMORY_ERRORS = ("out of memory", "can't allocate memory")


def say(line: str, err: bool = False) -> None:
    """Print a line with control characters escaped; with `err`, on standard error."""
    typer.echo(escape_control_chars(line), err=err)


def is_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory is short."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _MEMORY_ERRORS)


@contextmanager
def resumable() -> Iterator[None]:
    """Turn Ctrl-C during training into exit code 130 and a hint how to resume."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if not str(interrupt):  # nothing was saved, and torch may be there in part alone
            if os.environ.get("RANK", "0") == "0":
                say("interrupted", err=True)
            raise typer.Exit(130) from None
        from tacit.distributed.shards import process_number, world_size

        world = world_size()
        start = (
            ["tacit"] if world == 1 else ["torchrun", "--nproc-per-node", str(world), "-m", "tacit"]
        )
        # with the flags of how the graph is read
        arguments = [word for word in sys.argv[1:] if word not in ("--force", "--resume")]
        if process_number() == 0:
            command = shlex.join([*start, *arguments, "--resume"])
            say(f"{interrupt}; go on with: {command}", err=True)
        raise typer.Exit(130) from None
