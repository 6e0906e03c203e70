"""The tables in documents, written from files of results and published figures.

    python benchmarks/written_tables.py README.md docs/*.md [--check] \\
        [--tables benchmarks/tables.toml]

A document marks a place with `<!-- table: NAME -->` and `<!-- end -->`, each on its own line; a
TOML file says what the table NAME holds::

    [nell995]
    benchmark = "NELL995"                     # whose published rows
    published = ["CQD-Beam", "CQD^A"]
    metric = "mrr"
    rows = [["Tacit, paper's recipe", "results/nell995-paper.json"]]
    missing = 2                               # only answers that miss two links
    partial = true                            # rows without a file of results are left out

    [step-times]
    figures = "results/encoders-cuda.json"    # what a benchmark measured, as it stands
    columns = ["ms", "floor ms"]              # some of its columns, and the rows with any of them

A row whose evaluation ranked known answers last says so, and one whose encoder was not trained to
the end of its recipe says how far it was. Paths are relative to that file. `--check` writes nothing
and says which documents are out of date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comparison import shown
from published import published
from scaffold import read_results
from tacit.errors import DataError, SettingsError, TacitError
from tacit.evaluate.results import cell, columns_of, missing_percentages, percentages

TABLES = Path(__file__).with_name("tables.toml")
NOTHING = "Not measured yet."
_PLACE = re.compile(r"^<!-- table: (\S+) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
_KEYS = {"benchmark", "published", "metric", "columns", "rows", "missing", "partial", "figures"}


@dataclass(frozen=True)
class Row:
    """A line of a table: a name, and values in percent by column; columns it lacks show a dash."""

    name: str
    values: Mapping[str, float]
    published: bool = False


def markdown(rows: Sequence[Row], columns: Sequence[str] | None = None) -> str:
    """A Markdown table; the best value of each column is bold, published rows are in italics.

    >>> ours = Row("ours", {"1p": 60.44, "2p": 20.0})
    >>> print(markdown([ours, Row("CQD-CO", {"1p": 60.4}, published=True)]))
    | | 1p | 2p |
    |---|---:|---:|
    | ours | **60.4** | 20.0 |
    | *CQD-CO* | **60.4** | - |
    """
    if not rows:
        raise SettingsError("a table needs at least one row of results")
    columns = columns_of(row.values for row in rows) if columns is None else columns
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    cells = [[cell(row.values.get(column)) for column in columns] for row in rows]
    best = [_best(column) for column in zip(*cells, strict=True)]
    for row, values in zip(rows, cells, strict=True):
        name = f"*{row.name}*" if row.published else row.name
        marked = [
            f"**{value}**" if value == top else value
            for value, top in zip(values, best, strict=True)
        ]
        lines.append(f"| {' | '.join([name, *marked])} |")
    return "\n".join(lines)


def tables(path: str | Path) -> dict[str, str]:
    """The tables a TOML file asks for, as Markdown by name."""
    path = Path(path)
    try:
        definitions = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error})", path) from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"is not TOML ({error})", path) from None
    return {name: _table(name, definition, path) for name, definition in definitions.items()}


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
            raise DataError(
                f"a document asks for table '{name}'; the tables are {', '.join(tables) or 'none'}"
            )
        return f"<!-- table: {name} -->\n{tables[name]}\n<!-- end -->"

    return _PLACE.sub(fill, text)


def stale(documents: Sequence[Path], tables: Mapping[str, str]) -> list[Path]:
    """The documents whose marked places do not hold the tables."""
    texts = {path: path.read_text(encoding="utf-8") for path in documents}
    return [path for path, text in texts.items() if refreshed(text, tables) != text]


def _best(column: Sequence[str]) -> str | None:
    """The best cell as printed, if there are several; equal cells are all best."""
    values = [value for value in column if value != "-"]
    return max(values, key=float) if len(values) > 1 else None


def _table(name: str, definition: Any, path: Path) -> str:
    if not isinstance(definition, dict) or not (
        isinstance(definition.get("rows"), list) or "figures" in definition
    ):
        raise DataError(f"table [{name}] has no rows = [[LABEL, FILE], …]", path)
    if unknown := set(definition) - _KEYS:
        raise DataError(f"table [{name}] has an unknown key '{min(unknown)}'", path)
    if "figures" in definition:
        return _figures(
            path.parent / str(definition["figures"]),
            definition.get("columns"),
            definition.get("partial", False),
        )
    benchmark = str(definition.get("benchmark"))
    metric = definition.get("metric", "mrr")
    rows = [
        Row(method, published(benchmark, method), True)
        for method in definition.get("published", [])
    ]
    for row in definition["rows"]:
        if not (
            isinstance(row, list) and len(row) == 2 and all(isinstance(part, str) for part in row)
        ):
            raise DataError(
                f"a row of table [{name}] is {row!r} where [LABEL, FILE] is expected", path
            )
        if (path.parent / row[1]).exists() or not definition.get("partial"):
            rows.append(_row(row[0], path.parent / row[1], metric, definition.get("missing")))
    return (
        markdown(rows, definition.get("columns"))
        if rows or not definition.get("partial")
        else NOTHING
    )


def _figures(file: Path, columns: Sequence[str] | None, partial: bool) -> str:
    """What a benchmark measured, a line for each row of its figures."""
    if partial and not file.exists():
        return NOTHING
    try:
        figures: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["figures"]
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error})", file) from None
    except (ValueError, KeyError):
        raise DataError("holds no figures of a benchmark", file) from None
    columns = columns or list(dict.fromkeys(column for row in figures.values() for column in row))
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for name, row in figures.items():
        if any(column in row for column in columns):
            lines.append(
                f"| {' | '.join([name, *(shown(row.get(column)) for column in columns)])} |"
            )
    return "\n".join(lines)


def _row(name: str, file: Path, metric: str, missing: int | None) -> Row:
    """The row of a file of results, of all answers or of those that miss so many links."""
    results = read_results(file)
    settings = results.get("settings", {})
    # the settings of a row hold those of the engine
    if settings.get("engine", settings).get("new"):
        name += ", known answers last"
    if cut := results.get("encoding", {}).get("cut"):
        name += f", {cut}"
    if missing is None:
        return Row(name, percentages(results, metric))
    by_missing = missing_percentages(results, metric)
    if not by_missing:
        raise DataError("holds no figures by missing links; evaluate with --by-missing", file)
    return Row(name, by_missing.get(str(missing), {}))


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite documents, or check them with `--check` and return 1 if one is out of date."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("documents", type=Path, nargs="+")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tables", type=Path, default=TABLES)
    args = parser.parse_args(arguments)
    try:
        texts = tables(args.tables)
        outdated = stale(args.documents, texts)
        for path in [] if args.check else outdated:
            path.write_text(refreshed(path.read_text(encoding="utf-8"), texts), encoding="utf-8")
    except (TacitError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for path in outdated:
        print(f"{path}: {'tables are out of date' if args.check else 'tables written'}")
    return int(args.check and bool(outdated))


if __name__ == "__main__":
    sys.exit(main())
