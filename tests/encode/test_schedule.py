"""A space without errors finds the symbolic answers; missing operators are refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn.functional import logsigmoid

from formulas import queries
from set_space import RELATIONS, SIZE, SetSpace, random_facts
from tacit.encode.encoder import Drawn, Encoder, EncoderReasoner, Slots
from tacit.encode.settings import EncodeSettings
from tacit.encode.spaces.fuzzy import FuzzQE
from tacit.encode.spaces.schedule import limited_branches, schedule_of
from tacit.engine.reasoner import SymbolicReasoner
from tacit.errors import PlanError
from tacit.graph.fact_index import FactIndex
from tacit.query.formula import Query
from tacit.query.plans import plan as p
from tacit.query.plans.compile import compile_query
from tacit.query.plans.plan import Plan
from tacit.query.sampling.shapes import SHAPES

FACTS = random_facts(3)
SYMBOLIC = SymbolicReasoner(FactIndex(FACTS, RELATIONS), SIZE)


def slots(plan: Plan, count: int = 7, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    entities = torch.randint(0, SIZE, (count, plan.num_entities), generator=generator)
    return entities, torch.randint(0, RELATIONS, (count, plan.num_relations), generator=generator)


def unsupported_reason(encoder: Encoder, plan: Plan) -> str:
    """Why a plan is refused, or nothing."""
    try:
        encoder.check(plan)
    except PlanError as error:
        return str(error)
    return ""


def random_plan(random: np.random.Generator) -> Plan:
    """A random tree of sets; relations may be walked backwards, and parts may occur twice."""
    used = [0, 0, 0]  # entity slots, relation slots, variables

    def edge() -> p.Relation:
        used[1] += 1
        return p.Relation(used[1] - 1, bool(random.integers(2)))

    def node(depth: int) -> p.Node:
        kind = random.integers(8) if depth else 0
        if kind >= 6:
            used[2] += 1
            return p.Project(used[2], node(depth - 1), edge())
        if kind == 5:
            return p.Complement(node(depth - 1))
        if kind >= 2:
            parts = [node(depth - 1) for _ in range(random.integers(2, 4))]
            if not random.integers(4):
                parts[-1] = parts[0]
            return (p.Intersect if kind < 4 else p.Union)(tuple(parts))
        if depth and not random.integers(6):
            return p.Everything()
        used[0] += 1
        return p.Row(used[0] - 1, edge())

    root = node(4)
    return Plan(root, *used)


@pytest.mark.parametrize("unions", [True, False])
def test_sets_give_the_symbolic_answers_of_shapes_and_trees(unions: bool) -> None:
    random = np.random.default_rng(7)
    reasoner = EncoderReasoner(SetSpace(FACTS, unions))
    plans = [shape.plan for shape in SHAPES.values()] + [random_plan(random) for _ in range(80)]
    refused = 0
    for number, plan in enumerate(plans):
        slot_ids = slots(plan, seed=number)
        reason = unsupported_reason(reasoner.encoder, plan)
        if reason:
            refused += "branches" in reason
            continue
        expected = SYMBOLIC.scores(plan, *slot_ids) == 0
        assert torch.equal(reasoner.scores(plan, *slot_ids) > -1, expected)
        assert torch.equal(reasoner.ranking(plan, *slot_ids) > 0, expected)
    assert refused <= (0 if unions else 20)


@settings(max_examples=60, deadline=None)
@given(query=queries(), unions=st.booleans())
def test_any_question_is_answered_rightly_or_refused_by_name(query: Query, unions: bool) -> None:
    try:
        plan = compile_query(query, safe=False).plan
    except PlanError:
        assume(False)
    space = SetSpace(FACTS, unions)
    slot_ids = slots(plan, 3)
    reason = unsupported_reason(space, plan)
    if reason:
        assert any(
            word in reason
            for word in ("edge", "Source", "At", "Best", "Loop", "Cutset", "Unequal", "branches")
        )
    else:
        assert torch.equal(space.logits(plan, *slot_ids) > 0, SYMBOLIC.scores(plan, *slot_ids) == 0)


def test_a_mix_of_plans_is_its_plans_one_by_one_in_few_calls() -> None:
    space = SetSpace(FACTS, unions=False)
    mix = [
        Slots(shape.plan, *slots(shape.plan, 2 + number))
        for number, shape in enumerate(SHAPES.values())
    ]
    together = space.states(mix)
    calls = {kind: space.calls.count(kind) for kind in space.calls}
    # 3p has three hops; intersections are of two arities, and those of pi and pin wait for a hop;
    # inp negates before a hop, pni after two.
    assert calls == {"anchor": 1, "project": 3, "complement": 2, "intersect": 3}
    for one, branches in zip(mix, together, strict=True):
        alone = space.states([one])[0]
        assert len(alone) == len(branches)
        assert all(map(torch.equal, alone, branches))


def test_branches_share_what_they_have_in_common() -> None:
    union = p.Union((p.Row(0, p.Relation(0)), p.Row(1, p.Relation(1))))
    hop = p.Project(1, p.Intersect((union, p.Row(2, p.Relation(2)))), p.Relation(3))
    schedule = schedule_of((Plan(hop, 3, 4, 2),), False)
    assert len(schedule.outputs[0]) == 2
    assert len(schedule.operations) == 3 + 3 + 2 + 2  # anchors, hops from them, intersections, hops
    assert schedule.steps[0] == tuple(
        n for n, one in enumerate(schedule.operations) if one.kind == "anchor"
    )


RELATED = p.Relation(0)
ROW = p.Row(0, RELATED)


@pytest.mark.parametrize(
    ("root", "named"),
    [
        (p.Loop(0), "Loop"),
        (p.At(ROW, 1), "At"),
        (p.Best(1, ROW), "Best"),
        (p.Cutset(1, 2, ROW, ROW), "Cutset"),
        (p.Project(1, ROW, p.Intersect((RELATED, p.Relation(1)))), "edge"),
        (p.Project(1, ROW, p.Complement(RELATED)), "negated"),
        (p.Row(0, p.Intersect((RELATED, p.Source(ROW)))), "Source"),
    ],
)
def test_steps_without_an_operator_are_refused_by_name(root: p.Node, named: str) -> None:
    plan = Plan(p.Intersect((ROW, root)), 2, 2, 3)
    with pytest.raises(PlanError, match=named):
        EncoderReasoner(SetSpace(FACTS, True)).scores(plan, *slots(plan))


def test_operators_that_a_model_lacks_are_refused_by_name() -> None:
    class Bare(SetSpace):
        """Neither complement nor a state of all."""

        complement = SetSpace.__base__.complement
        everything = SetSpace.__base__.everything

    space = Bare(FACTS, False)
    for root, named in (
        (p.Complement(ROW), "Complement"),
        (p.Project(1, p.Everything(), RELATED), "Everything"),
    ):
        with pytest.raises(PlanError, match=named):
            space.check(Plan(root, 1, 1, 2))
    space.check(SHAPES["up"].plan)


def test_sixteen_branches_and_no_more() -> None:
    def intersected(count: int) -> Plan:
        unions = [p.Union((p.Row(2 * i, RELATED), p.Row(2 * i + 1, RELATED))) for i in range(count)]
        return Plan(p.Intersect(tuple(unions)), 2 * count, 1, 1)

    assert len(schedule_of((intersected(4),), False).outputs[0]) == 16
    with pytest.raises(PlanError, match="more than 16 branches"):
        schedule_of((intersected(5),), False)
    assert len(schedule_of((intersected(5),), True).outputs[0]) == 1
    choices = iter(range(2**30))  # of thirty unions
    with pytest.raises(PlanError, match="more than 16 branches"):
        limited_branches(choices)
    assert next(choices) == 17  # none of the others was made
    with pytest.raises(PlanError, match="more than 16 branches"):
        schedule_of((intersected(30),), False)


@pytest.mark.parametrize("private", [False, True])
def test_the_loss_of_a_mix_is_that_of_its_queries(private: bool) -> None:
    """By a loop over queries, branches, answers, and negatives that are no answers."""
    space = SetSpace(FACTS, False)
    generator = torch.Generator().manual_seed(1)
    space.match = lambda states, entities=None: (
        2 * (states if entities is None else states[:, entities]) - 0.7
    )
    batch = []
    many = 5
    for name, known in (("2u", 3), ("2p", 1), ("up", 3)):
        plan = SHAPES[name].plan
        answers = torch.randint(0, SIZE, (many, known), generator=generator)
        batch.append(
            Drawn(plan, *slots(plan, many), answers, torch.rand(many, generator=generator))
        )
    negatives = torch.randint(0, SIZE, (3 * many, 6) if private else (6,), generator=generator)
    expected = 0.0
    row = 0
    for drawn in batch:
        logits = space.logits(drawn.plan, drawn.entities, drawn.relations)
        for i in range(many):
            own = (negatives[row] if private else negatives).tolist()
            right = drawn.answers[i].tolist()
            wrong = torch.tensor([logits[i, n] if n not in right else -torch.inf for n in own])
            shares = torch.exp(0.5 * wrong) / torch.exp(0.5 * wrong).sum()
            terms = [
                float(s * logsigmoid(-w))
                for s, w in zip(shares, wrong, strict=True)
                if w > -torch.inf
            ]
            for answer in right:
                each = float(logsigmoid(logits[i, answer])) + sum(terms)
                expected += -0.5 * float(drawn.weights[i]) * each / len(right)
            row += 1
    assert float(space.loss(batch, negatives)) == pytest.approx(expected, rel=1e-5)


def test_negatives_that_are_drawn_often_count_less() -> None:
    space = SetSpace(FACTS, False)
    plan = SHAPES["2p"].plan
    space.settings = space.settings.changed(loss="softmax")
    batch = [
        Drawn(plan, *slots(plan, 3), torch.tensor([[1], [0], [4]]), torch.tensor([1.0, 0.5, 2.0]))
    ]
    negatives = torch.tensor([2, 3, 0])
    often = torch.tensor([0.3, -1.2, 2.0])
    logits = space.logits(plan, batch[0].entities, batch[0].relations).detach()
    expected = 0.0
    for i in range(3):
        right = logits[i, batch[0].answers[i, 0]]
        wrong = [
            logits[i, n] - often[j]
            for j, n in enumerate(negatives.tolist())
            if n != batch[0].answers[i, 0]
        ]
        expected += float(batch[0].weights[i]) * float(
            torch.stack([right, *wrong]).logsumexp(0) - right
        )
    assert float(space.loss(batch, negatives, often).detach()) == pytest.approx(expected, rel=1e-5)


def test_a_space_of_64_bits_learns_in_them() -> None:
    space = FuzzQE(
        SIZE, RELATIONS, EncodeSettings("fuzzqe", width=3, loss="softmax").with_derived(SIZE)
    )
    space.reset(torch.Generator().manual_seed(0))
    plan = SHAPES["2p"].plan
    batch = [Drawn(plan, *slots(plan, 3), torch.tensor([[1], [0], [4]]), torch.ones(3))]
    loss = float(space.loss(batch, torch.arange(SIZE)).detach())
    wide = space.double().loss(batch, torch.arange(SIZE))
    assert wide.dtype == torch.float64
    assert float(wide.detach()) == pytest.approx(loss, rel=1e-5)
