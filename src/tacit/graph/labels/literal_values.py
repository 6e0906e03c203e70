"""Numbers, dates and durations as RDF literals: read by their datatypes, and written."""

from __future__ import annotations

from urllib.parse import quote, unquote

from tacit.graph.labels.prefixes import SCHEME
from tacit.graph.quantities import KINDS, Kind, Quantity

XSD = "http://www.w3.org/2001/XMLSchema#"
_NUMBERS = (
    "integer decimal double float int long short byte nonNegativeInteger positiveInteger "
    "nonPositiveInteger negativeInteger unsignedLong unsignedInt unsignedShort unsignedByte"
)
_DATES = "date dateTime dateTimeStamp gYear gYearMonth"
_DURATIONS = "duration dayTimeDuration yearMonthDuration"
DATATYPES: dict[str, Kind] = {
    **{XSD + name: "number" for name in _NUMBERS.split()},
    **{XSD + name: "date" for name in _DATES.split()},
    **{XSD + name: "duration" for name in _DURATIONS.split()},
}
_OF_DATES = {"year": "gYear", "month": "gYearMonth", "day": "date", "second": "dateTime"}


def read_literal(text: str, datatype: str) -> Quantity | None:
    """The quantity of a literal's text and datatype IRI; None for any other literal.

    A number of another datatype than XML Schema's is in a unit, the last word of the IRI.

    >>> read_literal("1815", "http://www.w3.org/2001/XMLSchema#gYear").precision
    'year'
    >>> read_literal("357022", "http://dbpedia.org/datatype/squareKilometre").unit
    'squareKilometre'
    """
    if datatype.startswith(XSD):
        kind = DATATYPES.get(datatype)
        return Quantity.parse(text, kind) if kind else None
    number = Quantity.parse(text, "number")
    if number is None:
        return None
    own = datatype.removeprefix(SCHEME)
    unit = unquote(own) if own != datatype else datatype[max(map(datatype.rfind, "/#:")) + 1 :]
    fits = unit not in KINDS and not {"[", "]"} & set(unit)
    return Quantity(number.value, unit=unit) if fits else None


def literal(quantity: Quantity) -> str:
    """A quantity as an N-Triples literal; a number with a unit has it for its datatype.

    >>> literal(Quantity(68e6)), literal(Quantity.parse("1950-06"))  # doctest: +ELLIPSIS
    ('"68000000"^^<...XMLSchema#integer>', '"1950-06"^^<...XMLSchema#gYearMonth>')
    >>> literal(Quantity(643.8, unit="km²"))
    '"643.8"^^<tacit:km%C2%B2>'
    """
    return f'"{quantity}"^^<{datatype(quantity)}>'


def datatype(quantity: Quantity) -> str:
    """The IRI of the datatype that a quantity is written with."""
    if quantity.unit:
        return f"{SCHEME}{quote(quantity.unit, safe='')}"
    if quantity.kind == "duration":
        return f"{XSD}duration"
    if quantity.kind == "date":
        return f"{XSD}{_OF_DATES[quantity.precision]}"
    return f"{XSD}{'double' if set(str(quantity)) & set('.e') else 'integer'}"
