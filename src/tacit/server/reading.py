"""A question as it is understood, in the forms that people and other programs read."""

from __future__ import annotations

from typing import Any

from tacit.errors import QueryError
from tacit.graph.graph import Graph
from tacit.query.formula import Query
from tacit.query.outline import Group, Step, outline
from tacit.query.reading import read
from tacit.query.sparql_writing import to_sparql
from tacit.query.wording import in_words, sentence


def told(text: str, graph: Graph) -> dict[str, Any]:
    """A question as text, as nested conditions, as a sentence and as SPARQL, or `None` where it cannot be."""
    query = read(text, graph)[0]
    data: dict[str, Any] = {"query": str(query), "outline": None, "undrawable": None, "sentence": None}
    try:
        group = outline(query)
        data |= {"outline": drawn(group, graph), "sentence": sentence(group, lambda label: called(graph, label))}
    except QueryError as error:
        data["undrawable"] = str(error)
    return data | {"sparql": _sparql(query, graph)}


def called(graph: Graph, label: str) -> str:
    """What people call an entity."""
    known = graph.entities.get(label)
    return label if known is None else graph.entities.name(known)


def drawn(part: Group | Step, graph: Graph) -> dict[str, Any]:
    """An outline as plain data, with what people call its entities and relations."""
    if isinstance(part, Group):
        return {"join": part.join, "not": part.denied, "parts": [drawn(each, graph) for each in part.parts]}
    known = graph.relations.get(part.relation)
    words = in_words(part.relation if known is None else graph.relations.name(known))
    step = {"relation": part.relation, "words": words, "inverse": part.inverse, "not": part.denied}
    if isinstance(part.other, Group):
        return step | {"of": drawn(part.other, graph)}
    return step | {"entity": part.other, "name": called(graph, part.other)}


def _sparql(query: Query, graph: Graph) -> str | None:
    try:
        return to_sparql(query, graph.prefixes)
    except QueryError:
        return None
