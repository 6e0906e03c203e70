"""Resolves the names in a question to the ids of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import normalize
from urllib.parse import unquote

from tacit.errors import UnknownName
from tacit.graph.graph import INVERSE, Graph
from tacit.graph.labels.prefixes import SCHEME
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.query.plans.plan import CompiledQuery
from tacit.query.text.text import locate


def bind(prepared: CompiledQuery, graph: Graph) -> tuple[list[int], list[int]]:
    """Resolves the names of a query to the entity ids and directed relation ids of a graph.

    The ids fill the slots of its plan.

    A name is matched exactly, or else to the only label that is the same but for case, spaces, `_`,
    `-` and the way accents are encoded; `<...>` is an IRI, which stands for the label that the
    graph has for it. One that the graph does not have is an error that points at its place in the
    text, where the question came from a text.

    >>> from tacit.query.plans.compile import compile_query
    >>> from tacit.query.text.text import parse
    >>> graph = Graph.of([("France", "borders", "Spain")])
    >>> bind(compile_query(parse("?c : Borders(spain, ?c)")), graph)
    ([1], [0])
    >>> bind(compile_query(parse("?c : boarders(Spain, ?c)")), graph)
    Traceback (most recent call last):
    tacit.errors.UnknownName: unknown relation 'boarders' at column 6; did you mean 'borders'?
    """
    return (
        [_id(graph, graph.entities, name, prepared.text) for name in prepared.entities],
        [_id(graph, graph.relations, name, prepared.text) for name in prepared.relations],
    )


def labels_at(
    graph: Graph, entities: Sequence[int], relations: Sequence[int]
) -> tuple[str, ...] | None:
    """The labels of entity and relation ids; None where the graph lacks one of them."""
    if (
        max(entities, default=-1) >= graph.num_entities
        or max(relations, default=-1) >= graph.num_relations
    ):
        return None
    return (*(graph.entities[i] for i in entities), *(graph.relations[i] for i in relations))


def _id(graph: Graph, vocabulary: Vocabulary, name: str, text: str) -> int:
    try:
        return resolve_label(vocabulary, *_label_of(graph, name), name)
    except UnknownName as error:
        if name.startswith("<") and not error.suggestions:
            error = UnknownName(
                error.kind, name, vocabulary.nearest(graph.prefixes.label(name[1:-1]))
            )
        position = locate(text, vocabulary.kind, name)
        raise (error.located(*position) if position else error) from None


def _label_of(graph: Graph, name: str) -> list[str]:
    """The name and label of an IRI in angle brackets; empty for any other name."""
    if not (name.startswith("<") and name.endswith(">")):
        return []
    iri = name[1:-1]
    label = unquote(iri[len(SCHEME) :]) if iri.startswith(SCHEME) else graph.label_of(iri)
    return [name, label] if label is not None else []


def resolve_label(vocabulary: Vocabulary, *names: str) -> int:
    """The id of the first name with an exact match, or of the only loose match of the last."""
    for name in names:
        known = vocabulary.get(name)
        if known is not None:
            return known

    def forward(text: str) -> bool:
        return name.endswith(INVERSE) or not text.endswith(INVERSE)

    texts = [
        text
        for text in vocabulary.spelling.like(name)
        if _loosely(text) == _loosely(name) and forward(text)
    ]
    ids = list(dict.fromkeys(i for text in texts for i in vocabulary.resolve(text)))
    if len(ids) == 1:
        return ids[0]
    if ids:
        raise UnknownName.ambiguous(vocabulary.kind, name, [vocabulary[i] for i in ids])
    # An inverse is nearly always as near as its relation.
    raise UnknownName(vocabulary.kind, name, list(filter(forward, vocabulary.nearest(name, 6)))[:3])


def _loosely(label: str) -> str:
    label = normalize("NFC", label.casefold())  # an accent may be a character of its own
    return " ".join(label.replace("_", " ").replace("-", " ").split())
