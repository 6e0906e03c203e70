"""What all models share: three tables of factors, a query made of head and relation, and its match with every tail."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from tacit.distributed.shards import Shards
from tacit.links.embeddings import MULTIPLE, Embeddings
from tacit.links.precision import even_product, product


class FactorModel(nn.Module, ABC):
    """Scores `(h, r, t)` as `match(compose(h, r), t)`; a model says how to compose and how to match.

    It is a `VectorScorer`, whose contract says what the methods without a line of their own do.
    """

    entity_width: ClassVar[int] = 1  # numbers of an entity's row, for each of the rank
    relation_width: ClassVar[int] = 1  # of a relation's row
    tables: ClassVar[int] = 1  # of entities

    def __init__(self, num_entities: int, num_relations: int, rank: int) -> None:
        super().__init__()
        self.num_entities, self.num_relations, self.rank = num_entities, num_relations, rank
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
        """The entities of this process, whose tails rows of scores are of, where several share them out."""
        return self.tail_table.shards

    @property
    def device(self) -> torch.device:
        """Where the tables are."""
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
        """The squared moduli `|f|²` of the factors a regulariser should see, each `[B, ·]`."""
        return tuple(self.vector_squares(factor) for factor in (heads, relations, tails))

    def pull(self, queries: Tensor, tails: Tensor, weights: Tensor, out: Tensor, precision: str = "float32") -> Tensor:
        """The gradient of `Σ weights · match(queries, tails)`: by queries, returned, and by tails, written to `out`."""
        with torch.enable_grad():
            factors = queries.detach().requires_grad_(), tails.detach().requires_grad_()
            by_query, by_tail = torch.autograd.grad(self.match(*factors), factors, weights)
        out.copy_(by_tail)
        return by_query

    def reset(self, scale: float, generator: torch.Generator | None = None) -> None:
        """Draw all parameters anew."""
        for table in self.children():
            if isinstance(table, Embeddings):
                table.reset(scale, generator)

    def rows(self, heads: Tensor, relations: Tensor, tails: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The rows of triples in the three tables."""
        if self.head_table is self.tail_table and self.head_table.shards is not None:  # asks the other ranks once
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
        """The squared moduli of numbers in vectors; of complex ones the real half comes first, the imaginary next."""
        if self.entity_width == 1:
            return vectors.square()
        real, imaginary = vectors.chunk(2, -1)
        return real.square() + imaginary.square()

    def score_vectors(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        return self.match_pairs(self.compose(heads, self.relations(relations)), tails)

    def score_all(self, heads: Tensor, relations: Tensor) -> Tensor:
        """`[B, D] x [B] -> [B, N]`; on a GPU a view of a match with the padded table, which is many times faster."""
        queries, table = self.compose(heads, self.relations(relations)), self.tail_table
        return (
            self.match(queries, table.storage)[:, : table.rows] if heads.is_cuda else self.match(queries, table.weight)
        )


class BilinearModel(FactorModel):
    """A model whose match is an inner product, so that a row of scores is one matrix product: a `BilinearScorer`."""

    @abstractmethod
    def relation_queries(self, heads: Tensor, tails: Tensor) -> Tensor:
        """`[B, D] x [B, D] -> [B, D]`, so that the scores of all relations are `relation_queries(h, t) @ R.T`."""

    def match(self, queries: Tensor, tails: Tensor) -> Tensor:
        """Inner products, `[B, D] x [n, D] -> [B, n]`."""
        return queries @ tails.T

    def match_pairs(self, queries: Tensor, tails: Tensor) -> Tensor:
        """Inner products of pairs."""
        return (queries * tails).sum(-1)

    def pull(self, queries: Tensor, tails: Tensor, weights: Tensor, out: Tensor, precision: str = "float32") -> Tensor:
        """The gradient of `Σ weights · match`: two more products."""
        if precision == "bf16":
            weights = weights.bfloat16()  # once for both
        product(weights.T, queries, precision, out=out)
        return product(weights, tails, precision)

    def queries(self, heads: Tensor, relations: Tensor) -> Tensor:
        return self.compose(self.head_table(heads), self.relations(relations))

    def keys(self) -> Tensor:
        return self.tail_table.weight

    def logits(self, heads: Tensor, relations: Tensor, out: Tensor | None = None) -> Tensor:
        queries, keys = self.queries(heads, relations), self.keys()
        wants_gradient = torch.is_grad_enabled() and (queries.requires_grad or keys.requires_grad)
        if queries.is_cuda or wants_gradient:
            return super().logits(heads, relations, out)
        return even_product(queries, keys, out=out)
