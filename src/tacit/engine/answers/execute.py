"""Executes bound questions: for entities, tuples, relations, truth values and counts.

Each kind is a few ordinary plans of one reasoner: a tuple is a row of the last variable with the
others filled in, a yes/no question a plan with the same value at every entity, a relation that
plan once for each relation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tacit.engine.answers.answers import Answers, Count
from tacit.engine.answers.execution import (
    LIKELY_LOG,
    Execution,
    known_answers,
    known_truths,
)
from tacit.engine.logic import ZERO, gather_columns
from tacit.engine.questions import AskOptions, BoundQuery, threads_to_answer
from tacit.engine.reasoner import Explanation, Reasoner
from tacit.engine.search.tuple_search import TupleRequest, Tuples, TupleSearch
from tacit.engine.settings import NOTHING_KNOWN
from tacit.engine.top_k import TopKRequest, TopKResult, at_least, unsettled, within_rounding
from tacit.errors import LimitError, PlanError, QueryError, SettingsError
from tacit.query.plans.plan import Complement, Plan
from tacit.query.plans.symbolic import count_tuples

if TYPE_CHECKING:
    from tacit.engine.parts import EngineParts

COUNTED = 100_000  # known tuples, at most; beyond it the number is a lower bound
MOST_TUPLES = 100_000  # in a list of all known or likely ones, which must fit in memory
_NOUNS = {
    "truth": "yes or no",
    "count": "a count",
    "tuples": "several variables",
    "relations": "a relation",
}


@torch.inference_mode(False)  # caches also serve callers outside of inference mode
@torch.no_grad()
def execute(
    parts: EngineParts, questions: Sequence[BoundQuery], options: AskOptions
) -> list[Answers]:
    """Answer bound questions, those of one kind and plan in batches.

    A yes/no question has one answer on every page; a count leaves out scores below the page's
    minimum.
    """
    reasoner = parts.search  # first, since it refuses settings that do not fit together
    if options.new and parts.index is None:
        raise SettingsError(NOTHING_KNOWN, "new")
    groups: dict[tuple[str, Plan], list[int]] = {}
    for place, question in enumerate(questions):
        groups.setdefault((question.query.kind, question.compiled.plan), []).append(place)
    answers: dict[int, Answers] = {}
    plans = [question.compiled.plan for question in questions]
    with threads_to_answer(plans, parts.graph.num_entities):
        for (kind, plan), places in groups.items():
            _check_supported(reasoner, kind, plan)
            step = reasoner.batch(plan)
            for start in range(0, len(places), step):
                batch = places[start : start + step]
                executions = [Execution.of(parts, questions[i], options) for i in batch]
                answers |= zip(batch, _ANSWER_BY_KIND[kind](executions), strict=True)
    return [answers[place] for place in range(len(questions))]


def _check_supported(reasoner: Reasoner, kind: str, plan: Plan) -> None:
    """Raise a `PlanError` for a question that the reasoner cannot answer."""
    if kind != "entities" and not reasoner.probabilities:
        raise PlanError(
            f"the question asks for {_NOUNS[kind]}, and {reasoner.name} orders the answers to one "
            f"question for entities, by scores that are no probabilities; {reasoner.remedy}"
        )
    for root in plan.roots:
        reasoner.check(replace(plan, root=root, enumerated=()))


def _entities(executions: Sequence[Execution]) -> Iterator[Answers]:
    """Answer questions of one plan by the best entities.

    They are searched as one batch, or one by one where reasons are needed.
    """
    parts = executions[0].parts
    plan = executions[0].plan
    entities, relations = map(torch.cat, zip(*(each.slots for each in executions), strict=True))
    known = [
        [i for i in ids if i not in execution.excluded]
        for execution, ids in zip(
            executions, known_answers(parts, plan, entities, relations), strict=True
        )
    ]
    requests = [
        execution.request(ids, parts.graph.num_entities)
        for execution, ids in zip(executions, known, strict=True)
    ]
    results: list[TopKResult] = []
    for place, execution in enumerate(executions):
        explanation = execution.explain_best(requests[place])
        if explanation is None and not results:
            results = parts.search.top(plan, entities, relations, requests)
        best = results[place] if explanation is None else explanation.best
        yield _entity_answers(execution, known[place], requests[place], best, explanation)


def _entity_answers(
    execution: Execution,
    known: Sequence[int],
    request: TopKRequest,
    best: TopKResult,
    explanation: Explanation | None,
) -> Answers:
    """Label the best entities, extended by likely ones where these are requested."""
    size = execution.parts.graph.num_entities
    (variable,) = execution.bound.compiled.variables[:1]
    explanations: dict[int, Explanation | None] = dict.fromkeys(best.ids, explanation)

    def search(more: TopKRequest) -> TopKResult:
        result, explanation = execution.search(more)
        explanations.update(dict.fromkeys(result.ids, explanation))
        return result

    best = execution.with_likely(best, request, known, size, search)
    known_ids = set(known)
    places = execution.paged([[i] for i in best.ids], [variable])
    listed = [(best.ids[place], best.scores[place]) for place in places]
    possible = execution.possible(size, len(known))
    return execution.collect(
        (
            execution.label({variable: i}, score, i in known_ids, explanations[i], i)
            for i, score in listed
        ),
        best.certified,
        known=len(known),
        possible=possible if execution.page is None else len(best.ids),
        has_reasons=explanation is not None,
        rows=best.rows,
        estimated=best.estimated,
        leading=max(0, best.leading - execution.span.start) if execution.page is None else 0,
    )


def _truth(execution: Execution) -> Answers:
    """Answer whether a formula holds: one answer without values."""
    known = bool(known_truths(execution.parts, execution.plan, *execution.slots)[0])
    best, explanation = execution.search(
        TopKRequest(1, [0] if known else (), execution.known_worth)
    )
    score = best.scores[0] if best.scores else ZERO
    return execution.collect(
        [execution.label({}, score, known, explanation, 0)],
        best.certified,
        rows=best.rows,
        estimated=best.estimated,
    )


def _relations(execution: Execution) -> Answers:
    """Answer by the relations between two entities, known ones first."""
    plan = execution.plan
    reasoner = execution.parts.search
    (variable,) = execution.bound.compiled.variables
    forward = torch.arange(0, execution.parts.graph.num_relations, 2)[:, None]  # [R, 1]
    size = len(forward)
    ends = execution.slots[0].expand(size, -1)
    step = reasoner.batch(plan)
    batches = zip(ends.split(step), forward.split(step), strict=True)
    scores = torch.cat([reasoner.scores(plan, *batch)[:, 0].cpu() for batch in batches])
    known = known_truths(execution.parts, plan, ends, forward).nonzero()[:, 0].tolist()
    # a single atom has no hops to miss
    exact = reasoner.exact or (
        execution.proves and reasoner.bounds(plan, ends[:1], forward[:1]) is not None
    )
    bounds = (scores, scores) if exact else None
    request = execution.request(known, size)

    def search(request: TopKRequest) -> TopKResult:
        return request.best(scores, bounds=bounds)

    best = execution.with_likely(search(request), request, known, size, search)
    known_ids = set(known)
    start = execution.span.start
    answers = []
    for place, score in zip(best.ids[start:], best.scores[start:], strict=True):
        slots = ends[:1], forward[place : place + 1]
        values = {variable: 2 * place}
        answers.append(
            execution.answer_with_reasons(values, score, place in known_ids, plan, slots, 0)
        )
    return execution.collect(
        answers,
        best.certified,
        known=len(known),
        possible=execution.possible(size, len(known)),
    )


def _count(execution: Execution) -> Answers:
    """Count the answers to a question, without a list of them."""
    reasoner = execution.parts.search
    plan = execution.plan
    slots = execution.slots
    bound = execution.bound
    if bound.limit is not None or bound.offset:
        raise QueryError("a count is of all answers; leave LIMIT and OFFSET out")
    (implied,) = known_answers(execution.parts, plan, *slots)
    known = [i for i in implied if i not in execution.excluded]
    values = gather_columns(reasoner.shards, reasoner.scores(plan, *slots))[0]
    floor = execution.span.floor
    least = execution.least
    ids = _ids(known, values)
    worth = values[ids] if least is None else at_least(least, values[ids])
    ids = ids[worth >= floor]  # the same scores by which known answers are listed
    scores = values.masked_fill(values < floor, ZERO).double().exp()
    scores = scores.index_fill(0, _ids(execution.excluded, scores), 0.0)
    if bound.known:
        scores = torch.zeros_like(scores).index_copy(0, ids, scores[ids])
    if execution.new:
        scores = scores.index_fill(0, ids, 0.0)
    elif not plan.has(Complement):
        scores = scores.index_fill(0, ids, 1.0)
    certified: bool | None = True if reasoner.exact else None
    if execution.proves and not reasoner.exact:
        bounds = reasoner.bounds(plan, *slots)
        certified = None if bounds is None else not bool(unsettled(*bounds).any())
        near = floor > ZERO and bool(within_rounding(values, values.new_tensor(floor)).any())
        certified = certified and not near  # rounding may cross the floor
    counted = Count(0 if execution.new else len(ids), float(scores.sum()))
    return execution.collect((), certified, known=len(known), counted=counted)


def _ids(entities: Iterable[int], scores: Tensor) -> Tensor:
    return torch.tensor(list(entities), dtype=torch.long, device=scores.device)


def _tuples(execution: Execution) -> Answers:
    """Answer a question by the best tuples of entities."""
    plan = execution.plan
    parts = execution.parts
    bound = execution.bound
    entities, relations = execution.slots
    search, tuples = _search_tuples(execution)
    last_plan = replace(plan, enumerated=())  # the row of the last variable
    names = [bound.compiled.variables[v] for v in plan.targets]
    places = execution.paged(tuples.ids.tolist(), names)
    answers = []
    columns = (column[places].tolist() for column in vars(tuples).values())
    for ids, score, known in zip(*columns, strict=True):
        named = dict(zip(names, ids, strict=True))
        row = dict(zip(plan.targets, ids, strict=True))
        filled = torch.tensor(
            [[*bound.entities, *(row.pop(each.variable) for each in plan.enumerated)]]
        )
        (last,) = row.values()
        answers.append(
            execution.answer_with_reasons(named, score, known, last_plan, (filled, relations), last)
        )
    size = parts.graph.num_entities
    count = 0
    if parts.index is not None:
        slots = entities.numpy(), relations.numpy()
        count = count_tuples(plan, *slots, parts.index, size, COUNTED, parts.known_values)
    capped = count == COUNTED
    possible = sys.maxsize if capped else execution.possible(size ** len(plan.targets), count)
    if execution.page is not None:
        possible = len(tuples)
    return execution.collect(
        answers,
        search.certified,
        known=count,
        possible=possible,
        known_at_least=capped,
        leading=max(0, search.leading - execution.span.start) if execution.page is None else 0,
    )


def _search_tuples(execution: Execution) -> tuple[TupleSearch, Tuples]:
    """Search the best tuples, and known or likely ones where these are requested."""
    parts = execution.parts
    bound = execution.bound
    span = execution.span
    entities, relations = execution.slots
    request = execution.request((), sys.maxsize if execution.page is None else MOST_TUPLES + 1)
    likely_only = request.floor == LIKELY_LOG
    search = TupleSearch(
        parts.search,
        execution.plan,
        relations,
        parts.index,
        None if parts.search.exact else parts.settings.k,
        TupleRequest(
            request.count,
            None if execution.new else execution.least,
            execution.new,
            execution.proves,
            request.floor,
            bound.known is True,
            wide=likely_only,
        ),
        parts.known_values,
    )
    tuples = search.run(entities).tuples
    if execution.page is not None and len(tuples) > MOST_TUPLES:
        raise LimitError(
            f"more than {MOST_TUPLES:,} answers would be ordered; narrow the question, or ask for "
            "higher scores by `min_score`"
        )
    if span.fewest is None or (not likely_only and len(tuples) < request.count):
        return search, tuples
    count = min(span.stop, MOST_TUPLES)
    known_first = search.request.least is not None
    last_is_likely = len(tuples) and (
        (bool(tuples.known[-1]) and known_first) or float(tuples.scores[-1]) >= LIKELY_LOG
    )
    if last_is_likely and not likely_only and parts.search.probabilities:
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


_ANSWER_BY_KIND: Mapping[str, Callable[[Sequence[Execution]], Iterable[Answers]]] = {
    "entities": _entities,
    "truth": partial(map, _truth),
    "relations": partial(map, _relations),
    "tuples": partial(map, _tuples),
    "count": partial(map, _count),
}
