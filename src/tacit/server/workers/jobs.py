"""Jobs that the service sends to its workers, and the replies that come back."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tacit.errors import TacitError
from tacit.query.tokens import KEYWORDS, NAME, PARAMETER, UNCLOSED, VARIABLE

if TYPE_CHECKING:
    from starlette.responses import Response

Kind = Literal[
    "ask", "explain", "plan", "read", "sparql", "entity", "rules", "complete", "values", "attribute"
]
JSON = "application/json"
# the unread rest of the body would look like the next request
CLOSE = {"connection": "close"}
LATER = {"retry-after": "1"}
HEADERS = {401: {"www-authenticate": "Bearer"}, 408: CLOSE, 413: CLOSE, 429: LATER, 503: LATER}
# Alternatives match unclosed tokens, too, which keeps the time linear in the text.
_WORD = re.compile(rf"{UNCLOSED}|<[^<>\s]*>|{VARIABLE}|{PARAMETER}|{NAME}|[+/-]+|\s+", re.DOTALL)
_STRUCTURE_WORDS = frozenset(
    (*KEYWORDS, "minus", "union", "filter", "select", "where", "ask", "values", "distinct", "count")
)


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
    explain: bool = False  # whether predicted facts have evidence

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal jobs alone: two predictions could take all of the time limit."""
        return (
            *super().key,
            self.question,
            self.relation,
            self.predicted,
            self.start,
            self.explain,
        )


@dataclass(frozen=True)
class RulesJob(Job):
    """`top` rules from `offset` on that imply a relation, its question, or any if that is empty."""

    written: bool = False  # only those that a person wrote
    examples: int = 0  # of each

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal jobs alone."""
        return (*super().key, self.question, self.written, self.examples)


@dataclass(frozen=True)
class CompletionJob(Job):
    """`top` missing facts of at least `min_score`: of a relation, its question, an entity, or both.

    An empty question, or an entity that is None, stands for all of them.
    """

    entity: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal jobs alone."""
        return (*super().key, self.question, self.entity)


@dataclass(frozen=True)
class ValuesJob(Job):
    """The values of an entity, its question, of one attribute or of all."""

    attribute: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal jobs alone."""
        return (*super().key, self.question, self.attribute)


@dataclass(frozen=True)
class AttributeJob(Job):
    """An attribute, its question, with `top` of its entities by value, from `offset` on."""

    descending: bool = True

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal jobs alone."""
        return (*super().key, self.question, self.descending)


def _blank(word: re.Match[str]) -> str:
    text = word.group()
    if text.isspace():
        return ""
    return text if text.startswith("?") or text.lower() in _STRUCTURE_WORDS else "_"


@dataclass(frozen=True)
class Reply:
    """A status and a body, small enough to send from a worker to the service."""

    status: int
    body: bytes
    media_type: str = JSON

    def response(self, **headers: str) -> Response:
        """The reply as Starlette sends it, with the headers its status asks for."""
        from starlette.responses import Response  # local, since workers do not need it

        return Response(
            self.body, self.status, HEADERS.get(self.status, {}) | headers, self.media_type
        )


def encoded(data: Any) -> bytes:
    """Plain data as compact JSON; NaN and infinity raise, since JSON has neither."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "replace")


def success(data: Any) -> Reply:
    """The reply that tells plain data."""
    return Reply(200, encoded(data))


def failure(status: int, message: str) -> Reply:
    """An error reply: what went wrong, and what would work, in one sentence."""
    return Reply(status, encoded({"error": TacitError(message).to_dict()}))


def refusal(error: TacitError) -> Reply:
    """The reply to a question that is wrong, or larger than the service allows."""
    return Reply(422, encoded({"error": error.to_dict()}))


FAULT = failure(
    500, "the question could not be answered because of a fault in Tacit; the log has it"
)
