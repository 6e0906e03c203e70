"""`tacit ask`: a question, its answers, and why."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import options
from tacit.cli.data import loaded
from tacit.engine.settings import EngineSettings

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from tacit.engine.answers import Answer, Answers

VERDICTS = {
    True: "The search provably missed nothing: these are the exact best answers.",
    False: "The beam dropped candidates that may lead to better answers; --search exact keeps them all.",
}
MAY_MISS = "The index may have missed better answers; --candidates scan misses none."


@options.of_settings(EngineSettings)
def ask(
    source: Annotated[str, typer.Argument(metavar="RUN|world", help="A run, or world; any graph with --symbolic.")],
    query: Annotated[str, typer.Argument(help="The question: '?c : borders(France, ?c)', or SPARQL.")],
    given: dict[str, Any],
    top: Annotated[int, typer.Option("--top", help="How many answers to show.")] = 10,
    explain: Annotated[bool, typer.Option("--explain", help="Show why each answer came.")] = False,
    paths: Annotated[int, typer.Option("--paths", help="Reasons to show for each answer.")] = 1,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    symbolic: Annotated[bool, typer.Option("--symbolic", help="Use the facts alone, without prediction.")] = False,
    unadapted: options.Unadapted = False,
    device: options.Device = "auto",
) -> None:
    """Ask a question of a trained graph."""
    from tacit.run import facts_engine, open_engine

    if symbolic:
        engine = facts_engine(loaded(source), **given)
    else:
        engine = open_engine(source, device=device, adapted=not unadapted, **given)
    answers = engine.ask(query, top, explain=explain or paths > 1, paths=paths)
    if json_:
        typer.echo(answers.to_json(indent=2))
    else:
        _show(answers)


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

    from tacit.engine.answers import in_columns

    console.print(Text(answers.query, style="bold"))
    if not answers:
        console.print(answers.instead)
        return
    roomy = console.width >= 64
    heads = [[f"?{name}" for name in answers.variables]] if len(answers.variables) > 1 else []
    named = [[answers.truth] if answers.kind == "truth" else [a.entity] if a.entity else a.cells for a in answers]
    shown = in_columns([*heads, *named], cell_len)
    width = min(max(map(cell_len, shown)), console.width - (40 if roomy else 26))
    for head in shown[: len(heads)]:
        console.print(Text(f"     {head}", style="dim"))
    for rank, (cells, answer) in enumerate(zip(shown[len(heads) :], answers, strict=True), start=1):
        console.print(_line(rank, cells, answer, width, 12 if roomy else 0))
        for number, witness in enumerate(answer.witnesses):
            if number:
                console.print(Padding(Text(f"or {witness.score:.3f}, because", style="dim"), (0, 0, 0, 5)))
            for text, carries in witness.lines():
                console.print(Padding(Text(text, style="" if carries else "dim"), (0, 0, 0, 7)))
    if answers.certified is not None:
        missed = answers.indexed and not answers.certified
        console.print(MAY_MISS if missed else VERDICTS[answers.certified], style="dim")
    for note in answers.notes:
        console.print(note, style="dim")


def _line(rank: int, name: str, answer: Answer, width: int, bar: int) -> Text:
    """An answer with its score as a number and as a bar of so many cells at most."""
    from rich.cells import cell_len
    from rich.text import Text

    colour, mark = ("green", "known") if answer.known else ("cyan", "predicted")
    name = name.rstrip() + " " * (width - cell_len(name.rstrip()))
    drawn = f"{'━' * max(1, round(bar * answer.score)):{bar}}  " if bar else ""
    return Text.assemble((f"{rank:>3}. ", "dim"), name, "  ", (f"{answer.score:.3f}  {drawn}{mark}", colour))
