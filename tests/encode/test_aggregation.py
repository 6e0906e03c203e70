"""Aggregation over five entities by loops, and its gradients against plain scatter."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from set_space import RELATIONS, SIZE, random_facts
from tacit.encode.networks import aggregation
from tacit.encode.networks import aggregation_kernels as kernels
from tacit.encode.networks.aggregation import describe_messages, sum_messages
from tacit.encode.networks.gnnqe import DescribedLayer
from tacit.encode.networks.sorted_facts import PIECE, Segments, SortedFacts
from tacit.encode.networks.ultra import SummedLayer
from tacit.errors import SettingsError

TRIPLES = np.array([[0, 0, 1], [2, 0, 1], [3, 2, 1], [0, 2, 3], [1, 0, 1]])
FIVE = np.concatenate([TRIPLES, np.stack([TRIPLES[:, 2], TRIPLES[:, 1] ^ 1, TRIPLES[:, 0]], 1)])


def inputs(n: int, r: int, b: int, d: int, tied: bool = False) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    tensors = [
        torch.randn(size, b, d, generator=generator, dtype=torch.float64) for size in (n, r, n)
    ]
    return [
        (tensor.round().clamp(-1, 1) if tied else tensor).requires_grad_() for tensor in tensors
    ]


def by_scatter(
    states: Tensor, weights: Tensor, boundary: Tensor, facts: SortedFacts, keep: Tensor | None
) -> Tensor:
    """Explicit messages with torch's own gradients, which split those of ties evenly."""
    some = slice(None) if keep is None else keep.nonzero()[:, 0]
    messages = torch.cat([states[facts.heads[some]] * weights[facts.relations[some]], boundary])
    tails = torch.cat([facts.tails[some], torch.arange(len(boundary))])
    places = tails[:, None, None].expand_as(messages)
    nothing = torch.zeros_like(boundary)
    counts = tails.bincount(minlength=len(boundary))[:, None, None]
    mean = nothing.scatter_add(0, places, messages) / counts
    squares = nothing.scatter_add(0, places, messages.square()) / counts
    high = (nothing - torch.inf).scatter_reduce(0, places, messages, "amax")
    low = (nothing + torch.inf).scatter_reduce(0, places, messages, "amin")
    return torch.stack([mean, high, low, (squares - mean.square()).clamp(min=1e-6).sqrt()], 2)


@pytest.mark.parametrize(
    "mask", [None, [True, False, True, True, False, True, True, True, True, False]]
)
def test_five_entities_by_hand(mask: list[bool] | None) -> None:
    facts = SortedFacts(FIVE, 5, 4)
    keep = None if mask is None else torch.tensor(mask)
    states, weights, boundary = (tensor.detach() for tensor in inputs(5, 4, 2, 3))
    total = sum_messages(states, weights, boundary, facts, keep)
    parts = describe_messages(states, weights, boundary, facts, keep)
    left = [
        fact
        for i, fact in enumerate(sorted(FIVE.tolist(), key=lambda f: (f[2], f[1], f[0])))
        if not mask or mask[i]
    ]
    for v in range(5):
        for b in range(2):
            for i in range(3):
                messages = [float(states[u, b, i] * weights[r, b, i]) for u, r, t in left if t == v]
                messages.append(float(boundary[v, b, i]))
                mean = sum(messages) / len(messages)
                variance = sum(m * m for m in messages) / len(messages) - mean * mean
                expected = [mean, max(messages), min(messages), math.sqrt(max(variance, 1e-6))]
                assert parts[v, b, :, i].tolist() == pytest.approx(expected)
                assert float(total[v, b, i]) == pytest.approx(sum(messages))
    assert facts.degrees(keep).tolist() == [sum(t == v for _, _, t in left) for v in range(5)]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("block", [8, 1 << 18])
def test_gradients_are_those_of_plain_scatter(
    tied: bool, masked: bool, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregation, "_CACHED", block)
    facts = SortedFacts(random_facts(5), SIZE, RELATIONS)
    keep = (
        torch.rand(len(facts), generator=torch.Generator().manual_seed(0)) > 0.3 if masked else None
    )
    tensors = inputs(SIZE, RELATIONS, 3, 2, tied)
    expected = by_scatter(*tensors, facts, keep)
    found = describe_messages(*tensors, facts, keep)
    torch.testing.assert_close(found, expected)
    grad = torch.randn(found.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for one, other in zip(
        torch.autograd.grad(found, tensors, grad),
        torch.autograd.grad(expected, tensors, grad),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
    assert torch.autograd.gradcheck(
        lambda *args: sum_messages(*args, facts, keep), inputs(SIZE, RELATIONS, 1, 1)
    )


def test_pieces_hold_every_fact_once() -> None:
    """What the kernels go through: short pieces, and the rows of long keys behind all others."""
    keys = torch.tensor([2] * (2 * PIECE + 3) + [0, 5, 2])
    segments = Segments(keys, 6, heads=torch.arange(len(keys)))
    seen = []
    for key, start, stop, row in zip(
        segments.keys.tolist(),
        segments.starts.tolist(),
        segments.stops.tolist(),
        segments.rows.tolist(),
        strict=True,
    ):
        assert stop - start <= PIECE
        assert row == key if key != 2 else row >= 6
        assert (keys[segments.order[start:stop].long()] == key).all()
        seen += segments.heads[start:stop].tolist()
    assert sorted(seen) == list(range(len(keys)))
    assert segments.wide.tolist() == [2]
    assert segments.firsts.tolist() == [0, 3]
    assert segments.extra == 3
    assert sorted(row for row in segments.rows.tolist() if row >= 6) == [6, 7, 8]
    assert set(segments.rows.tolist()) >= {0, 1, 3, 4, 5}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("masked", [False, True])
def test_kernels_agree_with_the_cpu(masked: bool) -> None:
    """Layers forward and backward, with a hub whose facts fill several pieces."""
    triples = np.concatenate([random_facts(5), [[i % SIZE, 2 * (i % 2), 3] for i in range(300)]])
    facts = SortedFacts(triples, SIZE, RELATIONS)
    keep = torch.rand(len(facts)) > 0.3 if masked else None
    layers = [DescribedLayer(6, RELATIONS), SummedLayer(6)]
    tensors = [torch.randn(size, 3, 6) for size in (SIZE, RELATIONS, SIZE)]
    for layer in layers:
        found = []
        for device in ("cpu", "cuda"):
            own = [tensor.to(device).detach().requires_grad_() for tensor in tensors]
            on = None if keep is None else keep.to(device)
            out = layer.to(device)(*own, facts.to(device), on)
            grads = torch.autograd.grad(
                out, [*own, *layer.layer_norm.parameters()], torch.ones_like(out)
            )
            found.append([tensor.cpu() for tensor in (out, *grads)])
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_without_triton_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "has_triton", lambda: False)
    states, weights = (torch.ones(size, 1, 2, device="cuda") for size in (SIZE, RELATIONS))
    with pytest.raises(SettingsError, match="device is cuda, where graph networks need Triton"):
        sum_messages(
            states, weights, states, SortedFacts(random_facts(5), SIZE, RELATIONS).to("cuda")
        )
