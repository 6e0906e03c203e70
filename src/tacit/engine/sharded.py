"""Fuzzy sets whose entities are shared out over processes: what is asked of a set as a whole, whoever holds it.

A process holds the columns of its own entities, `[B, n]`. What it learns from the others is a few values and ids, the
same on every process; with one process nothing is asked, and sets are what they are.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.distributed.shards import Shards, share
from tacit.links.top import best


def best_of(shards: Shards, values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The `k` largest values of each set and their entities, `[B, n] -> [B, k]` each: larger first, then by id."""
    return best(values, k) if shards.world == 1 else shards.top(values, k)


def whole(shards: Shards, values: Tensor) -> Tensor:
    """The values of all entities, `[B, n] -> [B, N]`: as many bytes as there are entities, as exact search needs."""
    if shards.world == 1:
        return values
    widest = widest_share(shards)
    parts = shards.gathered(F.pad(values, (0, widest - values.shape[1])))  # [W, B, widest]
    spans = (share(shards.total, rank, shards.world) for rank in range(shards.world))
    return torch.cat([part[:, : stop - start] for part, (start, stop) in zip(parts, spans, strict=True)], dim=1)


def at(shards: Shards, values: Tensor, rows: Tensor, entities: Tensor) -> Tensor:
    """The value of an entity in each of some rows, `[B, n] x [M] x [M] -> [M]`, from the process that holds it."""
    if shards.world == 1:
        return values[rows, entities]
    held, places = shards.inside(entities)
    return shards.sum(torch.where(held, values[rows, places], 0.0))


def largest(shards: Shards, values: Tensor) -> Tensor:
    """The largest of the values that the processes have at each place."""
    return values if shards.world == 1 else shards.gathered(values).amax(dim=0)


def own(shards: Shards, values: Tensor) -> Tensor:
    """The own columns of what every process has whole, `[B, N] -> [B, n]`."""
    return values[:, shards.start : shards.stop]


def held(shards: Shards, entities: list[int]) -> Tensor:
    """The columns of those among some entities that this process holds."""
    here, places = shards.inside(torch.tensor(entities, dtype=torch.long))
    return places[here]


def merged(shards: Shards, columns: Tensor, order: Tensor, top: int) -> dict[int, float]:
    """The `top` best of what each process found best, as entities with their scores, best first.

    `order` says what decides, the larger the better: whether ahead, the score, a finer value, `[m, 3]`; then the id.
    """
    ids = columns.double() + shards.start
    if shards.world > 1:
        found = F.pad(torch.cat([order, ids[:, None]], dim=1), (0, 0, 0, top - len(ids)), value=-1.0)  # [top, 4]
        found = shards.gathered(found).flatten(0, 1)
        order, ids = found[found[:, 3] >= 0].split([3, 1], dim=1)
        order, ids = order, ids[:, 0]  # process by process, so that what is equal is sorted by id already
        for key in (2, 1, 0):
            by = order[:, key].argsort(descending=True, stable=True)
            order, ids = order[by], ids[by]
    return {int(i): score for i, score in zip(ids[:top].tolist(), order[:top, 1].tolist(), strict=True)}


def widest_share(shards: Shards) -> int:
    """How many entities a process holds at most: what decides the sizes of steps must be the same everywhere."""
    return -(-shards.total // shards.world)
