"""`GET /attributes`, `/attribute` and `/entity/values`: numbers and dates of a served run."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response

from tacit.query.text import MAX_CHARACTERS
from tacit.server.graph_schemas import Match
from tacit.server.routes import CountParameter, RequestedService, Typed
from tacit.server.schemas import Schema
from tacit.server.value_schemas import EntityValue, QuantityReply
from tacit.server.workers.jobs import AttributeJob, ValuesJob, success

routes = APIRouter(tags=["values"])
Label = Annotated[
    str,
    Query(
        max_length=MAX_CHARACTERS, description="The attribute's label or name.", examples=["area"]
    ),
]


class AttributeMatch(Match):
    """An attribute: numbers, dates or durations of entities."""

    kind: Literal["number", "date", "duration"]
    unit: str
    """Of all its values; empty where there is none."""
    values: int
    """How many values the graph has."""
    range: str
    """The lowest and the highest, to a few digits."""


class AttributesReply(Schema):
    """Attributes that complete what was typed, the shortest first."""

    matches: list[AttributeMatch]


class Histogram(Schema):
    """How many values lie in each of some ranges."""

    counts: list[int]
    edges: list[float]
    """The ends of the ranges, one more than there are counts; dates in days from 1970."""
    texts: list[str]
    """The edges as people read them."""
    log: bool
    """Whether the ranges are as wide by the logarithm."""


class RankedEntity(Schema):
    """An entity with its value."""

    entity: str
    """Its label."""
    name: str
    value: QuantityReply | None


class AttributeReply(AttributeMatch):
    """An attribute, its values, and the entities that have them."""

    entities: int
    """How many entities have a value."""
    missing: float
    """The share of entities without one, of those that have the relation `among`."""
    among: str
    """A relation that nearly all entities with a value have; empty for all entities."""
    among_words: str
    lowest: str
    median: str
    highest: str
    histogram: Histogram
    known: int
    """How many entities are ranked by known values: those that the engine is told."""
    predicted: int
    """How many follow by predicted ones: those that most probably have a value."""
    rows: list[RankedEntity]
    """Known ones first, each kind by value."""


class EntityValuesReply(Schema):
    """The values of an entity."""

    entity: str
    name: str
    values: list[EntityValue]
    """Known ones first, each kind by name."""
    whole: bool
    """Whether all attributes were looked at; otherwise time ran out."""


@routes.get("/attributes", response_model=AttributesReply)
def attributes(service: RequestedService, q: Typed = "", limit: CountParameter = 10) -> Response:
    """Attributes whose name, or a word of it, starts with what was typed."""
    return success({"matches": service.snapshot.names.attributes(q, limit)}).response()


@routes.get("/attribute", response_model=AttributeReply)
async def attribute(
    service: RequestedService,
    label: Label,
    limit: Annotated[int, Query(ge=1, description="Entities, at most.")] = 20,
    offset: Annotated[int, Query(ge=0, le=2**31, description="Entities to leave out first.")] = 0,
    descending: Annotated[bool, Query(description="Whether high values come first.")] = True,
) -> Response:
    """An attribute: its unit, range, missing share and histogram, and its entities by value.

    Entities with known values come first; those whose values are predicted follow.
    """
    service.limits.allow("top", limit, f"limit is {limit}")
    job = AttributeJob("attribute", label, limit, offset=offset, descending=descending)
    return await service.answer(job)


@routes.get("/entity/values", response_model=EntityValuesReply)
async def entity_values(
    service: RequestedService,
    label: Annotated[
        str,
        Query(
            max_length=MAX_CHARACTERS,
            description="The entity's label or name.",
            examples=["France"],
        ),
    ],
    attribute: Annotated[
        str | None,
        Query(max_length=MAX_CHARACTERS, description="One attribute alone."),
    ] = None,
) -> Response:
    """The numbers and dates of an entity: known ones, else predicted ones with their intervals.

    Of all attributes those are predicted that the entity probably has.
    """
    return await service.answer(ValuesJob("values", label, attribute=attribute))
