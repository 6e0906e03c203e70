"""Short labels for IRIs, and the way back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

_WELL_KNOWN = {
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
_LOCAL = re.compile(r"[^/#\s]+")
_DERIVED = 100  # namespaces beyond these many get no prefix of their own: their IRIs stay whole


class Prefixes:
    """Names for namespaces: those a file declares, then the well-known, then derived from the IRIs themselves.

    Each prefix has one namespace and each namespace one prefix, so that a label stands for one IRI. The empty
    prefix gives bare labels. An IRI that has no namespace of its own stays whole, in angle brackets.

    >>> prefixes = Prefixes({"": "http://a.org/"}, ["http://a.org/Oslo", "http://b.org/geo#Oslo"])
    >>> prefixes.label("http://a.org/Oslo"), prefixes.label("http://b.org/geo#Oslo")
    ('Oslo', 'geo:Oslo')
    >>> prefixes.iri("geo:Oslo")
    'http://b.org/geo#Oslo'
    """

    def __init__(self, declared: Mapping[str, str], iris: Iterable[str] = ()) -> None:
        self.namespaces: dict[str, str] = {}
        self._names: dict[str, str] = {}
        for name, namespace in declared.items():
            self._bind(name, namespace)
        used = Counter(namespace for iri in iris if (namespace := _namespace(iri)) != iri)
        for namespace, _ in used.most_common(_DERIVED):
            self._bind(_WELL_KNOWN.get(namespace) or _derived(namespace), namespace)
        # Most namespaces end where the last part of an IRI begins; the others must be tried one by one.
        odd = [n for n in self._names if n[-1:] not in ("/", "#")]
        self._odd = sorted(odd, key=len, reverse=True)

    def _bind(self, name: str, namespace: str) -> None:
        if not namespace or namespace in self._names:
            return
        free, number = name, 1
        while free in self.namespaces:
            number += 1
            free = f"{name or 'ns'}{number}"
        self.namespaces[free] = namespace
        self._names[namespace] = free

    def label(self, iri: str) -> str:
        """The short label of an IRI."""
        cut = max(iri.rfind("/"), iri.rfind("#")) + 1
        name, local = self._names.get(iri[:cut]), iri[cut:]
        if self._odd:
            for namespace in self._odd:
                if iri.startswith(namespace) and _LOCAL.fullmatch(iri, len(namespace)):
                    name, local = self._names[namespace], iri[len(namespace) :]
                    break
        if name and local:
            return f"{name}:{local}"
        return local if name == "" and _bare(local) else f"<{iri}>"

    def iri(self, label: str) -> str | None:
        """The IRI a label stands for, or None where it is none of these prefixes'."""
        if label.startswith("<") and label.endswith(">"):
            return label[1:-1]
        name, colon, local = label.partition(":")
        namespace, local = (self.namespaces.get(name), local) if colon else (self.namespaces.get(""), label)
        return None if namespace is None else namespace + local


def _namespace(iri: str) -> str:
    """An IRI up to its last part: `http://a.org/b#` of `http://a.org/b#c`."""
    cut = max(iri.rfind("/"), iri.rfind("#")) + 1
    return iri[:cut] if cut > iri.find("://") + 3 else ""


def _bare(local: str) -> bool:
    """Whether a local name can go without a prefix: nothing else may look like it."""
    return local != "" and ":" not in local and local[0] not in '<"_'


def _derived(namespace: str) -> str:
    """A prefix from the last word of a namespace: of its path, or else of its host.

    >>> _derived("http://www.example.org/geo/v1.2/"), _derived("https://www.example.org/")
    ('geo', 'example')
    """
    host, _, path = namespace.partition("://")[2].partition("/")
    words = [word for word in re.split(r"[/#]", path) if re.fullmatch(r"[A-Za-z][A-Za-z-]+", word)]
    if words:
        return words[-1].lower()
    parts = [part for part in host.split(":")[0].split(".") if re.fullmatch(r"[A-Za-z][\w-]*", part)]
    return (parts[-2] if len(parts) > 1 else parts[0] if parts else "ns").lower()
