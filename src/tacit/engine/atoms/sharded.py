"""Fuzzy sets over sharded entities: operations that concern a set as a whole.

A process holds the columns of its own entities, `[B, n]`. From the others it receives a few values
and ids, the same on every process; with one process nothing is exchanged.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.distributed.shards import Shards, share
from tacit.errors import RunError


def whole(shards: Shards, values: Tensor) -> Tensor:
    """Gather the values of all entities, `[B, n] -> [B, N]`, as exact search needs."""
    if shards.world == 1:
        return values
    widest = widest_share(shards)
    parts = shards.gathered(F.pad(values, (0, widest - values.shape[1])))  # [W, B, widest]
    spans = (share(shards.total, rank, shards.world) for rank in range(shards.world))
    return torch.cat(
        [part[:, : stop - start] for part, (start, stop) in zip(parts, spans, strict=True)], dim=1
    )


def at(shards: Shards, values: Tensor, rows: Tensor, entities: Tensor) -> Tensor:
    """The values of entities in some rows, `[B, n] x [M] x [M] -> [M]`, from any process."""
    if shards.world == 1:
        return values[rows, entities]
    held, places = shards.inside(entities)
    return shards.sum(torch.where(held, values[rows, places], 0.0))


def largest(shards: Shards, values: Tensor) -> Tensor:
    """The largest of the processes' values at each place."""
    return values if shards.world == 1 else shards.gathered(values).amax(dim=0)


def own(shards: Shards, values: Tensor) -> Tensor:
    """The own columns of a table that every process has whole, `[B, N] -> [B, n]`."""
    return values[:, shards.start : shards.stop]


def checked(scores: Tensor, shards: Shards) -> Tensor:
    """Check that no score is NaN, which maxima and sums propagate."""
    if math.isnan(float(shards.sum(scores.sum()))):
        raise RunError(
            "the link predictor gives scores that are not numbers; is the model damaged? train it "
            "again"
        )
    return scores


def widest_share(shards: Shards) -> int:
    """The largest number of entities of a process, which sets equal step sizes for all."""
    return -(-shards.total // shards.world)
