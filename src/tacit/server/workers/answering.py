"""The work of a worker: turn jobs into replies by its engine."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache, partial
from threading import Event, Timer
from time import monotonic
from typing import Any

from tacit.engine.answers.answers import Answers
from tacit.engine.answers.evidence_finder import EvidenceFinder
from tacit.engine.completion import Completion
from tacit.engine.engine import Engine
from tacit.engine.entity_facts import known_facts, predicted_facts, with_evidence
from tacit.engine.listed_values import list_values, rank_entities
from tacit.engine.questions import BoundQuery, retry_individually
from tacit.errors import LimitError, QueryError, TacitError
from tacit.graph.value_statistics import statistics_of
from tacit.query.formula import leaves
from tacit.query.question import is_sparql
from tacit.query.question_reader import QuestionReader
from tacit.query.sparql.table_query import TableQuery
from tacit.run.rules import list_rules
from tacit.server.settings import Limits
from tacit.server.sparql_results import results, serialized
from tacit.server.workers.jobs import (
    FAULT,
    AttributeJob,
    CompletionJob,
    EntityJob,
    Job,
    Reply,
    RulesJob,
    ValuesJob,
    encoded,
    failure,
    refusal,
    success,
)

log = logging.getLogger("tacit.server")
KEPT_ENGINES = 8
_KEPT_RANKINGS = 16  # of attributes
_BATCHED_KINDS = ("ask", "explain", "sparql")  # what the engine answers in batches


class Answerer:
    """An engine and the limits within which it is asked."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        self.limits = limits
        self.engine = engine
        # The last few stay, since their facts take time to load.
        self._engine_with = lru_cache(KEPT_ENGINES)(
            lambda changes: engine.with_settings(**dict(changes))
        )
        self.reader = QuestionReader(engine.graph)
        self._ranked = lru_cache(_KEPT_RANKINGS)(partial(rank_entities, engine))
        self._statistics = lru_cache(_KEPT_RANKINGS)(partial(statistics_of, engine.graph))

    @property
    def config(self) -> dict[str, Any]:
        """The engine's config, with the model that answers and the available encoder."""
        parts = self.engine.parts
        override = parts.override
        encoder = parts.encoder_reasoner
        return self.engine.config | {
            "model": type(parts.scorer).__name__ if override is None else override.name,
            "encoder": None if encoder is None else encoder.name,
        }

    def replies(self, jobs: Sequence[Job]) -> list[Reply]:
        """The replies to jobs of one key, each right or wrong on its own."""
        distinct = list(dict.fromkeys(jobs))  # equal jobs are answered once
        outcomes = retry_individually(self._replies, distinct, Exception)
        replies = {
            job: _reply_of_outcome(job, outcome)
            for job, outcome in zip(distinct, outcomes, strict=True)
        }
        return [replies[job] for job in jobs]

    def _replies(self, jobs: Sequence[Job]) -> list[Reply]:
        """The replies to jobs of one key; an error of one is raised for all."""
        if jobs[0].kind in _BATCHED_KINDS:
            return self._answer_batch(jobs)
        return [self._reply(job) for job in jobs]

    def _reply(self, job: Job) -> Reply:
        if isinstance(job, EntityJob):
            return self._entity(job)
        if isinstance(job, RulesJob):
            return self._rules(job)
        if isinstance(job, CompletionJob):
            return self._complete(job)
        if isinstance(job, ValuesJob):
            half = self.limits.seconds / 2
            found = list_values(self.engine, job.question, job.attribute, seconds=half)
            return success(found.to_dict())
        if isinstance(job, AttributeJob):
            return self._attribute(job)
        if job.kind == "read":
            return success(self.reader.describe(job.question))
        engine = self._engine_with(job.changes)
        question = engine.prepare(job.question, **dict(job.parameters))
        self._check_size(question)
        return success({"query": str(question.query), "plan": engine.describe(question)})

    def _answer_batch(self, jobs: Sequence[Job]) -> list[Reply]:
        """The replies to questions that the engine answers as one batch."""
        first = jobs[0]
        engine = self._engine_with(first.changes)
        questions = [self._prepare(job, engine) for job in jobs]
        # One more answer than allowed reveals a longer list.
        top = self.limits.top + 1 if first.kind == "sparql" else first.top
        page: dict[str, Any] = {"top": top, "offset": first.offset, "min_score": first.min_score}
        many = engine.ask_many(
            questions, **page, explain=first.kind == "explain", paths=first.paths
        )
        if first.kind == "sparql":
            return [self._sparql(engine, *each) for each in zip(jobs, questions, many, strict=True)]
        return [success(answers.to_dict()) for answers in many]

    def _sparql(
        self, engine: Engine, job: Job, question: BoundQuery | TableQuery, answers: Answers
    ) -> Reply:
        """Answers as SPARQL results; a list above the limit is an error, not cut."""
        if len(answers) > self.limits.top:
            raise LimitError(
                f"there are more than {self.limits.top:,} answers; ask for them in parts, by LIMIT "
                "and OFFSET"
            )
        return Reply(
            200,
            serialized(encoded(results(engine.graph, question, answers)), job.media_type),
            job.media_type,
        )

    def _entity(self, job: EntityJob) -> Reply:
        """Facts about an entity; predicting stops at half the time limit, to reply in time."""
        began = monotonic()
        engine = self._engine_with(job.changes)
        label = job.question
        relation = job.relation
        if job.predicted:
            # the engine may have been made first
            seconds = self.limits.seconds / 2 - (monotonic() - began)
            facts = predicted_facts(
                engine, label, relation, min_score=job.min_score, start=job.start, seconds=seconds
            )
        else:
            facts = known_facts(engine, label, relation)
        page = facts.page(job.top, job.offset, self.limits.top)
        return success((with_evidence(engine, page) if job.explain else page).to_dict())

    def _complete(self, job: CompletionJob) -> Reply:
        """Missing facts with their evidence; the search stops at half the time limit."""
        engine = self._engine_with(job.changes)
        relations = [job.question] if job.question else []
        entities = [] if job.entity is None else [job.entity]
        completion = Completion(engine, relations, entities, min_score=job.min_score, top=job.top)
        stop = Event()
        timer = Timer(self.limits.seconds / 2, stop.set)
        timer.start()
        try:
            facts = list(completion.until(stop))
        finally:
            timer.cancel()
        finder = EvidenceFinder(engine.parts)
        names = engine.graph.entities
        rows = []
        for fact in facts:
            subject, obj = names.id(fact.subject), names.id(fact.object)
            found = finder.of_prediction(subject, engine.graph.relations.id(fact.relation), obj)
            ends = {"subject_name": names.name(subject), "object_name": names.name(obj)}
            rows.append(dict(zip(fact._fields, fact, strict=True)) | ends | found.to_dict())
        cut_by = "time" if stop.is_set() else "top" if completion.more else None
        return success({"facts": rows, "cut_by": cut_by})

    def _rules(self, job: RulesJob) -> Reply:
        """The rules of the engine."""
        scorer = self.engine.parts.rule_scorer
        if scorer is None:
            return success({"rules": [], "count": 0})
        listed = list_rules(
            self.engine.graph,
            scorer.rules,
            job.question or None,
            job.top,
            offset=job.offset,
            written=job.written,
        )
        rows = [rule.to_dict(job.examples) for rule in listed]
        return success({"rules": rows, "count": len(scorer.rules)})

    def _attribute(self, job: AttributeJob) -> Reply:
        """An attribute with its statistics, and some of its entities by value."""
        graph = self.engine.graph
        names = graph.attributes.names
        i = names.id(job.question)
        ranked = self._ranked(names[i], job.descending)
        return success(
            self.reader.attributes.described_at_length(self._statistics(i))
            | {"known": len(ranked.known), "predicted": len(ranked.predicted)}
            | {"rows": ranked.rows(job.top, job.offset)}
        )

    def _prepare(self, job: Job, engine: Engine) -> BoundQuery | TableQuery:
        """The question of a job, within the limits; SPARQL without LIMIT gets likely answers."""
        if job.kind == "sparql" and not is_sparql(job.question):
            raise QueryError("this is not a SPARQL query; it starts with SELECT, ASK or PREFIX")
        question = engine.read(job.question, **dict(job.parameters))
        self._check_size(question)
        if job.kind != "sparql":
            return question
        self.limits.allow("top", question.limit or 0, f"LIMIT is {question.limit}")
        self.limits.allow("offset", question.offset, f"OFFSET is {question.offset}")
        return engine.likely(question)

    def _check_size(self, question: BoundQuery | TableQuery) -> None:
        """Raise a `LimitError` for a formula above the limits."""
        several = [question] if isinstance(question, BoundQuery) else question.questions
        formulas = [each.query.formula for each in several if each.query is not None]
        count = sum(1 for formula in formulas for _ in leaves(formula))
        depth = max((formula.depth for formula in formulas), default=0)
        self.limits.allow("atoms", count, f"the question has {count} atoms")
        self.limits.allow("nesting", depth, f"the question is {depth} levels deep")


def _reply_of_outcome(job: Job, outcome: Reply | Exception) -> Reply:
    """The reply to a job from its outcome, a reply or an error."""
    if isinstance(outcome, Reply):
        return outcome
    if isinstance(outcome, TacitError):
        return refusal(outcome)
    if isinstance(outcome, MemoryError | RecursionError):
        return failure(
            422, "the question needs more memory than there is; ask with a smaller k or in parts"
        )
    log.error("a question failed: %.500s", job.question, exc_info=outcome)
    return FAULT
