"""Options that commands share, and options made of settings."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import Field
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from tacit.cli.terminal import (
    complete_choice,
    complete_runs,
    complete_shapes,
    is_of_memory,
)
from tacit.errors import QueryError, SettingsError, TacitError
from tacit.settings import Settings, settings_of

Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
Unadapted = Annotated[bool, typer.Option("--unadapted", help="Leave the run's adapter out.")]
Shapes = Annotated[
    str | None,
    typer.Option(
        "--shapes",
        autocompletion=complete_shapes,
        help="Shapes such as 1p,2i,3in, or positive, negative, all.",
    ),
]
NewRun = Annotated[Path, typer.Option("--out", help="The run folder to make.")]
ReplaceRun = Annotated[bool, typer.Option("--force", help="Replace the run in the folder.")]
FLAGS = {"fact_sources": "--source"}  # of settings whose flags have other names
Command = Callable[..., None]
Values = dict[str, Any]  # of the settings that a command line has
# A parameter in an error, alone or with a value: `k`, `k=64`.
_PARAMETER = re.compile(r"`(\w+)(?:=([^`]+))?`")
_LARGE = ("memory", "k", "top", "batch", "rank")
# Parameters in Python -> their names on the command line.
_ALIASES = {"adapted": "unadapted", "out": "json_", "templates": "template"}


def run_argument(help: str = "A run folder, or world.", metavar: str = "RUN|world") -> Any:
    """An argument that a shell completes to a run."""
    return typer.Argument(metavar=metavar, autocompletion=complete_runs, help=help)


def one_of(words: Sequence[str], help: str) -> Any:
    """An option that takes one of some words."""
    return typer.Option(metavar="|".join(words), autocompletion=complete_choice(words), help=help)


_TYPES: dict[str, Any] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "tuple[str, ...]": list[str],
}


def of_settings(
    kind: type[Settings],
    into: str = "settings",
    *,
    only: Collection[str] = (),
    flags: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Callable[[Command], Command]:
    """Add an option for each field of settings; the parameter `into` gets the used ones.

    A flag has the name of its field, or the one in `flags`; `defaults` replace those of the
    settings. Values are checked here: before anything is read, and since two kinds of settings may
    have a field of the same name.
    """
    fields = {field.name: field for field in settings_of(kind) if not only or field.name in only}
    spellings = {name: FLAGS.get(name, _flag(name)) for name in fields} | dict(flags or {})
    usual = {name: field.default for name, field in fields.items()} | dict(defaults or {})

    def decorate(command: Command) -> Command:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        own.pop(into)
        keys = {name: f"{into}_{name}" if name in own else name for name in fields}
        options = {
            keys[name]: _option(fields[name], keys[name], spellings[name], usual[name])
            for name in fields
        }
        off = {f"no_{key}": name for name, key in keys.items() if fields[name].metadata["off"]}
        for key, name in off.items():
            options[key] = _off_switch(key, spellings[name], fields[name])

        @wraps(command)
        def called(context: typer.Context, **values: Any) -> None:
            used = {}
            for name, key in keys.items():
                value = values.pop(key)
                origin = context.get_parameter_source(key)
                if origin and origin.name != "DEFAULT":
                    used[name] = value
            for key, name in off.items():
                if values.pop(key):
                    _turn_off(name, used, spellings[name])
            if "context" in own:
                values["context"] = context
            try:
                kind.of(used)
            except TacitError as error:
                flags = flags_of(context.command)
                name_flags(error, {name: flags[key] for name, key in keys.items()})
                raise
            command(**values, **{into: used})

        context = inspect.Parameter(
            "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
        )
        parameters = {"context": context} | own | options
        vars(called)["__signature__"] = inspect.Signature(list(parameters.values()))
        return called

    return decorate


class FlagCommand(TyperCommand):
    """A command whose errors name its flags where they name parameters of Python."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; an error about too many words says what may be wrong."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            message = str(getattr(error, "message", ""))
            if message.startswith("Got unexpected extra"):
                graph = "; name a graph by --graph" if "graph" in flags_of(self) else ""
                vars(error)["message"] = f"{message}; quote what has spaces{graph}"
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command; errors name its flags, or those of the command that would help."""
        try:
            return super().invoke(ctx)
        except TacitError as error:
            name_flags(error, _flags_of_hint(ctx, error) | flags_of(self))
            raise
        except (MemoryError, RuntimeError) as error:
            if is_of_memory(error) and (
                large := [f"--{name}" for name in _LARGE if name in flags_of(self)]
            ):
                error.add_note(f"lower {' or '.join(large)}")
            raise


def flags_of(command: Any) -> dict[str, Any]:
    """The options and arguments of a command, by the names of parameters that mean them."""
    parameters = {parameter.name: parameter for parameter in command.params}
    return {
        name: parameters[other] for name, other in _ALIASES.items() if other in parameters
    } | parameters


def _flags_of_hint(context: Any, error: TacitError) -> dict[str, Any]:
    """The flags of the command that an error recommends."""
    command = context.find_root().command
    for word in (error.command or "").split():
        if word not in getattr(command, "commands", ()):
            break
        command = command.commands[word]
    return {} if hasattr(command, "commands") else flags_of(command)


def name_flags(error: TacitError, flags: Mapping[str, Any]) -> None:
    """Put flags in the place of the parameters that an error names."""
    message = str(error)
    parameter = str(getattr(error, "parameter", None))
    if isinstance(error, QueryError):  # its parameters are `$name`
        if "param" in flags and f"${parameter} has no value;" in message:
            message += f", as in --param {parameter}=LABEL"
    elif parameter in flags:
        message = re.sub(
            rf"(?<![`\w-]){parameter}(?![`\w])", _spelled(flags[parameter]), message, count=1
        )
        vars(error)["parameter"] = None  # the message names the flag already
    error.args = (with_flags(message, flags), *error.args[1:])


def with_flags(message: str, flags: Mapping[str, Any] | None = None) -> str:
    """A message with flags in the place of parameters in backquotes.

    Without `flags`, each parameter becomes the flag of its own name.

    >>> with_flags("`skip_bad=True` skips it")
    '--skip-bad skips it'
    """

    def flag(match: re.Match[str]) -> str:
        name, value = match.groups()
        if flags is None:
            if value == "False":
                return _flag(f"no_{name}")
            words = [] if value in (None, "True") else [_quoted(value)]
            return " ".join([_flag(name), *words])
        return _spelled(flags[name], value) if name in flags else match[0]

    return _PARAMETER.sub(flag, message)


def _spelled(parameter: Any, value: str | None = None) -> str:
    """A parameter as a shell spells it: a flag with its value, or the name of an argument."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    if value == "False":
        return str([*parameter.secondary_opts, f"--no-{parameter.opts[0][2:]}"][0])
    if value is None or parameter.is_flag:
        return str(parameter.opts[0])
    return " ".join((parameter.opts[0], _quoted(value)))


def _quoted(value: str) -> str:
    """A value of Python as a shell takes it."""
    return shlex.quote(value.strip("'"))


def _option(field: Field[Any], key: str, flag: str, default: Any) -> inspect.Parameter:
    """The option of a field as typer reads it; a secret can come from the environment."""
    metadata = field.metadata
    annotation = str(field.type)
    # Settings with a parser take one string.
    kind = "str" if metadata["read"] else annotation.removesuffix(" | None")
    choices = [str(word) for word in metadata["choices"]]
    option = typer.Option(
        f"{flag}/--no-{flag.removeprefix('--')}" if kind == "bool" else flag,
        help=metadata["help"],
        metavar="|".join(choices) or (field.name.upper() if key != field.name else None),
        envvar=None if field.repr else f"TACIT_{field.name.upper()}",
        autocompletion=complete_choice(choices) if choices else None,
    )
    optional = _TYPES[kind] | None if annotation.endswith(" | None") else _TYPES[kind]
    usual = list(default) if isinstance(default, tuple) else default
    return inspect.Parameter(
        key, inspect.Parameter.KEYWORD_ONLY, default=usual, annotation=Annotated[optional, option]
    )


def _turn_off(name: str, used: Values, flag: str) -> None:
    """Set a setting to False, which must have no other value."""
    if name in used:
        raise SettingsError(f"give {flag} or --no-{flag.removeprefix('--')}, not both")
    used[name] = False


def _off_switch(key: str, flag: str, field: Field[Any]) -> inspect.Parameter:
    """The flag by which a setting that is no switch is False."""
    option = typer.Option(f"--no-{flag.removeprefix('--')}", help=field.metadata["off"])
    return inspect.Parameter(
        key, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option]
    )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
