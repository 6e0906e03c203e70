"""The formats of SPARQL results and of the service description, and which of them a request gets.

Results are made in JSON; pyoxigraph, which takes solutions from a text alone, writes them in the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

JSON, XML = "application/sparql-results+json", "application/sparql-results+xml"
CSV, TSV = "text/csv", "text/tab-separated-values"
TURTLE, N_TRIPLES, RDF_XML = "text/turtle", "application/n-triples", "application/rdf+xml"
RESULTS = {  # media types, the preferred ones first -> pyoxigraph's names of formats
    JSON: "JSON",
    XML: "XML",
    CSV: "CSV",
    TSV: "TSV",
    "application/json": "JSON",
    "application/xml": "XML",
    "text/xml": "XML",
}
DESCRIPTIONS = {TURTLE: "TURTLE", N_TRIPLES: "N_TRIPLES", RDF_XML: "RDF_XML"}
_SHORT = {"json": JSON, "xml": XML, "csv": CSV, "tsv": TSV, "turtle": TURTLE, "ttl": TURTLE, "nt": N_TRIPLES}
_SHORT |= {"rdf": RDF_XML, "rdf+xml": RDF_XML}


def chosen(accept: str, named: Iterable[str], offered: Sequence[str]) -> str | None:
    """The media type to reply in: by name, where a request names one, else by its Accept header; None for none.

    >>> chosen("text/csv;q=0.5, application/*;q=0.1, */*;q=0", [], list(RESULTS))
    'text/csv'
    >>> chosen("text/csv", ["xml"], list(RESULTS)), chosen("image/png", [], list(RESULTS))
    ('application/sparql-results+xml', None)
    """
    names = [name.strip().lower() for name in named]
    if names:
        return next((kind for name in names if (kind := _SHORT.get(name, name)) in offered), None)
    ranges = [_range(part) for part in accept.split(",") if part.strip()] or [("*/*", 1.0)]
    best = max(offered, key=lambda kind: _quality(kind, ranges))  # the first of equals
    return best if _quality(best, ranges) > 0 else None


def _range(written: str) -> tuple[str, float]:
    """A media range of an Accept header, and its quality."""
    kind, *parameters = (part.strip().lower() for part in written.split(";"))
    values = [value for name, _, value in (parameter.partition("=") for parameter in parameters) if name == "q"]
    try:
        return kind, min(1.0, max(0.0, float(values[0]))) if values else 1.0
    except ValueError:
        return kind, 0.0


def _quality(kind: str, ranges: Sequence[tuple[str, float]]) -> float:
    """How much a media type is wanted: the range that names it most closely decides."""
    for pattern in (kind, f"{kind.split('/')[0]}/*", "*/*"):
        qualities = [quality for name, quality in ranges if name == pattern]
        if qualities:
            return max(qualities)
    return 0.0


def written(results: bytes, media_type: str) -> bytes:
    """Results in JSON as another format has them."""
    if RESULTS[media_type] == "JSON":
        return results
    from pyoxigraph import QueryResultsFormat, parse_query_results

    read = parse_query_results(results, QueryResultsFormat.JSON)
    return read.serialize(format=getattr(QueryResultsFormat, RESULTS[media_type])) or b""
