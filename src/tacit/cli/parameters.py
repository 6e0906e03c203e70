"""Parameters of a question, as people write them in a command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from tacit.errors import SettingsError

Params = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=LABEL", help="What $NAME stands for in the text; may be repeated."),
]


def named(given: Iterable[str] | None) -> dict[str, str]:
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
