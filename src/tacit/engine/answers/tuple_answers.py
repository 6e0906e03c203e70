"""The answers to questions with several variables: the best tuples of entities."""

from __future__ import annotations

import sys
from dataclasses import replace

import torch

from tacit.engine.answers.answers import Answers
from tacit.engine.answers.execution import LIKELY_LOG, Execution
from tacit.engine.logic import ZERO
from tacit.engine.search.tuple_search import TupleRequest, Tuples, TupleSearch
from tacit.query.plans.symbolic import count_tuples

COUNTED = 100_000  # known tuples, at most; beyond it the number is a lower bound
MOST_TUPLES = 100_000  # in a list of all known or likely ones, which must fit in memory


def tuple_answers(execution: Execution) -> Answers:
    """Answer a question by the best tuples of entities."""
    plan = execution.plan
    context = execution.context
    bound = execution.bound
    entities, relations = execution.slots
    search, tuples = _search(execution)
    held = {each.variable for each in plan.held}
    start = execution.span.start
    answers = []
    has_reasons = []
    explainer = context.reasoner.explaining(by_scores=True)
    columns = (column[start:].tolist() for column in vars(tuples).values())
    for ids, score, known in zip(*columns, strict=True):
        values = dict(zip(plan.targets, ids, strict=True))
        filled = torch.tensor([[*bound.entities, *(values[each.variable] for each in plan.held)]])
        (last,) = (entity for variable, entity in values.items() if variable not in held)
        why = execution.explain(explainer, replace(plan, held=()), filled, relations, last, known)
        has_reasons.append(why is not None)  # `why` itself holds sets of all entities
        named = {bound.compiled.variables[target]: i for target, i in values.items()}
        answers.append(execution.label(named, score, known, why, last))
    size = context.graph.num_entities
    count = 0
    if context.index is not None:
        slots = entities.numpy(), relations.numpy()
        count = count_tuples(plan, *slots, context.index, size, COUNTED)
    capped = count == COUNTED
    possible = sys.maxsize if capped else execution.possible(size ** len(plan.targets), count)
    return execution.collect(
        answers,
        search.certified,
        has_reasons=has_reasons,
        known=count,
        possible=possible,
        known_at_least=capped,
        leading=max(0, search.leading - start),
    )


def _search(execution: Execution) -> tuple[TupleSearch, Tuples]:
    """Search the best tuples, and known or likely ones where these are requested."""
    context = execution.context
    bound = execution.bound
    span = execution.span
    entities, relations = execution.slots
    request = execution.request((), sys.maxsize)
    likely_only = request.floor == LIKELY_LOG
    search = TupleSearch(
        context.reasoner,
        execution.plan,
        relations,
        context.index,
        None if context.reasoner.exact else context.k,
        TupleRequest(
            request.count,
            None if execution.new else execution.least,
            execution.new,
            execution.proves,
            request.floor,
            bound.known is True,
            wide=likely_only,
        ),
    )
    tuples = search.run(entities).tuples
    if span.fewest is None or (not likely_only and len(tuples) < request.count):
        return search, tuples
    count = min(span.stop, MOST_TUPLES)
    known_first = search.request.least is not None
    last_is_likely = len(tuples) and (
        (bool(tuples.known[-1]) and known_first) or float(tuples.scores[-1]) >= LIKELY_LOG
    )
    if last_is_likely and not likely_only and context.reasoner.probabilities:
        likely = replace(search.request, count=count, floor=LIKELY_LOG, wide=True)
        more = replace(search, request=likely).run(entities)
        tuples = tuples.joined(more.tuples, count, known_first)
        search.certified = more.certified and search.certified
        search.leading = max(search.leading, more.leading)
    if not execution.known_are_likely and not execution.new:
        known_only = replace(search.request, count=count, floor=ZERO, only=True, wide=True)
        more = replace(search, request=known_only).run(entities)
        tuples = tuples.joined(more.tuples, count, known_first)
        search.certified = more.certified and search.certified
    return search, tuples
