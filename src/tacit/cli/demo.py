"""`tacit demo`: a walk through Tacit on the embedded graph, one command a step."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from tacit.cli import app, error_message
from tacit.cli.terminal import say
from tacit.errors import UnknownName

_QUESTION = "?city : borders(Brazil, ?n) & capital_of(?city, ?n) & !speaks(?n, Spanish)"
_NUMBERS = "?c : borders(France, ?c) & latitude(?c) > 50"
_ANSWERS = ("--observed", "train+valid", "--top", "3", "--explain")


@dataclass(frozen=True)
class Step:
    """A command of the walk, and what it shows."""

    title: str
    words: tuple[str, ...]
    remarks: tuple[str, ...] = ()


def demo(
    out: Annotated[Path, Option(help="The folder to keep what is trained in.")] = Path("runs/demo"),
) -> None:
    """Walk through Tacit on the embedded graph: train, ask, adapt and ask again, in half a minute.

    Once stopped, the same command goes on with the training.
    """
    run = out.as_posix()  # as the pages write it
    say(f"What is trained is kept in {run}. Ctrl-C stops, and the same command goes on.")
    for number, step in enumerate(_steps(run), start=1):
        typer.secho(f"\n{number}. {step.title}", bold=True)
        for remark in step.remarks:
            say(remark)
        typer.secho(f"$ {shlex.join(['tacit', *step.words])}", fg=typer.colors.CYAN)
        try:
            _call(step.words)
        except UnknownName as error:  # the mistake of the last step
            say(str(error_message(error)), err=True)
    typer.secho("\nThat was Tacit. Next:", bold=True)
    for line in _outlook(run):
        say(f"  {line}")


def _steps(run: str) -> Sequence[Step]:
    return (
        Step(
            "A graph that is missing facts",
            ("data", "list"),
            ("world comes with Tacit. One fact in ten, its test split, is kept from the rest.",),
        ),
        Step(
            "A question, and how it would be answered",
            ("plan", "--graph", "world", _QUESTION),
            ("Which cities are capitals of a neighbour of Brazil where Spanish is not spoken?",),
        ),
        Step(
            "Train a link predictor: it scores every fact the graph could have (ten seconds)",
            ("train", "world", "--out", run, "--resume"),
        ),
        Step(
            "Ask, with its raw scores",
            ("ask", run, _QUESTION, "--unadapted", "--calibration", "sigmoid", *_ANSWERS),
            (
                "Nothing made the scores of different relations comparable, so their combination "
                "is not to be trusted:",
            ),
        ),
        Step(
            "Adapt the scores: two numbers for each relation, learned from questions (ten seconds)",
            ("adapt", run, "--count", "2000", "--steps", "300", "--batch", "256"),
            ("The link predictor stays as it is, and the adapter is kept only where it helps.",),
        ),
        Step(
            "Ask again",
            ("ask", run, _QUESTION, *_ANSWERS),
            ("Georgetown is the capital of Guyana; Tacit was not told, and predicts that atom.",),
        ),
        Step(
            "Numbers: which neighbours of France lie north of 50 degrees?",
            ("ask", run, _NUMBERS, *_ANSWERS),
            ("The latitude of Belgium is held back, too: it is predicted, with an interval.",),
        ),
        Step(
            "A mistake is answered with what would work",
            ("ask", run, "?c : boarders(Brazil, ?c)"),
        ),
    )


def _call(words: Sequence[str]) -> None:
    """Run a command as if it was typed; the walk ends where the command fails."""
    typed = sys.argv
    sys.argv = ["tacit", *words]  # which a stopped training repeats as what to go on with
    try:
        app(list(words))
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv = typed


def _outlook(run: str) -> Sequence[str]:
    """What to do after the walk, with the command as this shell finds it."""
    called = Path(sys.argv[0])
    is_off_path = called.stem == "tacit" and shutil.which("tacit") is None
    tacit = str(called) if is_off_path else "tacit"
    return (
        f"a page to ask on   {tacit} serve {shlex.quote(run)}, then open http://127.0.0.1:8000   "
        "(needs the extra: pip install 'tacit-kg[server]')",
        f"your own graph     {tacit} train facts.tsv --out runs/mine   (columns: head, relation, "
        "tail)",
        f"in Python          import tacit; run = tacit.open({run!r}); run.explain('...')",
        f"all commands       {tacit} --help",
    )
