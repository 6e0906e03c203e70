"""Questions as nested conditions mean what their formulas mean, and read as sentences."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, count, product

import pytest
from hypothesis import HealthCheck, assume, given, settings

from formulas import Facts, answers, fact_sets, queries
from tacit.errors import QueryError
from tacit.graph.graph import Graph
from tacit.query.formula import (
    And,
    Atom,
    Entity,
    Exists,
    Formula,
    Inequality,
    Not,
    Or,
    Query,
    Variable,
)
from tacit.query.outline import Conditions, Statement, outline
from tacit.query.question_reader import QuestionReader
from tacit.query.text import parse
from tacit.query.wording import in_words, sentence

NUMBERS = count()


def formula_of(part: Conditions | Statement, thing: Variable) -> Formula:
    """Return the formula of an outline by its definition."""
    if isinstance(part, Conditions):
        parts = tuple(formula_of(each, thing) for each in part.parts)
        whole = parts[0] if len(parts) == 1 else (And if part.join == "and" else Or)(parts)
    else:
        other = (
            Variable(f"n{next(NUMBERS)}")
            if isinstance(part.other, Conditions)
            else Entity(part.other)
        )
        ends = (other, thing) if part.inverse else (thing, other)
        if not part.relation:  # that the thing is the entity
            return Inequality(thing, other) if part.denied else Not(Inequality(thing, other))
        whole = Atom(part.relation, *ends)
        if isinstance(part.other, Conditions) and isinstance(other, Variable):
            inside = [whole, formula_of(part.other, other)] if part.other.parts else [whole]
            whole = Exists(other, And(tuple(inside)) if len(inside) > 1 else whole)
    return Not(whole) if part.denied else whole


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(queries(3, 5), fact_sets())
def test_an_outline_means_what_the_question_means(
    query: Query, made: tuple[Facts, tuple[str, ...]]
) -> None:
    facts, entities = made
    try:
        group = outline(query)
    except QueryError:
        assume(False)
    again = replace(query, formula=formula_of(group, query.target))
    assert answers(again, facts, entities) == answers(query, facts, entities)


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("?c : borders(?c, ?d) & borders(?d, ?c)", "tied together"),
        ("?c : borders(?c, ?d) & speaks(?d, ?e) & speaks(?c, ?e)", "tied together"),
        ("?c : borders(?c, ?c)", "does not lead"),
        ("?c : borders(?c, ?d) & ?c != ?d", "tied together"),
        ("?c : borders(?c, a) & a != b", "says nothing of"),
        ("?c : borders(?c, a) & borders(a, b)", "does not lead"),
        # The best ?d of both is not the best of either, where scores are combined.
        (
            "?c : exists ?d . borders(?c, ?d) & speaks(?d, a) | borders(?d, ?c) & speaks(?d, b)",
            "tied together",
        ),
    ],
)
def test_what_conditions_cannot_say_is_refused_with_the_reason(question: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        outline(parse(question))


def test_nested_conditions_alternatives_and_denials_are_told_apart() -> None:
    found = outline(
        parse(
            "?c : borders(?c, ?d) & !speaks(?d, German) & (in(?c, EU) | !in(?c, UN)) & !(p(?c, a) "
            "& q(b, ?c))"
        )
    )
    nested = Conditions("and", (Statement("speaks", "German", denied=True),))
    either = Conditions("or", (Statement("in", "EU"), Statement("in", "UN", denied=True)))
    neither = Conditions(
        "and", (Statement("p", "a"), Statement("q", "b", inverse=True)), denied=True
    )
    assert found == Conditions("and", (Statement("borders", nested), either, neither))


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("borders(?c, Brazil) & !speaks(?c, Spanish)",
         "What borders Brazil but does not speak Spanish?"),
        ("borders(Brazil, ?c)", "What does Brazil border?"),
        ("borders(Brazil, ?c) & speaks(?c, Spanish)",
         "What speaks Spanish and is something that Brazil borders?"),
        ("borders(?c, ?d) & borders(?d, Peru)", "What borders something that borders Peru?"),
        ("borders(?c, ?d) & borders(Peru, ?d)", "What borders something that Peru borders?"),
        ("likes(?c, ?d) & eats(?d, a) & eats(?c, b)",
         "What eats b and likes something that eats a?"),
        ("likes(?c, ?d) & eats(?d, a) & eats(?d, b)",
         "What likes something that both eats a and eats b?"),
        ("likes(?c, ?d) & eats(?d, a) & !eats(?c, b)",
         "What likes something that eats a, but does not eat b?"),
        ("likes(?c, ?d) & eats(?d, a) & !eats(?d, b)",
         "What likes something that both eats a and does not eat b?"),
        ("(likes(?c, ?d) & eats(?d, a)) | eats(?c, b)",
         "What likes something that eats a, or eats b?"),
        ("likes(?c, ?d) & (eats(?d, a) | eats(?d, b))",
         "What likes something that either eats a or eats b?"),
        ("(eats(?c, a) & eats(?c, b)) | eats(?c, d)", "What both eats a and eats b, or eats d?"),
        ("capital_of(?c, France) | capital_of(?c, Spain)",
         "What is a capital of France or is a capital of Spain?"),
        ("capital_of(Paris, ?c)", "What is Paris a capital of?"),
        ("located_in(?c, Europe)", "What is located in Europe?"),
        ("uses_currency(Japan, ?c)", "What currency does Japan use?"),
        ("uses_currency(?c, Euro)", "What uses currency Euro?"),
        ("official_language(Canada, ?c)", "What is the official language of Canada?"),
        ("has_timezone(?c, CET) & in_continent(?c, Asia)",
         "What has CET as its timezone and is in continent Asia?"),
        ("concept:athleteplaysforteam(Kobe, ?c)", "What is the “athleteplaysforteam” of Kobe?"),
        ("concept:athletePlaysFor(?c, Lakers)", "What plays for Lakers?"),
        ("/people/person/nationality(?c, Peru)", "What has Peru as its nationality?"),
        ("carries(Tom, ?c)", "What does Tom carry?"),
        ("crosses(Tom, ?c)", "What does Tom cross?"),
        ("lies_in(Oslo, ?c)", "What does Oslo lie in?"),
        ("has(Tom, ?c)", "What does Tom have?"),
        ("?c != Peru & borders(?c, Brazil)", "What borders Brazil but is not Peru?"),
        ("borders(?c, Brazil) & !(?c != Peru)",
         "What borders Brazil but is nothing that is not Peru?"),
        ("borders(?c, ?d) & ?d != Peru", "What borders something that is not Peru?"),
        ("capital(Peru, ?c) & ?c != Lima & ?c != X",
         "What is the capital of Peru but is not Lima and is not X?"),
    ],
)  # fmt: skip
def test_questions_read_as_sentences(question: str, words: str) -> None:
    assert sentence(outline(parse(f"?c : {question}"))) == words


def test_different_questions_have_different_sentences() -> None:
    plain = [
        Statement(verb, end, denied=no)
        for verb in ("eats", "likes")
        for end in "ab"
        for no in (False, True)
    ]
    pairs = [Conditions(join, pair) for join in ("and", "or") for pair in combinations(plain, 2)]
    inside = [*(Conditions("and", (step,)) for step in plain), *pairs]
    nested = [Statement("sees", group, denied=no) for group in inside for no in (False, True)]
    questions = [*pairs, *(Conditions("and", (step,)) for step in nested)]
    questions += [
        Conditions(join, pair) for join in ("and", "or") for pair in product(nested, plain)
    ]
    assert len(set(map(sentence, questions))) == len(questions) > 2000


def test_a_label_of_signs_alone_stays_as_it_is() -> None:
    assert in_words("::") == "::"
    assert in_words("<http://example.org/ns#bornIn>") == "born in"


def test_a_label_of_spaces_has_a_sentence() -> None:
    space = "\u00a0"  # which a table may have in place of nothing
    assert (
        sentence(outline(Query(Variable("x"), Atom(space, Variable("x"), Entity("a")))))
        == f"What has a as its {space}?"
    )


def test_a_symmetric_relation_is_read_the_shorter_way() -> None:
    graph = Graph.of(
        [("Peru", "borders", "Chile"), ("Chile", "borders", "Peru"), ("Peru", "eats", "Tom")]
    )
    question = "?c : borders(?d, ?c) & borders(Peru, ?d) & eats(?c, Tom)"
    description = QuestionReader(graph).describe(question)
    assert description["sentence"] == "What eats Tom and borders something that borders Peru?"
