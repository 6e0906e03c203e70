"""A table of embeddings, padded to a height that suits matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tacit.distributed.shards import Shards

# on a recent GPU, products with 63,361 rows are six times slower than with 63,488
MULTIPLE = 128
_DRAWN = 4096  # rows drawn at a time


class Embeddings(nn.Module):
    """Rows of numbers, `[N, D]`, padded with zero rows up to a multiple.

    `storage` is the parameter, padding included; `weight` is its first N rows, and the content of a
    state dict. A state dict that is assigned rather than copied, such as one of a mapped file,
    becomes the storage, without padding. With `shards`, only the rows of this process are stored,
    and ids still are those of the whole table.
    """

    shards: Shards | None = None
    __call__: Callable[..., Tensor]

    def __init__(self, rows: int, width: int, multiple: int = 1) -> None:
        super().__init__()
        self.rows = rows
        self.width = width
        self.storage = nn.Parameter(torch.zeros(-(-rows // multiple) * multiple, width))

    @property
    def weight(self) -> Tensor:
        """The rows without the padding, `[N, D]`."""
        return self.storage[: self.rows]

    def forward(self, ids: Tensor) -> Tensor:
        """The rows of some ids, `[B] -> [B, D]`."""
        return (
            F.embedding(ids, self.storage)
            if self.shards is None
            else self.shards.rows(self.storage, ids)
        )

    def reset(self, scale: float, generator: torch.Generator | None = None) -> None:
        """Draw all rows from a normal distribution of a given scale.

        The rows do not depend on the number of processes: each process also draws those of the
        others.
        """
        shards = self.shards or Shards(self.rows)
        with torch.no_grad():
            for first in range(0, shards.total, _DRAWN):
                last = min(first + _DRAWN, shards.total)
                drawn = torch.randn(last - first, self.width, generator=generator).mul_(scale)
                start = max(first, shards.start)
                stop = min(last, shards.stop)
                if start < stop:
                    self.weight[start - shards.start : stop - shards.start] = drawn[
                        start - first : stop - first
                    ]

    def extra_repr(self) -> str:
        """The sizes that `print` shows."""
        return f"{self.rows}, {self.width}"

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        destination[prefix + "weight"] = self.weight if keep_vars else self.weight.detach()

    def _load_from_state_dict(
        self,
        state: Any,
        prefix: str,
        metadata: Any,
        strict: bool,
        missing: Any,
        unexpected: Any,
        errors: Any,
    ) -> None:
        key = prefix + "weight"
        weight = state.get(key)
        if weight is None:
            missing.append(key)
        elif weight.shape != (self.rows, self.width):
            errors.append(
                f"{key} is {tuple(weight.shape)} where ({self.rows}, {self.width}) is expected"
            )
        elif metadata.get("assign_to_params_buffers"):
            self.storage = nn.Parameter(weight.to(self.storage.dtype), self.storage.requires_grad)
        else:
            with torch.no_grad():
                self.weight.copy_(weight)
                self.storage[self.rows :] = 0
        unexpected += [other for other in state if other.startswith(prefix) and other != key]
