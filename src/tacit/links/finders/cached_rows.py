"""Rows cached on disk: their best tails with logits, and exact values of `log Z`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tacit.links.finders.records import Records
from tacit.links.finders.retriever import TopK, TopKRetriever
from tacit.links.finders.scan import ScanTop
from tacit.run_folder.files import LOG_SUMS, ROWS

M = 128  # tails of a row that are kept
# a quarter of a million rows, three million sums
ROWS_BYTES = 256 * 2**20
SUMS_BYTES = 64 * 2**20


class CachedTop:
    """A cache of another retriever's lists, shared by the processes that use a run.

    An entry belongs to some `weights` and to the `rules` that leave tails out of rows. Rows also
    depend on the retriever that found them; an exact `log Z` does not. Lists of up to `m` tails
    come from the cache, longer ones from the other retriever. The files never outgrow their size.
    """

    def __init__(
        self,
        inner: TopKRetriever,
        num_relations: int,
        folder: Path,
        weights: str,
        rules: str,
        found_by: str,
        m: int = M,
    ) -> None:
        self.inner = inner
        self.num_relations = num_relations
        self.m = m
        row = np.dtype([("ids", "<i4", (m,)), ("logits", "<f4", (m,)), ("rest", "<f4")])
        self.rows = Records(folder / ROWS, row, ROWS_BYTES, weights, f"{rules} {found_by}")
        self.sums = Records(folder / LOG_SUMS, np.dtype("<f4"), SUMS_BYTES, weights, rules)

    def top(self, heads: Tensor, relations: Tensor, m: int) -> TopK:
        if m > self.m:
            return self.inner.top(heads, relations, m)
        cached, missing = self._known(self.rows, heads, relations)
        if len(missing):
            top = self._retrieve(heads[missing], relations[missing])
            fresh = np.zeros(len(missing), cached.dtype)
            for name in ("ids", "logits", "rest"):
                fresh[name] = getattr(top, name).cpu().numpy()
            self.rows.put(self._keys(heads[missing], relations[missing]), fresh)
            cached[missing.numpy()] = fresh
        ids, logits, rest = (
            torch.from_numpy(cached[name].copy()) for name in ("ids", "logits", "rest")
        )
        # What was cut off is the best of the rest; where nobody knows the rest, it stays unknown.
        bound = torch.maximum(rest, logits[:, m]) if m < self.m else rest
        return TopK(ids[:, :m].long(), logits[:, :m], bound)

    def _retrieve(self, heads: Tensor, relations: Tensor) -> TopK:
        """Rows that are not kept; a scan sums them on the way, and that is kept as well."""
        if not isinstance(self.inner, ScanTop):
            return self.inner.top(heads, relations, self.m)
        top, sums = self.inner.scan(heads, relations, self.m)
        self.sums.put(self._keys(heads, relations), sums.numpy())
        return top

    def log_sums(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """`log Z` of each row, and whether it is exact: those that are get kept."""
        cached, missing = self._known(self.sums, heads, relations)
        total = torch.from_numpy(cached)
        exact = torch.ones(len(heads), dtype=torch.bool)
        if len(missing):
            total[missing], exact[missing] = self.inner.log_sums(heads[missing], relations[missing])
            sure = missing[exact[missing]]
            self.sums.put(self._keys(heads[sure], relations[sure]), total[sure].numpy())
        return total, exact

    def _known(
        self, records: Records, heads: Tensor, relations: Tensor
    ) -> tuple[np.ndarray, Tensor]:
        """What is kept of rows, `[B]`, and the rows that are not."""
        values, present = records.get(self._keys(heads, relations))
        return values, torch.from_numpy(~present).nonzero()[:, 0]

    def _keys(self, heads: Tensor, relations: Tensor) -> np.ndarray:
        return (heads * self.num_relations + relations).numpy()
