"""Quantities, against the calendar of Python and numbers worked out by hand."""

from __future__ import annotations

import datetime as dt
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.graph.quantities import Quantity

EPOCH = dt.date(1970, 1, 1)


def parsed(text: str, kind: str = "date") -> Quantity:
    quantity = Quantity.parse(text, kind)  # type: ignore[arg-type]
    assert quantity is not None
    return quantity


@given(st.dates())
def test_days_are_those_of_the_calendar(day: dt.date) -> None:
    quantity = parsed(day.isoformat())
    assert quantity.value == (day - EPOCH).days
    assert (str(quantity), quantity.precision) == (day.isoformat(), "day")


@given(st.datetimes())
def test_moments_come_back_to_the_microsecond(moment: dt.datetime) -> None:
    # in 64 bits, days hold a microsecond around the present alone
    moment = moment.replace(year=1950 + moment.year % 4 * 4, microsecond=moment.microsecond)
    quantity = parsed(moment.isoformat())
    expected = (moment - dt.datetime(1970, 1, 1)) / dt.timedelta(days=1)
    assert quantity.value == pytest.approx(expected, abs=1e-11)
    assert parsed(str(quantity)) == quantity


@given(st.integers(-2_000_000, 2_000_000), st.integers(1, 12))
def test_every_year_and_month_comes_back(year: int, month: int) -> None:
    text = f"{'-' * (year < 0)}{abs(year):04d}"
    assert str(parsed(text)) == text
    assert str(parsed(f"{text}-{month:02d}")) == f"{text}-{month:02d}"
    # the calendar repeats itself after 400 years of 146,097 days
    assert parsed(f"{year + 400:05d}").value - parsed(f"{year:05d}").value == 146_097


@pytest.mark.parametrize(
    ("text", "value", "precision"),
    [
        ("1970", 0, "year"),
        ("1971-02", 396, "month"),
        # as in the year 357, 400 years later
        ("-0043-03-15", (dt.date(357, 3, 15) - EPOCH).days - 146_097, "day"),
        ("1970-01-02T12:00Z", 1.5, "second"),
        ("1970-01-02 02:00+02:00", 1.0, "second"),
        ("1970-01-01T24:00:00Z", 1.0, "second"),
        ("+1971-00-00T00:00:00Z", 365, "year"),
        ("+1971-02-00T00:00:00Z", 396, "month"),
    ],
)
def test_dates(text: str, value: float, precision: str) -> None:
    assert (parsed(text).value, parsed(text).precision) == (value, precision)


@pytest.mark.parametrize(
    "text",
    ["1970-13", "1970-02-30", "1970-00-07", "1970-01-01T24:01", "1970-01-01T10:60", "70",
     "1.5.1970", "١٩٧٠", "1970-01-01T10:00+25:00", "1970-01-01+02:60"],
)  # fmt: skip
def test_what_is_no_date(text: str) -> None:
    assert Quantity.parse(text, "date") is None


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_and_durations_come_back(value: float) -> None:
    assert parsed(str(Quantity(value)), "number").value == value
    value = min(abs(value), 1e300)
    again = parsed(str(Quantity(value, "duration")), "duration").value
    assert again == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "1,234.5", "1.234,5", "", "1 000", "12%"])
def test_what_is_no_number(text: str) -> None:
    assert Quantity.parse(text, "number") is None


@pytest.mark.parametrize(
    ("text", "last"),
    [("1950", "1951"), ("1950-12", "1951-01"), ("2024-02-29", "2024-03-01"), ("-0001", "0000")],
)
def test_a_date_lasts_until_the_next(text: str, last: str) -> None:
    assert parsed(text).last == math.nextafter(parsed(last).value, -math.inf)
