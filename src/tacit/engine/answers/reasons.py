"""Why an answer came: the algebra of plans over proofs, each with the values its variables took."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tacit.engine.search.exact_and_beam import Scores
from tacit.engine.search.sharded import at
from tacit.graph.fact_index import FactIndex, Ints
from tacit.query.plans.fold import Fold, Place
from tacit.query.plans.plan import (
    Best,
    Complement,
    Condition,
    Everything,
    Intersect,
    Node,
    Project,
    Relation,
    Step,
    Union,
)
from tacit.query.plans.sets import Sets
from tacit.query.plans.symbolic import COPIES, Ends, SetFold


@dataclass(frozen=True)
class Proof:
    """Why something holds as far as it does: an atom, or `and`, `or`, `not` of smaller proofs, with its log-score."""

    kind: str  # "atom", "and", "or", "not" or "true"
    score: float
    parts: tuple[Proof, ...] = ()
    atom: tuple[int, int, int] | None = None  # subject, relation and object, read forward
    observed: bool = False  # whether the atom is a known fact
    values: tuple[tuple[int, int], ...] = ()  # variable -> entity, chosen here

    def substitution(self) -> dict[int, int]:
        """The entity of every bound variable."""
        values = dict(self.values)
        for part in self.parts:
            values |= part.substitution()
        return values

    def choosing(self, variable: int, entity: int) -> Proof:
        """The same proof with the value of one more variable."""
        return replace(self, values=(*self.values, (variable, entity)))


class Reasons(Fold[int, Proof]):
    """Walks a plan backwards from an answer of one query, choosing for each variable what the search chose."""

    def __init__(self, scores: Scores, answers: Sequence[int] = ()) -> None:
        self.scores = scores  # of one query, remembering every set
        self.answers = answers  # whose reasons may be asked for, and are looked for together
        self._chosen: dict[tuple[Condition, int], int] = {}

    def proofs(self, root: Node, answer: int, count: int = 1) -> list[Proof]:
        """The best proofs of an answer, best first: alternatives differ in the variable next to the answer."""
        place = Place(target=answer)
        if count > 1 and isinstance(root, Project):
            return [self._through(root, place, s) for s in self._sources(root, answer, count)]
        if count > 1 and isinstance(root, Intersect | Union):
            varied = next((part for part in root.parts if isinstance(part, Project)), None)
            if varied is not None:
                others = [[self.of(part, place)] for part in root.parts]
                others[root.parts.index(varied)] = self.proofs(varied, answer, count)
                join = self.all if isinstance(root, Intersect) else self.any
                most = max(map(len, others))
                return [join([proofs[min(i, len(proofs) - 1)] for proofs in others], place) for i in range(most)]
        return [self.of(root, place)]

    def entity(self, slot: int) -> int:
        return int(self.scores.entities[0, slot])

    def relation(self, step: Relation, place: Place[int]) -> Proof:
        relation = int(self.scores.relations[0, step.slot]) ^ int(step.flip)
        atoms, s, t = self.scores.atoms, place.start, place.end
        head, along, tail = (torch.tensor([i], device=atoms.device) for i in (s, relation, t))
        score = float(atoms.of(head, along, tail))
        observed = atoms.facts is not None and bool(atoms.facts.contains(head, along, tail))
        atom = (t, relation & ~1, s) if relation & 1 else (s, relation, t)
        return Proof("atom", score, atom=atom, observed=observed)

    def project(self, step: Project, place: Place[int]) -> Proof:
        return self._through(step, place, self._sources(step, place.end, 1)[0])

    def best(self, step: Best, place: Place[int]) -> Proof:
        entity = int(self.scores.atoms.shards.top(self.scores.whole(step.part), 1)[1])
        return self.of(step.part, Place(target=entity)).choosing(step.variable, entity)

    def condition(self, step: Condition, place: Place[int]) -> Proof:
        t = place.end
        cut = torch.tensor([self._cut(step, t)], device=self.scores.relations.device)
        inner = replace(self.scores.repeated(1, step.slot, cut), keep=True, floor=None)
        return self._inside(inner).of(step.body, place).choosing(step.variable, int(cut))

    def everything(self, step: Everything, place: Place[int]) -> Proof:
        return Proof("true", 0.0)

    def all(self, parts: Sequence[Proof], place: Place[int]) -> Proof:
        return _joined("and", parts, self.scores.logic.all)

    def any(self, parts: Sequence[Proof], place: Place[int]) -> Proof:
        return _joined("or", parts, self.scores.logic.any)

    def negation(self, step: Complement[Step], part: Proof, place: Place[int]) -> Proof:
        strength = self.scores.atoms.strength(step, self.scores.relations)
        return _joined("not", [part], lambda values: self.scores.logic.negation(values[0], strength))

    def _through(self, step: Project, place: Place[int], s: int) -> Proof:
        edge = self.of(step.edge, replace(place, source=s))
        if isinstance(step.source, Everything):
            return edge.choosing(step.variable, s)
        return self.all([self.of(step.source, Place(target=s)), edge], place).choosing(step.variable, s)

    def _cut(self, step: Condition, t: int) -> int:
        """The value of a cut variable that reaches `t` best, among those that the search kept."""
        if (step, t) not in self._chosen:
            ends = list(self.answers) if t in self.answers else [t]
            self._chosen |= {(step, end): cut for end, cut in zip(ends, self._cuts(step, ends), strict=True)}
        return self._chosen[step, t]

    def _cuts(self, step: Condition, ends: list[int]) -> list[int]:
        """The values of a cut variable that reach some entities best."""
        scores, (_, ids) = self.scores, self.scores.candidates(step)
        targets = ids.new_tensor(ends)
        cuts, best = ids[0, :1].expand(len(ends)), torch.full((len(ends),), -torch.inf, device=ids.device)
        for few in ids[0].split(max(1, scores.memory // (64 * scores.atoms.widest))):
            table = scores.repeated(len(few), step.slot, few).whole(step.body)
            pairs = torch.cartesian_prod(torch.arange(len(few), device=ids.device), targets)
            values, places = at(scores.atoms.shards, table, *pairs.unbind(dim=1)).view(len(few), -1).max(dim=0)
            cuts, best = torch.where(values > best, few[places], cuts), torch.maximum(values, best)
        chosen: list[int] = cuts.tolist()
        return chosen

    def _inside(self, scores: Scores) -> Reasons:
        """The same for the query with a cut variable filled in."""
        return Reasons(scores)

    def _sources(self, step: Project, t: int, count: int) -> list[int]:
        """The values of a projection's variable that reach `t` best, among those that the search kept."""
        scores = self.scores
        values, ids = scores.candidates(step)
        # A hop is worth at most its start: the search's choice is among the starts worth at least the value reached.
        reached = scores.value(step, ids.new_tensor([t]))[0]
        order = values[0].argsort(descending=True, stable=True)
        enough = int((values[0] >= reached - 1e-6 * reached.abs().clamp(min=1e-6)).sum())
        order = order[: max(enough, 64 if count > 1 else 1)]
        starts = ids[0, order]
        edges = scores.repeated(len(starts)).of(step.edge, Place(starts, torch.full_like(starts, t)))[:, 0]
        through = scores.logic.conjunction(values[0, order], edges)
        return [int(s) for s in starts[through.argsort(descending=True, stable=True)[:count]]]


class Implied(Reasons):
    """Walks a plan backwards from a known answer, choosing for each variable what facts lead from.

    Where no facts do, as in a branch of an *or* that is not known, the choice is the search's.
    """

    def __init__(self, scores: Scores, index: FactIndex) -> None:
        super().__init__(scores)
        slots = scores.entities.cpu().numpy(), scores.relations.cpu().numpy()
        self.facts = SetFold(index, scores.atoms.num_entities, *slots)

    def best(self, step: Best, place: Place[int]) -> Proof:
        """The first entity of the set that facts imply."""
        for _, members in self.facts.of(step.part).members(COPIES):
            if len(members):
                entity = int(members[0])
                return self.of(step.part, Place(target=entity)).choosing(step.variable, entity)
        return super().best(step, place)

    def _sources(self, step: Project, t: int, count: int) -> list[int]:
        """The first values from which facts lead to `t`."""
        source = self.facts.bounded(self.facts.of(step.source), step.edge)
        leading = (
            (sources, self.facts.of(step.edge, Place(Ends(rows, sources)))) for rows, sources in source.members(COPIES)
        )
        return list(_holding(leading, t))[:count] or super()._sources(step, t, count)

    def _cut(self, step: Condition, t: int) -> int:
        """The first value with which facts lead to `t`."""
        tried = (
            (values, self.facts.copies(step, rows, values).of(step.body))
            for rows, values in self.facts.of(step.candidates).members(COPIES)
        )
        known = next(_holding(tried, t), None)
        return super()._cut(step, t) if known is None else known

    def _inside(self, scores: Scores) -> Reasons:
        return Implied(scores, self.facts.index)


def _holding(tried: Iterator[tuple[Ints, Sets]], t: int) -> Iterator[int]:
    """The values whose set, one each, holds an entity."""
    for values, sets in tried:
        places = np.arange(len(values))
        yield from values[sets.contains(places, np.full_like(places, t))].tolist()


def _joined(kind: str, parts: Sequence[Proof], join: Callable[[list[Tensor]], Tensor]) -> Proof:
    """The proof of parts together, worth what they are worth joined."""
    return Proof(kind, float(join([torch.tensor(part.score) for part in parts])), tuple(parts))
