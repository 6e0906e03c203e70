"""A client of `tacit serve` in one file that needs only the standard library.

>>> client = Client("http://127.0.0.1:8000")
>>> client.ask("?c : borders(France, ?c)", top=3)["answers"][0]["entity"]  # doctest: +SKIP
'Andorra'
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

_LARGEST = 1 << 28  # bytes of a reply


class ServiceError(Exception):
    """An error that a service reports, with its place in the question if it has one.

    `status` is the HTTP status, or None if no service answered; `suggestions` are similar names.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        line: int | None = None,
        column: int | None = None,
        suggestions: Sequence[str] = (),
    ) -> None:
        self.status = status
        self.line = line
        self.column = column
        self.suggestions = tuple(suggestions)
        super().__init__(message)


@dataclass(frozen=True)
class Client:
    """A client of the service at `url`; `key` is its API key, and `run` one of its runs."""

    url: str = "http://127.0.0.1:8000"
    key: str | None = field(default=None, repr=False)
    run: str | None = None
    timeout: float = 60.0  # seconds

    def ask(self, query: str, top: int | None = None, **settings: Any) -> dict[str, Any]:
        """Return the best answers to a question as `answers`; settings are those of `/ask`.

        Without a `top` there are ten, or as many as the service allows.
        """
        return self._call("/ask", _question(query, top, settings))

    def ask_many(
        self, queries: Iterable[str], top: int | None = None, **settings: Any
    ) -> list[dict[str, Any]]:
        """Ask many questions; the reply to a wrong one has an `error` instead of answers."""
        if isinstance(queries, str):  # whose letters are no questions
            raise ServiceError("ask_many takes a list of questions; ask takes one")
        body = [_question(query, top, settings) for query in queries]
        replies: Any = self._call("/ask", body) if body else ()
        return list(replies)

    def explain(self, query: str, top: int | None = None, **settings: Any) -> dict[str, Any]:
        """Return the best answers with their reasons and whether the search missed nothing."""
        return self._call("/explain", _question(query, top, settings))

    def plan(self, query: str, **settings: Any) -> str:
        """The plan of a question, one step per line."""
        return str(self._call("/plan", {"query": query, **settings})["plan"])

    def sparql(self, query: str, **parameters: Any) -> dict[str, Any]:
        """The results of a SPARQL query, in SPARQL's JSON format."""
        return self._call("/sparql", query, parameters)

    def add(
        self, facts: Iterable[Sequence[str]], *, new: bool = False, force: bool = False
    ) -> dict[str, Any]:
        """Add facts, each a head, a relation and a tail, and return the change.

        Every worker of the service knows the facts then.

        A new relation, or a new entity with nearly the name of a known one, is refused without
        `new`; a name that differs from another in case or spaces alone without `force`.
        """
        consent = {name: True for name, value in (("new", new), ("force", force)) if value}
        return self._call("/facts", {"facts": [list(fact) for fact in facts], **consent})

    def remove(self, facts: Iterable[Sequence[str]]) -> dict[str, Any]:
        """Remove facts, and return the change; what was learned of them stays learned."""
        return self._call("/facts/remove", {"facts": [list(fact) for fact in facts]})

    def entities(self, typed: str = "", limit: int = 10) -> list[dict[str, Any]]:
        """The entities that complete a typed text, each with `label`, `name` and `text`."""
        return list(self._call("/entities", None, {"q": typed, "limit": limit})["matches"])

    def relations(self, typed: str = "", limit: int = 10) -> list[dict[str, Any]]:
        """The relations that complete a typed text."""
        return list(self._call("/relations", None, {"q": typed, "limit": limit})["matches"])

    def attributes(self, typed: str = "", limit: int = 10) -> list[dict[str, Any]]:
        """The attributes that complete a typed text, each with `kind`, `unit` and `range`."""
        return list(self._call("/attributes", None, {"q": typed, "limit": limit})["matches"])

    def attribute(self, label: str, **page: Any) -> dict[str, Any]:
        """An attribute with its statistics, and its entities by value as `rows`.

        The page is given by `limit`, `offset` and `descending`.
        """
        return self._call("/attribute", None, {"label": label, **page})

    def values(self, entity: str, attribute: str | None = None) -> list[dict[str, Any]]:
        """The numbers and dates of an entity, known ones, else predicted ones."""
        one = {} if attribute is None else {"attribute": attribute}
        return list(self._call("/entity/values", None, {"label": entity, **one})["values"])

    def health(self) -> dict[str, Any]:
        """The description and state of the service."""
        return self._call("/health")

    def _call(
        self, route: str, body: Any = None, parameters: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send a request to a route: a text as SPARQL, other data as JSON, or none."""
        values = {**(parameters or {}), **({} if self.run is None else {"run": self.run})}
        words = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in values.items()
        }
        address = self.url.rstrip("/") + route + (f"?{urlencode(words)}" if words else "")
        headers = {"Accept": "application/sparql-results+json, application/json"}
        if body is not None:
            headers["Content-Type"] = (
                f"application/{'sparql-query' if isinstance(body, str) else 'json'}"
            )
        if self.key is not None:
            # which urllib would repeat, secret and all
            if not (self.key.isascii() and self.key.isprintable()):
                raise ServiceError(
                    "the key holds a line break, or a letter beyond ASCII, that no request may have"
                )
            headers["Authorization"] = f"Bearer {self.key}"
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        if not address.startswith(("http://", "https://")):
            raise ServiceError(
                f"'{self.url}' is no address of a service; it begins with http:// or https://"
            )
        try:
            request = urllib.request.Request(
                address, None if data is None else data.encode(), headers
            )
            with _OPENER.open(request, timeout=self.timeout) as reply:
                text = reply.read(_LARGEST + 1)
        except urllib.error.HTTPError as error:
            with error:  # which holds the connection
                raise _service_error(error, self.url) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ServiceError(
                f"{self.url} does not answer ({getattr(error, 'reason', error)})"
            ) from None
        if len(text) > _LARGEST:
            raise ServiceError(
                f"the reply of {self.url} is larger than {_LARGEST >> 20} MB; ask for fewer answers"
            )
        try:
            result: dict[str, Any] = json.loads(text)
            return result
        except (ValueError, RecursionError):
            raise ServiceError(
                f"{self.url} replies with something else than JSON; is it Tacit?"
            ) from None


def _question(query: str, top: int | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a question; the service knows how many answers are usual."""
    return {"query": query, **({} if top is None else {"top": top}), **settings}


def _service_error(error: urllib.error.HTTPError, url: str) -> ServiceError:
    """The error that a reply contains."""
    if 300 <= error.code < 400:
        place = error.headers.get("Location", "elsewhere")[:200]
        return ServiceError(
            f"{url} sends us to {place}; give that address if you trust it", error.code
        )
    try:
        detail = json.loads(error.read(1 << 20))["error"]
        return ServiceError(
            detail["message"], error.code, detail["line"], detail["column"], detail["suggestions"]
        )
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError):
        return ServiceError(f"{url} answers {error.code} {error.reason}", error.code)


class _Staying(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, since another server must not get the key."""

    def redirect_request(self, *arguments: Any) -> None:
        """Return None, so that the reply counts as an error."""


_OPENER = urllib.request.build_opener(_Staying)
