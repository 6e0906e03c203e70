"""Writes tables and scored facts as a stream, in the format of the file extension."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.disk import is_device
from tacit.errors import SettingsError
from tacit.graph.formats.delimited import check_writable
from tacit.graph.formats.duckdb_tables import connected
from tacit.graph.formats.files import atomic_file, extension
from tacit.graph.labels.prefixes import SCHEME, Prefixes, n_triples

if TYPE_CHECKING:
    import pandas as pd

Scored = tuple[str, str, str, float] | tuple[str, str, str, float, str]
Cells = Sequence[Any]
# the types of columns
TEXT = "VARCHAR"
NUMBER = "DOUBLE"
INTEGER = "BIGINT"
TRUTH = "BOOLEAN"
COLUMNS = {"subject": TEXT, "relation": TEXT, "object": TEXT, "score": NUMBER}
RDF = (".nt", ".ttl")


def check_format(path: str | Path, formats: Sequence[str] = (), what: str = "facts") -> None:
    """Raises a `SettingsError` for an extension that is no output format."""
    known = formats or (*_ROWS, ".jsonl", *RDF, ".parquet")
    if extension(Path(path)) not in known:
        named = f"{', '.join(known[:-1])} or {known[-1]}"
        raise SettingsError(f"out is '{path}'; a file of {what} must end in {named}", "out")


def write_scored(
    path: str | Path,
    facts: Iterable[Scored],
    prefixes: Prefixes,
    columns: Sequence[str] = tuple(COLUMNS),
) -> int:
    """Writes a stream of scored facts in the file's format; returns their number.

    The file appears under its name once it is whole. Turtle has each score in an annotation
    (RDF 1.2), N-Triples leaves scores out; both leave out facts with a literal as subject, which
    RDF does not allow. A table may have further `columns`, which are texts.
    """
    path = Path(path)
    check_format(path)
    kind = extension(path)
    if kind not in RDF:
        return write_table(path, dict.fromkeys(columns, TEXT) | COLUMNS, facts)
    return write_lines(
        path, filter(None, (_statement(fact, prefixes, kind == ".ttl") for fact in facts))
    )


def write_table(
    path: str | Path, columns: Mapping[str, str], rows: Iterable[Cells], kind: str = ""
) -> int:
    """Writes a stream of rows; returns their number. The file appears when complete.

    `kind` is the extension of a format, by default that of the file.
    """
    path = Path(path)
    kind = kind or extension(path)
    if kind == ".parquet":
        return _write_parquet(path, columns, rows)
    if kind == ".jsonl":
        objects = (dict(zip(columns, row, strict=True)) for row in rows)
        return write_lines(path, (json.dumps(each, ensure_ascii=False) for each in objects))
    return write_lines(path, map(_ROWS[kind], chain([list(columns)], rows))) - 1


def write_lines(path: str | Path, lines: Iterable[str]) -> int:
    """Writes a stream of lines; returns their number. The file appears when complete."""
    count = 0
    with atomic_file(Path(path)) as file:
        for line in lines:
            # half of a surrogate pair becomes a question mark
            file.write(f"{line}\n".encode("utf-8", "replace"))
            count += 1
    return count


def data_frame(rows: Iterable[Cells], columns: Iterable[str]) -> pd.DataFrame:
    """Rows as a pandas DataFrame."""
    try:
        import pandas as pd
    except ImportError:
        raise SettingsError(
            "a DataFrame needs pandas; install it with: pip install 'tacit-kg[pandas]'"
        ) from None
    return pd.DataFrame(list(rows), columns=list(columns))


def _tsv(row: Cells) -> str:
    check_writable(cell for cell in row if isinstance(cell, str))
    return "\t".join(map(_cell, row))


def _csv(row: Cells) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(map(_cell, row))  # it quotes both of them
    return line.getvalue()[:-2]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


_ROWS: dict[str, Callable[[Cells], str]] = {".tsv": _tsv, ".csv": _csv}


def _statement(fact: Scored, prefixes: Prefixes, scored: bool) -> str:
    """A fact as N-Triples, or with its score as Turtle; empty for a literal subject."""
    subject, relation, object_ = (n_triples(label, prefixes) for label in fact[:3])
    score = f"{{| <{SCHEME}score> {fact[3]:.6f} |}} " if scored else ""
    return "" if subject.startswith('"') else f"{subject} {relation} {object_} {score}."


def _write_parquet(path: Path, columns: Mapping[str, str], rows: Iterable[Cells]) -> int:
    if find_spec("duckdb") is None:
        raise SettingsError(
            "writing Parquet needs duckdb; install it with: pip install 'tacit-kg[large]'"
        )
    with atomic_file(path) as file, connected() as database:
        beside = None if is_device(path) else path.parent
        with tempfile.TemporaryDirectory(dir=beside, prefix=f".{path.name}.") as scratch:
            table = Path(scratch) / "rows.jsonl"
            packed = Path(scratch) / "rows.parquet"
            count = write_table(table, columns, rows)
            database.run(
                lambda connection: connection.read_json(
                    str(table), columns=dict(columns), format="newline_delimited"
                ).write_parquet(str(packed))
            )
            with packed.open("rb") as written:
                shutil.copyfileobj(written, file)
    return count
