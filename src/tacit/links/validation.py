"""The filtered mean reciprocal rank of held-out facts, while training."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.graph.graph import Graph
from tacit.links.ranking import ranks
from tacit.links.scorer import Scorer

Validate = Callable[
    [Scorer], dict[str, float]
]  # figures of a link predictor, whose mean decides which weights are best


class Validation:
    """Ranks the tails and the heads of validation facts against all entities, other known facts left out."""

    def __init__(self, graph: Graph, limit: int, seed: int, batch: int) -> None:
        facts = graph.triples("valid")
        if len(facts) > 2 * limit:
            chosen = np.sort(np.random.default_rng(seed).choice(len(facts) // 2, limit, replace=False))
            facts = facts.reshape(-1, 2, 3)[chosen].reshape(-1, 3)
        self.index = graph.index()
        self.batch = batch
        keys = facts[:, 0].astype(np.int64) * graph.num_relations + facts[:, 1]
        distinct, rows = np.unique(keys, return_inverse=True)
        order = np.argsort(rows, kind="stable")
        self.heads, self.relations = np.divmod(distinct, graph.num_relations)
        self.rows, self.tails = rows[order], facts[order, 2].astype(np.int64)

    def __len__(self) -> int:
        return len(self.tails)

    def __call__(self, model: Scorer) -> dict[str, float]:
        """The figures of a model: facts are questions of one atom."""
        return {"1p": self.mrr(model)}

    def mrr(self, model: Scorer) -> float:
        """The mean reciprocal rank over all facts and both directions."""
        total = 0.0
        with torch.inference_mode():
            for start in range(0, len(self.heads), self.batch):
                heads, relations = self.heads[start : start + self.batch], self.relations[start : start + self.batch]
                first, last = np.searchsorted(self.rows, (start, start + self.batch))
                known_rows, known = self.index.neighbours(heads, relations)
                scores = model.logits(_ids(heads, model), _ids(relations, model))
                places = ranks(
                    scores,
                    _ids(self.rows[first:last] - start, model),
                    _ids(self.tails[first:last], model),
                    _ids(known_rows, model),
                    _ids(known, model),
                )
                total += float(places.double().reciprocal().sum())
        return total / max(1, len(self))


def _ids(values: NDArray[np.integer], model: Scorer) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.int64)).to(model.device)
