"""What a source names: a run, a folder or file of facts, or a data set; what exists as a path is meant first."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from tacit.disk import LOCK, exists, locked, write_error
from tacit.errors import RunError
from tacit.folder import FORMAT, SETTINGS, RunFolder, fingerprint
from tacit.graph import datasets
from tacit.graph.graph import Graph
from tacit.links.settings import TrainSettings

WORLD = TrainSettings(device="cpu")
Source = str | Path


def load(source: datasets.Facts | Sequence[datasets.Facts], **options: Any) -> Graph:
    """The graph of a run folder, a folder or file of facts, a DataFrame, standard input ("-") or a data set ("world").

    What exists as a path is meant first. A list of them is one graph: equal labels are one entity. Options are those of
    `tacit.graph.read_settings.ReadSettings`: `literals` keeps the literals of RDF files as entities, `labels` names a
    table of readable names, `language` those that come first, `columns` head, relation and tail of a table, and
    `format` what standard input holds.
    """
    several: list[Any] = list(source) if isinstance(source, list | tuple) else [source]
    return datasets.load([_found(one) for one in several], **options)


def _found(source: Any) -> Any:
    """The graph of a run, the path that exists, or what was given."""
    if not isinstance(source, str | Path) or not exists(source):
        return source
    return RunFolder.open(source).graph() if is_run(source) else Path(source)


def find_run(source: Source) -> RunFolder:
    """The run folder that is meant: a path that exists, or the trained `world`."""
    return RunFolder.open(world_run() if is_world(source) else source)


def is_run(source: Source) -> bool:
    """Whether a path is that of a run folder."""
    return exists(source) and (Path(source) / SETTINGS).is_file()


def is_world(source: Any) -> bool:
    """Whether a source is the name of `world`, and no path that is called so."""
    return str(source) == "world" and not exists(source)


def names_run(source: Any) -> bool:
    """Whether a source names a run: the path of a run folder, or the trained `world`."""
    return isinstance(source, str | Path) and (is_run(source) or is_world(source))


def world_run() -> Path:
    """The folder of the trained `world`, made where it is missing; who comes second waits for the first."""
    graph = datasets.load("world")
    path = world_folder(graph)
    if _is_trained(path):
        return path
    from tacit.distributed.shards import world_size

    if world_size() > 1:
        raise RunError("world is trained on first use, by one process; ask it something without torchrun first")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with locked(path / LOCK):
            if not _is_trained(path):
                _train_world(graph, path)
    except (RunError, OSError) as error:
        problem = write_error(path, error) if isinstance(error, OSError) else error
        raise RunError(f"{problem}; set TACIT_CACHE to a folder that can be written") from None
    return path


def _is_trained(path: Path) -> bool:
    from tacit.links.finished import is_complete

    return is_run(path) and is_complete(RunFolder.open(path))


def _train_world(graph: Graph, path: Path) -> None:
    from tacit.evaluate.validation import validation
    from tacit.links import training

    print(f"training world once; it is kept in {path}", file=sys.stderr, flush=True)
    settings = world_settings(graph)
    folder = RunFolder.create(path, graph, settings.to_dict(), force=True)
    validate = validation(graph, settings, folder)
    training.train(graph, settings, folder, progress=sys.stderr.isatty(), validate=validate)


def world_folder(graph: Graph) -> Path:
    """Where the trained `world` is kept: facts or settings of another version of Tacit have another folder."""
    made_of = f"{FORMAT} {fingerprint(graph)} {world_settings(graph)}".encode()
    return cache_folder() / f"world-{sha256(made_of).hexdigest()[:12]}"


def world_settings(graph: Graph) -> TrainSettings:
    """How `world` is trained."""
    return WORLD.settled(len(graph.train), graph.num_entities)


def cache_folder() -> Path:
    """Where Tacit keeps what it can make again: `TACIT_CACHE`, or `tacit` in the user's cache folder."""
    if "TACIT_CACHE" in os.environ:
        return Path(os.environ["TACIT_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tacit"
