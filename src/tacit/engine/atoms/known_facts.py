"""The known facts, as tensors on the device where scores are computed."""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.graph.fact_index import FactIndex


class KnownFacts:
    """A graph's sorted index on a device: counts and tails of many `(head, relation)` at once.

    On a CPU its tensors are the arrays of the index, which may be those of a file, and take no memory of their own.
    """

    def __init__(self, index: FactIndex, device: torch.device | str = "cpu") -> None:
        self.index = index
        self.num_relations = index.num_relations
        self._keys = torch.from_numpy(index.keys).to(device)
        self._offsets = torch.from_numpy(index.offsets).to(device)
        self._tails = torch.from_numpy(index.all_tails).to(device)  # int32

    def spans(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Where the tails of each pair start, and how many there are."""
        wanted = heads * self.num_relations + relations
        if not len(self._keys):
            return torch.zeros_like(wanted), torch.zeros_like(wanted)
        at = torch.searchsorted(self._keys, wanted).clamp_(max=len(self._keys) - 1)
        starts = self._offsets[at]
        there = self._keys[at] == wanted
        return starts, (self._offsets[at + 1] - starts) * there

    def counts(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The number of known tails of each pair."""
        return self.spans(heads, relations)[1]

    def tails(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """All known tails of many pairs: `(row, tail)`, where `row` says which pair a tail belongs to."""
        starts, sizes = self.spans(heads, relations)
        ends = sizes.cumsum(0)
        total = int(ends[-1]) if len(ends) else 0
        rows = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes, output_size=total)
        within = torch.arange(total, device=sizes.device) - (ends - sizes)[rows]
        return rows, self._tails[starts[rows] + within].long()

    def contains(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Whether each triple is a known fact."""
        known = self.index.contains(heads.cpu().numpy(), relations.cpu().numpy(), tails.cpu().numpy())
        return torch.from_numpy(known).to(heads.device)
