"""Processes that share the entities out train the model that one process trains."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rank_processes import on_ranks
from ring_runs import GRAPH, SIZE, SMALL
from tacit.distributed.shards import Shards, share
from tacit.links.models import MODELS, make_model
from tacit.links.settings import TrainSettings
from tacit.links.training.fact_validation import Validation
from tacit.links.training.link_training import Training
from tacit.links.training.step import TrainStep

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes meet over the device lo")
STEPS = 5
LARGE = 1e9
SMALL_BUDGET = 1.0


def cases() -> dict[str, tuple[TrainSettings, int, float]]:
    """Settings, entities and bytes for scores, by name."""
    start = replace(SMALL, reg=0.1, init=1.0, batch=8)
    found = {}
    for model in MODELS:
        for optimizer in ("adagrad", "rowwise"):
            settings = replace(start, model=model, optimizer=optimizer)
            found[f"{model} {optimizer}"] = settings, 23, LARGE
            found[f"{model} {optimizer} sampled"] = replace(settings, negatives=7), 23, LARGE
    found["adam"] = replace(start, optimizer="adam"), 23, LARGE
    found["norm 2"] = replace(start, model="rotate", norm=2), 23, LARGE
    found["relations and l2"] = replace(start, relation_weight=2.0, regulariser="l2"), 23, LARGE
    found["blocks"] = start, 401, SMALL_BUDGET
    return found


def batches(entities: int) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(8)
    columns = [
        torch.randint(size, (STEPS * 8,), generator=draw) for size in (entities, 4, entities)
    ]
    return list(torch.stack(columns, 1).split(8))


def generator(step: int, rank: int) -> torch.Generator:
    return torch.Generator().manual_seed(100 * rank + step)


def stepped(
    settings: TrainSettings, entities: int, budget: float, shards: Shards
) -> tuple[Any, list[float]]:
    """The weights of this process after five steps in float64, and the losses."""
    model = make_model(settings.model, entities, 4, settings.rank, settings.norm, shards)
    model.reset(settings.init, torch.Generator().manual_seed(3))
    update = TrainStep(model.double(), settings, budget, "float32")
    losses = [
        float(update(batch, generator(n, shards.rank))) for n, batch in enumerate(batches(entities))
    ]
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}, losses


def plain_sampled(settings: TrainSettings, entities: int, world: int) -> tuple[Any, list[float]]:
    """Five steps of the sampled loss by autograd, negatives weighed by their rank's share."""
    model = make_model(settings.model, entities, 4, settings.rank, settings.norm)
    model.reset(settings.init, torch.Generator().manual_seed(3))
    model.double()
    tables = list(model.parameters())
    sums = [torch.zeros_like(table) for table in tables]
    by_row = settings.optimizer == "rowwise"
    losses = []
    for n, (heads, relations, tails) in enumerate(batch.T for batch in batches(entities)):
        h, r, t = model.rows(heads, relations, tails)
        scores = model.match(model.compose(h, r), model.tail_table.weight)
        total = scores[torch.arange(8), tails].exp()
        for rank in range(world):
            start, stop = share(entities, rank, world)
            first, last = share(settings.negatives, rank, world)
            drawn = torch.randint(start, stop, (last - first,), generator=generator(n, rank))
            weight = (entities - 1) / entities * (stop - start) / (last - first)
            total = total + weight * (scores[:, drawn].exp() * (drawn != tails[:, None])).sum(-1)
        loss = (total.log() - scores[torch.arange(8), tails]).mean()
        losses.append(loss.item())
        loss = (
            loss
            + settings.reg * sum(square.pow(1.5).sum() for square in model.squares(h, r, t)) / 8
        )
        for table, gradient, held in zip(
            tables, torch.autograd.grad(loss, tables), sums, strict=True
        ):
            square = gradient.square()
            held += (
                square.mean(1, keepdim=True)
                if by_row and table is not model.relations.storage
                else square
            )
            table.data -= settings.lr * gradient / (held.sqrt() + 1e-10)
    return model.state_dict(), losses


def work(rank: int, world: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (settings, entities, budget) in cases().items():
        found[name] = stepped(settings, entities, budget, Shards.joined(entities))
    training = Training(GRAPH, replace(SMALL, init=1.0), shards=Shards.joined(SIZE))
    found["validation"] = training.validate()
    return found


def test_ranks_take_the_steps_of_one_process(tmp_path: Path) -> None:
    world = 3  # which divides neither the entities nor the negatives
    found = on_ranks(world, tmp_path, work)
    for name, (settings, entities, _) in cases().items():
        if settings.negatives:
            weights, losses = plain_sampled(settings, entities, world)
        else:
            weights, losses = stepped(settings, entities, LARGE, Shards(entities))
        for rank in range(world):
            got, rank_losses = found[rank][name]
            assert rank_losses == pytest.approx(losses, abs=1e-9), name
            own = slice(*share(entities, rank, world))
            for key, expected in weights.items():
                expected = expected if key.startswith("relations") else expected[own]
                torch.testing.assert_close(
                    got[key], expected, rtol=0, atol=1e-9, msg=lambda m, n=name: f"{n}: {m}"
                )
    whole = Training(GRAPH, replace(SMALL, init=1.0))
    mrr = Validation(GRAPH, 100, 0, 8).mrr(whole.module)
    assert all(rank["validation"]["1p"] == pytest.approx(mrr, abs=1e-6) for rank in found)


def test_one_process_is_the_plain_step() -> None:
    settings, entities, _ = cases()["complex adagrad sampled"]
    weights, losses = plain_sampled(settings, entities, 1)
    got, step_losses = stepped(settings, entities, LARGE, Shards(entities))
    assert step_losses == pytest.approx(losses, abs=1e-9)
    assert all(torch.allclose(got[key], weights[key], rtol=0, atol=1e-9) for key in weights)
