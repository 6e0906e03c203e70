"""Values computed once from a scorer's weights: codes, sums of rows, tables for a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.links.codes import Codes, forget_codes, shared_codes
from tacit.links.scorer import BilinearScorer, Scorer, State, state_of

_SUMS = 2**18  # sums of rows, at most
_SAMPLED = 64  # numbers of each weight
_TILE = 128  # of rows of a table on a GPU: ragged sizes miss the fast kernels
_CODED_AFTER = 32  # questions after which codes are made, which takes as long as these


@dataclass(eq=False)
class WeightCache:
    """Values derived from weights in some state.

    A few of the weights are stored both as views and as copies.
    """

    state: State = ()
    sums: dict[int, float] = field(default_factory=dict)  # `log Z` by row
    longest: float | None = None  # the length of the longest key
    table: Tensor | None = None  # of padded keys, on a GPU
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

        Writes through `.data` are such a way. Only a few numbers are compared; a write to single
        rows goes unseen.
        """
        return all(torch.equal(*numbers) for numbers in self.few)


class DerivedWeights:
    """Values derived from a scorer's weights; all are dropped once these change."""

    def __init__(
        self, scorer: Scorer, coded: Callable[[BilinearScorer, bool], Codes | None] = shared_codes
    ) -> None:
        self.scorer = scorer
        self.forgotten = False  # whether weights were written to unseen
        self._coded = coded
        self._questions = 0  # questions that codes could serve
        self._cache = WeightCache()

    @property
    def cache(self) -> WeightCache:
        """The cache for the weights as they are."""
        self._cache = self._cache.now(self.scorer)
        return self._cache

    def forget(self) -> None:
        """Drop everything; codes of other processes are no longer used."""
        self._cache = WeightCache()
        self._coded = shared_codes
        self.forgotten = True
        forget_codes(cast(BilinearScorer, self.scorer))

    def codes(self, questions: int) -> Codes | None:
        """The codes of the keys for some questions; None before many questions were asked."""
        self._questions += questions
        return self._coded(cast(BilinearScorer, self.scorer), self._questions > _CODED_AFTER)

    def sums(self, rows: Sequence[int]) -> Tensor | None:
        """The cached `log Z` of rows by their keys, `[B]`; None where one is missing."""
        cached = self.cache.sums
        sums = [cached.get(row) for row in rows]
        return None if None in sums else torch.tensor(sums)

    def add_sums(self, rows: Sequence[int], sums: Tensor) -> None:
        """Cache `log Z` of rows, `[B]`."""
        self.cache.sums.update(zip(rows, sums.tolist(), strict=True))

    @property
    def longest(self) -> float:
        """The length of the longest key."""
        cache = self.cache
        if cache.longest is None:
            keys = cast(BilinearScorer, self.scorer).keys().detach()
            cache.longest = float(torch.linalg.vector_norm(keys, dim=1).max())
        return cache.longest

    def padded(self, dtype: torch.dtype) -> Tensor:
        """A copy of the keys in another dtype, with a whole number of tiles."""
        cache = self.cache
        if cache.table is None:
            keys = cast(BilinearScorer, self.scorer).keys().detach()
            cache.table = F.pad(keys, (0, 0, 0, -len(keys) % _TILE)).to(dtype)
        return cache.table


def row_keys(scorer: Scorer, heads: Tensor, relations: Tensor) -> list[int]:
    """A number for each row `relation(head, ·)`, `head · R + relation`."""
    keys: list[int] = (heads * scorer.num_relations + relations).tolist()
    return keys
