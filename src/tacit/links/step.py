"""One step of training: loss, gradients and update for a batch of facts."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim import Adagrad, Adam, Optimizer

from tacit.links.embeddings import Embeddings
from tacit.links.factors import BilinearModel, FactorModel
from tacit.links.losses import OneVsAll, relation_loss, sampled_softmax
from tacit.links.regularisers import REGULARISERS
from tacit.links.settings import TrainSettings


class Step:
    """Trains a model on one batch of triples at a time.

    The full loss gives every row of the tail table a gradient: it is written straight into `.grad`, and the
    gradients of the few rows of heads and relations are added to it there, so that no second `[N, D]` matrix is
    ever made. The sampled loss touches few entities, and only their rows are updated.
    """

    def __init__(self, model: FactorModel, settings: TrainSettings, budget: float, precision: str) -> None:
        self.model, self.settings = model, settings
        self.penalty = REGULARISERS[settings.regulariser]
        self.optimizer = make_optimizer(model, settings)
        self.full: OneVsAll | None = None
        if not settings.negatives:
            self.full = OneVsAll(model, settings.batch, budget, precision)

    def __call__(self, triples: Tensor, generator: torch.Generator) -> Tensor:
        """Update the model on a batch `[B, 3]`; the loss, without the penalty, stays on the device."""
        heads, relations, tails = triples.T.contiguous()
        if self.full is None:
            loss = self._sampled(heads, relations, tails, generator)
        else:
            loss = self._full(self.full, heads, relations, tails)
        self.optimizer.step()  # of the tables that have a dense gradient
        return loss

    @property
    def flops(self) -> float:
        """The floating-point operations of the three products of a step."""
        compared = self.settings.negatives or self.model.num_entities
        return 6.0 * self.settings.batch * compared * self.model.tail_table.width

    def release(self) -> None:
        """Let go of gradients and buffers."""
        self.full = None
        for parameter in self.model.parameters():
            parameter.grad = None

    def _full(self, loss_of: OneVsAll, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        model = self.model
        tables = (model.head_table, model.relations, model.tail_table)
        gradients = [_gradient(table.storage) for table in tables]
        for table, gradient in zip(tables, gradients, strict=True):
            if table is not model.tail_table:  # that one is overwritten
                gradient.zero_()
        with torch.no_grad():
            rows = [row.requires_grad_() for row in model.rows(heads, relations, tails)]
        queries = model.compose(rows[0], rows[1])
        loss, by_query = loss_of(queries.detach(), tails, gradients[2])
        extra = self._extra(rows[0], rows[1], rows[2], relations)
        roots, seeds = ([queries], [by_query]) if extra is None else ([queries, extra], [by_query, None])
        torch.autograd.backward(roots, seeds)
        for row, gradient, ids in zip(rows, gradients, (heads, relations, tails), strict=True):
            if row.grad is not None:
                gradient.index_add_(0, ids, row.grad)
        return loss

    def _sampled(self, heads: Tensor, relations: Tensor, tails: Tensor, generator: torch.Generator) -> Tensor:
        model = self.model
        drawn = torch.randint(model.num_entities, (self.settings.negatives,), generator=generator).to(heads.device)
        by_relation = _gradient(model.relations.storage).zero_()
        with torch.no_grad():
            h, r, t = (row.requires_grad_() for row in model.rows(heads, relations, tails))
            negatives = model.tail_table(drawn).requires_grad_()
        loss = sampled_softmax(model, model.compose(h, r), t, tails, negatives, drawn)
        extra = self._extra(h, r, t, relations)
        torch.autograd.backward([loss] if extra is None else [loss, extra])
        by_relation.index_add_(0, relations, _gradient(r))
        touched = [(model.head_table, heads, h), (model.tail_table, tails, t), (model.tail_table, drawn, negatives)]
        for table in {model.head_table, model.tail_table}:
            ids = torch.cat([ids for owner, ids, _ in touched if owner is table])
            self._update_rows(table, ids, torch.cat([_gradient(row) for owner, _, row in touched if owner is table]))
        return loss.detach()

    def _update_rows(self, table: Embeddings, ids: Tensor, gradients: Tensor) -> None:
        """Adagrad on some rows of a table; an id may occur many times."""
        group = self.optimizer.param_groups[0]
        distinct, place = torch.unique(ids, return_inverse=True)
        gradient = gradients.new_zeros(len(distinct), table.width).index_add_(0, place, gradients)
        with torch.no_grad():
            squares = self.optimizer.state[table.storage]["sum"]
            summed = squares.index_select(0, distinct).addcmul_(gradient, gradient)
            squares.index_copy_(0, distinct, summed)
            step = gradient.div_(summed.sqrt_().add_(group["eps"])).mul_(-group["lr"])
            table.storage.index_add_(0, distinct, step)

    def _extra(self, heads: Tensor, rows: Tensor, tails: Tensor, relations: Tensor) -> Tensor | None:
        """The weighted penalty and relation loss, or None where both weigh nothing."""
        total = None
        if self.settings.reg:
            total = self.settings.reg * self.penalty(self.model.squares(heads, rows, tails))
        if self.settings.relation_weight and isinstance(self.model, BilinearModel):
            predicted = self.settings.relation_weight * relation_loss(self.model, heads, relations, tails)
            total = predicted if total is None else total + predicted
        return total


def make_optimizer(model: FactorModel, settings: TrainSettings) -> Optimizer:
    """The optimizer of the settings; one kernel per table where the platform has it."""
    parameters = list(model.parameters())
    kind: type[Adagrad] | type[Adam] = Adam if settings.optimizer == "adam" else Adagrad
    return kind(parameters, lr=settings.lr, fused=_fused_works(kind, model.device))


def _fused_works(kind: type[Adagrad] | type[Adam], device: torch.device) -> bool:
    """Whether the one-kernel form of an optimizer runs here: it depends on the version and the device."""
    probe = torch.nn.Parameter(torch.ones(1, device=device))
    probe.grad = torch.ones_like(probe)
    try:
        kind([probe], lr=0.1, fused=True).step()
    except (RuntimeError, NotImplementedError, TypeError):
        return False
    return True


def _gradient(parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
