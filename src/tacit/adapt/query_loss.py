"""The losses of queries under adapted scores.

With `S` the score of a query at an entity and `t` a right answer:

- `1vsall`: `-S(t) + log Σ exp S(a)` over all entities `a` (eq. 6);
- `log`: `-log S(t) + log Σ S(a)`, cross entropy with probabilities in proportion to the scores;
- `bce`: `-log S(t) - log (1 - S(a))` for a drawn entity `a` that is no answer.

The first two are `softplus(log Z - ℓ(t))` with `ℓ = S` or `ℓ = log S` and `Z` the sum of `exp ℓ`
without the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.adapt.streamed_loss import StreamedTotals, streamed
from tacit.adapt.training_queries import Batch, literals
from tacit.engine.logic import log1mexp
from tacit.engine.search.message_reasoner import MessageReasoner
from tacit.query.plans.fold import EvalContext
from tacit.query.plans.plan import Plan

_SAVED_ROWS = 6  # rows per candidate that autograd keeps for the backward pass
_LOWEST = -80.0  # lower bound of log-scores, since a score of zero has no gradient


@dataclass(frozen=True, eq=False)
class QueryLoss:
    """The loss of queries."""

    reasoner: MessageReasoner
    name: str
    masked: bool
    random: np.random.Generator

    @cached_property
    def streamed(self) -> StreamedTotals | None:
        """The streamed sums over all entities, or None if they do not apply."""
        return None if self.name == "bce" else streamed(self.reasoner, self.name == "log")

    def parts(self, batches: Iterable[Batch]) -> Iterator[list[Batch]]:
        """Split the queries into parts that fit in memory and share their rows."""
        together = []
        for batch in batches:
            plan = batch.queries.shape.plan
            if self.streamed and literals(plan):
                together.append(batch)
            else:
                yield from ([piece] for piece in batch.parts(self.most_queries(plan)))
        if self.streamed:
            yield from self.streamed.parts(together)

    def most_queries(self, plan: Plan) -> int:
        """The number of queries that fit in memory with the rows that autograd keeps."""
        n = self.reasoner.num_entities
        k = self.reasoner.k
        candidates = (plan.num_variables - 1) * (n if k is None else min(k, n))
        rows = 8 * (4 + plan.num_relations) + _SAVED_ROWS * candidates
        return max(1, self.reasoner.memory // (4 * n * rows))

    def __call__(self, part: Sequence[Batch]) -> Tensor:
        """The summed loss of the queries of a part, with gradients at the adapter."""
        if self.name == "bce":
            return torch.stack([self._binary_loss(batch) for batch in part]).sum()
        if self.streamed and all(literals(batch.queries.shape.plan) for batch in part):
            scores, total = self.streamed(part, self.masked)
        else:
            searched = [self._search(batch) for batch in part]
            scores, total = (torch.cat(column) for column in zip(*searched, strict=True))
        scores = scores.clamp(min=_LOWEST)
        return F.softplus(total - (scores if self.name == "log" else scores.exp())).sum()

    def _search(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """`log S` at the targets, and the log of the sum of all others, with gradients."""
        entities, relations, targets = batch.slots(self.reasoner.device)
        root = batch.queries.shape.plan.root
        scores = self.reasoner.evaluation(entities, relations).set_of(root)  # [Q, N]
        excluded = batch.excluded(self.masked, self.reasoner.device)
        is_excluded = torch.zeros_like(scores, dtype=torch.bool)
        is_excluded[excluded.rows, excluded.tails] = True
        values = scores if self.name == "log" else scores.exp()
        # a row of -inf would have a gradient of NaN
        total = (
            values.clamp(min=2 * _LOWEST)
            .masked_fill(is_excluded, 2 * _LOWEST)
            .logsumexp(1)
            .clamp(min=_LOWEST)
        )
        return scores.gather(1, targets[:, None])[:, 0], total

    def _binary_loss(self, batch: Batch) -> Tensor:
        device = self.reasoner.device
        plan = batch.queries.shape.plan
        entities, relations, targets = batch.slots(device)
        evaluation = self.reasoner.evaluation(entities, relations)
        negatives = batch.negatives(self.reasoner.num_entities, self.random)
        tails = torch.stack([targets, torch.from_numpy(negatives).to(device)])  # [2, Q]
        if literals(plan):  # atoms alone need no rows
            scores = torch.stack(
                [evaluation.of(plan.root, EvalContext(target=ids))[:, 0] for ids in tails]
            )
        else:
            scores = evaluation.set_of(plan.root).gather(1, tails.T).T
        right = scores[0]
        wrong = log1mexp(scores[1])
        return -(right.clamp(min=_LOWEST) + wrong.clamp(min=_LOWEST)).sum()
