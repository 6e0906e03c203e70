"""What the service hands to its workers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

LONGEST = 2_000  # characters of a question that is looked at closely


class Kind(StrEnum):
    """What is wanted of a question."""

    ASK = "ask"
    EXPLAIN = "explain"
    PLAN = "plan"
    SPARQL = "sparql"


@dataclass(frozen=True)
class Job:
    """One question, and how it is to be answered."""

    kind: Kind
    question: str
    top: int = 10
    paths: int = 1
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
        # Names that are left open make the search quadratic: a long text goes alone, and names are bounded.
        structure = self.question if len(self.question) > LONGEST else _NAME.sub(_blank, self.question)
        return (self.kind, structure, self.top, self.paths, self.changes)


_NAME = re.compile(
    r""""(?:[^"\\]|\\.){0,200}"|'(?:[^'\\]|\\.){0,200}'|<[^<>\s]{0,200}>|\?\w+|[+/-]{0,2}\w[\w.:/+-]*|\s+""", re.DOTALL
)
_WORDS = frozenset(("and", "or", "not", "exists", "minus", "union", "filter", "select", "where"))


def _blank(found: re.Match[str]) -> str:
    word = found.group()
    if word.isspace():
        return ""
    return word if word.startswith("?") or word.lower() in _WORDS else "_"
