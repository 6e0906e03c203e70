"""Questions: parsed from the text syntax or SPARQL, and their names resolved in a graph."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import normalize
from urllib.parse import unquote

from tacit.errors import QueryError, UnknownName
from tacit.graph.graph import INVERSE, Graph
from tacit.graph.labels.prefixes import SCHEME
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.query.formula import Query, quoted
from tacit.query.plans.plan import CompiledQuery
from tacit.query.text import is_lone_value, locate, parse

if TYPE_CHECKING:
    from tacit.query.sparql.table_query import TableQuery

_SPARQL = re.compile(
    r"(?:\s|#[^\n]*\n)*(?:PREFIX|BASE|SELECT|ASK|CONSTRUCT|DESCRIBE"
    r"|INSERT|DELETE|LOAD|CLEAR|CREATE|DROP|COPY|MOVE|ADD|WITH)\b",
    re.IGNORECASE,
)


class Column(NamedTuple):
    """A column of SPARQL results: its name, and what it shows of each answer.

    `shows` is `value` for the variable itself, `score`, `known`, `count`, or `expected` for the sum
    of the scores; of solutions that are counted also `distinct`. `label` is the only value that
    VALUES gives the variable, or the variable that is counted, `*` for whole solutions.
    """

    name: str
    shows: str = "value"
    label: str = ""


@dataclass(frozen=True)
class ParsedQuestion:
    """A query, with the limits and filters that SPARQL can put on its answers."""

    query: Query
    limit: int | None = None
    offset: int = 0
    min_score: float = 0.0
    known: bool | None = None  # True for known answers only, False for predicted ones only
    among: tuple[str, ...] | None = None  # the only labels that may be answers
    columns: tuple[Column, ...] = ()  # of SPARQL results
    by_score: bool = False  # whether its rows are ordered by score alone; else known ones go first
    unknown: tuple[UnknownName, ...] = ()  # IRIs of SPARQL that the graph does not have


def is_sparql(text: str) -> bool:
    """Whether a text is SPARQL: of the text syntax only a value alone begins with a word.

    >>> is_sparql("PREFIX : <tacit:> SELECT ?c { :France :borders ?c }")
    True
    >>> is_sparql("?c : borders(France, ?c)"), is_sparql("ask(France)")
    (False, False)
    """
    return _SPARQL.match(text) is not None and not is_lone_value(text)


def parse_question(
    text: str, graph: Graph | None = None, parameters: Mapping[str, str] | None = None
) -> ParsedQuestion | TableQuery:
    """Parses a question in the text syntax or in SPARQL, of which not all is one formula.

    `parameters` are the labels that `$name` stands for in the text syntax; in SPARQL, `$name` is a
    variable.

    >>> one_formula(parse_question("?c : borders($who, ?c)", parameters={"who": "France"})).query
    <?c : borders(France, ?c)>
    >>> parse_question("PREFIX : <tacit:> SELECT ?c { :France :borders ?c } LIMIT 3").limit
    3
    """
    if not isinstance(text, str):
        raise QueryError(f"a question is a text here, not {type(text).__name__}")
    text = text.removeprefix("\ufeff")  # the byte order mark that some editors write
    if not is_sparql(text):
        return ParsedQuestion(parse(text, parameters))
    for name in parameters or {}:
        raise QueryError(
            f"SPARQL takes no parameter '{name}': ${name} is a variable there; use the text syntax",
            parameter=name,
        )
    from tacit.query.sparql.sparql import parse_sparql  # here, since it imports this module

    return parse_sparql(text, graph)


def one_formula(parsed: ParsedQuestion | TableQuery) -> ParsedQuestion:
    """A question that is one formula; an error for any other."""
    if isinstance(parsed, ParsedQuestion):
        return parsed
    raise QueryError(
        "this SPARQL query is no single formula, for which alone this works: it is a table of "
        "answers and known facts (OPTIONAL, VALUES, COUNT(*), paths such as p+, ?p ?o, "
        "rdfs:label), which a question and the endpoint /sparql answer"
    )


def bind(compiled: CompiledQuery, graph: Graph) -> tuple[list[int], list[int]]:
    """Resolves the names of a query to the entity ids and directed relation ids of a graph.

    The ids fill the slots of its plan.

    A name is matched exactly, or else to the only label that is the same but for case, spaces, `_`,
    `-` and the way accents are encoded; `<...>` is an IRI, which stands for the label that the
    graph has for it. One that the graph does not have is an error that points at its place in the
    text, where the question came from a text.

    >>> from tacit.query.plans.compile import compile_query
    >>> from tacit.query.text import parse
    >>> graph = Graph.of([("France", "borders", "Spain")])
    >>> bind(compile_query(parse("?c : Borders(spain, ?c)")), graph)
    ([1], [0])
    >>> bind(compile_query(parse("?c : boarders(Spain, ?c)")), graph)
    Traceback (most recent call last):
    tacit.errors.UnknownName: unknown relation 'boarders' at column 6; did you mean 'borders'?
    """
    return (
        [resolve_name(graph, graph.entities, name, compiled.text) for name in compiled.entities],
        [resolve_name(graph, graph.relations, name, compiled.text) for name in compiled.relations],
    )


def labels_at(
    graph: Graph, entities: Sequence[int], relations: Sequence[int]
) -> tuple[str, ...] | None:
    """The labels of entity and relation ids; None where the graph lacks one of them."""
    try:
        return (*(graph.entities[i] for i in entities), *(graph.relations[i] for i in relations))
    except IndexError:
        return None


def resolve_name(graph: Graph, vocabulary: Vocabulary, name: str, text: str) -> int:
    """The id of a name; an error suggests others, and points at its first use in the text."""
    try:
        return resolve_label(vocabulary, *_label_of(graph, name), name)
    except UnknownName as error:
        iri = name[1:-1] if name.startswith("<") else name if "://" in name else ""
        label = graph.prefixes.label(iri) if iri else ""
        if label in vocabulary or (iri and not error.suggestions):
            error = UnknownName(error.kind, name, vocabulary.nearest(label))
        position = locate(text, vocabulary.kind, name)
        if vocabulary.kind == "relation" and name in graph.attributes.names:
            raise QueryError(
                f"{quoted(name)} is an attribute; its values are compared, as in "
                f"{quoted(name)}(?x) > ...",
                *(position or ()),
            ) from None
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
        if (known := vocabulary.get(name)) is not None:
            return known

    def forward(text: str) -> bool:
        return name.endswith(INVERSE) or not text.endswith(INVERSE)

    texts = [
        text
        for text in vocabulary.spelling.like(name)
        if _normalized(text) == _normalized(name) and forward(text)
    ]
    ids = list(dict.fromkeys(i for text in texts for i in vocabulary.resolve(text)))
    if len(ids) == 1:
        return ids[0]
    if ids:
        raise UnknownName.ambiguous(vocabulary.kind, name, [vocabulary[i] for i in ids])
    # An inverse is nearly always as near as its relation.
    raise UnknownName(vocabulary.kind, name, list(filter(forward, vocabulary.nearest(name, 6)))[:3])


def _normalized(label: str) -> str:
    label = normalize("NFC", label.casefold())  # an accent may be a character of its own
    return " ".join(label.replace("_", " ").replace("-", " ").split())
