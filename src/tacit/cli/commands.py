"""The commands by name; the module of a command is loaded only when it is used."""

from __future__ import annotations

from collections import UserDict
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from tacit.cli.options import FlagCommand

# The function of each command, and its line in `tacit --help`.
COMMANDS = {
    "plan": ("ask.plan", "Show how a question would be answered."),
    "train": ("train.train", "Train a link predictor on a graph."),
    "import": ("train.import_", "Import a link predictor trained elsewhere."),
    "sample": ("sample.sample", "Sample queries with their answers."),
    "adapt": ("adapt.adapt", "Adapt the scores of a run to questions."),
    "encode": ("encode.encode", "Train an encoder of whole questions."),
    "eval": ("evaluate.evaluate", "Measure how well a run predicts."),
    "compare": ("evaluate.compare", "Compare runs by the same queries."),
    "index": ("index.index", "Build the index of a large graph."),
    "ask": ("ask.ask", "Ask a question, and why."),
    "complete": ("complete.complete", "Predict the facts a graph is missing."),
    "add": ("change.add", "Add facts to a run."),
    "remove": ("change.remove", "Take facts out of a run."),
    "serve": ("serve.serve", "Serve a page, HTTP and SPARQL."),
    "report": ("evaluate.report", "Write the results of a run as one page."),
    "data": ("data.app", "List, describe and write graphs."),
}


class Commands(TyperGroup):
    """All commands, listed without being loaded."""

    def __init__(self, **about: Any) -> None:
        super().__init__(**{**about, "commands": _LazyCommands(COMMANDS)})

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
