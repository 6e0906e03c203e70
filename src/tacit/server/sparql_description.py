"""What the SPARQL endpoint says of itself, where it is asked for nothing else."""

from __future__ import annotations

from tacit.query.sparql_terms import ANSWER
from tacit.server.sparql_formats import DESCRIPTIONS, RESULTS

_SERVICE = "http://www.w3.org/ns/sparql-service-description#"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_FORMATS = "http://www.w3.org/ns/formats/SPARQL_Results_"
_TOLD = {
    "score": "How far an answer holds, in [0, 1]: the subject is a selected variable.",
    "known": "Whether the known facts imply an answer: the subject is a selected variable.",
}


def description(endpoint: str, media_type: str) -> bytes:
    """The service description of an endpoint (SPARQL 1.1 Service Description)."""
    from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, Triple, serialize

    def said(subject: NamedNode | BlankNode, predicate: str, value: NamedNode | BlankNode | Literal) -> Triple:
        return Triple(subject, NamedNode(predicate), value)

    service = BlankNode("service")
    triples = [
        said(service, f"{_RDF}type", NamedNode(f"{_SERVICE}Service")),
        said(service, f"{_SERVICE}endpoint", NamedNode(endpoint)),
        said(service, f"{_SERVICE}supportedLanguage", NamedNode(f"{_SERVICE}SPARQL11Query")),
    ]
    formats = dict.fromkeys(RESULTS.values())
    triples += [said(service, f"{_SERVICE}resultFormat", NamedNode(_FORMATS + name)) for name in formats]
    for name, words in _TOLD.items():
        told = NamedNode(ANSWER + name)
        triples.append(said(service, f"{_SERVICE}propertyFeature", told))
        triples.append(said(told, f"{_RDF}type", NamedNode(f"{_RDF}Property")))
        triples.append(said(told, f"{_RDFS}comment", Literal(words, language="en")))
    prefixes = {"sd": _SERVICE, "rdf": _RDF, "rdfs": _RDFS, "formats": "http://www.w3.org/ns/formats/"}
    written = serialize(triples, format=getattr(RdfFormat, DESCRIPTIONS[media_type]), prefixes=prefixes)
    return bytes(written or b"")
