"""`tacit serve`: the web page, the HTTP service and the SPARQL endpoint."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import options
from tacit.engine.settings import EngineSettings
from tacit.errors import SettingsError
from tacit.server.settings import LOOPBACK, Limits, ServerSettings

if TYPE_CHECKING:
    from tacit.server.service import Service

MOST = ("body", "atoms", "nesting", "k", "top", "queue")


@options.of_settings(ServerSettings, flags={"trusted_hosts": "--trust-host"}, variables={"api_key": "TACIT_API_KEY"})
@options.of_settings(
    Limits,
    "limits",
    only=("seconds", *MOST, "batch", "patience"),
    flags={"seconds": "--timeout"} | {name: f"--max-{name}" for name in MOST},
)
@options.of_settings(EngineSettings, "engine")
def serve(
    sources: Annotated[list[str], typer.Argument(metavar="RUN|world", help="Runs, or world; NAME=RUN names one.")],
    given: dict[str, Any],
    limits: dict[str, Any],
    engine: dict[str, Any],
    unadapted: options.Unadapted = False,
    device: options.Device = "auto",
) -> None:
    """Serve a page to ask questions on, and the same over HTTP and SPARQL."""
    settings = ServerSettings.of(given | {"limits": Limits.of(limits)})
    EngineSettings.of(engine)
    try:
        from tacit.server.served_run import ServedRun
        from tacit.server.serving import serve as serve_runs
    except ModuleNotFoundError as error:
        raise SettingsError(f"the service needs {error.name}; install it with: pip install 'tacit[server]'") from None
    from tacit.sources import find_run

    runs = {
        name: ServedRun.at(find_run(source).path, device, adapted=not unadapted, **engine)
        for name, source in named(sources).items()
    }
    if settings.host not in LOOPBACK and settings.api_key is None:
        typer.echo(f"note: everyone who can reach {settings.host} may ask; --api-key limits it", err=True)

    def say(service: Service, address: str) -> None:
        graph = service.edition.graph
        typer.echo(f"{graph.name}: {graph.num_entities:,} entities, ready at {address}  (Ctrl-C ends it)")

    serve_runs(runs, settings, say)


def named(sources: Iterable[str]) -> dict[str, str]:
    """Runs by name: the one that is given, or that of the folder.

    >>> named(["runs/world", "small=runs/2"])
    {'world': 'runs/world', 'small': 'runs/2'}
    """
    runs: dict[str, str] = {}
    for each in sources:
        name, equals, source = each.partition("=")
        if not equals or Path(each).exists():
            name, source = Path(each).resolve().name, each
        if not name or name in runs:
            problem = f"two runs are called '{name}'" if name else f"the run '{each}' has no name"
            raise SettingsError(f"{problem}; name each as in NAME=RUN")
        runs[name] = source
    return runs
