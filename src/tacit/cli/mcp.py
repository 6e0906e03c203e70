"""`tacit mcp`: runs as tools of an agent, over standard input and output."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tacit.cli import options
from tacit.cli.serve import opened_runs
from tacit.cli.terminal import say
from tacit.engine.settings import EngineSettings
from tacit.graph.settings import ReadSettings
from tacit.server.mcp import load_protocol
from tacit.server.settings import Limits, ServerSettings


@options.of_settings(
    Limits,
    "limits",
    only=("seconds", "atoms", "nesting", "k"),
    flags={"seconds": "--timeout"} | {name: f"--max-{name}" for name in ("atoms", "nesting", "k")},
)
@options.of_settings(EngineSettings, "engine")
@options.of_settings(ReadSettings, "reading")
def mcp(
    sources: Annotated[
        list[str],
        options.run_argument(
            "Runs, world, or graphs, whose rules are mined; NAME=RUN names one.", "RUN|GRAPH..."
        ),
    ],
    limits: options.Values,
    engine: options.Values,
    reading: options.Values,
    write: Annotated[
        bool, typer.Option("--write", help="Let the agent add and remove facts.")
    ] = False,
    unadapted: options.Unadapted = False,
    device: options.Device = "auto",
) -> None:
    """Let an agent ask runs: a server of the Model Context Protocol on standard input and output.

    A program that speaks the protocol starts this, asks, and ends it. For agents elsewhere, tacit
    serve answers the same at /mcp.
    """
    load_protocol()
    from tacit.run.mined import check_own
    from tacit.server.mcp.transports import serve_stdio, take_output
    from tacit.server.served_run import ServedRun

    if sys.stdin is not None and sys.stdin.isatty():
        say("note: a program speaks with this, by standard input; Ctrl-C ends it", err=True)
    output = take_output()
    settings = ServerSettings.of({"workers": 1, "limits": Limits.of(limits)})
    opening = {"device": device, "adapted": not unadapted, **engine}
    with opened_runs(sources, reading, opening) as runs:
        for run in runs.values() if write else ():
            check_own(run.folder)
        served = {name: ServedRun.of(run) for name, run in runs.items()}
        serve_stdio(served, settings, output, write)
