"""Exact and beam search: the algebra of plans over fuzzy sets, one value per query and entity."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tacit.distributed.shards import Shards
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.logic import ZERO, Logic
from tacit.engine.search.hop import Hop
from tacit.engine.search.sharded import at, largest, own, whole
from tacit.engine.search.spared import Alike, alike, undominated
from tacit.errors import RunError
from tacit.query.plans.fold import EVERYWHERE, Fold, Place
from tacit.query.plans.plan import (
    At,
    Best,
    Complement,
    Condition,
    Edge,
    Everything,
    Loop,
    Node,
    Project,
    Relation,
    Row,
    Source,
    Step,
    anchored,
    children,
    conjuncts,
    ends_of,
    reads,
)
from tacit.query.plans.traits import Search, drops, negates_hops, of_sets, settled, source_of

_CACHED = 2**18  # floats whose combination stays in cache


@dataclass(eq=False)
class Scores(Fold[Tensor, Tensor]):
    """Values the steps of a plan for a batch of queries: `[B, N]` log-scores, or `[B, 1]` where one value is for all.

    `k` candidates are kept for every bound variable; `None` keeps all, which is exact. With `bounds` the batch holds
    every query twice, first for a lower and then for an upper bound of the exact value: what the beam drops can only
    raise the upper one, and a complement swaps the two.
    """

    atoms: Atoms
    logic: Logic
    entities: Tensor  # [B, E]
    relations: Tensor  # [B, R]
    k: int | None
    memory: int  # bytes a step may use
    bounds: bool = False
    copies: int = 1  # with bounds, rows are `copies` times (lower bounds, upper bounds)
    outer: Scores | None = None
    outer_rows: Tensor | None = None  # [B]: the row of `outer` that each row belongs to
    values: dict[Step, Tensor] = field(default_factory=dict)
    keep: bool = False  # remember the value of every set, as explanations need
    floor: Tensor | None = None  # [B]: values of hops and cycles that are lower may be less than they are
    room: Tensor | None = None  # [B, N]: what answers can be worth at most, whatever a cycle is
    repeats: bool = False  # whether rows differ in the values of variables alone, which most steps do not read

    @property
    def batch(self) -> int:
        """How many rows there are, B."""
        return len(self.relations)

    def of(self, step: Step, place: Place[Tensor] = EVERYWHERE) -> Tensor:
        """The value of a step; sets that the queries around share are valued once, for them."""
        if place.source is not None:
            return super().of(step, place)
        if place.target is not None:
            there = step in self.values or (self.repeats and self._shared(step))
            by_set = there or isinstance(step, Project | Condition)
            return self._at(step, place.target) if by_set else super().of(step, place)
        if step in self.values:
            return self.values[step]
        if self.outer is not None and self.outer_rows is not None and self._shared(step):
            return self.outer.remembered(step)[self.outer_rows]
        those = self._alike(step) if self.repeats and not self.keep else None
        value = super().of(step, place) if those is None else self._once(those, step).of(step)[those.back]
        if self.keep:
            self.values[step] = value
        return value

    def remembered(self, step: Step) -> Tensor:
        """The fuzzy set of a step, valued once."""
        if step not in self.values:
            self.values[step] = self.of(step)
        return self.values[step]

    def whole(self, step: Step) -> Tensor:
        """The fuzzy set of a step with a value for every entity, `[B, N]`, where it may be one for all."""
        return self.of(step).expand(self.batch, self.atoms.width)

    def value(self, step: Step, entities: Tensor) -> Tensor:
        """The value of a set at one entity a row, `[B]`."""
        return self._at(step, entities)[:, 0]

    def _at(self, step: Step, entities: Tensor) -> Tensor:
        if step not in self.values and self.outer is not None and self.outer_rows is not None and self._shared(step):
            self.outer.remembered(step)
            return at(self.atoms.shards, self.outer.whole(step), self.outer_rows, entities)[:, None]
        rows = torch.arange(self.batch, device=entities.device)
        return at(self.atoms.shards, self.whole(step), rows, entities)[:, None]

    def _shared(self, step: Step) -> bool:
        """Whether a step reads no entity slot that the outer queries do not have."""
        return self.outer is not None and max(reads(step)[0], default=-1) < self.outer.entities.shape[1]

    def _alike(self, step: Step, *more: Tensor) -> Alike | None:
        """One row of those that share all slots that a step reads, and more ids `[B]`; None where most differ."""
        slots, along = reads(step)
        ids = [*(self.entities[:, slot] for slot in slots), *(self.relations[:, slot] for slot in along), *more]
        rows = torch.arange(self.batch, device=self.relations.device)[None]
        if self.bounds and drops(step):  # otherwise a lower and an upper bound are one
            rows = rows.view(self.copies, 2, -1).transpose(0, 1).reshape(2, -1)
        return alike(ids, rows)

    def _once(self, those: Alike, step: Step) -> Scores:
        """One row for all that are alike in what a step reads, with the lowest of their floors."""
        rows, outer_rows, floor = those.rows, self.outer_rows, self.floor
        if floor is not None:
            floor = floor.new_full((len(rows),), math.inf).scatter_reduce_(0, those.back, floor, "amin")
        return replace(
            self, entities=self.entities[rows], relations=self.relations[rows], copies=1, values={}, floor=floor,
            bounds=self.bounds and drops(step), room=None, outer_rows=None if outer_rows is None else outer_rows[rows],
        )  # fmt: skip

    def entity(self, slot: int) -> Tensor:
        return self.entities[:, slot]

    def relation(self, step: Relation, place: Place[Tensor]) -> Tensor:
        source, relations = place.start, self.relations[:, step.slot] ^ int(step.flip)
        if place.target is None:
            return self._rows(source, relations)
        return self.atoms.of(source, relations, place.target)[:, None]

    def _rows(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Rows of atoms; of bounds from the same entities, once for both."""
        if self.bounds:
            (lower, upper), along = heads.view(self.copies, 2, -1).unbind(1), relations.view(self.copies, 2, -1)[:, 0]
            if torch.equal(lower, upper):
                rows = self.atoms.rows(lower.reshape(-1), along.reshape(-1)).view(self.copies, 1, lower.shape[1], -1)
                return rows.expand(-1, 2, -1, -1).reshape(len(heads), -1)
        return self.atoms.rows(heads, relations)

    def loop(self, step: Loop, place: Place[Tensor]) -> Tensor:
        if place.target is not None:
            return super().loop(step, place)
        everyone = torch.arange(self.atoms.num_entities, device=self.atoms.device)
        distinct, inverse = torch.unique(self.relations[:, step.relation], return_inverse=True)
        rows = [self.atoms.of(everyone, r.expand(len(everyone)), everyone) for r in distinct]
        return own(self.atoms.shards, torch.stack(rows)[inverse])

    def project(self, step: Project, place: Place[Tensor]) -> Tensor:
        source, hop, edge = self._floored(self.whole(step.source)), self.hop(step.source), step.edge
        if isinstance(edge, Relation):
            return hop.over(source, self.relations[:, edge.slot] ^ int(edge.flip))
        values, candidates, dropped = hop.candidates(source)
        if self.bounds and negates_hops(edge):
            candidates = self._paired(candidates)
            values = whole(self.atoms.shards, source).gather(1, candidates)
        out = self._zeros()
        self.along(edge, candidates, values, out)
        return hop.raise_bounds(out, dropped)

    def along(self, edge: Edge, candidates: Tensor, weights: Tensor, out: Tensor) -> None:
        """Raise `out[C · B, N]` by a compound edge from candidates `[B, P]`, for copies with weights `[C · B, P]`."""
        candidates, weights = self._undominated(edge, candidates, weights)
        for few in torch.arange(candidates.shape[1], device=out.device).split(self._at_once(edge)):
            rows = torch.arange(self.batch, device=out.device)
            if not self.bounds:  # which stay together
                rows = rows[~(weights[:, few] == ZERO).all(dim=1).view(-1, self.batch).all(dim=0)]
            if not len(rows):
                continue
            sources, inner = candidates[rows][:, few].t().reshape(-1), self.copied(rows.repeat(len(few)), len(few))
            those = inner._alike(edge, sources)
            if those is None:
                edges = inner.of(edge, Place(sources))  # [P · B, N]
            else:
                edges = inner._once(those, edge).of(edge, Place(sources[those.rows]))[those.back]
            edges = edges.view(len(few), len(rows), -1)
            for start in range(0, len(out), self.batch):
                part = rows + start
                through = self.logic.conjunction(weights[part][:, few].t()[:, :, None], edges).amax(dim=0)
                out[part] = torch.maximum(out[part], through)

    def _undominated(self, edge: Edge, candidates: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The candidates `[B, P]`, and their weights, that others do not outdo wherever an edge of sets alone leads."""
        plain = self.atoms.shards.world == 1 and not self.atoms.differentiable
        if not of_sets(edge) or not plain or len(weights) > self.batch:
            return candidates, weights
        sets = [self.remembered(end.part) for end in set(ends_of(edge)) if isinstance(end, Source)]
        features = [weights, *(each.expand(self.batch, self.atoms.width).gather(1, candidates) for each in sets)]
        kept = undominated([each for each in features if not bool((each == each[:, :1]).all())] or features[:1])
        if kept is None:
            return candidates, weights
        again = (kept == kept[:, :1]) & (torch.arange(kept.shape[1], device=kept.device) > 0)
        return candidates.gather(1, kept), weights.gather(1, kept).masked_fill(again, ZERO)

    def condition(self, step: Condition, place: Place[Tensor]) -> Tensor:
        hop = self.hop(step.candidates)
        self.remembered(step.candidates)
        _, candidates, dropped = hop.candidates(self.whole(step.candidates))
        paired = self.bounds and negates_hops(step.body)
        out = self.bodies(step, self._paired(candidates) if paired else candidates)
        if dropped is not None and not step.bounded:
            dropped = torch.zeros_like(dropped)  # it may be worth anything
        return hop.raise_bounds(out, dropped)

    def _paired(self, candidates: Tensor) -> Tensor:
        """For both bounds the candidates of either, `[B, K] -> [B, 2K]`: a negation swaps what comes of them."""
        lower, upper = candidates.view(self.copies, 2, -1, candidates.shape[1]).unbind(1)
        both = torch.cat([lower, upper], dim=-1)
        return torch.stack([both, both], dim=1).view(self.batch, -1)

    def bodies(self, step: Condition, candidates: Tensor) -> Tensor:
        """What a cycle's body is worth at best with one of some candidates `[B, P]` in its slot, `[B, N]`."""
        out, times = self._zeros(), self._at_once(step.body)
        if self.floor is not None:
            candidates = torch.cat([self.promising(step, few) for few in candidates.split(times, dim=1)], dim=1)
        for few in candidates.split(times, dim=1) if candidates.numel() else ():
            inner = self.repeated(few.shape[1], step.slot, few.t().reshape(-1))
            best = inner.whole(step.body).view(few.shape[1], self.batch, -1).amax(dim=0)
            out = torch.maximum(out, best)
        return out

    def promising(self, step: Condition, candidates: Tensor) -> Tensor:
        """Those of some candidates `[B, P]` with which a query may reach its floor, by the body's first rows."""
        for part, ends in sorted(_beginnings(step.body), key=lambda part: not part[1]):  # what tells more comes first
            if self.floor is not None and candidates.numel():
                best = self._at_most(step, candidates, [part], ends)
                useful = ~(best < self.floor)  # what is no number must not get lost
                candidates = candidates[:, useful.any(dim=1)]
        return candidates

    def potential(self, step: Condition, candidates: Tensor) -> Tensor:
        """What an answer can be worth at most with each of some candidates, `[B, P]`, by rows that end at it."""
        parts = [part for part, ends in _beginnings(step.body) if ends]
        few = candidates.split(self._at_once(step.body), dim=1)
        return torch.cat([self._at_most(step, chunk, parts, True) for chunk in few]).t()

    def _at_most(self, step: Condition, candidates: Tensor, parts: Sequence[Node], ends: bool) -> Tensor:
        """The highest value of some parts of a body with each candidate, `[P, B]`, and of what there is room for where
        they end at answers.
        """
        inner = self.repeated(candidates.shape[1], step.slot, candidates.t().reshape(-1))
        rooms = [] if self.room is None or not ends else [self.room.repeat(candidates.shape[1], 1)]
        best = by_rows(self.logic.all, [*rooms, *map(inner.of, parts)]).amax(dim=1, keepdim=True)
        return largest(self.atoms.shards, best).view(-1, self.batch)

    def _floored(self, values: Tensor) -> Tensor:
        """A set without what is below the floor."""
        return values if self.floor is None else values.masked_fill(values < self.floor[:, None], ZERO)

    def best(self, step: Best, place: Place[Tensor]) -> Tensor:
        return largest(self.atoms.shards, self.whole(step.part).amax(dim=1, keepdim=True))

    def everything(self, step: Everything, place: Place[Tensor]) -> Tensor:
        return torch.zeros(self.batch, 1, device=self.atoms.device)

    def all(self, parts: Sequence[Tensor], place: Place[Tensor]) -> Tensor:
        return by_rows(self.logic.all, parts)

    def any(self, parts: Sequence[Tensor], place: Place[Tensor]) -> Tensor:
        return by_rows(self.logic.any, parts)

    def negation(self, step: Complement[Step], part: Tensor, place: Place[Tensor]) -> Tensor:
        strength = self.atoms.strength(step, self.relations)
        value = by_rows(lambda parts: self.logic.negation(*parts), [part] if strength is None else [part, strength])
        if not self.bounds or settled(step):  # of bounds that differ, the lower becomes the upper
            return value
        return value.view(self.copies, 2, -1, value.shape[1]).flip(1).reshape(value.shape)

    def hop(self, source: Node) -> Hop:
        """How to leave a set: where nothing holds it together a beam has nothing to go by, and all of it is kept."""
        k = self.k if anchored(source) else None
        raised = None
        if self.bounds:
            halves = torch.tensor([False, True], device=self.relations.device)
            raised = halves.repeat_interleave(self.batch // (2 * self.copies)).repeat(self.copies)
        return Hop(self.atoms, self.logic, k, self.memory, raised)

    def candidates(self, step: Search) -> tuple[Tensor, Tensor]:
        """The candidates that are followed in a step: their values and ids, `[B, K]`."""
        values, ids, _ = self.hop(source_of(step)).candidates(self.whole(source_of(step)))
        return values, ids

    def repeated(self, times: int, slot: int | None = None, filling: Tensor | None = None) -> Scores:
        """These queries `times` over, copy by copy, with an entity slot more where given."""
        copies = self.copied(torch.arange(self.batch, device=self.relations.device).repeat(times), times)
        if slot is not None and filling is not None:
            gap = filling.new_zeros(len(filling), slot - self.entities.shape[1])
            copies.entities = torch.cat([copies.entities, gap, filling[:, None]], dim=1)
        return copies

    def copied(self, rows: Tensor, times: int) -> Scores:
        """Some of these queries, or all of them `times` over, which share what is remembered of them."""
        return replace(
            self, entities=self.entities[rows], relations=self.relations[rows], memory=self.memory // 2, values={},
            keep=False, copies=self.copies * times, outer=self, outer_rows=rows, repeats=True,
            floor=None if self.floor is None else self.floor[rows], room=None,
        )  # fmt: skip

    def first(self) -> Scores:
        """The first query alone, with all that is remembered of it."""
        values = {step: value[:1] for step, value in self.values.items()}
        entities, relations = self.entities[:1], self.relations[:1]
        return replace(self, entities=entities, relations=relations, bounds=False, values=values, keep=True)

    def _at_once(self, inner: Step) -> int:
        """How many candidates to try together, so that half of the memory holds all sets of an inner evaluation."""
        row = 4 * self.atoms.widest * self.batch
        return max(1, self.memory // (2 * row * (4 + _leaves(inner))))

    def _zeros(self) -> Tensor:
        return torch.full((self.batch, self.atoms.width), ZERO, device=self.atoms.device)


def checked(scores: Tensor, shards: Shards) -> Tensor:
    """The scores, unless some are not numbers: maxima and sums hand those on, so that none can hide."""
    if math.isnan(float(shards.sum(scores.sum()))):
        raise RunError("the link predictor gives scores that are not numbers; is the model damaged? train it again")
    return scores


def by_rows(combine: Callable[[Sequence[Tensor]], Tensor], parts: Sequence[Tensor]) -> Tensor:
    """Combine sets entity by entity; on a CPU a few rows at a time, so that what comes between stays in cache."""
    batch, n = len(parts[0]), max(part.shape[1] for part in parts)
    rows = max(1, _CACHED // n)
    if batch <= rows or parts[0].is_cuda or any(part.requires_grad for part in parts):
        return combine(parts)
    out = parts[0].new_empty(batch, n)
    for start in range(0, batch, rows):
        out[start : start + rows] = combine([part[start : start + rows] for part in parts])
    return out


def _beginnings(body: Node) -> Iterator[tuple[Node, bool]]:
    """The rows and single values that a conjunction, and the hops in it, are worth no more than; do they end where it
    does?
    """
    for part in conjuncts(body):
        first: Node = part
        while isinstance(first, Project):
            first = first.source
        if isinstance(first, Row | At) and settled(first):
            yield first, first is part


def _leaves(step: Step) -> int:
    """How many sets are combined in a step: as many may be held at once."""
    inside = [part for part in children(step) if not isinstance(part, Everything)]
    return sum(map(_leaves, inside)) if inside else 1
