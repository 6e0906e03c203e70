"""Pair distances against their formulas, pair by pair, and their gradients against differences."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tacit.encode.spaces import pairs

INSIDE = 0.02
KINDS = ("l1", "box", "cone")


def by_hand(kind: str, x: list[float], s: list[float], v: list[float]) -> float:
    """One distance, as the papers write it."""
    total = 0.0
    for place, extent, entity in zip(x, s, v, strict=True):
        gap = abs(entity - place)
        if kind == "l1":
            total += gap
        elif kind == "box":
            total += max(0.0, gap - extent) + INSIDE * abs(min(gap, extent))
        else:
            i = abs(math.sin((entity - place) / 2))
            b = abs(math.sin(extent / 2))
            edges = (
                abs(math.sin((entity - place + extent) / 2)),
                abs(math.sin((entity - place - extent) / 2)),
            )
            total += (min(edges) if i >= b else 0.0) + INSIDE * min(i, b)
    return total


def inputs(kind: str, n: int = 5, m: int = 7, d: int = 3) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    x, s, v = (torch.randn(size, d, generator=generator, dtype=torch.float64) for size in (n, n, m))
    if kind == "cone":
        x = 3 * x
        s = math.pi * torch.sigmoid(s)
        v = 3 * v
    return [x, s, v]


def distances(kind: str) -> Callable[..., Tensor]:
    function = getattr(pairs, kind)
    return (
        (lambda x, s, v: function(x, v))
        if kind == "l1"
        else lambda x, s, v: function(x, s, v, INSIDE)
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [1, 10, 1 << 17])
def test_distances_are_those_of_the_formulas(
    kind: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "_CPU_BLOCK", block)
    x, s, v = inputs(kind)
    states = list(zip(x.tolist(), s.tolist(), strict=True))
    expected = [[by_hand(kind, *state, entity) for entity in v.tolist()] for state in states]
    torch.testing.assert_close(
        distances(kind)(x, s, v), torch.tensor(expected, dtype=torch.float64)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_entities_for_each_state_are_those_of_its_row(kind: str) -> None:
    x, s, v = inputs(kind)
    own = torch.tensor([[0, 6], [5, 1], [2, 2], [3, 4], [6, 0]])
    torch.testing.assert_close(
        distances(kind)(x, s, v[own]), distances(kind)(x, s, v).gather(1, own)
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [10, 1 << 17])
def test_gradients_are_the_slopes(kind: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "_CPU_BLOCK", block)
    tensors = [tensor.requires_grad_() for tensor in inputs(kind)]
    if kind == "l1":
        assert torch.autograd.gradcheck(pairs.l1, (tensors[0], tensors[2]))
    else:
        assert torch.autograd.gradcheck(distances(kind), tensors)


@pytest.mark.parametrize("kind", KINDS)
def test_no_states_and_no_entities(kind: str) -> None:
    for n, m in ((0, 3), (3, 0)):
        tensors = [tensor.requires_grad_() for tensor in inputs(kind, n, m)]
        found = distances(kind)(*tensors)
        found.sum().backward()
        assert found.shape == (n, m)


def test_an_entity_is_inside_the_cone_of_everything() -> None:
    x, s, v = inputs("cone")
    assert (pairs.cone(x, torch.full_like(s, math.pi), v, 0.0).abs() < 1e-12).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(5, 7, 3), (130, 200, 133)])
def test_kernels_agree_with_plain_operations(kind: str, sizes: tuple[int, int, int]) -> None:
    tensors = inputs(kind, *sizes)
    results = []
    for device, dtype in (("cpu", torch.float64), ("cuda", torch.float32)):
        parts = [tensor.to(device, dtype, copy=True).requires_grad_() for tensor in tensors]
        found = distances(kind)(*parts)
        found.backward(
            torch.linspace(-1, 1, found.numel(), device=device, dtype=dtype).view_as(found)
        )
        results.append([found.detach(), *(part.grad for part in parts if part.grad is not None)])
    for plain, kernel in zip(*results, strict=True):
        torch.testing.assert_close(kernel.cpu().double(), plain, rtol=1e-4, atol=1e-4)
