"""Questions on their way into an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tacit.query.formula import Query
from tacit.query.plan import Prepared
from tacit.query.reading import Reading


@dataclass(frozen=True, kw_only=True)
class Asked(Reading):
    """A question ready to run: as it was read, with its plan and the ids that fill the plan's slots."""

    prepared: Prepared
    entities: list[int]
    relations: list[int]
    new: bool = False  # whether known answers are left out, whoever wants that


Question = str | Query | Asked | tuple[str, Mapping[str, str]]  # the last: a text, and what its parameters stand for
