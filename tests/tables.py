"""A scorer that reads its scores from a table, so that every value can be worked out by hand."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.graph.fact_index import Integers
from tacit.links.scorer import Entries


class TableScorer:
    """`tables[r][s, t]` is the probability of an atom; inverse relations read it transposed."""

    def __init__(self, tables: list[NDArray[np.float64]]) -> None:
        probabilities = torch.tensor(np.stack([m for table in tables for m in (table, table.T)]))
        self._logits = (probabilities.log() - torch.log1p(-probabilities)).float()  # [R, N, N]
        self.num_relations, self.num_entities = len(self._logits), self._logits.shape[1]
        self.device = torch.device("cpu")

    def logits(self, heads: Tensor, relations: Tensor, out: Tensor | None = None) -> Tensor:
        return self._logits[relations, heads]

    def logits_of(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        return self._logits[relations, heads, tails]


class FactorScorer(TableScorer):
    """The same scores as a matrix product, which lets engines work in blocks of columns."""

    def queries(self, heads: Tensor, relations: Tensor) -> Tensor:
        return self._logits[relations, heads]

    def keys(self) -> Tensor:
        return torch.eye(self.num_entities)


class SparseScorer(TableScorer):
    """The same scores as sparse rows, without what is as low as the lowest score of all."""

    def __init__(self, tables: list[NDArray[np.float64]]) -> None:
        super().__init__(tables)
        self.floor = float(self._logits.min())

    def entries(self, heads: Integers, relations: Integers) -> Entries:
        logits = self._logits[torch.from_numpy(relations), torch.from_numpy(heads)]
        rows, tails = (logits > self.floor).nonzero(as_tuple=True)
        return Entries(rows.numpy(), tails.numpy(), logits[rows, tails].numpy())

    def log_odds(self, scores: Tensor) -> Tensor:
        return scores.clone()
