"""Reads the labels of tails as numbers, dates and durations, many at once."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.graph.fact_index import Flags, Floats, Ids
from tacit.graph.graph import Graph
from tacit.graph.labels.literal_values import DATATYPES
from tacit.graph.labels.prefixes import Prefixes, literal_of
from tacit.graph.quantities import KINDS, PRECISIONS, Kind, Quantity

# a zero in front makes a code, and more digits are lost in a number
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,14})")
# an exponent without a point or sign may be part of a code, as in 12e4
_DECIMAL = re.compile(
    r"-?(?:0|[1-9][0-9]*)?\.[0-9]+(?:[eE][+-]?[0-9]+)?|-?[1-9][0-9]*[eE][+-][0-9]+"
)
_DATE = re.compile(r"[+-]?[0-9]{4,9}-[0-9][0-9].*", re.DOTALL)
_YEAR = re.compile(r"-?[0-9]{4}")
_DURATION = re.compile(r"-?P[0-9T].*", re.DOTALL)
# codes of labels; years are four digits alone, which are dates where others are, and numbers else
# unless they begin with a zero
_NAME, _DATED, _LASTING, _WHOLES, _YEARS, _EARLY_YEARS, _DECIMALS = range(7)
_CELL = np.dtype([("known", "?"), ("value", "f8"), ("precision", "u1")])
_NONE = (False, 0.0, 0)


def _unquoted(label: str, prefixes: Prefixes) -> tuple[str, Kind | None]:
    """The text of a label, and the kind that it states if it is a literal."""
    parts = literal_of(label, prefixes) if label[:1] == '"' else None
    kind = DATATYPES.get(parts[2]) if parts else None
    return (parts[0], kind) if parts and kind else (label, None)


def _code(label: str, prefixes: Prefixes) -> int:
    """What a label is without being asked for a kind."""
    if _WHOLE.fullmatch(label):
        return _YEARS if _YEAR.fullmatch(label) else _WHOLES
    if _DECIMAL.fullmatch(label):
        return _DECIMALS if math.isfinite(float(label)) else _NAME
    if _YEAR.fullmatch(label):
        return _EARLY_YEARS
    if _DATE.fullmatch(label):
        return _DATED if Quantity.parse(label, "date") else _NAME
    if _DURATION.fullmatch(label):
        return _LASTING if Quantity.parse(label, "duration") else _NAME
    text, kind = _unquoted(label, prefixes)
    if kind is None or Quantity.parse(text, kind) is None:
        return _NAME
    return {"number": _DECIMALS, "date": _DATED, "duration": _LASTING}[kind]


def is_quantity(label: str, prefixes: Prefixes) -> bool:
    """Whether a label may be a number, a date or a duration.

    >>> [is_quantity(label, Prefixes()) for label in ("68000000", "-0.5", "1950-06", "P1Y")]
    [True, True, True, True]
    >>> [is_quantity(label, Prefixes()) for label in ("007", "1,234.5", "1.2.3", "12e4", "nan")]
    [False, False, False, False, False]
    """
    return _code(label, prefixes) != _NAME


def is_whole(label: str) -> bool:
    """Whether a label is a whole number."""
    return _WHOLE.fullmatch(label) is not None


@dataclass(frozen=True)
class TailCodes:
    """What the tails of facts are, by their distinct entities."""

    entities: Ids
    codes: NDArray[np.uint8]

    @classmethod
    def of(cls, graph: Graph, tails: Ids) -> TailCodes:
        """The codes of some tails' labels."""
        entities = np.unique(tails)
        labels = graph.entities.labels
        codes = (_code(labels[id_], graph.prefixes) for id_ in entities.tolist())
        return cls(entities, np.fromiter(codes, np.uint8, len(entities)))

    def kind(self, tails: Ids) -> Kind | None:
        """The one kind that all of some tails have; None where there is none."""
        present = set(np.unique(self._of(tails)).tolist())
        if present <= {_WHOLES, _YEARS, _DECIMALS}:
            return "number"
        if _DATED in present and present <= {_DATED, _YEARS, _EARLY_YEARS}:
            return "date"
        return "duration" if present == {_LASTING} else None

    def are_whole(self, tails: Ids) -> bool:
        """Whether some tails are whole numbers."""
        return bool(np.isin(self._of(tails), [_WHOLES, _YEARS]).all())

    def _of(self, tails: Ids) -> NDArray[np.uint8]:
        return self.codes[np.searchsorted(self.entities, tails)]


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
        distinct, at = np.unique(tails, return_inverse=True)
        labels = (graph.entities.labels[id_] for id_ in distinct.tolist())
        texts = [_unquoted(label, graph.prefixes) for label in labels]
        counts = np.bincount(at, minlength=len(distinct))

        def size(kind: Kind) -> int:
            return int(counts[_read(texts, kind)["known"]].sum())

        chosen: Kind = max(KINDS, key=size) if kind is None else kind
        cells = _read(texts, chosen)[at]
        return cls(chosen, cells["known"], cells["value"], cells["precision"])


def _read(texts: Iterable[tuple[str, Kind | None]], kind: Kind) -> NDArray[np.void]:
    """Each text as a quantity of a kind: whether it is one, its value and its precision."""
    cells = (_cell(text, kind) if stated in (None, kind) else _NONE for text, stated in texts)
    return np.fromiter(cells, _CELL)


def _cell(text: str, kind: Kind) -> tuple[bool, float, int]:
    if kind == "number" and _WHOLE.fullmatch(text):  # the usual case
        return True, float(text), 0
    quantity = Quantity.parse(text, kind)
    if quantity is None:
        return _NONE
    return True, quantity.value, PRECISIONS.index(quantity.precision)
