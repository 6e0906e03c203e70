"""Options that commands share, and those that are made of settings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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


def run_argument(help: str = "A run folder, or world.", metavar: str = "RUN|world") -> Any:
    """An argument that a shell completes to a run."""
    return typer.Argument(metavar=metavar, autocompletion=runs, help=help)


def one_of(words: Sequence[str], help: str) -> Any:
    """An option that takes one of some words."""
    return typer.Option(metavar="|".join(words), autocompletion=choice(words), help=help)


_TYPES: dict[str, Any] = {"int": int, "float": float, "str": str, "bool": bool, "tuple[str, ...]": list[str]}


def of_settings(
    kind: type[Settings],
    into: str = "given",
    *,
    only: Collection[str] = (),
    flags: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Callable[[Command], Command]:
    """Make options of the fields of settings; those that a user gives reach the command as the dict `into`.

    A flag is called as its field is, or as `flags` says; `defaults` are those of a command that has others than the
    settings. An error about a parameter of the command speaks of its flag instead. Values are checked here: before
    anything is read, and since two kinds of settings may have a field of the same name.
    """
    fields = {field.name: field for field in settings_of(kind) if not only or field.name in only}
    named = {name: _flag(name) for name in fields} | dict(flags or {})
    usual = {name: field.default for name, field in fields.items()} | dict(defaults or {})

    def decorate(command: Command) -> Command:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        own.pop(into)
        keys = {name: f"{into}_{name}" if name in own else name for name in fields}
        options = {keys[name]: _option(fields[name], keys[name], named[name], usual[name]) for name in fields}

        @wraps(command)
        def called(context: typer.Context, **values: Any) -> None:
            stated = {name: (values.pop(key), context.get_parameter_source(key)) for name, key in keys.items()}
            given = {name: value for name, (value, where) in stated.items() if where and where.name != "DEFAULT"}
            if "context" in own:
                values["context"] = context
            with _spoken({name: _flag(name) for name in own} | named):
                kind.of(given)
                command(**values, **{into: given})

        context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        parameters = {"context": context} | own | options
        called.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
        return called

    return decorate


def in_flags(command: Command) -> Command:
    """Let errors about parameters of a command that has no settings speak of its flags."""
    return _spoken({name: _flag(name) for name in inspect.signature(command).parameters})(command)


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


def _option(field: Field[Any], key: str, flag: str, default: Any) -> inspect.Parameter:
    """The option of a field, as typer reads it from a signature; what is secret can come from the environment."""
    about, annotation = field.metadata, str(field.type)
    # People write one word for what the settings take apart.
    kind = "str" if about["read"] else annotation.removesuffix(" | None")
    choices = [str(word) for word in about["choices"]]
    option = typer.Option(
        f"{flag}/--no-{flag.removeprefix('--')}" if kind == "bool" else flag,
        help=about["help"],
        metavar="|".join(choices) or (field.name.upper() if key != field.name else None),
        envvar=None if field.repr else f"TACIT_{field.name.upper()}",
        autocompletion=choice(choices) if choices else None,
    )
    optional = _TYPES[kind] | None if annotation.endswith(" | None") else _TYPES[kind]
    usual = list(default) if isinstance(default, tuple) else default
    return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=usual, annotation=Annotated[optional, option])


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
