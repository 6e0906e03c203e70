"""Short labels for IRIs and the way back, and the RDF terms of all labels."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

from tacit.errors import DataError

WELL_KNOWN = {
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf",
    "http://www.w3.org/2000/01/rdf-schema#": "rdfs",
    "http://www.w3.org/2002/07/owl#": "owl",
    "http://www.w3.org/2001/XMLSchema#": "xsd",
    "http://www.w3.org/2004/02/skos/core#": "skos",
    "http://xmlns.com/foaf/0.1/": "foaf",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://purl.org/dc/terms/": "dcterms",
    "http://schema.org/": "schema",
    "http://dbpedia.org/resource/": "dbr",
    "http://dbpedia.org/ontology/": "dbo",
    "http://www.wikidata.org/entity/": "wd",
    "http://www.wikidata.org/prop/direct/": "wdt",
}
_NAME = re.compile(r"[^\W\d_][\w.-]*")  # `_` is for blank nodes
_LOCAL = re.compile(r"[^/#\s]+")
_DERIVED = 100  # namespaces that get a prefix of their own; other IRIs stay whole

SCHEME = "tacit:"
_IRI = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?://\[[^]/?#]*\])?"  # only an IPv6 host has brackets
    r"""(?:[^\x00-\x20\x7f-\x9f\ufdd0-\ufdef\ufff0-\uffff<>"{}|^`\\%[\]]|%[0-9A-Fa-f]{2})*"""
)
_LITERAL = re.compile(
    r""""((?:[^"\\\n\r]|\\.)*)"(?:@([A-Za-z]+(?:-[A-Za-z0-9]+)*(?:--(?:ltr|rtl))?)|\^\^(.+))?"""
)
_BLANK = re.compile(r"_:\w(?:[\w.·\u0300-\u036F\u203F-\u2040-]*[\w·\u0300-\u036F\u203F-\u2040-])?")


class Prefixes(Mapping[str, str]):
    """Short labels for IRIs and the way back: prefixes and their namespaces.

    Declared prefixes come first, then well-known ones, then some derived from the IRIs.
    Each prefix has one namespace and each namespace one prefix. The empty prefix gives bare labels;
    an IRI without a prefix stays whole, in angle brackets. So every IRI has one label, and
    `iri(label)` is the IRI of a label, or None: `iri(label(x)) == x`, and `label(iri(y)) == y`
    unless `iri(y)` is None.

    >>> prefixes = Prefixes({"": "http://a.org/"}, ["http://a.org/Oslo", "http://b.org/geo#Oslo"])
    >>> prefixes.label("http://a.org/Oslo"), prefixes.label("http://b.org/geo#Oslo")
    ('Oslo', 'geo:Oslo')
    >>> prefixes.iri("geo:Oslo"), prefixes.iri("nobody:Oslo")
    ('http://b.org/geo#Oslo', None)
    """

    def __init__(self, declared: Mapping[str, str] | None = None, iris: Iterable[str] = ()) -> None:
        self._namespaces: dict[str, str] = {}
        self._names: dict[str, str] = {}
        for name, namespace in (declared or {}).items():
            self._bind(name, namespace)
        used = Counter(
            iri[: max(iri.rfind("/"), iri.rfind("#")) + 1]
            for iri in iris
            if iri[-1:] not in ("/", "#")
        )
        hosted = [namespace for namespace, _ in used.most_common() if not namespace.endswith("://")]
        for namespace in hosted[:_DERIVED]:
            self._bind(WELL_KNOWN.get(namespace) or _derived(namespace), namespace)
        # Most namespaces end before the last part of an IRI; others are tried one by one.
        odd = [n for n in self._names if n[-1:] not in ("/", "#")]
        self._odd = sorted(odd, key=len, reverse=True)

    def __getitem__(self, name: str) -> str:
        return self._namespaces[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._namespaces)

    def __len__(self) -> int:
        return len(self._namespaces)

    def __repr__(self) -> str:
        return f"Prefixes({self._namespaces})"

    def _bind(self, name: str, namespace: str) -> None:
        if not namespace or namespace in self._names:
            return
        if name and not _NAME.fullmatch(name):
            name = _derived(namespace)
        free = name
        number = 1
        while free in self._namespaces:
            number += 1
            free = f"{name or 'ns'}{number}"
        self._namespaces[free] = namespace
        self._names[namespace] = free

    def joined(self, others: Mapping[str, str]) -> Prefixes:
        """Adds the namespaces of others, renaming taken prefixes; none becomes the empty one."""
        joined = Prefixes(self)
        for name, namespace in others.items():
            joined._bind(name or _derived(namespace), namespace)
        return Prefixes(joined._namespaces)

    def label(self, iri: str) -> str:
        """The short label of an IRI."""
        cut = max(iri.rfind("/"), iri.rfind("#")) + 1  # where the last part begins
        name = self._names.get(iri[:cut])
        local = iri[cut:]
        for namespace in self._odd:
            if iri.startswith(namespace) and _LOCAL.fullmatch(iri, len(namespace)):
                name = self._names[namespace]
                local = iri[len(namespace) :]
                break
        if not local or "^" in local:  # labels of inverses have this letter
            return f"<{iri}>"
        if name:
            return f"{name}:{local}"
        # a bare label must not look like another kind of term
        bare = name == "" and ":" not in local and local[0] not in '<"_'
        return local if bare else f"<{iri}>"

    def iri(self, label: str) -> str | None:
        """The IRI of a short label; None for other labels."""
        name, colon, local = label.partition(":")
        if label.startswith("<") and label.endswith(">"):
            iri = label[1:-1]
        elif (namespace := self._namespaces.get(name if colon else "")) is not None:
            iri = namespace + (local if colon else label)
        else:
            return None
        return iri if self.label(iri) == label else None


def _derived(namespace: str) -> str:
    """Derives a prefix from the last word of a namespace's path, or else of its host.

    >>> _derived("http://www.example.org/geo/v1.2/"), _derived("https://www.example.org/")
    ('geo', 'example')
    """
    host, _, path = namespace.partition("://")[2].partition("/")
    words = [word for word in re.split(r"[/#]", path) if re.fullmatch(r"[A-Za-z][A-Za-z-]+", word)]
    if words:
        return words[-1].lower()
    parts = [
        part for part in host.split(":")[0].split(".") if re.fullmatch(r"[A-Za-z][\w-]*", part)
    ]
    return (parts[-2] if len(parts) > 1 else parts[0] if parts else "ns").lower()


def literal_of(label: str, prefixes: Prefixes) -> tuple[str, str, str] | None:
    """The quoted text, language and datatype IRI of a literal; None for other labels.

    The text keeps its escapes. A name from a table may begin with a quote too.

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

    >>> iri_of("New York", Prefixes({}))
    'tacit:New%20York'
    >>> iri_of("geo:Oslo", Prefixes({"geo": "http://example.org/geo/"}))
    'http://example.org/geo/Oslo'
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


def source_term(source: str, prefixes: Prefixes) -> str:
    """Writes the source of a fact as an N-Triples term: an IRI where it is one, or else a text.

    >>> prefixes = Prefixes({"w": "http://w.org/"})
    >>> source_term("w:Q52", prefixes), source_term("Wikipedia", prefixes)
    ('<http://w.org/Q52>', '"Wikipedia"')
    """
    iri = prefixes.iri(source)
    if iri is not None and _IRI.fullmatch(iri):
        return f"<{iri}>"
    text = source[1:-1] if len(source) > 2 and source[0] == source[-1] == '"' else source
    return json.dumps(text, ensure_ascii=False)


def source_label(term: str, prefixes: Prefixes) -> str:
    """The source that a term of `source_term` is; a text that looks like an IRI's label is quoted.

    >>> source_label('"w:Q52"', Prefixes({"w": "http://w.org/"}))
    '"w:Q52"'
    """
    if term.startswith("<"):
        return prefixes.label(term[1:-1])
    text = str(json.loads(term))
    is_plain = source_term(text, prefixes) == json.dumps(text, ensure_ascii=False)
    return text if is_plain else f'"{text}"'


def relabelled_source(source: str, before: Prefixes, prefixes: Prefixes) -> str:
    """The source of a fact under other prefixes."""
    return source_label(source_term(source, before), prefixes)
