"""Rewriting rules: what each writes, and that no answer changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from formulas import RELATIONS, Facts, answers, fact_sets, queries
from tacit.errors import LimitError
from tacit.graph.index import Index
from tacit.query.compile import compile_query
from tacit.query.formula import Formula, Not, Or, Query, children
from tacit.query.rewrite import RULES, Rule, disjunctive_normal_form, negation_normal_form, rewrite
from tacit.query.symbolic import answers as symbolic_sets
from tacit.query.text import parse

FIXTURES = Path(__file__).parent.parent / "fixtures"


def pairs() -> Iterator[tuple[Rule, str, str]]:
    """The input and the expected output of each rule, from the file named after it."""
    for rule in RULES:
        lines = (FIXTURES / f"{rule.__name__}.txt").read_text().splitlines()
        kept = [line for line in lines if line and not line.startswith("#")]
        for given_, expected in zip(kept[::2], kept[1::2], strict=True):
            yield rule, given_, expected


@pytest.mark.parametrize(("rule", "text", "expected"), list(pairs()))
def test_a_rule_writes(rule: Rule, text: str, expected: str) -> None:
    query = parse(text)
    assert str(rewrite(query, [rule])) == expected
    assert rewrite(parse(expected), [rule]) == parse(expected), "a second time changes nothing"


@given(queries(), fact_sets())
@settings(max_examples=300, deadline=None)
def test_no_rule_changes_an_answer(query: Query, world: tuple[Facts, tuple[str, ...]]) -> None:
    facts, entities = world
    expected = answers(query, facts, entities)
    assert answers(parse(str(query)), facts, entities) == expected
    for rule in RULES:
        try:
            query = rewrite(query, [rule])
        except LimitError:
            return
        assert answers(query, facts, entities) == expected, rule.__name__


def symbolic(query: Query, facts: Facts, entities: tuple[str, ...]) -> set[str]:
    """The answers of the plan, by set operations."""
    prepared = compile_query(query, safe=False)
    there = [(entities.index(s), 2 * RELATIONS.index(r), entities.index(o)) for s, r, o in facts]
    triples = np.array([*there, *((o, r + 1, s) for s, r, o in there)], dtype=np.int32).reshape(-1, 3)
    slots = [entities.index(name) for name in prepared.entities], [2 * RELATIONS.index(r) for r in prepared.relations]
    ids = [np.array([filling], dtype=np.int32) for filling in slots]
    found = symbolic_sets(prepared.plan, ids[0], ids[1], Index(triples, 2 * len(RELATIONS)), len(entities))[0]
    return {entities[i] for i in found}


@given(queries(), fact_sets(size=12))
@settings(max_examples=150, deadline=None)
def test_no_rule_changes_a_symbolic_answer(query: Query, world: tuple[Facts, tuple[str, ...]]) -> None:
    expected = symbolic(query, *world)
    assert symbolic(parse(str(query)), *world) == expected
    for rule in RULES:
        try:
            query = rewrite(query, [rule])
        except LimitError:
            return
        assert symbolic(query, *world) == expected, rule.__name__


def inside(formula: Formula) -> Iterator[Formula]:
    yield formula
    for part in children(formula):
        yield from inside(part)


@given(queries())
@settings(max_examples=100, deadline=None)
def test_normal_forms_have_their_form(query: Query) -> None:
    for part in inside(negation_normal_form(query.formula)):
        assert not (isinstance(part, Not) and isinstance(part.part, Not | Or))
    try:
        clauses = disjunctive_normal_form(query.formula)
    except LimitError:
        return
    for clause in clauses.parts if isinstance(clauses, Or) else (clauses,):
        positive = [clause]
        while positive:
            part = positive.pop()
            assert not isinstance(part, Or)
            positive += [] if isinstance(part, Not) else children(part)


def test_too_many_clauses_are_refused_before_any_is_written() -> None:
    text = "?t : " + " & ".join(f"(p(a{i}, ?t) | q(b{i}, ?t))" for i in range(30))
    with pytest.raises(LimitError, match="1,073,741,824 clauses; at most 64"):
        disjunctive_normal_form(parse(text).formula)
    small = parse("?t : (p(a, ?t) | q(b, ?t)) & (p(c, ?t) | q(d, ?t))").formula
    with pytest.raises(LimitError, match="4 clauses; at most 3"):
        disjunctive_normal_form(small, max_clauses=3)
