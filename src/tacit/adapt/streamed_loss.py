"""The loss of intersections of atoms and their negations, streamed: no row of scores is ever kept.

The adapted score of an atom is `c = σ(y)` with `y = scale · x + shift`, where `x` is constant. A query's score at one
entity is the product `S` of its literals, `c` or `1 - min(1, strength · c)`. All that a 1-vs-all loss and its gradient
need are sums over entities: `Z = Σ φ(S)` and, for each literal, `∂Z/∂shift = Σ φ'(S) ∂S/∂y` and the same with a factor
`x` for `∂Z/∂scale`. They are gathered block by block of entities, in buffers that stay in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import torch
from torch import Tensor

from tacit.adapt.calibrated import Adapted
from tacit.engine.atoms import Atoms, KnownTails
from tacit.engine.logic import Logic
from tacit.query.plan import Complement, Intersect, Plan, Relation, Row

Places = tuple[Tensor, Tensor]  # rows and columns
_CPU_ROWS = 768  # rows of products computed at a time
_CPU_WIDTH = 2048  # columns of a block


@dataclass(frozen=True)
class Literal:
    """One atom from an entity slot over a relation slot, or its negation."""

    entity: int
    relation: int
    flip: bool
    negated: bool


def literals(plan: Plan) -> tuple[Literal, ...] | None:
    """The literals of a plan that is nothing but their intersection, positive ones first."""
    parts = plan.root.parts if isinstance(plan.root, Intersect) else (plan.root,)
    listed = []
    for part in parts:
        match part:
            case Row(entity, Relation(relation, flip)):
                listed.append(Literal(entity, relation, flip, False))
            case Complement(Row(entity, Relation(relation, flip))):
                listed.append(Literal(entity, relation, flip, True))
            case _:
                return None
    return tuple(sorted(listed, key=lambda literal: literal.negated))


def streamed(plan: Plan, atoms: Atoms, logic: Logic, log_scores: bool, memory: int) -> StreamedTotals | None:
    """The way to stream the sums of a plan, or None where its structure, adapter or logic does not allow it."""
    parts, adapted = literals(plan), atoms.calibration
    if parts is None or not isinstance(adapted, Adapted) or not adapted.adapter.by_row:
        return None
    if adapted.calibration.name == "minmax" or logic.norm != "product" or logic.negation_name != "standard":
        return None
    return StreamedTotals(atoms, adapted, logic, parts, log_scores, memory)


@dataclass(eq=False)
class StreamedTotals:
    """Queries that intersect the same kinds of literals, ready to be summed up."""

    atoms: Atoms
    adapted: Adapted
    logic: Logic
    literals: tuple[Literal, ...]
    log_scores: bool  # φ(S) = S instead of exp(S)
    memory: int  # bytes

    @property
    def batch(self) -> int:
        """How many queries to sum up at once."""
        rows = len(self.literals)
        if self._streams:
            return max(1, _CPU_ROWS // rows)
        return max(1, self.memory // (16 * rows * self.atoms.num_entities))

    @property
    def _streams(self) -> bool:
        """Whether blocks should stay in a cache: a GPU is faster with whole rows."""
        return self.atoms.device.type == "cpu" and self.atoms.blockwise

    def log_total(self, entities: Tensor, relations: Tensor, excluded: KnownTails) -> Tensor:
        """`log Σ φ(S)` over all entities but the excluded ones, `[Q]`; gradients reach the adapter."""
        heads = torch.cat([entities[:, literal.entity] for literal in self.literals])  # [A · Q]
        ids = torch.cat([relations[:, literal.relation] ^ int(literal.flip) for literal in self.literals])
        scale, shift = self.adapted.adapter(heads, ids)  # [A · Q, 1] each
        totals: Tensor = _Totals.apply(scale, shift, self, heads, ids, excluded)  # type: ignore[no-untyped-call]
        return totals.clamp(min=torch.finfo(totals.dtype).tiny).log()

    def sums(self, scale: Tensor, shift: Tensor, heads: Tensor, ids: Tensor, excluded: KnownTails) -> _Sums:
        """`Z` and its derivatives by scale and by shift."""
        n = self.atoms.num_entities
        width = _CPU_WIDTH if self._streams else n
        sums = _Sums(self, scale, shift)
        known, odds = self.atoms.known(heads, ids), self.adapted.on_odds
        fixed = known.in_blocks(width, n) if known else repeat(None)
        blocks = self.atoms.products(heads, ids, width, None if odds else scale)
        for block, left_out, places in zip(blocks, excluded.in_blocks(width, n), fixed, strict=False):
            x = self.adapted.adaptable(block.scores, heads, ids).mul_(scale) if odds else block.scores
            sums.add(x.add_(shift), left_out, places)
        return sums.finished()


class _Totals(torch.autograd.Function):
    """`Z` with the gradient that came with it."""

    @staticmethod
    def forward(
        ctx: Any, scale: Tensor, shift: Tensor, of: StreamedTotals, heads: Tensor, ids: Tensor, excluded: KnownTails
    ) -> Tensor:
        sums = of.sums(scale, shift, heads, ids, excluded)
        ctx.save_for_backward(sums.by_scale, sums.by_shift)
        return sums.totals

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        by_scale, by_shift = ctx.saved_tensors
        return (grads[0] * by_scale).view(-1, 1), (grads[0] * by_shift).view(-1, 1), None, None, None, None


class _Sums:
    """The sums of some queries, growing block by block: `totals[Q]`, `by_scale` and `by_shift` `[A, Q]`."""

    def __init__(self, of: StreamedTotals, scale: Tensor, shift: Tensor) -> None:
        self.of, self.scale, self.shift = of, scale, shift
        self.totals = scale.new_zeros(len(scale) // len(of.literals))
        self.by_scale, self.by_shift = scale.new_zeros(2, len(of.literals), len(self.totals))
        self._rooms: dict[str, Tensor] = {}

    def add(self, y: Tensor, excluded: Places, known: Places | None) -> None:
        """Add what a block `y[A · Q, n]` brings; excluded entities do not count, known atoms are fixed."""
        c = torch.sigmoid(y, out=self._room("c", y))
        if known is not None:
            c[known] = math.exp(self.of.atoms.observed)
        scores = c.chunk(len(self.of.literals))
        product = self._product(scores)
        outer = None
        if self.of.log_scores:  # φ(S) = S and φ'(S) = 1
            product[excluded] = 0.0
            self.totals += product.sum(1)
        else:  # φ(S) = φ'(S) = exp(S)
            outer = torch.exp(product, out=self._room("outer", product))
            outer[excluded] = 0.0
            self.totals += outer.sum(1)
            product.mul_(outer)
        for i, argument in enumerate(y.chunk(len(scores))):
            slope = self._slope(i, scores, product, outer)
            if self.of.logic.strength != 1.0:
                slope[excluded] = 0.0
            if known is not None:
                here = known[0] // len(slope) == i
                slope[known[0][here] % len(slope), known[1][here]] = 0.0
            self.by_shift[i] += slope.sum(1)
            self.by_scale[i] += slope.mul_(argument).sum(1)

    def finished(self) -> _Sums:
        """The same with derivatives by scale, where those by scale times `y = scale · x + shift` were gathered."""
        shape = self.by_scale.shape
        self.by_scale = (self.by_scale - self.shift.view(shape) * self.by_shift) / self.scale.view(shape)
        return self

    def _product(self, scores: Sequence[Tensor]) -> Tensor:
        """The product of all literals, `[Q, n]`."""
        room = self._room("product", scores[0])
        product = scores[0]
        if self.of.literals[0].negated or len(scores) == 1:
            product = room.copy_(self._value(0, scores))
        for i, (literal, score) in enumerate(zip(self.of.literals[1:], scores[1:], strict=True), start=1):
            if literal.negated and self.of.logic.strength == 1.0:
                product = torch.addcmul(product, product, score, value=-1.0, out=room)
            else:
                product = torch.mul(product, self._value(i, scores), out=room)
        return product

    def _value(self, i: int, scores: Sequence[Tensor]) -> Tensor:
        """The value of a literal, `[Q, n]`."""
        if not self.of.literals[i].negated:
            return scores[i]
        return (
            torch.mul(scores[i], -self.of.logic.strength, out=self._room("value", scores[i])).add_(1.0).clamp_(min=0.0)
        )

    def _slope(self, i: int, scores: Sequence[Tensor], weighted: Tensor, outer: Tensor | None) -> Tensor:
        """`φ'(S) ∂S/∂y` of a literal, `[Q, n]`; `weighted` is `φ'(S) · S`."""
        slope, score, strength = self._room("slope", weighted), scores[i], self.of.logic.strength
        if not self.of.literals[i].negated:  # ∂c/∂y = c (1 - c)
            return torch.addcmul(weighted, weighted, score, value=-1.0, out=slope)
        if strength == 1.0:  # ∂(1 - c)/∂y = -c (1 - c)
            return torch.mul(weighted, score, out=slope).neg_()
        # ∂(1 - kc)/∂y = -k c (1 - c) where kc < 1
        torch.addcmul(score, score, score, value=-1.0, out=slope).mul_(-strength).mul_(score * strength < 1.0)
        for j in range(len(scores)):
            if j != i:
                slope.mul_(self._value(j, scores))
        return slope if outer is None else slope.mul_(outer)

    def _room(self, name: str, like: Tensor) -> Tensor:
        """Memory for a result: fresh memory costs more to touch than most results to compute."""
        room = self._rooms.get(name)
        if room is None or room.shape != like.shape:
            room = self._rooms[name] = torch.empty_like(like, memory_format=torch.contiguous_format)
        return room
