"""Thirty questions in English about `world`, as an agent asks them, half of them wrong at first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agents import Agent, by_http, by_process, connected
from quick_world import quick_world
from served import running
from tacit.graph.datasets import load
from tacit.server.served_run import ServedRun
from tacit.server.settings import ServerSettings


class Facts:
    """The facts of `world` as plain sets, to answer questions by hand."""

    def __init__(self) -> None:
        graph = load("world")
        names = graph.entities, graph.relations
        self.pairs: dict[str, set[tuple[str, str]]] = {}
        for head, relation, tail in graph.facts().tolist():
            pair = names[0][head], names[0][tail]
            self.pairs.setdefault(names[1][relation], set()).add(pair)

    def to(self, relation: str, *subjects: str) -> set[str]:
        """What a relation leads to from any of some subjects."""
        return {b for a, b in self.pairs[relation] if a in subjects}

    def of(self, relation: str, *objects: str) -> set[str]:
        """From where a relation leads to any of some objects."""
        return {a for a, b in self.pairs[relation] if b in objects}


@dataclass(frozen=True)
class Asked:
    """A question in English, what an agent writes, and its known answers by sets.

    Where it writes something wrong `first`, the error must have `hint`, which the formula has too.
    """

    english: str
    formula: str
    answers: Callable[[Facts], set[str]]
    first: str = ""
    hint: str = ""


QUESTIONS = [
    Asked("What borders France?", "?c : borders(France, ?c)",
          lambda f: f.to("borders", "France")),
    Asked("Which of France's neighbours speak German?",
          "?c : borders(France, ?c) & speaks(?c, German)",
          lambda f: f.to("borders", "France") & f.of("speaks", "German")),
    Asked("Where is the euro used in Africa?",
          "?c : uses_currency(?c, Euro) & in_continent(?c, Africa)",
          lambda f: f.of("uses_currency", "Euro") & f.of("in_continent", "Africa")),
    Asked("What is the capital of Japan?", "?c : capital_of(?c, Japan)",
          lambda f: f.of("capital_of", "Japan")),
    Asked("Which cities are in Kenya?", "?c : city_in(?c, Kenya)",
          lambda f: f.of("city_in", "Kenya")),
    Asked("What are the capitals of Spain's neighbours?",
          "?c : borders(Spain, ?n) & capital_of(?c, ?n)",
          lambda f: f.of("capital_of", *f.to("borders", "Spain"))),
    Asked("Which currencies do Brazil's neighbours use?",
          "?m : exists ?n . borders(Brazil, ?n) & uses_currency(?n, ?m)",
          lambda f: f.to("uses_currency", *f.to("borders", "Brazil"))),
    Asked("What borders both Austria and Italy?", "?c : borders(Austria, ?c) & borders(Italy, ?c)",
          lambda f: f.to("borders", "Austria") & f.to("borders", "Italy")),
    Asked("What borders Chile or Uruguay?", "?c : borders(Chile, ?c) | borders(Uruguay, ?c)",
          lambda f: f.to("borders", "Chile", "Uruguay")),
    Asked("Which neighbours of Germany do not use the euro?",
          "?c : borders(Germany, ?c) & !uses_currency(?c, Euro)",
          lambda f: f.to("borders", "Germany") - f.of("uses_currency", "Euro")),
    Asked("In which time zones are cities of Mexico?",
          "?z : city_in(?c, Mexico) & in_timezone(?c, ?z)",
          lambda f: f.to("in_timezone", *f.of("city_in", "Mexico"))),
    Asked("Where is Portuguese an official language?", "?c : official_language(?c, Portuguese)",
          lambda f: f.of("official_language", "Portuguese")),
    Asked("On which continent is Lagos's country?",
          "?k : city_in(Lagos, ?c) & in_continent(?c, ?k)",
          lambda f: f.to("in_continent", *f.to("city_in", "Lagos"))),
    Asked("What borders a neighbour of Portugal, other than Portugal?",
          "?c : borders(Portugal, ?n) & borders(?n, ?c) & ?c != Portugal",
          lambda f: f.to("borders", *f.to("borders", "Portugal")) - {"Portugal"}),
    Asked("Which countries of South America border no neighbour of Peru?",
          '?c : in_continent(?c, "South America") & !(borders(Peru, ?n) & borders(?n, ?c))',
          lambda f: f.of("in_continent", "South America")
          - f.to("borders", *f.to("borders", "Peru"))),
    # wrong at first: names of relations
    Asked("What borders Poland?", "?c : borders(Poland, ?c)",
          lambda f: f.to("borders", "Poland"), "?c : boarders(Poland, ?c)", "borders"),
    Asked("What is the capital of Peru?", "?c : capital_of(?c, Peru)",
          lambda f: f.of("capital_of", "Peru"), "?c : capital(?c, Peru)", "capital_of"),
    Asked("What is paid with in Japan?", "?m : uses_currency(Japan, ?m)",
          lambda f: f.to("uses_currency", "Japan"), "?m : currency(Japan, ?m)", "uses_currency"),
    Asked("Which time zones has Canada?", "?z : has_timezone(Canada, ?z)",
          lambda f: f.to("has_timezone", "Canada"), "?z : timezone(Canada, ?z)", "has_timezone"),
    Asked("What is the official language of Egypt?", "?l : official_language(Egypt, ?l)",
          lambda f: f.to("official_language", "Egypt"), "?l : official_lang(Egypt, ?l)",
          "official_language"),
    # names of entities
    Asked("What borders Brazil?", "?c : borders(Brazil, ?c)",
          lambda f: f.to("borders", "Brazil"), "?c : borders(Brasil, ?c)", "Brazil"),
    Asked("Where is Portuguese spoken in Africa?",
          "?c : speaks(?c, Portuguese) & in_continent(?c, Africa)",
          lambda f: f.of("speaks", "Portuguese") & f.of("in_continent", "Africa"),
          "?c : speaks(?c, Portugese) & in_continent(?c, Africa)", "Portuguese"),
    Asked("Which cities are in Germany?", "?c : city_in(?c, Germany)",
          lambda f: f.of("city_in", "Germany"), "?c : city_in(?c, Germny)", "Germany"),
    # syntax
    Asked("Which cities are in New Zealand?", '?c : city_in(?c, "New Zealand")',
          lambda f: f.of("city_in", "New Zealand"), "?c : city_in(?c, New Zealand)", '"New'),
    Asked("What borders France but not Spain?", "?c : borders(France, ?c) & ?c != Spain",
          lambda f: f.to("borders", "France") - {"Spain"},
          "?c : borders(France, ?c) & ?c = Spain", "!="),
    Asked("Which countries are neighbours of Italy?", "?c : borders(Italy, ?c)",
          lambda f: f.to("borders", "Italy"), "which countries border Italy?", "?c : borders("),
    Asked("What borders Greece?", "?c : borders(Greece, ?c)",
          lambda f: f.to("borders", "Greece"), "?c borders(Greece, ?c)", "?c : "),
    Asked("Which neighbours has Kenya?", "?c : borders(Kenya, ?c)",
          lambda f: f.to("borders", "Kenya"), "?c : borders(Kenya)", ", ?c)"),
    Asked("Which countries of Oceania do not speak English?",
          "?c : in_continent(?c, Oceania) & !speaks(?c, English)",
          lambda f: f.of("in_continent", "Oceania") - f.of("speaks", "English"),
          "?c : !speaks(?c, English)", "?c"),
    Asked("What borders China or Mongolia?", "?c : (borders(China, ?c) | borders(Mongolia, ?c))",
          lambda f: f.to("borders", "China", "Mongolia"),
          "?c : (borders(China, ?c) | borders(Mongolia, ?c)", ")"),
]  # fmt: skip


@pytest.fixture(scope="module")
def facts() -> Facts:
    return Facts()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with a `world` that is hardly trained: what is known does not depend on that."""
    path = tmp_path_factory.mktemp("cache")
    quick_world(path)
    return path


@pytest.fixture(scope="module", params=["stdio", "http"])
def agent(request: pytest.FixtureRequest, cache: Path) -> Iterator[Agent]:
    if request.param == "stdio":
        with connected(by_process("world", TACIT_CACHE=str(cache))) as agent:
            yield agent
        return
    (folder,) = cache.glob("world-*")
    with (
        running({"world": ServedRun.at(folder, "cpu")}, ServerSettings(workers=1)) as service,
        connected(by_http(service.url)) as agent,
    ):
        yield agent


def test_half_of_the_questions_are_wrong_at_first() -> None:
    assert len(QUESTIONS) == len({asked.english for asked in QUESTIONS}) == 30
    assert sum(bool(asked.first) for asked in QUESTIONS) == 15


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: asked.english)
def test_a_question_is_answered_by_what_the_error_says(
    agent: Agent, facts: Facts, asked: Asked
) -> None:
    if asked.first:
        error = agent.error("ask", query=asked.first)
        assert asked.hint in error
        assert asked.hint in asked.formula
    expected = asked.answers(facts)
    assert expected
    reply = agent.call("ask", query=asked.formula, top=100)
    known = {row["entity"] for row in reply["answers"] if row["known"]}
    assert known == expected
    assert reply["known_total"] == len(expected)
    assert all(0 <= row["score"] <= 1 for row in reply["answers"])


def test_yes_or_no_and_how_many(agent: Agent, facts: Facts) -> None:
    (row,) = agent.call("ask", query=": borders(France, Spain)")["answers"]
    assert row["known"]
    (row,) = agent.call("ask", query=": borders(France, Japan)")["answers"]
    assert not row["known"]
    count = agent.call("ask", query="count ?c : city_in(?c, Kenya)")["count"]
    assert count["known"] == len(facts.of("city_in", "Kenya"))


def test_pairs_have_the_values_of_each_variable(agent: Agent, facts: Facts) -> None:
    reply = agent.call("ask", query="?n, ?c : borders(Spain, ?n) & capital_of(?c, ?n)", top=50)
    pairs = {(row["values"]["n"], row["values"]["c"]) for row in reply["answers"] if row["known"]}
    neighbours = facts.to("borders", "Spain")
    assert pairs == {(b, a) for a, b in facts.pairs["capital_of"] if b in neighbours}


def test_the_prompt_works_three_questions_of_this_graph(agent: Agent) -> None:
    text = agent.prompt(question="Which way is up?")
    assert text.endswith("Which way is up?")
    calls = [line for line in text.splitlines() if line.startswith("ask {")]
    results = [line for line in text.splitlines() if line.startswith("-> ")]
    assert len(calls) == len(results) == 3
    for call, result in zip(calls, results, strict=True):
        arguments: dict[str, Any] = json.loads(call.removeprefix("ask "))
        first = agent.call("ask", **arguments)["answers"][0]
        assert first["known"]
        assert result.startswith(f"-> {first['name']} (known, ")
