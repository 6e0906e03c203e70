"""Proofs of answers: folds of plans that record the values of variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from tacit.engine.logic import ZERO, at
from tacit.engine.search.evaluator import Evaluator
from tacit.graph.fact_index import FactIndex, Ints
from tacit.graph.value_index import ValueIndex
from tacit.query.plans.fold import EvalContext, Fold
from tacit.query.plans.plan import (
    Best,
    Compared,
    Cutset,
    Difference,
    Everything,
    Intersect,
    Node,
    Project,
    Relation,
    Unequal,
    Union,
    Within,
)
from tacit.query.plans.sets import Sets
from tacit.query.plans.symbolic import COPIES, Ends, SetFold

_COMPARED = 64  # values of a variable that lead to an answer


@dataclass(frozen=True)
class Proof:
    """The reason for a score: an atom, or `and`, `or`, `not` of smaller proofs."""

    kind: str  # "atom", "inequality", "comparison", "and", "or", "not" or "true"
    score: float
    parts: tuple[Proof, ...] = ()
    atom: tuple[int, int, int] | None = None  # subject, relation and object, read forward
    sides: tuple[int, int] | None = None  # of an inequality
    observed: bool = False  # whether the atom is a known fact, or compared values are known
    # the attribute and the entity of each compared value, and the range of their difference
    compared: tuple[tuple[tuple[str, int], ...], float, float] | None = None
    values: tuple[tuple[int, int], ...] = ()  # variable -> entity, chosen here
    scored: tuple[int, int, int] | None = None  # head, directed relation and tail of the atom's row

    @property
    def implied(self) -> bool:
        """Whether the known facts alone make it hold; a denied part is then no fact."""
        match self.kind:
            case "atom":
                return self.observed
            case "comparison":
                return self.observed and self.score == 0.0
            case "inequality":
                return self.sides is not None and self.sides[0] != self.sides[1]
            case "not":
                return not self.parts[0].implied
            case "or":
                return any(part.implied for part in self.parts)
        return all(part.implied for part in self.parts)

    def substitution(self) -> dict[int, int]:
        """The entity of every bound variable."""
        values = dict(self.values)
        for part in self.parts:
            values |= part.substitution()
        return values

    def with_value(self, variable: int, entity: int) -> Proof:
        """The same proof with the value of one more variable."""
        return replace(self, values=(*self.values, (variable, entity)))


class SearchProofs(Fold[int, Proof]):
    """Walks a plan back from an answer of one query to the values the search chose."""

    def __init__(self, scores: Evaluator[Tensor], answers: Sequence[int] = ()) -> None:
        self.scores = scores  # of one query, with every set cached
        self.atoms = scores.context.atoms
        self.logic = scores.context.logic
        self.answers = answers  # explained together
        self._chosen: dict[tuple[Cutset, int], int] = {}

    def proofs(self, root: Node, answer: int, count: int = 1) -> list[Proof]:
        """The best proofs of an answer, best first.

        Alternatives differ in the variable next to the answer.
        """
        place = EvalContext(target=answer)
        if count > 1 and isinstance(root, Project):
            return [self._via(root, place, s) for s in self._sources(root, answer, count)]
        if count > 1 and isinstance(root, Intersect | Union):
            varied = next((part for part in root.parts if isinstance(part, Project)), None)
            if varied is not None:
                join = self.all if isinstance(root, Intersect) else self.any
                at = root.parts.index(varied)
                before, after = (
                    [self.of(part, place) for part in parts]
                    for parts in (root.parts[:at], root.parts[at + 1 :])
                )
                proofs = self.proofs(varied, answer, count)
                return [join([*before, proof, *after]) for proof in proofs]
        return [self.of(root, place)]

    def entity(self, slot: int) -> int:
        return int(self.scores.queries.entities[0, slot])

    def relation(self, step: Relation, place: EvalContext[int]) -> Proof:
        relation = int(self.scores.queries.relation(step)[0])
        atoms = self.atoms
        s = place.start
        t = place.end
        scored = s, relation, t
        fact = [torch.tensor([i], device=atoms.device) for i in scored]
        observed = atoms.facts is not None and bool(atoms.facts.contains(*fact))
        atom = (t, relation & ~1, s) if relation & 1 else (s, relation, t)
        score = float(atoms.pairs(*fact))
        return Proof("atom", score, atom=atom, observed=observed, scored=scored)

    def unequal(self, step: Unequal, place: EvalContext[int]) -> Proof:
        same = place.start == place.end
        return Proof("inequality", ZERO if same else 0.0, sides=(place.end, place.start))

    def within(self, step: Within, place: EvalContext[int]) -> Proof:
        values = [(step.attribute, place.end)]
        if step.minus:
            values.append((step.minus, place.end))
        score = self.atoms.comparisons.at(step, torch.tensor([place.end]))
        return _comparison(self.atoms.comparisons.known, values, step, float(score))

    def difference(self, step: Difference, place: EvalContext[int]) -> Proof:
        ends = place.start, place.end
        score = self.atoms.comparisons.pairs(step, *(torch.tensor([end]) for end in ends))
        values = [(step.left, ends[0]), (step.right, ends[1])]
        return _comparison(self.atoms.comparisons.known, values, step, float(score))

    def project(self, step: Project, place: EvalContext[int]) -> Proof:
        return self._via(step, place, self._sources(step, place.end, 1)[0])

    def best(self, step: Best, place: EvalContext[int]) -> Proof:
        entity = self._best_entity(step)
        return self.of(step.part, EvalContext(target=entity)).with_value(step.variable, entity)

    def cutset(self, step: Cutset, place: EvalContext[int]) -> Proof:
        value = self._cut_value(step, place.end)
        cut = torch.tensor([[value]], device=self.scores.queries.relations.device)
        inner = self.scores.trying(step.slot, cut)
        inner.memo.keeps_all = True
        return self._within(inner).of(step.body, place).with_value(step.variable, value)

    def everything(self, step: Everything, place: EvalContext[int]) -> Proof:
        return Proof("true", 0.0)

    def all(self, parts: Sequence[Proof]) -> Proof:
        return _join("and", parts, self.logic.all)

    def any(self, parts: Sequence[Proof]) -> Proof:
        return _join("or", parts, self.logic.any)

    def negation(self, part: Proof) -> Proof:
        return _join("not", [part], lambda values: self.logic.negation(values[0]))

    def _via(self, step: Project, place: EvalContext[int], s: int) -> Proof:
        proof = self.of(step.edge, replace(place, source=s))
        if not isinstance(step.source, Everything):
            proof = self.all([self.of(step.source, EvalContext(target=s)), proof])
        return proof.with_value(step.variable, s)

    def _best_entity(self, step: Best) -> int:
        return int(self.atoms.shards.top(self.scores.set_of(step.part), 1)[1])

    def _cut_value(self, step: Cutset, t: int) -> int:
        """The value of a cut variable that reaches `t` best, among those the search kept."""
        if (step, t) not in self._chosen:
            ends = list(self.answers) if t in self.answers else [t]
            cuts = _best_cuts(self.scores, step, ends, self.scores.candidates(step)[1][0])
            self._chosen |= {(step, end): cut for end, cut in zip(ends, cuts, strict=True)}
        return self._chosen[step, t]

    def _within(self, scores: Evaluator[Tensor]) -> SearchProofs:
        """The proofs of the query with a cut variable filled in."""
        return SearchProofs(scores)

    def _sources(self, step: Project, t: int, count: int) -> list[int]:
        """The `count` values of a hop's variable that reach `t` best, of those the search kept."""
        scores = self.scores
        values, ids = scores.candidates(step)
        # A hop is worth at most its start, so the search's choice is worth the target at least.
        target_value = scores.of(step, EvalContext(target=ids.new_tensor([t])))[0, 0]
        order = values[0].argsort(descending=True, stable=True)
        enough = int((values[0] >= target_value - 1e-6 * target_value.abs().clamp(min=1e-6)).sum())
        order = order[: max(enough, _COMPARED if count > 1 else 1)]
        return self._best_starts(step, t, ids[0, order], values[0, order], count)

    def _best_starts(
        self, step: Project, t: int, starts: Tensor, values: Tensor, count: int
    ) -> list[int]:
        """The `count` best of `starts`, given by falling value, to reach `t` from."""
        place = EvalContext(starts, torch.full_like(starts, t))
        edges = self.scores.copied(torch.zeros_like(starts)).of(step.edge, place)[:, 0]
        through = self.logic.conjunction(values, edges)
        best: list[int] = starts[through.argsort(descending=True, stable=True)[:count]].tolist()
        return best


class FactProofs(SearchProofs):
    """Walks a plan back from a known answer to the best values that facts support.

    Where no facts do, as in an unknown branch of an *or*, it takes the values the search chose.
    """

    def __init__(self, scores: Evaluator[Tensor], index: FactIndex) -> None:
        super().__init__(scores)
        queries = scores.queries
        slots = queries.entities.cpu().numpy(), queries.relations.cpu().numpy()
        values = self.atoms.known_values
        self.facts = SetFold(index, self.atoms.num_entities, *slots, values)

    def _best_entity(self, step: Best) -> int:
        """The first entity of the set that facts imply."""
        for _, members in self.facts.of(step.part).members(COPIES):
            if len(members):
                return int(members[0])
        return super()._best_entity(step)

    def _sources(self, step: Project, t: int, count: int) -> list[int]:
        """The best values from which facts lead to `t`, among the first few."""
        source = self.facts.bounded(self.facts.of(step.source), step.edge)
        leading = (
            (sources, self.facts.of(step.edge, EvalContext(Ends(rows, sources))))
            for rows, sources in source.members(COPIES)
        )
        known = list(islice(_values_with(leading, t), max(count, _COMPARED)))
        if len(known) <= 1:
            return known or super()._sources(step, t, count)
        starts = torch.tensor(known, device=self.atoms.device)
        table = self.scores.set_of(step.source)
        values = at(self.atoms.shards, table, torch.zeros_like(starts), starts)
        return self._best_starts(step, t, starts, values, count)

    def _cut_value(self, step: Cutset, t: int) -> int:
        """The best value with which facts lead to `t`, among the first few."""
        candidates = (
            (values, self.facts.copies(step, rows, values).of(step.body))
            for rows, values in self.facts.of(step.candidates).members(COPIES)
        )
        known = list(islice(_values_with(candidates, t), _COMPARED))
        if len(known) <= 1:
            return known[0] if known else super()._cut_value(step, t)
        return _best_cuts(self.scores, step, [t], torch.tensor(known, device=self.atoms.device))[0]

    def _within(self, scores: Evaluator[Tensor]) -> SearchProofs:
        return FactProofs(scores, self.facts.index)


def _comparison(
    known: ValueIndex, values: Sequence[tuple[str, int]], step: Compared, score: float
) -> Proof:
    """The proof of a comparison, observed where each compared entity has a known value."""
    observed = all(known.known(attribute)[entity] for attribute, entity in values)
    compared = tuple(values), step.low, step.high
    return Proof("comparison", score, observed=observed, compared=compared)


def _best_cuts(scores: Evaluator[Tensor], step: Cutset, ends: list[int], ids: Tensor) -> list[int]:
    """The values in `ids` of a cut variable that reach `ends` best."""
    atoms = scores.context.atoms
    targets = ids.new_tensor(ends)
    cuts = ids[:1].expand(len(ends))
    best = torch.full((len(ends),), -torch.inf, device=ids.device)
    for few in ids.split(max(1, scores.context.memory // (64 * atoms.widest))):
        table = scores.trying(step.slot, few[None]).set_of(step.body)
        pairs = torch.cartesian_prod(torch.arange(len(few), device=ids.device), targets)
        values, places = at(atoms.shards, table, *pairs.unbind(dim=1)).view(len(few), -1).max(dim=0)
        cuts = torch.where(values > best, few[places], cuts)
        best = torch.maximum(values, best)
    chosen: list[int] = cuts.tolist()
    return chosen


def _values_with(candidates: Iterator[tuple[Ints, Sets]], t: int) -> Iterator[int]:
    """Yield the values whose set, one each, holds an entity."""
    for values, sets in candidates:
        places = np.arange(len(values))
        yield from values[sets.contains(places, np.full_like(places, t))].tolist()


def _join(kind: str, parts: Sequence[Proof], join: Callable[[list[Tensor]], Tensor]) -> Proof:
    """Join proofs into one, with their joined score."""
    return Proof(kind, float(join([torch.tensor(part.score) for part in parts])), tuple(parts))
