"""The options of `ask`, and which of the answers to a question they list."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from tacit.engine.logic import ZERO
from tacit.errors import SettingsError

if TYPE_CHECKING:
    from tacit.query.question import ParsedQuestion

# A number of answers, None for all of them, or a rule that `AskOptions` describes.
ListLength = int | Literal["auto", "likely"] | None
SHOWN = 10  # answers by default


class Span(NamedTuple):
    """The range `start` to `stop` of the answers whose log-score is at least `floor`.

    With `fewest`, it holds all known or likely answers, and at least that many of the best.
    """

    start: int
    stop: int
    floor: float
    fewest: int | None = None
    ended_by: str = "top"  # what ends the list: `top`, `LIMIT` or `likely`


@dataclass(frozen=True)
class AskOptions:
    """The `top` answers from `offset` on, or all, that score at least `min_score`.

    With `top="likely"` they are all known ones, all that score at least `LIKELY`, and the ten best;
    where there is a `min_score`, it alone ends the list. With `top="auto"` they are the ten best;
    for SPARQL they are as many as its LIMIT says, or the likely ones.
    """

    top: ListLength = 10
    offset: int = 0
    min_score: float = 0.0
    paths: int = 1  # reasons of each answer
    explain: bool = False
    new: bool = False  # whether known answers are left out

    def __post_init__(self) -> None:
        if isinstance(self.top, str) and self.top not in ("auto", "likely"):
            raise SettingsError(
                f"top must be a whole number, 'likely', or None for all, not {self.top!r}", "top"
            )
        if self.top is not None and not isinstance(self.top, str):
            check_number("top", self.top, 1)
        check_number("offset", self.offset, 0)
        least = self.min_score
        is_number = isinstance(least, int | float) and not isinstance(least, bool)
        if not is_number or not 0.0 <= least <= 1.0:
            raise SettingsError(
                f"min_score must be a number from 0 to 1, not {least!r}", "min_score"
            )
        check_number("paths", self.paths, 1)
        for name in ("explain", "new"):
            flag = getattr(self, name)
            if not isinstance(flag, bool | np.bool_):
                raise SettingsError(f"{name} must be True or False, not {flag!r}", name)

    def span(self, question: ParsedQuestion, likely: bool = False) -> Span:
        """The range of a question with its own LIMIT and OFFSET: a page of what these leave.

        With `likely` it holds likely answers only, not even the ten best, and at most `top` of
        them.

        >>> from tacit.query.question import parse_question
        >>> query = "PREFIX : <tacit:> SELECT ?c { :France :borders ?c } LIMIT 2 OFFSET 10"
        >>> AskOptions(top=3, offset=1).span(parse_question(query))
        Span(start=11, stop=12, floor=-inf, fewest=None, ended_by='LIMIT')
        """
        limit = question.limit
        start = question.offset + self.offset
        floor = lowest(max(self.min_score, question.min_score))
        top = self.top
        fewest = 0 if likely else None
        if isinstance(top, str):
            if limit is None and fewest is None and (question.columns or top == "likely"):
                fewest = start + SHOWN
            top = SHOWN if limit is None and fewest is None else None
        stop = sys.maxsize if top is None else start + top
        if limit is not None and question.offset + limit <= stop:
            return Span(start, question.offset + limit, floor, ended_by="LIMIT")
        if fewest is not None and floor == ZERO:
            return Span(start, stop, floor, fewest, "likely")
        return Span(start, stop, floor)


def lowest(score: float) -> float:
    """The lowest 32-bit log-score whose score is at least the given one."""
    if score <= 0.0:
        return ZERO
    half = (score - math.nextafter(score, 0.0)) / 2.0  # the error that rounding tolerates
    log = np.float32(math.log(score) - half / score)
    return float(log if math.exp(log) >= score else np.nextafter(log, np.float32(1)))


def check_number(name: str, number: int, least: int) -> None:
    """Raise a `SettingsError` for a value that is no whole number, or below `least`."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise SettingsError(f"{name} must be a whole number, not {number!r}", name)
    if number < least:
        raise SettingsError(f"{name} must be at least {least}, not {number}", name)
