"""The loss kernel against autograd in float64, and a step on a GPU against the CPU."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from tacit.adapt import adapter_training, sum_kernels
from tacit.adapt.adapter_training import AdapterTraining
from tacit.adapt.settings import AdaptSettings
from tacit.graph.graph import Graph
from tacit.links.models import ComplEx
from tacit.query.sampling.sampling import sample
from tacit.query.sampling.shapes import SHAPES

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
OBSERVED = 1 - 2**-10
CASES = [*product(((1, 1), (3, 3), (2, 1), (3, 2), (2, 0)), (1.0, 1.7), (True, False))]


@pytest.mark.parametrize(("literals", "strength", "log_scores"), CASES)
def test_sums_and_slopes_are_those_of_autograd(
    literals: tuple[int, int], strength: float, log_scores: bool
) -> None:
    (number, positive), queries, n = literals, 5, 2500
    drawn = torch.Generator().manual_seed(0)
    values = 6 * torch.randn(9, n, generator=drawn)
    rows = torch.randint(9, (number, queries), generator=drawn)
    scale = torch.rand(number, queries, generator=drawn) + 0.3
    shift = torch.randn(number, queries, generator=drawn)
    known = torch.rand(number, queries, n, generator=drawn) < 0.03
    left_out = torch.rand(queries, n, generator=drawn) < 0.02
    marks = (known.int() << torch.arange(number)[:, None, None]).sum(
        0
    ) + sum_kernels.LEFT_OUT * left_out
    inputs = (part.cuda() for part in (values, rows, scale, shift, marks.to(torch.uint8)))
    found = sum_kernels.sums(*inputs, positive, strength, OBSERVED, log_scores)

    alpha, beta = (part.double().requires_grad_() for part in (scale, shift))
    scores = torch.sigmoid(alpha[..., None] * values[rows].double() + beta[..., None])
    scores = scores.masked_fill(known, OBSERVED)
    whole = torch.cat([scores[:positive], (1 - strength * scores[positive:]).clamp(min=0)]).prod(0)
    totals = (whole if log_scores else whole.exp()).masked_fill(left_out, 0).sum(1)
    slopes = torch.autograd.grad(totals.sum(), (alpha, beta))
    for mine, exact in zip(found, (totals.detach(), *slopes), strict=True):
        torch.testing.assert_close(mine.cpu().double(), exact, rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("calibration", ["sigmoid", "softmax-count"])
@pytest.mark.parametrize("loss", ["1vsall", "log"])
def test_a_step_moves_an_adapter_on_a_gpu_as_on_a_cpu(
    calibration: str, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(1)
    facts = {
        (f"e{a}", f"r{r}", f"e{b}")
        for a, r, b in random.integers((60, 4, 60), size=(500, 3)).tolist()
    }
    graph = Graph.of(sorted(facts))
    queries = {
        name: sample(graph, SHAPES[name], "train", 40).queries
        for name in ("2i", "3i", "2in", "3in")
    }
    moved = []
    monkeypatch.setattr(adapter_training, "PRECISION", "float32")
    for device in ("cpu", "cuda"):
        model = ComplEx(graph.num_entities, graph.num_relations, 6)
        model.reset(0.7, torch.Generator().manual_seed(3))
        settings = AdaptSettings(
            loss=loss,
            calibration=calibration,
            observed=("train",),
            held_out=False,
            batch=32,
        )
        training = AdapterTraining(graph, model.to(device).requires_grad_(False), queries, settings)
        for step in range(3):
            training.step(step)
        moved.append(
            [
                weight.detach().cpu()
                for weight in training.module.parameters()
                if weight.requires_grad
            ]
        )
    for on_cpu, on_gpu in zip(*moved, strict=True):
        assert on_cpu.abs().max() > 0
        torch.testing.assert_close(on_gpu, on_cpu, rtol=1e-3, atol=1e-5)
