"""The answers of every kind: entities, tuples, relations, truth values and counts.

Each kind is a few ordinary plans of the same reasoner: a tuple is a row of the last variable with
the others filled in, a yes/no question a plan with the same value at every entity, a relation that
plan once for each relation.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tacit.engine.answers.answers import LIKELY, Answer, Answers, Count
from tacit.engine.answers.paging import Page, lowest
from tacit.engine.answers.witnesses import witness
from tacit.engine.atoms.sharded import whole
from tacit.engine.logic import ZERO
from tacit.engine.questions import BoundQuery
from tacit.engine.reasoner import Explanation, Reasoner
from tacit.engine.search.top_k import TopKRequest, TopKResult, at_least, unsettled, within_rounding
from tacit.engine.search.tuple_search import Tuples, TupleSearch
from tacit.errors import PlanError, QueryError
from tacit.query.plans.plan import Complement, Plan
from tacit.query.plans.symbolic import count_tuples, holds

if TYPE_CHECKING:
    from tacit.engine.engine import Engine

_ALONE = "orders the answers to one question for entities, by scores that are no probabilities"
_LIKELY = lowest(LIKELY)
COUNTED = 100_000  # known tuples, at most; beyond it the number is a lower bound
MOST_TUPLES = 100_000  # in a list of all known or likely ones, which must fit in memory
_KINDS = {
    "truth": "yes or no",
    "count": "a count",
    "tuples": "several variables",
    "relations": "a relation",
}


def answered(engine: Engine, bound: Sequence[BoundQuery], page: Page, paths: int) -> list[Answers]:
    """Answer questions of one kind and plan; with `paths`, with so many reasons each.

    A yes/no question has one answer on every page; a count leaves out scores below the page's
    minimum.
    """
    kind = bound[0].query.kind
    search = engine.search
    if kind != "entities" and not search.probabilities:
        raise PlanError(
            f"the question asks for {_KINDS[kind]}, and {search.name} {_ALONE}; {search.remedy}"
        )
    plan = bound[0].prepared.plan
    for root in (*(held.ranking for held in plan.held), plan.root):
        search.check(replace(plan, root=root, held=()))
    questions = [_Question(engine, each, page, paths) for each in bound]
    if kind == "entities":
        return list(_entities(questions))
    answer = {"truth": _truth, "relations": _relations, "tuples": _tuples, "count": _count}[kind]
    return [answer(question) for question in questions]


class _Question:
    """One question with its slots filled, `[1, E]` and `[1, R]`, and the answers to list."""

    def __init__(self, engine: Engine, bound: BoundQuery, page: Page, paths: int) -> None:
        self.engine = engine
        self.graph = engine.graph
        self.search = engine.search
        self.index = engine.index
        self.bound = bound
        self.prepared = bound.prepared
        self.plan = bound.prepared.plan
        self.new = bound.new
        self.labels = (
            engine.graph.relations if bound.query.kind == "relations" else engine.graph.entities
        )
        self.slots = torch.tensor([bound.entities]).long(), torch.tensor([bound.relations]).long()
        self.span = page.of(
            bound.limit, bound.offset, bound.min_score, bool(bound.columns), bound.likely
        )
        self.paths = paths

    @property
    def variable(self) -> str:
        """The name of the only answer variable."""
        return self.prepared.variables[0]

    def answers(
        self,
        listed: Iterable[Answer],
        certified: bool | None,
        *,
        has_reasons: Iterable[bool] | None = None,
        known: int | None = None,
        possible: int = 0,
        **more: Any,
    ) -> Answers:
        """Wrap answers of any kind.

        `has_reasons` says of each whether it has reasons, `known` how many are known in all, and
        `possible` how many there may be.
        """
        query = self.bound.query
        listed = tuple(listed)
        end = self.span.start + len(listed)
        ended = self.span.fewest is not None or end >= self.span.stop
        answers = Answers(
            str(query),
            listed,
            certified,
            self.engine.config | {"new": self.new},
            explained=all(has_reasons) if self.paths and has_reasons is not None else None,
            left_out=known if self.new else None,
            known_total=known if query.kind not in ("truth", "count") else None,
            cut_by=self.span.ended_by if ended and end < possible else None,
            kind=query.kind,
            variables=tuple(target.name for target in query.targets),
            prefixes=self.graph.prefixes,
            offset=0 if query.kind in ("truth", "count") else self.span.start,
            ordered_by="" if self.search.probabilities else self.search.name,
            **more,
        )
        return answers.by_score() if self.bound.by_score else answers

    def answer(
        self, values: dict[str, int], score: float, known: bool, why: Explanation | None, end: int
    ) -> Answer:
        """Build an answer from the ids of its variables, with reasons that end at `end`."""
        if len(values) == 1:  # the fast path: there may be as many answers as entities
            ((variable, i),) = values.items()
            entity = self.labels[i]
            name = self.labels.name(i)
            labels = {variable: entity}
            names = {variable: name}
        else:
            entity = ""
            name = ""
            i = -1
            labels = {variable: self.labels[i] for variable, i in values.items()}
            names = {variable: self.labels.name(i) for variable, i in values.items()}
        proofs = why.proofs(end, self.paths, known) if why is not None else ()
        witnesses = tuple(
            [
                witness(self.graph, self.prepared, proof, known and not place)
                for place, proof in enumerate(proofs)
            ]
        )
        return Answer(entity, i, math.exp(score), score, known, witnesses, name, labels, names)

    @property
    def proving(self) -> bool:
        """Whether to find out if the search provably missed nothing."""
        return bool(self.paths) or self.engine.resolved_search == "certified"

    @cached_property
    def outside(self) -> set[int]:
        """The entities ruled out as answers, since SPARQL lists others as the only ones."""
        if self.bound.among is None:
            return set()
        labels = self.graph.entities
        return set(range(len(labels))) - {labels.id(label) for label in self.bound.among}

    @cached_property
    def least(self) -> float | None:
        """The least log-score of a known answer; None where known answers may be wrong."""
        if self.plan.has(Complement):  # a missing fact may make a denied part true
            return None
        # scores that only order answers may come as near to 1 as they like
        if not self.search.probabilities:
            return 0.0
        fact = torch.tensor(math.log(self.engine.settings.observed_score))
        return float(self.engine.logic.all([fact] * max(1, self.plan.num_relations)))

    @property
    def worth(self) -> float:
        """The least log-score of a known answer, with `-inf` where there is none."""
        return ZERO if self.least is None else self.least

    def request(self, known: Sequence[int], size: int, without: Iterable[int] = ()) -> TopKRequest:
        """Request the best of `size` answers: known ones first, worth at least `least`."""
        only = self.bound.known is True
        first = known if not self.new and (only or self.least is not None) else ()
        without = sorted({*without, *(known if self.new else ())})
        request = TopKRequest(
            min(size, self.span.stop), first, self.worth, without, self.span.floor, only
        )
        fewest = self.span.fewest
        if fewest is None:
            return request
        if not self.search.probabilities:  # scores do not say which are likely
            return replace(request, count=min(request.count, max(fewest, len(first))))
        if not fewest or (len(first) >= fewest and self.known_are_likely):
            return replace(request, floor=_LIKELY)
        return replace(request, count=min(request.count, fewest))

    @property
    def known_are_likely(self) -> bool:
        """Whether known answers go before others, and all of them are likely."""
        return self.least is not None and self.least >= _LIKELY

    def likely_too(
        self,
        best: TopKResult,
        request: TopKRequest,
        known: Sequence[int],
        size: int,
        search: Callable[[TopKRequest], TopKResult],
    ) -> TopKResult:
        """Extend the best answers by all known or likely ones that `search` finds, if asked to."""
        if self.span.fewest is None or (request.floor != _LIKELY and len(best.ids) < request.count):
            return best
        lists = [best]
        count = min(size, self.span.stop)
        ahead = set(request.first)
        last = best.scores[-1] if best.ids else ZERO
        if (
            self.search.probabilities
            and request.floor != _LIKELY
            and (last >= _LIKELY or set(best.ids[-1:]) & ahead)
        ):
            lists.append(search(replace(request, count=count, floor=_LIKELY)))
            if self.known_are_likely:
                return lists[-1]
        listed = {i for each in lists for i in each.ids}
        if not self.new and not listed.issuperset(known):
            lists.append(search(replace(request, count=count, first=known, floor=ZERO, only=True)))
        return _merged(lists, ahead, count)

    def possible(self, size: int, known: int) -> int:
        """How many answers there may be among `size` labels, of which `known` are known."""
        if self.bound.known or not self.search.predicts:
            return 0 if self.new else known
        return size - len(self.outside) - (known if self.new else 0)

    def holds(self, entities: Tensor, relations: Tensor) -> Tensor:
        """Whether the known facts imply a formula without answer variables, `[B]`."""
        if self.index is None:
            return torch.zeros(len(relations), dtype=torch.bool)
        slots = entities.numpy(), relations.numpy()
        return torch.from_numpy(holds(self.plan, *slots, self.index, self.graph.num_entities))

    def why(
        self,
        search: Reasoner,
        plan: Plan,
        entities: Tensor,
        relations: Tensor,
        answer: int,
        known: bool,
    ) -> Explanation | None:
        """Explain an answer to a plan with filled slots; None where the search cannot."""
        request = TopKRequest(1, [answer], self.worth if known else ZERO, only=True)
        return search.explain(plan, entities, relations, request) if self.paths else None


def _slots(questions: Sequence[_Question]) -> tuple[Tensor, Tensor]:
    """The entities and relations in the slots of questions of one plan: `[B, E]`, `[B, R]`."""
    entities, relations = zip(*(each.slots for each in questions), strict=True)
    return torch.cat(entities), torch.cat(relations)


def _searched(
    questions: Sequence[_Question], requests: Sequence[TopKRequest]
) -> Iterator[tuple[TopKResult, Explanation | None]]:
    """Search questions of one plan: as one batch, or one by one where reasons are needed."""
    search = questions[0].search
    plan = questions[0].plan
    listed = list[TopKResult]()
    for place, (question, each) in enumerate(zip(questions, requests, strict=True)):
        why = search.explaining().explain(plan, *question.slots, each) if question.paths else None
        if why is None and not listed:
            listed = search.top(plan, *_slots(questions), requests)
        yield listed[place] if why is None else why.best, why


def _entities(questions: Sequence[_Question]) -> Iterator[Answers]:
    """Answer questions of one plan by the best entities."""
    implied = questions[0].engine.known(questions[0].plan, *_slots(questions))
    size = questions[0].graph.num_entities
    known = [
        [i for i in ids if i not in q.outside] for q, ids in zip(questions, implied, strict=True)
    ]
    requests = [q.request(ids, size, q.outside) for q, ids in zip(questions, known, strict=True)]
    for question, ids, request, listed in zip(
        questions, known, requests, _searched(questions, requests), strict=True
    ):
        yield _listed(question, ids, request, *listed)


def _listed(
    question: _Question,
    known: Sequence[int],
    request: TopKRequest,
    best: TopKResult,
    why: Explanation | None,
) -> Answers:
    """Build the answers from the found entities, extended by likely ones where needed."""
    start = question.span.start
    known_ids = set(known)
    size = question.graph.num_entities
    variable = question.variable
    reasons: dict[int, Explanation | None] = dict.fromkeys(best.ids, why)

    def search(more: TopKRequest) -> TopKResult:
        ((others, because),) = _searched([question], [more])
        reasons.update((i, because) for i in others.ids)
        return others

    best = question.likely_too(best, request, known, size, search)
    listed = zip(best.ids[start:], best.scores[start:], strict=True)
    return question.answers(
        (
            question.answer({variable: i}, score, i in known_ids, reasons[i], i)
            for i, score in listed
        ),
        best.certified,
        has_reasons=[why is not None],
        known=len(known),
        possible=question.possible(size, len(known)),
        rows=best.rows,
        estimated=best.estimated,
        leading=max(0, best.leading - start),
    )


def _merged(lists: Sequence[TopKResult], ahead: set[int], count: int) -> TopKResult:
    """Merge lists of one question; the first list holds the best answers of all."""
    if len(lists) == 1:
        return lists[0]
    scores = {i: score for each in lists for i, score in zip(each.ids, each.scores, strict=True)}
    ids = sorted(scores, key=lambda i: (i not in ahead, -scores[i], i))[:count]
    verdicts = [each.certified for each in lists]
    rows = [each.rows for each in lists if each.rows is not None]
    certified = None if None in verdicts else all(verdicts)
    leading = 0 if certified else lists[0].proven or 0
    estimated = any(each.estimated for each in lists)
    return TopKResult(
        ids,
        [scores[i] for i in ids],
        certified,
        sum(rows) if rows else None,
        estimated,
        min(leading, len(ids)),
    )


def _truth(question: _Question) -> Answers:
    """Answer whether a formula holds: one answer without values."""
    known = bool(question.holds(*question.slots)[0])
    ((best, why),) = _searched([question], [TopKRequest(1, [0] if known else (), question.worth)])
    answer = question.answer({}, best.scores[0] if best.scores else ZERO, known, why, 0)
    return question.answers(
        [answer],
        best.certified,
        has_reasons=[why is not None],
        rows=best.rows,
        estimated=best.estimated,
    )


def _relations(question: _Question) -> Answers:
    """Answer by the relations between two entities, known ones first."""
    plan = question.plan
    search = question.search
    start = question.span.start
    (variable,) = question.prepared.variables
    forward = torch.arange(0, question.graph.num_relations, 2)[:, None]  # [R, 1]
    ends = question.slots[0].expand(len(forward), -1)
    step = search.batch(plan)
    parts = zip(ends.split(step), forward.split(step), strict=True)
    scores = torch.cat([search.scores(plan, *part)[:, 0].cpu() for part in parts])
    known = question.holds(ends, forward).nonzero()[:, 0].tolist()
    sure = search.exact or (
        question.proving and search.bounds(plan, ends[:1], forward[:1]) is not None
    )
    bounds = (scores, scores) if sure else None  # a single atom has no hops to miss
    request = question.request(known, len(forward))

    def listed(request: TopKRequest) -> TopKResult:
        return request.best(scores, bounds=bounds)

    best = question.likely_too(listed(request), request, known, len(forward), listed)
    known_ids = set(known)
    answers = []
    has_reasons = []
    explaining = search.explaining(by_scores=True)
    for place, score in zip(best.ids[start:], best.scores[start:], strict=True):
        along = forward[place : place + 1]
        why = question.why(explaining, plan, ends[:1], along, 0, place in known_ids)
        has_reasons.append(why is not None)  # `why` itself holds sets of all entities
        answers.append(question.answer({variable: int(along)}, score, place in known_ids, why, 0))
    possible = question.possible(len(forward), len(known))
    return question.answers(
        answers, best.certified, has_reasons=has_reasons, known=len(known), possible=possible
    )


def _tuples(question: _Question) -> Answers:
    """Answer by the best tuples of entities."""
    plan = question.plan
    index = question.index
    (entities, relations) = question.slots
    search, tuples = _tuple_search(question)
    held = {each.variable for each in plan.held}
    answers = []
    has_reasons = []
    listed = (part[question.span.start :].tolist() for part in vars(tuples).values())
    explaining = question.search.explaining(by_scores=True)
    for ids, score, known in zip(*listed, strict=True):
        by_variable = dict(zip(plan.targets, ids, strict=True))
        filled = torch.tensor(
            [[*question.bound.entities, *(by_variable[each.variable] for each in plan.held)]]
        )
        (last,) = (entity for variable, entity in by_variable.items() if variable not in held)
        why = question.why(explaining, replace(plan, held=()), filled, relations, last, known)
        has_reasons.append(why is not None)
        values = {question.prepared.variables[target]: i for target, i in by_variable.items()}
        answers.append(question.answer(values, score, known, why, last))
    size = question.graph.num_entities
    count = 0
    if index is not None:
        count = count_tuples(plan, entities.numpy(), relations.numpy(), index, size, COUNTED)
    more = {
        "known_at_least": count == COUNTED,
        "leading": max(0, search.leading - question.span.start),
    }
    possible = (
        sys.maxsize if count == COUNTED else question.possible(size ** len(plan.targets), count)
    )
    return question.answers(
        answers, search.certified, has_reasons=has_reasons, known=count, possible=possible, **more
    )


def _tuple_search(question: _Question) -> tuple[TupleSearch, Tuples]:
    """Search the best tuples, and known or likely ones where these are requested."""
    engine = question.engine
    span = question.span
    request = question.request((), sys.maxsize)
    search = TupleSearch(
        question.search,
        question.plan,
        question.slots[1],
        question.index,
        None if question.search.exact else engine.settings.k,
        request.count,
        None if question.new else question.least,
        question.new,
        question.proving,
        request.floor,
        question.bound.known is True,
        wide=request.floor == _LIKELY,
    )
    tuples = search.run(question.slots[0]).tuples
    if span.fewest is None or (request.floor != _LIKELY and len(tuples) < request.count):
        return search, tuples
    count = min(span.stop, MOST_TUPLES)
    if request.floor != _LIKELY and len(tuples):
        ahead = bool(tuples.known[-1]) and search.least is not None
        if question.search.probabilities and (ahead or float(tuples.scores[-1]) >= _LIKELY):
            more = replace(search, count=count, floor=_LIKELY, wide=True).run(question.slots[0])
            tuples = tuples.joined(more.tuples, count, search.least is not None)
            search.certified = more.certified and search.certified
            search.leading = max(search.leading, more.leading)
    if not question.known_are_likely and not question.new:
        more = replace(search, count=count, floor=ZERO, only=True, wide=True).run(question.slots[0])
        tuples = tuples.joined(more.tuples, count, search.least is not None)
        search.certified = more.certified and search.certified
    return search, tuples


def _count(question: _Question) -> Answers:
    """Count the answers to a question, without a list of them."""
    search = question.search
    plan = question.plan
    slots = question.slots
    bound = question.bound
    if bound.limit is not None or bound.offset:
        raise QueryError("a count is of all answers; leave LIMIT and OFFSET out")
    known = [i for i in question.engine.known(plan, *slots)[0] if i not in question.outside]
    values = whole(search.shards, search.scores(plan, *slots))[0]
    floor = question.span.floor
    ids = _ids(known, values)
    worth = values[ids] if question.least is None else at_least(question.least, values[ids])
    ids = ids[worth >= floor]  # the same scores by which known answers are listed
    scores = values.masked_fill(values < floor, ZERO).double().exp()
    scores = scores.index_fill(0, _ids(question.outside, scores), 0.0)
    if bound.known:
        scores = torch.zeros_like(scores).index_copy(0, ids, scores[ids])
    if question.new:
        scores = scores.index_fill(0, ids, 0.0)
    elif not plan.has(Complement):
        scores = scores.index_fill(0, ids, 1.0)
    certified: bool | None = True if search.exact else None
    if question.proving and not search.exact:
        bounds = search.bounds(plan, *slots)
        certified = None if bounds is None else not bool(unsettled(*bounds).any())
        near = floor > ZERO and bool(within_rounding(values, values.new_tensor(floor)).any())
        certified = certified and not near  # rounding may cross the floor
    counted = Count(0 if question.new else len(ids), float(scores.sum()))
    return question.answers((), certified, known=len(known), counted=counted)


def _ids(entities: Iterable[int], scores: Tensor) -> Tensor:
    return torch.tensor(list(entities), dtype=torch.long, device=scores.device)
