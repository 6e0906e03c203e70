"""Rules in words and as formulas, each expectation written by hand."""

from __future__ import annotations

import pytest

from tacit.graph.graph import Graph
from tacit.links.rules.rule_set import NONE, SAMPLED, Rule
from tacit.query.rule_words import path_in_words, rule_formula, rule_in_words, statistic_in_words

GRAPH = Graph.of(
    [
        ("Estonia", "borders", "Latvia"),
        ("Latvia", "speaks", "German"),
        ("Tallinn", "capital_of", "Estonia"),
        ("Estonia", "in_continent", "Europe"),
        ("Estonia", "uses_currency", "Euro"),
        ("Estonia", "currency", "Euro"),
        ("New York", "is part of", 'the "US"'),
    ]
)


def rule(body: str, head: str, end: str = "", tail: str = "", **counts: int) -> Rule:
    """A rule from labels: `borders speaks^-1` is a path of two relations."""
    relations = GRAPH.relations
    ends = (GRAPH.entities.id(each) if each else NONE for each in (end, tail))
    return Rule(tuple(map(relations.id, body.split(","))), relations.id(head), *ends, **counts)


CASES = [
    (
        rule("borders,in_continent", "in_continent"),
        "borders(?x, ?z) & in_continent(?z, ?y) => in_continent(?x, ?y)",
        "if X borders Z, and Z is in continent Y, then X is in continent Y",
    ),
    (
        rule("borders^-1", "borders"),
        "borders(?y, ?x) => borders(?x, ?y)",
        "if Y borders X, then X borders Y",
    ),
    (
        rule("speaks^-1,borders", "capital_of^-1"),
        "borders(?z, ?x) & speaks(?z, ?y) => capital_of(?x, ?y)",
        "if Z borders X, and Z speaks Y, then X is a capital of Y",
    ),
    (
        rule("borders,borders^-1,speaks", "speaks"),
        "borders(?x, ?z) & borders(?w, ?z) & speaks(?w, ?y) => speaks(?x, ?y)",
        "if X borders Z, and W borders Z, and W speaks Y, then X speaks Y",
    ),
    (
        rule("speaks", "in_continent", "German", "Europe"),
        "speaks(?x, German) => in_continent(?x, Europe)",
        "if X speaks German, then X is in continent Europe",
    ),
    (
        rule("capital_of", "in_continent", tail="Europe"),
        "capital_of(?x, ?_) => in_continent(?x, Europe)",
        "if X is a capital of something, then X is in continent Europe",
    ),
    (
        rule("borders,speaks", "uses_currency", tail="Euro"),
        "borders(?x, ?z) & speaks(?z, ?_) => uses_currency(?x, Euro)",
        "if X borders Z, and Z speaks something, then X uses currency Euro",
    ),
    (
        rule("borders,speaks", "currency", "German", "Euro"),
        "borders(?x, ?z) & speaks(?z, German) => currency(?x, Euro)",
        "if X borders Z, and Z speaks German, then X has Euro as its currency",
    ),
    (
        rule("capital_of^-1", "speaks", tail="German"),
        "capital_of(?_, ?x) => speaks(?x, German)",
        "if something is a capital of X, then X speaks German",
    ),
    (
        rule("speaks^-1", "capital_of", "Latvia", "Estonia"),
        "speaks(Latvia, ?x) => capital_of(?x, Estonia)",
        "if Latvia speaks X, then X is a capital of Estonia",
    ),
    (
        rule("is part of", "is part of", 'the "US"', "New York"),
        '"is part of"(?x, "the \\"US\\"") => "is part of"(?x, "New York")',
        'if X is part of the "US", then X is part of New York',
    ),
    (
        rule("currency^-1", "speaks^-1", "Estonia", "Estonia"),
        "currency(Estonia, ?x) => speaks(Estonia, ?x)",
        "if Estonia has X as its currency, then Estonia speaks X",
    ),
]


@pytest.mark.parametrize(("each", "formula", "words"), CASES, ids=[case[1] for case in CASES])
def test_a_rule_is_written_and_worded(each: Rule, formula: str, words: str) -> None:
    assert rule_formula(GRAPH, each) == formula
    assert rule_in_words(GRAPH, each) == words


@pytest.mark.parametrize(
    ("each", "words"),
    [
        (
            rule("borders,speaks", "speaks", support=61, groundings=214),
            "speaks is known for 61 of 214 such pairs",
        ),
        (
            rule("borders", "speaks^-1", support=1200, groundings=2500, flags=SAMPLED),
            "speaks is known for about 1,200 of about 2,500 such pairs",
        ),
        (
            rule("speaks", "in_continent", "German", "Europe", support=5, groundings=9),
            "5 of 9 such entities are known to be in continent Europe",
        ),
        (
            rule("borders", "speaks", tail="German", support=1, groundings=3),
            "1 of 3 such entities is known to speak German",
        ),
        (
            rule("speaks^-1", "currency", tail="Euro", support=2, groundings=3),
            "2 of 3 such entities are known to have Euro as their currency",
        ),
        (
            rule("speaks^-1", "borders^-1", tail="Latvia", support=2, groundings=3),
            "2 of 3 such entities are known to be what Latvia borders",
        ),
        (
            rule("speaks", "in_continent^-1", tail="Estonia", support=2, groundings=3),
            "2 of 3 such entities are known to be continent of Estonia",
        ),
        (rule("borders", "speaks"), ""),
    ],
)
def test_the_counts_of_a_rule_are_worded(each: Rule, words: str) -> None:
    assert statistic_in_words(GRAPH, each) == words


@pytest.mark.parametrize(
    ("each", "path", "words"),
    [
        (
            rule("borders,speaks", "speaks"),
            ("Estonia", "Latvia", "German"),
            "Estonia borders Latvia, and Latvia speaks German",
        ),
        (
            rule("speaks^-1,borders^-1", "speaks^-1"),
            ("German", "Latvia", "Estonia"),
            "Estonia borders Latvia, and Latvia speaks German",
        ),
        (
            rule("speaks^-1", "capital_of", "Latvia", "Estonia"),
            ("German", "Latvia"),
            "Latvia speaks German",
        ),
        (
            rule("capital_of^-1", "speaks", tail="German"),
            ("Estonia", "Tallinn"),
            "something is a capital of Estonia, such as Tallinn",
        ),
    ],
)
def test_a_path_is_worded_by_the_facts_on_it(each: Rule, path: tuple[str, ...], words: str) -> None:
    assert path_in_words(GRAPH, each, [GRAPH.entities.id(label) for label in path]) == words


def test_a_name_that_relations_share_gives_way_to_the_label() -> None:
    graph = GRAPH.named({"borders": ("next to",), "speaks": ("next to",), "currency": ("money",)})
    shared = Rule((graph.relations.id("borders"),), graph.relations.id("currency"))
    assert rule_in_words(graph, shared) == "if X borders Y, then X has Y as its money"
