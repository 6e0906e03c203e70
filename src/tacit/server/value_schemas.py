"""Schemas of values of attributes, in answers and in reasons."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class ValueSchema(BaseModel):
    """A schema whose fields are described by the strings below them."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class QuantityReply(ValueSchema):
    """The value of an attribute: known, or predicted with its interval."""

    attribute: str
    kind: Literal["number", "date", "duration"] | None = None
    unit: str = ""
    value: float | str | None = None
    """A number; a date or a duration as ISO 8601 writes it. Of a prediction, the median."""
    values: list[float | str] = []
    """Known values, where there are several, at most 100."""
    count: int | None = None
    """How many there are."""
    text: str = ""
    """The value as people read it."""
    known: bool = False
    low: float | str | None = None
    """The lower end of a prediction's interval."""
    high: float | str | None = None
    level: float | None = None
    """The share of true values that lie in such intervals."""
    presence: float | None = None
    """How probable it is that the entity has a value at all."""


class ValueReason(ValueSchema):
    """Known values that a prediction was made of."""

    text: str
    attribute: str
    entities: list[str]
    """The names of a few of those with such a value."""
    values: list[float | str]
    """Theirs."""
    relations: list[str]
    """The names of those that lead there; none for another value of the entity itself."""
    number: int
    """How many such entities there are."""
    share: float
    """How much of the prediction they carry, from 0 to 1."""


class EntityValue(QuantityReply):
    """The value of an entity, with what carried a prediction."""

    entity: str
    evidence: list[ValueReason] = []


class ComparedValue(QuantityReply):
    """A value in a comparison, with the entity that has it; without a value where none is there."""

    entity: str
    label: str
    numbers: list[float] = []
    """The known values as they are compared: dates in days, durations in seconds; of a prediction
    the median and both ends of the interval."""


class WitnessComparison(ValueSchema):
    """A comparison in a reason: one value in a range, or the difference of two."""

    values: list[ComparedValue]
    low: float | None
    """The lower end of the range; dates count in days, durations in seconds."""
    high: float | None
    ends: list[str] = []
    """The ends as people read them; empty for none."""
    sign: str = ""
    """The operator between two values; empty for one, or for a range of their difference."""
    score: float
    observed: bool
    """Whether all values are known."""
    negated: bool = False
