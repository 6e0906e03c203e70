"""What the SPARQL endpoint says of itself, where it is asked for nothing else (SPARQL 1.1 Service Description)."""

from __future__ import annotations

from tacit.query.sparql_terms import ANSWER
from tacit.server.sparql_formats import DESCRIPTIONS, RESULTS

_SERVICE = "http://www.w3.org/ns/sparql-service-description#"
_TURTLE = f"""
@prefix sd: <{_SERVICE}> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix formats: <http://www.w3.org/ns/formats/> .
_:service a sd:Service ;
  sd:supportedLanguage sd:SPARQL11Query ;
  sd:resultFormat {", ".join(f"formats:SPARQL_Results_{name}" for name in dict.fromkeys(RESULTS.values()))} ;
  sd:propertyFeature <{ANSWER}score>, <{ANSWER}known> .
<{ANSWER}score> a rdf:Property ;
  rdfs:comment "How far an answer holds, in [0, 1]: the subject is a selected variable."@en .
<{ANSWER}known> a rdf:Property ;
  rdfs:comment "Whether the known facts imply an answer: the subject is a selected variable."@en .
"""


def description(endpoint: str, media_type: str) -> bytes:
    """The service description of an endpoint."""
    from pyoxigraph import BlankNode, NamedNode, RdfFormat, Triple, parse, serialize

    parser = parse(_TURTLE, RdfFormat.TURTLE)
    place = Triple(BlankNode("service"), NamedNode(f"{_SERVICE}endpoint"), NamedNode(endpoint))
    triples = [place, *(quad.triple for quad in parser)]
    written = serialize(triples, format=getattr(RdfFormat, DESCRIPTIONS[media_type]), prefixes=dict(parser.prefixes))
    return bytes(written or b"")
