"""The command line. One file per group of commands; each loads what it needs when it runs."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import sys
import time

import typer

from tacit import __version__
from tacit.cli.commands import Commands
from tacit.cli.terminal import say
from tacit.distributed.threads import wait_asleep
from tacit.errors import TacitError

_HELD_BACK = 3.0  # seconds
_OF_WRITING = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT)

_OF_MEMORY = ("out of memory", "can't allocate memory")  # by what torch says on a GPU, and elsewhere

app = typer.Typer(
    name="tacit",
    cls=Commands,
    help="Answers logical questions over knowledge graphs that are missing facts, and says why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tacit {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Show a traceback when something goes wrong."),
) -> None:
    """Answers logical questions over knowledge graphs that are missing facts, and says why."""


def main() -> None:
    """Run the command line; an error of ours is one line and exit code 2, never a traceback."""
    wait_asleep(os.environ)  # before a command loads torch
    # Loading torch makes half a million objects that all stay: looking for garbage among them takes longer than Tacit's
    # own modules do, on the way in and once more on the way out.
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    debug = "--debug" in sys.argv
    for name in ("stdin", "stdout", "stderr"):  # which whoever started us may have closed
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):  # a label can have letters that the terminal's encoding has not
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except BrokenPipeError:  # the reader of a pipe went away: not an error
        _stop_printing()
        sys.exit(0)
    except (TacitError, KeyboardInterrupt, MemoryError, RuntimeError, OSError) as error:
        said = None if debug else _said(error)
        if said is None:
            raise
        if isinstance(error, OSError):
            _stop_printing()
        else:
            _hold_back()
        say(said, err=True)
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 2)


def _said(error: BaseException) -> str | None:
    """What people are told of an error; nothing of one that is a mistake of ours, and needs its traceback."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, TacitError):
        return f"error: {' '.join(str(error).split())}" + (f" (tacit {error.command})" if error.command else "")
    if isinstance(error, OSError):  # of what is printed: files that cannot be read or written are errors of ours
        printed = error.filename is None and error.errno in _OF_WRITING
        return f"error: what is printed cannot be written ({error.strerror})" if printed else None
    if isinstance(error, MemoryError) or any(words in str(error) for words in _OF_MEMORY):
        return "error: out of memory; lower --memory, --k, --top or --batch, where the command has them"
    return None


def _stop_printing() -> None:
    """Let what is still to be printed go nowhere, or printing it would fail once more on the way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _hold_back() -> None:
    """Let the first of the processes that torchrun started on this machine say what all of them have found.

    Torchrun ends the others as soon as the first one ends; where it does not end, they speak for themselves.
    """
    if os.environ.get("LOCAL_RANK", "0") != "0":
        time.sleep(_HELD_BACK)
