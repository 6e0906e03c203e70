"""A client of `tacit serve` in one file that needs the standard library alone: it may be copied to where Tacit is not.

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
    """What a service says that has no answer: one sentence, and the place in the question where it speaks of one.

    `status` is that of HTTP, and None where no service answered; `suggestions` are names that may have been meant.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        line: int | None = None,
        column: int | None = None,
        suggestions: Sequence[str] = (),
    ) -> None:
        self.status, self.line, self.column, self.suggestions = status, line, column, tuple(suggestions)
        super().__init__(message)


@dataclass(frozen=True)
class Client:
    """A service by its address; `key` is its API key, `run` one of its runs, where it has several."""

    url: str = "http://127.0.0.1:8000"
    key: str | None = field(default=None, repr=False)
    run: str | None = None
    timeout: float = 60.0  # seconds

    def ask(self, query: str, top: int = 10, **settings: Any) -> dict[str, Any]:
        """The best answers to a question, as `answers` of the reply; settings are those of the service's `/ask`."""
        return self._call("/ask", {"query": query, "top": top, **settings})

    def ask_many(self, queries: Iterable[str], top: int = 10, **settings: Any) -> list[dict[str, Any]]:
        """A reply for each of many questions; that of one that is wrong has its `error` instead of answers."""
        if isinstance(queries, str):  # whose letters are no questions
            raise ServiceError("ask_many takes a list of questions; ask takes one")
        body = [{"query": query, "top": top, **settings} for query in queries]
        replies: Any = self._call("/ask", body) if body else ()
        return list(replies)

    def explain(self, query: str, top: int = 10, **settings: Any) -> dict[str, Any]:
        """The best answers with the reasons for each, and whether the search provably missed nothing."""
        return self._call("/explain", {"query": query, "top": top, **settings})

    def plan(self, query: str, **settings: Any) -> str:
        """How a question would be answered, a step a line."""
        return str(self._call("/plan", {"query": query, **settings})["plan"])

    def sparql(self, query: str, **parameters: Any) -> dict[str, Any]:
        """The results of a SPARQL query, as SPARQL's JSON has them."""
        return self._call("/sparql", query, parameters)

    def add(self, facts: Iterable[Sequence[str]]) -> dict[str, Any]:
        """What became of facts, each a head, a relation and a tail, that were added: every worker knows them then."""
        return self._call("/facts", {"facts": [list(fact) for fact in facts]})

    def remove(self, facts: Iterable[Sequence[str]]) -> dict[str, Any]:
        """The same of facts that were removed; what was learned of them stays learned."""
        return self._call("/facts/remove", {"facts": [list(fact) for fact in facts]})

    def entities(self, typed: str = "", limit: int = 10) -> list[dict[str, Any]]:
        """The entities that complete what was typed, each with `label`, `name` and `text`, as a question writes it."""
        return list(self._call("/entities", None, {"q": typed, "limit": limit})["matches"])

    def relations(self, typed: str = "", limit: int = 10) -> list[dict[str, Any]]:
        """The same of relations."""
        return list(self._call("/relations", None, {"q": typed, "limit": limit})["matches"])

    def health(self) -> dict[str, Any]:
        """What the service is, and how it is doing."""
        return self._call("/health")

    def _call(self, route: str, body: Any = None, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What a route replies: to a text as SPARQL, to anything else as JSON, to nothing as a plain request."""
        given = {**(parameters or {}), **({} if self.run is None else {"run": self.run})}
        words = {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}
        address = self.url.rstrip("/") + route + (f"?{urlencode(words)}" if words else "")
        headers = {"Accept": "application/sparql-results+json, application/json"}
        if body is not None:
            headers["Content-Type"] = f"application/{'sparql-query' if isinstance(body, str) else 'json'}"
        if self.key is not None:
            if not (self.key.isascii() and self.key.isprintable()):  # which urllib would repeat, secret and all
                raise ServiceError("the key holds a line break, or a letter beyond ASCII, that no request may have")
            headers["Authorization"] = f"Bearer {self.key}"
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        if not address.startswith(("http://", "https://")):
            raise ServiceError(f"'{self.url}' is no address of a service; it begins with http:// or https://")
        try:
            request = urllib.request.Request(address, None if data is None else data.encode(), headers)
            with _OPENER.open(request, timeout=self.timeout) as reply:
                text = reply.read(_LARGEST + 1)
        except urllib.error.HTTPError as error:
            with error:  # which holds the connection
                raise _told(error, self.url) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ServiceError(f"{self.url} does not answer ({getattr(error, 'reason', error)})") from None
        if len(text) > _LARGEST:
            raise ServiceError(f"the reply of {self.url} is larger than {_LARGEST >> 20} MB; ask for fewer answers")
        try:
            told: dict[str, Any] = json.loads(text)
            return told
        except (ValueError, RecursionError):
            raise ServiceError(f"{self.url} replies with something else than JSON; is it Tacit?") from None


def _told(error: urllib.error.HTTPError, url: str) -> ServiceError:
    """The error that a reply tells of."""
    if 300 <= error.code < 400:
        place = error.headers.get("Location", "elsewhere")[:200]
        return ServiceError(f"{url} sends us to {place}; give that address if you trust it", error.code)
    try:
        about = json.loads(error.read(1 << 20))["error"]
        return ServiceError(about["message"], error.code, about["line"], about["column"], about["suggestions"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError):
        return ServiceError(f"{url} answers {error.code} {error.reason}", error.code)


class _Staying(urllib.request.HTTPRedirectHandler):
    """Follows nobody: another server must not get the key."""

    def redirect_request(self, *arguments: Any) -> None:
        """No request, so that the answer counts as an error."""


_OPENER = urllib.request.build_opener(_Staying)
