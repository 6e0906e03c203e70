"""The contract of everything that turns a plan into scores, and the reasoners over a link predictor and a graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from tacit.distributed.shards import Shards
from tacit.engine.answers.reasons import Implied, Proof, Reasons
from tacit.engine.atoms.atoms import Atoms, RememberedAtoms
from tacit.engine.logic import ZERO, Logic
from tacit.engine.search.best_answers import BestAnswers, Wanted, loose
from tacit.engine.search.best_first import BestFirst
from tacit.engine.search.coarse_search import CoarseSearch
from tacit.engine.search.exact_and_beam import Scores, checked
from tacit.engine.search.sharded import best_answers
from tacit.errors import PlanError
from tacit.graph.fact_index import FactIndex
from tacit.links.finders.codes import FEW
from tacit.query.plans.plan import Plan, Row
from tacit.query.plans.symbolic import answers as symbolic_sets
from tacit.query.plans.traits import negates_hops, settled, without_hops

if TYPE_CHECKING:
    from tacit.engine.engine import Engine

_CPU_MEMORY, _CUDA_MEMORY = 2.0, 8.0  # GB, where nothing else is asked for
_BATCH = 256


def step_memory(memory: float | None, device: torch.device) -> int:
    """The bytes that a step may use on a device, where some GB are asked for, or nothing."""
    if memory is None:
        memory = _CUDA_MEMORY if device.type == "cuda" else _CPU_MEMORY
    return int(memory * 1e9)


@dataclass(frozen=True, eq=False)
class Explanation:
    """The answers to one query and the proofs of any of them, so many at most, best first."""

    best: BestAnswers
    proofs: Callable[[int, int], list[Proof]]


class Reasoner(ABC):
    """Scores every entity as an answer, for a batch of queries of one structure.

    `scores` is all that a reasoner must offer; what else is asked of it has an honest answer here.
    """

    num_entities: int
    exact = False  # whether nothing is ever dropped
    predicts = True  # whether it finds more than what facts imply
    probabilities = False  # whether scores read as log-probabilities, as counts, yes or no and tuples need them
    remedy = "set its `probabilities` where they are"  # what to do about a question that needs them
    calibrated = False  # whether an engine's settings decide its scores, calibration and adapter too, not facts alone

    @cached_property
    def name(self) -> str:
        """What it is called where it is printed."""
        return type(self).__name__

    @cached_property
    def about(self) -> dict[str, Any]:
        """What decides its answers beside an engine's settings, as plain data that answers and results keep."""
        return {}

    def asked_by(self, engine: Engine) -> Reasoner:
        """The reasoner as an engine asks it, by its settings and facts: here as it is."""
        return self

    def refusal(self, plan: Plan) -> PlanError | None:
        """Why it cannot express a plan, before it is asked, described or ranked; None where it can."""
        return None

    def check(self, plan: Plan) -> None:
        """Raise a `PlanError` for a plan that it cannot express."""
        if (error := self.refusal(plan)) is not None:
            raise error

    def check_shapes(self, plans: Mapping[str, Plan]) -> None:
        """Raise a `PlanError` that names the shapes which it cannot express, before hours are spent."""
        wrong = {name: str(error) for name, plan in plans.items() if (error := self.refusal(plan)) is not None}
        if wrong:
            can = ",".join(name for name in plans if name not in wrong) or "none of them"
            why = "; ".join(dict.fromkeys(wrong.values()))
            raise PlanError(f"{self.name} cannot express {', '.join(wrong)} ({why}); shapes that it can: {can}")

    @cached_property
    def shards(self) -> Shards:
        """The entities that this process has the scores of, the columns of what a reasoner gives: here all of them."""
        return Shards(self.num_entities)

    @abstractmethod
    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Log-scores `[B, N]` of queries whose slots hold `entities[B, E]` and `relations[B, R]`."""

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Values `[B, N]` that order the entities as the scores do, with no tie that rounding made."""
        return self.scores(plan, entities, relations)

    def ranked(self, plan: Plan, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The scores, and the values that order them; only a single atom has a finer order than its scores."""
        scores = self.scores(plan, entities, relations)
        return scores, self.ranking(plan, entities, relations) if isinstance(plan.root, Row) else scores

    def top(self, plan: Plan, entities: Tensor, relations: Tensor, wanted: Sequence[Wanted]) -> list[BestAnswers]:
        """The best answers to each query; by default the best of its scores, proven only where those are exact."""
        scores, finer = (values.cpu() for values in self.ranked(plan, entities, relations))
        listed = [best_answers(self.shards, *values) for values in zip(wanted, scores, finer, strict=True)]
        return [replace(each, certified=True) for each in listed] if self.exact else listed

    def batch(self, plan: Plan) -> int:
        """How many queries of a plan to ask for at once."""
        return _BATCH

    def bounds(self, plan: Plan, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor] | None:
        """A lower and an upper bound of every exact score, `[B, N]` each; None where a reasoner cannot tell."""
        if not self.exact:
            return None
        scores = self.scores(plan, entities, relations)
        return scores, scores

    def explain(self, plan: Plan, entities: Tensor, relations: Tensor, wanted: Wanted) -> Explanation | None:
        """The best answers to one query with their proofs; None where a reasoner has no reasons."""
        return None

    def explaining(self, by_scores: bool = False) -> Reasoner:
        """The same reasoner, to explain the answers to one question; `by_scores`, it rests on no more than these do."""
        return self


class MessageReasoner(Reasoner):
    """Exact search, or beam search with the `k` best candidates of every variable."""

    probabilities = calibrated = True

    def __init__(self, atoms: Atoms, logic: Logic, k: int | None = None, memory: float | None = None) -> None:
        self.atoms, self.logic = atoms, logic
        self.k = None if k is None or k >= atoms.num_entities else k
        self.exact = self.k is None
        self.num_entities, self.shards = atoms.num_entities, atoms.shards
        self.device = atoms.device
        self.memory = step_memory(memory, self.device)

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Log-scores of every entity, `[B, N]`; batches that would not fit in memory are cut."""
        at_once = self.batch(plan)
        if len(relations) <= at_once:
            return checked(self.evaluation(entities, relations, plan).whole(plan.root), self.shards)
        out = torch.empty(len(relations), self.atoms.width, device=self.device)
        for i in range(0, len(relations), at_once):
            part = slice(i, i + at_once)
            out[part] = checked(self.evaluation(entities[part], relations[part], plan).whole(plan.root), self.shards)
        return out

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """The scores; for a single atom the raw logits, known facts first, since calibration only rounds them."""
        single = self.atoms.single(plan, entities, relations)
        return self.scores(plan, entities, relations) if single is None else single[0]

    def ranked(self, plan: Plan, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The scores, and the values that order them; those of a single atom come from one row of raw scores."""
        ranking, scores = self.atoms.single(plan, entities, relations, scored=True) or (None, None)
        if ranking is not None and scores is not None:
            return checked(scores, self.shards), ranking
        scores = self.scores(plan, entities, relations)
        return scores, scores

    def top(self, plan: Plan, entities: Tensor, relations: Tensor, wanted: Sequence[Wanted]) -> list[BestAnswers]:
        """The best answers to each query; of what has no hops, those that bounds leave open are scored exactly."""
        # Many rows are scored as fast as codes are read; and sums that are kept are always those of a row alone.
        few = 1 if self.atoms.calibration.by_sum else FEW
        if len(wanted) > few or not self.atoms.codable or not without_hops(plan):
            return super().top(plan, entities, relations, wanted)
        codes = self.atoms.codes(len(wanted))
        search = CoarseSearch(self.atoms, self.logic, codes, entities.long(), relations.long())
        listed = search.top(plan.root, wanted)
        return [replace(each, certified=True) for each in listed] if self.exact else listed

    def batch(self, plan: Plan) -> int:
        """How many queries of a plan fit in memory at once: each live set is a row of N floats."""
        live = 4 + plan.num_relations
        return max(1, self.memory // (2 * live * 4 * self.atoms.widest))

    def bounds(self, plan: Plan, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """A lower and an upper bound of every exact score, `[B, N]` each; what has no hops is exact."""
        if self.k is None or settled(plan.root):
            scores = self.scores(plan, entities, relations)
            return scores, scores
        lower, upper = self._bounded(entities, relations, plan).whole(plan.root).chunk(2)
        return lower, upper

    def explain(self, plan: Plan, entities: Tensor, relations: Tensor, wanted: Wanted) -> Explanation:
        """One evaluation that remembers every set; another for the bounds where a negation swaps them."""
        if without_hops(plan):  # answers are worth what their own atoms are, whatever else there is
            listed = self.top(plan, entities, relations, [wanted])[0]
            return explained(replace(listed, certified=True), self.evaluation(entities, relations), plan, wanted)
        bounded = None if self.k is None or settled(plan.root) else self._bounded(entities, relations)
        plain = bounded if bounded is not None and not negates_hops(plan.root) else self.evaluation(entities, relations)
        plain.keep = True
        scores = checked(plain.whole(plan.root), self.shards)[0]
        lower, upper = (scores, scores) if bounded is None else bounded.whole(plan.root)
        best = best_answers(self.shards, wanted, scores.cpu(), scores.cpu(), (lower.cpu(), upper.cpu()))
        return explained(best, plain.first(), plan, wanted)

    def explaining(self, by_scores: bool = False) -> Self:
        """The same reasoner over atoms that keep their rows, since each answer asks for them again."""
        made = copy(self)
        made.atoms = RememberedAtoms(self.atoms)
        return made

    def evaluation(self, entities: Tensor, relations: Tensor, plan: Plan | None = None) -> Scores:
        """The evaluation of a batch, step by step; slots beyond those of a plan hold values tried."""
        entities, relations = entities.to(self.device).long(), relations.to(self.device).long()
        tried = plan is not None and entities.shape[1] > plan.num_entities
        return Scores(self.atoms, self.logic, entities, relations, self.k, self.memory // 2, repeats=tried)

    def _bounded(self, entities: Tensor, relations: Tensor, plan: Plan | None = None) -> Scores:
        twice = self.evaluation(entities.repeat(2, 1), relations.repeat(2, 1), plan)
        twice.bounds = True
        return twice


class CertifiedReasoner(MessageReasoner):
    """Best-first search for the answers of exact search, which it proves; what it cannot prove is the beam's answer.

    It follows the `k` candidates a variable that a beam keeps at most, or as many in all as the `budget` says. What is
    more than a list of answers, as the scores of all entities that an evaluation ranks, is the beam's.
    """

    def __init__(
        self, atoms: Atoms, logic: Logic, k: int | None = None, memory: float | None = None, budget: int | None = None
    ) -> None:
        super().__init__(atoms, logic, k, memory)
        self.budget = budget

    def batch(self, plan: Plan) -> int:
        """How many queries of a plan fit in memory at once, with two bounds each, and how far hops were followed."""
        return max(1, super().batch(plan) // 3)

    def top(self, plan: Plan, entities: Tensor, relations: Tensor, wanted: Sequence[Wanted]) -> list[BestAnswers]:
        """The best answers to each query, certified where they are proven; what has no hops is exact as it is."""
        if settled(plan.root):
            return [replace(best, certified=True, rows=0) for best in super().top(plan, entities, relations, wanted)]
        listed: dict[int, BestAnswers] = {}
        for places, search in self._search(entities, relations).results(plan.root, wanted):
            listed |= zip(places, search.listed(plan.root, [wanted[place] for place in places]), strict=True)
        return [listed[place] for place in range(len(wanted))]

    def explain(self, plan: Plan, entities: Tensor, relations: Tensor, wanted: Wanted) -> Explanation:
        """The best answers to one query, and their proofs by the candidates that were followed."""
        if settled(plan.root):
            return super().explain(plan, entities, relations, wanted)
        ((_, search),) = self._search(entities, relations).results(plan.root, [wanted])
        best = search.listed(plan.root, [wanted])[0]
        for answer in best.ids if best.certified else ():  # others were followed as far as they may be
            search.reach(plan.root, answer)
        # What was proven stays so, also where a cycle's body is known less well than its bound was.
        return explained(replace(best, rows=search.rows[0]), search.followed(), plan, wanted)

    def explaining(self, by_scores: bool = False) -> Self:
        """The same search, without a budget where it is by scores, since these are the beam's."""
        made = super().explaining()
        made.budget = None if by_scores else self.budget
        return made

    def _search(self, entities: Tensor, relations: Tensor) -> BestFirst:
        entities, relations = (ids.to(self.device).long().repeat(2, 1) for ids in (entities, relations))
        return BestFirst(self.atoms, self.logic, entities, relations, self.k, self.memory // 2, budget=self.budget)


class SymbolicReasoner(Reasoner):
    """The graph alone: log-score 0 for its answers, minus infinity for everything else."""

    exact, predicts, probabilities = True, False, True

    def __init__(self, index: FactIndex, num_entities: int) -> None:
        self.index, self.num_entities = index, num_entities

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """`0` where the facts imply the answer, `-inf` elsewhere."""
        implied = symbolic_sets(plan, entities.numpy(), relations.numpy(), self.index, self.num_entities)
        out = torch.full((len(relations), self.num_entities), ZERO)
        out[torch.from_numpy(implied.rows).long(), torch.from_numpy(implied.ids).long()] = 0.0
        return out


def explained(best: BestAnswers, scores: Scores, plan: Plan, wanted: Wanted) -> Explanation:
    """Answers with proofs from the scores of one query that remembers every set."""
    reasons, known, facts = Reasons(scores, best.ids), set(wanted.first), scores.atoms.facts

    def proofs(answer: int, count: int) -> list[Proof]:
        told = reasons.proofs(plan.root, answer, count)
        if facts is None or answer not in known or not loose(told[0].score, wanted.least):
            return told
        return Implied(scores, facts.index).proofs(plan.root, answer, count)  # whose facts the search has dropped

    return Explanation(best, proofs)
