"""The base of all models: tables of factors, queries, and their match with tails."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tacit.distributed.shards import Shards
from tacit.links.precision import even_product, parts_of_product, product

# on a recent GPU, products with 63,361 rows are six times slower than with 63,488
MULTIPLE = 128
_BLOCK = 4096  # rows drawn at a time


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
        if self.shards is None:
            return F.embedding(ids, self.storage)
        return self.shards.rows(self.storage, ids)

    def reset(self, scale: float, generator: torch.Generator | None = None) -> None:
        """Draw all rows from a normal distribution of a given scale.

        The rows do not depend on the number of processes: each process also draws those of the
        others.
        """
        shards = self.shards or Shards(self.rows)
        with torch.no_grad():
            for first in range(0, shards.total, _BLOCK):
                last = min(first + _BLOCK, shards.total)
                block = torch.randn(last - first, self.width, generator=generator).mul_(scale)
                own = block[max(0, shards.start - first) : max(0, shards.stop - first)]
                start = max(first, shards.start) - shards.start
                self.weight[start : start + len(own)] = own

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


class FactorModel(nn.Module, ABC):
    """Scores `(h, r, t)` as `match(compose(h, r), t)`; subclasses define both functions.

    It is a `VectorScorer`, whose contract documents the methods without a docstring.
    """

    entity_width: ClassVar[int] = 1  # numbers of an entity's row, for each of the rank
    relation_width: ClassVar[int] = 1  # of a relation's row
    tables: ClassVar[int] = 1  # of entities

    def __init__(self, num_entities: int, num_relations: int, rank: int) -> None:
        super().__init__()
        self.num_entities = num_entities
        self.num_relations = num_relations
        self.rank = rank
        self.entities = Embeddings(num_entities, self.entity_width * rank, MULTIPLE)
        self.relations = Embeddings(num_relations, self.relation_width * rank)

    @property
    def head_table(self) -> Embeddings:
        """The rows of entities as heads."""
        return self.entities

    @property
    def tail_table(self) -> Embeddings:
        """The rows of entities as tails."""
        return self.entities

    @property
    def shards(self) -> Shards | None:
        """The entities that this process scores as tails, if processes share them out."""
        return self.tail_table.shards

    @property
    def device(self) -> torch.device:
        """The device of the tables."""
        return self.entities.storage.device

    @abstractmethod
    def compose(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The query of rows of heads and relations, `[B, ·] x [B, ·] -> [B, D]`."""

    @abstractmethod
    def match(self, queries: Tensor, tails: Tensor) -> Tensor:
        """The score of every query with every tail row, `[B, D] x [n, D] -> [B, n]`."""

    @abstractmethod
    def match_pairs(self, queries: Tensor, tails: Tensor) -> Tensor:
        """The score of each query with its own tail row, `[B, D] x [B, D] -> [B]`."""

    def squares(self, heads: Tensor, relations: Tensor, tails: Tensor) -> tuple[Tensor, ...]:
        """The squared moduli `|f|²` of the factors for a regulariser, each `[B, ·]`."""
        return tuple(self.vector_squares(factor) for factor in (heads, relations, tails))

    def pull(
        self,
        queries: Tensor,
        tails: Tensor,
        weights: Tensor,
        out: Tensor,
        precision: str = "float32",
    ) -> Tensor:
        """The gradient of `Σ weights · match(queries, tails)`.

        The gradient by queries is returned, that by tails is written to `out`.
        """
        with torch.enable_grad():
            factors = queries.detach().requires_grad_(), tails.detach().requires_grad_()
            by_query, by_tail = torch.autograd.grad(self.match(*factors), factors, weights)
        out.copy_(by_tail)
        return by_query

    def reset(self, scale: float, generator: torch.Generator | None = None) -> None:
        """Draw all parameters again."""
        for table in self.children():
            if isinstance(table, Embeddings):
                table.reset(scale, generator)

    def rows(
        self, heads: Tensor, relations: Tensor, tails: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The rows of triples in the three tables."""
        # one exchange with the other ranks instead of two
        if self.head_table is self.tail_table and self.head_table.shards is not None:
            h, t = self.head_table(torch.cat((heads, tails))).chunk(2)
            return h, self.relations(relations), t
        return self.head_table(heads), self.relations(relations), self.tail_table(tails)

    def logits(self, heads: Tensor, relations: Tensor, out: Tensor | None = None) -> Tensor:
        scores = self.score_all(self.head_table(heads), relations)
        return scores if out is None else out.copy_(scores)

    def logits_of(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        h, r, t = self.rows(heads, relations, tails)
        return self.match_pairs(self.compose(h, r), t)

    def entity_vectors(self, entities: Tensor) -> Tensor:
        return self.entities(entities)

    def relation_vectors(self, relations: Tensor) -> Tensor:
        return self.relations(relations)

    def vector_squares(self, vectors: Tensor) -> Tensor:
        """The squared moduli of the numbers in vectors.

        Of complex vectors the real half comes first, then the imaginary one.
        """
        if self.entity_width == 1:
            return vectors.square()
        real, imaginary = vectors.chunk(2, -1)
        return real.square() + imaginary.square()

    def score_vectors(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        return self.match_pairs(self.compose(heads, self.relations(relations)), tails)

    def score_all(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The scores of all tails, `[B, D] x [B] -> [B, N]`.

        On a GPU they are a view of a match with the padded table, which is many times faster.
        """
        queries = self.compose(heads, self.relations(relations))
        table = self.tail_table
        if heads.is_cuda:
            return self.match(queries, table.storage)[:, : table.rows]
        return self.match(queries, table.weight)


class BilinearModel(FactorModel):
    """A model whose match is an inner product, so that a row is one matrix product.

    It is a `BilinearScorer`.
    """

    @abstractmethod
    def relation_queries(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Queries `[B, D] x [B, D] -> [B, D]` for the scores of all relations.

        These scores are `relation_queries(h, t) @ R.T`.
        """

    def match(self, queries: Tensor, tails: Tensor) -> Tensor:
        """Inner products, `[B, D] x [n, D] -> [B, n]`."""
        return queries @ tails.T

    def match_pairs(self, queries: Tensor, tails: Tensor) -> Tensor:
        """Inner products of pairs."""
        return (queries * tails).sum(-1)

    def pull(
        self,
        queries: Tensor,
        tails: Tensor,
        weights: Tensor,
        out: Tensor,
        precision: str = "float32",
    ) -> Tensor:
        """The gradient of `Σ weights · match`, by two more products."""
        if precision == "bf16":
            weights = weights.bfloat16()  # once for both products
        by_query = torch.empty_like(queries)
        for part in parts_of_product(len(tails), len(queries) * queries.shape[1], queries.device):
            product(weights[:, part].T, queries, precision, out=out[part])
        for part in parts_of_product(len(queries), len(tails) * queries.shape[1], queries.device):
            product(weights[part], tails, precision, out=by_query[part])
        return by_query

    def queries(self, heads: Tensor, relations: Tensor) -> Tensor:
        return self.compose(self.head_table(heads), self.relations(relations))

    def keys(self) -> Tensor:
        return self.tail_table.weight

    def logits(self, heads: Tensor, relations: Tensor, out: Tensor | None = None) -> Tensor:
        queries = self.queries(heads, relations)
        keys = self.keys()
        wants_gradient = torch.is_grad_enabled() and (queries.requires_grad or keys.requires_grad)
        if queries.is_cuda or wants_gradient:
            return super().logits(heads, relations, out)
        return even_product(queries, keys, out=out)
