"""Questions on their way into an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tacit.query.formula import Query
from tacit.query.plan import Prepared
from tacit.query.reading import Column


class Asked(NamedTuple):
    """A question ready to run: its plan, the ids that fill the plan's slots, and which of its answers SPARQL asks for.

    Those from `offset` on, `limit` at most, of those that score at least `min_score` and are `known`, or are not.
    """

    query: Query
    prepared: Prepared
    entities: list[int]
    relations: list[int]
    limit: int | None = None
    offset: int = 0
    min_score: float = 0.0
    known: bool | None = None
    among: tuple[str, ...] | None = None
    columns: tuple[Column, ...] = ()
    by_score: bool = False
    new: bool = False  # whether known answers are left out, who ever wants that


Question = str | Query | Asked | tuple[str, Mapping[str, str]]  # the last: a text, and what its parameters stand for
