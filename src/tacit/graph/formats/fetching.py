"""Fetches the facts of a SPARQL endpoint, page by page, to a file of N-Triples."""

from __future__ import annotations

import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from tacit.disk import locked, write_text, written
from tacit.errors import DataError, SettingsError

PATTERN = "?s ?p ?o"
MOST = 1_000_000
PAGE = 10_000
_ANSWER = "application/sparql-results+json"
_LARGEST = 1 << 28  # bytes of a page that are read
_TRIES = 6  # for a page
_LONGEST_WAIT = 120.0  # seconds
_BUSY = (408, 429, 500, 502, 503, 504)  # statuses of a server that may answer later
_ADDRESS = re.compile(r"https?://[!-~]+", re.IGNORECASE)
# parts of a pattern without variables: IRIs, strings and comments
_OPAQUE = re.compile(r"""<[^<>\s]*>|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|#[^\n]*""")
FactCount = Callable[[int], None]  # gets the number of facts so far
_LANGUAGE = re.compile(r"[A-Za-z]+(-[A-Za-z0-9]+)*(--[a-z]+)?")


@dataclass(frozen=True)
class Endpoint:
    """A SPARQL endpoint, a pattern of facts, and limits on the rate of requests.

    `pattern` is a graph pattern over `?s`, `?p` and `?o`: all facts by default. Rows that leave one
    of the three open are left out, and so are facts about blank nodes, whose names differ from page
    to page.
    """

    url: str
    pattern: str = PATTERN
    page: int = PAGE
    delay: float = 1.0  # seconds between two pages
    timeout: float = 60.0

    def __post_init__(self) -> None:
        if not _is_address(self.url):
            raise SettingsError(
                f"'{self.url}' is no address of an endpoint; it must begin with http:// or "
                "https://",
                "url",
            )
        visible = _OPAQUE.sub(" ", self.pattern)
        if missing := [
            name for name in ("?s", "?p", "?o") if not re.search(rf"[?$]{name[1]}(?!\w)", visible)
        ]:
            raise SettingsError(
                f"pattern '{self.pattern}' says nothing of {' and '.join(missing)}; it must be "
                f"about the facts ?s ?p ?o to fetch, as in '{PATTERN}' or '{PATTERN} . ?s a "
                "<http://example.org/City>'",
                "pattern",
            )
        for name, least, most in (
            ("page", 1, 10**9),
            ("delay", 0, 86_400),
            ("timeout", 0.1, 86_400),
        ):
            if not least <= getattr(self, name) <= most:
                raise SettingsError(
                    f"{name} is {getattr(self, name)}; it must be from {least} to {most}", name
                )

    def query(self, offset: int, most: int) -> str:
        """The query for the rows of a page, ordered so that pages do not overlap."""
        named = "FILTER(isIRI(?s) && isIRI(?p) && (isIRI(?o) || isLiteral(?o)))"
        return (
            # the pattern may end in a comment
            f"SELECT DISTINCT ?s ?p ?o WHERE {{ {self.pattern}\n{named} }} "
            f"ORDER BY ?s ?p ?o LIMIT {most} OFFSET {offset}"
        )

    def rows(self, offset: int, most: int) -> list[bytes]:
        """The facts of a page as lines of N-Triples; a busy server is asked again later."""
        body = urlencode({"query": self.query(offset, most)}).encode()
        headers = {"Accept": _ANSWER, "User-Agent": "tacit (knowledge graph completion)"}
        request = urllib.request.Request(self.url, body, headers)
        for tries in range(1, _TRIES + 1):
            try:
                with _OPENER.open(request, timeout=self.timeout) as reply:
                    text = reply.read(_LARGEST + 1)
                    if reply.length and len(text) <= _LARGEST:
                        raise OSError("its answer was cut short")
                # 206, for example, is the status of a server that did not find all rows in time
                if reply.status != 200:
                    raise DataError(
                        f"{self.url} answers {reply.status} {reply.reason}, which is no whole page"
                    )
                break
            except urllib.error.HTTPError as error:
                reason = " ".join(error.read(2000).decode(errors="replace").split())[:200]
                if 300 <= error.code < 400:
                    place = error.headers.get("Location", "elsewhere")[:200]
                    raise DataError(
                        f"{self.url} sends us to {place}; give that address if you trust it"
                    ) from None
                if error.code not in _BUSY or tries == _TRIES:
                    raise DataError(
                        f"{self.url} answers {error.code} {error.reason}: {reason}"
                    ) from None
                time.sleep(_wait(error.headers.get("Retry-After", ""), tries))
            except (OSError, http.client.HTTPException) as error:
                if tries == _TRIES:
                    raise DataError(
                        f"{self.url} does not answer ({getattr(error, 'reason', error)})"
                    ) from None
                time.sleep(_wait("", tries))
        if len(text) > _LARGEST:
            raise DataError(
                f"a page of {self.url} is larger than {_LARGEST >> 20} MB; lower `page`"
            )
        return _lines(self.url, text)[:most]


class Fetched(NamedTuple):
    """The number of facts written, and whether they are all that the endpoint has."""

    facts: int
    whole: bool


def fetch(
    endpoint: Endpoint, out: str | Path, most: int = MOST, progress: FactCount = lambda facts: None
) -> Fetched:
    """Writes the facts of an endpoint to a file of N-Triples.

    The facts so far are in a file beside it that ends in `.part`; the same call goes on from there.
    """
    if most < 1:
        raise SettingsError(f"most is {most}; it must be at least 1", "most")
    path = Path(out)
    if path.suffix != ".nt":
        raise SettingsError(f"out is '{path}'; a file of N-Triples must end in .nt", "out")
    if path.exists():
        raise DataError("exists already; choose another file, or delete this one", path)
    part = path.with_name(path.name + ".part")
    state = path.with_name(path.name + ".part.json")
    with written(path, DataError):
        path.parent.mkdir(parents=True, exist_ok=True)
    with written(path, DataError), _exclusive(path):
        count, size = _progress_of(state, part, endpoint)
        with part.open("ab+") as file:
            file.truncate(size)
            ended = False
            while count < most and not ended:
                lines = endpoint.rows(count, min(endpoint.page, most - count))
                ended = not lines  # a server may cap its pages: only an empty one is the last
                file.seek(0)
                # rows are distinct and in order, so no page begins as the first one does
                if lines and file.readline() == lines[0]:
                    raise DataError(
                        f"{endpoint.url} gives its first rows again: it does not heed OFFSET"
                    )
                file.write(b"".join(lines))  # a file opened to append writes at its end
                file.flush()
                os.fsync(file.fileno())
                count += len(lines)
                values = {
                    "url": endpoint.url,
                    "pattern": endpoint.pattern,
                    "facts": count,
                    "bytes": file.tell(),
                }
                write_text(state, json.dumps(values))
                progress(count)
                if not ended and count < most:
                    time.sleep(endpoint.delay)
        if not count:
            raise DataError(f"{endpoint.url} has no facts that match '{endpoint.pattern}'")
        part.replace(path)
        state.unlink()
    return Fetched(count, ended)


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Locks a file, so that no other process fetches into it."""
    lock = path.with_name(path.name + ".part.lock")
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(lock, wait=False))
        except BlockingIOError:
            raise DataError(
                "is being fetched by another process; wait for it, or stop it", path
            ) from None
        try:
            yield
        finally:
            with suppress(OSError):  # Windows deletes no file that is open
                lock.unlink()


def _progress_of(state: Path, part: Path, endpoint: Endpoint) -> tuple[int, int]:
    """The facts and bytes of this endpoint that were fetched before."""
    try:
        before = json.loads(state.read_text(encoding="utf-8"))
        same = (before["url"], before["pattern"]) == (endpoint.url, endpoint.pattern)
        count = int(before["facts"])
        size = int(before["bytes"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return 0, 0
    if count and not same:
        raise DataError(
            f"{part} was begun from {before['url']} for {before['pattern']}; delete it to start "
            "anew"
        )
    return (count, size) if same and part.is_file() and part.stat().st_size >= size else (0, 0)


def _wait(retry_after: str, tries: int) -> float:
    """The delay before a retry: what the server asks for, else growing with each try."""
    if retry_after.isdecimal():
        return min(float(retry_after), _LONGEST_WAIT)
    try:
        seconds = parsedate_to_datetime(retry_after).timestamp() - time.time()
    except (TypeError, ValueError):
        return 2.0 ** (tries - 1)
    return min(max(seconds, 0.0), _LONGEST_WAIT)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: a POST would lose its body, and the user chose this server."""

    def redirect_request(self, *arguments: Any) -> None:
        """Returns no request, so that the response counts as an error."""


_OPENER = urllib.request.build_opener(_NoRedirects)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(_ADDRESS.fullmatch(url) and parts.hostname and parts.port != 0)
    except ValueError:  # for example, the port is no number
        return False


def _lines(url: str, text: bytes) -> list[bytes]:
    """The rows of a response as lines of N-Triples."""
    try:
        rows = json.loads(text)["results"]["bindings"]
        return [
            b" ".join(_term(row[name], name == "o") for name in "spo") + b" .\n" for row in rows
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{url} does not answer as a SPARQL endpoint does ({error!r:.100})"
        ) from None


def _term(term: Mapping[str, str], is_object: bool) -> bytes:
    """A term of SPARQL's JSON results as N-Triples; half a surrogate pair becomes `?`."""
    kind = term["type"]
    value = term["value"]
    if kind == "uri":
        return _iri(value)
    if not is_object or kind not in ("literal", "typed-literal"):
        raise ValueError(f"a {kind} where none can be")
    text = f'"{value.translate(_STRING)}"'.encode(errors="replace")
    if language := term.get("xml:lang"):
        if not _LANGUAGE.fullmatch(language):
            raise ValueError(f"no language: {language}")
        return text + f"@{language}".encode()
    return text + b"^^" + _iri(term["datatype"]) if term.get("datatype") else text


def _iri(value: str) -> bytes:
    """An IRI with the characters that no IRI may have percent-encoded."""
    return f"<{value.translate(_IRI)}>".encode(errors="replace")


_STRING = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"})
_IRI = str.maketrans(
    {letter: f"%{ord(letter):02X}" for letter in [*map(chr, range(33)), "\x7f", *'<>"{}|^`\\']}
)
