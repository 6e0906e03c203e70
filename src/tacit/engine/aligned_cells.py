"""Rows of cells in columns, for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def in_columns(rows: Sequence[Sequence[str]], length: Callable[[str], int] = len) -> list[str]:
    """Rows of cells as lines, each column as wide as its widest cell.

    >>> in_columns([["Oslo", "Norway"], ["Bern", "CH"]])
    ['Oslo  Norway', 'Bern  CH    ']
    """
    widths = [max(map(length, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell + " " * (w - length(cell)) for cell, w in zip(row, widths, strict=True)) for row in rows]
