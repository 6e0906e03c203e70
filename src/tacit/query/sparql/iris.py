"""Resolves IRIs and literals of a query to labels of a graph.

A prefixed name is the IRI that the query's own declarations make of it. In a graph that came from
RDF an IRI stands for the label that the graph writes it as, and for no other; so does a literal. In
a graph from tables, whose labels are no IRIs, it stands for the first of these that is a label: the
IRI in angle brackets or as it is, the prefixed form that the query uses (`geo:Oslo`), and its last
part with percent signs decoded, at last whatever its case, spaces, `_` and `-`. In the scheme
`tacit:` everything after the colon is a name in any graph: after `PREFIX : <tacit:>`, `:France` and
`<tacit:New%20York>` are names of entities.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any
from urllib.parse import unquote

from tacit.errors import QueryError, UnknownName
from tacit.graph.attributes import Attribute, Attributes
from tacit.graph.graph import Graph
from tacit.graph.labels.prefixes import SCHEME, WELL_KNOWN, Prefixes
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.query.formula import Variable
from tacit.query.question import resolve_label
from tacit.query.sparql.graph_terms import LABEL, GraphTerms
from tacit.query.sparql.iri_references import resolve_iri
from tacit.query.sparql.source import (
    SparqlText,
    is_literal,
    is_name,
    is_value,
    is_variable,
    kind,
    unwrap,
)
from tacit.query.sparql.tables import Cell
from tacit.query.sparql.terms import RDFS_LABEL, Term, quantity_of
from tacit.query.text import position_of

_NEAR = 0.7  # how alike a prefix must be that may have been meant
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"  # which `a` is short for
_PLAIN = "http://www.w3.org/2001/XMLSchema#string"  # the type of a literal that names none
_NAMED = {"\\": r"\\", '"': r"\"", "\b": r"\b", "\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r"}
# As in labels from RDF, whose literals are those that canonical N-Triples writes.
_ESCAPES = str.maketrans(
    {chr(i): f"\\u{i:04X}" for i in (*range(32), 127, 0xFFFE, 0xFFFF)} | _NAMED
)


class TermLabels:
    """Resolves the terms of a query to labels; without a graph, to the plainest form."""

    def __init__(self, source: SparqlText, prologue: Any, graph: Graph | None) -> None:
        self.source = source
        self.graph = graph
        self.attributes = graph.attributes if graph else Attributes()
        # None unless the graph is from RDF
        self.own_prefixes: Prefixes | None = graph.prefixes if graph and graph.prefixes else None
        # labels of entities and relations that the graph lacks; None for its names and relations
        self.unknown = dict[tuple[str, str], UnknownName | None]()
        self._terms = dict[str, Any]()  # of entities that the graph lacks, by their labels
        # which stand for names by rdfs:label
        self.name_variables = frozenset[str]()
        # which stand for values that formulas compare, and those of them that answers show
        self.value_variables = frozenset[Variable]()
        self.shown_values = frozenset[Variable]()
        self.value_filters = frozenset[int]()  # the ids of filters on them
        self._attributes = dict[str, Attribute | None]()  # by their terms
        self.base = ""
        self.prefixes = dict[str, str]()
        for declared in prologue:
            if declared.name == "Base":
                self.base = self.iri(declared.iri)
            else:
                self.prefixes[declared.prefix or ""] = self.iri(declared.iri)

    def entity(self, term: Any) -> str:
        """The label of an entity, by its IRI or literal; that of an unknown one is its own."""
        return self._known_or_not(term, self.graph.entities if self.graph else None)

    def relation(self, term: Any) -> str:
        """The label of a relation, by its IRI; that of an unknown one is its own."""
        return self._known_or_not(term, self.graph.relations if self.graph else None)

    def attribute(self, term: Any) -> Attribute | None:
        """The attribute that a predicate names, unless a relation has this name; else None."""
        term = unwrap(term)
        if self.graph is None or not self.attributes.listed or not is_name(term):
            return None
        iri = self.iri(term)
        if iri not in self._attributes:
            names = self.attributes.names
            label = self._find_label(term, names)
            relation = self._find_label(term, self.graph.relations) if label else None
            self._attributes[iri] = (
                None if label is None or relation else self.attributes.listed[names.id(label)]
            )
        return self._attributes[iri]

    def _find_label(self, term: Any, vocabulary: Vocabulary) -> str | None:
        try:
            return self._label(term, vocabulary)
        except UnknownName:
            return None

    def own_relation(self, term: Any) -> str | None:
        """The relation that a predicate names in a graph from tables, whose ends are no values."""
        term = unwrap(term)
        if self.graph is None or self.own_prefixes is not None or not is_name(term):
            return None
        return self._find_label(term, self.graph.relations)

    def value(self, variable: str, term: Any) -> str:
        """The label of a value of a variable; a literal may be a name in place of an entity."""
        if variable not in self.name_variables or not is_literal(term):
            return self.entity(term)
        label = self._literal(term)
        if self.own_prefixes is None or self.graph is None or label not in self.graph.entities:
            label = f"{label} "  # as no label ends
            self.unknown["entity", label] = None
            self._terms[label] = term
        return label

    def _known_or_not(self, term: Any, vocabulary: Vocabulary | None) -> str:
        try:
            return self._label(term, vocabulary)
        except UnknownName as error:
            if error.shared or vocabulary is None:
                raise
            label = self._literal(term) or f"<{self.iri(term)}>"
            while label in vocabulary:  # the name of another entity of a table
                label = f"<{label}>"
            if vocabulary.kind == "relation" and not error.suggestions:
                near = self.attributes.names.nearest(label.strip("<>").rpartition(":")[2])
                error = UnknownName(error.kind, error.name, near, *self._position(term))
            is_value = is_literal(term) and self.attributes.listed
            typed = is_value and quantity_of(self.literal_term(term)) is not None
            self.unknown[vocabulary.kind, label] = None if typed else error
            self._terms[label] = term
            return label

    @property
    def missing(self) -> tuple[UnknownName, ...]:
        """The IRIs and literals that are not in the graph, so far as they were looked for."""
        return tuple(error for error in self.unknown.values() if error is not None)

    def cell(self, term: Any, terms: GraphTerms) -> Cell:
        """The cell of a term, by its role in a subject or object; notes one that is unknown."""
        return self.cell_of(self.entity(term), terms)

    def cell_of(self, label: str, terms: GraphTerms) -> Cell:
        """The cell of the label of an entity, which may be a relation's or unknown."""
        if ("entity", label) not in self.unknown:
            return terms.cell(label)
        term = self._terms[label]
        vocabulary = self.graph.relations if self.graph else None
        if is_literal(term):
            literal = self.literal_term(term)
            is_name = self.unknown["entity", label] is None
            return literal._replace(language="") if is_name else literal
        try:
            cell = LABEL if self.is_naming(term) else terms.cell(self._label(term, vocabulary))
        except UnknownName:
            return Term("uri", self.iri(term))
        self.unknown["entity", label] = None  # it is a relation
        return cell

    def predicate(self, term: Any, terms: GraphTerms) -> Cell:
        """The cell of a relation, of `rdfs:label`, or of an unknown IRI."""
        if self.is_naming(term):
            return LABEL
        if (attribute := self.attribute(term)) is not None:
            return terms.cell(attribute.name)
        label = self.relation(term)
        if ("relation", label) not in self.unknown:
            return terms.cell(label)
        return Term("uri", self.iri(term))

    def literal_term(self, term: Any) -> Term:
        """The RDF term of a literal."""
        datatype = ""
        if kind(term) == "literal":
            datatype = self.iri(term.datatype) if term.datatype else ""
        elif is_value(term):
            datatype = str(term.datatype)
        language = (term.lang or "").lower() if kind(term) == "literal" else ""
        return Term("literal", _text(term), language, "" if datatype == _PLAIN else datatype)

    def is_naming(self, predicate: Any) -> bool:
        """Whether a predicate is `rdfs:label`, and the graph has no such relation of its own."""
        predicate = unwrap(predicate)
        if self.graph is None or is_variable(predicate) or kind(predicate) not in ("", "pname"):
            return False
        return self.iri(predicate) == RDFS_LABEL and self.graph.label_of(RDFS_LABEL) is None

    def find_named(self, name: Any) -> list[str]:
        """The labels of the entities with a readable name, in any language."""
        literal = self.literal_term(name)
        if self.graph is None or literal.datatype:
            return []
        terms = GraphTerms(self.graph)
        cells = terms.find_named(literal.value)
        return [self.graph.entities[i] for i in cells if i in terms.entities]

    def iri(self, term: Any) -> str:
        """Expands a prefixed or relative name to an IRI."""
        if kind(term) != "pname":
            return resolve_iri(str(term), self.base)
        prefix = term.prefix or ""
        local = term.localname or ""
        if prefix not in self.prefixes:
            hint = _suggest_declaration(prefix, self.prefixes, self.own_prefixes or {})
            raise QueryError(
                f"the prefix '{prefix}:' is not declared; {hint}",
                *self._position(term),
            )
        return self.prefixes[prefix] + re.sub(r"\\(.)", r"\1", local)

    def _label(self, term: Any, vocabulary: Vocabulary | None) -> str:
        literal = self._literal(term)
        iri = "" if literal else self.iri(term)
        names = [literal, _text(term)] if literal else list(_table_labels(iri, self.prefixes))
        if vocabulary is None:
            return names[-1]
        try:
            if self.own_prefixes is not None:
                label = literal or self.own_prefixes.label(iri)
                if label in vocabulary:
                    return label
                if not iri.startswith(SCHEME):
                    raise UnknownName(
                        vocabulary.kind,
                        iri or literal,
                        _nearest(self.own_prefixes, label, iri, vocabulary),
                    )
            return vocabulary.labels[resolve_label(vocabulary, *names)]
        except UnknownName as error:
            at = self._position(term)
            raise (error.located(*at) if at else error) from None

    def _literal(self, term: Any) -> str:
        """A literal in N-Triples; empty for an IRI."""
        if kind(term) == "literal":
            language = term.lang
            datatype = self.iri(term.datatype) if term.datatype else ""
        elif is_value(term):
            language = ""
            datatype = str(term.datatype)
            if not self.source.is_spelled_out(str(term)):
                written = f'"..."^^<{datatype}>' if self.own_prefixes else '"..."'
                raise QueryError(
                    f"a number that is read as {term} is written otherwise; write it as {written}"
                )
        else:
            return ""
        typed = self.own_prefixes.label(datatype) if self.own_prefixes else f"<{datatype}>"
        suffix = f"^^{typed}" if datatype not in ("", _PLAIN) else ""
        if language:
            suffix = f"@{language.lower()}"
        return f'"{_text(term).translate(_ESCAPES)}"{suffix}'

    def _position(self, term: Any) -> tuple[int, int] | tuple[()]:
        """The line and column of a term's first use, if written as usual."""
        written = [f"<{term}>", str(term), *(["a"] if str(term) == _TYPE else [])]
        if kind(term) == "pname":
            written = [f"{term.prefix or ''}:{term.localname or ''}"]
        elif kind(term) == "literal":
            written = [f"{mark}{_text(term)}{mark}" for mark in "\"'"]
        uses = (
            re.search(rf"(?<![\w?$:.-]){re.escape(text)}(?![\w:-])", self.source.text)
            for text in written
        )
        return next((position_of(self.source.text, use.start()) for use in uses if use), ())


def _suggest_declaration(prefix: str, declared: Mapping[str, str], own: Mapping[str, str]) -> str:
    """Suggests the declaration of a prefix, or a prefix like it, for a message.

    It is the graph's own, else the usual one; names of a graph from tables are in `tacit:`.
    """
    usual = next((namespace for namespace, name in WELL_KNOWN.items() if name == prefix), None)
    namespace = own.get(prefix, usual)
    near = get_close_matches(prefix, [*declared, *own], 1, _NEAR)
    if namespace is None and near:
        (other,) = near
        hint = f"did you mean '{other}:'?"
        is_declared = other in declared
        return hint if is_declared else f"{hint} PREFIX {other}: <{own[other]}> declares that"
    if namespace is None and own:
        return f"PREFIX {prefix}: <...>, with the IRI that it stands for, declares it"
    return f"PREFIX {prefix}: <{namespace or SCHEME}> declares it"


def _table_labels(iri: str, prefixes: Mapping[str, str]) -> Iterator[str]:
    """Yields possible labels of an IRI in a graph from tables, the plainest last."""
    if iri.startswith(SCHEME):
        yield unquote(iri[len(SCHEME) :])
        return
    yield f"<{iri}>"  # first, since an IRI that Tacit has written is one of these
    yield iri
    for prefix, namespace in sorted(prefixes.items(), key=lambda item: -len(item[1])):
        if namespace and iri.startswith(namespace):
            yield (f"{prefix}:" if prefix else "") + iri[len(namespace) :]
    yield unquote(re.split(r"[/#:]", iri)[-1]) or iri


def _text(literal: Any) -> str:
    """The text of a literal, with its escapes resolved."""
    return str(literal.string if kind(literal) == "literal" else literal)


def _nearest(own_prefixes: Prefixes, label: str, iri: str, vocabulary: Vocabulary) -> list[str]:
    """Suggests terms for an unknown one: IRIs, first its last part in the graph's namespaces.

    An inverse relation and a readable name are no terms of SPARQL; a name stands for its IRI.
    """
    last = re.split(r"[/#:]", iri)[-1]
    same = [f"{prefix}:{last}" if prefix else last for prefix in own_prefixes] if iri else []
    near = (
        [name for name in same if name in vocabulary]
        or vocabulary.nearest(label)
        or (vocabulary.nearest(last) if iri else [])
    )
    labels = [vocabulary.labels[i] for text in near for i in vocabulary.resolve(text)]
    terms = [name if name.startswith('"') else own_prefixes.iri(name) for name in labels]
    return [term for term in dict.fromkeys(terms) if term][:3]
