"""`tacit serve`: the web page, the HTTP service and the SPARQL endpoint."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tacit.cli import options
from tacit.server.settings import LOOPBACK, Limits, ServerSettings

MOST = ("body", "atoms", "nesting", "k", "top", "queue")


@options.of_settings(ServerSettings, flags={"trusted_hosts": "--trust-host"}, variables={"api_key": "TACIT_API_KEY"})
@options.of_settings(
    Limits,
    "limits",
    only=("seconds", *MOST, "batch", "patience"),
    flags={"seconds": "--timeout"} | {name: f"--max-{name}" for name in MOST},
)
def serve(
    source: Annotated[str, typer.Argument(metavar="RUN|world", help="A run, or world.")],
    given: dict[str, Any],
    limits: dict[str, Any],
    device: options.Device = "auto",
) -> None:
    """Serve a page to ask questions on, and the same over HTTP and SPARQL."""
    from tacit.errors import SettingsError

    settings = ServerSettings.of(given | {"limits": Limits.of(limits)})
    try:
        from tacit.server.served_run import ServedRun
        from tacit.server.serving import serve as serve_run
    except ModuleNotFoundError as error:
        raise SettingsError(f"the service needs {error.name}; install it with: pip install 'tacit[server]'") from None
    from tacit.graph.graph import Graph
    from tacit.sources import find_run

    run = ServedRun.at(find_run(source).path, device)
    if settings.host not in LOOPBACK and settings.api_key is None:
        typer.echo(f"note: everyone who can reach {settings.host} may ask; --api-key limits it", err=True)

    def say(graph: Graph, address: str) -> None:
        typer.echo(f"{graph.name}: {graph.num_entities:,} entities, ready at {address}  (Ctrl-C ends it)")

    serve_run(run, settings, say)
