"""One hop from a fuzzy set over a relation: `out[t] = max_s source[s] ⊤ c_r(s, t)`.

A hop expands candidates: the best `k` of the set, or all. How their rows are computed and joined is
an `Expansion`: by blocks of calibrated scores, by a kernel over raw scores on a GPU, or by the
entries of sparse rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.engine.atoms import hop_kernels
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.logic import ZERO, Logic, gather_columns
from tacit.engine.search.block_expansion import BlockExpansion
from tacit.engine.search.kernel_expansion import KernelExpansion
from tacit.engine.search.sparse_expansion import SparseExpansion


@dataclass(frozen=True)
class Hop:
    """A hop over some atoms in a logic, with its number of candidates and its memory."""

    atoms: Atoms
    logic: Logic
    k: int | None  # None keeps all candidates
    memory: int  # bytes

    @property
    def expansion(self) -> BlockExpansion | KernelExpansion | SparseExpansion:
        """Choose how candidates are expanded.

        A kernel calibrates raw scores, where known facts top predictions and no gradient is needed.
        Sparse rows take the same facts, and a calibration without gradients.
        """
        atoms = self.atoms
        if atoms.capabilities.sparse and atoms.facts_on_top and not atoms.differentiable:
            return SparseExpansion(atoms, self.logic, self.memory)
        by_kernel = (
            hop_kernels.on_gpu(atoms.device, self.logic.norm)
            and not torch.is_grad_enabled()
            and atoms.calibration.capabilities.rowwise
            and atoms.facts_on_top
        )
        kind = KernelExpansion if by_kernel else BlockExpansion
        return kind(atoms, self.logic, self.memory)

    def candidates(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """The best candidates of each row, as values and ids `[B, K]`; ties go to low ids."""
        n = self.atoms.num_entities
        shards = self.atoms.shards
        if self.k is None or self.k >= n:
            everyone = torch.arange(n, device=source.device)
            return gather_columns(shards, source), everyone.expand(len(source), n)
        return shards.top(source, self.k)

    def beyond(self, source: Tensor) -> Tensor | None:
        """The value of the best dropped candidate, `[B]`, which bounds all dropped paths."""
        if self.k is None or self.k >= self.atoms.num_entities:
            return None
        return self.atoms.shards.top(source, self.k + 1)[0][:, -1]

    def over(self, source: Tensor, relations: Tensor) -> Tensor:
        """The hop from `source[B, N]` over one relation a row, `[B, N]`."""
        if self.atoms.differentiable:
            return self._differentiable(source, relations)
        if self._is_uniform(source, relations):
            return self.over(source[:1], relations[:1]).expand_as(source).contiguous()
        return self._expanded(*self.candidates(source), relations)

    def _expanded(self, values: Tensor, ids: Tensor, relations: Tensor) -> Tensor:
        """Expand candidates `[B, K]` to the values of all targets, `[B, N]`."""
        order = relations.argsort(stable=True)  # queries of one relation share rows
        out = torch.full((len(values), self.atoms.width), ZERO, device=values.device)
        if values.shape[1] == self.atoms.num_entities:
            self.expansion.from_all(values[order], relations[order], out)
        else:
            width = max(1, int((values != ZERO).any(dim=0).sum()))  # the best come first
            self.expansion.from_some(
                values[order, :width], ids[order, :width], relations[order], out
            )
        back = torch.empty_like(order).scatter_(
            0, order, torch.arange(len(order), device=order.device)
        )
        return out[back]

    def _is_uniform(self, source: Tensor, relations: Tensor) -> bool:
        """Whether all rows are equal, as in a shared part of queries, so that one is enough."""
        if len(source) < 2 or self.atoms.shards.world > 1:
            return False  # each process sees its own columns only
        same = torch.equal(source[0], source[-1]) and bool((relations == relations[0]).all())
        return same and bool((source == source[:1]).all())

    def _differentiable(self, source: Tensor, relations: Tensor) -> Tensor:
        """The hop in plain operations, so that gradients reach the calibration."""
        values, ids = self.candidates(source)
        out = []
        for query in range(len(source)):
            scores = self.atoms.rows(ids[query], relations[query].expand(ids.shape[1]))
            out.append(self.logic.conjunction(scores, values[query, :, None]).amax(dim=0))
        return torch.stack(out)
