"""One step of training: loss, gradients, and the update by Adagrad or Adam."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim import Adagrad, Adam, Optimizer

from tacit.distributed.shards import share
from tacit.fitting.interruption import breakable
from tacit.links.factors import BilinearModel, Embeddings, FactorModel
from tacit.links.scorer import shards_of
from tacit.links.settings import TrainSettings
from tacit.links.training.losses import REGULARISERS, OneVsAll, relation_loss, sampled_softmax

EPSILON = 1e-10  # as in torch's Adagrad
# the gradients of some rows: their table, their ids, and copies that have them
RowGradients = tuple[Embeddings, Tensor, Tensor]


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
                loss, updates = self._sampled(queries, rows, ids, generator)
            else:
                loss = self._full(self.full, queries, rows, ids)
                updates = []
        self._update_rows(updates)
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
    ) -> tuple[Tensor, list[RowGradients]]:
        """The loss, and the gradients of the rows of entities that it compares."""
        model = self.model
        shards = self.shards
        heads, relations, tails = ids
        by_relation = _gradient(model.relations.storage).zero_()  # the loss of relations adds to it
        first, last = share(self.settings.negatives, shards.rank, shards.world)
        sample = torch.randint(shards.start, shards.stop, (last - first,), generator=generator).to(
            ids.device
        )
        with torch.no_grad():
            negatives = model.tail_table.storage.index_select(
                0, sample - shards.start
            ).requires_grad_()
        leaves = queries.detach().requires_grad_()
        right = model.match_pairs(queries, rows[2])
        wrong = model.match(leaves, negatives)
        with torch.no_grad():
            loss, by_right, by_wrong = sampled_softmax(right, wrong, sample, tails, shards)
        torch.autograd.backward(wrong, by_wrong)
        self._backward([queries, right], [shards.sum(_gradient(leaves)), by_right], rows, relations)
        by_relation.index_add_(0, relations, _gradient(rows[1]))
        return loss, [
            (model.head_table, heads, rows[0]),
            (model.tail_table, tails, rows[2]),
            (model.tail_table, sample, negatives),
        ]

    def _update_rows(self, updates: list[RowGradients]) -> None:
        """Update rows of entities."""
        model = self.model
        shards = self.shards
        for table in {model.head_table, model.tail_table} if updates else ():
            of_table = [(ids, _gradient(rows)) for owner, ids, rows in updates if owner is table]
            ids, gradients = (torch.cat(column) for column in zip(*of_table, strict=True))
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
