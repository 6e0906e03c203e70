"""Whether scores can be read as probabilities: four in five scored 0.8 should hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.distributed.ties import best
from tacit.engine.ranking import batch_size, slots
from tacit.engine.reasoner import Reasoner
from tacit.errors import SettingsError
from tacit.graph.fact_index import Floats
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.queries import QuerySet


@dataclass(frozen=True, eq=False)
class Reliability:
    """Scores in bins of equal width over [0, 1], with their sums and hits.

    Only sums are stored, so that objects can be added and millions of scores take no memory.
    """

    counts: NDArray[np.int64]  # [bins]
    scores: Floats  # [bins] sum of the scores
    hits: Floats  # [bins] how many hold
    squares: float  # sum of (score - label)²

    @classmethod
    def empty(cls, bins: int = 10) -> Reliability:
        """No scores at all."""
        if bins < 1:
            raise SettingsError(f"a reliability curve needs at least 1 bin, not {bins}")
        return cls(np.zeros(bins, dtype=np.int64), np.zeros(bins), np.zeros(bins), 0.0)

    @classmethod
    def of(
        cls, scores: Tensor | Floats, labels: Tensor | NDArray[Any], bins: int = 10
    ) -> Reliability:
        """Scores in [0, 1] and whether each holds, 0 or 1."""
        empty = cls.empty(bins)
        scores = torch.as_tensor(scores).detach().double().flatten()
        labels = torch.as_tensor(labels, device=scores.device).double().flatten()
        if len(scores) != len(labels):
            raise SettingsError(
                f"{len(scores)} scores cannot be compared with {len(labels)} labels"
            )
        if not bool(((scores >= 0) & (scores <= 1)).all()):
            raise SettingsError("scores to be read as probabilities must lie between 0 and 1")
        bin_of = (scores * bins).long().clamp_(max=bins - 1)
        sums = [
            torch.bincount(bin_of, weights, bins).cpu().numpy()
            for weights in (None, scores, labels)
        ]
        squares = float((scores - labels).square().sum())
        return empty + cls(sums[0], sums[1], sums[2], squares)

    def __add__(self, other: Reliability) -> Reliability:
        return Reliability(
            self.counts + other.counts,
            self.scores + other.scores,
            self.hits + other.hits,
            self.squares + other.squares,
        )

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def mean_score(self) -> Floats:
        """The mean score in each bin; not a number where the bin is empty."""
        return _ratio(self.scores, self.counts)

    @property
    def accuracy(self) -> Floats:
        """The share that holds in each bin; not a number where the bin is empty."""
        return _ratio(self.hits, self.counts)

    @property
    def calibration_error(self) -> float:
        """The expected calibration error: `Σ_b n_b / n · |accuracy_b - score_b|`."""
        return float(np.abs(self.hits - self.scores).sum() / max(1, len(self)))

    @property
    def brier(self) -> float:
        """The Brier score: the mean of `(score - label)²`."""
        return self.squares / max(1, len(self))

    def to_json(self) -> dict[str, Any]:
        """Both metrics and the curve, as plain data."""
        filled = self.counts > 0
        return {
            "ece": self.calibration_error,
            "brier": self.brier,
            "count": len(self),
            "curve": {
                "count": self.counts[filled].tolist(),
                "score": self.mean_score[filled].tolist(),
                "accuracy": self.accuracy[filled].tolist(),
            },
        }


@torch.no_grad()  # and not inference mode, which would keep continuous search from its gradients
def reliability(
    reasoner: Reasoner,
    queries: QuerySet,
    bins: int = 10,
    top: int | None = None,
    batch: int | None = None,
) -> Reliability:
    """Compare the scores of entities with the hard answers, without easy ones.

    With `one_hop_queries` the scores are those of atoms: held-out facts against non-facts. `top`
    restricts it to the best answers of each query, which users see; all others are nearly always
    right at nearly 0.
    """
    size = batch or batch_size(reasoner, queries.shape.plan)
    total = Reliability.empty(bins)
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
        total += Reliability.of(scores[counted], labels[counted], bins)
    return total


def _cells(answers: AnswerSets) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(answers.rows), torch.from_numpy(answers.ids.astype(np.int64))


def _ratio(sums: Floats, counts: NDArray[np.int64]) -> Floats:
    with np.errstate(invalid="ignore"):
        ratio: Floats = sums / counts
    return ratio
