"""RDF terms of labels and names, as results and filters show them."""

from __future__ import annotations

import re
from typing import NamedTuple

from tacit.graph.labels.literal_values import datatype, read_literal
from tacit.graph.labels.prefixes import Prefixes, iri_of, is_blank, literal_of
from tacit.graph.quantities import Quantity

RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"})
_CONTROLS = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


class Term(NamedTuple):
    """An RDF term: `kind` is `uri`, `literal` or `bnode`, as in SPARQL's JSON results."""

    kind: str
    value: str
    language: str = ""
    datatype: str = ""

    def __str__(self) -> str:
        return f"_:{self.value}" if self.kind == "bnode" else self.value

    def n_triples(self) -> str:
        """The term in N-Triples.

        >>> Term("literal", 'say "hi"', "en").n_triples()
        '"say \\\\"hi\\\\""@en'
        """
        if self.kind == "uri":
            return f"<{self.value}>"
        if self.kind == "bnode":
            return str(self)
        suffix = f"^^<{self.datatype}>" if self.datatype else ""
        return (
            f'"{self.value.translate(_ESCAPES)}"{f"@{self.language}" * bool(self.language)}{suffix}'
        )


def term_of(label: str, prefixes: Prefixes) -> Term:
    """The RDF term of a label; one that is no RDF term gets the scheme `tacit:`.

    >>> term_of("New York", Prefixes({}))
    Term(kind='uri', value='tacit:New%20York', language='', datatype='')
    >>> str(term_of("geo:Oslo", Prefixes({"geo": "http://example.org/geo/"})))
    'http://example.org/geo/Oslo'
    """
    if is_blank(label, prefixes):
        return Term("bnode", label[2:])
    if literal := literal_of(label, prefixes):
        text, language, datatype = literal
        return Term("literal", _ESCAPE.sub(_character, text), language, datatype)
    return Term("uri", iri_of(label, prefixes))


def quantity_term(quantity: Quantity) -> Term:
    """The literal of a value, whose datatype says its kind, precision or unit.

    >>> quantity_term(Quantity.parse("1950-06", "date"))[1:]
    ('1950-06', '', 'http://www.w3.org/2001/XMLSchema#gYearMonth')
    """
    return Term("literal", str(quantity), datatype=datatype(quantity))


def quantity_of(term: Term) -> Quantity | None:
    """The value that a literal stands for; None of any other term."""
    return read_literal(term.value, term.datatype) if term.datatype else None


def _character(escape: re.Match[str]) -> str:
    """The character an escape of N-Triples stands for."""
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else _CONTROLS.get(escape[3], escape[3])
