"""One step of training: loss, gradients and update for a batch of facts."""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.distributed.shards import share
from tacit.links.embeddings import Embeddings
from tacit.links.factors import BilinearModel, FactorModel
from tacit.links.scorer import shards_of
from tacit.links.settings import TrainSettings
from tacit.links.training.losses import OneVsAll, relation_loss, sampled_softmax
from tacit.links.training.optimizers import make_optimizer, update_rows
from tacit.links.training.regularisers import REGULARISERS


class TrainStep:
    """Trains a model on one batch of triples at a time.

    The full loss gives every row of the tail table a gradient: it is written straight into `.grad`, and the
    gradients of the few rows of heads and relations are added to it there, so that no second `[N, D]` matrix is
    ever made. The sampled loss touches few entities, and only their rows are updated.

    Where entities are shared out among processes, all take the same batch. The rows of its heads and tails are asked
    for, what is made of them alone is computed by everyone, and each process updates the rows it holds; relations
    are everywhere, and get everywhere the same gradient.
    """

    def __init__(self, model: FactorModel, settings: TrainSettings, budget: float, precision: str) -> None:
        self.model, self.settings = model, settings
        self.shards = shards_of(model)
        self.penalty = REGULARISERS[settings.regulariser]
        self.optimizer = make_optimizer(model, settings)
        self.full: OneVsAll | None = None
        if not settings.negatives:
            self.full = OneVsAll(model, settings.batch, budget, precision)

    def __call__(self, triples: Tensor, generator: torch.Generator) -> Tensor:
        """Update the model on a batch `[B, 3]`; the loss, without the penalty, stays on the device."""
        heads, relations, tails = triples.long().T.contiguous()
        if self.full is None:
            loss = self._sampled(heads, relations, tails, self.draw(generator).to(heads.device))
        else:
            loss = self._full(self.full, heads, relations, tails)
        self.optimizer.step()  # of the tables that have a dense gradient
        return loss

    def draw(self, generator: torch.Generator) -> Tensor:
        """The negatives that this process draws of the entities it holds."""
        first, last = share(self.settings.negatives, self.shards.rank, self.shards.world)
        return torch.randint(self.shards.start, self.shards.stop, (last - first,), generator=generator)

    @property
    def flops(self) -> float:
        """The floating-point operations of the three products of a step."""
        compared = (self.settings.negatives or self.model.num_entities) / self.shards.world
        return 6.0 * self.settings.batch * compared * self.model.tail_table.width

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
        self._backward([queries], [by_query], rows, relations)
        for table, row, gradient, ids in zip(tables, rows, gradients, (heads, relations, tails), strict=True):
            if row.grad is not None:
                self._add(table, gradient, ids, row.grad)
        return loss

    def _sampled(self, heads: Tensor, relations: Tensor, tails: Tensor, drawn: Tensor) -> Tensor:
        model, shards = self.model, self.shards
        by_relation = _gradient(model.relations.storage).zero_()
        with torch.no_grad():
            rows = [row.requires_grad_() for row in model.rows(heads, relations, tails)]
            negatives = model.tail_table.storage.index_select(0, drawn - shards.start).requires_grad_()
        queries = model.compose(rows[0], rows[1])
        asked = queries.detach().requires_grad_()
        right, wrong = model.match_pairs(queries, rows[2]), model.match(asked, negatives)
        with torch.no_grad():
            loss, by_right, by_wrong = sampled_softmax(right, wrong, drawn, tails, shards)
        torch.autograd.backward(wrong, by_wrong)
        self._backward([queries, right], [shards.sum(_gradient(asked)), by_right], rows, relations)
        by_relation.index_add_(0, relations, _gradient(rows[1]))
        touched = [(model.head_table, heads, rows[0]), (model.tail_table, tails, rows[2])]
        touched.append((model.tail_table, drawn, negatives))
        for table in {model.head_table, model.tail_table}:
            ids = torch.cat([ids for owner, ids, _ in touched if owner is table])
            gradients = torch.cat([_gradient(row) for owner, _, row in touched if owner is table])
            held, places = shards.inside(ids)
            if shards.world > 1:
                places, gradients = places[held], gradients[held]
            update_rows(self.optimizer, table, places, gradients)
        return loss

    def _backward(self, roots: list[Tensor], seeds: list[Tensor | None], rows: list[Tensor], relations: Tensor) -> None:
        """The gradients of the rows of a batch: from the loss through `roots`, and from what is added to it."""
        extra = self._extra(rows[0], rows[1], rows[2], relations)
        if extra is not None:
            roots, seeds = [*roots, extra], [*seeds, None]
        torch.autograd.backward(roots, seeds)

    def _add(self, table: Embeddings, gradient: Tensor, ids: Tensor, rows: Tensor) -> None:
        """Add the gradients of rows to that of a table, those that another process holds left out."""
        if table.shards is not None:
            held, ids = table.shards.inside(ids)
            rows = rows * held[:, None]
        gradient.index_add_(0, ids, rows)

    def _extra(self, heads: Tensor, rows: Tensor, tails: Tensor, relations: Tensor) -> Tensor | None:
        """The weighted penalty and relation loss, or None where both weigh nothing."""
        total = None
        if self.settings.reg:
            total = self.settings.reg * self.penalty(self.model.squares(heads, rows, tails))
        if self.settings.relation_weight and isinstance(self.model, BilinearModel):
            predicted = self.settings.relation_weight * relation_loss(self.model, heads, relations, tails)
            total = predicted if total is None else total + predicted
        return total


def _gradient(parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
