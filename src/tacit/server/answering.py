"""What a worker does: asks its engine, and writes down what came of it."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tacit.engine.engine import Engine
from tacit.errors import LimitError, TacitError
from tacit.query.compile import compile_query
from tacit.query.describe import describe
from tacit.query.formula import Query, atoms
from tacit.query.names import bind
from tacit.query.reading import read
from tacit.server.jobs import Job, Kind
from tacit.server.replies import Reply, encoded, failure, refusal
from tacit.server.settings import Limits

log = logging.getLogger("tacit.server")
KEPT_ENGINES = 8


class Answerer:
    """An engine and the limits within which it is asked."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        self.limits = limits
        self._engines: OrderedDict[tuple[Any, ...], Engine] = OrderedDict({(): engine})
        self.engine = engine

    def replies(self, jobs: Sequence[Job]) -> list[Reply]:
        """The replies to jobs of one key, each right or wrong on its own."""
        first = jobs[0]
        if len(jobs) > 1 and first.kind in (Kind.ASK, Kind.EXPLAIN):
            try:
                return self._together(jobs)
            except Exception:  # one of them is wrong: alone, each gets its own answer
                log.debug("a batch failed; its questions are asked one by one", exc_info=True)
        return [self._guarded(self._one, job) for job in jobs]

    def _guarded(self, act: Callable[[Job], Reply], job: Job) -> Reply:
        try:
            return act(job)
        except TacitError as error:
            return refusal(error)
        except (MemoryError, RecursionError):
            return failure(422, "the question needs more memory than there is; ask with a smaller k or in parts")
        except Exception:
            log.exception("a question failed: %.500s", job.question)
            return failure(
                500, "the question could not be answered because of a fault in Tacit; the log has the details"
            )

    def _together(self, jobs: Sequence[Job]) -> list[Reply]:
        first, asked = jobs[0], [self._read(job) for job in jobs]
        queries = [query for query, _ in asked]
        found = self._engine(first).ask_many(queries, first.top, explain=first.kind is Kind.EXPLAIN, paths=first.paths)
        limited = [replace(answers, answers=answers[:limit]) for answers, (_, limit) in zip(found, asked, strict=True)]
        return [Reply(200, encoded(answers.to_dict())) for answers in limited]

    def _one(self, job: Job) -> Reply:
        if job.kind is Kind.PLAN:
            return self._plan(job)
        if job.kind is Kind.SPARQL:
            return self._sparql(job)
        return self._together([job])[0]

    def _plan(self, job: Job) -> Reply:
        engine = self._engine(job)
        query, _ = self._read(job)
        prepared = compile_query(query)
        bind(prepared, engine.graph)
        k = engine.graph.num_entities if engine.settings.search == "exact" else engine.settings.k
        tree = describe(prepared, k, engine.graph.num_entities)
        return Reply(200, encoded({"query": str(query), "plan": tree}))

    def _sparql(self, job: Job) -> Reply:
        from tacit.server.sparql_results import RESULTS, answered

        data = answered(self._engine(job), job.question, job.top, self._check)
        return Reply(200, encoded(data), RESULTS)

    def _read(self, job: Job) -> tuple[Query, int | None]:
        """The question of a job, in the text syntax or in SPARQL, and its LIMIT where it has one."""
        query, limit = read(job.question, self.engine.graph)
        self._check(query)
        return query, limit

    def _check(self, query: Query) -> None:
        count = sum(1 for _ in atoms(query.formula))
        if count > self.limits.atoms:
            raise LimitError(f"the question has {count} atoms, this service answers at most {self.limits.atoms}")
        if query.formula.depth > self.limits.nesting:
            raise LimitError(
                f"the question is nested {query.formula.depth} levels deep, this service answers at most "
                f"{self.limits.nesting}"
            )

    def _possible(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Settings that go together: continuous search needs a pointwise calibration, which a request cannot choose."""
        if changes.get("search") == "continuous" and not self.engine.atoms.calibration.pointwise:
            return changes | {"calibration": "sigmoid"}
        return changes

    def _engine(self, job: Job) -> Engine:
        """The engine with the settings of a job; the last few are kept, since their facts take time to load."""
        found = self._engines.pop(job.changes, None) or self.engine.using(**self._possible(dict(job.changes)))
        self._engines[job.changes] = found
        if len(self._engines) > KEPT_ENGINES:
            self._engines.popitem(last=False)
        return found
