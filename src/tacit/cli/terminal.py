"""Printing for people, shell completion, and the end of an interrupted training."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

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


_MOST = 200  # words that are offered
_LOOKED_AT = 1000  # folders that are read per key press


def complete_choice(words: Sequence[str]) -> Callable[[str], list[str]]:
    """A completer of one of some words."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def complete_runs(incomplete: str) -> list[str]:
    """World, and the runs that begin so or lie in a folder that does: folders and saved ones."""
    from tacit.sources import is_run, is_saved

    typed = Path(incomplete)
    folder = typed if incomplete.endswith("/") else typed.parent
    names = ["world"] if "world".startswith(incomplete) else []
    for path in _folders(folder):
        if str(path).startswith(incomplete.removeprefix("./")):
            names += [str(run) for run in (path, *_folders(path)) if is_run(run)]
    for path in sorted(folder.glob("*.tacit")):
        if str(path).startswith(incomplete.removeprefix("./")) and is_saved(path):
            names.append(str(path))
    return names[:_MOST]


def complete_shapes(incomplete: str) -> list[str]:
    """Names of shapes, for the last item of a list with commas."""
    from tacit.query.sampling.shapes import SHAPES

    before, comma, last = incomplete.rpartition(",")
    words = [*SHAPES] if comma else [*SHAPES, "positive", "negative", "all"]
    return [before + comma + word for word in words if word.startswith(last)]


def complete_relations(context: typer.Context, incomplete: str) -> list[str]:
    """Relations of the run on the command line that a shell can write without quotes."""
    from tacit.errors import TacitError
    from tacit.sources import load, names_run

    # Click parses no arguments while an option lacks its value, as the completed one does.
    source = str(context.params.get("source") or next(iter(context.args), ""))
    if not names_run(source):
        return []
    try:
        graph = load(source)
    except TacitError:
        return []
    labels = (label for label in graph.relations.labels[0::2] if label.startswith(incomplete))
    return list(islice((label for label in labels if shlex.quote(label) == label), _MOST))


def _folders(path: Path) -> Iterator[Path]:
    try:
        inside = islice(path.iterdir(), _LOOKED_AT)
        yield from sorted(
            folder for folder in inside if folder.is_dir() and not folder.name.startswith(".")
        )
    except OSError:  # no such folder, or no permission
        return
