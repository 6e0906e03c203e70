"""What is kept of weights from one question to the next, until somebody writes to them."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

_SUMS = 2**18  # sums of rows at most


@dataclass(eq=False)
class Kept:
    """What is known of weights in some state: `log Z` by row, of those that were summed, and the longest key."""

    state: tuple[tuple[int, int], ...] = ()
    sums: dict[int, float] = field(default_factory=dict)
    longest: float | None = None

    def now(self, weights: nn.Module) -> Kept:
        """The same, or nothing where weights were written to, or where it is too much.

        A write that torch does not count, as through `.data`, goes unseen.
        """
        state = tuple((weight.data_ptr(), weight._version) for weight in weights.parameters())
        return self if self.state == state and len(self.sums) <= _SUMS else Kept(state)
