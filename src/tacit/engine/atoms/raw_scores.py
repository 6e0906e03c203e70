"""Raw scores of rows `relation(head, ·)`, whole or in blocks of columns.

Any scorer gives whole rows. Those that multiply give blocks that stay in a buffer, so that nothing
of size rows x N is written to memory on the way to a maximum: on a CPU in float32, on a GPU in the
precision of the settings. `raw_scores` chooses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tacit.distributed.shards import Shards
from tacit.engine.atoms.derived_weights import DerivedWeights
from tacit.engine.atoms.known_facts import AtomConstraints
from tacit.errors import RunError
from tacit.links.precision import NARROW, even_product, switched
from tacit.links.scorer import BilinearScorer, Scorer, ScratchBuffers, shards_of


@dataclass(frozen=True)
class Block:
    """Scores of some rows for the entities in `columns`, valid until the next block."""

    columns: slice
    scores: Tensor  # [rows, n]


class RawScores:
    """Raw scores of any scorer; those of impossible atoms are minus infinity."""

    def __init__(
        self,
        scorer: Scorer,
        constraints: AtomConstraints | None,
        weights: DerivedWeights,
        precision: str,
    ) -> None:
        self.scorer = scorer
        self.constraints = constraints
        self.weights = weights
        self.precision = precision if scorer.device.type == "cuda" else "float32"
        self.shards = shards_of(scorer)
        # the weights of a module are checked to be finite, and so its scores are
        self.trusted = isinstance(scorer, nn.Module)
        self._buffers = ScratchBuffers()

    @torch.no_grad()
    def rows(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Raw scores of every tail, `[B, N]`, in memory of their own."""
        # a scorer may return a tensor that it keeps
        logits = self._finite(self.scorer.logits(heads, relations)).to(torch.float32, copy=True)
        return self._constrained(logits, heads, relations, slice(0, self.shards.size))

    def pairs(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Raw scores of single atoms, `[B]`, impossible ones too."""
        return self._finite(self.scorer.logits_of(heads, relations, tails))

    def blocks(
        self, heads: Tensor, relations: Tensor, width: int, narrow: bool = False
    ) -> Iterator[Block]:
        """Yield raw scores of every tail, in blocks of at most `width` entities, in one buffer.

        Scorers that do not multiply give one block. With `narrow` scores may be in 16 bits.
        """
        yield Block(slice(0, self.shards.size), self.rows(heads, relations))

    def _finite(self, logits: Tensor) -> Tensor:
        """Check that raw scores are finite, unless the weights are known to be."""
        if not self.trusted and logits.numel() and not bool(logits.isfinite().all()):
            raise RunError(
                "the link predictor gives scores that are not finite numbers; is the model damaged?"
            )
        return logits

    def _constrained(
        self, logits: Tensor, heads: Tensor, relations: Tensor, columns: slice
    ) -> Tensor:
        """Set impossible raw scores of some rows and columns to minus infinity."""
        if self.constraints is None:
            return logits
        entities = entities_of(self.shards, columns)
        return self.constraints.rule_out(logits, heads, relations, entities)


class Products(RawScores):
    """Raw scores as products of queries and keys, in a reused buffer.

    Fresh memory costs more to touch than the products to compute.
    """

    scorer: BilinearScorer

    @torch.no_grad()
    def rows(self, heads: Tensor, relations: Tensor) -> Tensor:
        logits = self._finite(self.scorer.logits(heads, relations))
        return self._constrained(logits, heads, relations, slice(0, self.shards.size))

    def blocks(
        self, heads: Tensor, relations: Tensor, width: int, narrow: bool = False
    ) -> Iterator[Block]:
        keys = self._keys()
        queries = self.scorer.queries(heads, relations).detach().to(keys.dtype)
        size = self.shards.size
        for start in range(0, size, width):
            columns = slice(start, min(start + width, size))
            logits = self._product(queries, keys, columns, narrow)
            yield Block(columns, self._constrained(logits, heads, relations, columns))

    def _keys(self) -> Tensor:
        """The keys in the dtype of the product."""
        return self.scorer.keys().detach()

    def _product(self, queries: Tensor, keys: Tensor, columns: slice, narrow: bool) -> Tensor:
        """`queries @ keys.T` in some columns."""
        few = keys[columns]
        return even_product(queries, few, out=self._buffer(queries, few))

    def _buffer(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self._buffers("scores", (len(queries), len(keys)), keys.device)


class GpuProducts(Products):
    """Products on a GPU, of a padded copy of the keys in some precision."""

    @torch.no_grad()
    def rows(self, heads: Tensor, relations: Tensor) -> Tensor:
        if self.precision == "float32":
            return super().rows(heads, relations)
        return next(self.blocks(heads, relations, self.shards.size)).scores.clone()

    def _keys(self) -> Tensor:
        return self.weights.padded(NARROW.get(self.precision, torch.float32))

    def _product(self, queries: Tensor, keys: Tensor, columns: slice, narrow: bool) -> Tensor:
        """The same with float32 sums, rounded once; in bfloat16 they would be full of ties."""
        size = columns.stop - columns.start
        padded = min(size + -size % 128, len(keys) - columns.start)
        keys = keys[columns.start : columns.start + padded]
        if narrow and keys.dtype == torch.float16:
            with switched("allow_fp16_reduced_precision_reduction", False):
                return torch.mm(queries, keys.t())[:, :size]
        if keys.dtype != torch.float32:
            return torch.mm(queries, keys.t(), out_dtype=torch.float32)[:, :size]
        with switched("allow_tf32", self.precision == "tf32"):
            return torch.mm(queries, keys.t(), out=self._buffer(queries, keys))[:, :size]


def raw_scores(
    scorer: Scorer, constraints: AtomConstraints | None, weights: DerivedWeights, precision: str
) -> RawScores:
    """Choose how a scorer's rows are computed; only a GPU has a precision but float32."""
    if not isinstance(scorer, BilinearScorer):
        return RawScores(scorer, constraints, weights, precision)
    products = GpuProducts if scorer.device.type == "cuda" else Products
    return products(scorer, constraints, weights, precision)


def entities_of(shards: Shards, columns: slice) -> slice:
    """The entities of some columns of this process."""
    return slice(columns.start + shards.start, columns.stop + shards.start)
