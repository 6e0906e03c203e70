"""Requests of the SPARQL 1.1 protocol, and the service description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import Response

from tacit.query.sparql.answer_properties import ANSWER
from tacit.server import schemas
from tacit.server.routes import RequestedService
from tacit.server.schemas import ErrorReply
from tacit.server.service import Service
from tacit.server.sparql_results import DESCRIPTIONS, DOUBLE, JSON, RESULTS, negotiate
from tacit.server.workers.jobs import Job, Reply

routes = APIRouter()
FORM = "application/x-www-form-urlencoded"
DIRECT = "application/sparql-query"
MAX_FIELDS = 20
_FORMAT = ("format", "output", "results")  # fields that clients use
_REFUSED = dict.fromkeys(
    ("default-graph-uri", "named-graph-uri"), "there is one graph, which needs no name"
) | dict.fromkeys(("using-graph-uri", "using-named-graph-uri", "update"), "nothing can be changed")

# The SPARQL 1.1 Service Description, the reply to a request without a query.
_SERVICE = "http://www.w3.org/ns/sparql-service-description#"
_FORMATS = ", ".join(f"formats:SPARQL_Results_{name}" for name in dict.fromkeys(RESULTS.values()))
_LANGUAGE = (
    "SELECT and ASK of SPARQL 1.1 Query: triple patterns, property paths but for negated ones, "
    "groups, UNION, OPTIONAL, MINUS, VALUES, FILTER of EXISTS, on terms and on numbers, dates and "
    "durations, ORDER BY of such values, COUNT, LIMIT and OFFSET, and other names of variables by "
    "BIND and AS. Not CONSTRUCT, DESCRIBE, other BIND, computed columns, sub-queries, "
    "GROUP BY, other aggregates, arithmetic, functions of dates, ORDER BY of other terms, GRAPH, "
    "FROM, SERVICE and updates. OPTIONAL, the paths ?, * and +, rdfs:label and a "
    "variable in place of a relation find known facts alone. A date in a filter stands for its "
    "whole period."
)
_TURTLE = f"""
@prefix sd: <{_SERVICE}> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix formats: <http://www.w3.org/ns/formats/> .
_:service a sd:Service ;
  sd:supportedLanguage <{ANSWER}language> ;
  sd:resultFormat {_FORMATS} ;
  sd:propertyFeature <{ANSWER}score>, <{ANSWER}known> .
<{ANSWER}language> a sd:Language ;
  rdfs:comment "{_LANGUAGE}"@en .
<{ANSWER}score> a rdf:Property ;
  rdfs:comment "How far an answer holds, in [0, 1]: the subject is a selected variable."@en .
<{ANSWER}known> a rdf:Property ;
  rdfs:comment "Whether the known facts imply an answer: the subject is a selected variable."@en .
"""


class SparqlRequest(NamedTuple):
    """A protocol request: its query, None for the service description, and the media type."""

    query: str | None
    media_type: str
    endpoint: str

    def description(self) -> Reply:
        """The service description."""
        from pyoxigraph import BlankNode, NamedNode, RdfFormat, Triple, parse, serialize

        parser = parse(_TURTLE, RdfFormat.TURTLE)
        format = getattr(RdfFormat, DESCRIPTIONS[self.media_type])
        place = Triple(
            BlankNode("service"), NamedNode(f"{_SERVICE}endpoint"), NamedNode(self.endpoint)
        )
        triples = [place, *(quad.triple for quad in parser)]
        written = serialize(triples, format=format, prefixes=dict(parser.prefixes))
        return Reply(200, bytes(written or b""), self.media_type)


async def parse_request(request: Request) -> SparqlRequest:
    """The request by the protocol; unsupported fields are refused, not ignored."""
    fields = [*request.query_params.multi_items(), *(await _form(request))]
    for name, why in _REFUSED.items():
        if any(field == name for field, _ in fields):
            raise HTTPException(400, f"'{name}' is not supported: {why}")
    queries = [value for field, value in fields if field == "query"]
    if len(queries) > 1:
        raise HTTPException(400, f"the request has {len(queries)} queries; send one at a time")
    if not queries and request.method == "POST":
        raise HTTPException(
            400, f"the form has no field 'query' with the SPARQL query, nor is it sent as {DIRECT}"
        )
    media_types: Sequence[str] = list(RESULTS if queries else DESCRIPTIONS)
    accepted = ", ".join(request.headers.getlist("accept"))
    media_type = negotiate(
        accepted, [value for field, value in fields if field in _FORMAT], media_types
    )
    if media_type is None:
        raise HTTPException(
            406, f"a reply can be {', '.join(media_types)}; ask for one by 'Accept' or 'format'"
        )
    run = urlencode([field for field in fields if field[0] == "run"])  # each run is an endpoint
    return SparqlRequest(
        queries[0] if queries else None,
        media_type,
        str(request.url.replace(query=run, fragment="")),
    )


async def _form(request: Request) -> list[tuple[str, str]]:
    """The fields that the body of a POST brings; a body that is a query is one."""
    if request.method != "POST":
        return []
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind == "application/sparql-update":
        raise HTTPException(400, "updates are not supported: nothing can be changed")
    if kind not in (FORM, DIRECT):
        raise HTTPException(
            400, f"send the SPARQL query as {DIRECT}, or as the field 'query' of {FORM}"
        )
    try:
        body = (await request.body()).decode("utf-8")
        if kind == DIRECT:
            return [("query", body)]
        fields = parse_qsl(body, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except UnicodeDecodeError:
        raise HTTPException(400, "the request is not UTF-8") from None
    except ValueError:
        raise HTTPException(400, f"the form has more than {MAX_FIELDS} fields") from None
    for name in ("new", "run"):  # to ignore them would change the answers
        if any(field == name for field, _ in fields):
            raise HTTPException(
                400, f"the form has a field '{name}'; give it in the address: /sparql?{name}=..."
            )
    return fields


NOT_ACCEPTABLE = {
    "model": ErrorReply,
    "description": "Results come in no format that the request accepts.",
}

EXAMPLE = (
    "PREFIX : <tacit:> SELECT ?c WHERE { :France :borders ?c MINUS { ?c :speaks :German } } LIMIT 5"
)

SPARQL_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            DIRECT: {"schema": {"type": "string"}, "example": EXAMPLE},
            FORM: {
                "schema": {
                    "type": "object",
                    "properties": {"query": {"type": "string"}},
                    "required": ["query"],
                }
            },
        },
    }
}

_BINDING = {
    "c": {"type": "uri", "value": "tacit:Spain"},
    "score": {"type": "literal", "datatype": DOUBLE, "value": "0.97"},
}
SPARQL_REPLY: dict[str, Any] = {
    "description": (
        "SPARQL 1.1 query results, with the columns that were selected; or the service description."
    ),
    "content": {
        JSON: {
            "schema": {"type": "object", "required": ["head"]},
            "example": {"head": {"vars": ["c", "score"]}, "results": {"bindings": [_BINDING]}},
        }
    }
    | {kind: {"schema": {"type": "string"}} for kind in (*RESULTS, *DESCRIPTIONS) if kind != JSON},
}


Protocol = Annotated[SparqlRequest, Depends(parse_request)]
Format = Annotated[
    str | None, Query(description="Goes before `Accept`: json, xml, csv, tsv.", examples=["csv"])
]
New = Annotated[bool, Query(description=schemas.SETTINGS["new"]["help"])]
_SPARQL: dict[str, Any] = {
    "responses": {200: SPARQL_REPLY, 406: NOT_ACCEPTABLE},
    "response_class": Response,
    "tags": ["questions"],
}


async def _sparql(service: Service, request: SparqlRequest, new: bool) -> Response:
    """The reply of the endpoint."""
    if request.query is None:
        return request.description().response()
    job = Job(
        "sparql",
        request.query,
        changes=(("new", True),) if new else (),
        media_type=request.media_type,
    )
    reply = await service.snapshot.pool.answer(job)
    # The protocol wants 400; clients show its message.
    return (replace(reply, status=400) if reply.status == 422 else reply).response()


@routes.get("/sparql", **_SPARQL)
async def sparql_get(
    service: RequestedService,
    request: Protocol,
    query: Annotated[
        str | None, Query(description="A SPARQL query: SELECT or ASK.", examples=[EXAMPLE])
    ] = None,
    new: New = False,
    format: Format = None,
) -> Response:
    """The results of a SPARQL query; without one, what the endpoint says of itself."""
    return await _sparql(service, request, new)


@routes.post("/sparql", openapi_extra=SPARQL_BODY, **_SPARQL)
async def sparql_post(
    service: RequestedService, request: Protocol, new: New = False, format: Format = None
) -> Response:
    """The same, with the query as a form field or as the body itself."""
    return await _sparql(service, request, new)
