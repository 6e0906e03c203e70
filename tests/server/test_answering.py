"""What a worker does with jobs: settings of a request on top of the service's own, LIMIT, plans."""

from __future__ import annotations

import json
from typing import Any

import pytest

from served_graphs import open_europe
from tacit.engine.answers.answers import Answers
from tacit.engine.engine import Engine
from tacit.engine.questions import BoundQuery
from tacit.graph.graph import Graph
from tacit.links.models import make_model
from tacit.server.settings import Limits
from tacit.server.workers.answering import Answerer
from tacit.server.workers.jobs import EntityJob, Job, Kind

BORDERS = "PREFIX : <tacit:> SELECT ?c {{ :France :borders ?c }} LIMIT {}"


def data(*jobs: Job) -> list[Any]:
    return [json.loads(reply.body) for reply in Answerer(open_europe(), Limits()).replies(jobs)]


def test_continuous_search_works_whatever_the_calibration_of_the_service() -> None:
    graph = Graph.of([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "c")])
    engine = Engine(
        graph, make_model("complex", graph.num_entities, graph.num_relations, 4), steps=2
    )
    assert not engine.atoms.calibration.capabilities.pointwise
    reply = Answerer(engine, Limits()).replies(
        [Job("ask", "?x : r(a, ?x)", changes=(("search", "continuous"),))]
    )[0]
    assert reply.status == 200
    assert {row["entity"] for row in json.loads(reply.body)["answers"]} == {"a", "b", "c"}


@pytest.mark.parametrize("kind", ["ask", "explain", "sparql"])
def test_questions_answered_together_keep_their_own_limit(kind: Kind) -> None:
    jobs = [Job(kind, BORDERS.format(limit), top=3) for limit in (2, 0, 1, 9)]
    assert len({job.key for job in jobs}) == 1
    rows = [
        reply["results"]["bindings"] if kind == "sparql" else reply["answers"]
        for reply in data(*jobs)
    ]
    most = 9 if kind == "sparql" else 3  # which has its own way to say how many
    assert [len(each) for each in rows] == [2, 0, 1, most]
    names = [[row.get("entity") or row["c"]["value"] for row in each] for each in rows]
    assert names == [names[3][:limit] for limit in (2, 0, 1, most)]


def test_a_question_in_the_text_syntax_is_no_sparql() -> None:
    (reply,) = data(Job("sparql", "?c : borders(France, ?c)"))
    assert reply["error"]["message"].startswith("this is not a SPARQL query")


def test_entities_are_told_of_one_by_one_and_what_is_asked_twice_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Predicting takes up to half the deadline; two pages in one batch would both fail."""
    known = EntityJob("entity", "France")
    predicted = EntityJob("entity", "France", predicted=True)
    others = (
        EntityJob("entity", "Spain", predicted=True),
        EntityJob("entity", "France", relation="speaks"),
    )
    assert len({job.key for job in (known, predicted, *others)}) == 4
    again = EntityJob("entity", "France")
    assert again.key == known.key
    questions: list[str] = []
    entity_reply = Answerer._entity
    monkeypatch.setattr(
        Answerer,
        "_entity",
        lambda self, job: (questions.append(job.question), entity_reply(self, job))[1],
    )
    first, second = data(known, again)
    assert first == second
    assert first["entity"] == "France"
    assert questions == ["France"]


def test_a_question_that_fails_keeps_no_other_from_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = open_europe()
    batches = list[int]()
    together = Engine.ask_many

    def failing(self: Engine, questions: list[BoundQuery], **options: Any) -> list[Answers]:
        batches.append(len(questions))
        if any("Italy" in str(each.query) for each in questions):
            raise ValueError("a fault")
        return together(self, questions, **options)

    monkeypatch.setattr(Engine, "ask_many", failing)
    names = ("Spain", "Italy", "Atlantis", "Spain")
    replies = Answerer(engine, Limits()).replies(
        [Job("ask", f"?c : borders({name}, ?c)") for name in names]
    )
    assert [reply.status for reply in replies] == [200, 500, 422, 200]
    assert replies[0] == replies[3]
    assert "because of a fault in Tacit" in json.loads(replies[1].body)["error"]["message"]
    assert "unknown entity 'Atlantis'" in json.loads(replies[2].body)["error"]["message"]
    assert batches == [1, 1]  # what is asked twice is answered once


def test_a_plan_counts_the_candidates_that_the_search_keeps() -> None:
    question = "?c : borders(France, ?n) & borders(?n, ?c)"
    searches = ("beam", "exact")
    plans = [
        data(Job("plan", question, changes=(("search", s), ("k", 2))))[0]["plan"] for s in searches
    ]
    # One row finds the neighbours of France; the beam projects 2 of them, exact search all 15.
    assert [plan.splitlines()[-1].split(":")[1].split()[0] for plan in plans] == ["3", "16"]
