"""The execution of a bound question: its requests to a reasoner, and its answers."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tacit.engine.answers.answer_values import EVERY_VALUE, AnswerValue, order_by_values
from tacit.engine.answers.answers import LIKELY, Answer, Answers
from tacit.engine.answers.evidence_finder import EvidenceFinder
from tacit.engine.answers.witnesses import witness
from tacit.engine.logic import ZERO
from tacit.engine.questions import AskOptions, BoundQuery, Span, lowest
from tacit.engine.reasoner import Explanation, Reasoner
from tacit.engine.top_k import TopKRequest, TopKResult
from tacit.errors import QueryError
from tacit.query.comparison import Value
from tacit.query.formula import Variable
from tacit.query.plans.plan import Complement, Plan
from tacit.query.plans.symbolic import answers as symbolic_sets
from tacit.query.plans.symbolic import holds
from tacit.query.question import resolve_name

if TYPE_CHECKING:
    from tacit.engine.parts import EngineParts

LIKELY_LOG = lowest(LIKELY)


def known_answers(
    parts: EngineParts, plan: Plan, entities: Tensor, relations: Tensor
) -> list[list[int]]:
    """The answers that the known facts imply, for each query."""
    if parts.index is None:
        return [[] for _ in relations]
    slots = entities.numpy(), relations.numpy()
    size = parts.graph.num_entities
    implied = symbolic_sets(plan, *slots, parts.index, size, parts.known_values)
    return [implied[row].tolist() for row in range(len(relations))]


def known_truths(parts: EngineParts, plan: Plan, entities: Tensor, relations: Tensor) -> Tensor:
    """Whether the known facts imply a formula without answer variables, `[B]`."""
    if parts.index is None:
        return torch.zeros(len(relations), dtype=torch.bool)
    slots = entities.numpy(), relations.numpy()
    size = parts.graph.num_entities
    return torch.from_numpy(holds(plan, *slots, parts.index, size, parts.known_values))


@dataclass(frozen=True, eq=False)
class Execution:
    """A bound question, and which of its answers to list with how many reasons each."""

    parts: EngineParts
    bound: BoundQuery
    span: Span
    paths: int
    new: bool  # whether known answers are left out
    page: Span | None = None  # the range of the answers ordered by values, which `span` searches

    @classmethod
    def of(cls, parts: EngineParts, bound: BoundQuery, options: AskOptions) -> Execution:
        """The execution of a question by the options of `ask`."""
        new = options.new or parts.settings.new or bound.known is False
        paths = options.paths if options.explain else 0
        span = options.span(bound, bound.likely)
        if not bound.order:
            return cls(parts, bound, span, paths, new)
        if not parts.search.probabilities:
            raise QueryError(
                f"scores of {parts.search.name} are no probabilities, so nothing says which "
                "answers are likely enough to be ordered by their values; use another search"
            )
        fewest = 0 if span.floor == ZERO else None
        page = Span(span.start, span.stop, span.floor, ended_by=span.ended_by)
        return cls(parts, bound, Span(0, sys.maxsize, span.floor, fewest), paths, new, page)

    @property
    def plan(self) -> Plan:
        """The plan of the question."""
        return self.bound.compiled.plan

    @cached_property
    def slots(self) -> tuple[Tensor, Tensor]:
        """The ids that fill the plan's slots, `[1, E]` and `[1, R]`."""
        bound = self.bound
        return torch.tensor([bound.entities]).long(), torch.tensor([bound.relations]).long()

    @property
    def proves(self) -> bool:
        """Whether to find out if the search provably missed nothing."""
        return bool(self.paths) or self.parts.resolved_search == "certified"

    @cached_property
    def excluded(self) -> set[int]:
        """The entities ruled out as answers, since SPARQL lists others as the only ones."""
        if self.bound.among is None:
            return set()
        entities = self.parts.graph.entities
        return set(range(len(entities))) - {entities.id(label) for label in self.bound.among}

    @cached_property
    def least(self) -> float | None:
        """The least log-score of a known answer; None where known answers may be wrong."""
        if self.plan.has(Complement):  # a missing fact may make a denied part true
            return None
        # scores that are no probabilities have no least value for a fact
        if not self.parts.search.probabilities:
            return 0.0
        fact = torch.tensor(math.log(self.parts.settings.observed_score))
        return float(self.parts.logic.all([fact] * max(1, self.plan.num_relations)))

    @property
    def known_worth(self) -> float:
        """The least log-score of a known answer, with `-inf` where there is none."""
        return ZERO if self.least is None else self.least

    @property
    def known_are_likely(self) -> bool:
        """Whether known answers go before others, and all of them are likely."""
        return self.least is not None and self.least >= LIKELY_LOG

    def request(self, known: Sequence[int], size: int) -> TopKRequest:
        """Request the best of `size` answers: known ones first, worth at least `least`."""
        bound = self.bound
        only = bound.known is True
        request = TopKRequest(
            min(size, self.span.stop),
            known if not self.new and (only or self.least is not None) else (),
            self.known_worth,
            sorted(self.excluded.union(known if self.new else ())),
            self.span.floor,
            only,
        )
        fewest = self.span.fewest
        if fewest is None:
            return request
        if not self.parts.search.probabilities:  # scores do not say which are likely
            fewest = max(fewest, len(request.first))
        elif not fewest or (len(request.first) >= fewest and self.known_are_likely):
            return replace(request, floor=LIKELY_LOG)
        return replace(request, count=min(request.count, fewest))

    def with_likely(
        self,
        best: TopKResult,
        request: TopKRequest,
        known: Sequence[int],
        size: int,
        search: Callable[[TopKRequest], TopKResult],
    ) -> TopKResult:
        """Extend the best answers by all known or likely ones that `search` finds, if requested."""
        likely_only = request.floor == LIKELY_LOG
        if self.span.fewest is None or (not likely_only and len(best.ids) < request.count):
            return best
        lists = [best]
        count = min(size, self.span.stop)
        first = set(request.first)
        last_is_likely = best.ids and (best.scores[-1] >= LIKELY_LOG or best.ids[-1] in first)
        if last_is_likely and not likely_only and self.parts.search.probabilities:
            lists.append(search(replace(request, count=count, floor=LIKELY_LOG)))
            if self.known_are_likely:
                return lists[-1]
        listed = {i for each in lists for i in each.ids}
        if not self.new and not listed.issuperset(known):
            lists.append(search(replace(request, count=count, first=known, floor=ZERO, only=True)))
        return _merge(lists, first, count)

    def paged(self, rows: Sequence[Sequence[int]], variables: Sequence[str]) -> list[int]:
        """The places of the found answers to list, by values where these order them.

        The rows are the ids of some variables.
        """
        places = list(range(len(rows)))
        if self.page is None:
            return places[self.span.start :]
        orders = self.bound.order
        values = [
            [self._value(each.value, dict(zip(variables, row, strict=True))) for each in orders]
            for row in rows
        ]
        places = order_by_values(values, [each.descending for each in orders])
        return places[self.page.start : self.page.stop]

    def _value(self, value: Value, ids: Mapping[str, int]) -> AnswerValue | None:
        """A value of an answer with these ids of variables."""
        term = value.term
        graph = self.parts.graph
        entity = (
            ids[term.name]
            if isinstance(term, Variable)
            else resolve_name(graph, graph.entities, term.name, self.bound.query.text)
        )
        found = AnswerValue.of(self.parts.comparisons, value.attribute, entity)
        if found is None or len(found.known) < 2:
            return found
        descending = any(each.value == value and each.descending for each in self.bound.order)
        return found.selected(self.bound.ranges.get(value, EVERY_VALUE), descending)

    def possible(self, size: int, known: int) -> int:
        """How many answers there may be among `size` labels, of which `known` are known."""
        left_out = known if self.new else 0
        if self.bound.known or not self.parts.search.predicts:
            return known - left_out
        return size - len(self.excluded) - left_out

    def explain_best(self, request: TopKRequest) -> Explanation | None:
        """Search the question with reasons; None where none are needed or the search has none."""
        if not self.paths:
            return None
        return self.parts.search.explaining().explain(self.plan, *self.slots, request)

    def search(self, request: TopKRequest) -> tuple[TopKResult, Explanation | None]:
        """Search the question, with reasons where they are needed."""
        if (explanation := self.explain_best(request)) is not None:
            return explanation.best, explanation
        (best,) = self.parts.search.top(self.plan, *self.slots, [request])
        return best, None

    @cached_property
    def _evidence(self) -> EvidenceFinder:
        return EvidenceFinder(self.parts)

    @cached_property
    def _explainer(self) -> Reasoner:
        return self.parts.search.explaining(by_scores=True)

    def answer_with_reasons(
        self,
        values: dict[str, int],
        score: float,
        known: bool,
        plan: Plan,
        slots: tuple[Tensor, Tensor],
        end: int,
    ) -> Answer:
        """Build an answer, with reasons where they are needed by a plan with filled slots."""
        explanation = None  # it holds sets of all entities, so it is dropped with each answer
        if self.paths:
            request = TopKRequest(1, [end], self.known_worth if known else ZERO, only=True)
            explanation = self._explainer.explain(plan, *slots, request)
        return self.label(values, score, known, explanation, end)

    def label(
        self,
        values: dict[str, int],
        score: float,
        known: bool,
        explanation: Explanation | None,
        end: int,
    ) -> Answer:
        """Build an answer from the ids of its variables, with reasons that end at `end`."""
        graph = self.parts.graph
        vocabulary = graph.relations if self.bound.query.kind == "relations" else graph.entities
        labels = {variable: vocabulary[i] for variable, i in values.items()}
        names = {variable: vocabulary.name(i) for variable, i in values.items()}
        entity = ""
        i = -1
        if len(values) == 1:
            ((variable, i),) = values.items()
            entity = labels[variable]
        proofs = explanation.proofs(end, self.paths, known) if explanation is not None else ()
        witnesses = tuple(
            witness(graph, self.bound.compiled, proof, known and not place, self._evidence)
            for place, proof in enumerate(proofs)
        )
        quantities = {name: self._value(value, values) for name, value in self.bound.values.items()}
        return Answer(
            entity, i, math.exp(score), score, known, witnesses, "", labels, names, quantities
        )

    def collect(
        self,
        answers: Iterable[Answer],
        certified: bool | None,
        *,
        known: int | None = None,
        possible: int = 0,
        has_reasons: bool = True,
        **details: Any,
    ) -> Answers:
        """Collect answers of any kind, of which `known` are known in all.

        `possible` is the number of answers that there may be; `has_reasons` is whether the search
        has any, even for an empty list.
        """
        query = self.bound.query
        span = self.page or self.span
        graph = self.parts.graph
        reasoner = self.parts.search
        listed = tuple(answers)
        is_list = query.kind not in ("truth", "count")
        reasons = self.paths and query.kind != "count"
        end = span.start + len(listed)
        ended = span.fewest is not None or end >= span.stop
        collected = Answers(
            str(query),
            listed,
            certified,
            self.parts.config | {"new": self.new},
            explained=has_reasons and all(each.witnesses for each in listed) if reasons else None,
            left_out=known if self.new else None,
            known_total=known if is_list else None,
            cut_by=span.ended_by if ended and end < possible else None,
            kind=query.kind,
            variables=tuple(target.name for target in query.targets),
            prefixes=graph.prefixes,
            offset=span.start if is_list else 0,
            ordered_by="" if reasoner.probabilities else reasoner.name,
            unknown=tuple(dict.fromkeys(map(str, self.bound.unknown))),
            quantities=tuple(self.bound.values),
            **details,
        )
        return collected.by_score() if self.bound.by_score and not self.bound.order else collected


def _merge(lists: Sequence[TopKResult], first: set[int], count: int) -> TopKResult:
    """Merge lists of one question; the first list holds the best answers of all."""
    if len(lists) == 1:
        return lists[0]
    scores = {i: score for each in lists for i, score in zip(each.ids, each.scores, strict=True)}
    ids = sorted(scores, key=lambda i: (i not in first, -scores[i], i))[:count]
    verdicts = [each.certified for each in lists]
    rows = [each.rows for each in lists if each.rows is not None]
    certified = None if None in verdicts else all(verdicts)
    leading = 0 if certified else lists[0].proven or 0
    return TopKResult(
        ids,
        [scores[i] for i in ids],
        certified,
        sum(rows) if rows else None,
        any(each.estimated for each in lists),
        min(leading, len(ids)),
    )
