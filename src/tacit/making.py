"""Runs that are made: trained on a graph, or of a link predictor that was trained elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import RunError, SettingsError
from tacit.folder import RunFolder
from tacit.links.settings import TrainSettings
from tacit.run import Run
from tacit.sources import NameOrPath, is_run, load
from tacit.training import encode_folder, fit_predictor

# What needs torch is imported where it is used.
if TYPE_CHECKING:
    from tacit.fitting.progress import Progress
    from tacit.graph.datasets import Facts
    from tacit.query.queries import QuerySet


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
    from tacit.fitting.progress import Event, shown
    from tacit.links.link_training import joined_shards
    from tacit.links.loading import pick_device

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
    fit_predictor(loaded, chosen, folder, shards, progress, resume=resume)
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
    folder = encode_folder(
        graph, out, queries=queries, checkpoint=checkpoint, resume=resume, force=force, progress=progress, **settings
    )
    return Run(RunFolder.open(folder.path), device=folder.settings["encode"].get("device", "auto"))


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
