"""What the site needs beside the pages of `docs/`: linked files and plain code fences."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")
OUTSIDE = re.compile(r"\]\(\.\./([^)#\s]+)")
MARK = re.compile(r"^```(\w+) \w+$", re.MULTILINE)
ROW = re.compile(r"^\|.*$", re.MULTILINE)
CODE = re.compile(r"`[^`]+`")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages in the root of the repository, and every file that pages link to there."""
    pages = [Path(page.abs_src_path) for page in files.documentation_pages() if page.abs_src_path]
    linked = {path for page in pages for path in OUTSIDE.findall(page.read_text(encoding="utf-8"))}
    for path in sorted({*PAGES, *linked}):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links at files of the site, and write blocks and tables in its Markdown.

    Tests read the mark of a block, and repository pages need `\\|` in the code of a table; the site
    would show both.
    """
    if page.file.src_uri in PAGES:
        markdown = markdown.replace("](docs/", "](")
    markdown = MARK.sub(r"```\1", OUTSIDE.sub(r"](\1", markdown))
    return ROW.sub(lambda row: CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), markdown)
