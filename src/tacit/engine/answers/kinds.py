"""Answers of every kind: entities, tuples of them, relations, whether a formula holds, and how many answers it has.

Each is a few ordinary plans of the same reasoner: a tuple is a row of the last variable with the others filled in, a
yes/no question a plan whose value is the same whatever the entity, a relation that plan once for each relation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tacit.engine.answers.answers import Answer, Answers, Count, Witness
from tacit.engine.answers.paging import Page
from tacit.engine.answers.witnesses import witness
from tacit.engine.asked import Asked
from tacit.engine.logic import ZERO
from tacit.engine.reasoner import Explanation, Reasoner
from tacit.engine.search.best_answers import BestAnswers, Wanted, unsettled
from tacit.engine.search.sharded import whole
from tacit.engine.search.tuple_search import TupleSearch
from tacit.errors import PlanError, QueryError
from tacit.graph.labels.vocabulary import Vocabulary
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
        return [question.told(answers) for question, answers in zip(questions, _entities(questions), strict=True)]
    answer = {"truth": _truth, "relations": _relations, "tuples": _tuples, "count": _count}[kind]
    return [question.told(answer(question)) for question in questions]


class _Question:
    """One question with its slots filled, `[1, E]` and `[1, R]`, the answers to list, and how many reasons for each."""

    def __init__(self, engine: Engine, asked: Asked, page: Page, paths: int) -> None:
        self.engine, self.graph, self.search, self.index = engine, engine.graph, engine.search, engine.index
        self.asked, self.prepared, self.plan, self.new = asked, asked.prepared, asked.prepared.plan, asked.new
        self.entities, self.relations = torch.tensor([asked.entities]).long(), torch.tensor([asked.relations]).long()
        self.span, self.paths = page.of(asked.limit, asked.offset, asked.min_score), paths

    def told(self, answers: Answers) -> Answers:
        """Answers with what is the same of every kind."""
        query, settings = self.asked.query, self.engine.about | {"new": self.new}
        variables = tuple(target.name for target in query.targets)
        offset = 0 if query.kind in ("truth", "count") else self.span.start
        answers = replace(
            answers, query=str(query), settings=settings, kind=query.kind, variables=variables, offset=offset,
            prefixes=self.graph.prefixes, ordered_by="" if self.search.probabilities else self.search.name,
        )  # fmt: skip
        return answers.by_score() if self.asked.by_score else answers

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

    def witnesses(self, why: Explanation | None, answer: int) -> tuple[Witness, ...]:
        """The reasons for an answer, as many as are wanted; none where the search has none."""
        proofs = why.proofs(answer, self.paths) if why is not None else ()
        return tuple(witness(self.graph, self.prepared, proof) for proof in proofs)

    def explained(self, told: Iterable[bool]) -> bool | None:
        """Whether all answers have reasons; None where nobody asked."""
        return all(told) if self.paths else None


def _slots(questions: Sequence[_Question]) -> tuple[Tensor, Tensor]:
    """What fills the slots of questions of one plan, `[B, E]` and `[B, R]`."""
    return torch.cat([each.entities for each in questions]), torch.cat([each.relations for each in questions])


def _searched(
    questions: Sequence[_Question], wanted: Sequence[Wanted]
) -> Iterator[tuple[BestAnswers, Explanation | None]]:
    """What a search finds for questions of one plan, which are asked together unless reasons are wanted of it."""
    search, plan, listed = questions[0].search, questions[0].plan, list[BestAnswers]()
    for place, (question, each) in enumerate(zip(questions, wanted, strict=True)):
        slots = question.entities, question.relations
        why = search.explaining().explain(plan, *slots, each) if question.paths else None
        if why is None and not listed:
            listed = search.top(plan, *_slots(questions), wanted)
        yield listed[place] if why is None else why.best, why


def _named(
    vocabulary: Vocabulary, i: int, variable: str, score: float, known: bool, witnesses: tuple[Witness, ...]
) -> Answer:
    label, name = vocabulary[i], vocabulary.name(i)
    return Answer(label, i, math.exp(score), score, known, witnesses, name, {variable: label}, {variable: name})


def _entities(questions: Sequence[_Question]) -> Iterator[Answers]:
    """The best entities, of questions of one plan."""
    implied = questions[0].engine.known(questions[0].plan, *_slots(questions))
    known = [[i for i in ids if i not in q.outside] for q, ids in zip(questions, implied, strict=True)]
    size, labels = questions[0].graph.num_entities, questions[0].graph.entities
    wanted = [q.wanted(ids, size, q.outside) for q, ids in zip(questions, known, strict=True)]
    for question, ids, (best, why) in zip(questions, known, _searched(questions, wanted), strict=True):
        start, there, variable = question.span.start, set(ids), question.prepared.variables[0]
        answers = tuple(
            _named(labels, i, variable, score, i in there, question.witnesses(why, i))
            for i, score in zip(best.ids[start:], best.scores[start:], strict=True)
        )
        yield Answers(
            "", answers, best.certified, explained=question.explained([why is not None]), rows=best.rows,
            left_out=len(ids) if question.new else None, estimated=best.estimated,
            leading=max(0, best.leading - start),
        )  # fmt: skip


def _truth(question: _Question) -> Answers:
    """Whether a formula holds: one answer without values."""
    known = bool(question.holds(question.entities, question.relations)[0])
    wanted = Wanted(1, [0] if known else (), question.worth)
    ((best, why),) = _searched([question], [wanted])
    score = best.scores[0] if best.scores else ZERO
    answer = Answer("", -1, math.exp(score), score, known, question.witnesses(why, 0))
    explained = question.explained([why is not None])
    return Answers("", (answer,), best.certified, explained=explained, rows=best.rows, estimated=best.estimated)


def _relations(question: _Question) -> Answers:
    """The relations between two entities, known ones first."""
    plan, search, start, (variable,) = question.plan, question.search, question.span.start, question.prepared.variables
    forward = torch.arange(0, question.graph.num_relations, 2)[:, None]  # [R, 1]
    ends = question.entities.expand(len(forward), -1)
    step = search.batch(plan)
    parts = zip(ends.split(step), forward.split(step), strict=True)
    scores = torch.cat([search.scores(plan, *part)[:, 0].cpu() for part in parts])
    known = question.holds(ends, forward).nonzero()[:, 0].tolist()
    sure = search.exact or (question.proving and search.bounds(plan, ends[:1], forward[:1]) is not None)
    bounds = (scores, scores) if sure else None  # a single atom has no hops to miss
    best = question.wanted(known, len(forward)).best(scores, bounds=bounds)
    labels, there, answers, told = question.graph.relations, set(known), [], []
    explaining = search.explaining(by_scores=True)
    for place, score in zip(best.ids[start:], best.scores[start:], strict=True):
        along = forward[place : place + 1]
        why = question.why(explaining, plan, question.entities, along, 0, place in there)
        told.append(why is not None)  # and no more: it remembers sets of all entities
        answers.append(_named(labels, int(along), variable, score, place in there, question.witnesses(why, 0)))
    left_out, explained = len(known) if question.new else None, question.explained(told)
    return Answers("", tuple(answers), best.certified, explained=explained, left_out=left_out)


def _tuples(question: _Question) -> Answers:
    """The best tuples of entities."""
    engine, plan, index, new, span = question.engine, question.plan, question.index, question.new, question.span
    search = TupleSearch(
        question.search, plan, question.relations, index, None if question.search.exact else engine.settings.k,
        span.stop, None if new else question.least, new, question.proving, span.floor, question.asked.known is True,
    ).run(question.entities)  # fmt: skip
    names, answers, told = [question.prepared.variables[target] for target in plan.targets], [], []
    held, labels = {each.variable for each in plan.held}, question.graph.entities
    listed = (part[span.start :].tolist() for part in vars(search.found).values())
    explaining = question.search.explaining(by_scores=True)
    for ids, score, known in zip(*listed, strict=True):
        by_variable = dict(zip(plan.targets, ids, strict=True))
        filled = torch.tensor([[*question.asked.entities, *(by_variable[each.variable] for each in plan.held)]])
        (last,) = (entity for variable, entity in by_variable.items() if variable not in held)
        why = question.why(explaining, replace(plan, held=()), filled, question.relations, last, known)
        told.append(why is not None)
        values = [{name: of(i) for name, i in zip(names, ids, strict=True)} for of in (labels.__getitem__, labels.name)]
        answers.append(Answer("", -1, math.exp(score), score, known, question.witnesses(why, last), "", *values))
    left_out = None
    if new and index is not None:
        slots = question.entities.numpy(), question.relations.numpy()
        left_out = count_tuples(plan, *slots, index, question.graph.num_entities)
    return Answers(
        "", tuple(answers), search.certified, explained=question.explained(told), left_out=left_out,
        leading=max(0, search.leading - span.start),
    )  # fmt: skip


def _count(question: _Question) -> Answers:
    """How many answers there are, of those that SPARQL asks for; no list of them."""
    search, plan, slots = question.search, question.plan, (question.entities, question.relations)
    asked = question.asked
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
    return Answers("", (), certified, counted=counted, left_out=len(known) if question.new else None)


def _ids(entities: Iterable[int], scores: Tensor) -> Tensor:
    return torch.tensor(list(entities), dtype=torch.long, device=scores.device)
