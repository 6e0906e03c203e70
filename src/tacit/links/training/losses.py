"""Losses over all entities, over sampled ones and over all relations, and penalties on the factors of a batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import reduce

import torch
from torch import Tensor
from torch.nn import functional as F

from tacit.distributed.shards import Shards
from tacit.links.factors import BilinearModel, FactorModel
from tacit.links.precision import product
from tacit.links.scorer import shards_of


class OneVsAll:
    """The cross entropy of the right tail against all entities, with its gradients worked out by hand.

    A row of scores is written once, turned into its softmax and then into the gradient in place, so that one
    `[B, N]` matrix is all the memory it takes. Where that exceeds `budget` bytes, a first pass streams the
    log-sum-exp over blocks of entities and a second computes each block again for its gradient: the same numbers.

    Where entities are shared out among processes, each has the scores of its own; they tell each other the sums of
    rows, and then their parts of the gradient of the queries.
    """

    def __init__(self, model: FactorModel, batch: int, budget: float, precision: str = "float32") -> None:
        self.model, self.precision = model, precision
        storage = model.tail_table.storage
        self.shards, self.bilinear = shards_of(model), isinstance(model, BilinearModel)
        fitting = int(budget // (4 * batch))
        self.block = len(storage) if fitting >= len(storage) else max(128, fitting // 128 * 128)
        self._scores = storage.new_empty(batch * min(self.block, len(storage)), requires_grad=False)

    def __call__(self, queries: Tensor, targets: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
        """The mean loss and the gradient of the queries `[B, D]`; the gradient of the tail table fills `out`."""
        with torch.no_grad():
            table = self.model.tail_table.storage.detach()
            if self.precision == "bf16" and self.bilinear:
                table = table.bfloat16()  # once, for the forward and the backward product
            work = self._whole if self.block >= len(table) else self._blocked
            right, by_query = work(queries, table, targets, out)
            if self.shards.world > 1:
                summed = self.shards.sum(torch.cat((right[:, None], by_query), 1))
                right, by_query = summed[:, 0], summed[:, 1:]
            return -right.mean(), by_query

    def _match(self, queries: Tensor, tails: Tensor, start: int) -> Tensor:
        """Scores of a block of tails that starts at a row, `[B, n]`; those of padding rows are -inf."""
        scores = self._scores[: len(queries) * len(tails)].view(len(queries), len(tails))
        if self.bilinear:
            product(queries, tails.T, self.precision, out=scores)
        else:
            scores.copy_(self.model.match(queries, tails))
        scores[:, max(0, self.shards.size - start) :] = -math.inf
        return scores

    def _whole(self, queries: Tensor, table: Tensor, targets: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
        """The log-probability of each target, 0 where another process has it, and this share of the gradient."""
        scores = self._match(queries, table, 0)
        self._softmax(scores)
        inside, column = self._inside(targets, 0, scores.shape[1])
        # A probability below the smallest float is a loss of 87: the number shown is capped, its gradient is not.
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
        # Over this share, from the probability of the largest, which is never near 0; finding its column takes longer.
        log_sums = largest - scores.amax(-1).log_()
        scores.mul_((log_sums - self.shards.log_total(log_sums)).exp_()[:, None])

    def _blocked(self, queries: Tensor, table: Tensor, targets: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
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
        start, size = start + self.shards.start, min(size, self.shards.size - start)
        inside = (targets >= start) & (targets < start + size)
        return inside, torch.where(inside, targets - start, 0)[:, None]

    def _pull(self, queries: Tensor, tails: Tensor, weights: Tensor, out: Tensor) -> Tensor:
        # The mean over the batch is taken on the small matrices.
        if self.bilinear:
            return self.model.pull(queries / len(queries), tails, weights, out, self.precision).div_(len(queries))
        return self.model.pull(queries, tails, weights.div_(len(queries)), out)


def sampled_softmax(
    right: Tensor, wrong: Tensor, drawn: Tensor, targets: Tensor, shards: Shards
) -> tuple[Tensor, Tensor, Tensor]:
    """The cross entropy with the sum over all entities estimated from some `drawn` uniformly, and its gradient.

    `log Σ_e exp s(e) ≈ log(exp s(t) + (N - 1) / K · Σ_k exp s(n_k))`: scores mean what they mean in the full loss.
    Each process draws its K of the n entities that it holds; they weigh `(N - 1) / N · n / K` there, the same where
    one draws all. Of the scores `right [B]` and `wrong [B, K]` the gradient is that of the mean loss, `[B]` and
    `[B, K]`.
    """
    if shards.total > 1:
        wrong = wrong + math.log((shards.total - 1) / shards.total * shards.size / len(drawn))
    wrong = wrong.masked_fill(drawn == targets[:, None], -math.inf)
    log_sums = torch.logaddexp(right, shards.log_total(wrong.logsumexp(-1)))
    loss = (log_sums - right).mean()
    return loss, ((right - log_sums).exp() - 1) / len(right), (wrong - log_sums[:, None]).exp() / len(right)


def relation_loss(model: BilinearModel, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
    """The cross entropy of the right relation among all of them, for rows of heads and tails (Chen et al., 2021)."""
    scores = model.relation_queries(heads, tails) @ model.relations.storage.T  # [B, R]
    return F.cross_entropy(scores, relations)


def n3(squares: Iterable[Tensor]) -> Tensor:
    """`Σ |f|³ / batch`, the nuclear 3-norm penalty (Lacroix et al., 2018), from squared moduli `[B, ·]`."""
    return reduce(torch.add, (s.pow(1.5).sum() / len(s) for s in squares))


def l2(squares: Iterable[Tensor]) -> Tensor:
    """`Σ |f|² / batch`, from squared moduli `[B, ·]`."""
    return reduce(torch.add, (s.sum() / len(s) for s in squares))


REGULARISERS: dict[str, Callable[[Iterable[Tensor]], Tensor]] = {"n3": n3, "l2": l2}
