"""Reads the labels of tails as numbers, dates and durations, many at once."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.graph.fact_index import Flags, Floats, Ids, distinct
from tacit.graph.graph import Graph
from tacit.graph.labels.literal_values import DATATYPES
from tacit.graph.labels.prefixes import Prefixes, literal_of
from tacit.graph.quantities import KINDS, PRECISIONS, Kind, Quantity

# a zero in front makes a code, and more digits are lost in a number
_WHOLE_TEXT = r"-?(?:0|[1-9][0-9]{0,14})"
# an exponent without a point or sign may be part of a code, as in 12e4
_DECIMAL_TEXT = r"-?(?:0|[1-9][0-9]*)?\.[0-9]+(?:[eE][+-]?[0-9]+)?|-?[1-9][0-9]*[eE][+-][0-9]+"
_WHOLE = re.compile(_WHOLE_TEXT)
_DECIMAL = re.compile(_DECIMAL_TEXT)
_NUMBERS = re.compile(rf"(?:(?:{_WHOLE_TEXT}|{_DECIMAL_TEXT})\n)*")
_DAYS = re.compile(r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}\n)*")
_MOMENTS = re.compile(r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\n)*")
_DATE = re.compile(r"[+-]?[0-9]{4,9}-[0-9][0-9].*", re.DOTALL)
_YEAR = re.compile(r"-?[0-9]{4}")
_DURATION = re.compile(r"-?P[0-9T].*", re.DOTALL)
# codes of labels; years are four digits alone, which are dates where others are, and numbers else
# unless they begin with a zero
_NAME, _DATED, _LASTING, _WHOLES, _YEARS, _EARLY_YEARS, _DECIMALS = range(7)
_CODES = {"number": _DECIMALS, "date": _DATED, "duration": _LASTING}
_BLOCK = 10_000  # labels, which take a few megabytes as text
# a label: its code, or whether it is a value of a kind; the value; the precision
_CELL = np.dtype([("code", "u1"), ("value", "f8"), ("precision", "u1")])
_NONE = (_NAME, 0.0, 0)
Cells = NDArray[np.void]


def is_quantity(label: str, prefixes: Prefixes) -> bool:
    """Whether a label may be a number, a date or a duration.

    >>> [is_quantity(label, Prefixes()) for label in ("68000000", "-0.5", "1950-06", "P1Y")]
    [True, True, True, True]
    >>> [is_quantity(label, Prefixes()) for label in ("007", "1,234.5", "1.2.3", "12e4", "nan")]
    [False, False, False, False, False]
    """
    return _cell(label, prefixes)[0] != _NAME


def is_whole(label: str) -> bool:
    """Whether a label is a whole number."""
    return _WHOLE.fullmatch(label) is not None


@dataclass(frozen=True)
class TailValues:
    """The values of facts' tails, of one kind; those that are not `known` are none."""

    kind: Kind
    known: Flags
    values: Floats
    precisions: NDArray[np.uint8]

    @classmethod
    def of(cls, graph: Graph, tails: Ids, kind: Kind | None = None) -> TailValues:
        """The values of some tails' labels; the kind is that of most, where it is open."""
        if kind is None:
            read = [cls.of(graph, tails, each) for each in KINDS]
            return max(read, key=lambda values: np.count_nonzero(values.known))
        entities, cells = _cells_of(graph, tails, kind)
        cells = cells[np.searchsorted(entities, tails)]
        return cls(kind, cells["code"] != _NAME, cells["value"], cells["precision"])


@dataclass(frozen=True)
class TailCodes:
    """What the tails of facts are without being asked for a kind, by their distinct entities."""

    entities: Ids
    cells: Cells

    @classmethod
    def of(cls, graph: Graph, tails: Ids) -> TailCodes:
        """The codes of some tails' labels."""
        return cls(*_cells_of(graph, tails))

    def kind(self, tails: Ids) -> Kind | None:
        """The one kind that all of some tails have; None where there is none."""
        present = set(np.flatnonzero(np.bincount(self._of(tails)["code"])).tolist())
        if present <= {_WHOLES, _YEARS, _DECIMALS}:
            return "number"
        if _DATED in present and present <= {_DATED, _YEARS, _EARLY_YEARS}:
            return "date"
        return "duration" if present == {_LASTING} else None

    def are_whole(self, tails: Ids) -> bool:
        """Whether some tails are whole numbers."""
        return bool(np.isin(self._of(tails)["code"], [_WHOLES, _YEARS]).all())

    def values(self, tails: Ids, kind: Kind) -> TailValues:
        """The values of tails of which all are of a kind."""
        cells = self._of(tails).copy()
        if kind == "date":
            years = np.isin(cells["code"], [_YEARS, _EARLY_YEARS])
            start = (cells["value"][years].astype(int) - 1970).astype("datetime64[Y]")
            cells["value"][years] = start.astype("datetime64[D]").astype(int)
            cells["precision"][years] = PRECISIONS.index("year")
        known = np.ones(len(tails), dtype=bool)
        return TailValues(kind, known, cells["value"], cells["precision"])

    def _of(self, tails: Ids) -> Cells:
        cells: Cells = self.cells[np.searchsorted(self.entities, tails)]
        return cells


def _cells_of(graph: Graph, tails: Ids, kind: Kind | None = None) -> tuple[Ids, Cells]:
    """The distinct tails, and what each is, or what it is as a quantity of a kind."""
    entities = distinct(tails.astype(np.int64), below=max(graph.num_entities, 1)).astype(np.int32)
    labels = graph.entities.labels
    blocks = [np.empty(0, _CELL)]
    for start in range(0, len(entities), _BLOCK):
        block = [labels[id_] for id_ in entities[start : start + _BLOCK].tolist()]
        cells = _number_cells(block) if kind in (None, "number") else None
        if cells is None and kind in (None, "date"):
            cells = _date_cells(block)
        if cells is None:
            read = (
                _cell(label, graph.prefixes) if kind is None else _cell_of(label, graph, kind)
                for label in block
            )
            cells = np.fromiter(read, _CELL, len(block))
        blocks.append(cells)
    return entities, np.concatenate(blocks)


def _number_cells(labels: Sequence[str]) -> Cells | None:
    """The cells of labels that all are numbers, several times faster than one by one."""
    text = "\n".join(labels) + "\n"
    if _NUMBERS.fullmatch(text) is None or text.count("\n") != len(labels):
        return None
    values = np.fromstring(text, sep="\n")
    if len(values) != len(labels) or not np.isfinite(values).all():
        return None
    cells = np.zeros(len(labels), _CELL)
    fractions = ("." in label or "e" in label or "E" in label for label in labels)
    is_decimal = np.fromiter(fractions, bool, len(labels))
    is_year = (np.abs(values) >= 1000) & (np.abs(values) < 10_000)
    cells["code"] = np.where(is_decimal, _DECIMALS, np.where(is_year, _YEARS, _WHOLES))
    cells["value"] = values
    return cells


def _date_cells(labels: Sequence[str]) -> Cells | None:
    """The cells of labels that all are days, or moments in UTC, many times faster than one by one.

    It is None for labels of which some are neither.
    """
    text = "\n".join(labels) + "\n"
    are_days = _DAYS.fullmatch(text) is not None
    if not are_days and _MOMENTS.fullmatch(text) is None:
        return None
    try:
        moments = np.array(text.replace("Z", "").split("\n")[:-1], "datetime64[s]").astype(int)
    except ValueError:  # a month 00 or 13, or the like
        return None
    cells = np.zeros(len(labels), _CELL)
    days, seconds = np.divmod(moments, 86_400)
    cells["code"] = _DATED
    cells["value"] = days + seconds / 86_400
    cells["precision"] = PRECISIONS.index("day" if are_days else "second")
    return cells


def _cell(label: str, prefixes: Prefixes) -> tuple[int, float, int]:
    """What a label is without being asked for a kind."""
    if _WHOLE.fullmatch(label):
        return (_YEARS if _YEAR.fullmatch(label) else _WHOLES), float(label), 0
    if _DECIMAL.fullmatch(label):
        number = float(label)
        return (_DECIMALS, number, 0) if math.isfinite(number) else _NONE
    if _YEAR.fullmatch(label):
        return _EARLY_YEARS, float(label), 0
    kind: Kind | None = "duration" if _DURATION.fullmatch(label) else None
    if _DATE.fullmatch(label):
        kind = "date"
    text, stated = _unquoted(label, prefixes)
    kind = stated or kind
    quantity = Quantity.parse(text, kind) if kind else None
    return _NONE if quantity is None else (_CODES[quantity.kind], *_parts(quantity))


def _cell_of(label: str, graph: Graph, kind: Kind) -> tuple[int, float, int]:
    """A label as a quantity of a kind."""
    text, stated = _unquoted(label, graph.prefixes)
    quantity = Quantity.parse(text, kind) if stated in (None, kind) else None
    return _NONE if quantity is None else (_CODES[kind], *_parts(quantity))


def _parts(quantity: Quantity) -> tuple[float, int]:
    return quantity.value, PRECISIONS.index(quantity.precision)


def _unquoted(label: str, prefixes: Prefixes) -> tuple[str, Kind | None]:
    """The text of a label, and the kind that it states if it is a literal."""
    parts = literal_of(label, prefixes) if label[:1] == '"' else None
    kind = DATATYPES.get(parts[2]) if parts else None
    return (parts[0], kind) if parts and kind else (label, None)
