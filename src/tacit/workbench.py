"""The verbs of Tacit for Python: open, train."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from tacit.engine.engine import Engine
from tacit.engine.facts import Facts
from tacit.engine.settings import EngineSettings
from tacit.errors import RunError
from tacit.folder import SETTINGS, RunFolder, fingerprint
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.links.loading import is_complete, load_model, pick_device
from tacit.links.settings import TrainSettings

WORLD = TrainSettings(device="cpu")


def open(source: str | Path, *, device: str = "auto", adapted: bool = True, **settings: Any) -> Engine:
    """The engine of a run folder, or of `world`, which is trained on first use and kept in the user's cache.

    Settings are those of `EngineSettings`; where a run has an adapter, its own are the defaults. `adapted=False` leaves
    the adapter out.
    """
    run = RunFolder.open(world_run() if str(source) == "world" and not Path("world").exists() else source)
    graph = run.graph()
    scorer = load_model(run, str(pick_device(device)))
    options = EngineSettings.of(settings)
    if not adapted or "calibration" in settings or not run.has("adapter.safetensors"):
        return Engine(graph, scorer, options)
    from tacit.adapt.loading import load_adapted

    counted = Facts(graph.index(*(options.observed or ("train",))), scorer.device)
    found = load_adapted(run, scorer, counted)
    if found is None:
        return Engine(graph, scorer, options)
    calibration, trained_for = found
    return Engine(graph, scorer, EngineSettings.of(trained_for | settings), adapter=calibration)


def train(
    graph: str | Path | Graph, out: str | Path, *, progress: bool = True, force: bool = False, **settings: Any
) -> Engine:
    """Train a link predictor on a graph, keep it in the folder `out`, and open it.

    Settings are those of `tacit train`: model, rank, epochs, batch, lr, reg, device, seed and so on.
    """
    from tacit.links import training  # only here and below: whoever asks need not wait for it

    loaded = graph if isinstance(graph, Graph) else load(graph)
    chosen = TrainSettings.of(settings)
    run = RunFolder.create(out, loaded, chosen.to_dict(), force)
    training.train(loaded, chosen, run, progress)
    return open(out, device=chosen.device)


def world_run(say: Callable[[str], None] | None = None) -> Path:
    """The folder of the trained `world`, made where it is missing."""
    graph = load("world")
    path = world_folder(graph)
    if (path / SETTINGS).exists() and is_complete(RunFolder.open(path)):
        return path
    from tacit.links import training

    (say or _say)(f"training world once; it is kept in {path}")
    try:
        run = RunFolder.create(path, graph, WORLD.to_dict(), force=True)
        training.train(graph, WORLD, run, progress=sys.stderr.isatty())
    except RunError as error:
        raise RunError(f"{error}; set TACIT_CACHE to a folder that can be written") from None
    return path


def world_folder(graph: Graph) -> Path:
    """Where the trained `world` is kept: facts or settings of another version of Tacit have another folder."""
    made_of = f"{fingerprint(graph)} {WORLD}".encode()
    return cache_folder() / f"world-{sha256(made_of).hexdigest()[:12]}"


def cache_folder() -> Path:
    """Where Tacit keeps what it can make again: `TACIT_CACHE`, or `tacit` in the user's cache folder."""
    if "TACIT_CACHE" in os.environ:
        return Path(os.environ["TACIT_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tacit"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
