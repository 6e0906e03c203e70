"""What training makes small: right answers are to score high, wrong ones low.

Each loss takes logits `right [n, A]` and `wrong [n, K]` and gives one number a query, `[n]`, the mean over its right
answers. `adversarial` weights the wrong ones by a softmax of that times their logits, which takes no part in the
gradient; with 0 all count alike. A wrong one of `-inf` counts nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus


def margin(right: Tensor, wrong: Tensor, adversarial: float = 0.0) -> Tensor:
    """`-½ log σ(right) - ½ Σ_j a_j log σ(-wrong_j)`: logits are a margin minus a distance (RotatE's loss)."""
    return -0.5 * (logsigmoid(right).mean(1) + (_shares(wrong, adversarial) * logsigmoid(-wrong)).sum(1))


def ranking(right: Tensor, wrong: Tensor, adversarial: float = 0.0) -> Tensor:
    """`-Σ_j a_j log σ(right - wrong_j)`: a right answer above each wrong one (FuzzQE)."""
    above = logsigmoid(right[:, :, None] - wrong[:, None]).mean(1)
    return -(_shares(wrong, adversarial) * above).sum(1)


def softmax(right: Tensor, wrong: Tensor, adversarial: float = 0.0) -> Tensor:
    """`-log` of the share of a right answer in a softmax of it and all wrong ones, which weights these by itself.

    Where all wrong ones count nothing their own slopes are not numbers; whoever left them out leaves those out, too.
    """
    return softplus(torch.logsumexp(wrong, 1, keepdim=True) - right).mean(1)


def _shares(wrong: Tensor, adversarial: float) -> Tensor:
    """How much each wrong answer counts, `[n, K]`."""
    if not adversarial:
        return torch.full_like(wrong, 1 / wrong.shape[1])
    return torch.softmax(adversarial * wrong.detach(), 1).nan_to_num(0.0)  # where none is wrong


LOSSES = {"margin": margin, "ranking": ranking, "softmax": softmax}
