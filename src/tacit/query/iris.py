"""Which label of a graph an IRI or a literal stands for.

In order: the graph's own short form of the IRI (where the graph came from RDF), the IRI as it is and in angle brackets,
the prefixed form the query uses (`geo:Oslo`), and the local name with percent signs decoded, at last whatever its case,
spaces, `_` and `-`. In the scheme `tacit:` everything after the colon is the label: after `PREFIX : <tacit:>`,
`:France` and `<tacit:New%20York>` name entities of any graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tacit.errors import UnknownName
from tacit.graph.graph import Graph
from tacit.graph.vocabulary import Vocabulary
from tacit.query.names import alike

SCHEME = "tacit:"


@dataclass(frozen=True)
class Labels:
    """Finds labels for RDF terms; without a graph it takes the plainest form."""

    text: str
    prefixes: Mapping[str, str]
    graph: Graph | None

    def entity(self, term: Any) -> str:
        """The label of an entity, by its IRI or literal."""
        return self._label(term, self.graph.entities if self.graph else None)

    def relation(self, term: Any) -> str:
        """The label of a relation, by its IRI."""
        return self._label(term, self.graph.relations if self.graph else None)

    def _label(self, term: Any, vocabulary: Vocabulary | None) -> str:
        names = list(dict.fromkeys(self._candidates(term)))
        if vocabulary is None:
            return names[-1]
        for name in names:
            if name in vocabulary:
                return name
        same, near = alike(vocabulary, names[-1])
        if len(same) == 1:
            return same[0]
        error = UnknownName(vocabulary.kind, names[-1], same or near)
        place = self._place(term)
        raise error.located(*place) if place else error

    def _candidates(self, term: Any) -> Iterator[str]:
        """The labels a term may have, the plainest last."""
        if not hasattr(term, "defrag"):  # a literal, as an RDF file writes it or as it reads
            yield term.n3()
            yield str(term)
            return
        iri = str(term)
        if iri.startswith(SCHEME):
            yield unquote(iri[len(SCHEME) :])
            return
        yield from _prefixed(iri, self.graph.prefixes if self.graph else {})
        yield iri
        yield f"<{iri}>"
        yield from _prefixed(iri, self.prefixes)
        yield unquote(iri[max(iri.rfind("/"), iri.rfind("#"), iri.rfind(":")) + 1 :]) or iri

    def _place(self, term: Any) -> tuple[int, int] | None:
        """Line and column of the first use of a term, whichever way it is written."""
        for form in (f"<{term}>", *_prefixed(str(term), self.prefixes, empty=":"), term.n3(), str(term)):
            at = self.text.find(form)
            if at >= 0:
                return self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)
        return None


def _prefixed(iri: str, prefixes: Mapping[str, str], empty: str = "") -> Iterator[str]:
    """The short forms of an IRI, that of the longest namespace first; the empty prefix is written as `empty`."""
    for prefix, namespace in sorted(prefixes.items(), key=lambda item: -len(item[1])):
        if namespace and iri.startswith(namespace):
            yield (f"{prefix}:" if prefix else empty) + iri[len(namespace) :]
