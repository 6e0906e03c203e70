"""The jobs that the service sends to its workers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tacit.query.tokens import KEYWORDS, NAME, PARAMETER, UNCLOSED, VARIABLE

Kind = Literal["ask", "explain", "plan", "read", "sparql", "entity"]


@dataclass(frozen=True)
class Job:
    """One question, and how it is to be answered."""

    kind: Kind
    question: str
    top: int = 10
    paths: int = 1
    # engine settings that differ from the service's own
    changes: tuple[tuple[str, str | int | bool], ...] = ()
    offset: int = 0
    min_score: float = 0.0
    parameters: tuple[tuple[str, str], ...] = ()
    media_type: str = "application/sparql-results+json"  # of the reply to a SPARQL query

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for jobs that can run as one batch: same structure, settings and page.

        The structure is read off the text, names blanked, which costs microseconds where a parser
        costs a thousand times that; the engine groups a batch by plan, so a key that is too coarse
        or too fine costs speed alone.

        >>> one = Job("ask", "?c : borders(France, ?c)")
        >>> two = Job("ask", '?c : borders("New York", ?c)')
        >>> one.key == two.key, one.key == Job("ask", "?c : borders(?c, France)").key
        (True, False)
        """
        page = self.top, self.offset, self.min_score
        return (self.kind, _WORD.sub(_blank, self.question), *page, self.paths, self.changes)


@dataclass(frozen=True)
class EntityJob(Job):
    """The facts of an entity, its question: `top` of each relation from `offset` on."""

    relation: str | None = None
    predicted: bool = False  # facts of at least `min_score`; known ones otherwise
    start: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal jobs alone: two predictions could take all of the time limit."""
        return (*super().key, self.question, self.relation, self.predicted, self.start)


# Alternatives match unclosed tokens, too, which keeps the time linear in the text.
_WORD = re.compile(rf"{UNCLOSED}|<[^<>\s]*>|{VARIABLE}|{PARAMETER}|{NAME}|[+/-]+|\s+", re.DOTALL)
_STRUCTURE_WORDS = frozenset(
    (*KEYWORDS, "minus", "union", "filter", "select", "where", "ask", "values", "distinct", "count")
)


def _blank(word: re.Match[str]) -> str:
    text = word.group()
    if text.isspace():
        return ""
    return text if text.startswith("?") or text.lower() in _STRUCTURE_WORDS else "_"
