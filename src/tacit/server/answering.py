"""What a worker does: asks its engine, and writes down what came of it."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from tacit.engine.engine import Asked, Engine
from tacit.errors import LimitError, QueryError, TacitError
from tacit.query.formula import atoms
from tacit.query.sparql import is_sparql
from tacit.server.jobs import Job, Kind
from tacit.server.reading import QuestionReader
from tacit.server.replies import Reply, encoded, failure, refusal
from tacit.server.settings import Limits
from tacit.server.sparql_results import RESULTS, results

log = logging.getLogger("tacit.server")
KEPT_ENGINES = 8


class Answerer:
    """An engine and the limits within which it is asked."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        self.limits = limits
        self._engines: OrderedDict[tuple[Any, ...], Engine] = OrderedDict({(): engine})
        self.engine = engine
        self.reader = QuestionReader(engine.graph)

    def replies(self, jobs: Sequence[Job]) -> list[Reply]:
        """The replies to jobs of one key, each right or wrong on its own."""
        first = jobs[0]
        if len(jobs) > 1 and first.kind not in (Kind.PLAN, Kind.READ):
            try:
                return self._together(jobs)
            except Exception:  # one of them is wrong: alone, each gets its own answer
                log.debug("a batch failed; its questions are asked one by one", exc_info=True)
        return [self._alone(job) for job in jobs]

    def _alone(self, job: Job) -> Reply:
        try:
            if job.kind is Kind.READ:
                return Reply(200, encoded(self.reader.told(job.question)))
            return self._plan(job) if job.kind is Kind.PLAN else self._together([job])[0]
        except TacitError as error:
            return refusal(error)
        except (MemoryError, RecursionError):
            return failure(422, "the question needs more memory than there is; ask with a smaller k or in parts")
        except Exception:
            log.exception("a question failed: %.500s", job.question)
            return failure(500, "the question could not be answered because of a fault in Tacit; the log has it")

    def _together(self, jobs: Sequence[Job]) -> list[Reply]:
        """The replies to questions that the engine answers as one batch."""
        first, engine = jobs[0], self._engine(jobs[0])
        asked = [self._prepared(job, engine) for job in jobs]
        explain = first.kind is Kind.EXPLAIN
        many = engine.ask_many(asked, first.top, offset=first.offset, explain=explain, paths=first.paths)
        if first.kind is Kind.SPARQL:
            rows = zip(asked, many, strict=True)
            return [Reply(200, encoded(results(engine.graph, each.query, answers)), RESULTS) for each, answers in rows]
        return [Reply(200, encoded(answers.to_dict())) for answers in many]

    def _plan(self, job: Job) -> Reply:
        engine = self._engine(job)
        asked = self._prepared(job, engine)
        return Reply(200, encoded({"query": str(asked.query), "plan": engine.describe(asked)}))

    def _prepared(self, job: Job, engine: Engine) -> Asked:
        """The question of a job as the engine reads it, within the limits."""
        if job.kind is Kind.SPARQL and not is_sparql(job.question):
            raise QueryError("this is not a SPARQL query; it starts with SELECT, or with PREFIX")
        asked = engine.prepare(job.question)
        count, depth = sum(1 for _ in atoms(asked.query.formula)), asked.query.formula.depth
        if count > self.limits.atoms:
            raise LimitError(f"the question has {count} atoms, this service answers at most {self.limits.atoms}")
        if depth > self.limits.nesting:
            raise LimitError(f"the question is {depth} levels deep, this service answers at most {self.limits.nesting}")
        return asked

    def _possible(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Settings that go together: continuous search takes plain sigmoids where the engine's scores are none."""
        if changes.get("search") == "continuous" and not self.engine.atoms.calibration.pointwise:
            return changes | {"calibration": "sigmoid", "adapted": False}
        return changes

    def _engine(self, job: Job) -> Engine:
        """The engine with the settings of a job; the last few are kept, since their facts take time to load."""
        engine = self._engines.pop(job.changes, None) or self.engine.using(**self._possible(dict(job.changes)))
        self._engines[job.changes] = engine
        if len(self._engines) > KEPT_ENGINES:
            self._engines.popitem(last=False)
        return engine
