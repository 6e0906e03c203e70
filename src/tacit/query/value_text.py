"""Values of attributes and ranges of them, as people read them."""

from __future__ import annotations

import math

import numpy as np

from tacit.graph.attributes import Attribute
from tacit.graph.quantities import Quantity

_SCALES = ((1e12, " T"), (1e9, " B"), (1e6, " M"))
_LARGEST = 1e15  # from here on a number is written with its power of ten
SMALLEST = 1e-300  # nearer to zero is an open end at zero


def value_text(quantity: Quantity) -> str:
    """A known value, exactly.

    >>> value_text(Quantity(551695, unit="km²")), value_text(Quantity.parse("1950-06", "date"))
    ('551,695 km²', '1950-06')
    """
    return _with_unit(_number_text(quantity), quantity.unit)


def rounded_text(value: float, attribute: Attribute) -> str:
    """A predicted value, to two or three digits; a date to its year.

    >>> population = Attribute("population")
    >>> [rounded_text(value, population) for value in (1_134_000, 592_431, 12.345, 0.00421)]
    ['1.1 M', '592,000', '12.3', '0.0042']
    """
    number, scale = _rounded(value, attribute)
    return _with_unit(number + scale, attribute.unit)


def predicted_text(median: float, low: float, high: float, attribute: Attribute) -> str:
    """A predicted value with its interval.

    >>> predicted_text(1.1e6, 0.72e6, 1.84e6, Attribute("population"))
    '1.1 M (0.7–1.8 M)'
    >>> predicted_text(2e300, 1e16, 4e300, Attribute("size"))
    '2e+300 (1e+16–4e+300)'
    """
    (least, _), (most, scale) = (_rounded(end, attribute, high) for end in (low, high))
    interval = f"{least}{' to ' if '-' in least + most else '–'}{most}{scale}"
    number, scale = _rounded(median, attribute)
    return _with_unit(f"{number}{scale} ({interval})", attribute.unit)


def range_text(low: float, high: float, attribute: Attribute) -> tuple[str, str]:
    """What stands before and after a value that lies in a range.

    >>> bounds = math.nextafter(5e6, math.inf), math.inf
    >>> range_text(*bounds, Attribute("population"))
    ('', ' > 5,000,000')
    >>> days = Quantity.parse("1900", "date").value, Quantity.parse("1949", "date").last
    >>> range_text(*days, Attribute("founded", "date"))
    ('1900 <= ', ' < 1950')
    """
    least, has_low = end_text(low, attribute)
    most, has_high = end_text(high, attribute)
    if low == high:
        return "", f" = {least}"
    if high == math.inf:
        return "", f" >{'=' * has_low} {least}" if least else ""
    before = f"{least} <{'=' * has_low} " if least else ""
    return before, f" <{'=' * has_high} {most}"


def sign_of(low: float, high: float) -> str:
    """The operator between two values whose difference is in a range; empty for another range."""
    open_low, open_high = math.nextafter(0.0, math.inf), math.nextafter(0.0, -math.inf)
    signs = {
        (open_low, math.inf): ">",
        (0.0, math.inf): ">=",
        (-math.inf, open_high): "<",
        (-math.inf, 0.0): "<=",
        (0.0, 0.0): "=",
    }
    return signs.get((low, high), "")


def end_text(value: float, attribute: Attribute) -> tuple[str, bool]:
    """An end of a range, and whether it belongs to it; empty where there is none."""
    if math.isinf(value):
        return "", True
    near = float(f"{value:.13g}") if abs(value) > SMALLEST else 0.0
    precision = _precision(near) if attribute.kind == "date" else ""
    text = _number_text(Quantity(near, attribute.kind, precision))
    return _with_unit(text, attribute.unit), near == value


def _precision(days: float) -> str:
    """How exactly a date must be written to be the same moment."""
    if days != int(days):
        return "second"
    day = np.datetime64(int(days), "D")
    for precision, unit in (("year", "Y"), ("month", "M")):
        if day.astype(f"datetime64[{unit}]").astype("datetime64[D]") == day:
            return precision
    return "day"


def _number_text(quantity: Quantity) -> str:
    if quantity.kind != "number":
        return str(quantity)
    whole = abs(quantity.value) < _LARGEST and int(quantity.value) == quantity.value
    return f"{int(quantity.value):,}" if whole else f"{quantity.value:,}"


def _rounded(value: float, attribute: Attribute, like: float = 0.0) -> tuple[str, str]:
    """A number to two or three digits, in the scale of another if that is larger, and its word."""
    if attribute.kind == "date":
        return str(Quantity(float(math.floor(value)), "date", "year")), ""
    if attribute.kind == "duration":
        return str(Quantity(float(f"{value:.2g}"), "duration")), ""
    if max(abs(value), abs(like)) >= _LARGEST:
        return f"{value:.2g}", ""
    for scale, word in _SCALES:
        if max(abs(value), abs(like)) >= scale:
            shown = value / scale
            return f"{shown:.{int(abs(shown) < 10)}f}", word
    size = abs(value)
    if size >= 100:
        return f"{float(f'{value:.3g}'):,.0f}", ""
    return f"{value:.3g}" if size >= 1 else f"{value:.2g}", ""


def _with_unit(text: str, unit: str) -> str:
    return f"{text} {unit}" if unit else text
