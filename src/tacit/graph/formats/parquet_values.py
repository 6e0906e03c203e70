"""Writes the values of Parquet columns as the texts that are read as quantities."""

from __future__ import annotations

import re

_ZONED = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS")
ARROW = "DURATION in seconds / "  # the type of a column that is a duration by its Arrow schema
VALUES = re.compile(
    rf"DOUBLE|FLOAT|DECIMAL.*|DATE|TIMESTAMP(_S|_MS|_NS)?|{'|'.join(_ZONED)}|INTERVAL|{ARROW}.*"
)


def value_text(column: str, kind: str) -> str:
    """The expression of a cell as text that `Quantity` reads; NULL where it is not finite."""
    if kind in ("DOUBLE", "FLOAT"):
        return f"(CASE WHEN isfinite({column}) THEN {column} END)::VARCHAR"
    if kind.startswith(ARROW):
        unit = int(kind.removeprefix(ARROW))
        size = f"abs({column}::HUGEINT)"
        return (
            f"CASE WHEN {column} < 0 THEN '-' ELSE '' END || 'PT' || "
            f"{_seconds(f'{size} // {unit}', f'{size} % {unit} * {10**9 // unit}')}"
        )
    if kind == "INTERVAL":
        time = f"hour({column}) * 3600 + minute({column}) * 60 + microsecond({column}) // 1000000"
        seconds = _seconds(time, f"microsecond({column}) % 1000000 * 1000")
        date = f"year({column}), month({column}), day({column})"
        return f"format('P{{}}Y{{}}M{{}}DT', {date}) || {seconds}"
    if kind in _ZONED:  # without ICU, which a cast to another zone needs
        column = f"make_timestamp(epoch_us({column}::TIMESTAMPTZ))"
    if kind.startswith(("DATE", "TIMESTAMP")):  # DuckDB writes 45 BC for the year -44
        year = f"CASE WHEN year({column}) < 0 THEN '-' ELSE '' END, abs(year({column}))"
        rest = f"ltrim(replace({column}::VARCHAR, ' (BC)', ''), '0123456789')"
        return (
            f"CASE WHEN NOT isfinite({column}) THEN NULL WHEN year({column}) > 0 "
            f"THEN {column}::VARCHAR ELSE format('{{}}{{:04d}}', {year}) || {rest} END"
        )
    return f"{column}::VARCHAR"


def _seconds(whole: str, nanoseconds: str) -> str:
    """The expression of the seconds of a duration as text."""
    text = f"format('{{}}.{{:09d}}', ({whole})::VARCHAR, ({nanoseconds})::BIGINT)"
    return f"rtrim(rtrim({text}, '0'), '.') || 'S'"
