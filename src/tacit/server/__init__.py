"""The service: runs over HTTP and SPARQL, and a page to ask them on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tacit.engine.answers.aligned_cells import escape_control_chars
from tacit.errors import SettingsError
from tacit.server.settings import ServerSettings
from tacit.server.workers import fork_server

# Slow imports are local: they run while the fork server loads torch.
if TYPE_CHECKING:
    from tacit.run.run import Run
    from tacit.server.service import Service
    from tacit.sources import NameOrPath


def print_address(service: Service, address: str) -> None:
    """Print where a run can be asked."""
    graph = service.snapshot.graph
    print(
        escape_control_chars(
            f"{graph.name}: {graph.num_entities:,} entities, ready at {address}  (Ctrl-C ends it)"
        ),
        flush=True,
    )


def _name(run: Run) -> str:
    """The name of a run's folder, or of its graph where that lies in the cache."""
    from tacit.run.mined import is_cached
    from tacit.run_folder.run_cache import is_unpacked

    in_cache = is_cached(run.folder) or is_unpacked(run.folder)
    return run.folder.graph().name if in_cache else run.folder.path.resolve().name


def serve(
    runs: NameOrPath | Run | Mapping[str, NameOrPath | Run],
    *,
    ready: Callable[[Service, str], Any] = print_address,
    **settings: Any,
) -> None:
    """Serve one or several runs, by page, HTTP and SPARQL, until interrupted.

    A run is one that was opened, with its device and settings, or a folder, or `world`, or facts
    as `tacit.open` takes them. Settings are those of `ServerSettings`, with `limits` of `Limits`;
    `ready` is called with each service and its address once questions can be asked. Ctrl-C ends it,
    and raises `KeyboardInterrupt`, as it does in training. A program calls this below
    `if __name__ == "__main__"`, since processes that answer import it.
    """
    chosen = ServerSettings.of(settings)
    fork_server.start()
    from tacit.run.mined import find_or_mine
    from tacit.run.run import Run

    try:
        from tacit.server.served_run import ServedRun
        from tacit.server.serving import serve_runs
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"the service needs {error.name}; install it with: pip install 'tacit-kg[server]'"
        ) from None
    several: Mapping[str, NameOrPath | Run] = runs if isinstance(runs, Mapping) else {"": runs}
    if not several:
        raise SettingsError("there are no runs to serve; give at least one")
    opened = [
        (name, run if isinstance(run, Run) else Run(find_or_mine(run)))
        for name, run in several.items()
    ]
    served = {name or _name(run): ServedRun.of(run) for name, run in opened}
    serve_runs(served, chosen, ready)
