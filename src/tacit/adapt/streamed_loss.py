"""The streamed loss of intersections of atoms and negated atoms, without stored scores.

The adapted score of an atom is `c = σ(y)` with `y = scale · x + shift`, where `x` is constant. A
query's score at one entity is the product `S` of its literals, `c` or `1 - min(1, strength · c)`.
All that a 1-vs-all loss and its gradient need are sums over entities: `Z = Σ φ(S)` and, for each
literal, `∂Z/∂shift = Σ φ'(S) ∂S/∂y` and the same with a factor `x` for `∂Z/∂scale`. They are
gathered block by block of entities, in buffers that stay in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.adapt import sum_kernels
from tacit.adapt.calibrated import Adapted
from tacit.adapt.shared_rows import ComputedRows, SharedRows
from tacit.adapt.training_queries import Batch, Conjunctions, literals
from tacit.distributed.threads import spread
from tacit.engine.atoms.known_facts import KnownTails
from tacit.engine.logic import LOG2_E
from tacit.engine.search.message_reasoner import MessageReasoner
from tacit.links.scorer import ScratchBuffers

# `Z` [Q], and its derivatives by the scale and the shift of each literal [A, Q]
Summed = tuple[Tensor, Tensor, Tensor]
_CPU_BYTES = 3 * 2**20  # size of a block of numbers that stays in cache
_BUFFERS = 8  # blocks that there are at once, at most


def streamed(reasoner: MessageReasoner, log_scores: bool) -> StreamedTotals | None:
    """Create streamed totals, or return None if the adapter or the logic do not allow it."""
    logic = reasoner.logic
    adapted = reasoner.atoms.calibration
    if (logic.norm, logic.negation_name) != ("product", "standard"):
        return None
    if not isinstance(adapted, Adapted) or not adapted.adapter.by_row:
        return None
    if not (adapted.capabilities.sigmoidal or adapted.by_odds):
        return None
    return StreamedTotals(reasoner, adapted, log_scores)


class StreamedTotals:
    """Sums over all entities for queries that intersect literals, of several shapes."""

    def __init__(self, reasoner: MessageReasoner, adapted: Adapted, log_scores: bool) -> None:
        self.atoms = atoms = reasoner.atoms
        self.adapted = adapted
        self.logic = reasoner.logic
        self.log_scores = log_scores  # φ(S) = S instead of exp(S)
        computed = atoms.capabilities.blockwise and atoms.device.type == "cpu"
        self.rows = (
            ComputedRows(atoms, adapted)
            if computed
            else SharedRows(atoms, adapted, reasoner.memory // 2)
        )
        self.block = reasoner.memory // (4 * _BUFFERS)  # bytes
        self.buffers = ScratchBuffers()

    def parts(self, batches: Iterable[Batch]) -> Iterator[list[Batch]]:
        """Split the queries into parts whose rows fit in the table."""
        part = list[Batch]()
        room = self.rows.capacity
        for batch in batches:
            size = len(literals(batch.queries.shape.plan) or ())
            for piece in batch.parts(max(1, self.rows.capacity // size)):
                if part and room < size * len(piece):
                    yield part
                    part = []
                    room = self.rows.capacity
                part.append(piece)
                room -= size * len(piece)
        if part:
            yield part

    def __call__(self, batches: Sequence[Batch], masked: bool) -> tuple[Tensor, Tensor]:
        """`log S` at the targets and `log Σ φ(S)` over the entities not excluded, `[Q]` each.

        Gradients reach the adapter.
        """
        r = self.atoms.scorer.num_relations
        device = self.atoms.device
        conjunctions = [Conjunctions(batch, masked, self.atoms) for batch in batches]
        sizes = [len(queries.keys) for queries in conjunctions]
        keys, which = np.unique(
            np.concatenate([queries.keys for queries in conjunctions]), return_inverse=True
        )
        heads, ids = (torch.from_numpy(column).to(device) for column in np.divmod(keys, r))
        places = self.rows.places(keys)
        scale, shift = self.adapted.adapter(heads, ids)  # [D, 1] each
        parts = list(
            zip(conjunctions, torch.from_numpy(which).to(device).split(sizes), strict=True)
        )
        with torch.no_grad():
            sums = self._sums(parts, places, scale, shift)
        scores = []
        totals = []
        for (queries, rows), (total, by_scale, by_shift) in zip(parts, sums, strict=True):
            targets = queries.targets.to(device).repeat(queries.shape[0])
            x, alpha, beta = (
                values.view(queries.shape)  # [A, Q]
                for values in (self.rows.at(places[rows], targets), scale[rows], shift[rows])
            )
            atoms = F.logsigmoid(torch.addcmul(beta, x, alpha))
            scores.append(queries.combine(atoms, self.logic))
            # differences that are zero, and have a gradient
            gradients = by_scale * (alpha - alpha.detach()) + by_shift * (beta - beta.detach())
            totals.append((total + gradients.sum(0)).clamp(min=torch.finfo(scale.dtype).tiny).log())
        return torch.cat(scores), torch.cat(totals)

    def _sums(
        self,
        parts: Sequence[tuple[Conjunctions, Tensor]],
        places: Tensor,
        scale: Tensor,
        shift: Tensor,
    ) -> list[Summed]:
        """`Z` and its derivatives for all queries."""
        n = self.atoms.num_entities
        device = places.device
        if sum_kernels.available(device, max(queries.shape[0] for queries, _ in parts)):
            return [
                self._kernel_sums(
                    queries, *(each[rows].view(queries.shape) for each in (places, scale, shift))
                )
                for queries, rows in parts
            ]
        block = _CPU_BYTES if self.rows.on_cpu else self.block  # a GPU is faster with large ones
        # rows start at cache lines
        width = max(64, block // (256 * max(len(places), *(len(rows) for _, rows in parts))) * 64)
        blocks = [slice(start, min(start + width, n)) for start in range(0, n, width)]
        summed = [Sums(self, queries, rows, width, len(blocks)) for queries, rows in parts]

        def add(number: int) -> None:
            shape = len(places), blocks[number].stop - blocks[number].start
            x = self.rows.block(places, blocks[number], self.buffers("x", shape, device))
            c = torch.mul(x, scale, out=self.buffers("c", shape, device)).add_(shift).sigmoid_()
            for sums in summed:
                sums.add(number, x, c)

        spread(add, range(len(blocks)), alone=not self.rows.on_cpu)
        return [sums.total() for sums in summed]

    def _kernel_sums(
        self, batch: Conjunctions, places: Tensor, scale: Tensor, shift: Tensor
    ) -> Summed:
        """`Z` and its derivatives, by a kernel that gets known and excluded entities as marks."""
        queries = batch.shape[1]
        n = self.atoms.num_entities
        marks = torch.zeros(queries, n, dtype=torch.uint8, device=places.device)
        if batch.known is not None:
            row, tail = batch.known
            marks.view(-1).scatter_add_(
                0, row % queries * n + tail, (1 << row // queries).to(torch.uint8)
            )
        marks[batch.excluded.rows, batch.excluded.tails] = sum_kernels.LEFT_OUT
        return sum_kernels.sums(
            self.rows.table,
            places,
            scale,
            shift,
            marks,
            batch.positive,
            self.logic.strength,
            math.exp(batch.observed),
            self.log_scores,
        )


class Sums:
    """The sums of some queries per block: of `φ(S)`, and of its slopes by `y`.

    The slopes are summed plain and times `x`.
    """

    def __init__(
        self, parent: StreamedTotals, queries: Conjunctions, rows: Tensor, width: int, blocks: int
    ) -> None:
        self.parent = parent
        self.positive = queries.positive
        self.rows = rows
        self.strength = parent.logic.strength
        self.observed = math.exp(queries.observed)
        n = parent.atoms.num_entities
        self._totals = torch.zeros(blocks, queries.shape[1], device=rows.device)
        self._slopes = torch.zeros(blocks, *queries.shape, device=rows.device)
        self._sloped = torch.zeros_like(self._slopes)

        self._excluded = queries.excluded.in_blocks(width, n)
        self._known = (
            None if queries.known is None else KnownTails(*queries.known).in_blocks(width, n)
        )

    def add(self, block: int, x: Tensor, c: Tensor) -> None:
        """Add the rows of a block; excluded entities do not count, and known atoms are constant."""
        x = self._of_literals("expanded x", x)
        c = self._of_literals("expanded c", c)
        if self._known is not None:
            c[self._known[block]] = self.observed
        literals = c.view(*self._slopes.shape[1:], -1)  # [A, Q, n]
        product, values = self._product(literals)
        if self.parent.log_scores:  # φ(S) = S and φ'(S) = 1
            product[self._excluded[block]] = 0.0
            self._totals[block] = product.sum(1)
        else:  # φ(S) = φ'(S) = exp(S)
            outer = torch.mul(product, LOG2_E, out=self._buffer("outer", product)).exp2_()
            outer[self._excluded[block]] = 0.0
            self._totals[block] = outer.sum(1)
            product.mul_(outer)
        slopes = self._literal_slopes(literals, product, values)
        if self._known is not None:
            c[self._known[block]] = 0.0
        self._slopes[block] = slopes.sum(2)
        self._sloped[block] = slopes.mul_(x.view_as(slopes)).sum(2)

    def total(self) -> Summed:
        """The sums over all blocks."""
        by_shift = self._slopes.sum(0)
        by_scale = self._sloped.sum(0)
        for slopes in (by_shift, by_scale):
            slopes[self.positive :].neg_()
        return self._totals.sum(0), by_scale, by_shift

    def _product(self, literals: Tensor) -> tuple[Tensor, Tensor]:
        """The product `S` of all literals, `[Q, n]`, and the values of the negated ones."""
        out = self._buffer("product", literals[0])
        negated = literals[self.positive :]
        product = literals[0] if self.positive else out.fill_(1.0)
        if len(literals) == self.positive == 1:
            product = out.copy_(product)
        for score in literals[1 : self.positive]:
            product = torch.mul(product, score, out=out)
        if self.strength == 1.0:
            for score in negated:
                product = torch.addcmul(product, product, score, value=-1.0, out=out)
            return product, negated
        values = self._buffer("values", negated)
        torch.mul(negated, -self.strength, out=values).add_(1.0).clamp_(min=0.0)
        for value in values:
            product = torch.mul(product, value, out=out)
        return product, values

    def _literal_slopes(self, literals: Tensor, weighted: Tensor, values: Tensor) -> Tensor:
        """`φ'(S) ∂S/∂y` of each literal, in the memory of the scores.

        The sign is reversed for negated literals. `weighted` is `φ'(S) · S`.
        """
        positive = literals[: self.positive]
        negated = literals[self.positive :]
        torch.addcmul(weighted, weighted, positive, value=-1.0, out=positive)  # ∂c/∂y = c (1 - c)
        if self.strength == 1.0:  # ∂(1 - c)/∂y = -c (1 - c)
            negated.mul_(weighted)
        else:  # ∂(1 - kc)/∂y = -k c (1 - c) where kc < 1; elsewhere literal and weight are 0
            torch.addcmul(negated, negated, negated, value=-1.0, out=negated).mul_(weighted)
            negated.mul_(self.strength).div_(values.clamp_(min=torch.finfo(values.dtype).tiny))
        return literals

    def _of_literals(self, name: str, distinct: Tensor) -> Tensor:
        """The rows of all literals, from the distinct ones."""
        out = self.parent.buffers(name, (len(self.rows), distinct.shape[1]), distinct.device)
        return torch.index_select(distinct, 0, self.rows, out=out)

    def _buffer(self, name: str, like: Tensor) -> Tensor:
        return self.parent.buffers(name, like.shape, like.device)
