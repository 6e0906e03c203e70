"""Numbers, dates and durations: read from text, written back, and compared as numbers.

A number is itself. A date is the days from 1970-01-01 to the first moment of its day, month or
year, in the proleptic Gregorian calendar with a year 0 (ISO 8601: year -43 is 44 BCE). A duration
is in seconds.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

Kind = Literal["number", "date", "duration"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# how exactly a date is known; a number or a duration has the first
PRECISIONS = ("", "year", "month", "day", "second")
_UNITS = {"year": "Y", "month": "M", "day": "D"}
_DAY = 86_400.0
_NUMBER = re.compile(r"[+-]?(?:\d+(?:_\d+)*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(
    r"(?P<year>[+-]?\d{4,9})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)(?:[T ](?P<time>\d\d:\d\d(?::\d\d"
    r"(?:\.\d+)?)?))?)?)?(?P<zone>Z|[+-](?:0\d|1[0-4]):[0-5]\d)?",
    re.ASCII,
)
_DURATION = re.compile(
    r"(?P<sign>-?)P(?=.)(?:(?P<years>\d+)Y)?(?:(?P<months>\d+)M)?(?:(?P<days>\d+)D)?"
    r"(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d*)?)S)?)?",
    re.ASCII,
)
_SECONDS = {  # of the parts of a duration; a year and a month are those of the calendar on average
    "years": 365.2425 * _DAY,
    "months": 365.2425 * _DAY / 12,
    "days": _DAY,
    "hours": 3600.0,
    "minutes": 60.0,
    "seconds": 1.0,
}


@dataclass(frozen=True)
class Quantity:
    """A number, a date or a duration, with the unit of a number.

    >>> Quantity.parse("1950-06"), str(Quantity.parse("1950-06"))
    (Quantity(value=-7154.0, kind='date', precision='month', unit=''), '1950-06')
    >>> str(Quantity(10_000_000)), str(Quantity.parse("PT90M"))
    ('10000000', 'PT1H30M')
    """

    value: float
    kind: Kind = "number"
    precision: str = ""
    unit: str = ""

    @classmethod
    def parse(cls, text: str, kind: Kind | None = None) -> Quantity | None:
        """Reads a quantity of a kind (default: any); None where the text is none.

        Four digits alone are a number unless a date is asked for.
        """
        readers = {"number": _number, "date": _date, "duration": _duration}
        for each in (kind,) if kind else KINDS:
            if (quantity := readers[each](text.strip())) is not None:
                return quantity
        return None

    @property
    def last(self) -> float:
        """The largest value within the precision: the end of a year, of a month or of a day.

        >>> march = Quantity.parse("2024-03")
        >>> march.last < Quantity.parse("2024-04-01").value == march.value + 31
        True
        """
        if self.precision in _UNITS:
            unit = _UNITS[self.precision]
            start = np.datetime64(math.floor(self.value), "D").astype(f"datetime64[{unit}]")
            return math.nextafter(float((start + 1).astype("datetime64[D]").astype(int)), -math.inf)
        return self.value

    def __str__(self) -> str:
        """The quantity as `parse` reads it back, without its unit."""
        if self.kind == "number":
            whole = abs(self.value) < 1e16 and int(self.value) == self.value
            return str(int(self.value)) if whole else repr(float(self.value))
        return _date_text(self) if self.kind == "date" else _duration_text(self.value)


def _number(text: str) -> Quantity | None:
    """Reads a finite decimal number."""
    if not _NUMBER.fullmatch(text) or not math.isfinite(value := float(text)):
        return None
    return Quantity(value)


def _date(text: str) -> Quantity | None:
    """Reads an ISO date of a year, a month, a day or a moment; a zone is converted to UTC.

    A month or day 00 is not known, as in Wikidata's `+1950-00-00T00:00:00Z`.
    """
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day = (int(match[name] or 0) for name in ("year", "month", "day"))
    precision = "day" if day else "month" if month else "year"
    value = float(_days(year, max(month, 1)) + max(day, 1) - 1)
    if month > 12 or (day and not month) or day > _days(year, month + 1) - _days(year, month):
        return None
    if match["time"] is None or precision != "day":
        return Quantity(value, "date", precision)
    hours, minutes, seconds = (*map(float, match["time"].split(":")), 0.0)[:3]
    if hours * 3600 + minutes * 60 + seconds > _DAY or minutes >= 60 or seconds >= 60:
        return None
    if (zone := match["zone"]) and zone != "Z":
        offset = int(zone[1:3]) * 60 + int(zone[4:])
        minutes -= math.copysign(offset, 1 if zone[0] == "+" else -1)
    value += (hours * 3600 + minutes * 60 + seconds) / _DAY
    return Quantity(value, "date", "second")


def _days(year: int, month: int) -> int:
    """The days from 1970-01-01 to the first day of a month, the 13th of which is January.

    Years begin in March here, so that a leap day is the last of its year.
    """
    year += (month - 3) // 12
    month = (month - 3) % 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 - 719_468


def _year_month(days: int) -> tuple[int, int]:
    """The year and month of a day, which `_days` counts to."""
    year = (days + 719_468) * 400 // 146_097 + 1  # the last that may have begun in March
    while _days(year, 3) > days:
        year -= 1
    month = (5 * (days - _days(year, 3)) + 2) // 153 + 2
    return year + month // 12, month % 12 + 1


def _duration(text: str) -> Quantity | None:
    """Reads an ISO duration, such as `P1Y6M` or `PT90M`."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    seconds = sum(float(match[name] or 0) * size for name, size in _SECONDS.items())
    if not math.isfinite(seconds):
        return None
    return Quantity(-seconds if match["sign"] else seconds, "duration")


def _date_text(quantity: Quantity) -> str:
    """Writes a date to its precision, a moment to the microsecond."""
    days = math.floor(quantity.value)
    whole, micros = divmod(round((quantity.value - days) * _DAY * 1e6), round(_DAY * 1e6))
    days += whole
    year, month = _year_month(days)
    text = f"{'-' * (year < 0)}{abs(year):04d}"
    if quantity.precision == "year":
        return text
    text += f"-{month:02d}"
    if quantity.precision == "month":
        return text
    text += f"-{days - _days(year, month) + 1:02d}"
    if quantity.precision == "day":
        return text
    seconds, micros = divmod(micros, 1_000_000)
    fraction = f".{micros:06d}".rstrip("0").rstrip(".")
    return f"{text}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}Z"


def _duration_text(seconds: float) -> str:
    """Writes a duration in days, hours, minutes and seconds."""
    sign = "-" if seconds < 0 else ""
    days, rest = divmod(abs(seconds), _DAY)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    time = f"{int(hours)}H" * (hours > 0) + f"{int(minutes)}M" * (minutes > 0)
    if rest:
        time += f"{np.format_float_positional(rest, trim='-')}S"  # no exponent is read back
    date = f"{int(days)}D" if days or not time else ""
    return f"{sign}P{date}{'T' * bool(time)}{time}"
