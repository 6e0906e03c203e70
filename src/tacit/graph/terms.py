"""Labels as RDF terms: their own where the graph came from RDF, else names in the scheme `tacit:`."""

from __future__ import annotations

import re
from urllib.parse import quote

from tacit.errors import DataError
from tacit.graph.prefixes import Prefixes

SCHEME = "tacit:"
_IRI = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*""")


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
    """A label as N-Triples writes its term.

    >>> prefixes = Prefixes({"xsd": "http://www.w3.org/2001/XMLSchema#"})
    >>> n_triples('"1815"^^xsd:gYear', prefixes), n_triples("_:b1", prefixes)
    ('"1815"^^<http://www.w3.org/2001/XMLSchema#gYear>', '_:b1')
    """
    try:
        label.encode()
    except UnicodeEncodeError:
        raise DataError(f"label {label!a} has half a surrogate pair, which RDF cannot write; rename it") from None
    if prefixes and label.startswith("_:"):
        return label
    if prefixes and label.startswith('"'):
        end = label.rindex('"') + 1  # what it quotes may look like a datatype
        text, mark = label[:end], label[end:]
        return f"{text}^^<{iri_of(mark[2:], prefixes)}>" if mark.startswith("^^") else label
    return f"<{iri_of(label, prefixes)}>"
