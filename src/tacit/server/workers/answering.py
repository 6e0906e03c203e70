"""What a worker does: asks its engine, and writes down what came of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from time import monotonic
from typing import Any

from tacit.engine.answers.answers import Answers
from tacit.engine.answers.entity_facts import known_facts, predicted_facts
from tacit.engine.asked import Asked, alone_where_wrong
from tacit.engine.engine import Engine
from tacit.errors import LimitError, QueryError, TacitError
from tacit.query.formula import atoms
from tacit.query.sparql.sparql import is_sparql
from tacit.query.words.paraphrase import QuestionReader
from tacit.server.routes.replies import Reply, encoded, failure, refusal, success
from tacit.server.routes.sparql_results import results, written
from tacit.server.settings import Limits
from tacit.server.workers.jobs import EntityJob, Job

log = logging.getLogger("tacit.server")
KEPT_ENGINES = 8
_TOGETHER = ("ask", "explain", "sparql")  # what the engine answers in batches


class Answerer:
    """An engine and the limits within which it is asked."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        self.limits = limits
        self.engine = engine
        # With the settings of a job; the last few are kept, since their facts take time to load.
        self._using = lru_cache(KEPT_ENGINES)(lambda changes: engine.using(**dict(changes)))
        self.reader = QuestionReader(engine.graph)

    @property
    def about(self) -> dict[str, Any]:
        """What the engine says of itself, with the model that answers and the encoder that may be asked instead."""
        encoder = self.engine.offered
        return self.engine.about | {"model": self.engine.model, "encoder": None if encoder is None else encoder.name}

    def replies(self, jobs: Sequence[Job]) -> list[Reply]:
        """The replies to jobs of one key, each right or wrong on its own."""
        distinct = list(dict.fromkeys(jobs))  # what is asked twice is answered once
        outcomes = alone_where_wrong(self._replies, distinct, Exception)
        told = {job: _told(job, outcome) for job, outcome in zip(distinct, outcomes, strict=True)}
        return [told[job] for job in jobs]

    def _replies(self, jobs: Sequence[Job]) -> list[Reply]:
        """The replies to jobs of one key, none of which is wrong."""
        return self._answered(jobs) if jobs[0].kind in _TOGETHER else [self._reply(job) for job in jobs]

    def _reply(self, job: Job) -> Reply:
        if isinstance(job, EntityJob):
            return self._entity(job)
        if job.kind == "read":
            return success(self.reader.told(job.question))
        engine = self._using(job.changes)
        asked = self._prepared(job, engine)
        return success({"query": str(asked.query), "plan": engine.describe(asked)})

    def _answered(self, jobs: Sequence[Job]) -> list[Reply]:
        """The replies to questions that the engine answers as one batch."""
        first, engine = jobs[0], self._using(jobs[0].changes)
        asked = [self._prepared(job, engine) for job in jobs]
        top = self.limits.top + 1 if first.kind == "sparql" else first.top  # one more shows a list is cut
        page: dict[str, Any] = {"top": top, "offset": first.offset, "min_score": first.min_score}
        many = engine.ask_many(asked, **page, explain=first.kind == "explain", paths=first.paths)
        if first.kind == "sparql":
            return [self._sparql(engine, *each) for each in zip(jobs, asked, many, strict=True)]
        return [success(answers.to_dict()) for answers in many]

    def _sparql(self, engine: Engine, job: Job, asked: Asked, answers: Answers) -> Reply:
        """Answers as SPARQL results; a list that is cut where nobody said so is none."""
        if len(answers) > self.limits.top:
            raise LimitError(
                f"there are more than {self.limits.top:,} answers; ask for them in parts, by LIMIT and OFFSET"
            )
        return Reply(200, written(encoded(results(engine.graph, asked, answers)), job.media_type), job.media_type)

    def _entity(self, job: EntityJob) -> Reply:
        """Facts about an entity; predicting goes on for half the time there is, so that what was found is told."""
        began = monotonic()
        engine, label, relation = self._using(job.changes), job.question, job.relation
        if job.predicted:
            most = self.limits.seconds / 2 - (monotonic() - began)  # an engine takes time to make
            facts = predicted_facts(engine, label, relation, min_score=job.min_score, start=job.start, seconds=most)
        else:
            facts = known_facts(engine, label, relation)
        return success(facts.page(job.top, job.offset, self.limits.top).to_dict())

    def _prepared(self, job: Job, engine: Engine) -> Asked:
        """The question of a job as the engine reads it, within the limits; of SPARQL without LIMIT, for likely ones."""
        if job.kind == "sparql" and not is_sparql(job.question):
            raise QueryError("this is not a SPARQL query; it starts with SELECT, ASK or PREFIX")
        asked = engine.prepare(job.question, **dict(job.parameters))
        count, depth = sum(1 for _ in atoms(asked.query.formula)), asked.query.formula.depth
        self.limits.allow("atoms", count, f"the question has {count} atoms")
        self.limits.allow("nesting", depth, f"the question is {depth} levels deep")
        if job.kind != "sparql":
            return asked
        self.limits.allow("top", asked.limit or 0, f"LIMIT is {asked.limit}")
        self.limits.allow("offset", asked.offset, f"OFFSET is {asked.offset}")
        return engine.likely(asked)


def _told(job: Job, outcome: Reply | Exception) -> Reply:
    """The reply to a job, or what to say of the error that came in its place."""
    if isinstance(outcome, Reply):
        return outcome
    if isinstance(outcome, TacitError):
        return refusal(outcome)
    if isinstance(outcome, MemoryError | RecursionError):
        return failure(422, "the question needs more memory than there is; ask with a smaller k or in parts")
    log.error("a question failed: %.500s", job.question, exc_info=outcome)
    return failure(500, "the question could not be answered because of a fault in Tacit; the log has it")
