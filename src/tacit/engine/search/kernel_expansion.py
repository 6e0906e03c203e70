"""The expansion of candidates on a GPU, by a kernel that reads raw scores."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from tacit.engine.atoms import hop_kernels
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.logic import Logic
from tacit.engine.search.block_expansion import GPU_ROWS, by_relation


@dataclass(frozen=True)
class KernelExpansion:
    """Raises values of targets by raw rows of candidates, read once for each query."""

    atoms: Atoms
    logic: Logic
    memory: int  # bytes

    def from_some(self, values: Tensor, ids: Tensor, relations: Tensor, out: Tensor) -> None:
        """Raise `out[B, N]` by candidates `[B, K]`, queries side by side."""
        rows = self._rows_at_once
        for few, some in zip(values.split(rows, dim=1), ids.split(rows, dim=1), strict=True):
            self._from_pairs(few, some, relations, out)

    def from_all(self, values: Tensor, relations: Tensor, out: Tensor) -> None:
        """Raise `out[B, N]` by every entity; relations are in order, and their rows are shared."""
        for heads, relation, source, targets in by_relation(values, relations, out):
            for chunk in heads.split(self._rows_at_once):
                places = torch.arange(len(chunk), device=chunk.device).expand(len(source), -1)
                along = torch.full_like(chunk, relation)
                self._from_raw(chunk, along, places, source[:, chunk], targets)

    @property
    def _rows_at_once(self) -> int:
        """How many rows to score at once; raw scores take 4 bytes each."""
        return max(1, min(self.memory // (5 * self.atoms.widest), GPU_ROWS))

    def _from_pairs(self, weights: Tensor, ids: Tensor, relations: Tensor, out: Tensor) -> None:
        """Raise `out[B, N]` by candidates `[B, K]` on a GPU, with a single synchronisation.

        As many queries go together as rows fit in memory; rows that several of them need are scored
        once.
        """
        n = self.atoms.num_entities
        queries, k = ids.shape
        group_size = max(1, self._rows_at_once // k)
        span = n * self.atoms.scorer.num_relations
        group = torch.arange(queries, device=ids.device) // group_size
        keys = (group * span + relations * n)[:, None] + ids
        distinct, places = torch.unique(keys, return_inverse=True)
        firsts = torch.arange(-(-queries // group_size) + 1, device=ids.device) * span
        bounds = torch.searchsorted(distinct, firsts).tolist()
        for number, (start, stop) in enumerate(pairwise(bounds)):
            group_rows = slice(number * group_size, (number + 1) * group_size)
            row_keys = distinct[start:stop] % span
            self._from_raw(
                row_keys % n,
                row_keys // n,
                places[group_rows] - start,
                weights[group_rows],
                out[group_rows],
            )

    def _from_raw(
        self, heads: Tensor, relations: Tensor, rows: Tensor, weights: Tensor, out: Tensor
    ) -> None:
        """Raise `out[G, N]` by `max_j weights[q, j] ⊤ c(heads[rows[q, j]], t)`.

        Known facts are worth more than any prediction of their rows, so they are not written into
        these.
        """
        atoms = self.atoms
        raw = next(atoms.raw.blocks(heads, relations, atoms.width, narrow=True)).scores
        by_row = atoms.calibration.by_row(raw, heads, relations)
        best = hop_kernels.best_of(raw, rows, weights, self.logic.norm, by_row, atoms.ceiling)
        torch.maximum(out, best, out=out)
        if atoms.facts is None:
            return
        pairs = rows.reshape(-1)
        which, tails = atoms.known_tails(heads[pairs], relations[pairs])
        worth = self.logic.conjunction(
            weights.reshape(-1)[which], weights.new_full((), atoms.observed)
        )
        out.view(-1).scatter_reduce_(
            0, which // rows.shape[1] * out.shape[1] + tails, worth, "amax"
        )
