"""Find runs by name; the run of `world` is trained at its first use."""

from __future__ import annotations

import re
import shlex
import sys
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.disk import LOCK, exists, locked, written
from tacit.errors import RunError
from tacit.graph.stored import fingerprint
from tacit.links.settings import TrainSettings
from tacit.run_folder.files import FORMAT, RULES, SETTINGS
from tacit.run_folder.folder import RunFolder
from tacit.run_folder.run_cache import cache_folder
from tacit.sources import NameOrPath, is_run, is_world, names_run, open_folder

# Imports of torch are local.
if TYPE_CHECKING:
    from tacit.graph.graph import Graph

WORLD = TrainSettings(device="cpu")
_QUESTION = re.compile(
    r"\s*(\?|:|(count|select|ask|prefix|base)\b.*[?{])", re.IGNORECASE | re.DOTALL
)
_LOOKED_AT = 1000  # entries of a folder that the search for an alternative may read


def find_run(source: NameOrPath) -> RunFolder:
    """The run folder at a path, or that of the trained `world`."""
    if not isinstance(source, str | Path):
        raise RunError(
            f"a run is given by the path of its folder, not by a {type(source).__name__}"
        )
    try:
        return open_folder(world_run() if is_world(source) else source)
    except RunError:
        if names_run(source):
            raise
        raise no_run(Path(source)) from None


def no_run(path: Path, what: str = "run") -> RunError:
    """The error for a path without a run, with what is there and likely alternatives."""
    name = f"'{path!s:.200}'"
    if not exists(path):
        if _QUESTION.match(str(path)):
            return RunError(
                f"{name} is a question where a run is needed; the run comes first, then the "
                "question"
            )
        from difflib import get_close_matches  # local, since it delays every command

        if nearest := get_close_matches(path.name, runs := _runs_near(path), n=1):
            return RunError(f"there is no {what} {name}; did you mean '{runs[nearest[0]]}'?")
        if what == "run":
            return RunError(
                f"there is no run {name}; train one on a graph first",
                command="train GRAPH --out RUN",
            )
        return RunError(
            f"there is no {what} {name}; give a run, a data set, or a file or folder of facts"
        )
    if path.is_dir() and (runs_inside := runs_in(path)):
        return RunError(
            f"{name} is no run but a folder of runs; name one of them, such as '{runs_inside[0]}'"
        )
    if path.is_dir() and not _entries(path):
        return RunError(
            f"{name} is no run but an empty folder; train one on a graph first", command="train"
        )
    kind = f"a folder without {SETTINGS}" if path.is_dir() else "a file"
    problem = f"{name} is no run but {kind}; if it holds facts, train a run on them first"
    return RunError(problem, command=f"train {shlex.quote(str(path))} --out RUN")


def _runs_near(path: Path) -> dict[str, Path | str]:
    """The runs close to a missing path, by name."""
    folders = path.parent, Path(), Path("runs")
    runs = chain.from_iterable(map(runs_in, dict.fromkeys(folders)))
    return {"world": "world"} | {run.name: run for run in runs}


def runs_in(folder: Path) -> list[Path]:
    """The run folders in a folder."""
    return [path for path in _entries(folder) if is_run(path)]


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(islice(folder.iterdir(), _LOOKED_AT))
    except OSError:  # no such folder, or an unreadable one
        return []


def world_run() -> Path:
    """The folder of the trained `world`, trained by the first process that needs it."""
    from tacit.graph.datasets import load  # the data set, never a local path of that name

    graph = load("world")
    path = world_folder(graph)
    if _is_trained(path):
        return path
    from tacit.distributed.shards import world_size
    from tacit.fitting.progress import Event, shown
    from tacit.run.training import train  # local, since it imports this module

    if world_size() > 1:
        raise RunError(
            "world is trained on first use, by one process; ask it something without torchrun first"
        )
    try:
        with written(path):
            path.mkdir(parents=True, exist_ok=True)
            # a lock of its own, since the training takes that of the run
            with locked(path / f"{LOCK}-world"):
                if not _is_trained(path):
                    with shown(True) as tell:
                        tell(Event("note", 0, 0, note=f"training world once; it is kept in {path}"))
                    train(graph, path, force=True, progress=sys.stderr.isatty(), **WORLD.explicit)
    except RunError as error:
        raise RunError(f"{error}; set TACIT_CACHE to a folder that can be written") from None
    return path


def _is_trained(path: Path) -> bool:
    from tacit.links.training.finished import is_complete

    return is_run(path) and is_complete(run := RunFolder.open(path)) and run.has(RULES)


def world_folder(graph: Graph) -> Path:
    """The folder of the trained `world` for these facts, settings and file format."""
    settings = WORLD.with_derived(len(graph.train), graph.num_entities)
    content = f"{FORMAT} {fingerprint(graph)} {settings}".encode()
    return cache_folder() / f"world-{sha256(content).hexdigest()[:12]}"
