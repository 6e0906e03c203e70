"""A run in Python has the service's words, names, facts and examples."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import tacit
from served import Running, running
from served_graphs import europe
from tacit.errors import SettingsError
from tacit.server.served_run import ServedRun
from tacit.server.settings import Limits, ServerSettings


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tacit.Run:
    folder = tmp_path_factory.mktemp("runs") / "europe"
    small: dict[str, Any] = {"rank": 4, "epochs": 1, "batch": 8, "device": "cpu"}
    return tacit.train(europe(), folder, progress=False, **small)


@pytest.fixture(scope="module")
def served(run: tacit.Run) -> Iterator[Running]:
    with running(ServedRun.of(run), ServerSettings(workers=1)) as service:
        yield service


def get_json(served: Running, path: str, **parameters: object) -> Any:
    response = served.client.get(path, params=parameters)  # type: ignore[arg-type]
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize(
    "question",
    [
        "?c : borders(France, ?c) & !speaks(?c, German)",
        "?c : borders(?c, ?d) & borders(?d, ?c)",
        "PREFIX : <tacit:> SELECT ?c { :France :borders ?c }",
    ],
)
def test_a_question_is_told_in_the_same_words(
    run: tacit.Run, served: Running, question: str
) -> None:
    assert run.paraphrase(question) == served.client.post("/read", json={"query": question}).json()


def test_names_are_completed_alike(run: tacit.Run, served: Running) -> None:
    assert run.entities("ger") == get_json(served, "/entities", q="ger")["matches"]
    near = run.entities("ger", 1, relation="speaks", end="subject")
    assert [row["label"] for row in near] == ["Germany"]
    assert (
        near
        == get_json(served, "/entities", q="ger", limit=1, relation="speaks", end="subject")[
            "matches"
        ]
    )
    assert run.relations("bo") == get_json(served, "/relations", q="bo")["matches"]
    assert [row["words"] for row in run.relations()] == ["borders", "speaks"]


def test_examples_are_the_same(run: tacit.Run, served: Running) -> None:
    assert run.examples() == get_json(served, "/examples")["examples"]
    assert all(run.ask(example["query"]).entities for example in run.examples())


def test_facts_about_an_entity_are_the_same(run: tacit.Run, served: Running) -> None:
    known = run.facts("France")
    assert known.to_dict() == get_json(served, "/entity", label="France")
    assert [(each.relation, each.count) for each in known.relations] == [
        ("borders", 3),
        ("speaks", 1),
        ("borders^-1", 3),
    ]
    assert run.facts("French", "speaks^-1").relations[0].facts[0].entity == "France"
    guessed = run.facts("France", predicted=True, min_score=0.05)
    assert guessed.to_dict() == get_json(
        served, "/entity/predictions", label="France", min_score=0.05
    )
    with pytest.raises(tacit.TacitError, match="'Frnce'"):
        run.facts("Frnce")


def test_a_run_is_served_from_python_as_it_was_opened(run: tacit.Run) -> None:
    replies: list[Any] = []

    def visit(address: str) -> None:
        try:
            replies.append(httpx.get(f"{address}health").json())
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    def ready(service: object, address: str) -> None:
        threading.Thread(target=visit, args=[address], daemon=True).start()

    opened = tacit.open(run.folder.path, device="cpu", k=7)
    with pytest.raises(KeyboardInterrupt):
        tacit.serve(opened, ready=ready, port=0, workers=1, limits=Limits(top=5))
    (health,) = replies
    assert health["runs"] == ["europe"]
    assert health["limits"]["top"] == 5
    assert health["settings"]["k"] == 7


def test_settings_of_a_service_are_checked_first() -> None:
    with pytest.raises(SettingsError, match="unknown service setting 'prt'; did you mean 'port'"):
        tacit.serve("nowhere", prt=1)
