"""The losses of queries under adapted scores.

With `S` the score of a query at an entity and `t` a right answer:

- `1vsall`: `-S(t) + log Σ exp S(a)` over all entities `a` (eq. 6);
- `log`: `-log S(t) + log Σ S(a)`, cross entropy with probabilities in proportion to the scores;
- `bce`: `-log S(t) - log (1 - S(a))` for drawn entities `a` that are no answers.

The first two are `softplus(log Z - ℓ(t))` with `ℓ = S` or `ℓ = log S` and `Z` the sum of `exp ℓ` without the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.adapt.query_batches import Batch
from tacit.adapt.streamed_loss import StreamedTotals, literals, streamed
from tacit.engine.known_tails import KnownTails
from tacit.engine.logic import log1mexp
from tacit.engine.reasoner import MessageReasoner
from tacit.engine.scores import Scores
from tacit.query.fold import Place
from tacit.query.plan import Plan

_KEPT_ROWS = 6  # of a candidate: what scores were made of, on the way forward and back
_LOWEST = -80.0  # log-scores end here: a score of zero has no gradient to follow


@dataclass(frozen=True, eq=False)
class QueryLoss:
    """The loss of queries of one plan."""

    reasoner: MessageReasoner
    plan: Plan
    name: str
    masked: bool
    negatives: int
    random: np.random.Generator
    frozen: bool = True  # raw scores are constants

    @cached_property
    def streamed(self) -> StreamedTotals | None:
        """How to sum over all entities without holding their scores, where that can be done."""
        if self.name == "bce" or not self.frozen:
            return None
        reasoner = self.reasoner
        return streamed(self.plan, reasoner.atoms, reasoner.logic, self.name == "log", reasoner.memory)

    @property
    def batch(self) -> int:
        """How many queries to take at once: autograd keeps several rows of every step and of every candidate."""
        if self.streamed:
            return self.streamed.batch
        n, k = self.reasoner.num_entities, self.reasoner.k
        candidates = (self.plan.num_variables - 1) * (n if k is None else min(k, n))
        rows = 8 * (4 + self.plan.num_relations) + _KEPT_ROWS * candidates
        return max(1, self.reasoner.memory // (4 * n * rows))

    def __call__(self, batch: Batch) -> Tensor:
        """The sum of the losses of some queries; gradients reach the adapter."""
        device = self.reasoner.device
        entities, relations, targets = batch.slots(device)
        evaluation = self.reasoner.evaluation(entities, relations)
        if self.name == "bce":
            drawn = [batch.negatives(self.reasoner.num_entities, self.random) for _ in range(self.negatives)]
            wanted = torch.stack([targets, *(torch.from_numpy(ids).to(device) for ids in drawn)])
            return self._binary(self._at(evaluation, wanted))
        excluded = batch.excluded(self.masked, device)
        if self.streamed:
            scores, total = self.streamed(entities, relations, targets, excluded)
        else:
            every = evaluation.whole(self.plan.root)
            scores = every.gather(1, targets[:, None])[:, 0]
            total = self._log_total(every, excluded)
        scores = scores.clamp(min=_LOWEST)
        return F.softplus(total - (scores if self.name == "log" else scores.exp())).sum()

    def _at(self, evaluation: Scores, wanted: Tensor) -> Tensor:
        """Log-scores of the queries at some entities each, `[M, Q]`; atoms alone need no rows."""
        if literals(self.plan) is not None:
            return torch.stack([evaluation.of(self.plan.root, Place(target=ids))[:, 0] for ids in wanted])
        return evaluation.whole(self.plan.root).gather(1, wanted.T).T

    def _log_total(self, scores: Tensor, excluded: KnownTails) -> Tensor:
        values = scores if self.name == "log" else scores.exp()
        left_out = torch.zeros_like(values, dtype=torch.bool)
        left_out[excluded.rows, excluded.tails] = True
        # Minus infinity alone would have a gradient that is no number.
        return values.clamp(min=2 * _LOWEST).masked_fill(left_out, 2 * _LOWEST).logsumexp(1).clamp(min=_LOWEST)

    def _binary(self, scores: Tensor) -> Tensor:
        right, wrong = scores[0], log1mexp(scores[1:])
        return -(right.clamp(min=_LOWEST) + wrong.clamp(min=_LOWEST).mean(0)).sum()
