"""Answers and questions that leave the page: CSV, JSON, Python and the command line."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from typing import Any

from served import Running
from tacit.query.question import parse_question
from visits import Visit, needs_chromium

pytestmark = needs_chromium


def test_answers_and_question_leave_in_forms_that_others_read(
    visit: Visit, europe_service: Running
) -> None:
    page = visit.page
    question = '?x : borders("New York", ?x) & !speaks(?x, "it\'s")'
    page.route("**/ask", lambda route: route.continue_())
    page.fill("#question", question.replace("it's", "German"))
    page.keyboard.press("Enter")
    answers = visit.answers()
    expected = europe_service.ask(question.replace("it's", "German")).json()["answers"]
    rows = list(csv.DictReader(io.StringIO(visit.saved("CSV"), newline="")))
    assert [each["entity"] for each in rows] == answers == [each["entity"] for each in expected]
    assert [float(each["score"]) for each in rows] == [each["score"] for each in expected]
    assert [each["entity"] for each in json.loads(visit.saved("JSON"))["answers"]] == answers
    texts = {}
    for name in ("SPARQL", "curl", "Python"):
        page.locator(".taking").get_by_role("button", name=name, exact=True).click()
        page.locator(
            ".snippet pre", has_text={"SPARQL": "SELECT", "curl": "curl", "Python": "import"}[name]
        ).wait_for()
        texts[name] = page.locator(".snippet pre").inner_text()
    sparql = europe_service.ask(texts["SPARQL"]).json()["answers"]
    assert [each["entity"] for each in sparql] == answers
    assert parse_question(texts["SPARQL"]).query
    ran = subprocess.run(
        ["bash", "-c", texts["curl"]], capture_output=True, text=True, timeout=30, check=True
    )
    assert [each["entity"] for each in json.loads(ran.stdout)["answers"]] == answers
    ran = subprocess.run(
        [sys.executable, "-c", texts["Python"]],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert [line.split("\t")[1] for line in ran.stdout.splitlines()] == answers


WRITE = """async () => {
    const { csv, curl, python } = await import("/static/taking.js");
    const answers = [{ rank: 1, entity: 'a,"b"', name: "line\\nbreak", score: 0.5, known: true }];
    const body = { query: `?x : r("it's", ?x)`, top: 3, new: true };
    return [csv({ answers }), curl(body, "http://127.0.0.1:9"), python(body, "http://127.0.0.1:9")];
}"""


def test_quotes_in_names_survive(visit: Visit) -> None:
    table, curl, python = visit.page.evaluate(WRITE)
    (only,) = csv.DictReader(io.StringIO(table, newline=""))
    assert (only["entity"], only["name"], only["known"]) == ('a,"b"', "line\nbreak", "true")
    process = subprocess.run(
        ["bash", "-c", curl.replace("curl", "printf '%s\\n'", 1)], capture_output=True, text=True
    )
    assert json.loads(process.stdout.splitlines()[-1]) == {
        "query": '?x : r("it\'s", ?x)',
        "top": 3,
        "new": True,
    }
    names: dict[str, Any] = {}
    exec(python.split("headers =")[0], names)
    assert names["question"] == {"query": '?x : r("it\'s", ?x)', "top": 3, "new": True}
