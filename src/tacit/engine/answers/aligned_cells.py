"""Aligned columns of text, safe for terminals."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence


def escape_control_chars(text: str) -> str:
    r"""Write out control characters, by which foreign text could command the terminal.

    >>> escape_control_chars("a\nERROR: b\x1b[2J")
    'a\\nERROR: b\\x1b[2J'
    """
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", lambda control: repr(control[0])[1:-1], text)


def in_columns(rows: Sequence[Sequence[str]], length: Callable[[str], int] = len) -> list[str]:
    """Join rows of cells into lines, each column as wide as its widest cell.

    >>> in_columns([["Oslo", "Norway"], ["Bern", "CH"]])
    ['Oslo  Norway', 'Bern  CH    ']
    """
    widths = [max(map(length, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell + " " * (w - length(cell)) for cell, w in zip(row, widths, strict=True))
        for row in rows
    ]
