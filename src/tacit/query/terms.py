"""Terms of formulas: entities and variables, written so that the text syntax reads them back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacit.errors import QueryError
from tacit.query import tokens

if TYPE_CHECKING:
    from tacit.query.comparison import Value
    from tacit.query.formula import Inequality


class _Term:
    """What entities and variables can be said of."""

    def differs_from(self, other: Term) -> Inequality:
        """The condition that this term and another stand for different entities."""
        from tacit.query.formula import Inequality

        return Inequality(self, other)  # type: ignore[arg-type]

    def value(self, attribute: str) -> Value:
        """The value of an attribute, which `<`, `<=`, `>`, `>=` and methods compare."""
        from tacit.query.comparison import Value

        return Value(attribute, self)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Entity(_Term):
    """A constant, by its label."""

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise QueryError(f"an entity is given by its label, as text, not by {self.name!r}")

    def __str__(self) -> str:
        return quoted(self.name)


@dataclass(frozen=True)
class Variable(_Term):
    """A variable, by its name without the question mark: letters, digits and underscores."""

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(rf"{tokens.LETTER}+", self.name):
            raise QueryError(
                f"{self.name!r} is no name for a variable: use letters, digits and underscores"
            )

    def __str__(self) -> str:
        return f"?{self.name}"


Term = Entity | Variable


_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t", "\r": r"\r"})


def quoted(name: str) -> str:
    """Writes a name so that the text syntax reads it back, quoted where that is needed.

    >>> quoted("France"), quoted("New York"), quoted('say "hi"')
    ('France', '"New York"', '"say \\\\"hi\\\\""')
    """
    if re.fullmatch(tokens.NAME, name) and name.lower() not in tokens.KEYWORDS:
        return name
    return f'"{name.translate(_ESCAPES)}"'
