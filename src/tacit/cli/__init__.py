"""The command line; a command and what it needs are loaded when it is called."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import signal
import sys
import time
from collections import UserDict
from functools import cache
from importlib import import_module
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup

from tacit import __version__
from tacit.cli.options import FlagCommand
from tacit.cli.terminal import is_of_memory, say
from tacit.distributed.threads import wait_asleep
from tacit.errors import TacitError, one_line

_REPORT_DELAY = 3.0  # seconds, while torchrun ends the other processes
_WRITE_ERRORS = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT)

# The function of each command, and its line in `tacit --help`.
COMMANDS = {
    "demo": ("demo.demo", "Walk through Tacit on the embedded graph."),
    "plan": ("ask.plan", "Show how a question would be answered."),
    "train": ("train.train", "Train a link predictor on a graph."),
    "import": ("train.import_", "Import a link predictor trained elsewhere."),
    "sample": ("evaluate.sample", "Sample queries with their answers."),
    "adapt": ("train.adapt", "Adapt the scores of a run to questions."),
    "encode": ("train.encode", "Train an encoder of whole questions."),
    "eval": ("evaluate.evaluate", "Measure how well a run predicts."),
    "compare": ("evaluate.compare", "Compare runs by the same queries."),
    "index": ("index.index", "Build the index of a large graph."),
    "ask": ("ask.ask", "Ask a question, and why."),
    "complete": ("facts.complete", "Predict the facts a graph is missing."),
    "add": ("facts.add", "Add facts to a run."),
    "remove": ("facts.remove", "Take facts out of a run."),
    "save": ("save.save", "Save a run to one file, or to a hub."),
    "rules": ("rules.rules", "Read and change the rules of a run."),
    "serve": ("serve.serve", "Serve a page, HTTP and SPARQL."),
    "mcp": ("mcp.mcp", "Let an agent ask, by the Model Context Protocol."),
    "report": ("evaluate.report", "Write the results of a run as one page."),
    "data": ("data.app", "List, describe and write graphs."),
}


class Commands(TyperGroup):
    """All commands, listed without being loaded."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": _LazyCommands(COMMANDS)})

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the order of the list."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the line of each command in `tacit --help`."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, short) for name, (_, short) in COMMANDS.items()])


class _LazyCommands(UserDict[str, Any]):
    """Commands that are made, with their options, when they are looked up."""

    def __getitem__(self, name: str) -> Any:
        return _load_command(name)


@cache
def _load_command(name: str) -> Any:
    place, short = COMMANDS[name]
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    module, function = place.split(".")
    command = getattr(import_module(f"tacit.cli.{module}"), function)
    if isinstance(command, typer.Typer):
        alone.add_typer(command, name=name)
    else:
        alone.command(name, cls=FlagCommand, short_help=short)(command)
    # Typer returns a single command itself, not a group.
    group: Any = typer.main.get_command(alone)
    return group if group.name == name else group.commands[name]


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
        if interrupted:
            _skip_freeing(end)
    except BrokenPipeError:  # the reader of a pipe went away: not an error
        _discard_output()
    except (Exception, KeyboardInterrupt) as error:
        # An import that Ctrl-C breaks off may fail in any way.
        interrupted = bool(interrupts) or isinstance(error, KeyboardInterrupt)
        text = None if debug else "interrupted" if interrupted else error_message(error)
        if text is None:
            raise
        if isinstance(error, OSError):
            _discard_output()
        else:
            _delay_report()
        code = 130 if interrupted else 2
        message = text
        if interrupted:
            _skip_freeing(error)
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


def _skip_freeing(error: BaseException) -> None:
    """Let what an interrupted command has read live until the end, unless DuckDB is loaded.

    To free millions of objects takes seconds, in which Ctrl-C would seem to do nothing.
    """
    import ctypes

    if "duckdb" not in sys.modules:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(error))  # the traceback holds all of them


def error_message(error: BaseException) -> str | None:
    """The message of an error that a user can mend; None for a fault of the program."""
    if isinstance(error, TacitError):
        return f"error: {one_line(str(error))}" + (
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
