"""Values of attributes in answers and reasons: known ones, or predictions with their intervals."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tacit.graph.attributes import Attribute
from tacit.graph.quantities import Quantity
from tacit.query.value_text import predicted_text, value_text

if TYPE_CHECKING:
    from tacit.engine.atoms.comparisons import Comparisons
    from tacit.links.values.predictor import PredictedValue

EVERY_VALUE = -math.inf, math.inf
MOST_LISTED = 100  # known values of one entity in plain data
_SHOWN = 5  # of them in a text
Plain = float | str  # a number; a date or a duration as ISO 8601 writes it


@dataclass(frozen=True)
class AnswerValue:
    """The value of an attribute of an entity: all known ones, or a prediction."""

    attribute: Attribute
    known: tuple[Quantity, ...] = ()
    predicted: PredictedValue | None = field(default=None, hash=False)

    @classmethod
    def of(cls, comparisons: Comparisons, attribute: str, entity: int) -> AnswerValue | None:
        """The value of an entity; None where it has none, known or predicted."""
        attributes = comparisons.known.attributes
        i = attributes.names.id(attribute)
        if known := attributes.quantities(entity, i):
            return cls(attributes.listed[i], tuple(known))
        predicted = comparisons.predicted(attribute, entity)
        return None if predicted is None else cls(attributes.listed[i], (), predicted)

    def selected(self, limits: tuple[float, float], descending: bool) -> AnswerValue:
        """The value by the known ones that a question is about: those in a range, in its order."""
        low, high = limits
        inside = [each for each in self.known if low <= each.value <= high]
        known = sorted(inside or self.known, key=lambda each: each.value, reverse=descending)
        return replace(self, known=tuple(known))

    @property
    def mark(self) -> str:
        """`known` or `predicted`."""
        return "known" if self.known else "predicted"

    def key(self, descending: bool) -> float:
        """What answers are ordered by: the known value that comes first, or the median."""
        if self.predicted is not None:
            return self.predicted.median
        values = [quantity.value for quantity in self.known]
        return max(values) if descending else min(values)

    @property
    def numbers(self) -> tuple[float, ...]:
        """The known values as they are compared, or the median and the interval of a prediction."""
        if self.predicted is not None:
            return self.predicted.median, self.predicted.low, self.predicted.high
        return tuple(quantity.value for quantity in self.known)

    @property
    def plain(self) -> Plain:
        """The first known value, or the median of a prediction."""
        first = self.quantity
        return first.value if first.kind == "number" else str(first)

    @property
    def quantity(self) -> Quantity:
        """The first known value, or the median of a prediction; a date to its day."""
        if self.predicted is None:
            return self.known[0]
        kind = self.attribute.kind
        precision = "day" if kind == "date" else ""
        return Quantity(self.predicted.median, kind, precision, self.attribute.unit)

    @property
    def interval(self) -> tuple[Plain, Plain] | None:
        """The interval of a prediction; None of a known value."""
        if self.predicted is None:
            return None
        low, high = self.predicted.low, self.predicted.high
        return plain_value(low, self.attribute), plain_value(high, self.attribute)

    def __str__(self) -> str:
        if self.predicted is not None:
            ends = self.predicted.low, self.predicted.high
            return predicted_text(self.predicted.median, *ends, self.attribute)
        texts = [value_text(quantity) for quantity in self.known[:_SHOWN]]
        more = len(self.known) - len(texts)
        return " or ".join([*texts, *([f"{more:,} more"] if more else [])])

    def to_dict(self) -> dict[str, Any]:
        """The value as plain data for JSON."""
        data: dict[str, Any] = {
            "attribute": self.attribute.name,
            "kind": self.attribute.kind,
            "unit": self.attribute.unit,
            "value": self.plain,
            "text": str(self),
            "known": bool(self.known),
        }
        if len(self.known) > 1:
            numbers = self.attribute.kind == "number"
            known = self.known[:MOST_LISTED]
            data["values"] = [each.value if numbers else str(each) for each in known]
            data["count"] = len(self.known)
        if self.predicted is not None and self.interval is not None:
            data["low"], data["high"] = self.interval
            data["level"] = self.predicted.level
            data["presence"] = self.predicted.presence
        return data


def order_by_values(
    rows: Sequence[Sequence[AnswerValue | None]], descending: Sequence[bool]
) -> list[int]:
    """The places of answers in the order of their values; those without any come last.

    Equal ones keep their places.
    """
    places = list(range(len(rows)))
    for column, down in reversed(list(enumerate(descending))):

        def key(place: int, column: int = column, down: bool = down) -> tuple[bool, float]:
            value = rows[place][column]
            if value is None:
                return True, 0.0
            return False, -value.key(down) if down else value.key(down)

        places.sort(key=key)
    return places


def plain_value(value: float, attribute: Attribute) -> Plain:
    """A number, or a date or duration as a text."""
    value = min(max(value, -sys.float_info.max), sys.float_info.max)  # JSON has no infinity
    if attribute.kind == "number":
        return value
    precision = "day" if attribute.kind == "date" else ""
    return str(Quantity(value, attribute.kind, precision))
