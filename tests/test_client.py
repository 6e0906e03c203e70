"""The client of one file, against a served graph and against servers that are none of ours."""

from __future__ import annotations

import ast
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import tacit.client
from served import running
from served_graphs import EUROPE, open_europe
from tacit.client import Client, ServiceError
from tacit.server.settings import Limits, ServerSettings

QUERY = "?c : borders(France, ?c) & !speaks(?c, German)"
SECRET = "letmein"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with running(EUROPE, ServerSettings(workers=1, api_key=SECRET)) as service:
        yield Client(service.url, key=SECRET)


def test_answers_are_those_of_the_engine(client: Client) -> None:
    engine = open_europe()
    assert client.ask(QUERY, top=3) == engine.ask(QUERY, top=3).to_dict()
    assert (
        client.ask(QUERY, search="exact", new=True)
        == engine.with_settings(search="exact", new=True).ask(QUERY).to_dict()
    )
    explained = client.explain(QUERY, top=1, paths=2)
    assert explained == engine.explain(QUERY, top=1, paths=2).to_dict()
    assert explained["answers"][0]["witnesses"]
    assert "borders" in client.plan(QUERY)


def test_what_names_no_number_gets_what_the_service_allows() -> None:
    engine = open_europe()
    with running(EUROPE, ServerSettings(workers=1, limits=Limits(top=3))) as service:
        limited = Client(service.url)
        assert limited.ask(QUERY) == engine.ask(QUERY, top=3).to_dict()
        assert limited.explain(QUERY) == engine.explain(QUERY, top=3).to_dict()
        # three answers for two questions: one each
        assert [len(reply["answers"]) for reply in limited.ask_many([QUERY, QUERY])] == [1, 1]
        for path in ("/entity", "/entity/predictions"):
            response = service.client.get(path, params={"label": "France"})
            assert response.status_code == 200, response.text
            assert all(len(each["facts"]) <= 3 for each in response.json()["relations"])
        with pytest.raises(ServiceError, match="top is 4, this service allows at most 3"):
            limited.ask(QUERY, top=4)


def test_names_health_and_sparql(client: Client) -> None:
    assert [match["label"] for match in client.entities("Ger")] == ["German", "Germany"]
    assert [match["text"] for match in client.entities("new", limit=1)] == ['"New York"']
    assert [match["label"] for match in client.relations("b", limit=1)] == ["borders"]
    assert client.health()["graph"]["name"] == "europe"
    sparql = "PREFIX : <tacit:> SELECT ?c { :Portugal :borders ?c } LIMIT 1"
    assert client.sparql(sparql)["results"]["bindings"][0]["c"]["value"] == "tacit:Spain"
    assert client.sparql(sparql, new=True)["results"]["bindings"][0]["c"]["value"] != "tacit:Spain"


def test_an_error_has_the_words_of_the_service(client: Client) -> None:
    with pytest.raises(
        ServiceError, match=r"^unknown relation 'boarders' at column 6; did you mean 'borders'\?$"
    ) as found:
        client.ask("?c : boarders(France, ?c)")
    assert (found.value.status, found.value.line, found.value.column) == (422, 1, 6)
    assert found.value.suggestions == ("borders",)
    with pytest.raises(ServiceError, match="top") as found:
        client.ask(QUERY, top=0)
    assert found.value.status == 422
    for key in (None, "wrong"):
        with pytest.raises(ServiceError) as found:
            Client(client.url, key=key).ask(QUERY)
        assert found.value.status == 401
    assert SECRET not in repr(client)


@contextmanager
def answering(
    status: int, body: bytes, **headers: str
) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Run a server with one fixed reply, and record the requests that it receives."""
    heard: list[tuple[str, bytes]] = []

    class Saying(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Saying) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", heard
        server.shutdown()
        thread.join(10)


@pytest.mark.parametrize(
    ("status", "body", "headers", "message"),
    [
        (200, b"<html>", {}, "replies with something else than JSON; is it Tacit?"),
        (502, b"<html>", {}, "answers 502 Bad Gateway"),
        (500, b'{"error": 3}', {}, "answers 500 Internal Server Error"),
        (
            302,
            b"",
            {"Location": "http://elsewhere.org/"},
            "sends us to http://elsewhere.org/; give that address",
        ),
    ],
)
def test_what_is_no_service_is_told(
    status: int, body: bytes, headers: dict[str, str], message: str
) -> None:
    with answering(status, body, **headers) as (url, heard), pytest.raises(ServiceError) as found:
        Client(url, key="k").ask(QUERY)
    assert message in str(found.value)
    assert found.value.status == (None if status == 200 else status)
    assert len(heard) == 1


@pytest.mark.parametrize("key", ["s3cret\n", "s3cr\u0117t"])
def test_a_key_that_no_request_can_bring_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(
        ServiceError, match="the key holds a line break, or a letter beyond ASCII"
    ) as found:
        Client("http://127.0.0.1:1", key=key, timeout=5).health()
    assert "s3cr" not in str(found.value)


def test_nobody_there_and_no_address() -> None:
    with pytest.raises(ServiceError, match="does not answer") as found:
        Client("http://127.0.0.1:1", timeout=5).ask(QUERY)
    assert found.value.status is None
    for url in ("file:///etc", "localhost:8000", "http://[", "http://a b/"):
        with pytest.raises(ServiceError):
            Client(url, timeout=5).ask(QUERY)


def test_runs_and_many_questions_are_asked_for() -> None:
    with answering(200, b'[{"answers": []}, {"error": {"message": "no"}}]') as (url, heard):
        replies = Client(url + "/", run="my run").ask_many(
            ["?x : a(b, ?x)", "no"], top=2, min_score=0.5
        )
        assert replies == [{"answers": []}, {"error": {"message": "no"}}]
        assert Client(url).ask_many([]) == []
        with pytest.raises(ServiceError, match="ask_many takes a list of questions; ask takes one"):
            Client(url).ask_many("?x : a(b, ?x)")
    ((path, body),) = heard
    assert path == "/ask?run=my+run"
    assert json.loads(body) == [
        {"query": "?x : a(b, ?x)", "top": 2, "min_score": 0.5},
        {"query": "no", "top": 2, "min_score": 0.5},
    ]


def test_facts_are_sent_to_be_added_and_removed(client: Client) -> None:
    with answering(200, b'{"added": 1}') as (url, heard):
        assert Client(url).add(iter([("Atlantis", "borders", "France")])) == {"added": 1}
        Client(url, run="mine").remove([["Atlantis", "borders", "France"]])
        Client(url).add([("Atlantis", "borders", "France")], new=True)
    body = {"facts": [["Atlantis", "borders", "France"]]}
    assert [(path, json.loads(sent)) for path, sent in heard] == [
        ("/facts", body),
        ("/facts/remove?run=mine", body),
        ("/facts", body | {"new": True}),
    ]
    with pytest.raises(ServiceError, match="is no run folder") as found:
        client.add([("Atlantis", "borders", "France")])
    assert found.value.status == 422


def test_it_needs_the_standard_library_alone() -> None:
    tree = ast.parse(Path(tacit.client.__file__).read_text(encoding="utf-8"))
    imported = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    imported += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names | {"__future__"}
