"""`tacit ask` and `tacit plan`: a question, its answers and why, and how it would be answered."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from tacit.cli import options
from tacit.cli.data import check_unread, loaded
from tacit.cli.terminal import say
from tacit.engine.settings import EngineSettings
from tacit.errors import SettingsError, TacitError
from tacit.graph.builder import counted
from tacit.graph.settings import ReadSettings

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from tacit.engine.answers.answers import Answer, Answers
    from tacit.engine.answers.question_files import Outcome
    from tacit.engine.asked import Asked
    from tacit.engine.engine import Engine

Params = Annotated[
    list[str] | None,
    Option("--param", metavar="NAME=LABEL", help="What $NAME stands for in the text; may be repeated."),
]
PATIENCE = 60.0  # seconds that people wait without a sign


@options.of_settings(EngineSettings)
def ask(
    source: Annotated[str, options.run_argument("A run, or world; any graph with --symbolic.")],
    given: dict[str, Any],
    query: Annotated[str | None, Argument(help="The question: '?c : borders(France, ?c)', or SPARQL.")] = None,
    file: Annotated[
        Path | None, Option(help="Questions, one a line: text, SPARQL or JSON; - reads standard input.")
    ] = None,
    out: Annotated[
        Path | None,
        Option(help="Write a .csv, .json, .jsonl, .parquet, .nt or .ttl file; of --file .jsonl, .csv or .parquet."),
    ] = None,
    param: Params = None,
    top: Annotated[str, Option(metavar="N|all", help="How many answers to show.")] = "10",
    offset: Annotated[int, Option(help="How many of the best answers to pass over.")] = 0,
    min_score: Annotated[float, Option(help="The least score, from 0 to 1.")] = 0.0,
    explain: Annotated[bool, Option("--explain", help="Show why each answer came.")] = False,
    paths: Annotated[int, Option(help="Reasons to show for each answer.")] = 1,
    json_: Annotated[bool, Option("--json", help="Print JSON.")] = False,
    symbolic: Annotated[bool, Option("--symbolic", help="Use the facts alone, without prediction.")] = False,
    unadapted: options.Unadapted = False,
    device: options.Device = "auto",
) -> None:
    """Ask a question of a trained graph, or many."""
    from tacit.engine.answers import answer_files, question_files
    from tacit.engine.engine import Engine
    from tacit.graph.formats.writing import check_format
    from tacit.run.run import open as open_run

    if (query is None) == (file is None):
        raise SettingsError("ask one question, or many with --file")
    if out is not None:
        check_format(out, (answer_files if file is None else question_files).FORMATS, "answers")
    parameters = _labels(param)
    if symbolic:
        engine = Engine.of_facts(loaded(source), **given)
    else:
        engine = open_run(source, device=device, adapted=not unadapted, **given).engine
    page: dict[str, Any] = {
        "top": _top(top), "offset": offset, "min_score": min_score, "explain": explain or paths > 1, "paths": paths,
    }  # fmt: skip
    if file is not None:
        _ask_many(engine, file, out, parameters, json_, page)
        return
    asked = engine.prepare((query or "", parameters))
    announce(engine, asked)
    answers = engine.ask(asked, **page)
    if out is not None:
        answer_files.write(out, answers)
        say(f"wrote {counted(len(answers), 'answer')} to {out}")
    elif json_:
        typer.echo(answers.to_json(indent=2))
    else:
        _show(answers)


@options.of_settings(EngineSettings, only=("k",))
@options.of_settings(ReadSettings, "reading")
def plan(
    query: Annotated[str, Argument(help="The question: '?c : borders(France, ?c)', or SPARQL.", metavar="QUERY")],
    given: dict[str, Any],
    reading: dict[str, Any],
    graph: Annotated[str, Option(help="A graph or run to look the names up in, and to count its entities.")] = "",
    param: Params = None,
) -> None:
    """Print how a question would be answered, as a tree of steps with what each costs."""
    from tacit.query.reading import read

    if not graph:
        check_unread(reading, "no graph is given")
    known = loaded(graph, **reading) if graph else None
    asked = read(query, known, _labels(param)).query
    for line in asked.plan(known, EngineSettings.of(given).k).split("\n"):
        say(line)


def _labels(given: Iterable[str] | None) -> dict[str, str]:
    """The labels of parameters by name."""
    parameters: dict[str, str] = {}
    for each in given or ():
        name, equals, label = each.partition("=")
        if not equals or not name:
            raise SettingsError(f"--param is '{each}'; it must be NAME=LABEL")
        name = name.removeprefix("$")
        if parameters.setdefault(name, label) != label:
            raise SettingsError(f"--param gives {name} two labels, '{parameters[name]}' and '{label}'")
    return parameters


def announce(engine: Engine, asked: Asked) -> None:
    """Say of a question that takes longer than people wait without a sign how long that is, and what takes less."""
    from tacit.fitting.progress import duration

    seconds = engine.seconds(asked) or 0.0
    if seconds < PATIENCE:
        return
    beams = (engine.using(search="beam", k=k) for k in (256, 128, 64, 32, 16, 8, 4) if k <= engine.settings.k)
    faster = next((beam for beam in beams if (beam.seconds(asked) or 0.0) < PATIENCE / 6), None)
    advice = "an atom that names an entity narrows a variable"
    if faster is not None:
        advice = f"--search beam --k {faster.settings.k} takes seconds, and may miss answers"
    say(f"this may take about {duration(seconds)}, and Ctrl-C stops it; {advice}", err=True)


def _ask_many(
    engine: Engine, file: Path, out: Path | None, parameters: dict[str, str], json_: bool, page: dict[str, Any]
) -> None:
    """Ask the questions of a file; where some cannot be answered, the exit code says so."""
    from tacit.engine.answers.question_files import AskedFile, Tally

    asked, tally = AskedFile(engine, file, parameters, page), Tally()
    if out is not None:
        tally = asked.write(out)
        say(f"wrote the answers to {counted(tally.asked - tally.failed, 'question')} to {out}")
    else:
        for outcome in tally.over(asked):
            _print(outcome, json_)
    if tally.failed:
        say(f"error: {tally}", err=True)
        raise typer.Exit(1)


def _print(outcome: Outcome, json_: bool) -> None:
    """Print what came of a line: as a line of JSON, or for people."""
    if json_:
        typer.echo(json.dumps(outcome.to_dict(), ensure_ascii=False))
    elif isinstance(outcome.result, TacitError):
        say(outcome.line.text)
        say(f"  {outcome.result}")
    else:
        _show(outcome.result)


def _top(given: str) -> int | None:
    """How many answers are wanted: a number, or all."""
    if given != "all" and not given.removeprefix("-").isdecimal():
        raise SettingsError(f"top is '{given}'; it must be a whole number, or all", "top")
    return None if given == "all" else int(given)


def _show(answers: Answers) -> None:
    """Print answers for people; plain text where the output is no terminal."""
    if not sys.stdout.isatty():
        typer.echo(str(answers))
        return
    from rich.console import Console

    show_on(Console(highlight=False, markup=False, emoji=False), answers)


def show_on(console: Console, answers: Answers) -> None:
    """Print answers on a terminal: a line for each, and the reasons below it."""
    from rich.cells import cell_len
    from rich.padding import Padding
    from rich.text import Text

    from tacit.engine.answers.answer_table import AnswerTable, reason_lines

    table, roomy = AnswerTable(answers), console.width >= 64
    console.print(Text(table.question, style="bold"))
    heads, named = table.aligned(cell_len)
    width = min(max(map(cell_len, (*heads, *named)), default=0), console.width - (40 if roomy else 26))
    for head in heads:
        console.print(Text(f"     {head}", style="dim"))
    for (rank, answer, _), cells in zip(table.rows, named, strict=True):
        console.print(_line(rank, cells, answer, width, 12 if roomy else 0))
        for indent, text, carries in reason_lines(answer):
            console.print(Padding(Text(text, style="" if carries else "dim"), (0, 0, 0, 5 + indent)))
    if not table.rows:
        console.print(table.instead)
    for note in filter(None, (*table.notes, table.proof)):
        console.print(note, style="dim")


def _line(rank: int, name: str, answer: Answer, width: int, bar: int) -> Text:
    """An answer with its score as a number and as a bar of so many cells at most."""
    from rich.cells import cell_len
    from rich.text import Text

    colour = "green" if answer.known else "cyan"
    name = name.rstrip() + " " * (width - cell_len(name.rstrip()))
    drawn = f"{'━' * max(1, round(bar * answer.score)):{bar}}  " if bar else ""
    return Text.assemble((f"{rank:>3}. ", "dim"), name, "  ", (f"{answer.score:.3f}  {drawn}{answer.mark}", colour))
