"""The filtered mean reciprocal rank of held-out facts, while training."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.distributed.shards import Shards
from tacit.graph.fact_index import FactIndex, within
from tacit.graph.graph import SPLITS, Graph
from tacit.links.ranking import check_ranks, ranks
from tacit.links.scorer import Scorer

Validate = Callable[[Scorer], dict[str, float]]  # figures whose mean decides which weights are best
_BLOCK = 1 << 20  # facts looked at together


class Validation:
    """Ranks tails and heads of validation facts among all entities, filtered."""

    def __init__(
        self, graph: Graph, limit: int, seed: int, batch: int, shards: Shards | None = None
    ) -> None:
        facts = graph.triples("valid")
        if len(facts) > 2 * limit:
            random = np.random.default_rng(seed)
            sample = np.sort(random.choice(len(facts) // 2, limit, replace=False))
            facts = facts.reshape(-1, 2, 3)[sample].reshape(-1, 3)
        self.batch = batch
        self.shards = shards
        keys = facts[:, 0].astype(np.int64) * graph.num_relations + facts[:, 1]
        distinct, rows = np.unique(keys, return_inverse=True)
        order = np.argsort(rows, kind="stable")
        self.heads, self.relations = np.divmod(distinct, graph.num_relations)
        self.rows = rows[order]
        self.tails = facts[order, 2].astype(np.int64)
        self.index = FactIndex(_facts_of(graph, distinct), graph.num_relations)

    def __call__(self, model: Scorer) -> dict[str, float]:
        """The metrics of a model; facts are `1p` queries."""
        return {"1p": self.mrr(model)}

    def mrr(self, model: Scorer) -> float:
        """The mean reciprocal rank over all facts and both directions."""
        total = 0.0
        with torch.inference_mode():
            for start in range(0, len(self.heads), self.batch):
                heads = self.heads[start : start + self.batch]
                relations = self.relations[start : start + self.batch]
                first, last = np.searchsorted(self.rows, (start, start + self.batch))
                rows, tails, known_rows, known = _ids(
                    model,
                    self.rows[first:last] - start,
                    self.tails[first:last],
                    *self.index.neighbours(heads, relations),
                )
                scores = model.logits(*_ids(model, heads, relations))
                places = ranks(scores, rows, tails, known_rows, known, shards=self.shards)
                total += float(check_ranks(places).double().reciprocal().sum())
        return total / max(1, len(self.tails))


def _facts_of(graph: Graph, keys: NDArray[np.int64]) -> NDArray[np.int32]:
    """The facts of all splits and both directions with one of the keys `head · R + relation`."""
    facts_with_key = [np.empty((0, 3), dtype=np.int32)]
    for split in SPLITS:
        facts = graph.split(split)
        for start in range(0, len(facts), _BLOCK):
            heads, relations, tails = facts[start : start + _BLOCK].T
            for head, relation, tail in ((heads, relations, tails), (tails, relations ^ 1, heads)):
                selected = within(head.astype(np.int64) * graph.num_relations + relation, keys)
                facts_with_key.append(
                    np.stack((head[selected], relation[selected], tail[selected]), 1)
                )
    return np.concatenate(facts_with_key)


def _ids(model: Scorer, *columns: NDArray[np.integer]) -> list[torch.Tensor]:
    return [torch.from_numpy(column.astype(np.int64)).to(model.device) for column in columns]
