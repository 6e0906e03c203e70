"""Best-first search: bounds on every value of a plan, tightened where they decide which answers are best.

A hop is `out[t] = max_s source[s] ⊤ edge(s, t)`, and no edge is worth more than a supremum. Followed from the best
candidates alone, it gives lower bounds; the best candidate that is left, ⊤ the supremum, bounds all that they miss. So
the best answers are often proven after a handful of candidates. What is proven has the scores of exact search.

Candidates are followed in the order in which a beam keeps them, and only where their values are exact: those that were
followed are the first ones of the beam. A search that proves nothing in time follows the rest of them, and has found
what the beam finds, for the price of the beam.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.distributed.ties import best
from tacit.engine.atoms import Atoms
from tacit.engine.floors import ceilings, floors, supremum
from tacit.engine.followed import Followed
from tacit.engine.found import Found, Wanted, unsettled
from tacit.engine.frontier import (
    Frontier,
    Search,
    beamed,
    from_inside,
    hardly_proven,
    loose,
    negates_hops,
    settled,
    source_of,
)
from tacit.engine.logic import Logic
from tacit.engine.projection import ZERO, Hop
from tacit.engine.scores import Scores, checked
from tacit.query.fold import EVERYWHERE, Place
from tacit.query.plan import (
    At,
    Best,
    Complement,
    Condition,
    Everything,
    Intersect,
    Node,
    Project,
    Relation,
    Row,
    Source,
    Step,
    Target,
    Union,
    anchored,
)

_FIRST = 8  # candidates followed at first: a table that is read for one row costs hardly more for eight
_FAR = 2  # where even so many times the candidates that may be followed would not do, none is followed to prove it
_STAGE = 32  # of all entities, as many are tried in a cycle at first, and more when its floor has risen
_PACES = (3, 12)  # how many times as many are followed next as were, if these promise to be enough


@dataclass(eq=False)
class BestFirst(Scores):
    """Bounds on the values of the steps of a plan for B queries: first the lower ones of all, then the upper ones.

    In a hop at most `k` candidates are followed; with a `budget` as many in all hops together, and no fewer than a beam
    keeps. Edges with hops inside, and cycles that deny such, are valued by a beam, with its bounds.
    """

    budget: int | None = None
    hops: dict[Search, Frontier] = field(default_factory=dict)
    floors: dict[Step, Tensor] = field(default_factory=dict)  # [B] of cycles: what is worth less matters to no list

    @classmethod
    def of_queries(
        cls,
        atoms: Atoms,
        logic: Logic,
        entities: Tensor,
        relations: Tensor,
        k: int | None,
        memory: int,
        budget: int | None = None,
    ) -> BestFirst:
        """The search for the answers of queries, `[B, E]` and `[B, R]`, before its first step."""
        twice = entities.repeat(2, 1), relations.repeat(2, 1)
        return cls(atoms, logic, *twice, k, memory, bounds=True, budget=budget)

    def __post_init__(self) -> None:
        size = self.size
        given = self.atoms, self.logic, self.entities[:size], self.relations[:size], self.k, self.memory
        self.alone = Scores(*given)  # the queries as a beam values them
        self.plain = Followed(*given, keep=True, alone=self.alone)  # and by what was followed
        self.beam = Scores(*given[:2], self.entities, self.relations, *given[4:], bounds=True)
        self.passed: tuple[int, int] | None = None  # candidates thought away: times those followed, times those left
        self.exact: dict[Step, Tensor] = {}  # values of steps without hops, as lower and as upper bounds

    @property
    def size(self) -> int:
        """How many queries there are, B."""
        return self.batch // 2

    def results(self, root: Node, wanted: Sequence[Wanted]) -> Iterator[tuple[list[int], BestFirst]]:
        """Follow candidates until the answers wanted of each query are proven, or as many were followed as may be.

        The places of queries that are done, and the search of these alone, as soon as there are some.
        """
        search, places = self, list(range(self.size))
        if self.budget is None and hardly_proven(root, self.atoms, self.k):
            self._complete(root, wanted)
            yield places, self
            return
        while places:
            asked = [wanted[place] for place in places]
            wishes = search._wishes(root, asked)
            paces = search._paces(root, asked, [q for q, hops in wishes.items() if hops])
            proven = [q for q, hops in wishes.items() if hops is None]
            stuck = [q for q, hops in wishes.items() if hops is not None and not paces.get(q)]
            for group in filter(None, (proven, stuck)):
                part = search._only(group)
                if group is stuck:
                    part._complete(root, [asked[q] for q in group])
                yield [places[q] for q in group], part
            going = [q for q in paces if paces[q]]
            search, places = search._only(going), [places[q] for q in going]
            search._follow_all([wishes[q] or set() for q in going], [paces[q] for q in going])

    def reach(self, root: Node, answer: int) -> None:
        """Follow candidates until they lead to an answer that may be known without them, for a single query."""
        while bool(unsettled(*self.whole(root)[:, answer])) and (hops := self._tightening(root, 0, answer)):
            self._follow_all([hops], [_PACES[0]])

    def listed(self, root: Node, wanted: Sequence[Wanted]) -> list[Found]:
        """The best answers to each query, certified where they are settled."""
        lower, upper = checked(self.whole(root), self.atoms.shards).cpu().chunk(2)
        rows = [sum(hop.counts[q] for hop in self.hops.values()) for q in range(self.size)]
        given = zip(wanted, self.followed().whole(root).cpu(), lower, upper, strict=True)
        found = [each.proven_or_beam(*values) for each, *values in given]
        return [replace(each, rows=count) for each, count in zip(found, rows, strict=True)]

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
            self.hops[step] = Frontier(reached, beam, nobody, [0] * self.size, reached.new_full((self.size,), ZERO))
        hop = self.hops[step]
        upper = self._sources(step)[self.size :].masked_fill(hop.followed, ZERO)
        if self.passed is None:
            left, ids = best(upper, 1)  # [B, 1]
            hop.ahead = list(zip(left[:, 0].tolist(), ids[:, 0].tolist(), strict=True))
        else:
            pace, times = self.passed
            passed = [min(times * self._leave(step, q), pace * count) for q, count in enumerate(hop.counts)]
            most = min(max(passed), upper.shape[1])
            upper = upper if most < upper.shape[1] else F.pad(upper, (0, 1), value=ZERO)
            places = torch.tensor(passed, device=upper.device).clamp(max=most)
            left = upper.topk(most + 1).values.gather(1, places[:, None])
        bounds = bound(left)
        if isinstance(step, Condition) and not step.bounded:
            everyone = torch.tensor(hop.counts, device=left.device)[:, None] == self.atoms.num_entities
            bounds = bounds.masked_fill(everyone, ZERO)
        lower, upper = hop.reached.chunk(2)
        return torch.cat([lower, torch.maximum(upper, torch.maximum(bounds, hop.floor[:, None]))])

    def _sources(self, step: Search) -> Tensor:
        """What each candidate of a step is worth, and so the step with it at most, `[2B, N]`."""
        if not isinstance(step, Condition) or not isinstance(step.candidates, Everything):
            return self.whole(source_of(step))
        if step not in self.exact:
            self.exact[step] = ceilings(self.plain, step).repeat(2, 1)
        return self.exact[step]

    def _wishes(self, root: Node, wanted: Sequence[Wanted]) -> dict[int, set[Search] | None]:
        """What to follow for each query: None where its answers are proven, nothing where that cannot be done."""
        wishes: dict[int, set[Search] | None] = {}
        self.floors = floors(root, wanted, self.whole(root)[: self.size])
        for q, entity in enumerate(self._in_the_way(root, wanted)):
            anywhere = (hops for step in self.hops if (hops := self._next(step, q)))
            wishes[q] = None if entity is None else self._tightening(root, q, entity) or next(anywhere, set())
        return wishes

    def _paces(self, root: Node, wanted: Sequence[Wanted], queries: list[int]) -> dict[int, int]:
        """How many times as many candidates to follow next as were, for some queries; 0 where all would hardly do.

        What is to come is foreseen as if nothing better would be reached by it.
        """
        paces, everyone = dict.fromkeys(queries, _PACES[0]), self.atoms.num_entities
        tried = [q for q in queries if all(hop.counts[q] for hop in self.hops.values())]
        for pace, times, otherwise in ((everyone, _FAR, 0), (everyone, 1, _PACES[0]), (_PACES[1], 1, everyone)):
            sure = self._foreseen(root, wanted, tried, pace, times) if tried else []
            paces |= dict.fromkeys(tried, otherwise) | dict.fromkeys(sure, pace)
            tried = sure
        sure = self._foreseen(root, wanted, tried, _PACES[0], 1) if tried else []
        return paces | dict.fromkeys(sure, _PACES[0])

    def _foreseen(self, root: Node, wanted: Sequence[Wanted], queries: list[int], pace: int, times: int) -> list[int]:
        """The queries whose answers would be proven if so many more candidates led to nothing better."""
        part = self._only(queries)
        kept, part.values, part.passed = part.values, {}, (pace, times)
        entities = part._in_the_way(root, [wanted[q] for q in queries])
        part.values, part.passed = kept, None
        return [query for query, entity in zip(queries, entities, strict=True) if entity is None]

    def _in_the_way(self, root: Node, wanted: Sequence[Wanted]) -> list[int | None]:
        """For each query the entity that must be known better before its answers are proven."""
        entities = []
        for each, lower, upper in zip(wanted, *self.whole(root).chunk(2), strict=True):
            lower, upper = each.lifted(lower), each.lifted(upper)
            entities.append(each.in_the_way(lower, upper, each.order(lower)))
        return entities

    def _tightening(self, step: Step, q: int, entity: int, source: int = -1) -> set[Search]:
        """What to follow to bring the bounds of a step closer together at an entity; nothing where it cannot be."""
        match step:
            case Project() | Condition() if step in self.hops:
                lower, upper = self.whole(step)[[q, self.size + q], entity].tolist()
                return self._next(step, q) if loose(lower, upper) else set()
            case Intersect(parts) | Union(parts):
                return set[Search]().union(*(self._tightening(part, q, entity, source) for part in parts))
            case Complement(part) | Target(part):
                return self._tightening(part, q, entity, source)
            case Source(part):
                return self._tightening(part, q, source)
            case Row(slot, edge):
                return self._tightening(edge, q, entity, int(self.entities[q, slot]))
            case At(part, slot):
                return self._tightening(part, q, int(self.entities[q, slot]))
            case Best(_, part):
                return self._tightening(part, q, int(self.whole(part)[self.size + q].argmax()))
        return set()

    def _next(self, step: Search, q: int) -> set[Search]:
        """The step, where its best candidate that is left can be followed; what to follow before, where that helps."""
        value, candidate = self.hops[step].ahead[q]
        if value == ZERO or not self._leave(step, q):
            return set()
        lower = float(self._sources(step)[q, candidate])
        return self._tightening(source_of(step), q, candidate) if loose(lower, value) else {step}

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

    def _follow_all(self, wishes: Sequence[set[Search]], paces: Sequence[int]) -> None:
        """Follow the next candidates of what is wished for each query, those whose values are settled."""
        for step, hop in self.hops.items():
            queries = [q for q, wished in enumerate(wishes) if step in wished]
            if not queries:
                continue
            rows = torch.tensor(queries, device=self.atoms.device)
            most = _PACES[0] if step in self.floors else self.atoms.num_entities  # each time floors rise
            sizes = [min(max(_FIRST, min(paces[q], most) * hop.counts[q]), self._leave(step, q)) for q in queries]
            source = self._sources(step)
            upper = source[self.size + rows].masked_fill_(hop.followed[rows], ZERO)
            values, ids = best(upper, max(sizes))
            lower = source[rows[:, None], ids]
            ready = (~unsettled(lower, values) & (values > ZERO)).cumprod(dim=1).sum(dim=1)
            taken = torch.minimum(ready, torch.tensor(sizes, device=ready.device))
            self._expand(step, rows, ids, [lower], taken)
        self.values.clear()

    def _expand(self, step: Search, rows: Tensor, ids: Tensor, values: Sequence[Tensor], taken: Tensor) -> None:
        """Follow the first so many candidates of some queries, by values for the beam and both bounds, or by one."""
        some = taken.nonzero()[:, 0]
        if not len(some):
            return
        rows, ids, taken, values = rows[some], ids[some], taken[some], [table[some] for table in values]
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
        hop, least, copies = self.hops[step], self.floors.get(step), 1 if settled(step.body) else 2
        queries = self._queries(rows, copies > 1)
        if least is not None and bool((least[rows] > ZERO).any()):
            hop.floor[rows] = torch.maximum(hop.floor[rows], least[rows])
            queries.floor = least[rows].repeat(copies)
        return queries.bodies(step, ids.repeat(copies, 1))

    def _queries(self, rows: Tensor, bounded: bool = False) -> Scores:
        """Some of the queries as a beam values them, or twice for its bounds."""
        outer, within = (self.beam, torch.cat([rows, rows + self.size])) if bounded else (self.plain, rows)
        return Scores(
            self.atoms, self.logic, self.entities[within], self.relations[within], self.k, self.memory,
            bounded, outer=outer, outer_rows=within,
        )  # fmt: skip

    def _complete(self, root: Node, wanted: Sequence[Wanted]) -> None:
        """Follow all that a beam keeps, from the inside out, for every query.

        Candidates that are not exact are followed by the beam's values alone: to follow their bounds, too, takes half
        as long again and proves hardly more. What they may be worth beyond these counts as left.
        """
        self.whole(root)
        rows = torch.arange(self.size, device=self.atoms.device)
        for step in from_inside(root):
            if step not in self.hops:
                continue
            hop, source = self.hops[step], source_of(step)
            (lower, upper), plain = self.whole(source).chunk(2), self.followed().whole(source)
            values, ids = best(plain, self._kept(step))
            useful = (values > ZERO) | (isinstance(step, Condition) and not step.bounded)
            fresh = useful & ~hop.followed.gather(1, ids)
            ids = ids.gather(1, (~fresh).long().argsort(dim=1, stable=True))
            tables = [plain] if hop.at_once or settled(source) else [plain, lower, upper]
            left, size = fresh.sum(dim=1), ids.shape[1] if step not in self.floors or anchored(source) else _STAGE
            while bool((left > 0).any()):
                few, ids = ids.tensor_split([size], dim=1)
                self._expand(step, rows, few, [table.gather(1, few) for table in tables], left.clamp(0, size))
                left, size = left - size, _PACES[0] * size
                self.values.clear()
                if self.floors:
                    self.floors = floors(root, wanted, self.whole(root)[: self.size])
            if hop.at_once and isinstance(step, Project):
                hop.followed &= ~unsettled(plain, upper)
            self.values.clear()

    def _only(self, queries: list[int]) -> BestFirst:
        """The search of some of the queries, as far as it has come."""
        if len(queries) == self.size:
            return self
        rows = torch.tensor(queries, dtype=torch.long, device=self.atoms.device)
        both = torch.cat([rows, rows + self.size])
        part = BestFirst(
            self.atoms, self.logic, self.entities[both], self.relations[both], self.k, self.memory,
            bounds=True, budget=self.budget, hops={step: hop.only(rows, both) for step, hop in self.hops.items()},
        )  # fmt: skip
        part.plain.values = {step: value[rows] for step, value in self.plain.values.items() if settled(step)}
        part.alone.values, part.floors = ({s: v[rows] for s, v in t.items()} for t in (self.alone.values, self.floors))
        part.beam.values, part.exact = ({s: v[both] for s, v in t.items()} for t in (self.beam.values, self.exact))
        return part


_COPIES = {1: (0, 0, 0), 2: (0, 0, 1), 3: (0, 1, 2)}  # of what was reached: for the beam, lower and upper bounds
