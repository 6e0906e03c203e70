"""Routes of the known and the predicted facts about an entity."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from tacit.query.text import MAX_CHARACTERS
from tacit.server import schemas
from tacit.server.service import Chosen
from tacit.server.workers.jobs import EntityJob

routes = APIRouter(tags=["entities"])
_RELATION = (
    "One relation alone, as a question writes it: `speaks^-1` for the entities that speak it."
)
_START = "The relation to go on with, as `next` of the reply before named it."

EntityParameter = Annotated[
    str,
    Query(
        max_length=MAX_CHARACTERS, description="The entity's label or name.", examples=["France"]
    ),
]
RelationParameter = Annotated[str | None, Query(max_length=MAX_CHARACTERS, description=_RELATION)]
Start = Annotated[str | None, Query(max_length=MAX_CHARACTERS, description=_START)]
Limit = Annotated[int, Query(ge=1, description="Facts of each relation, at most.")]
Offset = Annotated[
    int, Query(ge=0, le=2**31, description="Facts of each relation to leave out first.")
]
Least = Annotated[float, Query(ge=0.05, le=1, description="The least score of a prediction.")]


async def known(
    service: Chosen,
    label: EntityParameter,
    relation: RelationParameter = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> EntityJob:
    """The job that lists known facts about the entity of a request."""
    service.limits.allow("top", limit, f"limit is {limit}")
    return EntityJob("entity", label, limit, relation=relation, offset=offset)


Known = Annotated[EntityJob, Depends(known)]


@routes.get("/entity", response_model=schemas.EntityReply)
async def entity(service: Chosen, job: Known) -> Response:
    """The known facts about an entity, by relation and direction."""
    return await service.answer(job)


@routes.get("/entity/predictions", response_model=schemas.EntityReply)
async def predictions(
    service: Chosen, job: Known, min_score: Least = 0.1, start: Start = None
) -> Response:
    """The facts about an entity that the graph is most probably missing, by relation and
    direction, best first.
    """
    typed = (("typed", True),)  # as facts are completed
    return await service.answer(
        replace(job, changes=typed, predicted=True, min_score=min_score, start=start)
    )
