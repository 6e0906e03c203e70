"""What is trained: run folders with a link predictor or an encoder, and that of `world`, which is made on first use."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.disk import LOCK, exists, locked, write_error
from tacit.encode.settings import EncodeSettings
from tacit.errors import RunError, SettingsError, TacitError
from tacit.folder import ENCODER, ENCODING, FORMAT, MODEL, ON_PREDICTOR, RunFolder
from tacit.graph.stored import fingerprint
from tacit.links.settings import TrainSettings
from tacit.sources import NameOrPath, cache_folder, is_run, is_world, load, names_run

# What needs torch is imported where it is used.
if TYPE_CHECKING:
    from tacit.distributed.shards import Shards
    from tacit.fitting.progress import Progress
    from tacit.graph.datasets import Facts
    from tacit.graph.graph import Graph
    from tacit.query.queries import QuerySet

WORLD = TrainSettings(device="cpu")


def fit_predictor(
    graph: Graph,
    settings: TrainSettings,
    folder: RunFolder,
    shards: Shards,
    progress: Progress | bool,
    resume: bool = False,
) -> None:
    """Train the link predictor of a run folder, whose settings are settled."""
    from tacit.evaluate.question_validation import validation
    from tacit.links.link_training import train

    validate = validation(graph, settings, folder, shards)
    train(graph, settings, folder, progress, resume=resume, validate=validate)


def encode_folder(
    source: Facts | Sequence[Facts],
    out: NameOrPath | None = None,
    *,
    queries: NameOrPath | Mapping[str, QuerySet] | None = None,
    checkpoint: NameOrPath | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress | bool = True,
    **settings: Any,
) -> RunFolder:
    """Train an encoder and keep it in a run folder of its own, or without `out` in the run that is given.

    The arguments are those of `tacit.train_encoder`.
    """
    from tacit.encode.encoding import encode
    from tacit.encode.given_queries import given_queries
    from tacit.links.loading import load_model, pick_device

    if resume and force:
        raise SettingsError("resume and force contradict each other; give one of them")
    given = EncodeSettings.of(settings)
    device = str(pick_device(given.device))  # before anything is written
    if checkpoint is not None:
        for name in sorted({*settings, *(["resume"] if resume else [])} - {"model", "device"}):
            raise SettingsError(f"{name} is given beside a checkpoint, whose weights are trained already", name)
        return _imported(source, out, given, Path(checkpoint), force)
    fresh = out is not None and not exists(out)
    if out is None:
        folder = _within(source, resume, force)
    elif resume and is_run(out):
        folder = RunFolder.open(out)
        folder.check(load(source))
    else:
        folder = _created(source, out, given, force)
    chosen = _chosen(folder, given, settings, resume)
    if resume and folder.has(ENCODER) and not folder.has(ENCODING):  # it is complete
        return folder
    try:
        scorer = load_model(folder, device) if folder.has(MODEL) else None
        graph = folder.graph()
        learned, valid = given_queries(graph, chosen, queries)
        encode(graph, chosen, queries=learned, valid=valid, scorer=scorer, run=folder, progress=progress, resume=resume)
    except TacitError:
        if fresh and not (folder.has(ENCODING) or folder.has(ENCODER)):  # so that the folder can be given again
            shutil.rmtree(folder.path)
        raise
    return folder


def _within(source: Any, resume: bool, force: bool) -> RunFolder:
    """The run that gets an encoder; one that it has is replaced by force alone, and not before there is another."""
    if not isinstance(source, str | Path):
        raise SettingsError("out is not given, and a graph has no folder to keep an encoder in", "out")
    folder = find_run(source)
    if folder.has(ENCODING) and not (resume or force):
        raise RunError(
            f"run '{folder.path}' has an encoder whose training was stopped; go on with resume, or start with force"
        )
    if folder.has(ENCODER) and not (resume or force):
        there = folder.settings.get("encode", {}).get("model")
        raise RunError(
            f"run '{folder.path}' has an encoder, {there}; replace it with force, or give another run as out"
        )
    return folder


def _created(source: Any, out: NameOrPath, given: EncodeSettings, force: bool) -> RunFolder:
    """A run folder of its own; where the model works on a link predictor, with that of the run it is made of."""
    from tacit.links.loading import load_model, save_model

    on_predictor = given.model in ON_PREDICTOR
    if on_predictor and not names_run(source):
        raise SettingsError(f"model is '{given.model}', which works on a link predictor; give a run with one", "model")
    origin = find_run(source) if on_predictor else None
    model = load_model(origin) if origin is not None else None  # before anything is written
    graph = load(source) if origin is None else origin.graph()
    settled = given.settled(graph.num_entities)
    folder = RunFolder.create(out, graph, settled.to_dict(), force, table="encode")
    if origin is not None and model is not None:
        folder.write_settings("train", origin.settings["train"])
        save_model(folder, model)
        folder.write_settings("encode", settled.to_dict())
    return folder


def _chosen(folder: RunFolder, given: EncodeSettings, settings: Mapping[str, Any], resume: bool) -> EncodeSettings:
    """The settings to train with: those of a training that is resumed but for those given, or chosen by the graph."""
    kept = folder.settings.get("encode")
    if not resume or kept is None:
        return given.settled(folder.graph().num_entities)
    before = EncodeSettings.of(kept)
    chosen = before.continued(**settings)
    longer = chosen.steps > before.steps or (chosen.minutes or 0) > (before.minutes or 0)
    if folder.has(ENCODER) and not folder.has(ENCODING) and longer:
        trained = f"{before.steps} steps" if before.minutes is None else f"{before.minutes:g} minutes"
        raise RunError(f"run '{folder.path}' has no {ENCODING} to go on from; train anew, or for {trained}")
    return chosen


def _imported(source: Any, out: NameOrPath | None, given: EncodeSettings, checkpoint: Path, force: bool) -> RunFolder:
    """A run with an encoder whose weights were trained elsewhere, on any graph."""
    if given.model != "ultra":
        raise SettingsError(
            f"checkpoint is given, and the model is '{given.model}'; ultra alone is imported from one", "checkpoint"
        )
    from tacit.encode.loading import save_encoder
    from tacit.encode.ultra import import_checkpoint

    folder = _within(source, False, force) if out is None else None
    graph = load(source) if folder is None else folder.graph()
    encoder, settings = import_checkpoint(checkpoint, graph)  # before anything is written
    if folder is None:
        folder = RunFolder.create(out or "", graph, settings.to_dict(), force, table="encode")
    folder.drop("encode")
    save_encoder(folder, encoder, settings)
    folder.write_settings("encode", settings.to_dict())
    parameters = sum(parameter.numel() for parameter in encoder.parameters())
    summary = {"model": settings.model, "imported": checkpoint.name, "parameters": parameters}
    with folder.changed_results() as results:
        results["encode"] = summary
    return folder


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
    from tacit.distributed.shards import Shards, world_size
    from tacit.fitting.progress import Event, shown

    if world_size() > 1:
        raise RunError("world is trained on first use, by one process; ask it something without torchrun first")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with locked(path / LOCK):
            if not _is_trained(path):
                with shown(True) as tell:
                    tell(Event("note", 0, 0, note=f"training world once; it is kept in {path}"))
                settings = WORLD.settled(len(graph.train), graph.num_entities)
                folder = RunFolder.create(path, graph, settings.to_dict(), force=True)
                fit_predictor(graph, settings, folder, Shards(graph.num_entities), sys.stderr.isatty())
    except (RunError, OSError) as error:
        problem = write_error(path, error) if isinstance(error, OSError) else error
        raise RunError(f"{problem}; set TACIT_CACHE to a folder that can be written") from None
    return path


def _is_trained(path: Path) -> bool:
    from tacit.links.finished import is_complete

    return is_run(path) and is_complete(RunFolder.open(path))


def world_folder(graph: Graph) -> Path:
    """Where the trained `world` is kept: facts or settings of another version of Tacit have another folder."""
    settings = WORLD.settled(len(graph.train), graph.num_entities)
    made_of = f"{FORMAT} {fingerprint(graph)} {settings}".encode()
    return cache_folder() / f"world-{sha256(made_of).hexdigest()[:12]}"
