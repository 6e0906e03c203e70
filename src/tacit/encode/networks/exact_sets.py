"""Exact sets on the device: where facts lead from a set, and which of them training may take away."""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.encode.networks.aggregation import SortedFacts


def followed(sets: Tensor, relations: Tensor, facts: SortedFacts) -> Tensor:
    """The facts that lead on from sets over one relation a row, `[n, N] x [n] -> [n, E]`."""
    return sets[:, facts.heads] & (facts.relations == relations[:, None])


def reached(followed: Tensor, facts: SortedFacts) -> Tensor:
    """The entities that some facts lead to, `[n, E] -> [n, N]`; facts are sorted by tail, so that sums tell them."""
    ends = torch.nn.functional.pad(followed.int().cumsum(1, dtype=torch.int32), (1, 0))[:, facts.offsets]
    return ends.diff(dim=1) > 0


def inverse_places(facts: SortedFacts) -> Tensor:
    """Where the inverse of each fact is, `[E]`."""
    n, r = facts.num_entities, facts.num_relations
    keys, order = ((facts.heads * r + facts.relations) * n + facts.tails).sort()
    wanted = (facts.tails * r + (facts.relations ^ 1)) * n + facts.heads
    places = torch.searchsorted(keys, wanted).clamp(max=max(0, len(keys) - 1))
    if not torch.equal(keys[places], wanted):
        raise ValueError("every fact needs its inverse")
    return order[places]


def kept(followed: Tensor, facts: SortedFacts, inverses: Tensor, rate: float, draws: Tensor) -> Tensor:
    """The facts that are left where those that were followed, and their inverses, go with a probability, `[E]`.

    `draws [E]` are uniform. What has to be inferred must not stand there; still every entity keeps a fact, the one with
    the largest draw where all of them would go.
    """
    seen = followed.any(0)
    seen = seen | seen[inverses]
    both = torch.minimum(inverses, torch.arange(len(facts), device=inverses.device))
    draws = draws[both]  # a fact and its inverse go together
    order = draws + (~seen).to(draws.dtype)
    largest = order.new_full((facts.num_entities,), -1.0).scatter_reduce(0, facts.tails, order, "amax")
    last = order == largest[facts.tails]
    return ~seen | (draws >= rate) | last | last[inverses]
