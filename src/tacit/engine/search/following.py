"""How far the steps of a plan were followed, and between which bounds that leaves their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.distributed.ties import best
from tacit.engine.logic import ZERO
from tacit.engine.search.exact_and_beam import Scores
from tacit.engine.search.floors import Floor, ceilings, supremum
from tacit.engine.search.hop import Hop
from tacit.query.plans.fold import EVERYWHERE, Place
from tacit.query.plans.plan import Condition, Everything, Node, Project, Relation, Step, anchored
from tacit.query.plans.traits import Search, beamed, negates_hops, settled, source_of

_FAR = 2  # times the candidates that may be followed: where so many would not do, none is followed to prove it
_COPIES = {1: (0, 0, 0), 2: (0, 0, 1), 3: (0, 1, 2)}  # of what was reached: for the beam, lower and upper bounds


@dataclass(eq=False)
class Frontier:
    """How far a step was followed for each query: what was reached, from which candidates."""

    reached: Tensor  # [2B, N]: from lower and from upper bounds of the candidates
    beam: Tensor  # [B, N]: from the values that a beam gives them
    followed: Tensor  # [B, N]: whether an entity was
    counts: list[int]  # [B]: how many were
    ahead: list[tuple[float, int]] = field(default_factory=list)  # [B]: the best candidate that is left

    def only(self, rows: Tensor, both: Tensor) -> Frontier:
        """The same for some of the queries."""
        reached, counts = self.reached[both], [self.counts[i] for i in rows.tolist()]
        beam = reached[: len(rows)] if self.at_once else self.beam[rows]
        return Frontier(reached, beam, self.followed[rows], counts)

    @property
    def at_once(self) -> bool:
        """Whether what a beam reaches is the lower bound, in the same memory."""
        return self.beam.data_ptr() == self.reached.data_ptr()


@dataclass(eq=False)
class Followed(Scores):
    """The values of a query by the candidates that were followed, which may be more than a beam keeps.

    Cycles, and what is inside edges, were valued by a beam `alone`, whatever was followed around them.
    """

    alone: Scores = field(kw_only=True)
    followed: dict[Search, Tensor] = field(default_factory=dict)  # [1, N]

    def candidates(self, step: Search) -> tuple[Tensor, Tensor]:
        """What a beam keeps, all of which was followed unless less was enough, and what was followed beside it."""
        values, ids = super().candidates(step)
        followed = self.followed.get(step)
        if followed is None or not bool(followed.any()):
            return values, ids
        if isinstance(step, Project):  # whose frontier keeps no account of candidates that are not exact
            followed = followed.scatter(1, ids, True)
        ids = followed.nonzero()[None, :, 1]
        return self.whole(source_of(step)).gather(1, ids), ids

    def copied(self, rows: Tensor, times: int) -> Scores:
        """The query `times` over as a beam values it."""
        return replace(self.alone, floor=self.floor).copied(rows, times)


@dataclass(eq=False)
class Following(Scores):
    """Bounds on the values of the steps of a plan for B queries: first the lower ones of all, then the upper ones.

    In a hop at most `k` candidates are followed; with a `budget` as many in all hops together, and no fewer than a beam
    keeps. Edges with hops inside, and cycles that deny such, are valued by a beam, with its bounds.
    """

    bounds: bool = True
    budget: int | None = None
    hops: dict[Search, Frontier] = field(default_factory=dict)
    floors: dict[Step, Floor] = field(default_factory=dict)  # of cycles: what is worth less matters to no list

    def __post_init__(self) -> None:
        size = self.size
        given = self.atoms, self.logic, self.entities[:size], self.relations[:size], self.k, self.memory
        self.alone = Scores(*given)  # the queries as a beam values them
        self.plain = Followed(*given, keep=True, alone=self.alone)  # and by what was followed
        self.beam = Scores(*given[:2], self.entities, self.relations, *given[4:], bounds=True)
        self.foreseeing = False  # bound steps as if far more candidates than may be led to nothing better
        self.missed = torch.full((size,), ZERO, device=self.atoms.device)  # [B]: answers below it may be worth so much
        self.exact: dict[Step, Tensor] = {}  # values of steps without hops, as lower and as upper bounds

    @property
    def size(self) -> int:
        """How many queries there are, B."""
        return self.batch // 2

    def answers(self, root: Node) -> Tensor:
        """The bounds of answers, `[2B, N]`, with what they may be worth by what floors have let fall."""
        lower, upper = self.whole(root).chunk(2)
        return torch.cat([lower, torch.maximum(upper, self.missed[:, None])])

    def followed(self) -> Followed:
        """The queries as a beam values them that kept the candidates which were followed."""
        for step in [step for step in self.plain.values if not settled(step)]:
            del self.plain.values[step]
        self.plain.values |= {step: hop.beam for step, hop in self.hops.items()}
        self.plain.followed = {step: hop.followed for step, hop in self.hops.items()}
        lower = ((step, bounds[: self.size]) for step, bounds in self.beam.values.items() if not negates_hops(step))
        self.alone.values |= lower  # which are the beam's where nothing swaps them
        self.plain.values |= {step: self.alone.remembered(step) for step in self.values if beamed(step)}
        return self.plain

    def of(self, step: Step, place: Place[Tensor] = EVERYWHERE) -> Tensor:
        """The bounds of a step; what no hop is part of is valued once."""
        if place.source is not None or place.target is not None:
            return super().of(step, place)
        if settled(step):
            if step not in self.exact:
                self.exact[step] = self.plain.remembered(step).repeat(2, 1)
            return self.exact[step]
        if step not in self.values:
            self.values[step] = super().of(step, place)
        return self.values[step]

    def project(self, step: Project, place: Place[Tensor]) -> Tensor:
        if beamed(step):
            return self.beam.remembered(step)
        return self._reached(step, lambda left: self.logic.conjunction(left, supremum(self, step.edge)))

    def condition(self, step: Condition, place: Place[Tensor]) -> Tensor:
        if beamed(step):
            return self.beam.remembered(step)
        return self._reached(step, lambda left: left if step.bounded else torch.zeros_like(left))

    def _reached(self, step: Search, bound: Callable[[Tensor], Tensor]) -> Tensor:
        """The bounds of a step by how far it was followed."""
        if step not in self.hops:
            nobody = torch.zeros(self.size, self.atoms.num_entities, dtype=torch.bool, device=self.atoms.device)
            reached = self._zeros()
            beam = reached.clone()[: self.size] if negates_hops(source_of(step)) else reached[: self.size]
            self.hops[step] = Frontier(reached, beam, nobody, [0] * self.size)
        hop = self.hops[step]
        upper = self._sources(step)[self.size :].masked_fill(hop.followed, ZERO)
        if self.foreseeing:
            passed = [min(_FAR * self._leave(step, q), upper.shape[1]) for q in range(self.size)]
            falling = F.pad(upper, (0, 1), value=ZERO).topk(max(passed) + 1).values
            left = falling.gather(1, torch.tensor(passed, device=upper.device)[:, None])  # [B, 1]
        else:
            left, ids = best(upper, 1)
            hop.ahead = list(zip(left[:, 0].tolist(), ids[:, 0].tolist(), strict=True))
        bounds = bound(left)
        if isinstance(step, Condition) and not step.bounded:
            everyone = torch.tensor(hop.counts, device=left.device)[:, None] == self.atoms.num_entities
            bounds = bounds.masked_fill(everyone, ZERO)
        lower, upper = hop.reached.chunk(2)
        return torch.cat([lower, torch.maximum(upper, bounds)])

    def _sources(self, step: Search) -> Tensor:
        """What each candidate of a step is worth, and so the step with it at most, `[2B, N]`."""
        if not isinstance(step, Condition) or not isinstance(step.candidates, Everything):
            return self.whole(source_of(step))
        if step not in self.exact:
            self.exact[step] = ceilings(self.plain, step).repeat(2, 1)
        return self.exact[step]

    def _foresee(self, step: Condition) -> Tensor:
        """What an answer can be worth at most with each value of a variable that nothing narrows, `[B, N]`."""
        rows = torch.arange(self.size, device=self.atoms.device)
        queries, everyone = self._queries(rows), torch.arange(self.atoms.num_entities, device=rows.device)
        queries.room = self.floors[step].room
        worth = queries.potential(step, everyone.expand(self.size, -1))
        self.exact[step] = torch.minimum(self._sources(step), worth.repeat(2, 1))  # which bounds answers, not the cycle
        return worth

    def _kept(self, step: Search) -> int:
        """How many candidates a beam keeps in a step."""
        return self.k if self.k is not None and anchored(source_of(step)) else self.atoms.num_entities

    def _leave(self, step: Search, q: int) -> int:
        """How many candidates more may be followed in a step."""
        kept, count = self._kept(step), self.hops[step].counts[q]
        if self.budget is None:
            return kept - count
        spent = sum(hop.counts[q] for hop in self.hops.values())
        return max(0, min(self.budget - spent, max(kept, self.budget) - count))

    def _expand(self, step: Search, rows: Tensor, ids: Tensor, values: Sequence[Tensor], taken: Tensor) -> None:
        """Follow the first so many candidates of some queries, by values for the beam and both bounds, or by one."""
        chosen = taken.nonzero()[:, 0]
        if not len(chosen):
            return
        rows, ids, taken, values = rows[chosen], ids[chosen], taken[chosen], [table[chosen] for table in values]
        hop, copies, places = self.hops[step], len(values), torch.arange(int(taken.max()), device=ids.device)
        again = torch.where(places < taken[:, None], places, 0)  # what is not to be followed gives way to the first
        ids = ids.gather(1, again)
        reached = torch.full((copies * len(rows), self.atoms.width), ZERO, device=ids.device)
        weights = torch.cat([table.gather(1, again) for table in values])
        if isinstance(step, Condition):
            reached = self._bodies(step, rows, ids)
        elif isinstance(step.edge, Relation):
            relations = (self.relations[rows, step.edge.slot] ^ int(step.edge.flip)).repeat(copies)
            Hop(self.atoms, self.logic, None, self.memory).from_some(weights, ids.repeat(copies, 1), relations, reached)
        else:
            self._queries(rows).along(step.edge, ids, weights, reached)
        copied = reached.view(-1, len(rows), self.atoms.width)
        beam, lower, upper = (copied[i] for i in _COPIES[len(copied)])
        outs = [(hop.reached, rows, lower), (hop.reached, rows + self.size, upper)]
        for out, at, new in outs if hop.at_once else [*outs, (hop.beam, rows, beam)]:
            out[at] = torch.maximum(out[at], new)
        hop.followed[rows[:, None], ids] = True
        for q, count in zip(rows.tolist(), taken.tolist(), strict=True):
            hop.counts[q] += count

    def _bodies(self, step: Condition, rows: Tensor, ids: Tensor) -> Tensor:
        """What a cycle's body is worth at best with each of some candidates: exactly, or between bounds."""
        floor, copies = self.floors.get(step), 1 if settled(step.body) else 2
        queries = self._queries(rows, copies > 1)
        if floor is not None and bool((floor.least[rows] > ZERO).any()):
            self.missed[rows] = torch.maximum(self.missed[rows], floor.least[rows])
            queries.floor, queries.room = floor.least[rows].repeat(copies), floor.room[rows].repeat(copies, 1)
        return queries.bodies(step, ids.repeat(copies, 1))

    def _queries(self, rows: Tensor, bounded: bool = False) -> Scores:
        """Some of the queries as a beam values them, or twice for its bounds."""
        outer, within = (self.beam, torch.cat([rows, rows + self.size])) if bounded else (self.plain, rows)
        return Scores(
            self.atoms, self.logic, self.entities[within], self.relations[within], self.k, self.memory,
            bounded, outer=outer, outer_rows=within,
        )  # fmt: skip

    def _only(self, queries: list[int]) -> Self:
        """The search of some of the queries, as far as it has come."""
        if len(queries) == self.size:
            return self
        rows = torch.tensor(queries, dtype=torch.long, device=self.atoms.device)
        both = torch.cat([rows, rows + self.size])
        part = type(self)(
            self.atoms, self.logic, self.entities[both], self.relations[both], self.k, self.memory,
            budget=self.budget, hops={step: hop.only(rows, both) for step, hop in self.hops.items()},
        )  # fmt: skip
        part.plain.values = {step: value[rows] for step, value in self.plain.values.items() if settled(step)}
        part.alone.values = {step: value[rows] for step, value in self.alone.values.items()}
        part.floors = {step: floor[rows] for step, floor in self.floors.items()}
        part.beam.values, part.exact = ({s: v[both] for s, v in t.items()} for t in (self.beam.values, self.exact))
        part.missed = self.missed[rows]
        return part
