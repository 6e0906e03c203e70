"""Values and costs of questions whose unions and cycles tie several variables."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
import torch
from test_tuple_search import Little, check, listed, searched
from torch import Tensor

from formulas import ENTITIES, RELATIONS
from tables import FactorScorer
from tacit.engine.engine import Engine
from tacit.engine.logic import Logic
from tacit.graph.graph import Graph
from tacit.query.plans import compile as compiling
from tacit.query.plans.compile import compile_query
from tacit.query.plans.plan import Complement, Cutset, Everything, walk
from tacit.query.plans.traits import sets_in
from tacit.query.text import parse

DEAR = (  # a union of three variables and one that is held, one of them bound inside
    "?x, ?y : (p(?b, ?a) | q(e1, ?x) | (r(e2, ?x) & q(?b, ?c))) & r(?x, ?y) & p(?y, ?a) & q(?a, "
    "e0) & q(?c, e1)"
)
FAMILY = (
    DEAR,
    "?x, ?y : (p(?x, ?a) | q(?y, ?b)) & r(?a, ?b) & p(e0, ?x) & q(?y, e1)",
    "?x, ?y : (p(?x, ?a) | (q(?a, ?b) & r(?b, ?y))) & p(?b, e1) & !q(?x, ?y)",
    "?x, ?y, ?z : (p(?x, ?y) | q(?y, ?z)) & r(?z, ?x) & p(?a, ?z) & q(?a, ?b) & r(?b, ?z)",
    "?x : (p(?a, ?b) | q(?b, ?c) | r(?x, e2)) & p(?x, ?a) & q(?c, e1) & r(?c, ?a)",
    # parts that know nothing of each other
    "?x, ?y : p(e0, ?y) & (r(?x, ?a) & q(?b, ?a)) & p(?b, ?a)",
)


def drawn(random: Random) -> str:
    """A question for one to three variables, with anchored unions and negations."""
    targets = ["?x", "?y", "?z"][: random.choice((1, 2, 2, 3))]
    pool = targets + ["?a", "?b", "?c"][: 5 - len(targets) - random.choice((0, 1))]

    def atom() -> str:
        one, other = random.sample([*pool, random.choice(ENTITIES[:3])], 2)
        return f"{random.choice(RELATIONS)}({one}, {other})"

    def union() -> str:
        return f"({atom()} | {random.choice(('', '!'))}{atom()} | ({atom()} & {atom()}))"

    parts = [
        union(),
        *(
            f"{random.choice(RELATIONS)}({v}, {random.choice([*pool, *ENTITIES[:3]])})"
            for v in pool
        ),
    ]
    return f"{', '.join(targets)} : {' & '.join(parts)}"


@pytest.fixture(params=[False, True], ids=["usual cuts", "cuts by cost"])
def _cuts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param:
        # which is then preferred wherever there is another
        monkeypatch.setattr(compiling, "_SAVING", 0)
    for cached in (compiling._plan, compiling._ordered):
        cached.cache_clear()
    yield
    for cached in (compiling._plan, compiling._ordered):
        cached.cache_clear()


@pytest.mark.usefixtures("_cuts")
@pytest.mark.parametrize("norm", ["product", "godel", "lukasiewicz"])
def test_tuples_are_the_best_of_all_assignments(norm: str) -> None:
    random = Random(norm)
    for number, text in enumerate([*FAMILY, *(drawn(random) for _ in range(5))]):
        query = parse(text)
        little = Little(4 if number else 3, number)
        known_first = not compile_query(query, safe=False).plan.has(Complement)
        expected = little.rows(query, norm, "standard", known_first)
        for k in (None, 2, 3):
            search = searched(query, little.reasoner(norm, "standard", k), 7, little.index)
            certified = search.certified or k is None
            check(listed(search)[: None if certified else search.leading], expected, known_first)
            assert not certified or len(search.tuples) == min(7, len(expected)), text


def test_a_value_that_is_tried_repeats_nothing_that_does_not_read_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = 40
    rows = 0
    engine = _engine(size, k=16)

    def counted(heads: Tensor, relations: Tensor, out: Tensor | None = None) -> Tensor:
        nonlocal rows
        rows += len(heads)
        return FactorScorer.logits(engine.scorer, heads, relations)

    monkeypatch.setattr(engine.scorer, "logits", counted)
    engine.ask("?x, ?y : p(e0, ?y) & (r(?x, ?a) & q(?b, ?a)) & p(?b, ?a)")
    assert rows < 10 * size  # not once for each of the sixteen values of ?y


def test_a_union_of_many_variables_takes_what_its_plan_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = 192
    k = 64
    combined = 0
    disjunction = Logic.disjunction

    def counted(self: Logic, a: Tensor, b: Tensor) -> Tensor:
        nonlocal combined
        value = disjunction(self, a, b)
        combined += value.numel()
        return value

    monkeypatch.setattr(Logic, "disjunction", counted)
    answers = _engine(size, k).ask(DEAR)
    assert len(answers) == 10
    # two unions, of two bounds
    assert combined < 4 * size * sets_in(compile_query(parse(DEAR)).plan, k, size)
    # of four times as many, where every ?b is joined with each ?c for each ?x
    assert combined < size * k**2 * size


def test_the_variable_bound_inside_a_union_is_tried_where_that_takes_far_less() -> None:
    plan = compile_query(parse(DEAR)).plan
    every = [
        step
        for step in walk(plan.root)
        if isinstance(step, Cutset) and isinstance(step.candidates, Everything)
    ]
    assert len(every) == 1
    assert sets_in(plan, 256, 2310) < 10_000_000 < 2310 * 256**2 / 10


def _engine(size: int, k: int) -> Engine:
    random = np.random.default_rng(0)
    tables = [random.random((size, size)) * 0.9 + 0.05 for _ in RELATIONS]
    facts = [
        (f"e{i}", name, f"e{(7 * i + j) % size}")
        for i in range(size)
        for j, name in enumerate(sorted(RELATIONS))
    ]
    torch.manual_seed(0)
    return Engine(Graph.of(facts), FactorScorer(tables), calibration="sigmoid", k=k)


def test_where_no_value_of_a_variable_is_possible_there_are_no_answers_through_it() -> None:
    # none of which loops
    graph = Graph.of([("e0", "r", "e1"), ("e1", "q", "e2"), ("e2", "p", "e0")])
    engine = Engine(graph, FactorScorer([np.full((3, 3), 0.5)] * 3), calibration="sigmoid", k=2)
    for search in ("exact", "beam", "certified"):
        variant = engine.with_settings(search=search)
        assert not variant.ask("?x : (p(?x, ?a) | r(?a, ?x)) & q(?a, ?a)")
        assert variant.ask("?x : r(e0, ?x) & !((p(?x, ?a) | r(?a, ?x)) & q(?a, ?a))").entities == [
            "e1",
            "e2",
        ]
