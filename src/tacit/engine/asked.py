"""Questions on their way into an engine, and the threads that they get there, in a forked process too."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from tacit.distributed.threads import nobody_at_work, threads_for
from tacit.query.formula import Query
from tacit.query.plans.plan import Condition, Plan, Prepared, Project
from tacit.query.reading import Reading


@dataclass(frozen=True, kw_only=True)
class Asked(Reading):
    """A question ready to run: as it was read, with its plan and the ids that fill the plan's slots."""

    prepared: Prepared
    entities: list[int]
    relations: list[int]
    new: bool = False  # whether known answers are left out, whoever wants that


_FEW = 2**15  # scores that one thread has nearly as soon as two
_TRIED = 64  # candidates of a hop, at least
_Q = TypeVar("_Q")
_A = TypeVar("_A")
_E = TypeVar("_E", bound=Exception)
Question = str | Query | Asked | tuple[str, Mapping[str, str]]  # the last: a text, and what its parameters stand for


def alone_where_wrong(
    ask: Callable[[Sequence[_Q]], Sequence[_A]], questions: Sequence[_Q], errors: type[_E]
) -> list[_A | _E]:
    """What comes of questions that are asked together; where that fails, of each alone: its answer or its error."""
    try:
        return [*ask(questions)]
    except errors as error:
        if len(questions) < 2:
            return [error]
        logging.getLogger("tacit.engine").debug("questions that failed together are asked one by one", exc_info=True)
    return [each for question in questions for each in alone_where_wrong(ask, [question], errors)]


def threads_to_answer(plans: Iterable[Plan], num_entities: int) -> AbstractContextManager[None]:
    """Compute on as many threads as the answers to queries of some plans are worth, and as cores are free."""
    rows = sum(plan.num_relations * (_TRIED if plan.has(Project, Condition) else 1) for plan in plans)
    return threads_for(rows * num_entities, _FEW)


@cache
def survive_forks() -> None:
    """Let a forked process compute on its one thread: those of its parent are gone, and OpenMP would wait for them."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_alone)


def _alone() -> None:
    import torch

    nobody_at_work()
    torch.set_num_threads(1)
