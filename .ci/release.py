"""Print what is new in a tagged version, and make the links of the README absolute.

    python .ci/release.py TAG REPOSITORY

It fails where the tag, the version of the project and the change log do not agree. REPOSITORY is
the address of the repository's page, which a package index and the list of releases do not know.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

_LINK = re.compile(r"(!?\[[^\]]*\])\((?!\w+:|#)([^)\s]+)\)")


def notes(root: Path, tag: str) -> str:
    """The section of the change log that a tag is of."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if tag != f"v{project['version']}":
        raise SystemExit(f"the tag is {tag}, and the version {project['version']}")
    log = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    heading, *rest = re.split(r"^## ", log, flags=re.MULTILINE)[1].splitlines(keepends=True)
    if not re.fullmatch(rf"\[{re.escape(tag[1:])}\] - \d{{4}}-\d\d-\d\d", heading.strip()):
        raise SystemExit(f"the change log begins with '{heading.strip()}': no dated {tag[1:]}")
    return "".join(rest).strip() + "\n"


def absolute(text: str, tag: str, repository: str) -> str:
    """A text whose links within the repository lead there from anywhere, at a tag."""

    def link(match: re.Match[str]) -> str:
        kind = "raw" if match[1].startswith("!") else "blob"
        return f"{match[1]}({repository}/{kind}/{tag}/{match[2]})"

    return _LINK.sub(link, text)


if __name__ == "__main__":
    tag, repository = sys.argv[1:]
    print(absolute(notes(Path(), tag), tag, repository), end="")
    readme = Path("README.md")
    readme.write_text(
        absolute(readme.read_text(encoding="utf-8"), tag, repository), encoding="utf-8"
    )
