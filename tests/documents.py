"""The pages of the documentation, and the blocks of code in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from source_tree import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
TUTORIALS = sorted((ROOT / "docs").glob("for-*.md"))


def name(page: Path) -> str:
    """The path of a page as test ids show it."""
    return str(page.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its mark, and its text.

    `elsewhere` after the language marks what needs data or a GPU and is checked but not run,
    `service` what needs one.
    """

    language: str
    mark: str
    text: str


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a page that can be wrapped, with their numbers: no code and no table."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("|", "    ", "<!--", "::: ")):
            yield number, line


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in their order."""
    found = re.findall(
        r"^```(\w*)[ ]?(.*)\n((?s:.*?))^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    return [Block(*parts) for parts in found]


@dataclass(frozen=True)
class Command:
    """A command line: its words, and the text of a here-document it writes."""

    words: tuple[str, ...]
    text: str = ""


def commands(block: str) -> Iterator[Command]:
    """The commands of a shell block, with continued lines and `cat > FILE <<'END'`."""
    lines = iter(block.replace("\\\n", " ").splitlines())
    for line in lines:
        words = shlex.split(line, comments=True)
        if words[:2] == ["cat", ">"]:
            end = words[-1].removeprefix("<<")
            text = "".join(f"{inside}\n" for inside in iter(lambda: next(lines), end))
            yield Command(tuple(words[:3]), text)
        elif words:
            yield Command(tuple(words))
