"""The documentation names every command and flag, and nothing that does not exist."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from documents import PAGES, prose
from project import EXTRAS, FOR_DEVELOPERS
from source_tree import ROOT
from tacit.cli import app

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
COMMANDS = typer.main.get_command(app)
WIDEST = 110  # characters of a line of prose


def leaves(
    command: Any, path: tuple[str, ...] = ("tacit",)
) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    for name in inner or ():
        yield from leaves(inner[name], (*path, name))


LEAVES = dict(leaves(COMMANDS))


def flags(command: Any) -> set[str]:
    options = [p for p in command.params if p.param_type_name == "option"]
    return {name for p in options for name in (*p.opts, *p.secondary_opts)} | {"--help", "-h"}


def sections(text: str) -> dict[str, str]:
    """The text under each second-level heading that names a command."""
    parts = re.split(r"^## `(.+)`$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_cli_page_is_up_to_date() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "write_cli.py"))["page"]()
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == written, "run `make docs`"


def test_kinds_of_settings_are_headed_by_words_and_no_names_of_classes() -> None:
    kinds = runpy.run_path(str(ROOT / "docs" / "write_cli.py"))["KINDS"]
    assert [noun for noun in kinds if re.search("[a-z][A-Z]", noun)] == []


@pytest.mark.parametrize("path", [*LEAVES, ("tacit",)], ids=" ".join)
def test_every_command_and_flag_is_documented(path: tuple[str, ...]) -> None:
    text = sections((ROOT / "docs" / "cli.md").read_text(encoding="utf-8"))[" ".join(path)]
    command: Any = LEAVES.get(path, COMMANDS)
    assert command.help.strip() in text
    for parameter in command.params:
        assert parameter.help, f"{' '.join(path)}: {parameter.name} has no help"
    for flag in flags(command) - {"--help", "-h"}:
        assert f"`{flag}`" in text


def shell_lines(text: str) -> Iterator[str]:
    """Each call of `tacit` in fenced blocks, with continued lines joined."""
    for block in re.findall(r"^```[^\n]*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            call = re.search(r"(?:^|[$;|]\s*)(tacit [^;|#]*)", line)
            if call:
                yield call[1].strip()


def inline_calls(text: str) -> Iterator[str]:
    """Each whole call of `tacit` between backquotes: those that name what it works on."""
    yield from re.findall(r"`(tacit [a-z][^`]*)`", text)


def wrong_call(line: str) -> str | None:
    """Return the unknown command or flag of a line, or None."""
    words = shlex.split(line)
    path = ("tacit",)
    command = COMMANDS
    rest = words[1:]
    while rest and rest[0] in getattr(command, "commands", {}):
        path = (*path, rest[0])  # type: ignore[attr-defined]
        command = command.commands[rest[0]]  # type: ignore[attr-defined]
        rest = rest[1:]  # type: ignore[attr-defined]
    words_of_usage = ("COMMAND", "[OPTIONS]")
    if (
        hasattr(command, "commands")
        and rest
        and not rest[0].startswith("-")
        and rest[0] not in words_of_usage
    ):
        return f"{' '.join(path)} has no command {rest[0]}"
    known = flags(command) | flags(COMMANDS)
    unknown = [
        word.split("=")[0]
        for word in rest
        if re.match(r"--?[a-z]", word) and word.split("=")[0] not in known
    ]
    return f"{' '.join(path)} has no {', '.join(unknown)}" if unknown else None


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_shown_calls_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    lines = [*shell_lines(text), *inline_calls(text)]
    assert [problem for line in lines if (problem := wrong_call(line))] == []


def test_a_stale_call_is_found() -> None:
    text = (
        "Text.\n```sh\n$ tacit data lst\ntacit data list --fast \\\n  --x=1  # why\n"
        "tacit data list\n```\n"
    )
    problems = [wrong_call(line) for line in shell_lines(text + "tacit nothing\n")]
    assert problems == ["tacit data has no command lst", "tacit data list has no --fast, --x", None]


def broken_links(page: Path, text: str) -> list[str]:
    """Relative links of a page that lead nowhere."""
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text)
    return [target for target in targets if not (page.parent / target).exists()]


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "SECURITY.md"], ids=lambda path: str(path.relative_to(ROOT))
)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


def test_a_broken_link_is_found() -> None:
    text = "[here](docs/cli.md#top), [gone](docs/nowhere.md), [elsewhere](https://example.org)"
    assert broken_links(ROOT / "README.md", text) == ["docs/nowhere.md"]


def test_the_readme_leads_to_every_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [
        page.name for page in (ROOT / "docs").glob("*.md") if f"(docs/{page.name})" not in text
    ] == []


def test_the_install_page_lists_every_extra() -> None:
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`\w+`.*?) \|", text, flags=re.MULTILINE)
    listed = {extra for row in rows for extra in re.findall(r"`([\w-]+)`", row)}
    assert listed == set(EXTRAS) - FOR_DEVELOPERS


def deep_imports(text: str) -> set[str]:
    """List the full names that a text imports from inside the package."""
    found = re.findall(r"\bfrom (tacit\.[\w.]+) import ([\w, ]+)", text)
    return {f"{module}.{name.strip()}" for module, names in found for name in names.split(",")}


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_import_what_the_interface_shows(page: Path) -> None:
    """The package itself, and the contracts that one's own parts are written against."""
    shown = re.findall(
        r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert deep_imports(page.read_text(encoding="utf-8")) <= set(shown)


def test_a_deep_import_is_found() -> None:
    text = (
        '"from tacit.evaluate.figures import steps, svg\\n",\nimport tacit\n'
        "from tacit import Graph\n"
    )
    assert deep_imports(text) == {"tacit.evaluate.figures.steps", "tacit.evaluate.figures.svg"}


def long_lines(text: str) -> list[int]:
    """The numbers of lines of prose that are too long to read side by side with another version."""
    return [number for number, line in prose(text) if len(line) > WIDEST]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_of_prose_are_short(page: Path) -> None:
    assert long_lines(page.read_text(encoding="utf-8")) == []


def test_a_long_line_of_prose_is_found() -> None:
    fits = "x" * WIDEST
    wide = "x" * (WIDEST + 1)
    assert long_lines(
        f"{fits}\n{wide}\n```sh\n{wide}\n```\n| {wide} |\n\n    {wide}\n- {wide}\n"
    ) == [2, 9]
