"""What the service hands to its workers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from tacit.query.tokens import KEYWORDS, NAME, UNCLOSED, VARIABLE


class Kind(StrEnum):
    """What is wanted of a question."""

    ASK = "ask"
    EXPLAIN = "explain"
    PLAN = "plan"
    READ = "read"
    SPARQL = "sparql"


@dataclass(frozen=True)
class Job:
    """One question, and how it is to be answered."""

    kind: Kind
    question: str
    top: int = 10
    paths: int = 1
    offset: int = 0
    changes: tuple[tuple[str, str | int | bool], ...] = ()  # engine settings that differ from the service's own

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for jobs that can run as one batch: the same structure, settings and number of answers.

        The structure is read off the text, names blanked, which costs microseconds where a parser costs a thousand
        times that; the engine groups a batch by plan, so a key that is too coarse or too fine costs speed alone.

        >>> one, two = Job(Kind.ASK, "?c : borders(France, ?c)"), Job(Kind.ASK, '?c : borders("New York", ?c)')
        >>> one.key == two.key, one.key == Job(Kind.ASK, "?c : borders(?c, France)").key
        (True, False)
        """
        return (self.kind, _WORD.sub(_blank, self.question), self.top, self.paths, self.offset, self.changes)


# Each alternative takes what it starts, ended or not, so that no text takes the square of its length.
_WORD = re.compile(rf"{UNCLOSED}|<[^<>\s]*>|{VARIABLE}|{NAME}|[+/-]+|\s+", re.DOTALL)
_KEPT = frozenset((*KEYWORDS, "minus", "union", "filter", "select", "where"))


def _blank(word: re.Match[str]) -> str:
    text = word.group()
    if text.isspace():
        return ""
    return text if text.startswith("?") or text.lower() in _KEPT else "_"
