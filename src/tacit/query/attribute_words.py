"""Attributes as pages and agents are told of them: words, unit, and the range of values."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from tacit.graph.attributes import Attribute
from tacit.graph.graph import SPLITS, Graph
from tacit.graph.quantities import Quantity
from tacit.graph.value_statistics import AttributeStatistics
from tacit.query.terms import quoted
from tacit.query.value_text import has_years, rounded_text, value_text
from tacit.query.wording import in_words


class AttributeWords:
    """Describes the attributes of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.names = graph.attributes.names
        self.attributes = graph.attributes
        self.graph = graph
        self.relations = graph.relations
        self.describe = cache(self._describe)

    def described_at_length(self, statistics: AttributeStatistics) -> dict[str, Any]:
        """The same with statistics, as plain data for JSON."""
        attribute = self.attributes.listed[self.names.id(statistics.name)]
        plain = replace(attribute, unit="")
        ends = {name: getattr(statistics, name) for name in ("lowest", "median", "highest")}
        years = self._has_years(attribute)
        texts = {name: self._value_text(text, attribute, years) for name, text in ends.items()}
        among = self.relations.get(statistics.among) if statistics.among else None
        edges = statistics.edges
        return (
            self.describe(statistics.name)
            | texts
            | {
                "entities": statistics.entities,
                "missing": statistics.missing,
                "among": statistics.among,
                "among_words": "" if among is None else in_words(self.relations.name(among & ~1)),
                "histogram": {
                    "counts": statistics.histogram,
                    "edges": edges,
                    "texts": [rounded_text(edge, plain, years) for edge in edges],
                    "log": statistics.is_log,
                },
            }
        )

    def _has_years(self, attribute: Attribute) -> bool:
        return has_years(self.graph.values(*SPLITS), attribute)

    @staticmethod
    def _value_text(text: str, attribute: Attribute, years: bool) -> str:
        quantity = Quantity.parse(text, attribute.kind) if text else None
        return "" if quantity is None else value_text(replace(quantity, unit=attribute.unit), years)

    def name(self, label: str) -> str:
        """The readable name of an attribute, where unambiguous; else the label."""
        i = self.names.get(label)
        if i is None or self.names.resolve(name := self.names.name(i)) != [i]:
            return label
        return name

    def _describe(self, label: str) -> dict[str, Any]:
        i = self.names.id(label)
        attribute = self.attributes.listed[i]
        _, values = self.attributes.column(i)
        ends = [float(values.min()), float(values.max())] if len(values) else []
        plain = replace(attribute, unit="")
        years = self._has_years(attribute)
        low, high = (rounded_text(end, plain, years) for end in ends) if ends else ("", "")
        text = low if low == high else f"{low} to {high}"
        return {
            "label": label,
            "name": self.names.name(i),
            "text": quoted(self.name(label)),
            "words": in_words(self.name(label)),
            "kind": attribute.kind,
            "unit": attribute.unit,
            "values": len(values),
            "range": f"{text} {attribute.unit}".strip() if ends else "",
        }
