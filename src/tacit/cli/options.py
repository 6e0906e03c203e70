"""Options that commands share, and those that are made of settings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field
from functools import wraps
from typing import Annotated, Any

import typer

from tacit.cli.shell_completion import choice, runs, shapes
from tacit.errors import SettingsError
from tacit.settings import Settings, settings_of

Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
Unadapted = Annotated[bool, typer.Option("--unadapted", help="Leave the run's adapter out.")]
Shapes = Annotated[
    str | None,
    typer.Option("--shapes", autocompletion=shapes, help="Shapes such as 1p,2i,3in, or positive, negative, all."),
]
Command = Callable[..., None]

_TYPES: dict[str, Any] = {"int": int, "float": float, "str": str, "bool": bool, "tuple[str, ...]": list[str]}


def of_settings(
    kind: type[Settings],
    into: str = "given",
    *,
    only: Collection[str] = (),
    flags: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    variables: Mapping[str, str] | None = None,
) -> Callable[[Command], Command]:
    """Make options of the fields of settings; those that a user gives reach the command as the dict `into`.

    A flag is called as its field is, or as `flags` says; `defaults` are those of a command that has others than the
    settings, and `variables` of the environment can stand for some. An error about a parameter of the command speaks of
    its flag instead. Values are checked here: before anything is read, and since two kinds of settings may have a field
    of the same name.
    """
    fields = [field for field in settings_of(kind) if not only or field.name in only]
    named = {field.name: _flag(field.name) for field in fields} | dict(flags or {})
    usual = {field.name: field.default for field in fields} | dict(defaults or {})

    def decorate(command: Command) -> Command:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        own.pop(into)
        _complete_runs(own.values())
        spoken = {name: _flag(name) for name in own} | named
        keys = {field.name: f"{into}_{field.name}" if field.name in own else field.name for field in fields}
        options = {
            field.name: _option(
                field, keys[field.name], named[field.name], usual[field.name], (variables or {}).get(field.name)
            )
            for field in fields
        }

        @wraps(command)
        def called(context: typer.Context, **values: Any) -> None:
            stated = {name: values.pop(key) for name, key in keys.items()}
            given = {name: value for name, value in stated.items() if _is_given(context, keys[name])}
            if "context" in own:
                values["context"] = context
            with _spoken(spoken):
                kind.of(given)
                command(**values, **{into: given})

        context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        parameters = {"context": context} | own | {option.name: option for option in options.values()}
        called.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
        return called

    return decorate


def in_flags(command: Command) -> Command:
    """Let errors about parameters of a command that has no settings speak of its flags."""
    flags = {name: _flag(name) for name in inspect.signature(command).parameters}

    @wraps(command)
    def called(**values: Any) -> None:
        with _spoken(flags):
            command(**values)

    return called


@contextmanager
def _spoken(flags: Mapping[str, str]) -> Iterator[None]:
    """Name the flag instead of the parameter that an error is about."""
    try:
        yield
    except SettingsError as error:
        flag = flags.get(error.parameter or "")
        if flag is None:
            raise
        said = re.sub(rf"\b{error.parameter}\b", flag, str(error), count=1)
        raise SettingsError(said.replace("adapted=False", "--unadapted"), command=error.command) from None


def _complete_runs(parameters: Iterable[inspect.Parameter]) -> None:
    """Let a shell complete every argument that is called RUN."""
    for parameter in parameters:
        for about in getattr(parameter.annotation, "__metadata__", ()):
            if (about.metavar or "").startswith("RUN"):
                about.autocompletion = runs


def _option(field: Field[Any], key: str, flag: str, default: Any, variable: str | None) -> inspect.Parameter:
    """The option of a field, as typer reads it from a signature."""
    about, annotation = field.metadata, str(field.type)
    kind = annotation.removesuffix(" | None")
    if about["read"]:  # people write one word, which the settings take apart
        kind = "str"
    metavar = "|".join(map(str, about["choices"])) or (field.name.upper() if key != field.name else None)
    words = f"{flag}/--no-{flag.removeprefix('--')}" if kind == "bool" else flag
    completed = choice([str(word) for word in about["choices"]]) if about["choices"] else None
    option = typer.Option(
        words, help=about["help"], metavar=metavar, envvar=variable, show_envvar=True, autocompletion=completed
    )
    optional = _TYPES[kind] | None if annotation.endswith(" | None") else _TYPES[kind]
    return inspect.Parameter(
        key,
        inspect.Parameter.KEYWORD_ONLY,
        default=list(default) if isinstance(default, tuple) else default,
        annotation=Annotated[optional, option],
    )


def _is_given(context: typer.Context, name: str) -> bool:
    return getattr(context.get_parameter_source(name), "name", "DEFAULT") != "DEFAULT"


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
