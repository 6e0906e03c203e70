"""Reads large tables and Parquet files through DuckDB, much faster than line by line.

Only regular tables of text are read so, and facts, ids and errors are those of the plain reader.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError
from tacit.graph.builder import Builder, counted
from tacit.graph.formats.arrow_schema import KEY, arrow_durations
from tacit.graph.formats.delimited import (
    COLUMNS,
    SHOWN,
    BadLines,
    is_regular,
    join_words,
    separator_of,
)
from tacit.graph.formats.files import UNPACKED, UNPACKED_A_BYTE, blocks, extension, unpacked
from tacit.graph.formats.parquet_values import ARROW, VALUES, value_text

_Result = TypeVar("_Result")
_TURN = 0.2  # seconds between two checks of the other thread
# limits of a Parquet file
ROWS = 1_000_000
ROWS_A_BYTE = 20
PARQUET = ".parquet"
LARGE = 1 << 25  # bytes of text, about a million lines, from which DuckDB is faster
_UNPACKED_TIMES = 4  # how many times its packed size a text has, about
_LABELS = re.compile(r"VARCHAR|U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|UUID|ENUM.*")
_TAIL = COLUMNS[-1]
# The number of a label is its rank by first occurrence, the head of a fact before its tail.
_NUMBERED = (
    "CREATE TABLE of_{} AS SELECT x, (row_number() OVER (ORDER BY first) - 1)::INTEGER id "
    "FROM (SELECT x, min(place) first FROM ({}) GROUP BY x)"
)
NUMBERING = (
    _NUMBERED.format(
        "e",
        "SELECT h x, 2 * rowid place FROM facts UNION ALL SELECT t x, 2 * rowid + 1 place FROM "
        "facts",
    ),
    _NUMBERED.format("r", "SELECT r x, rowid place FROM facts"),
)
NUMBERS = (
    "SELECT facts.rowid AS place, h.id h, r.id r, t.id t FROM facts JOIN of_e h ON facts.h = h.x "
    "JOIN of_r r ON facts.r = r.x JOIN of_e t ON facts.t = t.x"
)
LABELS = "SELECT x FROM of_{} ORDER BY id"
TEXT = (
    "read_csv(?, compression = ?, delim = ?, skip = ?, header = false, auto_detect = false, quote "
    "= '', escape = '', "
    "new_line = '\\n', columns = {'c0': 'VARCHAR', 'c1': 'VARCHAR', 'c2': 'VARCHAR'}, "
    "hive_partitioning = false)"
)
_SIZES = (
    "SELECT coalesce((SELECT max(num_rows) FROM parquet_file_metadata(?)), 0), "
    "coalesce((SELECT sum(total_uncompressed_size) FROM parquet_metadata(?)), 0)"
)
# with Hive partitioning, a folder named relation=x would override a column
_OF_PARQUET = "read_parquet(?, hive_partitioning = false)"


def add_text(
    path: Path, split: str, builder: Builder, order: Sequence[int], skip: int
) -> int | None:
    """Adds the facts of a large regular text table; returns their number.

    It returns None for a table that the plain reader must read. `order` has the positions of head,
    relation and tail; the first `skip` lines are a header.
    """
    packed = path.suffix == ".gz"
    size = path.stat().st_size * (_UNPACKED_TIMES if packed else 1)
    unknown = unpacked(path) != path and not packed  # a packing that DuckDB does not read
    if size < LARGE or unknown or find_spec("duckdb") is None:
        return None
    separator = separator_of(path)
    lines = _regular_lines(path, separator.encode())
    if lines is None:
        return None
    import duckdb

    try:
        with connected() as connection:
            chosen = ", ".join(
                f"c{position} AS {name}" for name, position in zip("hrt", order, strict=True)
            )
            arguments = [_pattern_of(path), "gzip" if packed else "none", separator, skip]
            connection.execute(f"CREATE TABLE facts AS SELECT {chosen} FROM {TEXT}", arguments)
            coded = _encode_facts(connection)
    except duckdb.Error:  # most likely it is not UTF-8: the plain reader says where
        return None
    if len(coded[2]) != lines - skip:
        return None
    builder.add_coded(*coded[:2], {split: coded[2]})
    return lines - skip


def add_parquet(
    path: Path,
    split: str,
    builder: Builder,
    order: Sequence[int],
    bad: BadLines,
    values: bool = True,
) -> int:
    """Adds the facts of a Parquet file in a given column order; returns their number.

    Tails may be `values`: numbers with fractions, dates and durations.
    """
    with _reading(path) as (connection, available):
        _create_facts(
            connection,
            path,
            [available[at] for at in order],
            dict(zip("hrt", COLUMNS, strict=True)),
            bad,
            values,
        )
        coded = _encode_facts(connection)
    builder.add_coded(*coded[:2], {split: coded[2]})
    return len(coded[2])


def parquet_rows(
    path: Path,
    order: Sequence[int],
    more: Sequence[int],
    bad: BadLines,
    values: bool = True,
) -> Iterator[tuple[int, list[str]]]:
    """Reads head, relation, tail and `more` columns of a Parquet file as numbered rows of texts.

    Tails may be `values`, as in `add_parquet`. A missing text of further columns is empty.
    """
    with _reading(path) as (connection, available):
        columns = [available[at] for at in order]
        roles = dict(zip("hrt", COLUMNS, strict=True))
        further = [available[at] for at in more]
        _create_facts(connection, path, columns, roles, bad, values, further)
        connection.execute("SELECT * FROM facts ORDER BY rowid")
        number = 0
        while rows := connection.fetchmany(10_000):
            for row in rows:
                number += 1
                yield number, list(row)


def parquet_columns(path: Path) -> list[str]:
    """The names of the columns of a Parquet file."""
    with _reading(path) as (_, available):
        return [name for name, _ in available]


def parquet_fields(path: Path, columns: Sequence[str], bad: BadLines) -> Iterator[list[str]]:
    """Reads the columns of a Parquet file as flat lists, block by block."""
    with _reading(path) as (connection, available):
        if len(available) != len(columns):
            number = counted(len(available), "column")
            raise DataError(f"has {number}; expected {len(columns)} ({', '.join(columns)})", path)
        _create_facts(
            connection, path, available, {f"c{i}": column for i, column in enumerate(columns)}, bad
        )
        connection.execute("SELECT * FROM facts ORDER BY rowid")
        while rows := connection.fetchmany(10_000):
            yield [field for row in rows for field in row]


def _encode_facts(connection: Database) -> tuple[list[str], list[str], NDArray[np.int32]]:
    """The distinct labels of the table `facts` in order of occurrence, and its rows as ids."""
    for statement in NUMBERING:
        connection.execute(statement)
    numbers = connection.execute(NUMBERS).fetchnumpy()
    rows = np.empty((len(numbers["place"]), 3), dtype=np.int32)
    for column, name in enumerate("hrt"):
        rows[numbers["place"], column] = numbers[name]  # a join keeps no order
    entities, relations = (
        connection.execute(LABELS.format(kind)).fetchnumpy()["x"].tolist() for kind in "er"
    )
    return entities, relations, rows


def _regular_lines(path: Path, separator: bytes) -> int | None:
    """The number of lines of a table that both readers read alike; else None."""
    lines = 0
    odd = b'\r\0"' if extension(path) == ".csv" else b"\r\0"
    for _, block in blocks(path):
        if any(byte in block for byte in odd) or not is_regular(block, len(COLUMNS), separator[0]):
            return None
        lines += block.count(b"\n")
    return lines


@dataclass(frozen=True)
class Database:
    """A DuckDB connection whose work is done in another thread, so that Ctrl-C ends it.

    In the main thread DuckDB looks for signals itself, and may then wait for its own tasks forever.
    """

    connection: Any
    thread: Executor

    def run(self, work: Callable[[Any], _Result]) -> _Result:
        """Returns the result of some work on the connection."""
        try:
            result = self.thread.submit(work, self.connection)
            # on Windows, Ctrl-C does not end a wait without a timeout
            while not wait([result], _TURN).done:
                pass
        except KeyboardInterrupt:
            # what comes after the work, since an interrupted `submit` does not return the work
            last = self.thread.submit(int)
            while not wait([last], _TURN).done:  # an interrupt before a statement is forgotten
                self.connection.interrupt()
            raise
        return result.result()

    def execute(self, statement: str, arguments: Sequence[Any] = ()) -> Database:
        """Executes a statement; its result is fetched by the methods below."""
        self.run(lambda connection: connection.execute(statement, arguments))
        return self

    def fetchmany(self, size: int) -> list[Any]:
        """The next rows, at most `size`."""
        return self.run(lambda connection: connection.fetchmany(size))

    def fetchall(self) -> list[Any]:
        """All remaining rows."""
        return self.run(lambda connection: connection.fetchall())

    def fetchnumpy(self) -> dict[str, NDArray[Any]]:
        """All remaining rows as columns."""
        return self.run(lambda connection: connection.fetchnumpy())


@contextmanager
def connected() -> Iterator[Database]:
    """Opens a DuckDB in memory that keeps the order of rows; Ctrl-C interrupts it."""
    import duckdb

    config: dict[str, Any] = {
        "preserve_insertion_order": True,
        "temp_directory": tempfile.gettempdir(),
    }
    with duckdb.connect(config=config) as connection, ThreadPoolExecutor(1) as thread:
        database = Database(connection, thread)
        with suppress(duckdb.InvalidInputException):  # a notebook without widgets has no bar
            # also starts the thread, which Ctrl-C must not break into with long work in its queue
            database.execute("SET enable_progress_bar = false")
        yield database


@contextmanager
def _reading(path: Path) -> Iterator[tuple[Database, list[tuple[str, str]]]]:
    """Opens a connection and reads a Parquet schema; problems become a `DataError`.

    A file that holds far more than its size is refused: it may have a million rows and 20 for each
    byte, and unpack to 16 MB and 500 bytes for each.
    """
    if find_spec("duckdb") is None:
        raise DataError(
            "needs duckdb to be read; install it with: pip install 'tacit-kg[large]'", path
        )
    if not path.is_file():
        raise DataError("no such file", path)
    import duckdb

    try:
        with connected() as connection:
            size = path.stat().st_size
            pattern = _pattern_of(path)
            ((rows, bytes_),) = connection.execute(_SIZES, [pattern, pattern]).fetchall()
            if (
                rows > ROWS + ROWS_A_BYTE * size
                or bytes_ > UNPACKED + UNPACKED_A_BYTE[".xz"] * size
            ):
                raise DataError(
                    f"has {rows:,} rows in {size:,} bytes, more than Tacit unpacks; if it is meant "
                    "to, save it as text",
                    path,
                )
            described = connection.execute(
                f"DESCRIBE SELECT * FROM {_OF_PARQUET}", [pattern]
            ).fetchall()
            units = _durations(connection, pattern)
            columns = [
                (name, f"{ARROW}{units[at]}" if at in units and kind == "BIGINT" else kind)
                for at, (name, kind, *_) in enumerate(described)
            ]
            yield connection, columns
    except duckdb.Error as error:
        raise DataError(
            f"cannot be read as Parquet ({' '.join(str(error).split())[:200]})", path
        ) from None


def _durations(connection: Database, pattern: str) -> dict[int, int]:
    """The places of Arrow's durations, which DuckDB reads as integers, with their units."""
    statement = "SELECT value FROM parquet_kv_metadata(?) WHERE key = ?::BLOB"
    found = connection.execute(statement, [pattern, KEY]).fetchall()
    return arrow_durations(bytes(found[0][0])) if found else {}


def _create_facts(
    connection: Database,
    path: Path,
    columns: Sequence[tuple[str, str]],
    roles: Mapping[str, str],
    bad: BadLines,
    values: bool = False,
    further: Sequence[tuple[str, str]] = (),
) -> None:
    """Creates the table `facts` from label columns, named as `roles`; empty labels are bad.

    The tail may hold `values`, of which those that are not finite are bad, too. Cells of `further`
    columns may be empty, and a moment at midnight is a day.
    """
    chosen = []
    for (name, kind), (short, role) in zip(columns, roles.items(), strict=True):
        is_value = values and role == _TAIL and VALUES.fullmatch(kind)
        if not is_value and not _LABELS.fullmatch(kind):
            raise DataError(f"column '{name}' holds {kind}; labels are text or integers", path)
        column = '"{}"'.format(name.replace('"', '""'))
        text = value_text(column, kind) if is_value else f"{column}::VARCHAR"
        chosen.append(f"trim({text}, ' ') AS {short}")
    for place, (name, kind) in enumerate(further):
        if not (VALUES.fullmatch(kind) or _LABELS.fullmatch(kind)):
            raise DataError(f"column '{name}' holds {kind}; expected text, numbers or dates", path)
        column = '"{}"'.format(name.replace('"', '""'))
        text = f"coalesce({value_text(column, kind)}, {column}::VARCHAR, '')"
        if kind.startswith("TIMESTAMP"):
            text = f"replace({text}, ' 00:00:00', '')"
        chosen.append(f"trim({text}, ' ') AS q{place}")
    connection.execute(
        f"CREATE TABLE facts AS SELECT {', '.join(chosen)} FROM {_OF_PARQUET}", [_pattern_of(path)]
    )
    empty = " OR ".join(f"coalesce({short}, '') = ''" for short in roles)
    ((count,),) = connection.execute(f"SELECT count(*) FROM facts WHERE {empty}").fetchall()
    if not count:
        return
    first = (
        f"SELECT rowid, {', '.join(roles)} FROM facts WHERE {empty} ORDER BY rowid LIMIT {SHOWN}"
    )
    for row, *labels in connection.execute(first).fetchall():
        role = next(role for role, label in zip(roles.values(), labels, strict=True) if not label)
        bad.add(row + 1, f"the {role} is empty", f"expected {join_words(tuple(roles.values()))}")
    bad.count = count
    ((rows,),) = connection.execute("SELECT count(*) FROM facts").fetchall()
    bad.good = rows - count
    bad.check()
    connection.execute(
        f"CREATE OR REPLACE TABLE facts AS SELECT * FROM facts WHERE NOT ({empty}) ORDER BY rowid"
    )


def _pattern_of(path: Path) -> str:
    """Escapes a path to a pattern that matches it alone."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))
