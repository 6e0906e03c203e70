"""Facts with scores, written as a table or as RDF."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from tacit.errors import SettingsError
from tacit.graph.delimited import check_writable
from tacit.graph.files import atomic_file, extension, written
from tacit.graph.prefixes import Prefixes
from tacit.graph.terms import SCHEME, n_triples

Scored = tuple[str, str, str, float]
COLUMNS = ("subject", "relation", "object", "score")


def check_format(path: str | Path) -> None:
    """Refuse a name whose extension is no format to write in, before there is anything to write."""
    if extension(Path(path)) not in (*_LINES, ".parquet"):
        formats = ", ".join(_LINES)
        raise SettingsError(f"'{path}' is no file of facts; its name ends in {formats} or .parquet", "out")


def write_scored(path: str | Path, facts: Iterable[Scored], prefixes: Prefixes) -> int:
    """Write facts as they come, in the format of the file's extension, and return how many there were.

    The file appears under its name once it is whole. Turtle says each score in an annotation (RDF-star), N-Triples
    leaves scores out; neither has facts whose subject is a literal, since RDF has none.
    """
    path = Path(path)
    check_format(path)
    kind = extension(path)
    if kind == ".parquet":
        return _write_parquet(path, facts, prefixes)
    count, line = 0, _LINES[kind]
    with atomic_file(path) as file:
        if kind in (".tsv", ".csv"):
            file.write((("\t" if kind == ".tsv" else ",").join(COLUMNS) + "\n").encode())
        for fact in facts:
            text = line(fact, prefixes)
            file.write(text.encode())
            count += bool(text)
    return count


def _tsv(fact: Scored, prefixes: Prefixes) -> str:
    check_writable(fact[:3])
    return "\t".join(fact[:3]) + f"\t{fact[3]:.6g}\n"


def _csv(fact: Scored, prefixes: Prefixes) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow([*fact[:3], f"{fact[3]:.6g}"])  # which quotes both of them
    return line.getvalue()[:-2] + "\n"


def _json(fact: Scored, prefixes: Prefixes) -> str:
    return json.dumps(dict(zip(COLUMNS, fact, strict=True)), ensure_ascii=False) + "\n"


def _statement(fact: Scored, prefixes: Prefixes) -> str:
    terms = [n_triples(label, prefixes) for label in fact[:3]]
    return "" if terms[0].startswith('"') else " ".join(terms)


def _n_triples(fact: Scored, prefixes: Prefixes) -> str:
    statement = _statement(fact, prefixes)
    return statement and f"{statement} .\n"


def _turtle(fact: Scored, prefixes: Prefixes) -> str:
    statement = _statement(fact, prefixes)
    return statement and f"{statement} {{| <{SCHEME}score> {fact[3]:.6f} |}} .\n"


_LINES: dict[str, Callable[[Scored, Prefixes], str]] = {
    ".tsv": _tsv,
    ".csv": _csv,
    ".jsonl": _json,
    ".nt": _n_triples,
    ".ttl": _turtle,
}


def _write_parquet(path: Path, facts: Iterable[Scored], prefixes: Prefixes) -> int:
    try:
        import duckdb
    except ImportError:
        raise SettingsError("writing Parquet needs duckdb; install it with: pip install 'tacit[large]'") from None
    with written(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
            table, draft = Path(scratch) / "facts.jsonl", Path(scratch) / "facts.parquet"
            count = write_scored(table, facts, prefixes)
            columns = dict.fromkeys(COLUMNS[:3], "VARCHAR") | {COLUMNS[3]: "DOUBLE"}
            with duckdb.connect() as database:
                rows = database.read_json(str(table), columns=columns, format="newline_delimited")
                rows.write_parquet(str(draft))
            draft.replace(path)
    return count
