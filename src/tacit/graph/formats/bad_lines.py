"""Lines of a table without a fact: one error for a file, or skipped and counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tacit.errors import DataError
from tacit.graph.builder import counted

SHOWN = 5  # lines that a message speaks of


@dataclass
class BadLines:
    """The lines of a file that hold no fact, which are skipped or not.

    `skip` is None where there is no choice. A `unit` is a row in what has no lines.
    """

    path: Path
    skip: bool | None = None
    unit: str = "line"
    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)  # number and problem of each
    expected: str = ""

    def add(self, number: int, why: str, expected: str) -> None:
        """Records a bad line."""
        self.expected = self.expected or expected
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append((number, why))

    def check(self, facts: int = 1) -> None:
        """Raises a `DataError` unless the bad lines are skipped and some `facts` are left."""
        if self.count and not (self.skip and facts):
            raise self.error()

    def error(self) -> DataError:
        """The error for the bad lines: the first, their number, and the next ones."""
        (number, why), *others = self.first
        hint = ""
        if self.count > 1:
            hint = f"; {counted(self.count, f'bad {self.unit}')} in all ({self._listed(others)})"
        if self.skip is False:
            hint += f"; `skip_bad=True` skips {'it' if self.count == 1 else 'them'}"
        message = f"{why}; {self.expected}{hint}"
        if self.unit == "line":
            return DataError(message, self.path, number)
        return DataError(f"{self.unit} {number}: {message}", self.path)

    def note(self, split: str) -> str:
        """The note of a graph about skipped lines."""
        skipped = f"{counted(self.count, f'bad {self.unit}')} of {self.path.name} skipped"
        return f"{split}: {skipped} ({self._listed(self.first)})"

    def _listed(self, lines: list[tuple[int, str]]) -> str:
        """Lists some lines with their problems, and marks that there are more."""
        shown = [f"{self.unit} {number}: {why}" for number, why in lines]
        return ", ".join([*shown, "..."] if self.count > len(self.first) else shown)
