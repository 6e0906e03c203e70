"""Losses over all entities, sampled ones or all relations, and penalties on factors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import reduce

import torch
from torch import Tensor
from torch.nn import functional as F

from tacit.distributed.shards import Shards
from tacit.links.factors import BilinearModel, FactorModel
from tacit.links.precision import parts_of_product, product
from tacit.links.scorer import shards_of


class OneVsAll:
    """The cross entropy of the right tail against all entities, with explicit gradients.

    A row of scores is written once, turned into its softmax and then into the gradient in place, so
    that one `[B, N]` matrix is all the memory it takes. Where that exceeds `budget` bytes, a first
    pass streams the log-sum-exp over blocks of entities and a second computes each block again for
    its gradient, with the same result.

    Where entities are shared out among processes, each has the scores of its own; they exchange the
    sums of rows, and then their parts of the gradient of the queries.
    """

    def __init__(
        self, model: FactorModel, batch: int, budget: float, precision: str = "float32"
    ) -> None:
        self.model = model
        self.precision = precision
        storage = model.tail_table.storage
        self.shards = shards_of(model)
        self.bilinear = isinstance(model, BilinearModel)
        fitting = int(budget // (4 * batch))
        self.block = len(storage) if fitting >= len(storage) else max(128, fitting // 128 * 128)
        self._scores = storage.new_empty(batch * min(self.block, len(storage)), requires_grad=False)

    def __call__(self, queries: Tensor, targets: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
        """The mean loss and the gradient of the queries `[B, D]`.

        The gradient of the tail table fills `out`.
        """
        with torch.no_grad():
            table = self.model.tail_table.storage.detach()
            if self.precision == "bf16" and self.bilinear:
                table = table.bfloat16()  # once, for the forward and the backward product
            work = self._at_once if self.block >= len(table) else self._blocked
            right, by_query = work(queries, table, targets, out)
            if self.shards.world > 1:
                summed = self.shards.sum(torch.cat((right[:, None], by_query), 1))
                right = summed[:, 0]
                by_query = summed[:, 1:]
            return -right.mean(), by_query

    def _match(self, queries: Tensor, tails: Tensor, start: int) -> Tensor:
        """Scores of a block of tails from row `start` on, `[B, n]`; padding rows have -inf."""
        scores = self._scores[: len(queries) * len(tails)].view(len(queries), len(tails))
        if self.bilinear:
            for part in parts_of_product(len(tails), queries.numel(), queries.device):
                product(queries, tails[part].T, self.precision, out=scores[:, part])
        else:
            scores.copy_(self.model.match(queries, tails))
        scores[:, max(0, self.shards.size - start) :] = -math.inf
        return scores

    def _at_once(
        self, queries: Tensor, table: Tensor, targets: Tensor, out: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The log-probability of each target, and this process's share of the gradient.

        A target of another process has 0.
        """
        scores = self._match(queries, table, 0)
        self._softmax(scores)
        inside, column = self._inside(targets, 0, scores.shape[1])
        # a vanishing probability caps the reported loss at 87, but not the gradient
        right = scores.gather(1, column)[:, 0].clamp_min(torch.finfo(torch.float32).tiny).log()
        scores.scatter_add_(1, column, -inside[:, None].to(scores.dtype))
        return torch.where(inside, right, 0.0), self._pull(queries, table, scores, out)

    def _softmax(self, scores: Tensor) -> None:
        """The softmax of whole rows, in place."""
        if self.shards.world == 1:
            torch.softmax(scores, -1, out=scores)
            return
        largest = scores.amax(-1)
        torch.softmax(scores, -1, out=scores)
        # log-sums of this share, from the largest probability, which is never near 0
        log_sums = largest - scores.amax(-1).log_()
        scores.mul_((log_sums - self.shards.log_total(log_sums)).exp_()[:, None])

    def _blocked(
        self, queries: Tensor, table: Tensor, targets: Tensor, out: Tensor
    ) -> tuple[Tensor, Tensor]:
        starts = range(0, len(table), self.block)
        log_sums = queries.new_full((len(queries),), -math.inf)
        right = torch.zeros_like(log_sums)
        for start in starts:
            scores = self._match(queries, table[start : start + self.block], start)
            inside, column = self._inside(targets, start, scores.shape[1])
            right = torch.where(inside, scores.gather(1, column)[:, 0], right)
            log_sums = torch.logaddexp(log_sums, scores.logsumexp(-1))
        log_sums = self.shards.log_total(log_sums)
        gradient = torch.zeros_like(queries)
        for start in starts:
            tails = table[start : start + self.block]
            scores = self._match(queries, tails, start)
            scores.sub_(log_sums[:, None]).exp_()
            inside, column = self._inside(targets, start, scores.shape[1])
            scores.scatter_add_(1, column, -inside[:, None].to(scores.dtype))
            gradient += self._pull(queries, tails, scores, out[start : start + self.block])
        return torch.where(self.shards.inside(targets)[0], right - log_sums, 0.0), gradient

    def _inside(self, targets: Tensor, start: int, size: int) -> tuple[Tensor, Tensor]:
        """Which targets lie in a block of this share, and a column for each, `[B]` and `[B, 1]`."""
        first = self.shards.start + start
        last = first + min(size, self.shards.size - start)
        inside = (targets >= first) & (targets < last)
        return inside, torch.where(inside, targets - first, 0)[:, None]

    def _pull(self, queries: Tensor, tails: Tensor, weights: Tensor, out: Tensor) -> Tensor:
        # dividing by the batch size is cheaper on the small matrices
        if self.bilinear:
            return self.model.pull(
                queries / len(queries), tails, weights, out, self.precision
            ).div_(len(queries))
        return self.model.pull(queries, tails, weights.div_(len(queries)), out)


def sampled_softmax(
    right: Tensor, wrong: Tensor, sample: Tensor, targets: Tensor, shards: Shards
) -> tuple[Tensor, Tensor, Tensor]:
    """The cross entropy over a uniform sample of entities, and its gradient.

    `log Σ_e exp s(e) ≈ log(exp s(t) + (N - 1) / K · Σ_k exp s(n_k))`, an estimate of the full loss.
    Each process draws its K of the n entities that it holds; they weigh `(N - 1) / N · n / K`
    there, the same as where one process draws all. The gradient of the mean loss by the scores
    `right [B]` and `wrong [B, K]` has the shapes `[B]` and `[B, K]`.
    """
    if shards.total > 1:
        wrong = wrong + math.log((shards.total - 1) / shards.total * shards.size / len(sample))
    wrong = wrong.masked_fill(sample == targets[:, None], -math.inf)
    log_sums = torch.logaddexp(right, shards.log_total(wrong.logsumexp(-1)))
    loss = (log_sums - right).mean()
    return (
        loss,
        ((right - log_sums).exp() - 1) / len(right),
        (wrong - log_sums[:, None]).exp() / len(right),
    )


def relation_loss(model: BilinearModel, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
    """The cross entropy of the right relation among all of them (Chen et al., 2021).

    `heads` and `tails` are rows.
    """
    scores = model.relation_queries(heads, tails) @ model.relations.storage.T  # [B, R]
    return F.cross_entropy(scores, relations)


def n3(squares: Iterable[Tensor]) -> Tensor:
    """`Σ |f|³ / batch`, the nuclear 3-norm (Lacroix et al., 2018), of `|f|²`, `[B, ·]`."""
    return reduce(torch.add, (s.pow(1.5).sum() / len(s) for s in squares))


def l2(squares: Iterable[Tensor]) -> Tensor:
    """`Σ |f|² / batch`, of squared moduli `[B, ·]`."""
    return reduce(torch.add, (s.sum() / len(s) for s in squares))


REGULARISERS: dict[str, Callable[[Iterable[Tensor]], Tensor]] = {"n3": n3, "l2": l2}
