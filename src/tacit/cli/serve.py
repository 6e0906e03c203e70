"""`tacit serve`: the web page, the HTTP service and the SPARQL endpoint."""

from __future__ import annotations

from typing import Annotated

import typer

from tacit.cli import options


def serve(
    source: Annotated[str, typer.Argument(metavar="RUN|world", help="A run, or world.")],
    host: Annotated[str, typer.Option("--host", help="The address to listen at; others than this machine's own "
                                      "let everyone in who can reach it.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that answer questions.")] = 2,
    device: options.Device = "auto",
    api_key: Annotated[str | None, typer.Option("--api-key", envvar="TACIT_API_KEY", show_envvar=True,
                                                help="A key every request must bring; safer in TACIT_API_KEY.")] = None,
    cors: Annotated[list[str] | None, typer.Option("--cors", help="An origin whose pages may ask; repeat it.")] = None,
    trust_host: Annotated[list[str] | None, typer.Option("--trust-host", help="A further name the service is "
                                                         "known by; repeat it.")] = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds for a question.")] = 10.0,
    max_body: Annotated[int, typer.Option("--max-body", help="Bytes of a request.")] = 65_536,
    max_atoms: Annotated[int, typer.Option("--max-atoms", help="Atoms of a question.")] = 32,
    max_nesting: Annotated[int, typer.Option("--max-nesting", help="Levels of a question's formula.")] = 32,
    max_k: Annotated[int, typer.Option("--max-k", help="Candidates kept for each variable.")] = 4096,
    max_top: Annotated[int, typer.Option("--max-top", help="Answers to a question.")] = 1000,
    max_queue: Annotated[int, typer.Option("--max-queue", help="Questions that wait.")] = 512,
    batch: Annotated[int, typer.Option("--batch", help="Questions answered together, at most.")] = 64,
    patience: Annotated[float, typer.Option("--patience", help="Milliseconds to wait for others like it.")] = 5.0,
) -> None:  # fmt: skip
    """Serve a page to ask questions on, and the same over HTTP and SPARQL."""
    from functools import partial
    from pathlib import Path

    from tacit.errors import SettingsError
    from tacit.server.settings import LOOPBACK, Limits, ServerSettings

    limits = Limits(
        body=max_body, atoms=max_atoms, nesting=max_nesting, k=max_k, top=max_top, seconds=timeout,
        queue=max_queue, batch=batch, patience=patience / 1000,
    )  # fmt: skip
    settings = ServerSettings(host, port, workers, api_key, tuple(cors or ()), tuple(trust_host or ()), limits)
    try:
        from tacit.server.serving import serve as serve_graph
    except ModuleNotFoundError as error:
        raise SettingsError(f"the service needs {error.name}; install it with: pip install 'tacit[server]'") from None
    from tacit import workbench
    from tacit.runs import RunFolder

    named = source == "world" and not Path("world").exists()
    run = workbench.world_run() if named else Path(source)
    graph = RunFolder.open(run).graph()
    if host not in LOOPBACK and api_key is None:
        typer.echo(f"note: everyone who can reach {host} may ask; --api-key limits it", err=True)

    def say(address: str) -> None:
        typer.echo(f"{graph.name}: {graph.num_entities:,} entities, ready at {address}  (Ctrl-C ends it)")

    serve_graph(graph, partial(workbench.open, run, device=device), settings, say)
