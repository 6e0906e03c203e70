"""Runs that are trained on a graph, or made of a model that was trained elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.disk import exists
from tacit.encode.settings import EncodeSettings
from tacit.errors import RunError, SettingsError, TacitError
from tacit.links.settings import TrainSettings
from tacit.run.folder import ENCODER, ENCODING, MODEL, ON_PREDICTOR, RunFolder
from tacit.run.run import Run
from tacit.run.world import find_run
from tacit.sources import NameOrPath, is_run, load, names_run

# What needs torch is imported where it is used.
if TYPE_CHECKING:
    from tacit.fitting.progress import Progress
    from tacit.graph.datasets import Facts
    from tacit.query.sampling.queries import QuerySet


def train(
    graph: Facts | Sequence[Facts],
    out: NameOrPath,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Progress | bool = True,
    **settings: Any,
) -> Run:
    """Train a link predictor on a graph, and keep it in the folder `out`.

    `resume` goes on with the run in the folder where there is one, with its own settings but for those given; one that
    is complete goes on where there are more `epochs` to do. `force` replaces it. `progress` hears of every `Event`, or
    True shows them: as a bar on a terminal, as lines elsewhere. Settings are those of `TrainSettings`: model, rank,
    epochs, batch, lr, reg, device, seed and so on; rank, epochs, batch and reg are chosen by the size of the graph
    where none are given. Ctrl-C saves the run before it raises `KeyboardInterrupt`.
    """
    from tacit.evaluate.question_validation import validation
    from tacit.fitting.progress import Event, shown
    from tacit.links.loading import pick_device
    from tacit.links.training.link_training import joined_shards
    from tacit.links.training.link_training import train as fit

    if resume and force:
        raise SettingsError("resume and force contradict each other; give one of them")
    chosen = TrainSettings.of(settings)
    pick_device(chosen.device)  # before anything is written
    loaded = load(graph)
    shards = joined_shards(loaded, chosen)
    if resume and shards.broadcast(is_run(out)):
        folder = RunFolder.open(out)
        folder.check(loaded)
        if "train" not in folder.settings:
            raise RunError(f"run '{out}' holds an encoder alone, no training to go on with; choose another folder")
        chosen = TrainSettings.of(folder.settings["train"]).continued(**settings)
    else:
        sizes = len(loaded.train), loaded.num_entities
        if shards.world > 1 and "validate_on" not in settings:
            chosen = chosen.changed(validate_on="facts")  # to draw questions is work for one, while all others wait
        given, chosen = chosen, chosen.settled(*sizes)
        if shards.leads:
            RunFolder.create(out, loaded, chosen.to_dict(), force)
            note = chosen.told(given, *sizes)
            if note:
                with shown(progress) as tell:
                    tell(Event("note", 0, 0, note=note))
        shards.wait()
        folder = RunFolder.open(out)
    validate = validation(loaded, chosen, folder, shards)
    fit(loaded, chosen, folder, progress, resume=resume, validate=validate)
    # It is read when it is asked, as it stands then: what several processes trained need not fit into one.
    return Run(RunFolder.open(out), device=folder.settings["train"]["device"])


def train_encoder(
    graph: Facts | Sequence[Facts],
    out: NameOrPath | None = None,
    *,
    queries: NameOrPath | Mapping[str, QuerySet] | None = None,
    checkpoint: NameOrPath | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress | bool = True,
    **settings: Any,
) -> Run:
    """Train an encoder on a graph, or on that of a run, and keep it in the folder `out`, or without one in the run.

    It learns from `queries`, a query folder or query sets by shape; what `shapes` names and those lack is drawn from
    the train facts, and without `queries` all is. `checkpoint` is a file of UltraQuery's weights, or a run that has
    them, to import in place of training. `resume` goes on with what was stopped, `force` replaces the run in the
    folder, `progress` hears of every `Event`, or True shows them. Settings are those of `EncodeSettings`: model,
    recipe, minutes, steps, width, device, seed and so on.
    """
    from tacit.links.loading import pick_device

    if resume and force:
        raise SettingsError("resume and force contradict each other; give one of them")
    given = EncodeSettings.of(settings)
    pick_device(given.device)  # before anything is written
    if checkpoint is None:
        folder = _encoded(graph, out, given, settings, queries, resume, force, progress)
    else:
        if others := sorted({*settings, *(["resume"] if resume else [])} - {"model", "device"}):
            why = f"{others[0]} is given beside a checkpoint, whose weights are trained already"
            raise SettingsError(why, others[0])
        folder = _imported(graph, out, given, Path(checkpoint), force)
    return Run(RunFolder.open(folder.path), device=folder.settings["encode"].get("device", "auto"))


def _encoded(
    source: Any, out: NameOrPath | None, given: EncodeSettings, settings: Mapping[str, Any],
    queries: NameOrPath | Mapping[str, QuerySet] | None, resume: bool, force: bool, progress: Progress | bool,
) -> RunFolder:  # fmt: skip
    """A run folder with the encoder that was trained, or whose training had come to its end before."""
    from tacit.encode.training.encoding import encode, given_queries
    from tacit.links.loading import load_model, pick_device

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
        scorer = load_model(folder, str(pick_device(chosen.device))) if folder.has(MODEL) else None
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
    if (folder.has(ENCODER) or folder.has(ENCODING)) and not (resume or force):
        there = folder.settings.get("encode", {}).get("model")
        raise RunError(
            f"run '{folder.path}' has an encoder, {there}; replace it with force, go on with resume where its training "
            "was stopped, or give another run as out"
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
        raise SettingsError(f"checkpoint is given for '{given.model}'; ultra alone is imported from one", "checkpoint")
    from tacit.encode.models import save_encoder
    from tacit.encode.networks.ultra import import_checkpoint

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


def import_model(
    source: NameOrPath,
    out: NameOrPath,
    graph: Facts | Sequence[Facts] | None = None,
    *,
    reciprocal: str = "interleaved",
    trust_pickle: bool = False,
    force: bool = False,
) -> Run:
    """Make a run, in the folder `out`, of a link predictor that was trained with kbc, CQD or PyKEEN.

    `source` is a `.pt` checkpoint of kbc or CQD, or a PyKEEN directory; `graph` is what it was trained on, which a
    PyKEEN directory holds itself. `reciprocal` says where a checkpoint keeps the inverse of a relation: `interleaved`
    right after it, as CQD does, `stacked` in the second half of the table, as kbc does. `trust_pickle` opens PyKEEN's
    pickle, which can run any code. `force` replaces the run in the folder.
    """
    from tacit.links.imports import import_run, read_import

    name = Path(source).name
    imported = read_import(source, trust_pickle, reciprocal)
    facts = imported.graph(name) if graph is None else load(graph)
    return Run(RunFolder.open(import_run(imported, facts, out, name, force).path))
