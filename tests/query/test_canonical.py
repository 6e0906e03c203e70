"""One plan for all orders of a question's parts and names of its variables."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulas import queries
from tacit.query.formula import Query
from tacit.query.plans.compile import compile_query
from tacit.query.text import parse
from writings import cycles, rewritten


@given(st.one_of(queries(), cycles()), st.integers(0, 2**32))
@settings(max_examples=400, deadline=None)
def test_no_order_of_writing_and_no_name_changes_the_plan(query: Query, seed: int) -> None:
    once, again = (compile_query(q, safe=False) for q in (query, rewritten(query, Random(seed))))
    assert (again.plan, again.entities, again.relations) == (
        once.plan,
        once.entities,
        once.relations,
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Regular graphs that refinement alone cannot tell apart: a ring of six, and two triangles.
        (
            [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)],
            [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)],
        ),
        (
            [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)],
            [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)],
        ),
    ],
)
def test_what_looks_alike_is_told_apart(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    def question(edges: list[tuple[int, int]], names: list[int]) -> Query:
        atoms = [f"r(?v{names[a]}, ?v{names[b]})" for a, b in edges] + [
            f"q(?v{n}, ?t)" for n in names
        ]
        return parse("?t : " + " & ".join(Random(len(edges) + names[0]).sample(atoms, len(atoms))))

    plans = {
        compile_query(question(one, Random(seed).sample(range(6), 6))).plan for seed in range(10)
    }
    assert len(plans) == 1
    assert compile_query(question(other, list(range(6)))).plan not in plans


def test_many_parts_that_are_alike_take_no_long_time() -> None:
    texts = [
        " & ".join(f"p(?x{i}, ?t)" for i in order) for order in (range(60), reversed(range(60)))
    ]
    assert len({compile_query(parse(f"?t : {text}")).plan for text in texts}) == 1


def test_questions_that_differ_in_names_alone_keep_sharing_a_plan() -> None:
    texts = ["?t : r(a, ?x) & q(?x, ?t) & !p(b, ?t)", "?t : !z(a, ?t) & b(?y, ?t) & c(d, ?y)"]
    assert len({compile_query(parse(text)).plan for text in texts}) == 1
