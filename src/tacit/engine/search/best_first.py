"""Best-first search: bounds on every value of a plan, tightened where they decide which answers are best.

A hop is `out[t] = max_s source[s] ⊤ edge(s, t)`, and no edge is worth more than a supremum. Followed from the best
candidates alone, it gives lower bounds; the best candidate that is left, ⊤ the supremum, bounds all that they miss. So
the best answers are often proven after a handful of candidates. What is proven has the scores of exact search.

Candidates are followed in the order in which a beam keeps them, and only where their values are exact: those that were
followed are the first ones of the beam. A search that proves nothing in time follows the rest of them, and has found
what the beam finds, for the price of the beam.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from tacit.distributed.ties import best
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.logic import ZERO
from tacit.engine.search.best_answers import BestAnswers, Wanted, loose, unsettled
from tacit.engine.search.exact_and_beam import checked
from tacit.engine.search.floors import floors
from tacit.engine.search.following import Following
from tacit.query.plans.fold import Fold, Place
from tacit.query.plans.plan import Best, Complement, Condition, Everything, Node, Project, Step, children, conjuncts
from tacit.query.plans.traits import Search, negates_hops, settled, source_of

_FIRST = 8  # candidates followed at first: a table that is read for one row costs hardly more for eight
_STAGE = 32  # of all entities, as many are tried in a cycle at first, and more when its floor has risen
_FEW = 2**20  # scores of rows that take no longer than some looks at bounds
_PACE = 3  # times as many as were followed come next


@dataclass(eq=False)
class BestFirst(Following):
    """A search that follows, of B queries, what stands in the way of a proof."""

    def results(self, root: Node, wanted: Sequence[Wanted]) -> Iterator[tuple[list[int], BestFirst]]:
        """Follow candidates until the answers wanted of each query are proven, or as many were followed as may be.

        The places of queries that are done, and the search of these alone, as soon as there are some.
        """
        search, places = self, list(range(self.size))
        if self.budget is None and _hardly_proven(root, self.atoms, self.k):
            self._complete(root, wanted)
            yield places, self
            return
        while places:
            asked = [wanted[place] for place in places]
            wishes = search._wishes(root, asked)
            hopeless = search._hopeless(root, asked, [q for q, hops in wishes.items() if hops])
            proven = [q for q, hops in wishes.items() if hops is None]
            stuck = [q for q, hops in wishes.items() if hops == set() or q in hopeless]
            for group in filter(None, (proven, stuck)):
                part = search._only(group)
                if group is stuck:
                    part._complete(root, [asked[q] for q in group])
                yield [places[q] for q in group], part
            going = {q: hops for q, hops in wishes.items() if hops and q not in hopeless}
            search, places = search._only(list(going)), [places[q] for q in going]
            search._follow_all(list(going.values()))

    def reach(self, root: Node, answer: int) -> None:
        """Follow candidates until they lead to an answer that may be known without them, for a single query."""
        tightening, place = _Tightening(self, 0), Place(target=answer)
        while bool(unsettled(*self.answers(root)[:, answer])) and (hops := tightening.of(root, place)):
            self._follow_all([hops])

    def listed(self, root: Node, wanted: Sequence[Wanted]) -> list[BestAnswers]:
        """The best answers to each query, certified where they are settled."""
        lower, upper = checked(self.answers(root), self.atoms.shards).cpu().chunk(2)
        given = zip(wanted, self.followed().whole(root).cpu(), lower, upper, strict=True)
        listed = [each.proven_or_beam(*values) for each, *values in given]
        return [replace(each, rows=count) for each, count in zip(listed, self.rows, strict=True)]

    @property
    def rows(self) -> list[int]:
        """How many candidates were followed for each query."""
        return [sum(hop.counts[q] for hop in self.hops.values()) for q in range(self.size)]

    def _wishes(self, root: Node, wanted: Sequence[Wanted]) -> dict[int, set[Search] | None]:
        """What to follow for each query: None where its answers are proven, nothing where that cannot be done."""
        wishes: dict[int, set[Search] | None] = {}
        self.floors = floors(root, wanted, self)
        for q, entity in enumerate(self._in_the_way(root, wanted)):
            tightening = _Tightening(self, q)
            anywhere = filter(None, map(tightening.next, self.hops))
            wishes[q] = None if entity is None else tightening.of(root, Place(target=entity)) or next(anywhere, set())
        return wishes

    def _hopeless(self, root: Node, wanted: Sequence[Wanted], queries: list[int]) -> list[int]:
        """Those of some queries that would not be proven if far more candidates than may be led to nothing better."""
        tried = [q for q in queries if all(hop.counts[q] for hop in self.hops.values())]
        if not tried:
            return []
        part = self._only(tried)
        kept, part.values, part.foreseeing = part.values, {}, True
        entities = part._in_the_way(root, [wanted[q] for q in tried])
        part.values, part.foreseeing = kept, False
        return [q for q, entity in zip(tried, entities, strict=True) if entity is not None]

    def _in_the_way(self, root: Node, wanted: Sequence[Wanted]) -> list[int | None]:
        """For each query the entity that must be known better before its answers are proven."""
        entities = []
        for each, lower, upper in zip(wanted, *self.answers(root).chunk(2), strict=True):
            lower, upper = each.lifted(lower), each.lifted(upper)
            entities.append(each.in_the_way(lower, upper, each.order(lower)))
        return entities

    def _follow_all(self, wishes: Sequence[set[Search]]) -> None:
        """Follow the next candidates of what is wished for each query, those whose values are settled."""
        for step, hop in self.hops.items():
            queries = [q for q, wished in enumerate(wishes) if step in wished]
            if not queries:
                continue
            rows = torch.tensor(queries, device=self.atoms.device)
            sizes = [min(max(_FIRST, _PACE * hop.counts[q]), self._leave(step, q)) for q in queries]
            source = self._sources(step)
            upper = source[self.size + rows].masked_fill_(hop.followed[rows], ZERO)
            values, ids = best(upper, max(sizes))
            lower = source[rows[:, None], ids]
            ready = (~unsettled(lower, values) & (values > ZERO)).cumprod(dim=1).sum(dim=1)
            taken = torch.minimum(ready, torch.tensor(sizes, device=ready.device))
            self._expand(step, rows, ids, [lower], taken)
        self.values.clear()

    def _complete(self, root: Node, wanted: Sequence[Wanted]) -> None:
        """Follow all that a beam keeps, from the inside out, for every query.

        Candidates that are not exact are followed by the beam's values alone: to follow their bounds, too, takes half
        as long again and proves hardly more. What they may be worth beyond these counts as left.
        """
        self.whole(root)
        rows = torch.arange(self.size, device=self.atoms.device)
        for step in _from_inside(root):
            if step not in self.hops:
                continue
            hop, source = self.hops[step], source_of(step)
            (lower, upper), plain = self.whole(source).chunk(2), self.followed().whole(source)
            values, ids = best(plain, self._kept(step))
            useful = (values > ZERO) | (isinstance(step, Condition) and not step.bounded)
            fresh = useful & ~hop.followed.gather(1, ids)
            worth, staged = fresh.float().log(), step in self.floors and isinstance(source, Everything)
            if staged and isinstance(step, Condition):  # the best first, since floors rise by them
                worth += self._foresee(step).gather(1, ids)
            worth, order = worth.sort(dim=1, descending=True, stable=True)
            tables = [plain] if hop.at_once or settled(source) else [plain, lower, upper]
            ids, left, size = ids.gather(1, order), (worth != ZERO).sum(dim=1), _STAGE if staged else ids.shape[1]
            while bool((left > 0).any()):
                few, ids = ids.tensor_split([size], dim=1)
                self._expand(step, rows, few, [table.gather(1, few) for table in tables], left.clamp(0, size))
                left, worth, size = left - size, worth[:, size:], _PACE * size
                self.values.clear()
                if self.floors:
                    self.floors = floors(root, wanted, self)
                if staged:  # what is left cannot lead to answers where it is below
                    least = self.floors[step].least
                    self.missed = torch.maximum(self.missed, least)
                    left = torch.minimum(left, (~(worth < least[:, None])).sum(dim=1))
            if hop.at_once and isinstance(step, Project):
                hop.followed &= ~unsettled(plain, upper)
            self.values.clear()


@dataclass(frozen=True, eq=False)
class _Tightening(Fold[int, set[Search]]):
    """Values the steps of a query by what to follow to bring their bounds closer together, if anything does."""

    search: BestFirst
    query: int

    def next(self, step: Search) -> set[Search]:
        """The step, where its best candidate that is left can be followed; what to follow before, where that helps."""
        value, candidate = self.search.hops[step].ahead[self.query]
        if value == ZERO or not self.search._leave(step, self.query):
            return set()
        lower = float(self.search._sources(step)[self.query, candidate])
        return self.of(source_of(step), Place(target=candidate)) if loose(lower, value) else {step}

    def entity(self, slot: int) -> int:
        return int(self.search.entities[self.query, slot])

    def project(self, step: Search, place: Place[int]) -> set[Search]:
        if step not in self.search.hops:  # but valued by a beam
            return set()
        bounds = self.search.whole(step)[[self.query, self.search.size + self.query], place.end]
        return self.next(step) if loose(*bounds.tolist()) else set()

    condition = project

    def best(self, step: Best, place: Place[int]) -> set[Search]:
        entity = int(self.search.whole(step.part)[self.search.size + self.query].argmax())
        return self.of(step.part, Place(target=entity))

    def relation(self, step: Step, place: Place[int]) -> set[Search]:
        return set()

    everything = relation

    def all(self, parts: Sequence[set[Search]], place: Place[int]) -> set[Search]:
        return set[Search]().union(*parts)

    any = all

    def negation(self, step: Complement[Step], part: set[Search], place: Place[int]) -> set[Search]:
        return part


def _hardly_proven(root: Node, atoms: Atoms, k: int | None) -> bool:
    """Whether all that a beam keeps are to be followed at once, since the best candidates rule few answers out.

    That is where answers are a hop and a negation together and predictions come close to what is known; and where the
    hop is negated and what a beam keeps are so few scores that to look at bounds in between would take as long.
    """
    if settled(root) or not any(isinstance(part, Complement) for part in conjuncts(root)):
        return False
    few = (k or atoms.num_entities) * atoms.num_entities <= _FEW
    return atoms.calibration.pointwise or (few and negates_hops(root))


def _from_inside(step: Step) -> Iterator[Step]:
    """All steps inside a step and then itself."""
    for inner in children(step):
        yield from _from_inside(inner)
    yield step
