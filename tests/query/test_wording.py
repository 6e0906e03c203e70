"""What the page shows of a question is that question: not of its inverse, and with its values."""

from __future__ import annotations

import numpy as np

from served_graphs import EUROPE
from tacit.graph.graph import Graph
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.query.outline import Statement
from tacit.query.question_reader import QuestionReader
from tacit.query.wording import fact_in_words, infinitive


def test_the_label_of_an_inverse_reads_as_the_relation_backwards() -> None:
    """As in FB15k-237, where the two differ by their sign alone, of which words keep nothing."""
    labels = Vocabulary(["+/place/capital", "-/place/capital"], kind="relation")
    reader = QuestionReader(
        Graph(Vocabulary(["France", "Paris"]), labels, np.array([[0, 0, 1]], dtype=np.int32))
    )
    forward = reader.describe("?c : +/place/capital(France, ?c)")
    back = reader.describe("?c : -/place/capital(Paris, ?c)")
    assert forward["sentence"] == "What is the capital of France?"
    assert back["sentence"] == "What has Paris as its capital?"
    assert back["outline"]["parts"][0]["inverse"] is False


def test_what_only_sparql_can_say_is_left_to_it() -> None:
    text = "PREFIX : <tacit:> SELECT ?c { :Spain :borders ?c VALUES ?c { :France } }"
    description = QuestionReader(EUROPE.graph()).describe(text)
    assert (description["outline"], description["sentence"], description["sparql"]) == (
        None,
        None,
        text,
    )
    assert description["undrawable"] == "VALUES names what may answer it"


def test_relations_are_called_by_names_that_no_other_has() -> None:
    facts = [("Q1", relation, "Q2") for relation in ("P1", "P2", "P3")]
    names = {"P1": ["borders"], "P2": ["owns"], "P3": ["owns"], "Q1": ["France"]}
    reader = QuestionReader(Graph.of(facts).named(names))
    sentences = [
        reader.describe(f"?x : {relation}(Q1, ?x)")["sentence"]
        for relation in ("P1", "borders", "P2", "P3")
    ]
    assert sentences[:2] == ["What does France border?"] * 2
    assert sentences[2:] == ["What is the p2 of France?", "What is the p3 of France?"]


def test_what_somebody_did_is_not_done_to_them() -> None:
    assert fact_in_words("diedIn", "Vermeer", "Delft") == "Vermeer died in Delft"
    assert fact_in_words("graduated_from", "Ada", "MIT") == "Ada graduated from MIT"
    assert fact_in_words("painted_by", "The Milkmaid", "Vermeer") == (
        "The Milkmaid is painted by Vermeer"
    )
    assert infinitive(Statement("workedFor", "Acme")) == "work for Acme"
    reader = QuestionReader(Graph.of([("Vermeer", "livedIn", "Delft")]))
    assert reader.describe("?x : livedIn(Vermeer, ?x)")["sentence"] == "What does Vermeer live in?"
    assert reader.describe("?x : livedIn(?x, Delft)")["sentence"] == "What lived in Delft?"
