"""Lines of a table without a fact: one error for a file, or skipped and counted."""

from __future__ import annotations

from pathlib import Path

from tacit.errors import DataError
from tacit.graph.builder import counted

SHOWN = 5  # lines that a message speaks of


class BadLines:
    """Collects the lines of a file that hold no fact.

    They are skipped or not as `skip` says; where it is None there is no choice. A `row` is a line
    of what has none.
    """

    def __init__(self, path: Path, skip: bool | None = None, unit: str = "line") -> None:
        self.path = path
        self.skip = skip
        self.unit = unit
        self.count = 0
        self._first: list[tuple[int, str]] = []
        self._expected = ""

    def add(self, number: int, why: str, expected: str) -> None:
        """Records a bad line."""
        if not self.count:
            self._expected = expected
        self.count += 1
        if len(self._first) < SHOWN:
            self._first.append((number, why))

    def check(self) -> None:
        """Raises a `DataError` for all bad lines unless they are skipped."""
        if self.count and not self.skip:
            raise self.error()

    def error(self) -> DataError:
        """The error for the bad lines: the first, their number, and the next ones."""
        (number, why), *others = self._first
        hint = ""
        if self.count > 1:
            hint = f"; {counted(self.count, f'bad {self.unit}')} in all ({self._listed(others)})"
        if self.skip is False:
            hint += f"; `skip_bad=True` skips {'it' if self.count == 1 else 'them'}"
        message = f"{why}; {self._expected}{hint}"
        if self.unit == "line":
            return DataError(message, self.path, number)
        return DataError(f"{self.unit} {number}: {message}", self.path)

    def note(self, split: str) -> str:
        """The note of a graph about skipped lines."""
        skipped = f"{counted(self.count, f'bad {self.unit}')} of {self.path.name} skipped"
        return f"{split}: {skipped} ({self._listed(self._first)})"

    def _listed(self, lines: list[tuple[int, str]]) -> str:
        """Lists some lines with their problems, and marks that there are more."""
        shown = [f"{self.unit} {number}: {why}" for number, why in lines]
        return ", ".join([*shown, "..."] if self.count > len(self._first) else shown)
