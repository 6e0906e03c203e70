"""Training of runs on a graph, and import of models that were trained elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit import disk
from tacit.encode.settings import EncodeSettings
from tacit.errors import RunError, SettingsError, TacitError
from tacit.fitting.gradients import with_gradients
from tacit.fitting.tracking import check_tracker, tracked
from tacit.links.settings import TrainSettings
from tacit.run.mined import check_own
from tacit.run.rule_training import take_mining, train_rules
from tacit.run.run import Run
from tacit.run.world import find_run
from tacit.run_folder.files import ENCODER, ENCODING, MODEL, ON_PREDICTOR, RULES_MODEL
from tacit.run_folder.folder import RunFolder, is_of_rules
from tacit.sources import NameOrPath, is_run, load, names_run, take_reading

# Imports of torch are local.
if TYPE_CHECKING:
    from tacit.fitting.progress import Progress
    from tacit.graph.datasets import Facts
    from tacit.graph.graph import Graph
    from tacit.query.sampling.queries import QuerySet


def _check_either(resume: bool, force: bool) -> None:
    if resume and force:
        raise SettingsError(
            "`resume=True` goes on with a run and `force=True` replaces it; leave one out"
        )


@with_gradients
def train(
    graph: Facts | Sequence[Facts],
    out: NameOrPath,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Progress | bool = True,
    track: str | None = None,
    **settings: Any,
) -> Run:
    """Train a link predictor on a graph, and write it to the folder `out`.

    `resume` continues the run in the folder if there is one, with its own settings except those
    passed here; a complete run continues if there are more `epochs` to do. `force` replaces it.
    `progress` receives every `Event`, or True shows them: as a bar on a terminal, as lines
    elsewhere. `track` logs the training in `tensorboard`, `mlflow` or `wandb` as well, and a
    resumed one in the same tracked run. Settings are those of `TrainSettings`: model, rank, epochs,
    batch, lr, reg, device, seed and so on; the defaults of rank, epochs, batch and reg depend on
    the size of the graph. Rules are mined as well, by `RuleSettings`, and mixed into the scores,
    unless `rules=False`. With `model="rules"` they are those of `RuleSettings`, and the run is
    written once all rules are mined. Attributes are learned at the end. Ctrl-C saves the run before
    it raises `KeyboardInterrupt`. Options of `tacit.load`, such as `columns`, say how the graph is
    read.
    """
    _check_either(resume, force)
    check_tracker(track, settings.get("model"))
    if settings.get("model") == RULES_MODEL:
        return train_rules(graph, out, resume, force, progress, settings)
    from tacit.evaluate.question_validation import validation
    from tacit.fitting.progress import Event, shown
    from tacit.links.models import pick_device
    from tacit.links.training.link_training import joined_shards, meet_others
    from tacit.links.training.link_training import train as fit
    from tacit.links.values.value_files import complete_values
    from tacit.run.mixed_training import complete_rules

    reading = take_reading(settings)
    mining = take_mining(settings)
    config = TrainSettings.of(settings)
    pick_device(config.device)  # before anything is written
    meet_others(config.device)
    loaded = load(graph, **reading)
    shards = joined_shards(loaded, config)
    shards.wait()  # for slower readers
    if resume and shards.broadcast(is_run(out)):
        folder = _resumable_run(out, loaded)
        stored = TrainSettings.stored(folder.settings["train"])
        config = stored.continued(**settings)
    else:
        sizes = len(loaded.train), loaded.num_entities
        if shards.world > 1 and "validate_on" not in settings:
            # drawing questions would keep all processes but one waiting
            config = config.changed(validate_on="facts")
        explicit = config
        config = stored = config.with_derived(*sizes)
        if shards.leads:
            RunFolder.create(out, loaded, config.to_dict(), force)
            if note := config.describe_defaults(explicit, *sizes):
                with shown(progress) as tell:
                    tell(Event("note", 0, 0, note=note))
        shards.wait()
        folder = RunFolder.open(out)
    tracker = track if shards.leads else None
    with (
        folder.training("train") if shards.leads else nullcontext(),
        tracked(tracker, progress, folder, "train", config.to_dict(), resume) as progress,
    ):
        if shards.leads and TrainSettings.stored(folder.settings["train"]) != stored:
            raise RunError(f"run '{out}' was replaced by another training; choose another folder")
        validate = validation(loaded, config, folder, shards)
        fit(loaded, config, folder, progress, resume=resume, validate=validate)
        if shards.leads:
            complete_rules(loaded, folder, config, mining, shards.world == 1, progress)
            complete_values(folder, loaded, progress)
    # read at the first use, since weights of several processes need not fit into one
    return Run(RunFolder.open(out), device=folder.settings["train"]["device"])


def _resumable_run(out: NameOrPath, graph: Graph) -> RunFolder:
    """The run in a folder, whose link predictor was trained on a graph."""
    folder = RunFolder.open(out)
    folder.check(graph)
    if "train" not in folder.settings:
        raise RunError(
            f"run '{out}' holds an encoder alone, no link predictor to go on with; choose another "
            "folder"
        )
    if is_of_rules(folder):
        raise RunError(
            f"run '{out}' holds rules, which are mined again with `force=True`; go on with it by "
            "`model='rules'`, or choose another folder"
        )
    return folder


@with_gradients
def train_encoder(
    graph: Facts | Sequence[Facts],
    out: NameOrPath | None = None,
    *,
    queries: NameOrPath | Mapping[str, QuerySet] | None = None,
    checkpoint: NameOrPath | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress | bool = True,
    track: str | None = None,
    **settings: Any,
) -> Run:
    """Train an encoder on a graph or a run, and write it to `out` or into the run.

    It learns from `queries`, a query folder or query sets by shape; missing ones of `shapes` are
    sampled from the train facts. `checkpoint` is a file of UltraQuery's weights, or a run that has
    them, to import in place of training. `resume` continues a stopped training, `force` replaces
    the run in the folder, `progress` receives every `Event`, or True shows them, and `track` logs
    them as `tacit.train` does. Settings are those of `EncodeSettings`: model, recipe, minutes,
    steps, width, device, seed and so on, and options of `tacit.load` where `graph` is no run.
    """
    from tacit.links.models import pick_device

    _check_either(resume, force)
    check_tracker(track)
    reading = take_reading(settings)
    config = EncodeSettings.of(settings)
    pick_device(config.device)  # before anything is written
    if reading:
        if names_run(graph):
            name = next(iter(reading))
            raise SettingsError(
                f"{name} says how facts are read, and '{graph}' is a run, whose facts were", name
            )
        graph = load(graph, **reading)
    if checkpoint is None:
        folder = _train_in_folder(
            graph, out, config, settings, queries, resume, force, progress, track
        )
    else:
        chosen = {"resume": resume, "track": track is not None}
        beside = settings.keys() | {name for name in chosen if chosen[name]}
        if others := sorted(beside - {"model", "device"}):
            raise SettingsError(
                f"{others[0]} is given beside `checkpoint`, whose weights are trained already; "
                "leave one out",
                others[0],
            )
        folder = _import_encoder(graph, out, config, Path(checkpoint), force)
    return Run(RunFolder.open(folder.path), device=folder.settings["encode"].get("device", "auto"))


def _train_in_folder(
    source: Any,
    out: NameOrPath | None,
    requested: EncodeSettings,
    settings: Mapping[str, Any],
    queries: NameOrPath | Mapping[str, QuerySet] | None,
    resume: bool,
    force: bool,
    progress: Progress | bool,
    track: str | None,
) -> RunFolder:
    """Train an encoder in its run folder, unless a resumed training is complete."""
    from tacit.encode.training.encoding import encode, training_queries
    from tacit.links.models import load_model, pick_device

    fresh = out is not None and not disk.exists(out)
    if out is None:
        folder = _run_for_encoder(source, resume, force)
    elif resume and is_run(out):
        folder = RunFolder.open(out)
        folder.check(load(source))
    else:
        folder = _create_folder(source, out, requested, force)
    config = _continued_settings(folder, requested, settings, resume)
    if resume and folder.has(ENCODER) and not folder.has(ENCODING):  # it is complete
        return folder
    predicts = folder.has_predictor  # which stays as it is while the encoder is trained
    with folder.training("encode"), folder.in_use() if predicts else nullcontext():
        if out is None:
            _check_replaceable(folder, resume, force)
        try:
            needs_vectors = config.model in ON_PREDICTOR or folder.has(MODEL)
            scorer = (
                load_model(folder, str(pick_device(config.device)))
                if predicts and needs_vectors
                else None
            )
            graph = folder.graph()
            train_queries, valid_queries = training_queries(graph, config, queries)
            with tracked(
                track, progress, folder, "encode", config.to_dict(), resume
            ) as tracked_progress:
                encode(
                    graph,
                    config,
                    queries=train_queries,
                    valid=valid_queries,
                    scorer=scorer,
                    run=folder,
                    progress=tracked_progress,
                    resume=resume,
                )
        except TacitError:
            # so that the folder can be used again
            if fresh and not (folder.has(ENCODING) or folder.has(ENCODER)):
                shutil.rmtree(folder.path)
            raise
    return folder


def _run_for_encoder(source: Any, resume: bool, force: bool) -> RunFolder:
    """The run that an encoder is added to; only `force` replaces an existing encoder."""
    if not isinstance(source, str | Path):
        raise SettingsError(
            "out is not given, and a graph has no folder to keep an encoder in; name one", "out"
        )
    folder = find_run(source)
    check_own(folder)
    _check_replaceable(folder, resume, force)
    return folder


def _check_replaceable(folder: RunFolder, resume: bool, force: bool) -> None:
    """Raise a `RunError` where a run has an encoder that nobody agreed to replace."""
    if (folder.has(ENCODER) or folder.has(ENCODING)) and not (resume or force):
        present = folder.settings.get("encode", {}).get("model", "not trained to its end")
        raise RunError(
            f"run '{folder.path}' has an encoder, {present}; replace it with `force=True`, go on "
            "with `resume=True` where its training was stopped, or give another folder as `out`"
        )


def _create_folder(
    source: Any, out: NameOrPath, requested: EncodeSettings, force: bool
) -> RunFolder:
    """A folder for an encoder, with a copy of the link predictor if the model needs one."""
    from tacit.links.models import load_model, save_model

    if requested.model not in ON_PREDICTOR:
        graph = load(source)
        derived = requested.with_derived(graph.num_entities)
        return RunFolder.create(out, graph, derived.to_dict(), force, table="encode")
    if not names_run(source):
        raise SettingsError(
            f"model is '{requested.model}', which works on a link predictor; give a run with one",
            "model",
        )
    origin = find_run(source)
    with disk.reading(origin.path):  # one snapshot of facts and weights, before anything is written
        graph = origin.graph()
        model = load_model(origin)
        trained_with = origin.settings["train"]
    derived = requested.with_derived(graph.num_entities)
    folder = RunFolder.create(out, graph, trained_with, force)
    save_model(folder, model)
    folder.write_settings("encode", derived.to_dict())
    return folder


def _continued_settings(
    folder: RunFolder, requested: EncodeSettings, settings: Mapping[str, Any], resume: bool
) -> EncodeSettings:
    """The settings of a training: those of the resumed one with changes, or derived ones."""
    stored = folder.settings.get("encode")
    if not resume or stored is None:
        return requested.with_derived(folder.graph().num_entities)
    before = EncodeSettings.of(stored)
    config = before.continued(**settings)
    longer = config.steps > before.steps or (config.minutes or 0) > (before.minutes or 0)
    if folder.has(ENCODER) and not folder.has(ENCODING) and longer:
        trained = (
            f"{before.steps} steps" if before.minutes is None else f"{before.minutes:g} minutes"
        )
        raise RunError(
            f"run '{folder.path}' has no {ENCODING} to go on from; train anew with `force=True`, "
            f"or for {trained}"
        )
    return config


def _import_encoder(
    source: Any, out: NameOrPath | None, requested: EncodeSettings, checkpoint: Path, force: bool
) -> RunFolder:
    """The folder of a run with an imported encoder, whose weights fit any graph."""
    if requested.model != "ultra":
        raise SettingsError(
            f"checkpoint is given, and `model='{requested.model}'` is not imported from one; give "
            "`model='ultra'`",
            "checkpoint",
        )
    from tacit.encode.models import save_encoder
    from tacit.encode.networks.ultra import import_checkpoint

    folder = _run_for_encoder(source, False, force) if out is None else None
    graph = load(source) if folder is None else folder.graph()
    encoder, settings = import_checkpoint(checkpoint, graph)  # before anything is written
    if folder is None:
        folder = RunFolder.create(
            out or "", graph, settings.to_dict(), force, table="encode", resumable=False
        )
    parameters = sum(parameter.numel() for parameter in encoder.parameters())
    summary = {"model": settings.model, "imported": checkpoint.name, "parameters": parameters}
    with folder.in_use(changes=True):
        folder.check_unchanged()
        folder.drop("encode")
        save_encoder(folder, encoder, settings, summary)
    return folder


@with_gradients
def import_model(
    source: NameOrPath,
    out: NameOrPath,
    graph: Facts | Sequence[Facts] | None = None,
    *,
    reciprocal: str = "interleaved",
    trust_pickle: bool = False,
    force: bool = False,
    **options: Any,
) -> Run:
    """Import a link predictor trained with kbc, CQD or PyKEEN as a run in `out`.

    `source` is a `.pt` checkpoint of kbc or CQD, or a PyKEEN directory; `graph` is what it was
    trained on, which a PyKEEN directory holds itself. `reciprocal` says where a checkpoint keeps
    the inverse of a relation: `interleaved` right after it, as CQD does, `stacked` in the second
    half of the table, as kbc does. `trust_pickle` opens PyKEEN's pickle, which can run any code.
    `force` replaces the run in the folder. Options of `tacit.load` say how the graph is read.
    """
    from tacit.links.imports import import_run, read_import

    if options and graph is None:
        option = next(iter(options))
        raise SettingsError(f"{option} says how facts are read, and no graph is given", option)
    name = Path(source).name or Path(source).resolve().name
    imported = read_import(source, trust_pickle, reciprocal)
    facts = imported.graph(name) if graph is None else load(graph, **options)
    return Run(RunFolder.open(import_run(imported, facts, out, name, force).path))
