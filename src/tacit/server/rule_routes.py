"""`GET /rules`: the rules of a served run."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from tacit.query.text import MAX_CHARACTERS
from tacit.server.routes import RequestedService
from tacit.server.schemas import EvidenceFact, NamedRule, Schema
from tacit.server.workers.jobs import RulesJob

routes = APIRouter(tags=["rules"])


class RuleRow(NamedRule):
    """A rule, with facts that it is right about, and pairs that it is not."""

    off: bool
    """Whether a person switched it off."""
    examples: list[EvidenceFact]
    """Train facts that it implies by others."""
    counter_examples: list[EvidenceFact]
    """What it implies and the graph does not have, in any split."""


class RulesReply(Schema):
    """Rules, the surest first."""

    rules: list[RuleRow]
    count: int
    """How many rules there are before any filter."""


@routes.get("/rules", response_model=RulesReply)
async def rules(
    service: RequestedService,
    relation: Annotated[
        str | None,
        Query(max_length=MAX_CHARACTERS, description="Only rules that imply this relation."),
    ] = None,
    written: Annotated[bool, Query(description="Only rules that a person wrote.")] = False,
    limit: Annotated[int, Query(ge=1, description="Rules, at most.")] = 20,
    offset: Annotated[int, Query(ge=0, le=2**31, description="Rules to leave out first.")] = 0,
    examples: Annotated[
        int, Query(ge=0, le=10, description="Examples and counter-examples of each, at most.")
    ] = 0,
) -> Response:
    """The rules that predictions come from, the surest first, in words and as formulas.

    A rule and its mirror image, which says the same of the inverse relation, are listed once.
    """
    service.limits.allow("top", limit, f"limit is {limit}")
    return await service.answer(
        RulesJob(
            "rules", relation or "", top=limit, offset=offset, written=written, examples=examples
        )
    )
