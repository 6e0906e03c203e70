"""Tables in documents that are written from files of results, and checked to be up to date.

A document marks a place with `<!-- table: NAME -->` and `<!-- end -->`, each on its own line; a TOML file says what the
table NAME holds::

    [nell995]
    benchmark = "NELL995"                     # whose published rows
    published = ["CQD-Beam", "CQD^A"]
    metric = "mrr"
    rows = [["Tacit, paper's recipe", "results/nell995-paper.json"]]

Paths are relative to that file. `python -m tacit.evaluate.generated TABLES.toml README.md …` rewrites the places, and
with `--check` only says which are out of date.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit.errors import DataError, TacitError
from tacit.evaluate.results import read_results
from tacit.evaluate.tables import markdown, measured, published

_PLACE = re.compile(r"^<!-- table: (\S+) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)


def tables(path: str | Path) -> dict[str, str]:
    """The tables a TOML file asks for, as Markdown by name."""
    path = Path(path)
    try:
        wanted = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error})", path) from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"is not TOML ({error})", path) from None
    return {name: _table(name, asked, path) for name, asked in wanted.items()}


def refreshed(text: str, tables: Mapping[str, str]) -> str:
    """A document with the marked places filled.

    >>> print(refreshed("<!-- table: x -->\\n<!-- end -->", {"x": "| 1p |"}))
    <!-- table: x -->
    | 1p |
    <!-- end -->
    """

    def fill(place: re.Match[str]) -> str:
        name = place[1]
        if name not in tables:
            raise DataError(f"a document asks for table '{name}'; the tables are {', '.join(tables) or 'none'}")
        return f"<!-- table: {name} -->\n{tables[name]}\n<!-- end -->"

    return _PLACE.sub(fill, text)


def stale(documents: Sequence[Path], tables: Mapping[str, str]) -> list[Path]:
    """The documents whose marked places do not hold the tables."""
    texts = {path: path.read_text(encoding="utf-8") for path in documents}
    return [path for path, text in texts.items() if refreshed(text, tables) != text]


def _table(name: str, asked: Any, path: Path) -> str:
    if not isinstance(asked, dict) or not isinstance(asked.get("rows"), list):
        raise DataError(f"table [{name}] has no rows = [[LABEL, FILE], …]", path)
    unknown = set(asked) - {"benchmark", "published", "metric", "columns", "rows"}
    if unknown:
        raise DataError(f"table [{name}] has an unknown key '{min(unknown)}'", path)
    rows = [published(str(asked.get("benchmark")), method) for method in asked.get("published", [])]
    for row in asked["rows"]:
        if not (isinstance(row, list) and len(row) == 2 and all(isinstance(part, str) for part in row)):
            raise DataError(f"a row of table [{name}] is {row!r} where [LABEL, FILE] is expected", path)
        rows.append(measured(row[0], read_results(path.parent / row[1]), asked.get("metric", "mrr")))
    return markdown(rows, asked.get("columns"))


def main(arguments: Sequence[str]) -> int:
    """Rewrite documents, or check them with `--check`; the exit status is 1 where one is out of date."""
    checking = "--check" in arguments
    paths = [Path(argument) for argument in arguments if argument != "--check"]
    try:
        wanted = tables(paths[0])
        old = stale(paths[1:], wanted)
        for path in [] if checking else old:
            path.write_text(refreshed(path.read_text(encoding="utf-8"), wanted), encoding="utf-8")
    except (TacitError, IndexError, OSError) as error:
        print(f"error: {error or 'give a TOML file of tables, then documents'}", file=sys.stderr)
        return 2
    for path in old:
        print(f"{path}: {'tables are out of date' if checking else 'tables written'}")
    return int(checking and bool(old))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
