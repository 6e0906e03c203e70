"""What the graph says about atoms: known facts, and what training facts rule out."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tacit.graph.fact_index import FactIndex
from tacit.graph.graph import Graph

IMPOSSIBLE = float("-inf")


class KnownFacts:
    """A sorted index of facts on a device: counts and tails of many `(head, relation)`.

    On a CPU its tensors share the memory of the index, which may be that of a mapped file.
    """

    def __init__(self, index: FactIndex, device: torch.device | str = "cpu") -> None:
        self.index = index
        self.num_relations = index.num_relations
        self._keys = torch.from_numpy(index.keys).to(device)
        self._offsets = torch.from_numpy(index.offsets).to(device)
        self._tails = torch.from_numpy(index.all_tails).to(device)  # int32

    def spans(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The start and the number of the tails of each pair."""
        keys = heads * self.num_relations + relations
        if not len(self._keys):
            return torch.zeros_like(keys), torch.zeros_like(keys)
        at = torch.searchsorted(self._keys, keys).clamp_(max=len(self._keys) - 1)
        starts = self._offsets[at]
        present = self._keys[at] == keys
        return starts, (self._offsets[at + 1] - starts) * present

    def counts(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The number of known tails of each pair."""
        return self.spans(heads, relations)[1]

    def tails(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """All known tails of many pairs: `(row, tail)`, where `row` is the place of the pair."""
        starts, sizes = self.spans(heads, relations)
        ends = sizes.cumsum(0)
        total = int(ends[-1]) if len(ends) else 0
        rows = torch.repeat_interleave(
            torch.arange(len(sizes), device=sizes.device), sizes, output_size=total
        )
        within = torch.arange(total, device=sizes.device) - (ends - sizes)[rows]
        return rows, self._tails[starts[rows] + within].long()

    def contains(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Whether each triple is a known fact."""
        known = self.index.contains(
            heads.cpu().numpy(), relations.cpu().numpy(), tails.cpu().numpy()
        )
        return torch.from_numpy(known).to(heads.device)


class KnownTails:
    """Places in rows of scores to overwrite, as of known facts or loops, sorted by column."""

    def __init__(self, rows: Tensor, tails: Tensor) -> None:
        self.tails, order = tails.sort()
        self.rows = rows[order]

    def lift(self, scores: Tensor, columns: slice | Tensor, value: float) -> None:
        """Overwrite the scores at the places that are in some columns.

        The columns are a slice, or ids in rising order.
        """
        if isinstance(columns, slice):
            rows = self.rows
            tails = self.tails
            if columns.start > 0 or (len(tails) and columns.stop <= int(tails[-1])):
                edges = torch.tensor([columns.start, columns.stop], device=tails.device)
                start, stop = torch.searchsorted(tails, edges).tolist()
                rows = rows[start:stop]
                tails = tails[start:stop]
            scores[rows, tails - columns.start] = value
            return
        places = torch.searchsorted(columns, self.tails).clamp(max=len(columns) - 1)
        present = torch.zeros_like(self.tails, dtype=torch.bool)
        if len(columns):
            present = columns[places] == self.tails
        scores[self.rows[present], places[present]] = value

    def in_blocks(self, width: int, num_entities: int) -> list[tuple[Tensor, Tensor]]:
        """Rows and columns within the block, for each block of `width` entities."""
        if width >= num_entities:
            return [(self.rows, self.tails)]
        starts = range(0, num_entities, width)
        edges = torch.searchsorted(
            self.tails, torch.tensor([*starts, num_entities], device=self.tails.device)
        ).tolist()
        spans = zip(edges, edges[1:], starts, strict=False)
        return [
            (self.rows[first:last], self.tails[first:last] - start) for first, last, start in spans
        ]


class AtomConstraints:
    """Rules out loops of relations that never loop, and with `typed` ends of a wrong kind.

    A link predictor scores every pair, and the entity most similar to an entity is itself: without
    the first rule, the best predicted neighbour of most countries is the country. By the second
    rule, an entity cannot stand at an end of a relation if it plays a role (the end of some
    relation) that no entity seen at that end plays: a language has speakers, no country has, so a
    language borders nothing. An entity need not have been seen at that end: the missing capital of
    a country is one that no training fact calls a capital.
    """

    def __init__(
        self,
        graph: Graph,
        device: torch.device | str = "cpu",
        *,
        loops: bool = False,
        typed: bool = False,
    ):
        triples = graph.triples("train").astype(np.int64)
        self.typed = typed
        looping = np.full(graph.num_relations, loops)
        looping[triples[triples[:, 0] == triples[:, 2], 1]] = True
        # [R]: relations that cannot loop
        self.without_loops = torch.from_numpy(~looping).to(device)
        self._ends: Tensor | None = None
        if typed:
            roles = torch.zeros(graph.num_relations, graph.num_entities)
            roles[torch.from_numpy(triples[:, 1]), torch.from_numpy(triples[:, 2])] = 1.0
            apart = (roles @ roles.T == 0).float()  # [R, R]: roles that nobody plays both of
            # [R, N]: where each directed relation may end
            self._ends = (apart @ roles == 0).to(device)

    def rule_out(self, logits: Tensor, heads: Tensor, relations: Tensor, columns: slice) -> Tensor:
        """Set ruled-out logits of rows `relation(head, ·)` in some columns to minus infinity.

        It does not wait for a GPU.
        """
        if logits.numel():
            rows = torch.arange(len(heads), device=heads.device)
            places = heads - columns.start
            loops = self.without_loops[relations] & (places >= 0) & (places < logits.shape[1])
            places = places.clamp(0, logits.shape[1] - 1)
            logits[rows, places] = torch.where(loops, IMPOSSIBLE, logits[rows, places])
        if self._ends is not None:
            logits.masked_fill_(~self._ends[relations, columns], IMPOSSIBLE)
            logits.masked_fill_(~self.starts(heads, relations)[:, None], IMPOSSIBLE)
        return logits

    def loops(self, heads: Tensor, relations: Tensor) -> KnownTails:
        """The places in some rows of forbidden loops, where a tail equals its head."""
        rows = self.without_loops[relations].nonzero()[:, 0]
        return KnownTails(rows, heads[rows])

    def excluded(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Whether each atom is ruled out."""
        out = self.without_loops[relations] & (heads == tails)
        if self._ends is not None:
            out |= ~(self._ends[relations, tails] & self.starts(heads, relations))
        return out

    def starts(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Whether each entity is of a kind that each relation can start at."""
        if self._ends is None:
            return torch.ones_like(heads, dtype=torch.bool)
        return self._ends[relations ^ 1, heads]
