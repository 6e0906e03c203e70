"""The contract of retrievers of the best tails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor


@dataclass(frozen=True, eq=False)
class TopK:
    """The best tails of some rows `relation(head, ·)`, by falling logit and then by rising id."""

    ids: Tensor  # [B, m], -1 where there are fewer tails
    logits: Tensor  # [B, m], exact; minus infinity where there are fewer tails
    # [B]: no tail outside the list has a higher logit; plus infinity where nobody knows
    rest: Tensor
    log_sums: Tensor | None = None  # [B], exact, where the search sums rows on its way


@runtime_checkable
class TopKRetriever(Protocol):
    """Finds the best tails of rows, and how much all of their tails weigh together."""

    def top(self, heads: Tensor, relations: Tensor, m: int) -> TopK:
        """The best `m` tails of rows, `[B] x [B] -> [B, m]`."""

    def log_sums(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """`log Z`, the log of the sum of `e^x` over a row, and whether it is exact, `[B]` each."""
