"""`POST /facts` and `POST /facts/remove`: change the facts of a served run."""

from __future__ import annotations

import asyncio
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import ConfigDict, Field

from tacit.errors import TacitError
from tacit.server.routes import RequestedService
from tacit.server.schemas import Schema
from tacit.server.served_run import ServedRun
from tacit.server.service import Service
from tacit.server.workers import fork_server
from tacit.server.workers.jobs import Reply, failure, refusal, success

routes = APIRouter(tags=["facts"])
FactRows = list[tuple[str, str, str]]
LabelText = Annotated[str, Field(min_length=1, max_length=10_000)]
NO_KEY = failure(
    403,
    "facts are changed through a service that has an API key alone; start it with TACIT_API_KEY "
    "set",
)
NO_RUN = failure(422, "what is served here is no run folder, and its facts cannot be changed")
CUT_SHORT = failure(503, "the change was cut short: all of it was made, or nothing; send it again")
NOT_YET = failure(
    503,
    "the facts were changed, but the service still answers from what was before; its log says why",
)


class FactsRequest(Schema):
    """Facts to add or to remove."""

    model_config = ConfigDict(extra="forbid")

    facts: list[tuple[LabelText, LabelText, LabelText]] = Field(
        min_length=1,
        description=(
            "Head, relation and tail of each; a relation that ends in ^-1 is read from its tail to "
            "its head."
        ),
        examples=[[["Atlantis", "borders", "France"]]],
    )


class AddedFactsRequest(FactsRequest):
    """Facts to add, and names that somebody agreed to."""

    new: bool = False
    """Add new relations too, and entities with nearly the name of a known one."""
    force: bool = False
    """Add names, too, that differ from another in case or spaces alone."""


class FactsReply(Schema):
    """How many facts and names were changed."""

    added: int
    removed: int
    unchanged: int
    """Facts that were there already, or were not there to be removed."""
    values: int
    """How many of those that were changed are values of attributes."""
    entities: int
    """New entities, which got vectors that are fitted to their facts."""
    relations: int
    """New relations, likewise."""
    seconds: float


@routes.post("/facts", response_model=FactsReply)
async def add(request: AddedFactsRequest, service: RequestedService) -> Response:
    """Add facts; once this is answered, all workers know them.

    Names that may be misspelt must be agreed to.
    """
    return (await change(service, request, remove=False)).response()


@routes.post("/facts/remove", response_model=FactsReply)
async def remove(request: FactsRequest, service: RequestedService) -> Response:
    """Remove facts; they are no longer known, but what was learned of them stays learned."""
    return (await change(service, request, remove=True)).response()


async def change(service: Service, request: FactsRequest, remove: bool) -> Reply:
    """The reply to a change of a service that has a key."""
    return await make_change(service, request, remove) if service.settings.keys() else NO_KEY


async def make_change(service: Service, request: FactsRequest, remove: bool) -> Reply:
    """The reply to a change by who may make it, which goes on if the client disconnects."""
    return await asyncio.shield(_change(service, request, remove))


async def _change(service: Service, request: FactsRequest, remove: bool) -> Reply:
    """The reply to a change, once the service answers from the changed run."""
    served = service.snapshot.served
    if not isinstance(served, ServedRun):
        return NO_RUN
    try:
        consent = {} if remove else request.model_dump(include={"new", "force"})
        reply = await asyncio.to_thread(
            _change_in_process, served.path, request.facts, remove, consent
        )
    except BrokenProcessPool:
        return CUT_SHORT
    # Also after no change: another process may have made it, and the service lags behind.
    return NOT_YET if reply.status == 200 and not await service.change_over() else reply


def _change_in_process(
    path: Path, facts: FactRows, remove: bool, consent: dict[str, bool]
) -> Reply:
    """Make a change in another process: questions stay fast, and a crash stays there."""
    with ProcessPoolExecutor(1, fork_server.context()) as process:
        return process.submit(_apply_change, path, facts, remove, consent).result()


def _apply_change(path: Path, facts: FactRows, remove: bool, consent: dict[str, bool]) -> Reply:
    """The reply to a change of the run in a folder."""
    from tacit.run.changes import add_facts, remove_facts

    try:
        change = remove_facts(path, facts) if remove else add_facts(path, facts, **consent)
    except TacitError as error:
        return refusal(error)
    counts = {
        name: value for name, value in change.to_dict().items() if name in FactsReply.model_fields
    }
    return success(counts)
