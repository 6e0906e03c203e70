"""Questions on their way into an engine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tacit.query.formula import Query
from tacit.query.plans.plan import Prepared
from tacit.query.reading import Reading


@dataclass(frozen=True, kw_only=True)
class Asked(Reading):
    """A question ready to run: as it was read, with its plan and the ids that fill the plan's slots."""

    prepared: Prepared
    entities: list[int]
    relations: list[int]
    new: bool = False  # whether known answers are left out, whoever wants that


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
