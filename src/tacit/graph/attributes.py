"""Attributes: numbers, dates and durations of entities, apart from the facts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError
from tacit.graph.fact_index import Flags, Floats, Ids, Ints
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.graph.quantities import KINDS, PRECISIONS, Kind, Quantity

Codes = NDArray[np.uint8]
# an entity, an attribute and a value, as ids, with the positions of the precision and the split
VALUE_ROW = np.dtype(
    [("entity", "i4"), ("attribute", "i4"), ("value", "f8"), ("precision", "u1"), ("split", "u1")]
)
Rows = NDArray[np.void]  # of type `VALUE_ROW`
_SORTED_BY = ("attribute", "entity", "value", "precision", "split")
_DECLARED = re.compile(r"(.*\S)\s*\[([^\[\]]+)\]", re.DOTALL)
_BRACKET = re.compile(r"[\[\]]")
# in round brackets, other words may be remarks, as in `population (estimate)`
_IN_UNIT = re.compile(r"(.*\S)\s*\(([^()]+)\)", re.DOTALL)
_UNITS = (
    "mm cm m km ft mi mm2 cm2 m2 km2 mm² cm² m² km² ha acres ml l m3 m³ mg g kg t lb oz ms s min "
    "h K °C °F % ° deg Pa hPa bar J kJ kWh W kW MW V Hz kHz MHz GHz kB MB GB km/h m/s mph "
    "€ $ £ ¥ EUR USD GBP JPY CHF people persons years days hours minutes seconds metres meters "
    "kilometres kilometers"
)


@dataclass(frozen=True)
class Attribute:
    """What a quantity of an entity is called, with its kind and the unit of all its values."""

    name: str
    kind: Kind = "number"
    unit: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            kinds = ", ".join(KINDS)
            raise DataError(f"{self.name} is a '{self.kind}'; an attribute is one of {kinds}")
        if self.unit and (
            self.kind != "number" or self.unit in KINDS or _BRACKET.search(self.unit)
        ):
            raise DataError(
                f"{self.name} is in '{self.unit}'; a unit belongs to numbers, has no brackets and "
                f"is none of {', '.join(KINDS)}"
            )

    @classmethod
    def declared(cls, text: str) -> Attribute | None:
        """The attribute that a name in a table declares, by a kind or unit in brackets.

        >>> Attribute.declared("founded[date]"), Attribute.declared("area (km2)")
        (Attribute(name='founded', kind='date', unit=''), Attribute(name='area', kind='number', \
unit='km2'))
        >>> Attribute.declared("population (estimate)") is None
        True
        """
        match = _DECLARED.fullmatch(text)
        if match is None:
            match = _IN_UNIT.fullmatch(text)
            if match is None or match[2] not in _UNITS.split():
                return None
        name, word = match[1], match[2].strip()
        kind = next((kind for kind in KINDS if kind == word), None)
        return cls(name, kind) if kind else cls(name, unit=word)

    def __str__(self) -> str:
        """The name that declares the attribute."""
        return f"{self.name}[{self.unit or self.kind}]"


@dataclass(frozen=True, eq=False)
class Attributes:
    """The values of all attributes: distinct rows, by attribute, entity, then value.

    An entity may have several values of an attribute. A value is in one split, the first that has
    it, as facts are.

    >>> population = Attribute("population")
    >>> values = Attributes.of([population], [(0, 0, Quantity(68e6), 0), (2, 0, Quantity(47e6), 1)])
    >>> values.column(0)
    (array([0, 2], dtype=int32), array([68000000., 47000000.]))
    >>> len(values), values.column(0, "train")
    (2, (array([0], dtype=int32), array([68000000.])))
    """

    listed: tuple[Attribute, ...] = ()
    rows: Rows = field(default_factory=lambda: np.empty(0, VALUE_ROW))
    # the readable names of attributes
    readable: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        order, fresh = _distinct(self.rows)
        vars(self).update(rows=self.rows[order[fresh]])

    @classmethod
    def of_sorted(
        cls,
        listed: tuple[Attribute, ...],
        rows: Rows,
        readable: Mapping[str, Sequence[str]] | None = None,
    ) -> Attributes:
        """The attributes with rows in order, such as those of a file, which are not read here."""
        attributes = cls.__new__(cls)
        vars(attributes).update(listed=listed, rows=rows, readable=readable or {})
        return attributes

    @classmethod
    def of(
        cls, listed: Sequence[Attribute], values: Iterable[tuple[int, int, Quantity, int]]
    ) -> Attributes:
        """The attributes with `(entity, attribute, quantity, split)` values, all but one as ids.

        A quantity of another kind than its attribute's is an error, and so is one without end.
        """
        rows = []
        for entity, attribute, quantity, split in values:
            if quantity.kind != listed[attribute].kind:
                raise DataError(
                    f"{listed[attribute].name} is a {listed[attribute].kind}, and {quantity} is a "
                    f"{quantity.kind}"
                )
            if not math.isfinite(quantity.value):
                raise DataError(f"{listed[attribute].name} is {quantity.value}; it must be finite")
            precision = PRECISIONS.index(quantity.precision)
            rows.append((entity, attribute, quantity.value, precision, split))
        return cls(tuple(listed), np.array(rows, VALUE_ROW))

    @cached_property
    def names(self) -> Vocabulary:
        """The names of the attributes, by their ids."""
        return Vocabulary(
            (attribute.name for attribute in self.listed), kind="attribute", names=self.readable
        )

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, attribute: int, *splits: str) -> tuple[Ids, Floats]:
        """The entities with values of an attribute in some splits (default: all), and the values.

        They are in the order of entities, and of values where one has several.
        """
        rows = self._rows_of(attribute, splits)
        return rows["entity"], rows["value"]

    def quantities(self, entity: int, attribute: int, *splits: str) -> list[Quantity]:
        """The values of one entity in some splits (default: all), in order."""
        start, end = self._starts[attribute : attribute + 2]
        ends = start + np.searchsorted(
            self._entities[start:end], np.array([entity, entity + 1], np.int32)
        )
        return [self.quantity(row) for row in _in_splits(self.rows[slice(*ends)], splits)]

    def texts(self, attribute: int, *splits: str) -> Iterator[tuple[int, str]]:
        """Yields the values of an attribute in some splits as texts, with their entities."""
        rows = self._rows_of(attribute, splits)
        kind = self.listed[attribute].kind
        columns = (rows[name].tolist() for name in ("entity", "value", "precision"))
        for entity, value, precision in zip(*columns, strict=True):
            yield entity, str(Quantity(value, kind, PRECISIONS[precision]))

    def quantity(self, row: np.void) -> Quantity:
        """The quantity of a row."""
        attribute = self.listed[row["attribute"]]
        precision = PRECISIONS[row["precision"]]
        return Quantity(float(row["value"]), attribute.kind, precision, attribute.unit)

    def where(self, mask: Flags) -> Attributes:
        """The same attributes with the values that a mask over `rows` selects."""
        return self.of_sorted(self.listed, self.rows[mask], self.readable)

    def named(self, names: Mapping[str, Sequence[str]]) -> Attributes:
        """The same attributes with these readable names, of which those of others are dropped."""
        own = {label: names[label] for label in self.names if label in names}
        return self.of_sorted(self.listed, self.rows, own)

    def _rows_of(self, attribute: int, splits: Sequence[str]) -> Rows:
        return _in_splits(self.rows[slice(*self._starts[attribute : attribute + 2])], splits)

    @cached_property
    def _starts(self) -> Ints:
        """Where the rows of each attribute start, and where the last ones end."""
        return np.searchsorted(self.rows["attribute"], np.arange(len(self.listed) + 1))

    @cached_property
    def _entities(self) -> Ids:
        """The entities of all rows, as a column that is searched without copies of it."""
        return self.rows["entity"].copy()


def _in_splits(rows: Rows, splits: Sequence[str]) -> Rows:
    """The rows of some splits, or all of them."""
    if not splits:
        return rows
    from tacit.graph.graph import SPLITS

    return rows[np.isin(rows["split"], [SPLITS.index(split) for split in splits])]


def value_keys(parts: Sequence[Rows]) -> list[Ints]:
    """One integer per row of each part, equal exactly where rows are but for their splits."""
    order, fresh = _distinct(np.concatenate(parts))
    keys = np.empty(len(order), dtype=np.int64)
    keys[order] = np.cumsum(fresh)
    return np.split(keys, np.cumsum([len(part) for part in parts[:-1]]))


def _distinct(rows: Rows) -> tuple[Ints, Flags]:
    """The order of rows, and which of the ordered ones differ from those before in a value."""
    order = np.lexsort([rows[key] for key in reversed(_SORTED_BY)])
    fresh = np.ones(len(rows), dtype=bool)
    for key in _SORTED_BY[:-1]:
        column = rows[key][order]
        same = column[1:] == column[:-1]
        fresh[1:] = same if key == _SORTED_BY[0] else fresh[1:] & same
    np.logical_not(fresh[1:], out=fresh[1:])
    return order, fresh
