"""Write `docs/cli.md` from the commands themselves: `make docs`."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer

from tacit.adapt.settings import AdaptSettings
from tacit.cli import app
from tacit.encode.settings import EncodeSettings
from tacit.engine.settings import EngineSettings
from tacit.evaluate.settings import EvaluateSettings
from tacit.graph.read_settings import ReadSettings
from tacit.links.settings import TrainSettings
from tacit.query.sample_settings import SampleSettings
from tacit.server.settings import Limits, ServerSettings
from tacit.settings import KINDS as TYPES
from tacit.settings import Settings, settings_of

PAGE = Path(__file__).with_name("cli.md")
INTRODUCTION = """\
# The command line

Every command answers `--help`. What goes wrong is said in one line on standard error, with exit code 2;
`tacit --debug COMMAND` shows the traceback instead. Where a command takes a `GRAPH`, it is the name of an embedded
graph (`world`), a folder with train, valid and test splits, or a single file: see [your own data](data.md).

This page is written by `make docs` from the commands themselves.
"""
SETTINGS = """\
## The settings behind the options

Python takes the same settings by name, as in `tacit.train(graph, out, rank=200)`, and a run keeps them in its
`settings.toml`.
"""
KINDS: dict[str, type[Settings]] = {
    "Reading files": ReadSettings,
    "Training": TrainSettings,
    "Adapting": AdaptSettings,
    "Encoding": EncodeSettings,
    "Asking and evaluating": EngineSettings,
    "Ranking": EvaluateSettings,
    "Sampling": SampleSettings,
    "Serving": ServerSettings,
    "Limits of the service": Limits,
}


def leaves(command: Any, path: tuple[str, ...] = ("tacit",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command that does something, with the words that call it, in the order of `--help`."""
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from leaves(inner, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


def choices(command: Any, parameter: Any) -> list[str]:
    """The words a parameter is limited to, from the annotation of the command's function."""
    kind = get_type_hints(command.callback).get(parameter.name) if command.callback else None
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(member.value) for member in kind]
    return [str(word) for word in get_args(kind)] if get_origin(kind) is Literal else []


def spelling(command: Any, parameter: Any) -> str:
    """How a parameter is typed: `GRAPH`, or `--top TOP`, or `--observed / --no-observed`."""
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`"
    words = " / ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.is_flag:
        return words
    limited = "|".join(choices(command, parameter)) or parameter.metavar or parameter.name.upper()
    return f"{words} `{limited}`".replace("|", "\\|")


def default(parameter: Any) -> str:
    """The default as the table shows it."""
    value = parameter.default
    if parameter.required:
        return "required"
    if value is None or value is False or value in ("", []) or callable(value):
        return ""
    return "on" if value is True else f"`{value.value if isinstance(value, Enum) else value}`"


def section(path: tuple[str, ...], command: Any) -> str:
    """One command: what it does, how it is called, and each argument and option."""
    arguments = " ".join(p.name.upper() for p in command.params if p.param_type_name == "argument")
    usage = " ".join([*path, arguments, "[OPTIONS]"] if arguments else [*path, "[OPTIONS]"])
    lines = [f"## `{' '.join(path)}`", "", (command.help or "").strip(), "", "```", usage, "```", ""]
    if command.params:
        lines += ["| | default | |", "|---|---|---|"]
        lines += [
            f"| {spelling(command, p)} | {default(p)} | {' '.join((p.help or '').split())} |" for p in command.params
        ]
        lines.append("")
    return "\n".join(lines)


def allowed(field: Any) -> str:
    """What a setting may be: its choices or range, and its type where there is neither."""
    about = field.metadata
    words = {"least": "at least", "above": "above", "most": "at most"}
    limits = [f"{words[name]} {about[name]}" for name in words if about[name] is not None]
    return ", ".join(map(str, about["choices"])) or ", ".join(limits) or TYPES[str(field.type).removesuffix(" | None")]


def settings_table(noun: str, kind: type[Settings]) -> str:
    """The settings of one class, as Python and the settings file name them."""
    lines = [f"### {noun}: `{kind.__name__}`", "", "| | default | may be | |", "|---|---|---|---|"]
    for field in settings_of(kind):
        shown = "" if field.default in (None, ()) else f"`{field.default}`"
        resumed = " May change on resume." if field.metadata["resumes"] else ""
        lines.append(f"| `{field.name}` | {shown} | {allowed(field)} | {field.metadata['help']}{resumed} |")
    return "\n".join([*lines, ""])


def page() -> str:
    """The whole page."""
    root: Any = typer.main.get_command(app)
    sections = [section(path, command) for path, command in leaves(root)]
    tables = [SETTINGS, *(settings_table(noun, kind) for noun, kind in KINDS.items())]
    return "\n".join([INTRODUCTION, section(("tacit",), root), *sections, *tables]).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
