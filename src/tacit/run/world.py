"""Which run a name means, and the run of `world`, which is trained on first use."""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.disk import LOCK, locked, written
from tacit.errors import RunError
from tacit.graph.stored import fingerprint
from tacit.links.settings import TrainSettings
from tacit.run.folder import FORMAT, RunFolder
from tacit.sources import NameOrPath, cache_folder, is_run, is_world

# What needs torch is imported where it is used.
if TYPE_CHECKING:
    from tacit.graph.graph import Graph

WORLD = TrainSettings(device="cpu")


def find_run(source: NameOrPath) -> RunFolder:
    """The run folder that is meant: a path that exists, or the trained `world`."""
    return RunFolder.open(world_run() if is_world(source) else source)


def world_run() -> Path:
    """The folder of the trained `world`, made where it is missing; who comes second waits for the first."""
    from tacit.graph.datasets import load  # and never what is called so here

    graph = load("world")
    path = world_folder(graph)
    if _is_trained(path):
        return path
    from tacit.distributed.shards import world_size
    from tacit.fitting.progress import Event, shown
    from tacit.run.training import train  # which opens runs

    if world_size() > 1:
        raise RunError("world is trained on first use, by one process; ask it something without torchrun first")
    try:
        with written(path):
            path.mkdir(parents=True, exist_ok=True)
            with locked(path / LOCK):
                if not _is_trained(path):
                    with shown(True) as tell:
                        tell(Event("note", 0, 0, note=f"training world once; it is kept in {path}"))
                    train(graph, path, force=True, progress=sys.stderr.isatty(), **WORLD.given)
    except RunError as error:
        raise RunError(f"{error}; set TACIT_CACHE to a folder that can be written") from None
    return path


def _is_trained(path: Path) -> bool:
    from tacit.links.training.finished import is_complete

    return is_run(path) and is_complete(RunFolder.open(path))


def world_folder(graph: Graph) -> Path:
    """Where the trained `world` is kept: facts or settings of another version of Tacit have another folder."""
    settings = WORLD.settled(len(graph.train), graph.num_entities)
    made_of = f"{FORMAT} {fingerprint(graph)} {settings}".encode()
    return cache_folder() / f"world-{sha256(made_of).hexdigest()[:12]}"
