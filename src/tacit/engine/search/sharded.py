"""Fuzzy sets whose entities are shared out over processes: what is asked of a set as a whole, whoever holds it.

A process holds the columns of its own entities, `[B, n]`. What it learns from the others is a few values and ids, the
same on every process; with one process nothing is asked, and sets are what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.distributed.shards import Shards, share
from tacit.engine.search.best_answers import BestAnswers, Wanted


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


def best_answers(
    shards: Shards,
    wanted: Wanted,
    scores: Tensor,
    finer: Tensor | None = None,
    bounds: tuple[Tensor, Tensor] | None = None,
) -> BestAnswers:
    """The answers by scores `[n]` of which every process has its own, as `Wanted.best` lists and certifies them.

    The best of every process decide as all entities would. Bounds, which few ask for, are compared whole.
    """
    if shards.world == 1:
        return wanted.best(scores, finer, bounds)
    if bounds is not None:
        everyone = whole(shards, torch.stack([scores, scores if finer is None else finer, *bounds]))
        return wanted.best(everyone[0], None if finer is None else everyone[1], (everyone[2], everyone[3]))
    first, without = (_held(shards, ids) for ids in (wanted.first, wanted.without))
    own = replace(wanted, first=first, without=without)
    kept = torch.tensor(own.order(own.lifted(scores), finer), dtype=torch.long)
    rows = torch.stack([table[kept] for table in ([scores] if finer is None else [scores, finer])])
    missing = wanted.count - len(kept)
    ids = shards.gathered(F.pad(kept + shards.start, (0, missing), value=-1)).flatten()
    values = shards.gathered(F.pad(rows, (0, missing))).transpose(0, 1).flatten(1)
    listed, order = ids.sort()
    order = order[listed >= 0]
    return wanted.best_among(ids[order], *values[:, order])


def _held(shards: Shards, ids: Sequence[int]) -> list[int]:
    """The columns of those entities that this process holds."""
    here, places = shards.inside(torch.tensor(ids, dtype=torch.long))
    columns: list[int] = places[here].tolist()
    return columns


def widest_share(shards: Shards) -> int:
    """How many entities a process holds at most: what decides the sizes of steps must be the same everywhere."""
    return -(-shards.total // shards.world)
