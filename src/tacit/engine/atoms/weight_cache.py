"""The cache of values derived from weights, valid until the weights change."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.links.scorer import Scorer, State, state_of

_SUMS = 2**18  # sums of rows, at most
_SAMPLED = 64  # numbers of each weight
_TILE = 128  # of rows of a table on a GPU: ragged sizes miss the fast kernels


@dataclass(eq=False)
class WeightCache:
    """Values derived from weights in some state.

    These are `log Z` by row, for rows already summed, the longest key, and on a GPU a padded table
    of keys. A few of the weights are kept both as views and as copies.
    """

    state: State = ()
    sums: dict[int, float] = field(default_factory=dict)
    longest: float | None = None
    table: Tensor | None = None
    few: tuple[tuple[Tensor, Tensor], ...] = ()

    def __reduce__(self) -> tuple[type[WeightCache], tuple[()]]:
        return WeightCache, ()  # pickled empty: it holds views of the weights

    def now(self, scorer: Scorer) -> WeightCache:
        """Return this cache, or an empty one if the weights changed or it is too large."""
        state = state_of(scorer)
        if self.state == state and len(self.sums) <= _SUMS:
            return self
        weights = scorer.parameters() if isinstance(scorer, nn.Module) else ()
        few = [
            weight.detach().reshape(-1)[:: max(1, weight.numel() // _SAMPLED)] for weight in weights
        ]
        return WeightCache(state, few=tuple((numbers, numbers.clone()) for numbers in few))

    @property
    def believable(self) -> bool:
        """Whether no weight seems to have changed in a way that torch does not count.

        Writes through `.data` are such a way.

        Only a few numbers are compared; a write to single rows goes unseen.
        """
        return all(torch.equal(*numbers) for numbers in self.few)

    def padded(self, keys: Tensor, kind: torch.dtype) -> Tensor:
        """Return the keys in a padded table of their own, of some dtype."""
        if self.table is None:
            self.table = F.pad(keys, (0, 0, 0, -len(keys) % _TILE)).to(kind)
        return self.table
