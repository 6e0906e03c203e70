"""The command line. One file per group of commands; each loads what it needs when it runs."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import signal
import sys
import time
from types import FrameType

import typer

from tacit import __version__
from tacit.cli.commands import Commands
from tacit.cli.terminal import is_of_memory, say
from tacit.distributed.threads import wait_asleep
from tacit.errors import TacitError

_REPORT_DELAY = 3.0  # seconds, while torchrun ends the other processes
_WRITE_ERRORS = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT)

app = typer.Typer(
    name="tacit",
    cls=Commands,
    help="Answers logical questions over knowledge graphs that are missing facts, and says why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"tacit {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
    debug: bool = typer.Option(
        False, "--debug", help="Show a traceback when something goes wrong."
    ),
) -> None:
    """Answers logical questions over knowledge graphs that are missing facts, and says why."""


def main() -> None:
    """Run the command line; an error of ours is one line and exit code 2, never a traceback."""
    wait_asleep(os.environ)  # before a command loads torch
    # Torch makes half a million objects that stay, so garbage collection costs more than it frees.
    gc.set_threshold(50_000)
    atexit.register(_skip_collection)
    debug = "--debug" in sys.argv
    for name in ("stdin", "stdout", "stderr"):  # the parent process may have closed them
        if getattr(sys, name) is None:
            setattr(
                sys,
                name,
                os.fdopen(os.open(os.devnull, os.O_RDWR), "r" if name == "stdin" else "w"),
            )
    # The terminal's encoding may lack letters of a label.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code: int | str | None = 0
    message = ""
    interrupts = _recorded_interrupts()
    try:
        app()
    except SystemExit as end:  # how typer ends
        interrupted = isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt)
        code = end.code
        message = "interrupted" if interrupted else ""
    except BrokenPipeError:  # the reader of a pipe went away: not an error
        _discard_output()
    except (Exception, KeyboardInterrupt) as error:
        # An import that Ctrl-C breaks off may fail in any way.
        interrupted = bool(interrupts) or isinstance(error, KeyboardInterrupt)
        text = None if debug else "interrupted" if interrupted else _error_message(error)
        if text is None:
            raise
        if isinstance(error, OSError):
            _discard_output()
        else:
            _delay_report()
        code = 130 if interrupted else 2
        message = text
    # Outside of the handlers, since DuckDB complains about objects that a traceback keeps alive.
    if message:
        say(message, err=True)
    sys.exit(code)


def _recorded_interrupts() -> list[int]:
    """A list that grows with each Ctrl-C, which interrupts as before."""
    interrupts: list[int] = []

    def record(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        signal.default_int_handler(number, frame)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, record)
    return interrupts


def _skip_collection() -> None:
    """Skip garbage collection at exit, unless DuckDB is loaded, which complains then."""
    if "duckdb" not in sys.modules:
        gc.freeze()


def _error_message(error: BaseException) -> str | None:
    """The message of an error that a user can mend; None for a fault, which needs a traceback."""
    if isinstance(error, TacitError):
        return f"error: {' '.join(str(error).split())}" + (
            f" (tacit {error.command})" if error.command else ""
        )
    # Only errors of standard output; those of files are TacitErrors.
    if isinstance(error, OSError):
        printed = error.filename is None and error.errno in _WRITE_ERRORS
        return f"error: what is printed cannot be written ({error.strerror})" if printed else None
    if is_of_memory(error):
        return "; ".join(["error: out of memory", *getattr(error, "__notes__", [])])
    return None


def _discard_output() -> None:
    """Send further output nowhere, since the flush at exit would fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _delay_report() -> None:
    """Delay all but the first process of torchrun, so that it alone reports an error.

    Torchrun ends the others as soon as the first one ends; where it does not end, the others report
    the error themselves.
    """
    if os.environ.get("LOCAL_RANK", "0") != "0":
        time.sleep(_REPORT_DELAY)
