"""Rows that were asked for, kept on disk: the best tails with their logits, and `log Z` where it is known exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tacit.links.finders.finder import Top, TopScorer
from tacit.links.finders.records import Records
from tacit.links.finders.scan import ScanTop
from tacit.run.folder import LOG_SUMS, ROWS

M = 128  # tails of a row that are kept
ROWS_BYTES, SUMS_BYTES = 256 * 2**20, 64 * 2**20  # a quarter of a million rows, three million sums


class CachedTop:
    """The lists of another, each found once; processes that answer from one run share them.

    All that is kept is of some `weights`, and goes by the `rules` that leave tails out of rows. Rows also go by what
    found them; an exact `log Z` is the same whoever summed, and serves all. Lists of up to `m` tails come from the rows
    that are kept, longer ones from the other each time. The files never outgrow their size.
    """

    def __init__(
        self, inner: TopScorer, num_relations: int, folder: Path, weights: str, rules: str, found_by: str, m: int = M
    ) -> None:
        self.inner, self.num_relations, self.m = inner, num_relations, m
        row = np.dtype([("ids", "<i4", (m,)), ("logits", "<f4", (m,)), ("rest", "<f4")])
        self.rows = Records(folder / ROWS, row, ROWS_BYTES, weights, f"{rules} {found_by}")
        self.sums = Records(folder / LOG_SUMS, np.dtype("<f4"), SUMS_BYTES, weights, rules)

    def top(self, heads: Tensor, relations: Tensor, m: int) -> Top:
        if m > self.m:
            return self.inner.top(heads, relations, m)
        kept, missing = self._known(self.rows, heads, relations)
        if len(missing):
            top = self._found(heads[missing], relations[missing])
            fresh = np.zeros(len(missing), kept.dtype)
            for name in ("ids", "logits", "rest"):
                fresh[name] = getattr(top, name).cpu().numpy()
            self.rows.put(self._keys(heads[missing], relations[missing]), fresh)
            kept[missing.numpy()] = fresh
        ids, logits, rest = (torch.from_numpy(kept[name].copy()) for name in ("ids", "logits", "rest"))
        # What was cut off is the best of the rest; where nobody knows the rest, it stays unknown.
        bound = torch.maximum(rest, logits[:, m]) if m < self.m else rest
        return Top(ids[:, :m].long(), logits[:, :m], bound)

    def _found(self, heads: Tensor, relations: Tensor) -> Top:
        """Rows that are not kept; a scan sums them on the way, and that is kept as well."""
        if not isinstance(self.inner, ScanTop):
            return self.inner.top(heads, relations, self.m)
        top, sums = self.inner.scan(heads, relations, self.m)
        self.sums.put(self._keys(heads, relations), sums.numpy())
        return top

    def log_sums(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """`log Z` of each row, and whether it is exact: those that are get kept."""
        kept, missing = self._known(self.sums, heads, relations)
        total, exact = torch.from_numpy(kept), torch.ones(len(heads), dtype=torch.bool)
        if len(missing):
            total[missing], exact[missing] = self.inner.log_sums(heads[missing], relations[missing])
            sure = missing[exact[missing]]
            self.sums.put(self._keys(heads[sure], relations[sure]), total[sure].numpy())
        return total, exact

    def _known(self, records: Records, heads: Tensor, relations: Tensor) -> tuple[np.ndarray, Tensor]:
        """What is kept of rows, `[B]`, and the rows that are not."""
        kept, there = records.get(self._keys(heads, relations))
        return kept, torch.from_numpy(~there).nonzero()[:, 0]

    def _keys(self, heads: Tensor, relations: Tensor) -> np.ndarray:
        return (heads * self.num_relations + relations).numpy()
