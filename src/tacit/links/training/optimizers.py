"""Optimizers: Adagrad, with a sum for each number or for each row, and Adam."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim import Adagrad, Adam, Optimizer

from tacit.links.factors import Embeddings, FactorModel
from tacit.links.settings import TrainSettings

EPSILON = 1e-10  # as in torch's Adagrad


class RowAdagrad(Optimizer):
    """Adagrad with one sum for a row of an entity table: `G += |g|² / D`, `θ -= lr · g / √G`.

    Its state is a D-th of such a table. Relations are few, and learn faster with a sum for each
    number.
    """

    def __init__(self, model: FactorModel, lr: float) -> None:
        super().__init__(model.parameters(), {"lr": lr, "eps": EPSILON})
        for table in (model.head_table, model.tail_table):
            self.state[table.storage]["sum"] = table.storage.detach().new_zeros(len(table.storage))
        relations = model.relations.storage
        self.state[relations]["sum"] = torch.zeros_like(relations, requires_grad=False)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move the tables that have a gradient, which is overwritten."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    sums = self.state[table]["sum"]
                    if sums.dim() == 2:
                        size = sums.addcmul_(table.grad, table.grad).sqrt()
                    else:
                        norms = torch.linalg.vector_norm(table.grad, dim=1)
                        size = sums.addcmul_(norms, norms, value=1 / table.shape[1]).sqrt()[:, None]
                    table.add_(table.grad.div_(size.add_(group["eps"])), alpha=-group["lr"])


def make_optimizer(model: FactorModel, settings: TrainSettings) -> Optimizer:
    """The optimizer of the settings, fused where the platform supports it."""
    if settings.optimizer == "rowwise":
        return RowAdagrad(model, settings.lr)
    kind: type[Adagrad] | type[Adam] = Adam if settings.optimizer == "adam" else Adagrad
    return kind(list(model.parameters()), lr=settings.lr, fused=_fused_works(kind, model.device))


@torch.no_grad()
def update_rows(optimizer: Optimizer, table: Embeddings, rows: Tensor, gradients: Tensor) -> None:
    """Adagrad of either kind on some rows of a table; a row may occur many times."""
    group = optimizer.param_groups[0]
    sums = optimizer.state[table.storage]["sum"]
    distinct, place = torch.unique(rows, return_inverse=True)
    gradient = gradients.new_zeros(len(distinct), table.width).index_add_(0, place, gradients)
    squares = gradient.square()
    summed = sums.index_select(0, distinct).add_(squares if sums.dim() == 2 else squares.mean(1))
    sums.index_copy_(0, distinct, summed)
    size = summed.sqrt_().add_(group["eps"])
    gradient.div_(size if sums.dim() == 2 else size[:, None])
    table.storage.index_add_(0, distinct, gradient, alpha=-group["lr"])


def _fused_works(kind: type[Adagrad] | type[Adam], device: torch.device) -> bool:
    """Whether the fused form of an optimizer runs in this version on this device."""
    probe = torch.nn.Parameter(torch.ones(1, device=device))
    probe.grad = torch.ones_like(probe)
    try:
        kind([probe], lr=0.1, fused=True).step()
    except (RuntimeError, NotImplementedError, TypeError):
        return False
    return True
