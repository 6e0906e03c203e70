"""Comparisons in reasons: the compared values by names, and what was asked of them."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tacit.engine.answers.answer_values import MOST_LISTED, AnswerValue
from tacit.graph.attributes import Attribute
from tacit.query.value_text import SMALLEST, end_text, range_text, sign_of

if TYPE_CHECKING:
    from tacit.engine.atoms.comparisons import Comparisons
    from tacit.engine.search.proofs import Proof
    from tacit.graph.graph import Graph


@dataclass(frozen=True)
class WitnessComparison:
    """A comparison of a witness: the compared values, the range, and whether it holds.

    Of two values the difference is compared. A value is None where it is neither known nor
    predicted.
    """

    entities: tuple[str, ...]
    labels: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    values: tuple[AnswerValue | None, ...] = field(hash=False)
    low: float
    high: float
    score: float
    observed: bool  # whether all values are known
    negated: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data for JSON."""
        values = [
            {"entity": entity, "label": label, "attribute": attribute.name}
            | ({} if value is None else value.to_dict() | {"numbers": _finite(value)})
            for entity, label, attribute, value in zip(
                self.entities, self.labels, self.attributes, self.values, strict=True
            )
        ]
        low, high = (_plain(end) for end in (self.low, self.high))
        limited = self._limited
        return {
            "values": values,
            "low": low,
            "high": high,
            "ends": [end_text(end, limited)[0] for end in (self.low, self.high)],
            "sign": "" if len(self.values) == 1 else sign_of(self.low, self.high),
            "score": self.score,
            "observed": self.observed,
            "negated": self.negated,
        }

    def __str__(self) -> str:
        values = [*map(self._value, range(len(self.values)))]
        if len(values) == 1:
            before, after = range_text(self.low, self.high, self._limited)
            return self._judged(f"{before}{values[0]}{after}")
        if sign := sign_of(self.low, self.high):
            return self._judged(f" {sign} ".join(values))
        low, high = self.low, self.high
        if sum(filter(math.isfinite, (low, high))) < 0:  # positive bounds are read more easily
            values.reverse()
            low, high = -high, -low
        before, after = range_text(low, high, self._limited)
        return self._judged(f"{' less '.join(values)}: {before}the difference{after}")

    @property
    def _limited(self) -> Attribute:
        """The attribute that is in a range, or a difference; dates differ by days."""
        attribute = self.attributes[0]
        if len(self.attributes) == 1:
            return attribute
        is_date = attribute.kind == "date"
        return Attribute("", unit="days") if is_date else replace(attribute, name="")

    def _judged(self, text: str) -> str:
        """A comparison as a text, with what became of it."""
        text = f"{'not ' * self.negated}{text}"
        if None in self.values:
            return f"{text}: no value"
        if not self.observed:
            return f"{text}: {self.score:.2f}"
        holds = "" if self.score or self.negated else ", which is wrong"
        return f"{text}{holds}  known"

    def _value(self, place: int) -> str:
        value = self.values[place]
        named = f"{self.attributes[place].name}({self.entities[place]})"
        if value is None:
            return f"{named} unknown"
        return f"{named} {'=' if value.known else 'predicted'} {value}"


def _finite(value: AnswerValue) -> list[float]:
    numbers = value.numbers[:MOST_LISTED]
    return [min(max(each, -sys.float_info.max), sys.float_info.max) for each in numbers]


def _plain(end: float) -> float | None:
    """An end of a range; None where there is none, and 0 where it is next to 0."""
    if math.isinf(end):
        return None
    return end if abs(end) > SMALLEST else 0.0


def witness_comparison(
    graph: Graph, comparisons: Comparisons, proof: Proof, negated: bool
) -> WitnessComparison:
    """The comparison of a proof by names and values."""
    assert proof.compared is not None
    sides, low, high = proof.compared
    attributes = comparisons.known.attributes
    values = [AnswerValue.of(comparisons, *side) for side in sides]
    if len(values) == 1 and values[0] is not None:  # of several values those that satisfy it
        values = [values[0].selected((low, high), descending=False)]
    return WitnessComparison(
        tuple(graph.entities.name(entity) for _, entity in sides),
        tuple(graph.entities[entity] for _, entity in sides),
        tuple(attributes.listed[attributes.names.id(name)] for name, _ in sides),
        tuple(values),
        low,
        high,
        math.exp(proof.score),
        proof.observed,
        negated,
    )
