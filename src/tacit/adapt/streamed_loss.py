"""The loss of intersections of atoms and their negations, streamed: no row of scores is ever kept.

The adapted score of an atom is `c = σ(y)` with `y = scale · x + shift`, where `x` is constant. A query's score at one
entity is the product `S` of its literals, `c` or `1 - min(1, strength · c)`. All that a 1-vs-all loss and its gradient
need are sums over entities: `Z = Σ φ(S)` and, for each literal, `∂Z/∂shift = Σ φ'(S) ∂S/∂y` and the same with a factor
`x` for `∂Z/∂scale`. They are gathered block by block of entities, in buffers that stay in the cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.adapt.calibrated import Adapted
from tacit.adapt.shared_rows import SharedRows
from tacit.distributed.threads import spread
from tacit.engine.atoms import Atoms
from tacit.engine.known_tails import KnownTails
from tacit.engine.logic import LOG2_E, Logic
from tacit.links.rooms import Rooms
from tacit.query.plan import Complement, Intersect, Plan, Relation, Row

Places = tuple[Tensor, Tensor]  # rows and columns
_CPU_ROWS = 768  # rows of products computed at a time
_CPU_BYTES = 3 * 2**20  # size of a block of numbers that stays in cache


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
    if not (adapted.sigmoidal or adapted.on_odds) or logic.norm != "product" or logic.negation_name != "standard":
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
        room = self.memory // (4 * self.atoms.num_entities)  # whole rows
        if self._on_cpu:
            return max(1, (_CPU_ROWS if self.atoms.blockwise else min(_CPU_ROWS, room)) // len(self.literals))
        return max(1, room // (4 * len(self.literals)))

    @property
    def _on_cpu(self) -> bool:
        """Whether blocks should stay in a cache: a GPU is faster with whole rows."""
        return self.atoms.device.type == "cpu"

    def __call__(
        self, entities: Tensor, relations: Tensor, targets: Tensor, excluded: KnownTails
    ) -> tuple[Tensor, Tensor]:
        """`log S` at the targets, and `log Σ φ(S)` over all entities but the excluded ones, `[Q]` each.

        Gradients reach the adapter.
        """
        heads = torch.cat([entities[:, literal.entity] for literal in self.literals])  # [A · Q]
        ids = torch.cat([relations[:, literal.relation] ^ int(literal.flip) for literal in self.literals])
        scale, shift = self.adapted.adapter(heads, ids)  # [A · Q, 1] each
        rows = SharedRows(self.atoms, self.adapted, heads, ids)
        totals: Tensor = _Totals.apply(scale, shift, self, rows, excluded)  # type: ignore[no-untyped-call]
        tails = targets.repeat(len(self.literals))
        scores = F.logsigmoid(torch.addcmul(shift[:, 0], rows.at(tails), scale[:, 0]))
        if self.atoms.facts is not None:
            scores = torch.where(self.atoms.facts.contains(heads, ids, tails), self.atoms.observed, scores)
        values = [
            self.logic.negation(score) if literal.negated else score
            for literal, score in zip(self.literals, scores.chunk(len(self.literals)), strict=True)
        ]
        return self.logic.all(values), totals.clamp(min=torch.finfo(totals.dtype).tiny).log()

    def sums(self, scale: Tensor, shift: Tensor, rows: SharedRows, excluded: KnownTails) -> tuple[Tensor, ...]:
        """`Z` and its derivatives by scale and by shift."""
        n = self.atoms.num_entities
        width = max(64, _CPU_BYTES // (256 * len(rows.heads)) * 64) if self._on_cpu else n  # rows start at cache lines
        blocks = [slice(start, min(start + width, n)) for start in range(0, n, width)]
        left_out, known = excluded.in_blocks(width, n), self.atoms.known(rows.heads, rows.ids)
        fixed = known.in_blocks(width, n) if known else [None] * len(blocks)
        sums = _Sums(self, len(rows.heads), len(blocks), scale)
        rows.adapt(scale, shift)

        def add(number: int) -> None:
            sums.add(number, *rows.block(blocks[number]), left_out[number], fixed[number])

        spread(add, range(len(blocks)))
        return sums.finished(scale, shift)


class _Totals(torch.autograd.Function):
    """`Z` with the gradient that came with it."""

    @staticmethod
    def forward(
        ctx: Any, scale: Tensor, shift: Tensor, of: StreamedTotals, rows: SharedRows, excluded: KnownTails
    ) -> Tensor:
        totals, by_scale, by_shift = of.sums(scale, shift, rows, excluded)
        ctx.save_for_backward(by_scale, by_shift)
        return totals

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        by_scale, by_shift = ctx.saved_tensors
        return (grads[0] * by_scale).view(-1, 1), (grads[0] * by_shift).view(-1, 1), None, None, None


class _Sums:
    """The sums of some queries in every block: of `φ(S)`, and of its slopes by `y` as they are and times `y`."""

    def __init__(self, of: StreamedTotals, rows: int, blocks: int, like: Tensor) -> None:
        self.of, self.strength = of, of.logic.strength
        self.positive = sum(not literal.negated for literal in of.literals)
        shape = len(of.literals), rows // len(of.literals)  # [A, Q]
        self.totals = like.new_zeros(blocks, shape[1])
        self.slopes, self.sloped = like.new_zeros(2, blocks, *shape)
        self._rooms = Rooms()

    def add(self, block: int, y: Tensor, c: Tensor, excluded: Places, known: Places | None) -> None:
        """Take what a block `[A · Q, n]` brings; excluded entities do not count, known atoms are fixed."""
        if known is not None:
            c[known] = math.exp(self.of.atoms.observed)
        literals = c.view(*self.slopes.shape[1:], -1)  # [A, Q, n]
        product, values = self._product(literals)
        if self.of.log_scores:  # φ(S) = S and φ'(S) = 1
            product[excluded] = 0.0
            self.totals[block] = product.sum(1)
        else:  # φ(S) = φ'(S) = exp(S)
            outer = torch.mul(product, LOG2_E, out=self._room("outer", product)).exp2_()
            outer[excluded] = 0.0
            self.totals[block] = outer.sum(1)
            product.mul_(outer)
        slopes = self._slopes(literals, product, values)
        if known is not None:
            c[known] = 0.0
        self.slopes[block] = slopes.sum(2)
        self.sloped[block] = slopes.mul_(y.view_as(slopes)).sum(2)

    def finished(self, scale: Tensor, shift: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`Z[Q]` and its derivatives by scale and by shift, `[A, Q]` each."""
        by_shift, sloped = self.slopes.sum(0), self.sloped.sum(0)
        for sums in (by_shift, sloped):
            sums[self.positive :].neg_()
        by_scale = (sloped - shift.view_as(sloped) * by_shift) / scale.view_as(sloped)  # y = scale · x + shift
        return self.totals.sum(0), by_scale, by_shift

    def _product(self, literals: Tensor) -> tuple[Tensor, Tensor]:
        """`S`, the product of all literals, `[Q, n]`, and the values of the negated ones, unless the strength is 1."""
        room, negated = self._room("product", literals[0]), literals[self.positive :]
        product = literals[0] if self.positive else room.fill_(1.0)
        if len(literals) == self.positive == 1:
            product = room.copy_(product)
        for score in literals[1 : self.positive]:
            product = torch.mul(product, score, out=room)
        if self.strength == 1.0:
            for score in negated:
                product = torch.addcmul(product, product, score, value=-1.0, out=room)
            return product, negated
        values = self._room("values", negated.flatten(0, 1)).view_as(negated)
        torch.mul(negated, -self.strength, out=values).add_(1.0).clamp_(min=0.0)
        for value in values:
            product = torch.mul(product, value, out=room)
        return product, values

    def _slopes(self, literals: Tensor, weighted: Tensor, values: Tensor) -> Tensor:
        """`φ'(S) ∂S/∂y` of each literal, those of negated ones with the sign turned, in the memory of the scores.

        `weighted` is `φ'(S) · S`.
        """
        positive, negated = literals[: self.positive], literals[self.positive :]
        torch.addcmul(weighted, weighted, positive, value=-1.0, out=positive)  # ∂c/∂y = c (1 - c)
        if self.strength == 1.0:  # ∂(1 - c)/∂y = -c (1 - c)
            negated.mul_(weighted)
        else:  # ∂(1 - kc)/∂y = -k c (1 - c) where kc < 1; elsewhere the literal is 0, and so is what is weighted
            torch.addcmul(negated, negated, negated, value=-1.0, out=negated).mul_(weighted)
            negated.mul_(self.strength).div_(values.clamp_(min=torch.finfo(values.dtype).tiny))
        return literals

    def _room(self, name: str, like: Tensor) -> Tensor:
        return self._rooms(name, like.shape, like.device)
