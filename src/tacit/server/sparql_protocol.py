"""What the SPARQL protocol asks of a request."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import Request

from tacit.errors import QueryError

FORM, DIRECT = "application/x-www-form-urlencoded", "application/sparql-query"


async def sparql_text(request: Request) -> str:
    """The query of a POST: the body itself, or the field `query` of a form."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    try:
        body = (await request.body()).decode("utf-8")
    except UnicodeDecodeError:
        raise QueryError("the request is not UTF-8") from None
    if kind == DIRECT:
        return body
    if kind == FORM:
        fields = parse_qs(body, keep_blank_values=True, max_num_fields=20)
        if "new" in fields:  # and not ignored: the answers would be others
            raise QueryError("the form has a field 'new'; give it in the address instead: /sparql?new=true")
        if "query" in fields:
            return fields["query"][0]
        raise QueryError("the form has no field 'query' with the SPARQL query")
    raise QueryError(f"send the SPARQL query as {DIRECT}, or as the field 'query' of {FORM}")
