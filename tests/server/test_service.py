"""Questions over HTTP: the answers of the engine, and errors a person can read."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.parser import text_string_to_metric_families

from served import Running, limited, running
from served_graphs import EUROPE, open_europe
from tacit.server.monitoring import Metrics
from tacit.server.schemas import AnswersReply
from tacit.server.settings import ServerSettings

FRANCE = "?c : borders(France, ?c)"


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running(EUROPE, ServerSettings(workers=2)) as found:
        yield found


def test_a_question_is_answered_as_the_engine_does(service: Running) -> None:
    query = "?l : exists ?c . borders(France, ?c) & speaks(?c, ?l) & !borders(?c, Poland)"
    response = service.ask(query, top=5)
    assert response.status_code == 200
    assert response.json() == open_europe().ask(query, top=5).to_dict()
    assert set(service.entities(query)) == {"Spanish", "Italian"}


def test_settings_of_one_request_hold_for_it_alone(service: Running) -> None:
    query = "?c : exists ?n . borders(France, ?n) & borders(?n, ?c)"
    plain = service.ask(query).json()
    changed = service.ask(query, search="exact", logic="godel", observed="none").json()
    assert (
        changed
        == open_europe()
        .with_settings(search="exact", logic="godel", observed="none")
        .ask(query)
        .to_dict()
    )
    assert not any(row["known"] for row in changed["answers"])
    assert service.ask(query).json() == plain


def test_new_answers_are_those_that_are_not_known(service: Running) -> None:
    query = "?c : exists ?n . borders(France, ?n) & borders(?n, ?c)"
    plain, new = (
        service.ask(query, top=100, **parameters).json() for parameters in ({}, {"new": True})
    )
    known = [row["entity"] for row in plain["answers"] if row["known"]]
    assert new["left_out"] == len(known) > 0
    assert [row["entity"] for row in new["answers"]] == [
        row["entity"] for row in plain["answers"] if row["entity"] not in known
    ]
    settled = service.ask(query, search="symbolic", new=True).json()
    assert (settled["answers"], settled["left_out"]) == ([], len(known))
    refused = service.ask(query, new=True, observed="none")
    assert (refused.status_code, "new leaves out" in refused.json()["error"]["message"]) == (
        422,
        True,
    )


def test_an_explanation_names_the_facts(service: Running) -> None:
    response = service.client.post(
        "/explain",
        json={"query": "?c : exists ?n . borders(France, ?n) & borders(?n, ?c)", "top": 3},
    )
    portugal = next(row for row in response.json()["answers"] if row["entity"] == "Portugal")
    (witness,) = portugal["witnesses"]
    assert witness["variables"] == witness["labels"] == {"n": "Spain"}
    facts = {
        (atom["subject"], atom["relation"], atom["object"], atom["observed"])
        for atom in witness["atoms"]
    }
    assert facts == {("France", "borders", "Spain", True), ("Spain", "borders", "Portugal", True)}


@pytest.mark.parametrize(
    ("query", "kind", "first"),
    [
        ("?c, ?l : borders(France, ?c) & speaks(?c, ?l)", "tuples", {"c": "Spain", "l": "Spanish"}),
        (": borders(France, Spain)", "truth", {}),
        ("?r : ?r(France, Spain)", "relations", {"r": "borders"}),
        ("count ?c : borders(France, ?c)", "count", None),
    ],
)
def test_every_kind_of_question_is_answered(
    service: Running, query: str, kind: str, first: dict[str, str] | None
) -> None:
    for path in ("/ask", "/explain"):
        reply = service.client.post(path, json={"query": query}).json()
        assert reply == open_europe().ask(query, explain=path == "/explain").to_dict()
        assert AnswersReply.model_validate(reply, strict=True).kind == kind
        if first is None:
            assert (reply["count"]["known"], reply["answers"]) == (3, [])
        else:
            assert (reply["answers"][0]["values"], reply["answers"][0]["known"]) == (first, True)
            assert ("entity" in reply["answers"][0]) == (kind == "relations")


def test_a_question_may_be_sparql(service: Running) -> None:
    answers = service.ask("PREFIX : <tacit:> SELECT ?c { :France :borders ?c } LIMIT 2").json()
    assert answers == open_europe().ask("?c : borders(France, ?c)", top=2).to_dict() | {
        "cut_by": "LIMIT"
    }


def test_a_plan_is_told_without_asking(service: Running) -> None:
    response = service.client.post(
        "/plan", json={"query": "?c : borders(France, ?n) & borders(?n, ?c)", "k": 8}
    )
    assert response.json()["query"] == "?c : exists ?n . borders(France, ?n) & borders(?n, ?c)"
    assert "?n: from France over borders" in response.json()["plan"]
    assert "k = 8" in response.json()["plan"]


def test_names_are_completed(service: Running) -> None:
    found = service.client.get("/entities", params={"q": "sp"}).json()["matches"]
    assert [match["label"] for match in found] == ["Spain", "Spanish"]
    york = service.client.get("/entities", params={"q": "yor"}).json()["matches"]
    assert york == [{"label": "New York", "name": "New York", "text": '"New York"'}]
    relations = service.client.get("/relations").json()["matches"]
    assert [match["label"] for match in relations] == ["borders", "speaks"]


def test_every_example_has_answers(service: Running) -> None:
    examples = service.client.get("/examples").json()["examples"]
    assert {"1p", "2p", "2in"} <= {example["shape"] for example in examples}
    known = {
        example["shape"]: open_europe().with_settings(search="symbolic").ask(example["query"])
        for example in examples
    }
    assert [shape for shape, answers in known.items() if not answers] == []


@pytest.mark.parametrize(
    ("body", "status", "column", "words"),
    [
        ({"query": "?c : boarders(France, ?c)"}, 422, 6, "did you mean 'borders'?"),
        ({"query": "?c : borders(France ?c)"}, 422, 21, "',' should follow"),
        ({"query": "?c : borders(Frnace, ?c)"}, 422, 14, "did you mean 'France'?"),
        ({"query": "?c : borders(France, ?c)", "k": 5000}, 422, None,
         "k is 5000, this service allows at most 4096"),
        ({"query": "?c : borders(France, ?c)", "top": 5000}, 422, None, "top is 5000"),
        ({"query": "?c : borders(France, ?c)", "k": 0}, 422, None,
         "'k': input should be greater than or equal to 1"),
        ({"query": "?c : borders(France, ?c)", "beam": 3}, 422, None,
         "'beam': extra inputs are not permitted"),
        ({"query": "?c : borders(France, ?c)", "search": "magic"}, 422, None,
         "search is 'magic'; it must be one of"),
        ({"query": 7}, 422, None, "'query': input should be a valid string"),
        ({}, 422, None, "'query': field required"),
        ("?c : borders(France, ?c)", 422, None, "the request: input should be a valid dictionary"),
        ([], 422, None, "the request: list should have at least 1 item"),
        ([{"query": FRANCE}, {"query": FRANCE, "top": 0}], 422, None,
         "'1.top': input should be greater than"),
        ([{"query": FRANCE}] * 101, 422, None,
         "101 questions at once, this service allows at most 100"),
        ([{"query": FRANCE, "top": 600}] * 2, 422, None,
         "top is 1200 of all questions together, this service allows"),
        ({"query": FRANCE, "offset": 100_001}, 422, None,
         "offset is 100001, this service allows at most 100000"),
        ({"query": FRANCE, "min_score": 1.5}, 422, None,
         "'min_score': input should be less than or equal to 1"),
        ({"query": "?c : borders($who, ?c)"}, 422, None, "parameter $who has no value"),
        ({"query": FRANCE, "parameters": {"who": "x"}}, 422, None,
         "the question has no parameter 'who'"),
        ({"query": FRANCE, "parameters": {"who": 7}}, 422, None,
         "'parameters.who': input should be a valid string"),
        ({"query": "?c : " + " & ".join(["borders(France, ?c)"] * 33)}, 422, None,
         "33 atoms, this service"),
        ({"query": "?c : " + "!" * 40 + "borders(France, ?c)"}, 422, None,
         "levels deep, this service"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_with_its_place(
    service: Running, body: object, status: int, column: int | None, words: str
) -> None:
    response = service.client.post("/ask", json=body)
    error = response.json()["error"]
    assert (response.status_code, error["column"]) == (status, column)
    assert words in error["message"]
    assert "\n" not in error["message"]


def test_reasons_are_limited_too(service: Running) -> None:
    response = service.client.post("/explain", json={"query": FRANCE, "paths": 10**6})
    assert response.status_code == 422
    assert response.json()["error"]["message"].startswith(
        "paths is 1000000, this service allows at most"
    )


@pytest.mark.parametrize("route", ["ask", "explain", "plan", "read"])
def test_a_setting_in_the_address_is_not_passed_over(service: Running, route: str) -> None:
    response = service.client.post(f"/{route}?new=true", json={"query": FRANCE})
    assert response.status_code == 422
    assert response.json()["error"]["message"].startswith(
        "'new' is in the address, where only 'run' may be"
    )


@pytest.mark.parametrize(
    "body", [b'{"query": "Fran\xe7ois"}', b'{"query": "x", "top": ' + b"9" * 5000 + b"}"]
)
def test_a_body_that_cannot_be_parsed_is_named(service: Running, body: bytes) -> None:
    response = service.client.post(
        "/ask", content=body, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(
        "the request is not JSON: it is not UTF-8"
    )


def test_a_list_of_questions_has_the_reply_to_each_in_its_place(service: Running) -> None:
    requests: list[dict[str, object]] = [
        {"query": "?c : borders($who, ?c)", "parameters": {"who": "New York"}, "top": 1},
        {"query": "?c : boarders(France, ?c)"},
        {"query": FRANCE, "top": 2, "offset": 1},
        {"query": FRANCE, "min_score": 0.5, "new": True},
        {"query": FRANCE, "k": 5000},
        {"query": FRANCE},
    ]
    together = service.client.post("/ask", json=requests)
    assert together.status_code == 200
    assert together.json() == [service.client.post("/ask", json=each).json() for each in requests]
    first, wrong, page, none, large, whole = together.json()
    assert [row["entity"] for row in first["answers"]] == ["Nowhere"]
    assert wrong["error"]["suggestions"] == ["borders"]
    assert "k is 5000" in large["error"]["message"]
    assert page["answers"] == whole["answers"][1:3]
    # what is known scores well, and is left out
    assert (none["answers"], none["left_out"]) == ([], 3)


def test_a_wrong_question_does_not_spoil_its_batch(service: Running) -> None:
    queries = ["?c : borders(Portugal, ?c)", "?c : borders(Portugol, ?c)"] * 8
    with ThreadPoolExecutor(len(queries)) as threads:
        responses = list(threads.map(service.ask, queries))
    assert [response.status_code for response in responses] == [200, 422] * 8
    assert {r.json()["answers"][0]["entity"] for r in responses[::2]} == {"Spain"}


def test_questions_asked_together_are_answered_together(service: Running) -> None:
    def batches() -> tuple[int, int]:
        text = service.client.get("/metrics").text
        found = [
            re.search(rf"^tacit_batch_size_{name}{{run=\"only\"}} (\S+)$", text, re.MULTILINE)
            for name in ("count", "sum")
        ]
        return int(float(found[0][1])), int(float(found[1][1]))  # type: ignore[index]

    service.ask("?c : borders(France, ?c)")  # times the structure
    before = batches()
    with ThreadPoolExecutor(24) as threads:
        list(threads.map(service.ask, ["?c : borders(France, ?c)", "?c : borders(Spain, ?c)"] * 24))
    runs, questions = (after - earlier for after, earlier in zip(batches(), before, strict=True))
    assert questions == 48
    assert runs < 40


def test_requests_are_counted(service: Running) -> None:
    service.client.get("/nowhere/<script>")
    text = service.client.get("/metrics").text
    assert 'tacit_requests_total{route="other",status="404"}' in text
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    count = samples["tacit_requests_total", "/ask", "200"]
    assert count >= 1
    assert samples["tacit_request_seconds_count", "/ask"] >= count
    assert samples["tacit_workers", "only"] == 2
    assert samples["tacit_queue_length", "only"] == 0
    assert samples["tacit_worker_restarts_total", "only"] == 0
    assert "script" not in text


def test_two_services_count_apart() -> None:
    first = Metrics()
    second = Metrics()
    for each in (first, second):
        each.restarts.labels("world")
    first.restarts.labels("world").inc()
    counted = [
        each.registry.get_sample_value("tacit_worker_restarts_total", {"run": "world"})
        for each in (first, second)
    ]
    assert counted == [1, 0]


def test_every_reply_forbids_what_the_page_does_not_need(service: Running) -> None:
    for path in ("/", "/health", "/nowhere", "/static/nothing.js"):
        headers = service.client.get(path).headers
        assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers


def test_the_health_says_what_is_served(service: Running) -> None:
    health = service.client.get("/health").json()
    assert health["status"] == "ok"
    counts = {"entities": 15, "relations": 2, "facts": 18, "attributes": 0}
    assert health["graph"] == {"name": "europe"} | counts
    assert health["workers"] == {"alive": 2, "wanted": 2}
    assert health["settings"]["k"] == 256


def test_other_names_for_this_machine_are_refused(service: Running) -> None:
    response = service.client.get("/health", headers={"host": "rebound.example"})
    assert response.status_code == 403
    assert response.json()["error"]["message"].startswith(
        "this service goes by 127.0.0.1, ::1, localhost alone"
    )
    assert response.headers["x-frame-options"] == "DENY"
    for name in ("localhost:8000", "[::1]:8000", "LOCALHOST"):
        assert service.client.get("/health", headers={"host": name}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/", "/health", "/entities?q=sp", "/metrics", "/openapi.json", "/nowhere", "/ask"]
)
def test_head_is_a_get_without_its_body(service: Running, path: str) -> None:
    whole = service.client.get(path)
    head = service.client.head(path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]
    if path != "/metrics":  # which counts this very request
        assert head.headers["content-length"] == str(len(whole.content))


@pytest.mark.parametrize("path", ["/ask", "/explain", "/plan", "/entities", "/"])
def test_a_form_of_many_fields_is_no_fault(service: Running, path: str) -> None:
    refused = service.client.post(path, data={f"field{i}": "x" for i in range(25)})
    assert refused.status_code in (405, 422)
    assert refused.json()["error"]["message"]


def test_without_a_list_no_other_page_may_ask(service: Running) -> None:
    response = service.client.get("/health", headers={"origin": "https://there.example"})
    assert "access-control-allow-origin" not in response.headers


def test_limits_are_those_that_were_set() -> None:
    with running(EUROPE, limited(body=300, k=7)) as service:
        assert service.ask("?c : borders(Portugal, ?c)", k=7).status_code == 200
        assert service.ask("?c : borders(Portugal, ?c)", k=8).status_code == 422
        large = service.ask("?c : borders(Portugal, ?c)" + " " * 300)
        assert large.status_code == 413
        assert "300 bytes" in large.json()["error"]["message"]


def test_a_reply_is_sent_at_once(service: Running) -> None:
    service.ask("?c : borders(France, ?c)")
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        service.client.get("/health")
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.02  # a reply held back for the next packet takes 0.04
