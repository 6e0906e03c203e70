"""Attributes: numbers, dates and durations of entities, apart from the facts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError
from tacit.graph.fact_index import Flags, Floats, Ids
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.graph.quantities import PRECISIONS, Kind, Quantity

Codes = NDArray[np.uint8]
# an entity, an attribute and a value, as ids, with the positions of the precision and the split
VALUE_ROW = np.dtype(
    [("entity", "i4"), ("attribute", "i4"), ("value", "f8"), ("precision", "u1"), ("split", "u1")]
)
Rows = NDArray[np.void]  # of type `VALUE_ROW`


@dataclass(frozen=True)
class Attribute:
    """What a quantity of an entity is called, with its kind and the unit of all its values."""

    name: str
    kind: Kind = "number"
    unit: str = ""


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

    def __post_init__(self) -> None:
        keys = "attribute", "entity", "value", "precision", "split"
        rows = self.rows[np.lexsort([self.rows[key] for key in reversed(keys)])]
        repeated = np.zeros(len(rows), dtype=bool)
        repeated[1:] = np.logical_and.reduce([rows[key][1:] == rows[key][:-1] for key in keys[:-1]])
        vars(self).update(rows=rows[~repeated])

    @classmethod
    def of(
        cls, listed: Sequence[Attribute], values: Iterable[tuple[int, int, Quantity, int]]
    ) -> Attributes:
        """The attributes with `(entity, attribute, quantity, split)` values, all but one as ids.

        A quantity of another kind than its attribute's is an error.
        """
        rows = []
        for entity, attribute, quantity, split in values:
            if quantity.kind != listed[attribute].kind:
                raise DataError(
                    f"{listed[attribute].name} is a {listed[attribute].kind}, and {quantity} is a "
                    f"{quantity.kind}"
                )
            precision = PRECISIONS.index(quantity.precision)
            rows.append((entity, attribute, quantity.value, precision, split))
        return cls(tuple(listed), np.array(rows, VALUE_ROW))

    @cached_property
    def names(self) -> Vocabulary:
        """The names of the attributes, by their ids."""
        return Vocabulary((attribute.name for attribute in self.listed), kind="attribute")

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
        rows = self._rows_of(attribute, splits)
        rows = rows[slice(*np.searchsorted(rows["entity"], [entity, entity + 1]))]
        return [self.quantity(row) for row in rows]

    def quantity(self, row: np.void) -> Quantity:
        """The quantity of a row."""
        attribute = self.listed[row["attribute"]]
        precision = PRECISIONS[row["precision"]]
        return Quantity(float(row["value"]), attribute.kind, precision, attribute.unit)

    def where(self, mask: Flags) -> Attributes:
        """The same attributes with the values that a mask over `rows` selects."""
        return replace(self, rows=self.rows[mask])

    def _rows_of(self, attribute: int, splits: Sequence[str]) -> Rows:
        starts = np.searchsorted(self.rows["attribute"], [attribute, attribute + 1])
        rows = self.rows[slice(*starts)]
        if not splits:
            return rows
        from tacit.graph.graph import SPLITS

        return rows[np.isin(rows["split"], [SPLITS.index(split) for split in splits])]
