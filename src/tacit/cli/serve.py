"""`tacit serve`: the web page, the HTTP service and the SPARQL endpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import data, options
from tacit.cli.terminal import say
from tacit.engine.settings import EngineSettings
from tacit.errors import SettingsError
from tacit.graph.settings import ReadSettings
from tacit.server import serve as serve_runs
from tacit.server.settings import LOOPBACK, Limits, ServerSettings
from tacit.server.workers import fork_server

if TYPE_CHECKING:
    from tacit.run.run import Run

MOST = ("body", "atoms", "nesting", "k", "top", "queue", "connections", "per_client", "rate")


@options.of_settings(
    ServerSettings,
    flags={"trusted_hosts": "--trust-host", "trusted_proxies": "--trust-proxy"},
)
@options.of_settings(
    Limits,
    "limits",
    only=("seconds", *MOST, "batch", "patience"),
    flags={"seconds": "--timeout"} | {name: f"--max-{name.replace('_', '-')}" for name in MOST},
)
@options.of_settings(EngineSettings, "engine")
@options.of_settings(ReadSettings, "reading")
def serve(
    sources: Annotated[
        list[str],
        options.run_argument(
            "Runs, world, or graphs, whose rules are mined; NAME=RUN names one.", "RUN|GRAPH..."
        ),
    ],
    settings: options.Values,
    limits: options.Values,
    engine: options.Values,
    reading: options.Values,
    unadapted: options.Unadapted = False,
    device: options.Device = "auto",
) -> None:
    """Serve a page to ask questions on, and the same over HTTP, SPARQL and to agents at /mcp."""
    service = ServerSettings.of(settings | {"limits": Limits.of(limits)})
    opening = {"device": device, "adapted": not unadapted, **engine}
    with opened_runs(sources, reading, opening) as runs:
        for note in notes(service):
            say(f"note: {note}", err=True)
        try:
            serve_runs(runs, **service.explicit)
        except KeyboardInterrupt:  # Ctrl-C ends a service
            raise typer.Exit(130) from None


@contextmanager
def opened_runs(
    sources: Iterable[str], reading: options.Values, opening: options.Values
) -> Iterator[dict[str, Run]]:
    """The runs to serve by name, opened with settings, while the process that forks workers starts.

    Rules that were mined for graphs stay in the cache for as long as this is entered.
    """
    fork_server.start()
    from tacit.run.mined import find_or_mine, holds_facts
    from tacit.run.run import Run
    from tacit.run_folder.run_cache import is_unpacked

    named = runs_by_name(sources)
    mined = {name for name, source in named.items() if holds_facts(source)}
    if not mined:
        data.check_unread(reading, "those of a run were")
    with ExitStack() as stack:
        runs = {}
        for name, source in named.items():
            facts = data.read_graph(source, **reading) if name in mined else source
            folder = find_or_mine(facts, progress=True)
            # workers may open it at any time, so it stays in the cache
            if name in mined or is_unpacked(folder):
                stack.enter_context(folder.in_use())
            runs[name] = Run(folder, **opening)
        yield runs


def notes(settings: ServerSettings) -> Iterator[str]:
    """Warnings about a service that other machines can reach."""
    if settings.host in LOOPBACK:
        return
    if not settings.keys():
        yield (
            f"everyone who can reach {settings.host} may ask; --api-key or --api-key-file limits it"
        )
    if settings.hosts is None:
        yield (
            "the service answers to any name, so a page elsewhere can reach it from a browser here "
            "by a domain name of its own; --trust-host NAME makes it answer to that name alone"
        )


def runs_by_name(sources: Iterable[str]) -> dict[str, str]:
    """The runs by name: an explicit one, or that of the folder or file.

    >>> runs_by_name(["runs/world", "small=runs/2", "mine.tacit"])
    {'world': 'runs/world', 'small': 'runs/2', 'mine': 'mine.tacit'}
    """
    runs: dict[str, str] = {}
    for each in sources:
        name, equals, source = each.partition("=")
        if not equals or Path(each).exists():
            name = Path(each).resolve().name.removesuffix(".tacit")
            source = each
        if not name or name in runs:
            problem = f"two runs are called '{name}'" if name else f"the run '{each}' has no name"
            raise SettingsError(f"{problem}; give each a name of its own, as in NAME=RUN")
        runs[name] = source
    return runs
