"""Reasoners over calibrated atoms: exact and beam search, and certified search."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Self

import torch
from torch import Tensor

from tacit.engine.atoms.atoms import Atoms, RememberedAtoms
from tacit.engine.logic import Logic, check_numbers
from tacit.engine.reasoner import Explanation, Reasoner, step_memory
from tacit.engine.search.beam_evaluator import BeamEvaluator
from tacit.engine.search.best_first import BestFirstSearch
from tacit.engine.search.bounded_evaluator import BoundedEvaluator
from tacit.engine.search.coarse_search import CoarseSearch
from tacit.engine.search.evaluator import Evaluator
from tacit.engine.search.frontier import ExpandedEvaluator, SearchState
from tacit.engine.search.proofs import FactProofs, Proof, SearchProofs
from tacit.engine.search.search_context import QueryBatch, SearchContext
from tacit.engine.top_k import TopKRequest, TopKResult, best_answers, is_loose
from tacit.links.codes import FEW
from tacit.query.plans.plan import Plan
from tacit.query.plans.traits import is_hop_free, without_hops


class MessageReasoner(Reasoner):
    """Exact search, or beam search with the `k` best candidates of every variable."""

    probabilities = calibrated = True

    def __init__(
        self, atoms: Atoms, logic: Logic, k: int | None = None, memory: float | None = None
    ) -> None:
        self.atoms = atoms
        self.logic = logic
        self.k = None if k is None or k >= atoms.num_entities else k
        self.exact = self.k is None
        self.num_entities = atoms.num_entities
        self.shards = atoms.shards
        self.device = atoms.device
        self.memory = step_memory(memory, self.device)

    def scores(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Score every entity, `[B, N]`; batches too large for the memory are split."""
        at_once = self.batch(plan)
        scores = [
            check_numbers(self.evaluation(*slots, plan).set_of(plan.root), self.shards)
            for slots in zip(entities.split(at_once), relations.split(at_once), strict=True)
        ]
        return scores[0] if len(scores) == 1 else torch.cat(scores)

    def ranking(self, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
        """Order the entities by scores; for a single atom by logits, known facts first."""
        single = self.atoms.single(plan, entities, relations)
        return self.scores(plan, entities, relations) if single is None else single[0]

    def ranked(self, plan: Plan, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The scores, and values that order them; both of an atom come from one raw row."""
        single = self.atoms.single(plan, entities, relations, scored=True)
        if single is None:
            scores = self.scores(plan, entities, relations)
            return scores, scores
        ranking, scores = single
        return check_numbers(scores, self.shards), ranking

    def top(
        self, plan: Plan, entities: Tensor, relations: Tensor, requests: Sequence[TopKRequest]
    ) -> list[TopKResult]:
        """List the best answers; without hops, only those that bounds leave open are scored."""
        # Many rows are scored as fast as codes are read; cached sums are of single rows.
        atoms = self.atoms
        few = 1 if atoms.calibration.capabilities.by_sum else FEW
        if len(requests) > few or not atoms.capabilities.codable or not without_hops(plan):
            return self.listed(requests, *self.ranked(plan, entities, relations))
        codes = atoms.codes(len(requests))
        search = CoarseSearch(atoms, self.logic, codes, entities.long(), relations.long())
        listed = search.top(plan.root, requests)
        return [replace(each, certified=True) for each in listed] if self.exact else listed

    def batch(self, plan: Plan) -> int:
        """How many queries of a plan fit in memory; each live set is a row of N floats."""
        live = 4 + plan.num_relations
        return max(1, self.memory // (2 * live * 4 * self.atoms.widest))

    def bounds(self, plan: Plan, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Bound every exact score from below and above, `[B, N]`; exact without hops."""
        if self.k is None or is_hop_free(plan.root):
            scores = self.scores(plan, entities, relations)
            return scores, scores
        bounds = _bounded(self.evaluation(entities, relations, plan)).set_of(plan.root)
        return bounds.low, bounds.high

    def explain(
        self, plan: Plan, entities: Tensor, relations: Tensor, request: TopKRequest
    ) -> Explanation:
        """Explain the best answers to one query by an evaluation that caches every set."""
        if without_hops(plan):  # the score of an answer depends on its own atoms alone
            listed = self.top(plan, entities, relations, [request])[0]
            return explained(
                replace(listed, certified=True), self.evaluation(entities, relations), plan, request
            )
        beam = self.evaluation(entities, relations)
        bounds = None
        beam.memo.keeps_all = True
        if self.k is not None and not is_hop_free(plan.root):
            bounded = _bounded(beam)
            bounded.memo.keeps_all = True
            bounds = bounded.set_of(plan.root)
            bounded.lend()
        scores = check_numbers(beam.set_of(plan.root), self.shards)[0].cpu()
        limits = (scores, scores) if bounds is None else (bounds.low[0].cpu(), bounds.high[0].cpu())
        best = best_answers(self.shards, request, scores, scores, limits)
        return explained(best, beam, plan, request)

    def explaining(self, by_scores: bool = False) -> Self:
        """Return the same reasoner over atoms that cache rows, which every answer reuses."""
        reasoner = copy(self)
        reasoner.atoms = RememberedAtoms(self.atoms)
        return reasoner

    def evaluation(
        self, entities: Tensor, relations: Tensor, plan: Plan | None = None
    ) -> BeamEvaluator:
        """The evaluator of a batch; slots beyond those of a plan hold values of variables."""
        queries = self._queries(entities, relations)
        repeats = plan is not None and entities.shape[1] > plan.num_entities
        return BeamEvaluator(self._context, replace(queries, repeats=repeats))

    @property
    def _context(self) -> SearchContext:
        return SearchContext(self.atoms, self.logic, self.k, self.memory // 2)

    def _queries(self, entities: Tensor, relations: Tensor) -> QueryBatch:
        return QueryBatch(entities.to(self.device).long(), relations.to(self.device).long())


class CertifiedReasoner(MessageReasoner):
    """Best-first search for exact answers; the beam answers what stays unproven.

    It expands at most the `k` candidates of a variable that a beam keeps, or as many in all as the
    `budget` says. Scores of all entities, which an evaluation ranks, are the beam's.
    """

    def __init__(
        self,
        atoms: Atoms,
        logic: Logic,
        k: int | None = None,
        memory: float | None = None,
        budget: int | None = None,
    ) -> None:
        super().__init__(atoms, logic, k, memory)
        self.budget = budget

    def batch(self, plan: Plan) -> int:
        """How many queries of a plan fit in memory, with two bounds each and their frontiers."""
        return max(1, super().batch(plan) // 3)

    def top(
        self, plan: Plan, entities: Tensor, relations: Tensor, requests: Sequence[TopKRequest]
    ) -> list[TopKResult]:
        """List the best answers to each query, certified where they are proven."""
        if is_hop_free(plan.root):
            return [
                replace(best, certified=True, rows=0)
                for best in super().top(plan, entities, relations, requests)
            ]
        listed: dict[int, TopKResult] = {}
        for places, search in self._search(plan, entities, relations, requests).run():
            listed |= zip(places, search.results(), strict=True)
        for place in [place for place, best in listed.items() if self._takes_exact(best)]:
            slots = entities[place : place + 1], relations[place : place + 1]
            (exact,) = super().top(plan, *slots, [requests[place]])
            listed[place] = replace(exact, rows=listed[place].rows)
        return [listed[place] for place in range(len(requests))]

    def _takes_exact(self, best: TopKResult) -> bool:
        """Whether exact search answers in place of this one.

        It does where the search was unlimited, so that rounding alone leaves an order open.
        """
        return self.exact and self.budget is None and not best.certified

    def explain(
        self, plan: Plan, entities: Tensor, relations: Tensor, request: TopKRequest
    ) -> Explanation:
        """Explain the best answers to one query by the candidates that were expanded."""
        if is_hop_free(plan.root):
            return super().explain(plan, entities, relations, request)
        ((_, search),) = self._search(plan, entities, relations, [request]).run()
        best = search.results()[0]
        if self._takes_exact(best):
            exact = super().explain(plan, entities, relations, request)
            return replace(exact, best=replace(exact.best, rows=best.rows))
        if best.certified:  # unproven answers were expanded as far as the limits allow
            for answer in best.ids:
                search.reach(answer)
        # The proof stays valid, even where a cycle's body has looser bounds than before.
        best = replace(best, rows=search.state.rows[0])
        return explained(best, ExpandedEvaluator.by(search.state), plan, request)

    def explaining(self, by_scores: bool = False) -> Self:
        """Return the same search; with `by_scores` without a budget, as the beam scores."""
        reasoner = super().explaining()
        reasoner.budget = None if by_scores else self.budget
        return reasoner

    def _search(
        self, plan: Plan, entities: Tensor, relations: Tensor, requests: Sequence[TopKRequest]
    ) -> BestFirstSearch:
        queries = self._queries(entities, relations)
        state = SearchState.of(self._context, queries, self.budget)
        return BestFirstSearch(plan.root, list(requests), state)


def _bounded(beam: BeamEvaluator) -> BoundedEvaluator:
    """The evaluator of bounds for the same batch."""
    return BoundedEvaluator(beam.context, beam.queries, beam=beam)


def explained(
    best: TopKResult, scores: Evaluator[Tensor], plan: Plan, request: TopKRequest
) -> Explanation:
    """Attach proofs to answers, from the cached sets of one query's evaluation."""
    reasons = SearchProofs(scores, best.ids)
    first = set(request.first)
    facts = scores.context.atoms.facts

    def proofs(answer: int, count: int, known: bool = False) -> list[Proof]:
        by_search = reasons.proofs(plan.root, answer, count)
        if facts is None or not known or by_search[0].implied:
            return by_search
        by_facts = FactProofs(scores, facts.index).proofs(plan.root, answer, count)
        search_score = by_search[0].score
        facts_score = by_facts[0].score
        if answer in first and is_loose(search_score, request.least):
            return by_facts  # the search dropped the facts that imply the answer
        if is_loose(search_score, facts_score) or is_loose(facts_score, search_score):
            return by_search
        return [by_facts[0], *(proof for proof in by_search if proof != by_facts[0])][:count]

    return Explanation(best, proofs)
