"""The facts of a SPARQL endpoint, page by page, into a file of N-Triples."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from tacit.errors import DataError, SettingsError
from tacit.graph.files import written

PATTERN = "?s ?p ?o"
MOST, PAGE = 1_000_000, 10_000
_ANSWER = "application/sparql-results+json"
_LARGEST = 1 << 28  # bytes of a page that are read
_TRIES, _PATIENCE = 6, 120.0  # for a page, and the longest wait in seconds that a server may ask for
_BUSY = (408, 429, 500, 502, 503, 504)  # what a server says that may answer later

Progress = Callable[[int], None]  # how many facts there are so far


@dataclass(frozen=True)
class Endpoint:
    """Where to ask, for which facts, and how gently.

    `pattern` is a graph pattern over `?s`, `?p` and `?o`: all facts by default. Facts about blank nodes are left out:
    their names mean nothing from one page to the next.
    """

    url: str
    pattern: str = PATTERN
    page: int = PAGE
    delay: float = 1.0  # seconds between two pages
    timeout: float = 60.0

    def __post_init__(self) -> None:
        if urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).netloc:
            raise SettingsError(f"'{self.url}' is no address of an endpoint; it begins with http:// or https://", "url")
        for name, least in (("page", 1), ("delay", 0), ("timeout", 0.1)):
            if getattr(self, name) < least:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be at least {least}", name)

    def query(self, offset: int, most: int) -> str:
        """The query for the rows of a page; ordered, since pages of an unordered whole may overlap."""
        named = "FILTER(!isBlank(?s) && !isBlank(?o))"
        return (
            f"SELECT DISTINCT ?s ?p ?o WHERE {{ {self.pattern} {named} }} "
            f"ORDER BY ?s ?p ?o LIMIT {most} OFFSET {offset}"
        )

    def rows(self, offset: int, most: int) -> list[str]:
        """The facts of a page as lines of N-Triples; a server that is busy is asked again later."""
        body = urlencode({"query": self.query(offset, most)}).encode()
        headers = {"Accept": _ANSWER, "User-Agent": "tacit (knowledge graph completion)"}
        request = urllib.request.Request(self.url, body, headers)
        for tries in range(1, _TRIES + 1):
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as reply:
                    text = reply.read(_LARGEST + 1)
                break
            except urllib.error.HTTPError as error:
                said = " ".join(error.read(2000).decode(errors="replace").split())[:200]
                if error.code not in _BUSY or tries == _TRIES:
                    raise DataError(f"{self.url} answers {error.code} {error.reason}: {said}") from None
                time.sleep(_wait(error.headers.get("Retry-After", ""), tries))
            except (OSError, urllib.error.URLError) as error:
                if tries == _TRIES:
                    raise DataError(f"{self.url} does not answer ({getattr(error, 'reason', error)})") from None
                time.sleep(_wait("", tries))
        if len(text) > _LARGEST:
            raise DataError(f"a page of {self.url} is larger than {_LARGEST >> 20} MB; ask for smaller pages")
        return [_line(row) for row in _bindings(self.url, text)]


def fetch(
    endpoint: Endpoint, out: str | Path, most: int = MOST, progress: Progress = lambda facts: None
) -> tuple[int, bool]:
    """Write the facts of an endpoint to a file of N-Triples; how many there are, and whether these are all.

    What has come so far lies beside the file under its name and `.part`; the same call goes on from there.
    """
    if most < 1:
        raise SettingsError(f"most is {most}; it must be at least 1", "most")
    path = Path(out)
    if path.suffix != ".nt":
        raise SettingsError(f"'{path}' is no name for N-Triples; it ends in .nt", "out")
    part, state = path.with_name(path.name + ".part"), path.with_name(path.name + ".part.json")
    with written(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        count, size = _progress_of(state, part, endpoint)
        with part.open("ab") as file:
            file.truncate(size)
            whole = False
            while count < most and not whole:
                lines = endpoint.rows(count, min(endpoint.page, most - count))
                whole = not lines  # a server may cap its pages: only an empty one is the last
                file.write("".join(lines).encode())
                file.flush()
                os.fsync(file.fileno())
                count += len(lines)
                _remember(state, endpoint, count, file.tell())
                progress(count)
                if not whole and count < most:
                    time.sleep(endpoint.delay)
        if not count:
            raise DataError(f"{endpoint.url} has no facts that match {endpoint.pattern}")
        part.replace(path)
        state.unlink()
    return count, whole


def _progress_of(state: Path, part: Path, endpoint: Endpoint) -> tuple[int, int]:
    """How many facts of this endpoint were fetched before, and in how many bytes."""
    try:
        before = json.loads(state.read_text(encoding="utf-8"))
        same = (before["url"], before["pattern"]) == (endpoint.url, endpoint.pattern)
        count, size = int(before["facts"]), int(before["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0, 0
    if not same:
        raise DataError(f"{part} was begun from {before['url']} for {before['pattern']}; delete it to start anew")
    return (count, size) if part.is_file() and part.stat().st_size >= size else (0, 0)


def _remember(state: Path, endpoint: Endpoint, count: int, size: int) -> None:
    draft = state.with_suffix(".draft")
    values = {"url": endpoint.url, "pattern": endpoint.pattern, "facts": count, "bytes": size}
    draft.write_text(json.dumps(values), encoding="utf-8")
    draft.replace(state)


def _wait(asked: str, tries: int) -> float:
    """How long to leave a server alone: as long as it asks for, else longer each time."""
    if asked.isdigit():
        return min(float(asked), _PATIENCE)
    try:
        return min(max(parsedate_to_datetime(asked).timestamp() - time.time(), 0.0), _PATIENCE)
    except (TypeError, ValueError):
        return min(2.0 ** (tries - 1), _PATIENCE)


def _bindings(url: str, text: bytes) -> Iterator[Mapping[str, Any]]:
    try:
        rows = json.loads(text)["results"]["bindings"]
        yield from ({name: row[name] for name in "spo"} for row in rows)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{url} does not answer as a SPARQL endpoint does ({error!r:.100})") from None


def _line(row: Mapping[str, Any]) -> str:
    return " ".join(_term(row[name]) for name in "spo") + " .\n"


def _term(term: Mapping[str, str]) -> str:
    """A term of SPARQL's JSON results, as N-Triples writes it."""
    if term["type"] == "uri":
        return f"<{term['value'].translate(_IRI)}>"
    text = f'"{term["value"].translate(_STRING)}"'
    if term.get("xml:lang"):
        return f"{text}@{term['xml:lang']}"
    return f"{text}^^<{term['datatype']}>" if term.get("datatype") else text


_STRING = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"})
_IRI = str.maketrans({letter: f"\\u{ord(letter):04X}" for letter in '<>"{}|^`\\ '})
