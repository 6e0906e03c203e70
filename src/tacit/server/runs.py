"""The runs that are served, by name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Query, Request

from tacit.errors import TacitError
from tacit.server.admission import OPEN
from tacit.server.log_lines import access_log
from tacit.server.metrics import Metrics
from tacit.server.served_run import Served
from tacit.server.service import Service
from tacit.server.settings import ServerSettings


class Runs:
    """A service for each run, with workers of its own; the first one answers where none is named."""

    def __init__(self, served: Mapping[str, Served], settings: ServerSettings) -> None:
        self.metrics, self.log = Metrics(), access_log(settings.access_log)
        self.problem: TacitError | None = None  # what kept workers from starting
        self.services = {name: Service(name, each, settings, self.metrics.of(name)) for name, each in served.items()}

    @asynccontextmanager
    async def running(self, app: FastAPI) -> AsyncIterator[None]:
        """Workers start and stop with the application."""
        async with AsyncExitStack() as stack:
            for handler in self.log.handlers if self.log is not None else ():
                stack.callback(handler.close)
            try:
                for service in self.services.values():
                    await stack.enter_async_context(service.running())
            except TacitError as error:
                self.problem = error
                raise
            yield

    @property
    def first(self) -> Service:
        """The service of the first run."""
        return next(iter(self.services.values()))

    def reload(self) -> None:
        """Open every run as it stands now."""
        for service in self.services.values():
            service.reload()


async def chosen(
    request: Request,
    run: Annotated[str | None, Query(max_length=255, description="The run to ask; the first one by default.")] = None,
) -> Service:
    """The service of the run that a request names; what has no effect in the address is refused.

    SPARQL's clients, and those who look whether the service is well, may send more than is known here.
    """
    runs: Runs = request.app.state.runs
    route, method = request.scope["route"].path, request.method  # the path may begin with where this is mounted
    if request.query_params and route not in ("/sparql", *OPEN):
        known = [each["name"] for each in request.app.openapi()["paths"][route][method.lower()]["parameters"]]
        others = [name for name in request.query_params if name not in known]
        if others:
            place = f"in the address, where only {', '.join(map(repr, known))} may be"
            elsewhere = "; send it in the body" if method == "POST" else ""
            raise HTTPException(422, f"'{others[0][:80]}' is {place}{elsewhere}")
    if run is None:
        return runs.first
    if run not in runs.services:
        raise HTTPException(404, f"there is no run '{run}' here; there is {', '.join(runs.services)}")
    return runs.services[run]


Chosen = Annotated[Service, Depends(chosen)]
