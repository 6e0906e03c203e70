"""Comparisons in words: "of less than 1,000,000", "before 1950"."""

from __future__ import annotations

from tacit.query.comparison import Bound, Comparison, Ordering
from tacit.query.value_text import value_text

# the words of lower and upper ends that belong to a range, and of those that do not
_NUMBERS = ("at least", "more than"), ("at most", "less than")
_DATES = ("from", "after"), ("up to", "before")


def range_words(comparison: Comparison) -> str:
    """What is said of a value, after its name; empty where it need only exist.

    >>> from tacit.query.formula import Variable
    >>> c = Variable("c")
    >>> range_words(c.value("population") < 1_000_000), range_words(c.value("born") >= "1950-06")
    ('of less than 1,000,000', 'from 1950-06')
    >>> range_words(c.value("area").between(5, "9 km²"))
    'of at least 5 and at most 9 km²'
    """
    low, high = comparison.low, comparison.high
    if comparison.right is not None:
        whose = f"that of {comparison.right.term.name}"
        if low is not None and high is not None:
            return f"equal to {whose}"
        end = low or high
        assert end is not None
        than = "greater" if low is not None else "less"
        return f"{than} than {whose}" if end.open else f"equal to or {than} than {whose}"
    ends = [end for end in (low, high) if end is not None]
    if not ends:
        return ""
    dates = any(end.quantity.kind == "date" for end in ends)
    if low == high:
        return f"{'in' if dates else 'of'} {_written(ends[0])}"
    words = _DATES if dates else _NUMBERS
    said = [
        f"{words[upper][end.open]} {_written(end)}"
        for upper, end in enumerate((low, high))
        if end is not None
    ]
    return f"{'of ' * (not dates)}{' and '.join(said)}"


def order_words(order: Ordering, attribute: str) -> str:
    """An order of answers, after their question."""
    return f"{attribute}, the {'largest' if order.descending else 'smallest'} first"


def _written(end: Bound) -> str:
    return value_text(end.quantity)
