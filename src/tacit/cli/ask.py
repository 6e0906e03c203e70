"""`tacit ask` and `tacit plan`: a question, its answers and reasons, and its plan."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from tacit.cli import options
from tacit.cli.data import check_unread, read_graph
from tacit.cli.terminal import say
from tacit.disk import exists
from tacit.engine.settings import EngineSettings
from tacit.errors import SettingsError, TacitError
from tacit.graph.builder import counted
from tacit.graph.settings import ReadSettings

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from tacit.engine.answers.answers import Answer, Answers
    from tacit.engine.engine import Engine
    from tacit.engine.question_files import Outcome
    from tacit.engine.questions import BoundQuery, ListLength
    from tacit.query.sparql.table_query import TableQuery

Params = Annotated[
    list[str] | None,
    Option(
        "--param", metavar="NAME=LABEL", help="What $NAME stands for in the text; may be repeated."
    ),
]
_TOP = (
    "How many answers: so many, those that are known or score 0.5 or more with the 10 best, or "
    "all. By default 10; of files and of SPARQL without LIMIT the likely ones."
)
_ALL = "--top all"
PATIENCE = 60.0  # seconds above which a question is announced


@options.of_settings(EngineSettings)
@options.of_settings(ReadSettings, "reading")
def ask(
    context: typer.Context,
    source: Annotated[
        str, options.run_argument("A run, world, or any graph, whose rules are mined.", "RUN|GRAPH")
    ],
    settings: options.Values,
    reading: options.Values,
    query: Annotated[
        str | None, Argument(help="The question: '?c : borders(France, ?c)', or SPARQL.")
    ] = None,
    file: Annotated[
        Path | None,
        Option(help="Questions, one a line: text, SPARQL or JSON; - reads standard input."),
    ] = None,
    out: Annotated[
        Path | None,
        Option(
            help="Write a .csv, .json, .jsonl, .parquet, .nt or .ttl file; of --file .jsonl, .csv "
            "or .parquet."
        ),
    ] = None,
    param: Params = None,
    top: Annotated[str | None, Option(metavar="N|likely|all", help=_TOP)] = None,
    offset: Annotated[int, Option(help="How many of the best answers to pass over.")] = 0,
    min_score: Annotated[float, Option(help="The least score, from 0 to 1.")] = 0.0,
    explain: Annotated[bool, Option("--explain", help="Show why each answer came.")] = False,
    paths: Annotated[int, Option(help="Reasons to show for each answer.")] = 1,
    json_: Annotated[bool, Option("--json", help="Print JSON.")] = False,
    symbolic: Annotated[
        bool, Option("--symbolic", help="Use the facts alone, without prediction.")
    ] = False,
    unadapted: options.Unadapted = False,
    device: options.Device = "auto",
) -> None:
    """Ask a question of a graph, or many.

    A graph without a run is predicted by its rules, which are mined at the first question and kept.
    """
    from tacit.engine import question_files
    from tacit.engine.answers import answer_files
    from tacit.engine.engine import Engine
    from tacit.graph.formats.writing import check_format
    from tacit.run.mined import holds_facts
    from tacit.run.run import open as open_run

    _check_question(source, query, file)
    if out is not None:
        check_format(out, (answer_files if file is None else question_files).FORMATS, "answers")
    parameters = _labels(param)
    of_facts = not symbolic and holds_facts(source)
    if symbolic or (of_facts and settings.get("search") == "symbolic"):
        engine = Engine.of_facts(read_graph(source, **reading), **settings)
    else:
        if not of_facts:
            check_unread(reading, "those of a run were")
        facts = read_graph(source, **reading) if of_facts else source
        adapted = not unadapted
        engine = open_run(facts, device=device, adapted=adapted, progress=True, **settings).engine
    page: dict[str, Any] = {
        "top": _top(top, "auto" if file is None and out is None else "likely"),
        "offset": offset,
        "min_score": min_score,
        "explain": explain or paths > 1,
        "paths": paths,
    }
    if file is not None:
        _ask_many(context, engine, file, out, parameters, json_, page)
    else:
        _ask_one(engine, engine.read((query or "", parameters)), out, json_, page)


@options.of_settings(EngineSettings, only=("k",))
@options.of_settings(ReadSettings, "reading")
def plan(
    query: Annotated[
        str, Argument(help="The question: '?c : borders(France, ?c)', or SPARQL.", metavar="QUERY")
    ],
    settings: options.Values,
    reading: options.Values,
    graph: Annotated[
        str, Option(help="A graph or run to look the names up in, and to count its entities.")
    ] = "",
    param: Params = None,
) -> None:
    """Print how a question would be answered, as a tree of steps with what each costs."""
    from tacit.query.question import one_formula, parse_question
    from tacit.sources import is_data_set

    if exists(query) or is_data_set(query):
        raise SettingsError(
            f"'{query}' is a graph or run, and plan takes a question; name the graph by --graph"
        )
    if not graph:
        check_unread(reading, "no graph is given")
    known = read_graph(graph, **reading) if graph else None
    question = one_formula(parse_question(query, known, _labels(param))).query
    for line in question.plan(known, EngineSettings.of(settings).k).split("\n"):
        say(line)


def _check_question(source: str, query: str | None, file: Path | None) -> None:
    """Refuse anything but a run with one question or one file of them."""
    if query is not None and file is not None:
        raise SettingsError("a question and --file are given; leave one out")
    if query is None and file is None:
        from tacit.run.world import no_run
        from tacit.sources import is_data_set

        if not exists(source) and not is_data_set(source):
            raise no_run(Path(source))
        raise SettingsError(
            f"no question is given; write one after '{source}', or give many with --file"
        )


def _labels(texts: Iterable[str] | None) -> dict[str, str]:
    """The labels of parameters by name."""
    parameters: dict[str, str] = {}
    for each in texts or ():
        name, equals, label = each.partition("=")
        if not equals or not name:
            raise SettingsError(f"--param is '{each}'; it must be NAME=LABEL, as in country=France")
        name = name.removeprefix("$")
        if parameters.setdefault(name, label) != label:
            raise SettingsError(
                f"--param gives {name} two labels, '{parameters[name]}' and '{label}'; give one"
            )
    return parameters


def announce(engine: Engine, question: BoundQuery) -> None:
    """Print how long a slow question may take, and what would make it faster."""
    from tacit.fitting.progress import duration

    seconds = engine.seconds(question) or 0.0
    if seconds < PATIENCE:
        return
    beams = (
        engine.with_settings(search="beam", k=k)
        for k in (256, 128, 64, 32, 16, 8, 4)
        if k <= engine.settings.k
    )
    faster = next((beam for beam in beams if (beam.seconds(question) or 0.0) < PATIENCE / 6), None)
    advice = "an atom that names an entity narrows a variable"
    if faster is not None:
        advice = f"--search beam --k {faster.settings.k} takes seconds, and may miss answers"
    say(f"this may take about {duration(seconds)}, and Ctrl-C stops it; {advice}", err=True)


def _ask_one(
    engine: Engine,
    question: BoundQuery | TableQuery,
    out: Path | None,
    json_: bool,
    page: dict[str, Any],
) -> None:
    """Ask a question; print its answers, or write them to a file."""
    from tacit.engine.answers import answer_files
    from tacit.engine.answers.answer_table import AnswerTable
    from tacit.engine.questions import BoundQuery

    if isinstance(question, BoundQuery):
        announce(engine, question)
    answers = engine.ask(question, **page)
    if out is not None:
        answer_files.write(out, answers)
        table = AnswerTable(answers, _ALL, options.with_flags)
        what = "a count" if answers.counted else counted(len(answers), "answer")
        say("; ".join(filter(None, (f"wrote {what} to {out}", table.left_out, table.below))))
    elif json_:
        typer.echo(answers.to_json(indent=2))
    else:
        _show(answers)


def _ask_many(
    context: typer.Context,
    engine: Engine,
    file: Path,
    out: Path | None,
    parameters: dict[str, str],
    json_: bool,
    page: dict[str, Any],
) -> None:
    """Ask the questions of a file; where some cannot be answered, the exit code says so."""
    from tacit.engine.question_files import AskedFile, Tally

    questions = AskedFile(engine, file, parameters, page)
    tally = Tally()
    if out is not None:
        tally = questions.write(out)
        cut = f"; likely answers of {tally.cut:,} are left out; {_ALL} or a higher LIMIT lists more"
        say(
            f"wrote the answers to {counted(tally.asked - tally.failed, 'question')} to {out}"
            + cut * bool(tally.cut)
        )
    else:
        flags = options.flags_of(context.command)
        for outcome in tally.over(questions):
            if isinstance(outcome.result, TacitError):
                options.name_flags(outcome.result, flags)
            _print(outcome, json_)
    if tally.failed:
        say(f"error: {tally}", err=True)
        raise typer.Exit(1)


def _print(outcome: Outcome, json_: bool) -> None:
    """Print the outcome of a line, as JSON or for people."""
    if json_:
        typer.echo(json.dumps(outcome.to_dict(), ensure_ascii=False))
    elif isinstance(outcome.result, TacitError):
        say(outcome.line.text)
        say(f"  {outcome.result}")
    else:
        _show(outcome.result)


def _top(text: str | None, default: Literal["auto", "likely"]) -> ListLength:
    """The length of the list of answers: a number, the likely ones, or all."""
    if text is None or text == "likely":
        return default if text is None else "likely"
    if text != "all" and not text.removeprefix("-").isdecimal():
        raise SettingsError(f"top is '{text}'; it must be a whole number, likely, or all", "top")
    return None if text == "all" else int(text)


def _show(answers: Answers) -> None:
    """Print answers for people; plain text where the output is no terminal."""
    from tacit.engine.answers.answer_table import AnswerTable

    if not sys.stdout.isatty():
        typer.echo(str(AnswerTable(answers, _ALL, options.with_flags)))
        return
    from rich.console import Console

    show_on(Console(highlight=False, markup=False, emoji=False), answers)


def show_on(console: Console, answers: Answers) -> None:
    """Print answers on a terminal: a line for each, and the reasons below it."""
    from rich.cells import cell_len
    from rich.padding import Padding
    from rich.text import Text

    from tacit.engine.answers.answer_table import AnswerTable, reason_lines

    table = AnswerTable(answers, _ALL, options.with_flags)
    roomy = console.width >= 64
    console.print(Text(table.question, style="bold"))
    heads, rows = table.aligned(cell_len)
    width = min(
        max(map(cell_len, (*heads, *rows)), default=0), console.width - (40 if roomy else 26)
    )
    for head in heads:
        console.print(Text(f"     {head}", style="dim"))
    for (rank, answer, _), cells in zip(table.rows, rows, strict=True):
        console.print(_line(rank, cells, answer, width, 12 if roomy else 0))
        for indent, text, carries in reason_lines(answer):
            console.print(
                Padding(Text(text, style="" if carries else "dim"), (0, 0, 0, 5 + indent))
            )
    if not table.rows:
        console.print(table.empty_message)
    for note in filter(None, (*table.notes, table.proof)):
        console.print(note, style="dim")


def _line(rank: int, name: str, answer: Answer, width: int, bar: int) -> Text:
    """An answer with its score as a number and as a bar of at most `bar` cells."""
    from rich.cells import cell_len
    from rich.text import Text

    colour = "green" if answer.known else "cyan"
    name = name.rstrip() + " " * (width - cell_len(name.rstrip()))
    blocks = f"{'━' * max(1, round(bar * answer.score)):{bar}}  " if bar else ""
    return Text.assemble(
        (f"{rank:>3}. ", "dim"), name, "  ", (f"{answer.score:.3f}  {blocks}{answer.mark}", colour)
    )
