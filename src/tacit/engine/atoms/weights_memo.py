"""What is kept of weights from one question to the next, until somebody writes to them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.links.scorer import Scorer, State, state_of

_SUMS = 2**18  # sums of rows at most
_LOOKED_AT = 64  # numbers of each weight
_TILE = 128  # of rows of a table on a GPU: ragged sizes miss the fast kernels


@dataclass(eq=False)
class Kept:
    """What is known of weights in some state: `log Z` by row, of those that were summed, the longest key, and on a GPU
    a table of keys; and some of their numbers, as they are and as they were.
    """

    state: State = ()
    sums: dict[int, float] = field(default_factory=dict)
    longest: float | None = None
    table: Tensor | None = None
    few: tuple[tuple[Tensor, Tensor], ...] = ()

    def __reduce__(self) -> tuple[type[Kept], tuple[()]]:
        return Kept, ()  # it is of weights where they lie, and would take them along

    def now(self, scorer: Scorer) -> Kept:
        """The same, or nothing where weights were written to, or where it is too much."""
        state = state_of(scorer)
        if self.state == state and len(self.sums) <= _SUMS:
            return self
        weights = scorer.parameters() if isinstance(scorer, nn.Module) else ()
        few = [weight.detach().reshape(-1)[:: max(1, weight.numel() // _LOOKED_AT)] for weight in weights]
        return Kept(state, few=tuple((numbers, numbers.clone()) for numbers in few))

    @property
    def believable(self) -> bool:
        """Whether no weight was written to as a whole in a way that torch does not count, as through `.data`.

        A few numbers are looked at; a write to single rows goes unseen.
        """
        return all(torch.equal(*numbers) for numbers in self.few)

    def padded(self, keys: Tensor, kind: torch.dtype) -> Tensor:
        """Keys in a table of their own, of a kind of numbers."""
        if self.table is None:
            self.table = F.pad(keys, (0, 0, 0, -len(keys) % _TILE)).to(kind)
        return self.table
