"""Write `docs/cli.md` from the commands themselves: `make docs`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer

from tacit.adapt.settings import AdaptSettings
from tacit.cli import app
from tacit.encode.settings import EncodeSettings
from tacit.engine.settings import EngineSettings
from tacit.evaluate.settings import EvaluateSettings
from tacit.graph.settings import ReadSettings
from tacit.links.settings import TrainSettings
from tacit.query.sampling.settings import SampleSettings
from tacit.server.settings import Limits, ServerSettings
from tacit.settings import KINDS as TYPES
from tacit.settings import Settings, settings_of

PAGE = Path(__file__).with_name("cli.md")
INTRODUCTION = """\
# The command line

Every command answers `--help`. What goes wrong is said in one line on standard error, \
with exit code 2;
`tacit --debug COMMAND` shows the traceback instead. Where a command takes a `GRAPH`, \
it is the name of an
embedded graph (`world`), a folder with train, valid and test splits, or a single file: see
[your own data](data.md).

This page is written by `make docs` from the commands themselves.
"""
SETTINGS = """\
## Options that are settings

Commands that say so take the options of a table. Python takes the same settings \
by the name beside them,
as in `tacit.train(graph, out, rank=200)`, and a run keeps them in its `settings.toml`.
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
WIDEST = 100  # characters of a line
FEWEST = 5  # options that are worth a link; fewer stand in the command's own table


def leaves(
    command: Any, path: tuple[str, ...] = ("tacit",)
) -> Iterator[tuple[tuple[str, ...], Any]]:
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


def words(parameter: Any) -> str:
    """The words that give an option: `--top`, or `--new` / `--no-new`."""
    return " / ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def spelling(command: Any, parameter: Any) -> str:
    """How a parameter is typed: `GRAPH`, or `--top TOP`, or `--new` / `--no-new`."""
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`"
    if parameter.is_flag:
        return words(parameter)
    limited = "|".join(choices(command, parameter)) or parameter.metavar or parameter.name.upper()
    return f"{words(parameter)} `{limited}`".replace("|", "\\|")


def default(parameter: Any) -> str:
    """The default as the table shows it."""
    value = parameter.default
    if parameter.required:
        return "required"
    if value is None or value is False or value in ("", []) or callable(value):
        return ""
    return "on" if value is True else f"`{value.value if isinstance(value, Enum) else value}`"


def groups(command: Any) -> dict[str, list[Any]]:
    """The settings that a command's options are made of, by table, the largest first."""
    found: dict[str, list[Any]] = {}
    for _ in KINDS:
        taken = {id(parameter) for parameter in chain.from_iterable(found.values())}
        matches = {
            noun: [p for p in command.params if id(p) not in taken and p.help in helps(kind)]
            for noun, kind in KINDS.items()
            if noun not in found
        }
        noun = max(matches, key=lambda noun: len(matches[noun]))
        if len(matches[noun]) < FEWEST:
            break
        found[noun] = matches[noun]
    return {noun: found[noun] for noun in KINDS if noun in found}


def helps(kind: type[Settings]) -> dict[str, Any]:
    """The fields of settings by what their help says."""
    fields = settings_of(kind)
    switches = {field.metadata["off"]: field for field in fields if field.metadata["off"]}
    return {field.metadata["help"]: field for field in fields} | switches


def anchor(noun: str) -> str:
    """Where the table of some settings stands."""
    return f"#{noun} {KINDS[noun].__name__}".lower().replace(" ", "-")


def linked(noun: str, parameters: Sequence[Any]) -> str:
    """Options whose table stands elsewhere, with the defaults that are the command's own."""
    fields = helps(KINDS[noun])
    listed = [
        words(p)
        + (f" (here {default(p)})" if settled(p.default) != settled(fields[p.help].default) else "")
        for p in parameters
    ]
    text = f"[{noun}]({anchor(noun)}): {', '.join(listed)}."
    return "\n".join(wrap(text, WIDEST, break_long_words=False, break_on_hyphens=False))


def settled(value: Any) -> Any:
    """A default, whether the command line or Python says it."""
    return None if value in ((), [], "", False) else value


def section(path: tuple[str, ...], command: Any) -> str:
    """One command: what it does, how it is called, and each argument and option."""
    arguments = " ".join(p.name.upper() for p in command.params if p.param_type_name == "argument")
    usage = " ".join([*path, arguments, "[OPTIONS]"] if arguments else [*path, "[OPTIONS]"])
    lines = [
        f"## `{' '.join(path)}`",
        "",
        (command.help or "").strip(),
        "",
        "```",
        usage,
        "```",
        "",
    ]
    elsewhere = groups(command)
    own = [
        p for p in command.params if not any(p in parameters for parameters in elsewhere.values())
    ]
    if own:
        lines += ["| | default | |", "|---|---|---|"]
        lines += [
            f"| {spelling(command, p)} | {default(p)} | {' '.join((p.help or '').split())} |"
            for p in own
        ]
        lines.append("")
    for noun, parameters in elsewhere.items():
        lines += [linked(noun, parameters), ""]
    return "\n".join(lines)


def allowed(field: Any) -> str:
    """What a setting may be: its choices or range, and its type where there is neither."""
    about = field.metadata
    words = {"least": "at least", "above": "above", "most": "at most", "below": "below"}
    limits = [f"{words[name]} {about[name]}" for name in words if about[name] is not None]
    return (
        ", ".join(map(str, about["choices"]))
        or ", ".join(limits)
        or TYPES[str(field.type).removesuffix(" | None")]
    )


def settings_table(noun: str, options: Mapping[str, Any]) -> str:
    """The settings of one class: the option by its help, the name in Python, and what it may be."""
    kind = KINDS[noun]
    lines = [
        f"### {noun}: `{kind.__name__}`",
        "",
        "| | in Python | default | may be | |",
        "|---|---|---|---|---|",
    ]
    for field in settings_of(kind):
        about = field.metadata
        spelt = [words(options[each]) for each in (about["help"], about["off"]) if each in options]
        option = " / ".join(spelt)
        shown = (
            ""
            if field.default in (None, (), False)
            else "on"
            if field.default is True
            else f"`{field.default}`"
        )
        resumed = " May change on resume." if about["resumes"] else ""
        lines.append(
            f"| {option} | `{field.name}` | {shown} | {allowed(field)} | {about['help']}{resumed} |"
        )
    return "\n".join([*lines, ""])


def page() -> str:
    """The whole page."""
    root: Any = typer.main.get_command(app)
    commands = dict(leaves(root))
    options: dict[str, dict[str, Any]] = {noun: {} for noun in KINDS}
    for command in commands.values():
        for noun, parameters in groups(command).items():
            options[noun] |= {p.help: p for p in parameters}
    sections = [section(path, command) for path, command in commands.items()]
    tables = [SETTINGS, *(settings_table(noun, options[noun]) for noun in KINDS)]
    return "\n".join([INTRODUCTION, section(("tacit",), root), *sections, *tables]).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
