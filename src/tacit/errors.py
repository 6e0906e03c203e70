"""Everything Tacit raises on purpose, in one tree.

::

    TacitError            the root: catch this to catch them all
    ├── DataError         a file or folder does not hold what it should; carries path and line
    ├── UnknownName       an entity or relation the graph does not have; carries the nearest names
    ├── QueryError        a text, SPARQL or formula that is no question; carries line and column
    ├── PlanError         a well-formed question that cannot be answered, with the reason
    ├── SettingsError     a setting out of range, or two that contradict each other
    ├── RunError          a run folder that is missing, damaged, or made for another graph
    ├── TrainingError     training went wrong: the loss is no number, or nothing is to be learned
    └── LimitError        memory, disk, time or size limits would be, or were, exceeded

Every message says what was given, where, and what would work, on one line. It names parameters as
Python and HTTP have them: the `parameter` that it is about plainly, all others in backquotes, as in
`` `force=True` ``. The command line puts its flags in their place, and adds the `command` that
helps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_LONGEST = 1000  # letters of a message
_LISTED = 10  # labels of an ambiguous name


class TacitError(Exception):
    """The root of all errors that Tacit raises on purpose; long messages lose their middle."""

    def __init__(self, message: str = "", *, command: str | None = None) -> None:
        self.command = command
        super().__init__(
            message if len(message) <= _LONGEST else f"{message[:700]} ... {message[-250:]}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The error as JSON data: message, place in the question and suggested names."""
        column: int | None = getattr(self, "column", None)
        line = None if column is None else getattr(self, "line", None) or 1
        suggestions = list(getattr(self, "suggestions", ()))
        return {
            "message": one_line(str(self)),
            "line": line,
            "column": column,
            "suggestions": suggestions,
        }


class DataError(TacitError):
    """A file or folder does not hold what it should; `suggestions` holds similar names."""

    def __init__(
        self,
        message: str,
        path: str | Path | None = None,
        line: int | None = None,
        *,
        command: str | None = None,
        suggestions: Sequence[str] = (),
    ) -> None:
        self.path = None if path is None else Path(path)
        self.message = message
        self.line = line
        self.suggestions = tuple(suggestions)
        place = "" if path is None else f"{path}: " if line is None else f"{path}, line {line}: "
        super().__init__(place + message, command=command)


class UnknownName(TacitError):  # noqa: N818
    """An entity or relation the graph does not have; `suggestions` holds the nearest names.

    A name that several have is ambiguous: `shared` is how many, and `suggestions` their labels.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        suggestions: Sequence[str] = (),
        line: int | None = None,
        column: int | None = None,
        shared: int = 0,
    ) -> None:
        self.kind = kind
        self.name = name
        self.suggestions = tuple(suggestions)
        self.shared = shared
        self.line = line
        self.column = column
        labels = [f"'{_shown(label)}'" for label in suggestions]
        if shared:
            more = ", ..." if shared > len(labels) else ""
            problem = (
                f"{kind} '{_shown(name)}' is ambiguous{at(line, column)}: {shared} are called so; "
                f"write the label of the one that is meant: {', '.join(labels)}{more}"
            )
        else:
            hint = f"; did you mean {' or '.join(labels)}?" if labels else ""
            problem = f"unknown {kind} '{_shown(name)}'{at(line, column)}{hint}"
        super().__init__(problem)

    def located(self, line: int, column: int) -> UnknownName:
        """The same error, pointing at a place in the question."""
        return UnknownName(self.kind, self.name, self.suggestions, line, column, self.shared)

    @classmethod
    def ambiguous(cls, kind: str, name: str, labels: Sequence[str]) -> UnknownName:
        """The error of a name that several labels have."""
        return cls(kind, name, labels[:_LISTED], shared=len(labels))


class QueryError(TacitError):
    """A text, SPARQL or formula is no question; the message is about `parameter`."""

    def __init__(
        self,
        message: str,
        line: int | None = None,
        column: int | None = None,
        *,
        parameter: str | None = None,
    ) -> None:
        self.line = line
        self.column = column
        self.parameter = parameter
        what, semicolon, hint = message.partition("; ")
        super().__init__(f"{what}{at(line, column)}{semicolon}{hint}")


class PlanError(TacitError):
    """A well-formed question that cannot be answered, with the reason."""


class SettingsError(TacitError):
    """A setting is out of range or contradicts another; the message names `parameter`."""

    def __init__(
        self, message: str, parameter: str | None = None, *, command: str | None = None
    ) -> None:
        self.parameter = parameter
        super().__init__(message, command=command)


class RunError(TacitError):
    """A run folder that is missing, damaged, or made for another graph."""


class TrainingError(TacitError):
    """Training went wrong: the loss is not a number, or nothing is left to learn from."""


class LimitError(TacitError):
    """Memory, disk, time or size limits would be, or were, exceeded."""


def _shown(name: str) -> str:
    """A name on one line and of a length that reads."""
    return one_line(name if len(name) <= 80 else name[:77] + "...")


def one_line(text: str) -> str:
    r"""A text without line breaks, whose other spaces stay: names may differ in them.

    >>> one_line("unknown entity 'New  York'\n  at column 3")
    "unknown entity 'New  York' at column 3"
    """
    return re.sub(r"\s*[\r\n]\s*", " ", text.strip())


def at(line: int | None, column: int | None) -> str:
    """The place in a question, as a message ends with it; line 1 is left out.

    >>> at(1, 9), at(2, 3), at(None, None)
    (' at column 9', ' at line 2, column 3', '')
    """
    if column is None:
        return ""
    return f" at column {column}" if line in (None, 1) else f" at line {line}, column {column}"
