"""Graph networks: layers by loops, a perfect projector, the exact twin, training."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import tacit
from formulas import RELATIONS as NAMES
from formulas import queries
from set_space import RELATIONS, SIZE, random_facts
from tacit.encode.encoder import Drawn, Slots
from tacit.encode.layers import network
from tacit.encode.models import load_encoder, make_encoder
from tacit.encode.networks.gnnqe import GNNQE, DescribedLayer
from tacit.encode.networks.graph_network import SetProjector, readout, set_loss
from tacit.encode.networks.sorted_facts import (
    SortedFacts,
    followed_facts,
    inverse_places,
    reached_entities,
    remaining_facts,
)
from tacit.encode.networks.ultra import SummedLayer
from tacit.encode.settings import EncodeSettings
from tacit.encode.training.draws import draws
from tacit.encode.training.encoding import encode
from tacit.engine.reasoner import SymbolicReasoner
from tacit.errors import PlanError
from tacit.graph.fact_index import FactIndex
from tacit.graph.graph import Graph
from tacit.query.formula import Query
from tacit.query.plans.compile import compile_query
from tacit.query.plans.plan import Loop
from tacit.query.plans.symbolic import answers
from tacit.query.sampling.shapes import SHAPES
from tacit.run_folder.folder import RunFolder

FACTS = random_facts(3)
INDEX = FactIndex(FACTS, RELATIONS)
SMALL = {"width": 8, "layers": 2, "hidden": 16, "batch": 20}


class Perfect(SetProjector):
    """The graph itself: what facts lead to is certain, and nothing else."""

    name = "perfect"

    def __init__(self, facts: np.ndarray, size: int, relations: int) -> None:
        super().__init__(
            size,
            relations,
            EncodeSettings("gnnqe", dropout=0.25, width=1, loss="sets", through=True),
            facts,
        )
        self.adjacent = torch.zeros(relations, size, size)
        self.adjacent[facts[:, 1], facts[:, 0], facts[:, 2]] = 1
        self.nothing = nn.Parameter(torch.zeros(()))

    def network(self, log_sets: Tensor, relations: Tensor, keep: Tensor | None = None) -> Tensor:
        """Far above 0 inside, far below outside."""
        return (
            200 * (log_sets.exp()[:, None] @ self.adjacent[relations])[:, 0].clamp(max=1)
            - 100
            + self.nothing
        )

    def reset(self, generator: torch.Generator) -> None:
        """Nothing to draw."""


def slots(name: str, count: int = 9) -> tuple[Tensor, Tensor]:
    plan = SHAPES[name].plan
    generator = torch.Generator().manual_seed(len(name))
    entities = torch.randint(0, SIZE, (count, plan.num_entities), generator=generator)
    return entities, torch.randint(0, RELATIONS, (count, plan.num_relations), generator=generator)


@pytest.mark.parametrize("name", list(SHAPES))
def test_a_perfect_projector_finds_the_symbolic_answers(name: str) -> None:
    """By the reasoner, and by the schedule, whose other half is the exact twin."""
    encoder = Perfect(FACTS, SIZE, RELATIONS)
    plan = SHAPES[name].plan
    ids = slots(name)
    expected = SymbolicReasoner(INDEX, SIZE).scores(plan, *ids) == 0
    assert torch.equal(encoder.reasoner().scores(plan, *ids) > math.log(0.5), expected)
    assert torch.equal(encoder.logits(plan, *ids) > 0, expected)
    states = encoder.states([Slots(plan, *ids)])[0][0]
    assert torch.equal(states[:, SIZE:] == 0, expected)
    assert torch.equal(states[:, :SIZE] > math.log(0.5), expected)


@given(queries(), st.integers(0, 50))
@settings(max_examples=25, deadline=None)
def test_and_so_it_does_for_any_question(query: Query, seed: int) -> None:
    try:
        prepared = compile_query(query, safe=False)
    except PlanError:
        assume(False)
    facts = random_facts(seed, size=4, count=8)
    facts[:, 1] += 2 * (np.arange(len(facts)) % len(NAMES) == 0)  # some of a third relation
    facts = np.concatenate([facts, np.stack([facts[:, 2], facts[:, 1] ^ 1, facts[:, 0]], 1)])
    encoder = Perfect(facts, 4, 2 * len(NAMES))
    entities = torch.tensor([[int(name[1:]) for name in prepared.entities]]).long()
    relations = torch.tensor([[2 * NAMES.index(name) for name in prepared.relations]]).long()
    if prepared.plan.has(Loop):
        with pytest.raises(PlanError, match="Loop"):
            encoder.reasoner().scores(prepared.plan, entities, relations)
        return
    expected = (
        SymbolicReasoner(FactIndex(facts, 2 * len(NAMES)), 4).scores(
            prepared.plan, entities, relations
        )
        == 0
    )
    assert torch.equal(
        encoder.reasoner().scores(prepared.plan, entities, relations) > math.log(0.5), expected
    )


def test_layers_by_loops() -> None:
    """`W [h; a; s·a; a/s]` with the thirteen parts written out, for one entity after the other."""
    facts = SortedFacts(FACTS, SIZE, RELATIONS)
    d = 2
    torch.manual_seed(0)
    states = torch.randn(SIZE, 1, d)
    query = torch.randn(1, d)
    boundary = torch.randn(SIZE, 1, d)
    layer = DescribedLayer(d, RELATIONS)
    plain = SummedLayer(d)
    vectors = layer.relations(query)
    found, simple = (each(states, vectors, boundary, facts, None) for each in (layer, plain))
    into = [
        [(u, r) for u, r, t in np.unique(FACTS, axis=0).tolist() if t == v] for v in range(SIZE)
    ]
    logs = [math.log(len(facts_in) + 1) for facts_in in into]
    for v in range(SIZE):
        messages = torch.stack(
            [*(states[u, 0] * vectors[r, 0] for u, r in into[v]), boundary[v, 0]]
        )
        spread = (messages.square().mean(0) - messages.mean(0).square()).clamp(min=1e-6).sqrt()
        parts = torch.cat([messages.mean(0), messages.amax(0), messages.amin(0), spread])
        scale = logs[v] / (sum(logs) / SIZE)
        weights = torch.cat(layer.described.weight.chunk(3), 1)
        mixed = torch.cat(
            [parts, scale * parts, parts / max(scale, 0.01)]
        ) @ weights.t() + layer.own(states[v, 0])
        expected = states[v, 0] + layer.layer_norm(mixed).relu()
        torch.testing.assert_close(found[v, 0], expected, rtol=1e-4, atol=1e-5)
        mixed = plain.linear(torch.cat([states[v, 0], messages.sum(0)]))
        torch.testing.assert_close(
            simple[v, 0], states[v, 0] + plain.layer_norm(mixed).relu(), rtol=1e-4, atol=1e-5
        )
    mlp = network(2 * d, 5, 1, 1)
    torch.testing.assert_close(
        readout(mlp, [states], query),
        mlp(torch.cat([states, query.expand(SIZE, 1, d)], 2))[..., 0].t(),
    )


def test_the_facts_that_are_left() -> None:
    """None goes without its inverse or unless a hop follows it, and every entity keeps one."""
    world = tacit.load("world")
    facts = SortedFacts(world.triples("train"), world.num_entities, world.num_relations)
    inverses = inverse_places(facts)
    generator = torch.Generator().manual_seed(0)
    assert torch.equal(facts.heads[inverses], facts.tails)
    assert torch.equal(facts.relations[inverses], facts.relations ^ 1)
    sets = torch.rand(3, world.num_entities, generator=generator) < 0.7
    relations = torch.tensor([0, 3, 4])
    over = followed_facts(sets, relations, facts)
    draws_ = torch.rand(len(facts), generator=generator)
    left = remaining_facts(over, facts, inverses, 0.25, draws_)
    assert torch.equal(left, left[inverses])
    hit = {
        (h, r, t)
        for h, r, t in world.triples("train").tolist()
        if any(sets[i, h] and r == relations[i] for i in range(3))
    }
    hit |= {(t, r ^ 1, h) for h, r, t in hit}
    rows = torch.stack([facts.heads, facts.relations, facts.tails], 1)
    gone = {tuple(row) for row in rows[~left].tolist()}
    assert gone <= hit
    assert 0.15 < len(gone) / len(hit) < 0.27
    assert (facts.degrees(left)[facts.degrees() > 0] > 0).all()
    everything = remaining_facts(torch.ones_like(over), facts, inverses, 1.0, draws_)
    assert (facts.degrees(everything)[facts.degrees() > 0] > 0).all()
    assert everything.float().mean() < 0.5
    for row, relation, found in zip(sets, relations, reached_entities(over, facts), strict=True):
        targets = {t for h, r, t in world.triples("train").tolist() if row[h] and r == relation}
        assert set(found.nonzero()[:, 0].tolist()) == targets


def test_the_loss_of_sets_by_hand() -> None:
    scores = torch.tensor([[0.5, 0.9, 0.2, 0.4]], requires_grad=True)
    right = torch.tensor([[True, False, True, False]])
    odds = [math.log(p / (1 - p)) for p in (0.9, 0.4)]
    raised = [math.exp(5 * odd) for odd in odds]
    expected = -(math.log(0.5) + math.log(0.2)) / 2
    expected -= sum(
        r / sum(raised) * math.log(1 - p) for r, p in zip(raised, (0.9, 0.4), strict=True)
    )
    found = set_loss(scores.log(), right, 5.0)
    assert found.tolist() == pytest.approx([expected / 2], rel=1e-5)
    assert torch.isfinite(
        set_loss(torch.tensor([[0.0, -torch.inf]]), torch.tensor([[False, True]]), 5.0)
    ).all()
    assert torch.isfinite(
        set_loss(torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool), 5.0)
    ).all()


@pytest.fixture(scope="module")
def thirty() -> Graph:
    facts = np.unique(random_facts(1, size=30, count=60)[:60], axis=0)
    return Graph.of([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in facts.tolist()])


@pytest.fixture(scope="module")
def trained(thirty: Graph) -> GNNQE:
    options = EncodeSettings(
        "gnnqe", shapes=("1p", "2p", "2i", "2in"), dropout=0.0, **SMALL
    ).with_derived(30)
    encoder = make_encoder(options, thirty)
    assert isinstance(encoder, GNNQE)
    torch.manual_seed(0)
    encoder.reset(torch.Generator().manual_seed(0))
    batches = draws(
        options.shapes,
        {},
        thirty.index("train"),
        thirty.num_entities,
        options.batch,
        1,
        torch.device("cpu"),
    )
    adam = torch.optim.Adam(encoder.parameters(), lr=0.01)
    for _ in range(40):
        loss = encoder.loss([draw() for draw in batches], torch.zeros(1, dtype=torch.long))
        adam.zero_grad()
        loss.backward()
        adam.step()
    return encoder


@pytest.mark.parametrize("name", ["1p", "2p", "2i", "2in"])
def test_a_small_graph_is_learnt_by_heart(name: str, thirty: Graph, trained: GNNQE) -> None:
    torch.manual_seed(1)
    drawn = draws(
        (name,), {}, thirty.index("train"), thirty.num_entities, 50, 1, torch.device("cpu")
    )[0]()
    scores = trained.logits(drawn.plan, drawn.entities, drawn.relations)
    right = answers(
        drawn.plan,
        drawn.entities.numpy(),
        drawn.relations.numpy(),
        thirty.index("train"),
        thirty.num_entities,
    )
    ranks = []
    for row, weight in enumerate(drawn.weights.tolist()):
        wrong = torch.ones(thirty.num_entities, dtype=torch.bool)
        wrong[torch.from_numpy(right[row]).long()] = False
        ranks += [
            1 / (1 + int((scores[row][wrong] >= scores[row, int(a)]).sum()))
            for a in right[row]
            if weight
        ]
    assert np.mean(ranks) > 0.95


@pytest.mark.parametrize("model", ["gnnqe", "ultra"])
def test_a_trained_run_opens_again(model: str, thirty: Graph, tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", thirty, {})
    options = EncodeSettings(model, steps=2, width=4, layers=1, hidden=4, batch=10, device="cpu")
    result = encode(thirty, options, run=run)
    encoder, settled = load_encoder(run, thirty)
    assert settled == result.settings
    slots_ = SHAPES["inp"].plan, torch.tensor([[0, 1]]), torch.tensor([[0, 1, 2]])
    with torch.no_grad():
        assert torch.equal(encoder.logits(*slots_), result.encoder.logits(*slots_))


@pytest.mark.parametrize("name", ["1p", "pni"])
def test_single_answers_and_states_score_as_all_of_them_do(name: str, thirty: Graph) -> None:
    """Facts are only removed in training: a question has the same answers every time."""
    encoder = make_encoder(EncodeSettings("gnnqe", **SMALL).with_derived(30), thirty).eval()
    encoder.reset(torch.Generator().manual_seed(0))
    assert isinstance(encoder, GNNQE)
    drawn = draws(
        (name,), {}, thirty.index("train"), thirty.num_entities, 20, 1, torch.device("cpu")
    )[0]()
    queries = drawn.plan, drawn.entities, drawn.relations
    every = encoder.logits(*queries)
    assert torch.equal(
        encoder.logits_of(*queries, drawn.answers[:, 0]), every.gather(1, drawn.answers)[:, 0]
    )
    torch.testing.assert_close(
        encoder.match(encoder.states([drawn])[0][0]).detach(), every, rtol=1e-4, atol=1e-4
    )


def test_gradients_reach_the_first_hop_where_they_go_through(thirty: Graph) -> None:
    slots_ = torch.tensor([[0]]), torch.tensor([[0, 1]])
    for through in (True, False):
        options = EncodeSettings("gnnqe", through=through, **SMALL).with_derived(30)
        encoder = make_encoder(options, thirty)
        encoder.reset(torch.Generator().manual_seed(0))
        batch = [Drawn(SHAPES["2p"].plan, *slots_, torch.tensor([[0]]), torch.ones(1))]
        encoder.loss(batch, torch.zeros(1, dtype=torch.long)).backward()
        assert isinstance(encoder, GNNQE)
        grad = encoder.query.weight.grad
        assert grad is not None
        assert bool(grad[1].abs().sum() > 0)
        assert bool(grad[0].abs().sum() > 0) == through


def test_as_a_scorer_it_has_searches_reasons_and_certificates(
    thirty: Graph, trained: GNNQE
) -> None:
    scorer = trained.scorer()
    heads = torch.tensor([3, 0, 3])
    relations = torch.tensor([1, 0, 1])
    tails = torch.tensor([5, 2, 7])
    rows = scorer.logits(heads, relations)
    assert torch.equal(rows[0], rows[2])
    torch.testing.assert_close(
        scorer.logits_of(heads, relations, tails), rows[torch.arange(3), tails]
    )
    plan = SHAPES["1p"].plan
    torch.testing.assert_close(trained.logits(plan, heads[:, None], relations[:, None]), rows)
    head, relation, _ = thirty.train[0].tolist()
    names = thirty.entities[head], thirty.relations[relation]
    question = f"?t : {names[1]}({names[0]}, ?x) and {names[1]}(?t, ?x)"
    beam = tacit.Engine(thirty, scorer, calibration="sigmoid", k=30, observed="train").explain(
        question, top=3
    )
    exact = tacit.Engine(
        thirty, scorer, calibration="sigmoid", search="exact", observed="train"
    ).ask(question, top=3)
    assert [answer.entity for answer in beam] == [answer.entity for answer in exact]
    assert beam.explained
    assert names[0] in {answer.entity for answer in beam if answer.known}
