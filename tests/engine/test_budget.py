"""What a search may expand: the rows it scores, the first answers it proves, and bounds."""

from __future__ import annotations

import pytest
import torch

from random_engine import CYCLES, KINDS, questions, random_engine, same
from tacit.engine.search.block_expansion import BlockExpansion
from tacit.engine.top_k import TopKRequest, TopKResult
from tacit.query.plans.plan import Project, walk
from tacit.query.sampling.shapes import SHAPES


@pytest.mark.parametrize("budget", [None, 9])
@pytest.mark.parametrize("observed", ["none", "all"])
def test_the_first_answers_are_proven_where_not_all_are(budget: int | None, observed: str) -> None:
    """Their number differs by question; they are the first of exact search, with ties."""
    counts: list[int] = []
    for seed, name in ((4, "sigmoid"), (7, "softmax-count"), (9, "minmax")):
        engine = random_engine(seed, ties=seed != 4, calibration=name, observed=observed, k=3)
        batch = [*questions(engine, seed, count=2), *map(engine.prepare, (*CYCLES, *KINDS))]
        found = engine.with_settings(budget=budget).ask_many(batch, 9)
        exact = engine.with_settings(search="exact").ask_many(batch, 9)
        for one, other in zip(found, exact, strict=True):
            assert one.proven is not None
            assert [a.values or a.id for a in one[: one.proven]] == [
                a.values or a.id for a in other[: one.proven]
            ]
            same(one[: one.proven], other[: one.proven])
            counts += [] if one.certified else [one.proven]
    assert len(set(counts)) > 3


@pytest.mark.parametrize("budget", [1, 9, 40])
def test_a_budget_bounds_what_is_scored_for_a_proof_and_the_beam_is_its_floor(budget: int) -> None:
    k = 6
    engine = random_engine(4, calibration="sigmoid", observed="none", k=6)
    batch = [each for each in questions(engine, 6, count=2) if each.compiled.plan.has(Project)]
    ways = [
        engine.with_settings(**settings).ask_many(batch, 4)
        for settings in ({"budget": budget}, {"search": "beam"})
    ]
    exact = engine.with_settings(search="exact").ask_many(batch, 4)
    most = 0
    for question, found, beam, best in zip(batch, *ways, exact, strict=True):
        hops = sum(isinstance(step, Project) for step in walk(question.compiled.plan.root))
        assert found.rows is not None
        assert found.rows <= budget + hops * k
        most = max(most, found.rows)
        if found.certified:
            same(found, best)
        elif budget <= k:
            same(found, beam)
    assert most > k or budget <= k  # a larger one goes beyond what a beam keeps


def test_what_a_beam_keeps_for_a_negated_hop_is_followed_at_once_where_it_is_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    followed = BlockExpansion.from_some
    monkeypatch.setattr(
        BlockExpansion,
        "from_some",
        lambda hop, *arguments: (calls.append(1), followed(hop, *arguments)),
    )
    engine = random_engine(3, calibration="softmax-count", observed="all", k=12)
    batch = [each for each in questions(engine, 5, count=4) if "!(exists" in str(each.query)]
    found = [engine.ask_many([each], 6)[0] for each in batch]
    assert len(calls) == len(batch) == 4
    monkeypatch.setattr("tacit.engine.search.best_first._FEW", 0)
    calls.clear()
    step_by_step = [engine.ask_many([each], 6)[0] for each in batch]
    assert len(calls) > len(batch)
    for one, other in zip(found, step_by_step, strict=True):
        assert one.certified == other.certified
        same(one, other)


def test_rows_are_counted_and_bounded() -> None:
    engine = random_engine(3, calibration="softmax-count", observed="none", search="certified", k=6)
    plan = SHAPES["3p"].plan
    entities = torch.tensor([[1], [2]])
    relations = torch.tensor([[0, 2, 4], [1, 3, 5]])
    found = engine.reasoner.top(plan, entities, relations, [TopKRequest(3)] * 2)
    assert all(
        isinstance(each, TopKResult) and each.rows is not None and 0 < each.rows <= 12
        for each in found
    )


@pytest.mark.parametrize(
    "denied", ["r(?z, ?x)", "(exists ?w . r(?z, ?w) & q(?w, ?x))", "r(?y, ?x)"]
)
def test_a_beams_bounds_hold_where_an_edge_or_a_cycle_denies_something(denied: str) -> None:
    """Lower and upper bounds follow other candidates, and a negation swaps them."""
    text = f"?x : exists ?v, ?y, ?z . p(e1, ?v) & r(?v, ?y) & q(?y, ?z) & p(?z, ?x) & !{denied}"
    for seed, k in ((0, 2), (1, 2), (2, 1), (6, 2)):
        engine = random_engine(seed, calibration="sigmoid", observed="none", search="beam", k=k)
        question = engine.prepare(text)
        inputs = (
            question.compiled.plan,
            torch.tensor([question.entities]),
            torch.tensor([question.relations]),
        )
        bounds = engine.search.bounds(*inputs)
        exact = engine.with_settings(search="exact").search.scores(*inputs)
        assert bounds is not None
        assert (bounds[0] <= exact + 1e-5).all()
        assert (bounds[1] >= exact - 1e-5).all()
