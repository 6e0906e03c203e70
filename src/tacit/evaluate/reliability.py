"""Whether scores can be read as probabilities: four in five scored 0.8 should hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tacit.distributed.ties import best
from tacit.engine.ranking import batch_size, slots
from tacit.engine.reasoner import Reasoner
from tacit.graph.fact_index import Floats
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.queries import QuerySet

BINS = 10  # of equal width over [0, 1]


@dataclass(frozen=True, eq=False)
class Reliability:
    """The number of scores in each bin, their sum, and the number of them that hold.

    Only sums are stored, so that objects can be added and millions of scores take no memory.
    """

    bins: Floats  # [3, BINS]
    squares: float = 0.0  # sum of (score - label)²

    @classmethod
    def empty(cls) -> Reliability:
        """No scores at all."""
        return cls(np.zeros((3, BINS)))

    @classmethod
    def of(cls, scores: Tensor, labels: Tensor) -> Reliability:
        """Scores in [0, 1] and whether each holds, 0 or 1."""
        scores = scores.detach().double()
        labels = labels.double()
        bin_of = (scores * BINS).long().clamp_(max=BINS - 1)
        weights = torch.ones_like(scores), scores, labels
        bins = torch.stack([torch.bincount(bin_of, column, BINS) for column in weights])
        return cls(bins.cpu().numpy(), float((scores - labels).square().sum()))

    def __add__(self, other: Reliability) -> Reliability:
        return Reliability(self.bins + other.bins, self.squares + other.squares)

    def __len__(self) -> int:
        return int(self.bins[0].sum())

    @property
    def calibration_error(self) -> float:
        """The expected calibration error: `Σ_b n_b / n · |accuracy_b - score_b|`."""
        _, scores, hits = self.bins
        return float(np.abs(hits - scores).sum() / max(1, len(self)))

    @property
    def brier(self) -> float:
        """The Brier score: the mean of `(score - label)²`."""
        return self.squares / max(1, len(self))

    def to_json(self) -> dict[str, Any]:
        """Both metrics and the curve over the bins that have scores, as plain data."""
        counts, scores, hits = self.bins[:, self.bins[0] > 0]
        return {
            "ece": self.calibration_error,
            "brier": self.brier,
            "count": len(self),
            "curve": {
                "count": counts.astype(int).tolist(),
                "score": (scores / counts).tolist(),
                "accuracy": (hits / counts).tolist(),
            },
        }


@torch.no_grad()  # and not inference mode, which would keep continuous search from its gradients
def reliability(reasoner: Reasoner, queries: QuerySet, top: int | None = None) -> Reliability:
    """Compare the scores of entities with the hard answers, without easy ones.

    With `one_hop_queries` the scores are those of atoms: held-out facts against non-facts. `top`
    restricts it to the best answers of each query, which users see; all others are nearly always
    right at nearly 0.
    """
    size = batch_size(reasoner, queries.shape.plan)
    total = Reliability.empty()
    for start in range(0, len(queries), size):
        part = queries[start : start + size]
        scores, finer = reasoner.ranked(part.shape.plan, *slots(part))
        scores = scores.exp().clamp(0, 1)
        labels = torch.zeros_like(scores)
        easy = _cells(part.easy)
        labels[_cells(part.hard)] = 1
        scores[easy] = -1  # an impossible score
        if top is not None:  # `finer` separates scores that are equal near 1
            order = finer.clamp(min=torch.finfo(finer.dtype).min)
            order[easy] = -torch.inf
            entities = best(order, top)[1]
            scores = scores.gather(1, entities)
            labels = labels.gather(1, entities)
        counted = scores >= 0
        total += Reliability.of(scores[counted], labels[counted])
    return total


def _cells(answers: AnswerSets) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(answers.rows), torch.from_numpy(answers.ids.astype(np.int64))
