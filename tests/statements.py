"""Statements about the facts of a graph, by labels."""

from __future__ import annotations

from tacit.graph.graph import Graph
from tacit.graph.qualifiers import Statement
from tacit.graph.quantities import Quantity

Fact = tuple[str, str, str]
Said = dict[Fact, set[Statement]]


def said(graph: Graph) -> Said:
    """The statements about each fact."""
    e, r = graph.entities, graph.relations
    return {
        (e[h], r[p], e[t]): set(graph.qualifiers.statements(h, p, t))
        for h, p, t in graph.facts().tolist()
    }


def day(text: str) -> Quantity:
    """The date of a text."""
    quantity = Quantity.parse(text, "date")
    assert quantity is not None
    return quantity
