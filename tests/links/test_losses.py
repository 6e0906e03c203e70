"""Losses against their plain definitions, with the gradients autograd finds."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from tacit.distributed.shards import Shards
from tacit.links.factors import BilinearModel, FactorModel
from tacit.links.models import MODELS, make_model
from tacit.links.training.losses import OneVsAll, l2, n3, relation_loss, sampled_softmax

# 300 entities are stored as 384 rows
ENTITIES = 300
RELATIONS = 6
RANK = 5
BATCH = 9


def model_and_batch(
    name: str, entities: int = ENTITIES
) -> tuple[FactorModel, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    model = make_model(name, entities, RELATIONS, RANK)
    model.reset(1.0, generator)
    queries = torch.randn(BATCH, model.tail_table.width, generator=generator)
    targets = torch.tensor([0, entities - 1, *range(5, 5 + BATCH - 2)])
    return model, queries, targets


def plain(
    model: FactorModel, queries: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    q = queries.clone().requires_grad_()
    model.zero_grad()
    loss = F.cross_entropy(model.match(q, model.tail_table.weight), targets)
    loss.backward()
    assert q.grad is not None
    assert model.tail_table.storage.grad is not None
    return loss.detach(), q.grad, model.tail_table.storage.grad


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("budget", [math.inf, 4 * BATCH * 256, 4 * BATCH * 130, 1])
def test_one_vs_all_equals_cross_entropy(name: str, budget: float) -> None:
    model, queries, targets = model_and_batch(name)
    expected = plain(model, queries, targets)
    loss = OneVsAll(model, BATCH, budget if budget < math.inf else 1e9)
    out = torch.full_like(model.tail_table.storage, math.nan)
    found = loss(queries, targets, out)
    torch.testing.assert_close((*found, out), expected)
    assert not out[ENTITIES:].any()  # padding is never moved


def test_blocks_keep_to_the_budget() -> None:
    model, *_ = model_and_batch("complex")
    assert OneVsAll(model, BATCH, 4 * BATCH * 384).block == 384
    assert OneVsAll(model, BATCH, 4 * BATCH * 383).block == 256
    assert OneVsAll(model, BATCH, 4 * BATCH * 255).block == 128


def test_a_smaller_last_batch() -> None:
    model, queries, targets = model_and_batch("distmult")
    loss = OneVsAll(model, 50, 1e9)
    out = torch.empty_like(model.tail_table.storage)
    torch.testing.assert_close((*loss(queries, targets, out), out), plain(model, queries, targets))


def test_scores_far_apart_keep_their_gradient() -> None:
    model = make_model("distmult", 2, 1, 1)
    model.load_state_dict(
        {"entities.weight": torch.tensor([[0.0], [500.0]]), "relations.weight": torch.ones(1, 1)}
    )
    out = torch.empty_like(model.entities.storage)
    _, by_query = OneVsAll(model, 1, 1e9)(torch.ones(1, 1), torch.tensor([0]), out)
    assert by_query.item() == pytest.approx(500.0)
    assert out[:2, 0].tolist() == pytest.approx([-1.0, 1.0])


def test_bfloat16_products_are_close() -> None:
    model, queries, targets = model_and_batch("complex")
    expected = plain(model, queries, targets)
    out = torch.empty_like(model.tail_table.storage)
    loss, by_query = OneVsAll(model, BATCH, 1e9, "bf16")(queries, targets, out)
    assert loss.item() == pytest.approx(expected[0].item(), rel=0.02)
    torch.testing.assert_close(by_query, expected[1], rtol=0.05, atol=0.02)
    torch.testing.assert_close(out, expected[2], rtol=0.05, atol=0.005)


def test_not_a_number_stays_visible() -> None:
    model, queries, targets = model_and_batch("complex")
    queries[3, 0] = math.nan
    out = torch.empty_like(model.tail_table.storage)
    for budget in (1e9, 1):
        assert math.isnan(OneVsAll(model, BATCH, budget)(queries, targets, out)[0].item())


@pytest.mark.parametrize("name", MODELS)
def test_sampling_every_entity_once_is_the_full_loss(name: str) -> None:
    model, queries, _ = model_and_batch(name, 20)
    targets = torch.full((BATCH,), 7)
    others = torch.tensor([e for e in range(20) if e != 7])
    full = F.cross_entropy(model.match(queries, model.tail_table.weight), targets)
    right = model.match_pairs(queries, model.tail_table(targets))
    wrong = model.match(queries, model.tail_table(others))
    sampled = sampled_softmax(right, wrong, others, targets, Shards(20))
    torch.testing.assert_close(sampled[0], full)
    weights = model.match(queries, model.tail_table.weight).softmax(-1) / BATCH
    torch.testing.assert_close(sampled[1], weights[:, 7] - 1 / BATCH)
    torch.testing.assert_close(sampled[2], weights[:, others])


def test_a_drawn_target_is_no_negative() -> None:
    model, queries, _ = model_and_batch("complex", 20)
    targets = torch.full((BATCH,), 7)
    tails = model.tail_table(targets)
    drawn = torch.tensor([7, 3, 7, 4])
    right = model.match_pairs(queries, tails)
    wrong = model.match(queries, model.tail_table(torch.tensor([3, 4])))
    expected = (right.exp() + 19 / 4 * wrong.exp().sum(-1)).log() - right
    every = model.match(queries, model.tail_table(drawn))
    loss, _, by_wrong = sampled_softmax(right, every, drawn, targets, Shards(20))
    torch.testing.assert_close(loss, expected.mean())
    assert not by_wrong[:, [0, 2]].any()
    torch.testing.assert_close(
        sampled_softmax(right, every[:, :1], drawn[:1], targets, Shards(20))[0], 0 * loss
    )


@pytest.mark.parametrize("name", ["complex", "distmult", "cp"])
def test_relation_loss_scores_all_relations(name: str) -> None:
    model, _, tails = model_and_batch(name)
    assert isinstance(model, BilinearModel)
    heads = tails.flip(0)
    relations = torch.arange(BATCH) % RELATIONS
    scores = torch.stack(
        [model.logits_of(heads, torch.full_like(heads, r), tails) for r in range(RELATIONS)], -1
    )
    h, _, t = model.rows(heads, relations, tails)
    torch.testing.assert_close(
        relation_loss(model, h, relations, t), F.cross_entropy(scores, relations)
    )


def test_regularisers_by_hand() -> None:
    squares = (torch.tensor([[4.0, 9.0], [0.0, 1.0]]), torch.tensor([[16.0], [0.0]]))
    assert n3(squares).item() == pytest.approx((8 + 27 + 1 + 64) / 2)
    assert l2(squares).item() == pytest.approx((4 + 9 + 1 + 16) / 2)


def test_n3_has_a_gradient_at_zero() -> None:
    model = make_model("complex", 2, 1, 2)
    rows = torch.zeros(1, 4, requires_grad=True)
    n3(model.squares(rows, rows, rows)).backward()
    assert rows.grad is not None
    assert not rows.grad.any()
