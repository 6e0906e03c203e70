"""Losses over all entities, over sampled ones, and over all relations."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from tacit.links.factors import BilinearModel, FactorModel
from tacit.links.precision import product


class OneVsAll:
    """The cross entropy of the right tail against all entities, with its gradients worked out by hand.

    A row of scores is written once, turned into its softmax and then into the gradient in place, so that one
    `[B, N]` matrix is all the memory it takes. Where that exceeds `budget` bytes, a first pass streams the
    log-sum-exp over blocks of entities and a second computes each block again for its gradient: the same numbers.
    """

    def __init__(self, model: FactorModel, batch: int, budget: float, precision: str = "float32") -> None:
        self.model, self.precision = model, precision
        storage = model.tail_table.storage
        fitting = int(budget // (4 * batch))
        self.block = len(storage) if fitting >= len(storage) else max(128, fitting // 128 * 128)
        self._scores = torch.empty(batch * min(self.block, len(storage)), device=storage.device)

    def __call__(self, queries: Tensor, targets: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
        """The mean loss and the gradient of the queries `[B, D]`; the gradient of the tail table fills `out`."""
        with torch.no_grad():
            table = self._rounded(self.model.tail_table.storage.detach())
            whole = self.block >= len(table)
            return self._whole(queries, table, targets, out) if whole else self._blocked(queries, table, targets, out)

    def _rounded(self, table: Tensor) -> Tensor:
        # Rounded once, the table serves the forward and the backward product.
        return table.bfloat16() if self.precision == "bf16" and self.model.bilinear else table

    def _match(self, queries: Tensor, tails: Tensor, start: int) -> Tensor:
        """Scores of a block of tails that starts at a row, `[B, n]`; those of padding rows are -inf."""
        scores = self._scores[: len(queries) * len(tails)].view(len(queries), len(tails))
        if self.model.bilinear:
            product(queries, tails.T, self.precision, out=scores)
        else:
            scores.copy_(self.model.match(queries, tails))
        scores[:, max(0, self.model.num_entities - start) :] = -math.inf
        return scores

    def _whole(self, queries: Tensor, table: Tensor, targets: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
        scores = self._match(queries, table, 0)
        torch.softmax(scores, -1, out=scores)
        right = scores.gather(1, targets[:, None])
        # A probability below the smallest float is a loss of 87: the number shown is capped, its gradient is not.
        loss = -right.clamp_min(torch.finfo(torch.float32).tiny).log().mean()
        scores.scatter_(1, targets[:, None], right - 1)
        return loss, self._pull(queries, table, scores, out)

    def _blocked(self, queries: Tensor, table: Tensor, targets: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
        starts = range(0, len(table), self.block)
        log_sums = torch.full((len(queries),), -math.inf, device=queries.device)
        right = torch.empty_like(log_sums)
        for start in starts:
            scores = self._match(queries, table[start : start + self.block], start)
            inside, column = self._inside(targets, start, scores.shape[1])
            right = torch.where(inside, scores.gather(1, column)[:, 0], right)
            log_sums = torch.logaddexp(log_sums, scores.logsumexp(-1))
        gradient = torch.zeros_like(queries)
        for start in starts:
            tails = table[start : start + self.block]
            scores = self._match(queries, tails, start)
            scores.sub_(log_sums[:, None]).exp_()
            inside, column = self._inside(targets, start, scores.shape[1])
            scores.scatter_add_(1, column, -inside[:, None].to(scores.dtype))
            gradient += self._pull(queries, tails, scores, out[start : start + self.block])
        return (log_sums - right).mean(), gradient

    def _inside(self, targets: Tensor, start: int, size: int) -> tuple[Tensor, Tensor]:
        """Which targets lie in a block, and a column for each, `[B]` and `[B, 1]`."""
        inside = (targets >= start) & (targets < start + size)
        return inside, torch.where(inside, targets - start, 0)[:, None]

    def _pull(self, queries: Tensor, tails: Tensor, weights: Tensor, out: Tensor) -> Tensor:
        # The mean over the batch is taken on the small matrices.
        if self.model.bilinear:
            return self.model.pull(queries / len(queries), tails, weights, out, self.precision).div_(len(queries))
        return self.model.pull(queries, tails, weights.div_(len(queries)), out)


def sampled_softmax(
    model: FactorModel, queries: Tensor, tails: Tensor, targets: Tensor, negatives: Tensor, drawn: Tensor
) -> Tensor:
    """The cross entropy with the sum over all entities estimated from the rows of entities `drawn` uniformly.

    `log Σ_e exp s(e) ≈ log(exp s(t) + (N - 1) / K · Σ_k exp s(n_k))`: scores mean what they mean in the full loss.
    """
    right = model.match_pairs(queries, tails)
    wrong = model.match(queries, negatives)  # [B, K]
    share = math.log((model.num_entities - 1) / len(drawn)) if model.num_entities > 1 else 0.0
    wrong = wrong.masked_fill(drawn == targets[:, None], -math.inf) + share
    every = torch.cat((right[:, None], wrong), -1)
    return (every.logsumexp(-1) - right).mean()


def relation_loss(model: BilinearModel, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
    """The cross entropy of the right relation among all of them, for rows of heads and tails (Chen et al., 2021)."""
    scores = model.relation_queries(heads, tails) @ model.relations.storage.T  # [B, R]
    return F.cross_entropy(scores, relations)
