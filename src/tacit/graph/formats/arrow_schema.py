"""Finds the durations in the Arrow schema of a Parquet file, which has no such type itself."""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from typing import Any

KEY = "ARROW:schema"  # of the metadata of a Parquet file
UNITS = (1, 1_000, 1_000_000, 1_000_000_000)  # of Arrow's durations: how many make a second
_MILLISECOND = 1
_DURATION = 18  # in Arrow's union of types
_MARKER = b"\xff" * 4  # before the length of a message, since Arrow 0.15


def arrow_durations(packed: bytes) -> dict[int, int]:
    """The places of the columns that are durations, each with its parts of a second.

    `packed` is the schema as Arrow keeps it; one that cannot be read has none.
    """
    try:
        return _durations(base64.b64decode(packed))
    except (struct.error, ValueError, IndexError):
        return {}


def _durations(message: bytes) -> dict[int, int]:
    """Follows Arrow's tables from the message to the types of its fields."""
    schema = _root(message).table(2)
    fields = schema.tables(1) if schema else []
    found = {}
    for place, each in enumerate(fields):
        kind = each.table(3)
        if kind and each.number(2, "<B", 0) == _DURATION:
            found[place] = UNITS[kind.number(0, "<h", _MILLISECOND)]
    return found


def _root(message: bytes) -> _Table:
    """The table that a message begins with, behind its length."""
    start = 8 if message.startswith(_MARKER) else 4
    return _Table(message, start + _read(message, "<I", start))


def _read(data: bytes, form: str, at: int) -> Any:
    """One number at a place, which must not lie before the data."""
    if at < 0:
        raise IndexError(at)
    return struct.unpack_from(form, data, at)[0]


@dataclass(frozen=True)
class _Table:
    """A table of FlatBuffers, whose fields are found by their number."""

    data: bytes
    at: int

    def number(self, field: int, form: str, default: int) -> int:
        """The number in a field."""
        at = self._place(field)
        return int(_read(self.data, form, at)) if at else default

    def table(self, field: int) -> _Table | None:
        """The table that a field refers to."""
        at = self._place(field)
        return _Table(self.data, at + _read(self.data, "<I", at)) if at else None

    def tables(self, field: int) -> list[_Table]:
        """The tables of the vector that a field refers to."""
        if (vector := self.table(field)) is None:
            return []
        places = range(vector.at + 4, vector.at + 4 + 4 * _read(self.data, "<I", vector.at), 4)
        return [_Table(self.data, at + _read(self.data, "<I", at)) for at in places]

    def _place(self, field: int) -> int:
        """Where a field lies; 0 where it has its default."""
        index = self.at - _read(self.data, "<i", self.at)
        entry = 4 + 2 * field
        if entry >= _read(self.data, "<H", index):
            return 0
        offset = _read(self.data, "<H", index + entry)
        return self.at + offset if offset else 0
