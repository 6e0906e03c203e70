"""Attributes as pages and agents are told of them: words, unit, and the range of values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

from tacit.graph.graph import Graph
from tacit.query.terms import quoted
from tacit.query.value_text import rounded_text
from tacit.query.wording import in_words


class AttributeWords:
    """Describes the attributes of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.names = graph.attributes.names
        self.attributes = graph.attributes
        self.describe = cache(self._describe)

    def described(self, labels: Iterable[str]) -> list[dict[str, Any]]:
        """Describes attributes by their labels."""
        return [self.describe(label) for label in labels]

    def name(self, label: str) -> str:
        """The readable name of an attribute, where unambiguous; one of another graph keeps its own."""
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
        low, high = (rounded_text(end, plain) for end in ends) if ends else ("", "")
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
