"""Best-first search: bounds on every value of a plan, tightened where they decide which answers are best.

A hop is `out[t] = max_s source[s] ⊤ edge(s, t)`, and no edge is worth more than a supremum. Followed from the best
candidates alone, it gives lower bounds; the best candidate that is left, ⊤ the supremum, bounds all that they miss. So
the best answers are often proven after a handful of candidates. What is proven has the scores of exact search.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tacit.distributed.ties import best
from tacit.engine.atoms import Atoms
from tacit.engine.found import Found, Wanted, unsettled
from tacit.engine.logic import Logic
from tacit.engine.projection import ZERO, Hop
from tacit.engine.scores import Scores, checked
from tacit.query.fold import EVERYWHERE, Place
from tacit.query.plan import (
    At,
    Best,
    Complement,
    Condition,
    Edge,
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
    walk,
)

_FIRST = 4  # candidates followed at first; each time twice as many


@dataclass(eq=False)
class Frontier:
    """How far a hop was followed: what was reached, from which candidates."""

    reached: Tensor  # [2, N]: from lower and from upper bounds of the candidates
    followed: Tensor  # [N]: whether an entity was
    count: int = 0
    step: int = _FIRST


@dataclass(eq=False)
class BestFirst(Scores):
    """Bounds on the values of the steps of one query's plan: row 0 holds the lower ones, row 1 the upper ones.

    At most `k` candidates are followed in a hop. Cycles, and edges with hops inside, are valued by a beam, with its
    bounds.
    """

    hops: dict[Project, Frontier] = field(default_factory=dict)

    @classmethod
    def of_query(
        cls, atoms: Atoms, logic: Logic, entities: Tensor, relations: Tensor, k: int | None, memory: int
    ) -> BestFirst:
        """The search for the answers of a query, `[1, E]` and `[1, R]`, before its first step."""
        return cls(atoms, logic, entities.repeat(2, 1), relations.repeat(2, 1), k, memory, bounds=True)

    def __post_init__(self) -> None:
        given = self.atoms, self.logic, self.entities[:1], self.relations[:1], self.k, self.memory
        self.plain = Scores(*given)  # the query as the beam values it
        self.beam = Scores(*given[:2], self.entities, self.relations, *given[4:], bounds=True)

    def settle(self, root: Node, wanted: Wanted) -> None:
        """Follow candidates until the answers wanted are proven, or as many of them were followed as may be."""
        while True:
            lower, upper = map(wanted.lifted, self.whole(root))
            entity = wanted.in_the_way(lower, upper, wanted.order(lower))
            if entity is None or not (self.tighten(root, entity) or any(self._follow(hop) for hop in self.hops)):
                return

    def reach(self, root: Node, answer: int) -> None:
        """Follow candidates until they lead to an answer that may be known without them, as far as may be."""
        while bool(unsettled(*self.whole(root)[:, answer])) and self.tighten(root, answer):
            pass

    def found(self, root: Node, wanted: Wanted) -> Found:
        """The best answers as far as they are settled."""
        lower, upper = checked(self.whole(root), self.atoms.shards)
        listed = wanted.found(self.followed().whole(root)[0], bounds=(lower, upper))
        return Found(listed.ids, listed.scores, listed.certified, self.rows)

    def followed(self) -> Scores:
        """The query as a beam values it that kept the candidates which were followed."""
        self.plain.keep = True
        for step in [step for step in self.plain.values if not _settled(step)]:
            del self.plain.values[step]
        self.plain.values |= {step: hop.reached[:1] for step, hop in self.hops.items()}
        return self.plain

    @property
    def rows(self) -> int:
        """How many rows of edges were scored, all hops together."""
        return sum(hop.count for hop in self.hops.values())

    def of(self, step: Step, place: Place[Tensor] = EVERYWHERE) -> Tensor:
        """The bounds of a step; what no hop is part of is valued once."""
        if place.source is not None or place.target is not None:
            return super().of(step, place)
        if step not in self.values:
            self.values[step] = self.plain.remembered(step).expand(2, -1) if _settled(step) else super().of(step, place)
        return self.values[step]

    def project(self, step: Project, place: Place[Tensor]) -> Tensor:
        if not _settled(step.edge):
            return self.beam.remembered(step)
        if step not in self.hops:
            everyone = torch.zeros(self.atoms.num_entities, dtype=torch.bool, device=self.atoms.device)
            self.hops[step] = Frontier(self._zeros(), everyone)
        hop = self.hops[step]
        left = self.whole(step.source)[1].masked_fill(hop.followed, ZERO).amax()
        bound = self.logic.conjunction(left, self._supremum(step.edge))
        return torch.stack([hop.reached[0], torch.maximum(hop.reached[1], bound)])

    def condition(self, step: Condition, place: Place[Tensor]) -> Tensor:
        return self.beam.remembered(step)

    def tighten(self, step: Step, entity: int, source: int = -1) -> bool:
        """Bring the bounds of a step closer together at an entity; False where that cannot be done."""
        match step:
            case Project() if step in self.hops:
                return bool(unsettled(*self.whole(step)[:, entity])) and self._follow(step)
            case Intersect(parts) | Union(parts):
                return sum(self.tighten(part, entity, source) for part in parts) > 0  # all of them
            case Complement(part) | Target(part):
                return self.tighten(part, entity, source)
            case Source(part):
                return self.tighten(part, source)
            case Row(slot, edge):
                return self.tighten(edge, entity, int(self.entities[0, slot]))
            case At(part, slot):
                return self.tighten(part, int(self.entities[0, slot]))
            case Best(_, part):
                return self.tighten(part, int(self.whole(part)[1].argmax()))
        return False

    def _follow(self, step: Project) -> bool:
        """Follow the next candidates of a hop, those whose values are settled; settle the best one where it is not."""
        hop, (lower, upper) = self.hops[step], self.whole(step.source)
        values, ids = (x[0] for x in best(upper.masked_fill(hop.followed, ZERO)[None], hop.step))
        loose = unsettled(lower[ids], values)
        if float(values[0]) == ZERO or (bool(loose[0]) and self.tighten(step.source, int(ids[0]))):
            return float(values[0]) > ZERO
        most = self.k if self.k is not None and anchored(step.source) else len(lower)
        ready = len(ids) if bool(loose[0]) else int((~loose).cumprod(0).sum())
        ids = ids[values > ZERO][: min(ready, most - hop.count)]
        if not len(ids):
            return False
        self._reach(step.edge, ids, self.whole(step.source), hop.reached)
        hop.followed[ids] = True
        hop.count, hop.step = hop.count + len(ids), max(hop.step, 2 * len(ids))
        self.values.clear()
        return True

    def _reach(self, edge: Edge, ids: Tensor, source: Tensor, reached: Tensor) -> None:
        """Raise what was reached by what an edge leads to from some candidates more."""
        if bool((source[0, ids] == source[1, ids]).all()):  # one way for both bounds
            once = self._zeros()[:1]
            self._follow_edge(edge, ids, source[:1], once)
            torch.maximum(reached, once, out=reached)
        else:
            self._follow_edge(edge, ids, source, reached)

    def _follow_edge(self, edge: Edge, ids: Tensor, source: Tensor, out: Tensor) -> None:
        if isinstance(edge, Relation):
            relation = int(self.relations[0, edge.slot]) ^ int(edge.flip)
            Hop(self.atoms, self.logic, None, self.memory).along(ids, relation, source, out)
            return
        for few in ids.split(self._at_once(edge)):
            rows = self.plain.repeated(len(few)).of(edge, Place(few))  # [P, N]
            for query, values in enumerate(source):
                reach = self.logic.conjunction(values[few, None], rows).amax(dim=0)
                out[query] = torch.maximum(out[query], reach)

    def _supremum(self, edge: Edge) -> Tensor:
        """What an edge is worth at most."""
        match edge:
            case Relation():
                return torch.tensor(self.atoms.supremum, device=self.atoms.device)
            case Intersect(parts):
                return self.logic.all([self._supremum(part) for part in parts])
        return torch.tensor(0.0, device=self.atoms.device)


def _settled(step: Step) -> bool:
    """Whether no hop and no cycle is part of a step, so that its value is exact."""
    return not any(isinstance(part, Project | Condition) for part in walk(step))
