"""The contract of everything that finds the best tails of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Top:
    """The best tails of some rows `relation(head, ·)`, by falling logit and then by rising id."""

    ids: Tensor  # [B, m], -1 where there are fewer tails
    logits: Tensor  # [B, m], exact; minus infinity where there are fewer tails
    rest: Tensor  # [B]: no tail outside the list has a higher logit; plus infinity where nobody knows


@runtime_checkable
class TopScorer(Protocol):
    """Finds the best tails of rows, and how much all of their tails weigh together."""

    def top(self, heads: Tensor, relations: Tensor, m: int) -> Top:
        """The best `m` tails of rows, `[B] x [B] -> [B, m]`."""

    def log_sums(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """`log Z`, the log of the sum of `e^x` over the logits of each row, and whether it is exact, `[B]` each."""
