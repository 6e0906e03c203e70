"""A question in other forms, names that fit a place, and one answer's reason."""

from __future__ import annotations

import pytest

from served import Running
from served_graphs import BORDERS, EUROPE, SPEAKS, open_europe
from tacit.engine.reasoner import Explanation
from tacit.graph.graph import Graph
from tacit.query.plans.compile import compile_query
from tacit.query.question import bind, parse_question
from tacit.query.question_reader import QuestionReader
from tacit.query.suggestions import Completions
from tacit.query.text import parse


def test_a_question_is_read_in_every_form_it_has(service: Running) -> None:
    reading = service.client.post(
        "/read", json={"query": '?c : borders("New York", ?c) & !speaks(?c, German)'}
    ).json()
    assert (
        reading["sentence"] == "What is something that New York borders, but does not speak German?"
    )
    assert reading["outline"]["parts"] == [
        {"relation": "borders", "words": "borders", "inverse": True, "not": False,
         "entity": "New York",
         "name": "New York"},
        {"relation": "speaks", "words": "speaks", "inverse": False, "not": True, "entity": "German",
         "name": "German"},
    ]  # fmt: skip
    assert str(parse_question(reading["sparql"], EUROPE.graph()).query) == reading["query"]


def test_a_cycle_has_no_outline_and_says_why(service: Running) -> None:
    reading = service.client.post(
        "/read", json={"query": "?c : borders(?c, ?d) & borders(?d, ?c)"}
    ).json()
    assert (reading["outline"], reading["sentence"]) == (None, None)
    assert reading["undrawable"] == "?c and ?d are tied together in more than one way"
    assert reading["sparql"]


def test_what_a_thing_is_not_is_said_in_words_and_sparql_and_has_no_place_in_the_builder(
    service: Running,
) -> None:
    reading = service.client.post(
        "/read", json={"query": "?c : borders(France, ?c) & ?c != Spain"}
    ).json()
    assert reading["sentence"] == "What is something that France borders, but is not Spain?"
    assert (reading["outline"], reading["undrawable"]) == (
        None,
        "it says what is not 'Spain' ('!='), which takes no relation",
    )
    assert "FILTER (?c != :Spain)" in reading["sparql"]
    assert str(parse_question(reading["sparql"], EUROPE.graph()).query) == reading["query"]
    reply = service.client.post("/explain", json={"query": reading["query"], "top": 1}).json()
    tree = reply["answers"][0]["witnesses"][0]["tree"]
    assert [part["kind"] for part in tree["parts"]] == ["atom", "inequality"]
    assert tree["parts"][1]["text"] == f"{reply['answers'][0]['entity']} != Spain"


def test_a_question_that_cannot_be_read_is_refused_with_its_place(service: Running) -> None:
    response = service.client.post("/read", json={"query": "?c : borders(?c"})
    assert (response.status_code, response.json()["error"]["column"]) == (422, 16)


def labels(service: Running, **parameters: str) -> list[str]:
    return [
        row["label"] for row in service.client.get("/entities", params=parameters).json()["matches"]
    ]


def test_entities_that_fit_the_place_come_first(service: Running) -> None:
    languages = [language for _, language in SPEAKS]
    assert labels(service, q="ger") == ["German", "Germany"]
    assert labels(service, q="ger", relation="speaks", end="object") == ["German", "Germany"]
    assert labels(service, q="ger", relation="speaks", end="subject") == ["Germany", "German"]
    assert sorted(labels(service, relation="speaks")[:5]) == sorted(languages)
    most = {
        country: sum(country in pair for pair in BORDERS) for pair in BORDERS for country in pair
    }
    # 4 and 3 facts
    assert labels(service, relation="borders", end="object")[:2] == ["Spain", "France"]
    assert most["France"] == 3
    assert labels(service, q="po", relation="nonsense") == ["Poland", "Polish", "Portugal"]


def test_an_end_that_is_kept_is_not_looked_for_again() -> None:
    names = Completions(EUROPE.graph())
    first = names._at_end(0, "object")
    assert names._at_end(0, "object") is first
    assert names._at_end(1, "subject") is first  # an inverse relation's subject


def test_an_entity_that_fits_by_its_label_does_not_complete_once_more_by_its_name() -> None:
    named = Graph.of([("Q90", "P36", "Q142"), ("Q64", "P36", "Q183")]).named(
        {"Q90": ["Paris"], "Q183": ["Parity"]}
    )
    found = Completions(named).entities("par", 10, "P36", "subject")
    assert [(row["label"], row["name"]) for row in found] == [("Q90", "Paris"), ("Q183", "Parity")]


def test_what_completes_has_its_label_and_a_text_that_means_it() -> None:
    named = Graph.of(
        [("Q90", "P36", "Q142"), ("Q830149", "P36", "Par"), ("Q64", "P36", "Parity")]
    ).named(
        {
            "Q90": ["Paris", "Pariser"],
            "Q830149": ["Paris"],
            "Q64": ["Par", "Parsec"],
            "Q142": ["Park Street"],
            "P36": ["part"],
        }
    )
    found = Completions(named).entities("par", 10)
    texts = {label: label for label in ("Q90", "Q830149", "Q64", "Par", "Parity")} | {
        "Q142": '"Park Street"'
    }
    assert {row["label"]: row["text"] for row in found} == texts
    for label, text in texts.items():
        assert bind(compile_query(parse(f"?x : P36({text}, ?x)")), named)[0] == [
            named.entities.id(label)
        ]
    relations = Completions(named).relations("par", 10)
    assert [(row["label"], row["text"], row["words"]) for row in relations] == [
        ("P36", "part", "part")
    ]


def test_the_reason_for_one_answer_is_looked_for_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """810 answers take 810 times as long as one."""
    engine = open_europe()
    question = "?c : exists ?d . borders(France, ?d) & borders(?d, ?c)"
    whole = engine.ask(question, top=8, explain=True)
    proved: list[int] = []
    proofs = Explanation.__init__

    def counting(self: Explanation, found, find) -> None:  # type: ignore[no-untyped-def]
        proofs(self, found, lambda i, *more: (proved.append(i), find(i, *more))[1])

    monkeypatch.setattr(Explanation, "__init__", counting)
    one = engine.ask(question, top=1, offset=3, explain=True)
    assert [(a.entity, a.score, a.witnesses) for a in one] == [
        (a.entity, a.score, a.witnesses) for a in whole[3:4]
    ]
    assert proved == [whole[3].id]


def test_what_mostly_holds_both_ways_is_read_either_way() -> None:
    mutual = [(a, "meets", b) for pair in BORDERS for a, b in (pair, pair[::-1])]
    reader = QuestionReader(Graph.of([*mutual, *((a, "feeds", b) for a, b in BORDERS)]))
    assert reader.describe("?c : meets(Spain, ?c)")["sentence"] == "What meets Spain?"
    assert reader.describe("?c : feeds(Spain, ?c)")["sentence"] == "What does Spain feed?"
    loops = Graph.of(
        [(a, "likes", a) for a in "abcdefgh"] + [("a", "likes", "b"), ("b", "likes", "c")]
    )
    assert QuestionReader(loops).describe("?c : likes(a, ?c)")["sentence"] == "What does a like?"
    assert (
        reader.describe("?c : nonsense(Spain, ?c)")["sentence"] == "What is the nonsense of Spain?"
    )
