"""New rows are fitted to their facts, while all others stay as they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from ring_runs import GRAPH, SIZE
from tacit.graph.graph import Graph
from tacit.graph.merging import with_facts
from tacit.links.models import make_model
from tacit.links.settings import MODEL_NAMES, TrainSettings
from tacit.links.training import new_embeddings
from tacit.links.training.link_training import train
from tacit.links.training.new_embeddings import VectorFitting, fit_new_embeddings

SETTINGS = TrainSettings(rank=16, epochs=30, batch=20, reg=0.01, device="cpu")
# A node between 3 and 5 beside node 4, and a relation that is `next` by another name.
MORE = [
    ("n3", "next", "twin"),
    ("twin", "next", "n5"),
    ("n2", "after", "twin"),
    ("twin", "after", "n6"),
]
MORE += [(f"n{i}", "follows", f"n{i + 1}") for i in range(0, SIZE - 1, 2)]


def larger() -> Graph:
    return with_facts(GRAPH, Graph.of(MORE)).graph


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_what_was_trained_stays_to_the_bit_and_what_is_new_is_learned(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_embeddings, "BATCH", 64)  # with 32 other facts
    monkeypatch.setattr(new_embeddings, "NEGATIVES", 24)
    graph = larger()
    settings = SETTINGS.changed(
        model=name, reg=0.01 if name in ("complex", "cp", "distmult") else 0.0
    )
    model = train(GRAPH, settings, progress=False)
    before = {key: rows.clone() for key, rows in model.state_dict().items()}
    fitted = fit_new_embeddings(model, graph, settings)
    assert (fitted.num_entities, fitted.num_relations) == (graph.num_entities, graph.num_relations)
    for key, rows in before.items():
        assert torch.equal(fitted.state_dict()[key][: len(rows)], rows)
        assert torch.equal(model.state_dict()[key], rows)
    triples = torch.from_numpy(graph.triples().astype(np.int64))
    new = triples[(triples >= torch.tensor([SIZE, 4, SIZE])).any(1)]
    heads, relations, tails = new.T
    scores = fitted.logits(heads, relations)
    ranks = (scores > scores.gather(1, tails[:, None])).sum(1) + 1
    assert (1 / ranks).mean() > 0.6  # by chance it is 0.15


def test_the_same_facts_give_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_embeddings, "MOST", 3)
    model = make_model("complex", SIZE, 4, 3)
    model.reset(0.5, torch.Generator().manual_seed(1))
    one, other = (fit_new_embeddings(model, larger(), SETTINGS).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


def full_tables(growth: VectorFitting) -> dict[str, Tensor]:
    """All rows of each table as one leaf, of which a test asks for all gradients."""
    return {name: rows.clone().requires_grad_() for name, rows in growth.tables().items()}


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_a_step_is_adagrad_on_the_new_rows_of_the_sampled_loss(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the formula on whole tables, with N3 by hand; only new rows move."""
    monkeypatch.setattr(new_embeddings, "NEGATIVES", 7)
    graph = larger()
    model = make_model(name, SIZE, 4, 3)
    model.reset(0.5, torch.Generator().manual_seed(1))
    growth = VectorFitting(model.requires_grad_(False), graph, SETTINGS.changed(init=0.3))
    tables = full_tables(growth)
    drawn_by = torch.Generator().manual_seed(hash((0, 0, 0)) & (2**63 - 1))
    own = growth.triples[torch.randperm(len(growth.triples), generator=drawn_by)]
    batch = torch.cat(
        (own, growth.others[torch.randint(len(growth.others), (250,), generator=drawn_by)])
    )
    heads, relations, tails = batch.T
    drawn = torch.cat((torch.randint(SIZE, (4,), generator=drawn_by), torch.full((3,), SIZE)))
    torch.randint(SIZE, SIZE + 1, (3,), generator=drawn_by)  # of the only new entity
    of_tails = tables.get("tails", tables["entities"])
    h = tables["entities"][heads]
    r = tables["relations"][relations]
    t = of_tails[tails]
    wrong = of_tails[drawn]
    queries = model.compose(h, r)
    right = model.match(queries, t).diagonal()
    sums = right.exp()
    # one draw at a time, which stands for so many entities
    for k, share in enumerate([SIZE / 4] * 4 + [1 / 3] * 3):
        score = model.match_pairs(queries, wrong[k].expand_as(t))
        sums = sums + SIZE / (SIZE + 1) * share * score.exp() * (tails != drawn[k])
    penalty = sum(square.clamp_min(0).pow(1.5).sum() for square in model.squares(h, r, t)) / len(t)
    losses = sums.log() - right
    each = torch.ones(len(t))
    # some of them stand for all
    each[len(own) :] = len(growth.others) / len(growth.triples) * len(own) / 250
    ((losses * each).mean() + 0.01 * penalty).backward()
    loss, examples = growth.step(0)
    assert examples == len(batch)
    assert float(loss) / examples == pytest.approx(float(losses.detach().mean()), rel=1e-4)
    for table, rows in tables.items():
        assert rows.grad is not None
        expected = rows.detach() - 0.1 * rows.grad / (rows.grad.abs() + 1e-10)
        found = growth.tables()[table]
        old = len(growth.old[table])
        assert torch.equal(found[:old], rows[:old])
        steady = rows.grad[old:].abs() > 1e-5  # where the sign of a gradient is beyond doubt
        assert bool(steady.any())
        assert torch.allclose(found[old:][steady], expected[old:][steady], atol=1e-4)
