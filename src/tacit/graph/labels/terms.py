"""RDF terms for labels: their own where they come from RDF, else names in `tacit:`."""

from __future__ import annotations

import re
from urllib.parse import quote

from tacit.errors import DataError
from tacit.graph.labels.prefixes import Prefixes

SCHEME = "tacit:"
_IRI = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?://\[[^]/?#]*\])?"  # brackets are for the numbers of hosts alone
    r"""(?:[^\x00-\x20\x7f-\x9f\ufdd0-\ufdef\ufff0-\uffff<>"{}|^`\\%[\]]|%[0-9A-Fa-f]{2})*"""
)
_LITERAL = re.compile(
    r""""((?:[^"\\\n\r]|\\.)*)"(?:@([A-Za-z]+(?:-[A-Za-z0-9]+)*(?:--(?:ltr|rtl))?)|\^\^(.+))?"""
)
_BLANK = re.compile(r"_:\w(?:[\w.·\u0300-\u036F\u203F-\u2040-]*[\w·\u0300-\u036F\u203F-\u2040-])?")


def literal_of(label: str, prefixes: Prefixes) -> tuple[str, str, str] | None:
    """The quoted text, language and datatype IRI of a literal; None for other labels.

    The text keeps its quotes' escapes.

    Facts from a table may be among those from RDF, and a name of theirs can begin with a quote.

    >>> prefixes = Prefixes({"xsd": "http://www.w3.org/2001/XMLSchema#"})
    >>> literal_of('"Oslo"@nb', prefixes), literal_of('"Weird Al" Yankovic', prefixes)
    (('Oslo', 'nb', ''), None)
    """
    literal = _LITERAL.fullmatch(label) if prefixes else None
    if literal is None:
        return None
    text, language, datatype = literal.groups(default="")
    return text, language, iri_of(datatype, prefixes) if datatype else ""


def is_blank(label: str, prefixes: Prefixes) -> bool:
    """Whether a label is a blank node's."""
    return bool(prefixes) and _BLANK.fullmatch(label) is not None


def iri_of(label: str, prefixes: Prefixes) -> str:
    """The IRI of a label that is no literal and no blank node.

    >>> iri_of("New York", Prefixes({})), iri_of("geo:Oslo", Prefixes({"geo": "http://example.org/geo/"}))
    ('tacit:New%20York', 'http://example.org/geo/Oslo')
    """
    iri = prefixes.iri(label)
    if iri is None or not _IRI.fullmatch(iri):  # a name in angle brackets may be markup
        return SCHEME + quote(label, safe="")
    return iri


def n_triples(label: str, prefixes: Prefixes) -> str:
    """Writes a label as an N-Triples term.

    >>> prefixes = Prefixes({"xsd": "http://www.w3.org/2001/XMLSchema#"})
    >>> n_triples('"1815"^^xsd:gYear', prefixes), n_triples("_:b1", prefixes)
    ('"1815"^^<http://www.w3.org/2001/XMLSchema#gYear>', '_:b1')
    """
    try:
        label.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"label {label!a} has half a surrogate pair, which RDF cannot write; rename it"
        ) from None
    if is_blank(label, prefixes):
        return label
    literal = literal_of(label, prefixes)
    if literal is None:
        return f"<{iri_of(label, prefixes)}>"
    text, _, datatype = literal
    return f'"{text}"^^<{datatype}>' if datatype else label
