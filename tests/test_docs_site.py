"""The site builds without warnings, shows every public name, and loads nothing foreign."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

import tacit
from documents import PAGES
from source_tree import ROOT
from tacit import errors

# What a browser fetches by itself, by element and attribute; links to follow are not.
FETCHED = {
    ("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src"),
    ("use", "href"),
}  # fmt: skip
REFERENCES = {"canonical", "next", "prev"}  # of <link>: they name pages and load nothing
ELSEWHERE = re.compile(r"(?:https?:)?//")
STYLE = re.compile(r"""(?:@import\s+|url\()["']?((?:https?:)?//[^"')\s]+)""")


class Fetches(HTMLParser):
    """Collects the addresses that a browser fetches to show a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "link" and set((dict(attrs).get("rel") or "").split()) & REFERENCES:
            return
        self.addresses += [value for name, value in attrs if value and (tag, name) in FETCHED]


def foreign(page: str) -> list[str]:
    """List the files that a page, or its styles, would load from another host."""
    return [
        address for address in Fetches(page).addresses if ELSEWHERE.match(address)
    ] + STYLE.findall(page)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(folder),
    ]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def listed(entries: object) -> Iterator[str]:
    """The files that a navigation names, at any depth."""
    match entries:
        case str():
            yield entries
        case list():
            for entry in entries:
                yield from listed(entry)
        case dict():
            for entry in entries.values():
                yield from listed(entry)


def test_the_navigation_lists_every_page() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = {
        page.relative_to(ROOT).as_posix().removeprefix("docs/")
        for page in PAGES
        if page != ROOT / "README.md"
    }
    assert pages <= set(listed(settings["nav"]))


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = {page.name: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    assert len(pages) > len(PAGES)
    assert {name: addresses for name, text in pages.items() if (addresses := foreign(text))} == {}
    styles = {
        style.name: STYLE.findall(style.read_text(encoding="utf-8"))
        for style in site.rglob("*.css")
    }
    assert styles
    assert not any(styles.values())


def test_a_foreign_script_is_found() -> None:
    page = """<link rel="canonical" href="https://a.org/x">
    <link rel="stylesheet" href="//b.org/x.css"><a href="https://c.org">read</a>
    <script src="https://d.org/x.js"></script><script src="x.js"></script>
    <style>@import "https://e.org/x.css";
    p { background: url(https://f.org/x.png), url(x.png) }</style>"""
    hosts = [re.findall(r"\w\.org", address)[0] for address in foreign(page)]
    assert hosts == ["b.org", "d.org", "e.org", "f.org"]


def test_search_finds_what_pages_say(site: Path) -> None:
    assert "borders" in (site / "search" / "search_index.json").read_text(encoding="utf-8")


def test_the_reference_shows_every_public_name_and_error(site: Path) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")
    names = [f"tacit.{name}" for name in tacit.__all__ if name != "__version__"]
    classes = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    names += [
        f"tacit.errors.{name}"
        for name, value in classes.items()
        if issubclass(value, errors.TacitError) and value is not errors.TacitError
    ]
    assert [name for name in names if f'id="{name}"' not in page] == []
    assert "<blockquote>" not in page  # a doctest outside a block of code
    assert "Return the best answers with reasons" in page  # a docstring is there, not only names
