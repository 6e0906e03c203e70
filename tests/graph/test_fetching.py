"""Fetching from a SPARQL endpoint: a real store, with failures of a real server."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli import app
from tacit.errors import DataError, SettingsError
from tacit.fitting.progress import Event, bar
from tacit.graph.formats.fetching import Endpoint, fetch
from tacit.sources import load

oxigraph = pytest.importorskip("pyoxigraph")

TURTLE = r"""
@prefix : <http://example.org/> .
:a :r :b , :c . :b :r :c ; :in :d . :c :in :d ; :said "a \"quoted\"\n\\ line"@en-GB , 7 , "plain" .
:d :near _:x . _:y :near :d . :d :near :b ; :near :a . <http://example.org/q?x=1&y=%20> :r :a .
"""


class Moody(ThreadingHTTPServer):
    """A store that caps its pages, and may be busy or broken at first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.store = oxigraph.Store()
        self.store.load(TURTLE.encode(), oxigraph.RdfFormat.TURTLE)
        self.cap = 100
        self.busy = 0
        self.says = (503, {"Retry-After": "0"})
        self.queries = list[str]()
        self.body = b"try later"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/sparql"

    def lines(self) -> set[str]:
        """The facts of the store without blank nodes, as it writes them itself."""
        text = oxigraph.serialize(
            (quad.triple for quad in self.store), format=oxigraph.RdfFormat.N_TRIPLES
        )
        return {line for line in (text or b"").decode().splitlines() if "_:" not in line}


class Answering(BaseHTTPRequestHandler):
    server: Moody

    def do_POST(self) -> None:
        query = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())["query"][0]
        self.server.queries.append(query)
        if self.server.busy:
            self.server.busy -= 1
            self._send(self.server.says[0], self.server.body, self.server.says[1])
            return
        limit = int(query.split("LIMIT ")[1].split()[0])
        capped = query.replace(f"LIMIT {limit}", f"LIMIT {min(limit, self.server.cap)}")
        try:  # results must end in the thread they began in, so no frame that stays has them
            body = self.server.store.query(capped).serialize(
                format=oxigraph.QueryResultsFormat.JSON
            )
        except SyntaxError as error:
            self._send(400, str(error).encode(), {})
            return
        self._send(200, body, {})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Moody]:
    with Moody() as server:
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def endpoint(server: Moody, **settings: object) -> Endpoint:
    return Endpoint(server.url, **({"delay": 0.0, "page": 4} | settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("cap", [1, 3, 100])
def test_all_facts_come_once_whatever_a_server_caps(
    server: Moody, tmp_path: Path, cap: int
) -> None:
    server.cap = cap
    count, whole = fetch(endpoint(server), tmp_path / "facts.nt")
    lines = (tmp_path / "facts.nt").read_text(encoding="utf-8").splitlines()
    assert sorted(lines) == sorted(server.lines())
    assert (count, whole) == (len(lines), True)
    assert [path.name for path in tmp_path.iterdir()] == ["facts.nt"]
    assert load(tmp_path / "facts.nt", literals=True).num_relations == 2 * 4


def test_a_pattern_chooses_and_most_bounds(server: Moody, tmp_path: Path) -> None:
    some = endpoint(server, pattern="?s ?p ?o . ?o <http://example.org/in> ?where")
    assert fetch(some, tmp_path / "some.nt") == (4, True)  # what leads to b or c
    assert fetch(endpoint(server), tmp_path / "few.nt", most=5) == (5, False)
    with pytest.raises(DataError, match="has no facts"):
        fetch(
            endpoint(server, pattern="?s <http://example.org/none> ?o . BIND(<x:p> AS ?p)"),
            tmp_path / "none.nt",
        )


def test_a_busy_server_is_asked_again_and_a_broken_one_is_quoted(
    server: Moody, tmp_path: Path
) -> None:
    server.busy = 2
    assert fetch(endpoint(server), tmp_path / "facts.nt")[0] == len(server.lines())
    server.busy = 1
    server.says = (403, {})
    with pytest.raises(DataError, match="403 Forbidden: try later"):
        fetch(endpoint(server), tmp_path / "other.nt")
    with pytest.raises(DataError, match="400"):
        fetch(endpoint(server, pattern="?s ?p ?o ???"), tmp_path / "wrong.nt")


def test_a_file_is_fetched_by_one_process_at_a_time(server: Moody, tmp_path: Path) -> None:
    out = tmp_path / "facts.nt"
    refused = list[str]()

    def fetch_again(facts: int) -> None:
        with pytest.raises(DataError, match="is being fetched by another process") as error:
            fetch(endpoint(server), out)
        refused.append(str(error.value))

    fetch(endpoint(server), out, progress=fetch_again)
    assert refused
    assert sorted(out.read_text(encoding="utf-8").splitlines()) == sorted(server.lines())
    assert [path.name for path in tmp_path.iterdir()] == ["facts.nt"]


def test_what_was_stopped_goes_on(server: Moody, tmp_path: Path) -> None:
    def stop(facts: int) -> None:
        if facts >= 4:
            raise KeyboardInterrupt

    out = tmp_path / "facts.nt"
    with pytest.raises(KeyboardInterrupt):
        fetch(endpoint(server), out, progress=stop)
    with out.with_name("facts.nt.part").open("ab") as file:
        file.write(b"<http://example.org/half")  # of a page that was being written
    with pytest.raises(DataError, match="delete it to start anew"):
        fetch(endpoint(server, pattern="?s ?p ?o . FILTER(?s != ?o)"), out)
    server.queries.clear()
    fetch(endpoint(server), out)
    assert "OFFSET 4" in server.queries[0]
    assert sorted(out.read_text(encoding="utf-8").splitlines()) == sorted(server.lines())


def rows(*bindings: dict[str, object]) -> bytes:
    return json.dumps({"results": {"bindings": bindings}}).encode()


def fact(o: object, p: object = None) -> dict[str, object]:
    return {"s": {"type": "uri", "value": "x:s"}, "p": p or {"type": "uri", "value": "x:p"}, "o": o}


@pytest.mark.parametrize(
    "body",
    [
        b"<html>welcome</html>",
        b'{"results": {"bindings": [{"s"',
        b"[" * 100_000,
        b'{"boolean": true}',
        b'{"results": {"bindings": {"s": 1}}}',
        rows({"s": {"type": "uri", "value": "x:s"}, "o": {"type": "uri", "value": "x:o"}}),
        rows(fact({"type": "bnode", "value": "b0"})),
        rows(fact({"type": "triple", "value": {"subject": {}}})),
        rows(fact({"type": "uri"})),
        rows(fact({"type": "uri", "value": 7})),
        rows(fact({"type": "literal", "value": "a", "xml:lang": "en .\n<x:a> <x:b> <x:c>"})),
        rows(fact({"type": "uri", "value": "x:o"}, p={"type": "literal", "value": "p"})),
    ],
)
def test_what_is_no_answer_of_an_endpoint_is_refused(
    server: Moody, tmp_path: Path, body: bytes
) -> None:
    server.busy = 1
    server.says = (200, {})
    server.body = body
    with pytest.raises(DataError, match="does not answer as a SPARQL endpoint does"):
        fetch(endpoint(server), tmp_path / "facts.nt")


def test_odd_terms_are_written_so_that_the_file_can_be_read(server: Moody, tmp_path: Path) -> None:
    values = ["http://x.org/a b", "http://x.org/{c}", "http://x.org/d\n<x:y>"]
    odd = [fact({"type": "uri", "value": value}) for value in values]
    odd += [fact({"type": "literal", "value": "half \ud800", "datatype": 'http://x.org/"t'})]
    server.busy = 1
    server.says = (200, {})
    server.body = rows(*odd)
    server.store.clear()
    assert fetch(endpoint(server), tmp_path / "facts.nt") == (4, True)
    ends = {str(quad.object) for quad in oxigraph.parse(path=str(tmp_path / "facts.nt"))}
    assert ends == {
        "<http://x.org/a%20b>",
        "<http://x.org/%7Bc%7D>",
        "<http://x.org/d%0A%3Cx:y%3E>",
        '"half ?"^^<http://x.org/%22t>',
    }


def test_a_server_that_repeats_its_first_page_is_left(server: Moody, tmp_path: Path) -> None:
    server.busy = 100
    server.says = (200, {})
    server.body = rows(*(fact({"type": "uri", "value": f"x:{number}"}) for number in range(9)))
    # though nine were sent
    assert fetch(endpoint(server), tmp_path / "one.nt", most=4) == (4, False)
    with pytest.raises(DataError, match="does not heed OFFSET"):
        fetch(endpoint(server), tmp_path / "facts.nt")
    with pytest.raises(DataError, match="does not heed OFFSET"):  # nor when it is gone on with
        fetch(endpoint(server), tmp_path / "facts.nt")


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (
            (301, {"Location": "https://example.org/sparql"}),
            "sends us to https://example.org/sparql",
        ),
        ((302, {"Location": "file:///etc/passwd"}), "sends us to file:///etc/passwd"),
        ((307, {}), "sends us to elsewhere"),
        ((206, {}), "no whole page"),
    ],
)
def test_nobody_is_followed_and_nothing_partial_taken(
    server: Moody, tmp_path: Path, says: tuple[int, dict[str, str]], message: str
) -> None:
    server.busy = 1
    server.says = says
    server.body = rows()
    with pytest.raises(DataError, match=message):
        fetch(endpoint(server), tmp_path / "facts.nt")
    assert len(server.queries) == 1


def test_an_answer_that_was_cut_short_is_asked_for_again(
    server: Moody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.graph.formats.fetching.time.sleep", lambda seconds: None)
    server.busy = 2
    server.body = rows(fact({"type": "uri", "value": "x:o"}))
    server.says = (200, {"Content-Length": str(len(server.body) + 10), "Connection": "close"})
    assert fetch(endpoint(server), tmp_path / "facts.nt")[0] == len(server.lines())
    server.busy = 1
    server.body = b"ff\r\ncut"
    server.says = (200, {"Transfer-Encoding": "chunked", "Connection": "close"})
    assert fetch(endpoint(server), tmp_path / "other.nt")[0] == len(server.lines())


def test_no_file_is_written_over_and_an_empty_try_is_forgotten(
    server: Moody, tmp_path: Path
) -> None:
    out = tmp_path / "facts.nt"
    with pytest.raises(DataError, match="has no facts"):
        fetch(endpoint(server, pattern="?s <x:none> ?o . BIND(<x:p> AS ?p)"), out)
    everything = "{ ?s ?p ?o } UNION { ?s <x:none> ?o } # all of it"  # the latter leaves ?p open
    assert fetch(endpoint(server, pattern=everything), out)[0] == len(server.lines())
    server.queries.clear()
    with pytest.raises(DataError, match="exists already"):
        fetch(endpoint(server), out)
    assert not server.queries


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "example.org/sparql", "http://", "http://a b/", "http://a:x/",
        "http://a/\n", "http://é/", "ftp://a/",
    ],
)  # fmt: skip
def test_only_web_addresses_are_asked(url: str) -> None:
    with pytest.raises(SettingsError, match="no address"):
        Endpoint(url)


@pytest.mark.parametrize(
    "wrong", [{"timeout": 1e308}, {"timeout": float("nan")}, {"delay": -1}, {"page": 0}]
)
def test_times_and_sizes_have_bounds(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=f"{next(iter(wrong))} is .*; it must be from"):
        Endpoint("http://localhost", **wrong)  # type: ignore[arg-type]


def test_python_fetches_as_the_command_does(server: Moody, tmp_path: Path) -> None:
    heard: list[Event] = []
    summary = tacit.fetch(
        server.url, tmp_path / "here.nt", most=5, page=2, delay=0, progress=heard.append
    )
    assert (summary.facts, summary.whole) == (5, False)
    assert [(event.what, event.where, event.done, event.total) for event in heard] == [
        ("count", "facts", facts, 0) for facts in (2, 4, 5)
    ]
    words = [
        "data",
        "fetch",
        server.url,
        "--out",
        str(tmp_path / "there.nt"),
        "--most",
        "5",
        "--delay",
        "0",
    ]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert (tmp_path / "here.nt").read_bytes() == (tmp_path / "there.nt").read_bytes()


@pytest.mark.parametrize(
    ("pattern", "missing"),
    [
        ("?a ?b ?c", r"\?s and \?p and \?o"),
        ("?s ?p ?object", r"\?o;"),
        ("?s <http://x?p> '?p' . ?x ?y ?o # ?p", r"\?p;"),
    ],
)
def test_a_pattern_that_names_no_facts_is_refused_before_anybody_is_asked(
    pattern: str, missing: str
) -> None:
    with pytest.raises(SettingsError, match=f"pattern '.*' says nothing of .*{missing}") as caught:
        Endpoint("http://localhost", pattern=pattern)
    assert "must be about the facts ?s ?p ?o" in str(caught.value)


@pytest.mark.parametrize(
    "pattern", ["?s ?p ?o . ?s a <x:City>", "$s $p $o", "VALUES ?p { <x:a> } ?s ?p ?o"]
)
def test_a_pattern_of_facts_is_taken(pattern: str) -> None:
    assert Endpoint("http://localhost", pattern=pattern).pattern == pattern


def test_the_limit_is_no_total() -> None:
    """The number of facts is unknown, so a bar up to the limit would be made up."""
    event = Event("count", 20_000, 0, "facts", seconds=10.0)
    assert (str(event), event.left) == ("facts: 20,000", None)
    stream = io.StringIO()
    with bar(stream, width=80) as tell:
        tell(event)
    assert "20,000" in stream.getvalue()
    assert "of" not in stream.getvalue()


def test_the_command(server: Moody, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["data", "fetch", server.url, "--out", str(tmp_path / "facts.nt"), "--delay", "0"]
    )
    assert done.output == f"wrote {len(server.lines())} facts to {tmp_path / 'facts.nt'}\n"
    wrong = CliRunner().invoke(
        app, ["data", "fetch", server.url, "--out", str(tmp_path / "facts.ttl")]
    )
    assert isinstance(wrong.exception, SettingsError)


@pytest.mark.parametrize("pages", [0, 2])
def test_the_command_says_what_an_interrupt_leaves(
    server: Moody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    def rows(endpoint: Endpoint, offset: int, most: int) -> list[bytes]:
        if offset >= 4 * pages:
            raise KeyboardInterrupt
        return whole(endpoint, offset, most)

    whole = Endpoint.rows
    out = tmp_path / "facts.nt"
    command = ["data", "fetch", server.url, "--out", str(out), "--delay", "0", "--page", "4"]
    with monkeypatch.context() as patch:
        patch.setattr(Endpoint, "rows", rows)
        stopped = CliRunner().invoke(app, command)
    note = f"; the facts so far are in {out}.part, and the same command goes on from there"
    assert (stopped.exit_code, stopped.stderr) == (130, f"interrupted{note * bool(pages)}\n")
    server.queries.clear()
    assert CliRunner().invoke(app, command).exit_code == 0
    assert server.queries[0].endswith(f"OFFSET {4 * pages}")
    assert sorted(out.read_text(encoding="utf-8").splitlines()) == sorted(server.lines())
