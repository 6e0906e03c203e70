"""One step of training: loss, gradients and update for a batch of facts."""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.distributed.shards import share
from tacit.fitting.interruption import breakable
from tacit.links.factors import BilinearModel, Embeddings, FactorModel
from tacit.links.scorer import shards_of
from tacit.links.settings import TrainSettings
from tacit.links.training.losses import REGULARISERS, OneVsAll, relation_loss, sampled_softmax
from tacit.links.training.optimizers import make_optimizer, update_rows

# some rows of a table: the table, their ids, and copies with gradients
Touched = tuple[Embeddings, Tensor, Tensor]


class TrainStep:
    """Trains a model on one batch of triples at a time.

    The full loss gives every row of the tail table a gradient: it is written straight into `.grad`,
    and the gradients of the few rows of heads and relations are added to it there, so that no
    second `[N, D]` matrix is ever made. The sampled loss touches few entities, and only their rows
    are updated.

    Where entities are shared out among processes, all take the same batch. They exchange the rows
    of its heads and tails, repeat the computations on them, and update the rows that they hold;
    relations are replicated, and get the same gradient everywhere.
    """

    def __init__(
        self, model: FactorModel, settings: TrainSettings, budget: float, precision: str
    ) -> None:
        self.model = model
        self.settings = settings
        self.shards = shards_of(model)
        self.penalty = REGULARISERS[settings.regulariser]
        self.optimizer = make_optimizer(model, settings)
        self.full = (
            None if settings.negatives else OneVsAll(model, settings.batch, budget, precision)
        )

    def __call__(self, triples: Tensor, generator: torch.Generator) -> Tensor:
        """Update the model on a batch `[B, 3]`; return the loss, without the penalty.

        The loss stays on the device.
        """
        ids = triples.long().T.contiguous()  # [3, B]: heads, relations, tails
        with breakable():  # up to here and no further, since now weights change
            with torch.no_grad():
                rows = [row.requires_grad_() for row in self.model.rows(*ids)]
            queries = self.model.compose(rows[0], rows[1])
            if self.full is None:
                loss, touched = self._sampled(queries, rows, ids, generator)
            else:
                loss = self._full(self.full, queries, rows, ids)
                touched = []
        self._update_rows(touched)
        self.optimizer.step()  # of the tables that have a dense gradient
        return loss

    def _full(self, loss_of: OneVsAll, queries: Tensor, rows: list[Tensor], ids: Tensor) -> Tensor:
        model = self.model
        tables = (model.head_table, model.relations, model.tail_table)
        gradients = [_gradient(table.storage) for table in tables]
        for table, gradient in zip(tables, gradients, strict=True):
            if table is not model.tail_table:  # that one is overwritten
                gradient.zero_()
        loss, by_query = loss_of(queries.detach(), ids[2], gradients[2])
        self._backward([queries], [by_query], rows, ids[1])
        for table, gradient, places, row in zip(tables, gradients, ids, rows, strict=True):
            if row.grad is not None and table.shards is None:
                gradient.index_add_(0, places, row.grad)
            elif row.grad is not None:  # those that another process holds are left out
                is_local, places = self.shards.inside(places)
                gradient.index_add_(0, places, row.grad * is_local[:, None])
        return loss

    def _sampled(
        self, queries: Tensor, rows: list[Tensor], ids: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, list[Touched]]:
        """The loss, and the rows of entities that it touches."""
        model = self.model
        shards = self.shards
        heads, relations, tails = ids
        by_relation = _gradient(model.relations.storage).zero_()  # the loss of relations adds to it
        first, last = share(self.settings.negatives, shards.rank, shards.world)
        drawn = torch.randint(shards.start, shards.stop, (last - first,), generator=generator).to(
            ids.device
        )
        with torch.no_grad():
            negatives = model.tail_table.storage.index_select(
                0, drawn - shards.start
            ).requires_grad_()
        leaves = queries.detach().requires_grad_()
        right = model.match_pairs(queries, rows[2])
        wrong = model.match(leaves, negatives)
        with torch.no_grad():
            loss, by_right, by_wrong = sampled_softmax(right, wrong, drawn, tails, shards)
        torch.autograd.backward(wrong, by_wrong)
        self._backward([queries, right], [shards.sum(_gradient(leaves)), by_right], rows, relations)
        by_relation.index_add_(0, relations, _gradient(rows[1]))
        touched: list[Touched] = [
            (model.head_table, heads, rows[0]),
            (model.tail_table, tails, rows[2]),
        ]
        touched.append((model.tail_table, drawn, negatives))
        return loss, touched

    def _update_rows(self, touched: list[Touched]) -> None:
        """Update the rows of entities that a sampled loss touches."""
        model = self.model
        shards = self.shards
        for table in {model.head_table, model.tail_table} if touched else ():
            ids = torch.cat([ids for owner, ids, _ in touched if owner is table])
            gradients = torch.cat([_gradient(row) for owner, _, row in touched if owner is table])
            is_local, places = shards.inside(ids)
            if shards.world > 1:
                places = places[is_local]
                gradients = gradients[is_local]
            update_rows(self.optimizer, table, places, gradients)

    def _backward(
        self, roots: list[Tensor], seeds: list[Tensor | None], rows: list[Tensor], relations: Tensor
    ) -> None:
        """Compute the gradients of the rows of a batch.

        They come from the loss through `roots`, from the penalty and from the relation loss.
        """
        if self.settings.reg:
            roots.append(self.settings.reg * self.penalty(self.model.squares(*rows)))
        if self.settings.relation_weight and isinstance(self.model, BilinearModel):
            roots.append(
                self.settings.relation_weight
                * relation_loss(self.model, rows[0], relations, rows[2])
            )
        torch.autograd.backward(roots, seeds + [None] * (len(roots) - len(seeds)))


def _gradient(parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
