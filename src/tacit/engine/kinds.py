"""Answers of every kind but lists of entities: tuples, relations, whether a formula holds, and how many answers it has.

Each is a few ordinary plans of the same reasoner: a tuple is a row of the last variable with the others filled in, a
yes/no question a plan whose value is the same whatever the entity, a relation that plan once for each relation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tacit.engine.answers import Answer, Answers, Count, Witness
from tacit.engine.found import Wanted, unsettled
from tacit.engine.logic import ZERO
from tacit.engine.paging import Page, Span
from tacit.engine.sharded import whole
from tacit.engine.tuples import TupleSearch
from tacit.engine.witnesses import witness
from tacit.errors import QueryError
from tacit.query.plan import Complement, Plan
from tacit.query.symbolic import count_tuples, holds

if TYPE_CHECKING:
    from tacit.engine.asked import Asked
    from tacit.engine.engine import Engine


def answered(engine: Engine, asked: Asked, page: Page, paths: int) -> Answers:
    """The answers to a question that asks for anything but entities; with `paths`, as many reasons for each.

    A yes/no question has one answer on every page; of a count, what scores lower than a page asks for is no part.
    """
    if engine.encoder is not None:
        engine.encoder.check_kind(asked.query.kind)
    answer = {"truth": _truth, "relations": _relations, "tuples": _tuples, "count": _count}[asked.query.kind]
    span = page.of(asked.limit, asked.offset, asked.min_score)
    entities, relations = torch.tensor([asked.entities]).long(), torch.tensor([asked.relations]).long()
    question = _Question(engine, asked, entities, relations, paths)
    return replace(
        answer(question, span),
        query=str(asked.query),
        settings=engine.about | {"new": asked.new},
        kind=asked.query.kind,
        variables=tuple(target.name for target in asked.query.targets),
        offset=0 if asked.query.kind in ("truth", "count") else span.start,
        prefixes=engine.graph.prefixes,
    )


class _Question:
    """One question with its slots filled, `[1, E]` and `[1, R]`, and the number of reasons wanted for each answer."""

    def __init__(self, engine: Engine, asked: Asked, entities: Tensor, relations: Tensor, paths: int) -> None:
        self.engine, self.graph, self.search, self.index = engine, engine.graph, engine.search, engine.index
        self.asked, self.prepared, self.plan, self.new = asked, asked.prepared, asked.prepared.plan, asked.new
        self.entities, self.relations, self.paths = entities, relations, paths

    @property
    def proving(self) -> bool:
        """Whether someone wants to know if the search provably missed nothing."""
        return bool(self.paths) or self.engine.way == "certified"

    @property
    def least(self) -> float:
        """What a known answer is worth at least, as a log-score."""
        least = self.engine.least(self.plan)
        return ZERO if least is None else least

    def holds(self, entities: Tensor, relations: Tensor) -> Tensor:
        """Whether the known facts imply the formula of a question without answer variable, `[B]`."""
        if self.index is None:
            return torch.zeros(len(relations), dtype=torch.bool)
        slots = entities.numpy(), relations.numpy()
        return torch.from_numpy(holds(self.plan, *slots, self.index, self.graph.num_entities))

    def witnesses(
        self, entities: Tensor, relations: Tensor, answer: int, plan: Plan, known: bool
    ) -> tuple[Witness, ...] | None:
        """The reasons for an answer to the question with its slots filled so; None where the search has none."""
        wanted = Wanted(1, [answer], self.least if known else ZERO, only=True)
        why = self.search.within_beam().explain(plan, entities, relations, wanted) if self.paths else None
        if why is None:
            return None
        return tuple(witness(self.graph, self.prepared, proof) for proof in why.proofs(answer, self.paths))

    def explained(self, reasons: list[tuple[Witness, ...] | None]) -> bool | None:
        """Whether there are reasons; None where nobody asked."""
        return None not in reasons if self.paths else None


def _truth(question: _Question, span: Span) -> Answers:
    """Whether a formula holds: one answer without values."""
    plan, slots = question.plan, (question.entities, question.relations)
    known = bool(question.holds(*slots)[0])
    wanted = Wanted(1, [0] if known else (), question.least)
    why = question.search.explain(plan, *slots, wanted) if question.paths else None
    found = question.search.top(plan, *slots, [wanted])[0] if why is None else why.found
    score = found.scores[0] if found.scores else ZERO
    proofs = why.proofs(0, question.paths) if why is not None else []
    witnesses = tuple(witness(question.graph, question.prepared, proof) for proof in proofs)
    answer = Answer("", -1, math.exp(score), score, known, witnesses)
    explained = why is not None if question.paths else None
    return Answers("", (answer,), found.certified, explained=explained, rows=found.rows, estimated=found.estimated)


def _relations(question: _Question, span: Span) -> Answers:
    """The relations between two entities, known ones first."""
    plan, search, (variable,) = question.plan, question.search, question.prepared.variables
    forward = torch.arange(0, question.graph.num_relations, 2)[:, None]  # [R, 1]
    ends = question.entities.expand(len(forward), -1)
    step = search.batch(plan)
    parts = zip(ends.split(step), forward.split(step), strict=True)
    scores = torch.cat([search.scores(plan, *part)[:, 0].cpu() for part in parts])
    known = question.holds(ends, forward).nonzero()[:, 0].tolist()
    new, only = question.new, question.asked.known is True
    first, without = ((), known) if new else (known, ())
    wanted = Wanted(span.stop, first, question.least, without, span.floor, only)
    sure = search.exact or (question.proving and search.bounds(plan, ends[:1], forward[:1]) is not None)
    found = wanted.found(scores, bounds=(scores, scores) if sure else None)  # a single atom has no hops to miss
    labels, there, answers, reasons = question.graph.relations, set(known), [], []
    for place, score in zip(found.ids[span.start :], found.scores[span.start :], strict=True):
        relation = int(forward[place, 0])
        why = question.witnesses(question.entities, forward[place : place + 1], 0, plan, place in there)
        reasons.append(why)
        label, name = labels[relation], labels.name(relation)
        given = {variable: label}, {variable: name}
        answers.append(Answer(label, relation, math.exp(score), score, place in there, why or (), name, *given))
    left_out = len(known) if new else None
    return Answers("", tuple(answers), found.certified, explained=question.explained(reasons), left_out=left_out)


def _tuples(question: _Question, span: Span) -> Answers:
    """The best tuples of entities."""
    engine, plan, index, new = question.engine, question.plan, question.index, question.new
    search = TupleSearch(
        question.search, plan, question.relations, index, None if question.search.exact else engine.settings.k,
        span.stop, None if new else engine.least(plan), new, question.proving, span.floor, question.asked.known is True,
    ).run(question.entities)  # fmt: skip
    names, answers, reasons = [question.prepared.variables[target] for target in plan.targets], [], []
    held = {each.variable for each in plan.held}
    listed = (part[span.start :].tolist() for part in vars(search.found).values())
    for ids, score, known in zip(*listed, strict=True):
        by_variable = dict(zip(plan.targets, ids, strict=True))
        filled = torch.tensor([[*question.asked.entities, *(by_variable[each.variable] for each in plan.held)]])
        (last,) = (entity for variable, entity in by_variable.items() if variable not in held)
        why = question.witnesses(filled, question.relations, last, replace(plan, held=()), known)
        reasons.append(why)
        labels = {name: question.graph.entities[i] for name, i in zip(names, ids, strict=True)}
        called = {name: question.graph.entities.name(i) for name, i in zip(names, ids, strict=True)}
        answers.append(Answer("", -1, math.exp(score), score, known, why or (), "", labels, called))
    left_out = None
    if new and index is not None:
        slots = question.entities.numpy(), question.relations.numpy()
        left_out = count_tuples(plan, *slots, index, question.graph.num_entities)
    return Answers(
        "", tuple(answers), search.certified, explained=question.explained(reasons), left_out=left_out,
        leading=max(0, search.leading - span.start),
    )  # fmt: skip


def _count(question: _Question, span: Span) -> Answers:
    """How many answers there are, of those that SPARQL asks for; no list of them."""
    search, plan, slots = question.search, question.plan, (question.entities, question.relations)
    asked, labels = question.asked, question.graph.entities
    if asked.limit is not None or asked.offset:
        raise QueryError("a count is of all answers; leave LIMIT and OFFSET out")
    known = question.engine.known(plan, *slots)[0]
    scores = whole(search.shards, search.scores(plan, *slots))[0]
    scores = scores.masked_fill(scores < span.floor, ZERO).double().exp()
    if asked.among is not None:
        among = {labels.id(label) for label in asked.among}
        known = [i for i in known if i in among]
        scores = scores.index_fill(0, _ids(set(range(len(labels))) - among, scores), 0.0)
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
