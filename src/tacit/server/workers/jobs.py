"""What the service hands to its workers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tacit.query.text.tokens import KEYWORDS, NAME, PARAMETER, UNCLOSED, VARIABLE

Kind = Literal["ask", "explain", "plan", "read", "sparql", "entity"]  # what is wanted of a question


@dataclass(frozen=True)
class Job:
    """One question, and how it is to be answered."""

    kind: Kind
    question: str
    top: int = 10
    paths: int = 1
    changes: tuple[tuple[str, str | int | bool], ...] = ()  # engine settings that differ from the service's own
    offset: int = 0
    min_score: float = 0.0
    parameters: tuple[tuple[str, str], ...] = ()
    media_type: str = "application/sparql-results+json"  # of the reply to a SPARQL query

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for jobs that can run as one batch: the same structure, settings and page of answers.

        The structure is read off the text, names blanked, which costs microseconds where a parser costs a thousand
        times that; the engine groups a batch by plan, so a key that is too coarse or too fine costs speed alone.

        >>> one, two = Job("ask", "?c : borders(France, ?c)"), Job("ask", '?c : borders("New York", ?c)')
        >>> one.key == two.key, one.key == Job("ask", "?c : borders(?c, France)").key
        (True, False)
        """
        page = self.top, self.offset, self.min_score
        return (self.kind, _WORD.sub(_blank, self.question), *page, self.paths, self.changes)


@dataclass(frozen=True)
class EntityJob(Job):
    """One entity, which is its question, and which of its facts are wanted: `top` of each relation from `offset` on."""

    relation: str | None = None
    predicted: bool = False  # facts of at least `min_score`; known ones otherwise
    start: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal jobs alone: predicting may take half the time there is, and two of them all of it."""
        return (*super().key, self.question, self.relation, self.predicted, self.start)


# Each alternative takes what it starts, ended or not, so that no text takes the square of its length.
_WORD = re.compile(rf"{UNCLOSED}|<[^<>\s]*>|{VARIABLE}|{PARAMETER}|{NAME}|[+/-]+|\s+", re.DOTALL)
_KEPT = frozenset((*KEYWORDS, "minus", "union", "filter", "select", "where", "ask", "values", "distinct", "count"))


def _blank(word: re.Match[str]) -> str:
    text = word.group()
    if text.isspace():
        return ""
    return text if text.startswith("?") or text.lower() in _KEPT else "_"
