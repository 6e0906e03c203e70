"""Directed facts sorted by tail for graph networks, and the facts that training keeps."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad

DirectedFacts = NDArray[np.integer]  # directed facts, each with its inverse, `[E, 3]`
COLUMNS = ("heads", "relations", "tails", "offsets")
PIECE = 64  # facts, at most, that one program of a kernel goes through


class SortedFacts(nn.Module):
    """Directed facts `[E]`, sorted by tail, with the offsets of each entity."""

    heads: Tensor
    relations: Tensor
    tails: Tensor
    offsets: Tensor  # [N + 1]

    def __init__(self, triples: DirectedFacts, num_entities: int, num_relations: int) -> None:
        super().__init__()
        self.num_entities = num_entities
        self.num_relations = num_relations
        triples = np.unique(triples.astype(np.int64), axis=0)
        triples = triples[np.lexsort((triples[:, 0], triples[:, 1], triples[:, 2]))]
        heads, relations, tails = torch.from_numpy(triples.T.copy())
        offsets = pad(torch.bincount(tails, minlength=num_entities).cumsum(0), (1, 0))
        for name, array in zip(COLUMNS, (heads, relations, tails, offsets), strict=True):
            self.register_buffer(name, array, persistent=False)
        self.by_tail = Segments(tails, num_entities, heads=heads, relations=relations)
        self.by_head = Segments(heads, num_entities, tails=tails, relations=relations)
        self.by_relation = Segments(relations, num_relations, heads=heads, tails=tails)

    def __len__(self) -> int:
        return len(self.heads)

    def degrees(self, keep: Tensor | None = None) -> Tensor:
        """The number of facts in `keep` that lead to each entity, `[N]`."""
        if keep is None:
            return self.offsets.diff()
        return pad(keep.long().cumsum(0), (1, 0))[self.offsets].diff()


class Segments(nn.Module):
    """Facts sorted by a key, cut into pieces of at most `PIECE` facts of one key, for kernels.

    The single piece of a key is written to the key's row. A key of several pieces is `wide`: its
    pieces are written to extra rows behind those of keys, `firsts[i] : firsts[i + 1]` of them for
    the wide key `i`, and then added up into the key's row.
    """

    heads: Tensor  # [E]; the column that facts are sorted by is left out
    relations: Tensor
    tails: Tensor
    order: Tensor  # [E] the fact at each place
    keys: Tensor  # [P] of each piece
    starts: Tensor  # [P]
    stops: Tensor
    rows: Tensor  # [P] where a piece is written
    wide: Tensor  # [M]
    firsts: Tensor  # [M + 1]

    def __init__(self, keys: Tensor, num_keys: int, **others: Tensor) -> None:
        super().__init__()
        order = keys.argsort(stable=True)
        counts = torch.bincount(keys, minlength=num_keys)
        pieces = ((counts + PIECE - 1) // PIECE).clamp(min=1)
        key = torch.repeat_interleave(pieces)
        first = (pieces.cumsum(0) - pieces)[key]
        starts = (counts.cumsum(0) - counts)[key] + (torch.arange(len(key)) - first) * PIECE
        stops = torch.minimum(starts + PIECE, counts.cumsum(0)[key])
        several = pieces[key] > 1
        rows = torch.where(several, num_keys + several.cumsum(0) - 1, key)
        wide = (pieces > 1).nonzero()[:, 0]
        firsts = pad(pieces[wide].cumsum(0), (1, 0))
        self.extra = int(firsts[-1])
        arrays = {
            "order": order, "keys": key, "starts": starts, "stops": stops, "rows": rows,
            "wide": wide, "firsts": firsts,
        }  # fmt: skip
        arrays |= {name: array[order] for name, array in others.items()}
        for name, array in arrays.items():
            self.register_buffer(name, array.int(), persistent=False)


def followed_facts(sets: Tensor, relations: Tensor, facts: SortedFacts) -> Tensor:
    """The facts that lead on from sets over one relation a row, `[n, N] x [n] -> [n, E]`."""
    return sets[:, facts.heads] & (facts.relations == relations[:, None])


def reached_entities(mask: Tensor, facts: SortedFacts) -> Tensor:
    """The entities that some facts lead to, `[n, E] -> [n, N]`, by sums over sorted tails."""
    ends = pad(mask.int().cumsum(1, dtype=torch.int32), (1, 0))[:, facts.offsets]
    return ends.diff(dim=1) > 0


def inverse_places(facts: SortedFacts) -> Tensor:
    """The position of the inverse of each fact, `[E]`."""
    n = facts.num_entities
    r = facts.num_relations
    keys, order = ((facts.heads * r + facts.relations) * n + facts.tails).sort()
    inverse_keys = (facts.tails * r + (facts.relations ^ 1)) * n + facts.heads
    places = torch.searchsorted(keys, inverse_keys).clamp(max=max(0, len(keys) - 1))
    if not torch.equal(keys[places], inverse_keys):
        raise ValueError("every fact needs its inverse")
    return order[places]


def remaining_facts(
    mask: Tensor, facts: SortedFacts, inverses: Tensor, rate: float, draws: Tensor
) -> Tensor:
    """The facts that remain when active ones and their inverses are dropped, `[E]`.

    `draws [E]` are uniform. An answer must be inferred, not looked up; still every entity keeps a
    fact, the one with the largest draw where all of them would go.
    """
    active = mask.any(0)
    active = active | active[inverses]
    pairs = torch.minimum(inverses, torch.arange(len(facts), device=inverses.device))
    draws = draws[pairs]  # a fact and its inverse go together
    order = draws + (~active).to(draws.dtype)
    largest = order.new_full((facts.num_entities,), -1.0).scatter_reduce(
        0, facts.tails, order, "amax"
    )
    last = order == largest[facts.tails]
    return ~active | (draws >= rate) | last | last[inverses]
