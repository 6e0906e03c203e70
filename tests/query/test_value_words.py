"""Questions that compare values, as conditions and as sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tacit.errors import QueryError
from tacit.graph.attributes import Attribute, Attributes
from tacit.graph.graph import Graph
from tacit.graph.quantities import Quantity
from tacit.query.outline import OtherValue, Statement, ValueCondition, outline
from tacit.query.question_reader import QuestionReader
from tacit.query.suggestions import examples
from tacit.query.text import parse


@pytest.fixture(scope="module")
def reader() -> QuestionReader:
    graph = Graph.of([("France", "borders", "Spain"), ("Oslo", "capital_of", "Norway")])
    listed = [
        Attribute("population"),
        Attribute("area", unit="km²"),
        Attribute("founded", "date"),
        Attribute("date_of_birth", "date"),
        Attribute("running_time", "duration"),
    ]
    values = [(0, 0, Quantity(68e6), 0), (1, 0, Quantity(1234.0), 0)]
    return QuestionReader(replace(graph, attributes=Attributes.of(listed, values)))


SENTENCES = [
    ("population(?x) > 1000000", "What has a population of more than 1,000,000?"),
    ("population(?x) >= 5", "What has a population of at least 5?"),
    ("population(?x) = 5", "What has a population of 5?"),
    ("population(?x) != 5", "What does not have a population of 5?"),
    ("population(?x)", "What has a population?"),
    ("5 <= area(?x) <= 9", "What has an area from 5 km² to 9 km²?"),
    ("5 < area(?x) <= 9.5 km2", "What has an area of more than 5 km² and at most 9.5 km²?"),
    ("founded(?x) < 1950", "What was founded before 1950?"),
    ("founded(?x) = 1950", "What was founded in 1950?"),
    ("founded(?x) = 1950-06-01", "What was founded on 1950-06-01?"),
    ("!(founded(?x) > 1950-06)", "What was not founded after 1950-06?"),
    ("1900 <= date_of_birth(?x) < 1950", "What has a date of birth from 1900 and before 1950?"),
    ("running_time(?x) < PT2H", "What has a running time of less than PT2H?"),
    ("area(?x) < area(France)", "What has an area below that of France?"),
    ("founded(?x) < founded(France)", "What was founded before France?"),
    ("founded(?x) < date_of_birth(?x)", "What was founded before its date of birth?"),
    (
        "borders(?x, Spain) & population(?x) < 5 & !capital_of(?x, Norway)",
        "What borders Spain and has a population of less than 5 but is not a capital of Norway?",
    ),
    (
        "population(?x) < 5 | population(?x) > 9",
        "What has a population of less than 5 or has a population of more than 9?",
    ),
    (
        "borders(?x, ?y) & area(?y) > area(?x)",
        "What borders something that has an area above that of the thing before?",
    ),
    (
        "borders(?x, Spain) order by population desc, founded",
        "What borders Spain, by population, largest first, then by founded, earliest first?",
    ),
]


@pytest.mark.parametrize(("formula", "sentence"), SENTENCES)
def test_comparisons_are_read_as_sentences(
    reader: QuestionReader, formula: str, sentence: str
) -> None:
    assert reader.describe(f"?x : {formula}")["sentence"] == sentence


def test_columns_are_named_after_the_question(reader: QuestionReader) -> None:
    found = reader.describe(
        "?x, ?n, ?m : borders(?x, Spain) & ?n = population(?x) & ?m = area(?x) order by ?m"
    )
    sentence = "What borders Spain, with its population and its area, by area, smallest first?"
    assert found["sentence"] == sentence
    shown = found["outline"]
    assert [(each["attribute"], each["variable"]) for each in shown["columns"]] == [
        ("population", "n"),
        ("area", "m"),
    ]
    assert [(each["attribute"], each["descending"]) for each in shown["order"]] == [("area", False)]
    assert [part["relation"] for part in shown["parts"]] == ["borders"]
    value = reader.describe("population(France)")
    assert value["sentence"] == "What is the population of France?"
    assert value["undrawable"] == "it asks for a value"


def test_a_comparison_has_its_range_beside_it(reader: QuestionReader) -> None:
    (part,) = reader.describe("?x : POPULATION(?x) > 10_000")["outline"]["parts"]
    assert part == {
        "attribute": "population",
        "words": "population",
        "kind": "number",
        "unit": "",
        "range": "1,230 to 68 M",
        "operator": ">",
        "literals": ["10000"],
        "not": False,
    }
    # an unknown attribute is read all the same: asking says what is wrong
    (part,) = reader.describe("?x : hight(?x) < 5")["outline"]["parts"]
    assert (part["attribute"], part["operator"]) == ("hight", "<")


def test_values_of_two_things_are_compared_where_the_inner_one_is_described() -> None:
    (step,) = outline(parse("?x : r(?x, ?y) & p(?x) > q(?y) & s(?y, A)")).parts
    assert isinstance(step, Statement)
    assert not isinstance(step.other, str)
    limit = ValueCondition("q", "<", other=OtherValue("p", outer=True))
    assert {*step.other.parts} == {Statement("s", "A"), limit}
    # also inside of alternatives
    (step,) = outline(parse("?x : r(?x, ?y) & (p(?y) > p(?x) | !(q(?y) = q(?x)))")).parts
    assert isinstance(step, Statement)


def test_one_example_compares_a_value_that_divides_its_answers() -> None:
    cities = {f"city {i}": 10.0**i for i in range(6)}
    facts = [(city, "located_in", "Norway" if i < 5 else "Chad") for i, city in enumerate(cities)]
    graph = Graph.of([*facts, ("Norway", "borders", "Sweden"), ("Sweden", "borders", "Norway")])
    values = [(graph.entities.id(city), 0, Quantity(size), 0) for city, size in cities.items()]
    graph = replace(graph, attributes=Attributes.of([Attribute("population")], values))
    *_, last = examples(graph)
    assert last["query"] == "?x : located_in(?x, Norway) & population(?x) > 100"
    assert last["title"] == "What is located in Norway and has a population of more than 100?"
    assert "2ia" not in [
        each["shape"] for each in examples(replace(graph, attributes=Attributes()))
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("?x : r(?x, ?y) & r(?y, ?z) & p(?x) > p(?z)", "tied together"),
        ("?x : r(?x, ?y) & r(?y, ?x) & p(?x) > p(?y)", "tied together"),
        ("?x : r(?x, A) & p(A) > 5", "says nothing of ?x"),
        ("?x : r(?x, A) & p(?x) - q(?x) > 5", "difference of values"),
        ("?x, ?n : r(?x, A) & ?n = p(A)", "no value of an answer"),
        ("?x : r(?x, A) order by p(A)", "no value of an answer"),
    ],
)
def test_what_is_no_condition_on_one_thing_is_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message.replace("?", r"\?")):
        outline(parse(text))
