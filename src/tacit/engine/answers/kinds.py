"""Answers of every kind: entities, tuples of them, relations, whether a formula holds, and how many answers it has.

Each is a few ordinary plans of the same reasoner: a tuple is a row of the last variable with the others filled in, a
yes/no question a plan whose value is the same whatever the entity, a relation that plan once for each relation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tacit.engine.answers.answers import Answer, Answers, Count
from tacit.engine.answers.paging import Page
from tacit.engine.answers.witnesses import witness
from tacit.engine.asked import Asked
from tacit.engine.logic import ZERO
from tacit.engine.reasoner import Explanation, Reasoner
from tacit.engine.search.best_answers import BestAnswers, Wanted, unsettled
from tacit.engine.search.sharded import whole
from tacit.engine.search.tuple_search import TupleSearch
from tacit.errors import PlanError, QueryError
from tacit.query.plans.plan import Complement, Plan
from tacit.query.plans.symbolic import count_tuples, holds

if TYPE_CHECKING:
    from tacit.engine.engine import Engine

_ALONE = "orders the answers to one question for entities, by scores that are no probabilities"
_KINDS = {"truth": "yes or no", "count": "a count", "tuples": "several variables", "relations": "a relation"}


def answered(engine: Engine, asked: Sequence[Asked], page: Page, paths: int) -> list[Answers]:
    """The answers to questions of one kind and plan; with `paths`, as many reasons for each.

    A yes/no question has one answer on every page; of a count, what scores lower than a page asks for is no part.
    """
    kind, search = asked[0].query.kind, engine.search
    if kind != "entities" and not search.probabilities:
        raise PlanError(f"the question asks for {_KINDS[kind]}, and {search.name} {_ALONE}; {search.remedy}")
    plan = asked[0].prepared.plan
    for root in (*(held.ranking for held in plan.held), plan.root):
        search.check(replace(plan, root=root, held=()))
    questions = [_Question(engine, each, page, paths) for each in asked]
    if kind == "entities":
        return list(_entities(questions))
    answer = {"truth": _truth, "relations": _relations, "tuples": _tuples, "count": _count}[kind]
    return [answer(question) for question in questions]


class _Question:
    """One question with its slots filled, `[1, E]` and `[1, R]`, the answers to list, and how many reasons for each."""

    def __init__(self, engine: Engine, asked: Asked, page: Page, paths: int) -> None:
        self.engine, self.graph, self.search, self.index = engine, engine.graph, engine.search, engine.index
        self.asked, self.prepared, self.plan, self.new = asked, asked.prepared, asked.prepared.plan, asked.new
        self.labels = engine.graph.relations if asked.query.kind == "relations" else engine.graph.entities
        self.slots = torch.tensor([asked.entities]).long(), torch.tensor([asked.relations]).long()
        self.span, self.paths = page.of(asked.limit, asked.offset, asked.min_score), paths

    def answers(
        self, listed: Iterable[Answer], certified: bool | None, *, told: Iterable[bool] | None = None,
        known: int | None = None, **more: Any,
    ) -> Answers:  # fmt: skip
        """Answers of any kind: `told` says of each whether it has reasons, `known` how many are known in all."""
        query = self.asked.query
        answers = Answers(
            str(query), tuple(listed), certified, self.engine.about | {"new": self.new},
            explained=all(told) if self.paths and told is not None else None, left_out=known if self.new else None,
            kind=query.kind, variables=tuple(target.name for target in query.targets), prefixes=self.graph.prefixes,
            offset=0 if query.kind in ("truth", "count") else self.span.start,
            ordered_by="" if self.search.probabilities else self.search.name, **more,
        )  # fmt: skip
        return answers.by_score() if self.asked.by_score else answers

    def answer(self, values: dict[str, int], score: float, known: bool, why: Explanation | None, end: int) -> Answer:
        """An answer by the ids of its variables, with the reasons that it ends there, if the search has any."""
        if len(values) == 1:  # in haste: there may be as many answers as entities
            ((variable, i),) = values.items()
            entity, name = self.labels[i], self.labels.name(i)
            labels, names = {variable: entity}, {variable: name}
        else:
            entity, name, i = "", "", -1
            labels = {variable: self.labels[i] for variable, i in values.items()}
            names = {variable: self.labels.name(i) for variable, i in values.items()}
        proofs = why.proofs(end, self.paths) if why is not None else ()
        witnesses = tuple([witness(self.graph, self.prepared, proof) for proof in proofs])
        return Answer(entity, i, math.exp(score), score, known, witnesses, name, labels, names)

    @property
    def proving(self) -> bool:
        """Whether someone wants to know if the search provably missed nothing."""
        return bool(self.paths) or self.engine.way == "certified"

    @cached_property
    def outside(self) -> set[int]:
        """The entities that can be no answers, since they are not among those that SPARQL lists."""
        if self.asked.among is None:
            return set()
        labels = self.graph.entities
        return set(range(len(labels))) - {labels.id(label) for label in self.asked.among}

    @cached_property
    def least(self) -> float | None:
        """What a known answer is worth at least, as a log-score; None where what is known may yet be wrong."""
        if self.plan.has(Complement):  # what is not known to be true may yet be
            return None
        if not self.search.probabilities:  # what orders answers alone may come as near to 1 as it likes
            return 0.0
        fact = torch.tensor(math.log(self.engine.settings.observed_score))
        return float(self.engine.logic.all([fact] * max(1, self.plan.num_relations)))

    @property
    def worth(self) -> float:
        """The same, where anything is more than nothing."""
        return ZERO if self.least is None else self.least

    def wanted(self, known: Sequence[int], size: int, without: Iterable[int] = ()) -> Wanted:
        """Which of so many answers to list: known ones first, worth at least what that many observed facts are."""
        only = self.asked.known is True
        first = known if not self.new and (only or self.least is not None) else ()
        without = sorted({*without, *(known if self.new else ())})
        return Wanted(min(size, self.span.stop), first, self.worth, without, self.span.floor, only)

    def holds(self, entities: Tensor, relations: Tensor) -> Tensor:
        """Whether the known facts imply the formula of a question without answer variable, `[B]`."""
        if self.index is None:
            return torch.zeros(len(relations), dtype=torch.bool)
        slots = entities.numpy(), relations.numpy()
        return torch.from_numpy(holds(self.plan, *slots, self.index, self.graph.num_entities))

    def why(
        self, search: Reasoner, plan: Plan, entities: Tensor, relations: Tensor, answer: int, known: bool
    ) -> Explanation | None:
        """How a search explains an answer to a plan with its slots filled so; None where it does not."""
        wanted = Wanted(1, [answer], self.worth if known else ZERO, only=True)
        return search.explain(plan, entities, relations, wanted) if self.paths else None


def _slots(questions: Sequence[_Question]) -> tuple[Tensor, Tensor]:
    """What fills the slots of questions of one plan, `[B, E]` and `[B, R]`."""
    entities, relations = zip(*(each.slots for each in questions), strict=True)
    return torch.cat(entities), torch.cat(relations)


def _searched(
    questions: Sequence[_Question], wanted: Sequence[Wanted]
) -> Iterator[tuple[BestAnswers, Explanation | None]]:
    """What a search finds for questions of one plan, which are asked together unless reasons are wanted of it."""
    search, plan, listed = questions[0].search, questions[0].plan, list[BestAnswers]()
    for place, (question, each) in enumerate(zip(questions, wanted, strict=True)):
        why = search.explaining().explain(plan, *question.slots, each) if question.paths else None
        if why is None and not listed:
            listed = search.top(plan, *_slots(questions), wanted)
        yield listed[place] if why is None else why.best, why


def _entities(questions: Sequence[_Question]) -> Iterator[Answers]:
    """The best entities, of questions of one plan."""
    implied, size = questions[0].engine.known(questions[0].plan, *_slots(questions)), questions[0].graph.num_entities
    known = [[i for i in ids if i not in q.outside] for q, ids in zip(questions, implied, strict=True)]
    wanted = [q.wanted(ids, size, q.outside) for q, ids in zip(questions, known, strict=True)]
    for question, ids, (best, why) in zip(questions, known, _searched(questions, wanted), strict=True):
        start, there, variable = question.span.start, set(ids), question.prepared.variables[0]
        listed = zip(best.ids[start:], best.scores[start:], strict=True)
        yield question.answers(
            (question.answer({variable: i}, score, i in there, why, i) for i, score in listed), best.certified,
            told=[why is not None], known=len(ids), rows=best.rows, estimated=best.estimated,
            leading=max(0, best.leading - start),
        )  # fmt: skip


def _truth(question: _Question) -> Answers:
    """Whether a formula holds: one answer without values."""
    known = bool(question.holds(*question.slots)[0])
    ((best, why),) = _searched([question], [Wanted(1, [0] if known else (), question.worth)])
    answer = question.answer({}, best.scores[0] if best.scores else ZERO, known, why, 0)
    return question.answers([answer], best.certified, told=[why is not None], rows=best.rows, estimated=best.estimated)


def _relations(question: _Question) -> Answers:
    """The relations between two entities, known ones first."""
    plan, search, start, (variable,) = question.plan, question.search, question.span.start, question.prepared.variables
    forward = torch.arange(0, question.graph.num_relations, 2)[:, None]  # [R, 1]
    ends = question.slots[0].expand(len(forward), -1)
    step = search.batch(plan)
    parts = zip(ends.split(step), forward.split(step), strict=True)
    scores = torch.cat([search.scores(plan, *part)[:, 0].cpu() for part in parts])
    known = question.holds(ends, forward).nonzero()[:, 0].tolist()
    sure = search.exact or (question.proving and search.bounds(plan, ends[:1], forward[:1]) is not None)
    bounds = (scores, scores) if sure else None  # a single atom has no hops to miss
    best = question.wanted(known, len(forward)).best(scores, bounds=bounds)
    there, answers, told, explaining = set(known), [], [], search.explaining(by_scores=True)
    for place, score in zip(best.ids[start:], best.scores[start:], strict=True):
        along = forward[place : place + 1]
        why = question.why(explaining, plan, ends[:1], along, 0, place in there)
        told.append(why is not None)  # and no more: it remembers sets of all entities
        answers.append(question.answer({variable: int(along)}, score, place in there, why, 0))
    return question.answers(answers, best.certified, told=told, known=len(known))


def _tuples(question: _Question) -> Answers:
    """The best tuples of entities."""
    plan, index, new, span, (entities, relations) = (
        question.plan, question.index, question.new, question.span, question.slots,
    )  # fmt: skip
    search = TupleSearch(
        question.search, plan, relations, index, None if question.search.exact else question.engine.settings.k,
        span.stop, None if new else question.least, new, question.proving, span.floor, question.asked.known is True,
    ).run(entities)  # fmt: skip
    held, answers, told = {each.variable for each in plan.held}, [], []
    listed = (part[span.start :].tolist() for part in vars(search.found).values())
    explaining = question.search.explaining(by_scores=True)
    for ids, score, known in zip(*listed, strict=True):
        by_variable = dict(zip(plan.targets, ids, strict=True))
        filled = torch.tensor([[*question.asked.entities, *(by_variable[each.variable] for each in plan.held)]])
        (last,) = (entity for variable, entity in by_variable.items() if variable not in held)
        why = question.why(explaining, replace(plan, held=()), filled, relations, last, known)
        told.append(why is not None)
        values = {question.prepared.variables[target]: i for target, i in by_variable.items()}
        answers.append(question.answer(values, score, known, why, last))
    left_out = None
    if new and index is not None:
        left_out = count_tuples(plan, entities.numpy(), relations.numpy(), index, question.graph.num_entities)
    leading = max(0, search.leading - span.start)
    return question.answers(answers, search.certified, told=told, known=left_out, leading=leading)


def _count(question: _Question) -> Answers:
    """How many answers there are, of those that SPARQL asks for; no list of them."""
    search, plan, slots, asked = question.search, question.plan, question.slots, question.asked
    if asked.limit is not None or asked.offset:
        raise QueryError("a count is of all answers; leave LIMIT and OFFSET out")
    known = [i for i in question.engine.known(plan, *slots)[0] if i not in question.outside]
    scores = whole(search.shards, search.scores(plan, *slots))[0]
    scores = scores.masked_fill(scores < question.span.floor, ZERO).double().exp()
    scores = scores.index_fill(0, _ids(question.outside, scores), 0.0)
    ids = _ids(known, scores)
    if asked.known:
        scores = torch.zeros_like(scores).index_copy(0, ids, scores[ids])
    if question.new:
        scores = scores.index_fill(0, ids, 0.0)
    elif not plan.has(Complement):
        scores = scores.index_fill(0, ids, 1.0)
    certified: bool | None = True if search.exact else None
    if question.proving and not search.exact:
        bounds = search.bounds(plan, *slots)
        certified = None if bounds is None else not bool(unsettled(*bounds).any())
    counted = Count(0 if question.new else len(known), float(scores.sum()))
    return question.answers((), certified, known=len(known), counted=counted)


def _ids(entities: Iterable[int], scores: Tensor) -> Tensor:
    return torch.tensor(list(entities), dtype=torch.long, device=scores.device)
