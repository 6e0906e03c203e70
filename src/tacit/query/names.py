"""From the names in a question to the ids of a graph."""

from __future__ import annotations

from unicodedata import normalize

from tacit.errors import UnknownName
from tacit.graph.graph import INVERSE, Graph
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.query.plans.plan import Prepared
from tacit.query.text.text import locate


def bind(prepared: Prepared, graph: Graph) -> tuple[list[int], list[int]]:
    """The entity ids and directed relation ids that fill the slots of a plan.

    A name is matched exactly, or else to the only label that is the same but for case, spaces, `_`, `-` and the way
    accents are encoded. One that the graph does not have is an error that points at its place in the text, where the
    question came from a text.

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
        [_id(graph.entities, name, prepared.text) for name in prepared.entities],
        [_id(graph.relations, name, prepared.text) for name in prepared.relations],
    )


def _id(vocabulary: Vocabulary, name: str, text: str) -> int:
    try:
        return meant(vocabulary, name)
    except UnknownName as error:
        place = locate(text, vocabulary.kind, name)
        raise (error.located(*place) if place else error) from None


def meant(vocabulary: Vocabulary, *names: str) -> int:
    """The id of the first of some names that has one, or else of the only label that the last is, loosely."""
    for name in names:
        known = vocabulary.get(name)
        if known is not None:
            return known

    def forward(text: str) -> bool:
        return name.endswith(INVERSE) or not text.endswith(INVERSE)

    texts = [text for text in vocabulary.like(name) if _loosely(text) == _loosely(name) and forward(text)]
    ids = list(dict.fromkeys(i for text in texts for i in vocabulary.meant(text)))
    if len(ids) == 1:
        return ids[0]
    same = [vocabulary[i] for i in ids[:3]]
    raise UnknownName(vocabulary.kind, name, same or list(filter(forward, vocabulary.nearest(name))))


def _loosely(label: str) -> str:
    label = normalize("NFC", label.casefold())  # an accent may be a character of its own
    return " ".join(label.replace("_", " ").replace("-", " ").split())
