"""Losses against loops over single logits."""

from __future__ import annotations

import math

import pytest
import torch

from tacit.encode.spaces.space import LOSSES

RIGHT = torch.tensor([[0.3, 0.7], [-1.2, 2.5], [2.0, 2.0]])
WRONG = torch.tensor([[0.1, -0.4], [1.5, 0.2], [-3.0, -torch.inf]])


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x)) if x > -math.inf else -math.inf


@pytest.mark.parametrize("adversarial", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("name", list(LOSSES))
def test_losses_by_hand(name: str, adversarial: float) -> None:
    found = LOSSES[name](RIGHT, WRONG, adversarial)
    for rights, wrong, loss in zip(RIGHT.tolist(), WRONG.tolist(), found.tolist(), strict=True):
        raised = [math.exp(adversarial * w) if adversarial else 1.0 for w in wrong]
        shares = [r / sum(raised) for r in raised]
        negatives = [(s, w) for s, w in zip(shares, wrong, strict=True) if w > -math.inf]
        expected = 0.0
        for right in rights:
            if name == "margin":
                each = -0.5 * log_sigmoid(right) - 0.5 * sum(
                    s * log_sigmoid(-w) for s, w in negatives
                )
            elif name == "ranking":
                each = -sum(s * log_sigmoid(right - w) for s, w in negatives)
            else:
                each = -math.log(
                    math.exp(right) / (math.exp(right) + sum(math.exp(w) for _, w in negatives))
                )
            expected += each / len(rights)
        assert loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", list(LOSSES))
def test_a_query_whose_wrong_answers_all_are_its_right_one_counts_by_that_alone(name: str) -> None:
    right = RIGHT[:1].clone().requires_grad_()
    wrong = torch.full((1, 2), -torch.inf)
    loss = LOSSES[name](right, wrong, 0.5)
    assert loss.tolist() == pytest.approx(
        [-0.25 * (log_sigmoid(0.3) + log_sigmoid(0.7)) if name == "margin" else 0.0]
    )
    loss.sum().backward()
    assert right.grad is not None
    assert torch.isfinite(right.grad).all()


@pytest.mark.parametrize("name", list(LOSSES))
def test_weights_take_no_part_in_the_gradient(name: str) -> None:
    wrong = WRONG.clone().requires_grad_()
    LOSSES[name](RIGHT, wrong, 0.7).sum().backward()
    gradient = wrong.grad
    assert gradient is not None
    assert torch.isfinite(gradient).all()
    assert gradient[2, 1] == 0
    shares = torch.softmax(0.7 * WRONG, 1)
    by_hand = [
        {
            "margin": 0.5 * shares * torch.sigmoid(WRONG),
            "ranking": shares * torch.sigmoid(WRONG - right[:, None]),
            "softmax": torch.softmax(torch.cat((right[:, None], WRONG), 1), 1)[:, 1:],
        }[name].nan_to_num()
        for right in RIGHT.unbind(1)
    ]
    assert torch.allclose(gradient, torch.stack(by_hand).mean(0), atol=1e-6)
