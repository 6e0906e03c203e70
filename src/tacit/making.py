"""What is made of a graph alone: a trained run folder, sampled queries, a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.engine.settings import EngineSettings
from tacit.errors import RunError, SettingsError
from tacit.folder import RunFolder
from tacit.links.settings import TrainSettings
from tacit.sources import Source, is_run, load

# What needs torch is imported where it is used.
if TYPE_CHECKING:
    from tacit.fitting.progress import Event
    from tacit.graph.datasets import Facts
    from tacit.query.query_folder import Drawn
    from tacit.query.sampling import Sample


def train_folder(
    graph: Facts | Sequence[Facts],
    out: Source,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Callable[[Event], None] | bool = True,
    **settings: Any,
) -> RunFolder:
    """Train as `train` does and leave it at the folder: what several processes trained need not fit into one."""
    from tacit.evaluate.validation import validation
    from tacit.fitting.progress import Event, shown
    from tacit.links import training
    from tacit.links.loading import pick_device

    if resume and force:
        raise SettingsError("resume and force contradict each other; give one of them")
    chosen = TrainSettings.of(settings)
    pick_device(chosen.device)  # before anything is written
    loaded = load(graph)
    shards = training.joined_shards(loaded, chosen)
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
    training.train(loaded, chosen, folder, progress, resume=resume, validate=validate)
    return folder


def sample(
    graph: Facts | Sequence[Facts],
    out: Source | None = None,
    *,
    shapes: str | Iterable[str] | None = None,
    templates: Iterable[str] = (),
    split: str = "train",
    count: int = 1000,
    max_answers: int | None = None,
    seed: int = 0,
    waste: float = 0.999,
    missing: int | str | None = None,
    force: bool = False,
    progress: Drawn | None = None,
) -> dict[str, Sample]:
    """Draw queries with easy and hard answers from a graph; with `out`, also write them there as a BetaE folder.

    `shapes` are names as in `2i,3i,2in`, or all, positive, negative; `templates` are questions whose names stand for
    any. Each shape gets `count` queries, of at most `max_answers` hard answers, about the facts of a `split`; it is
    given up when more than the share `waste` of the tries is in vain. With `missing`, 2 or "2+", the hard answers are
    those that exactly, or at least, so many links must be predicted for; the others count as easy. `force` replaces
    queries of the split in the folder. `progress` hears the shape, the queries drawn and those wanted. The queries of
    `2i` are `["2i"].queries`.
    """
    from tacit.query.query_folder import check_place, draw, shapes_of, write_query_folder
    from tacit.query.sampling import links_wanted

    if out is not None:
        check_place(Path(out), split, force)
    wanted = shapes_of(shapes, templates, None if missing is None else links_wanted(missing, split))
    for shape in wanted.values() if out is not None else ():
        shape.encoded()  # what no file can hold is refused before it is drawn
    loaded = load(graph)
    options: dict[str, Any] = {"count": count, "max_answers": max_answers, "seed": seed, "waste": waste}
    options |= {} if missing is None else {"missing": missing}
    samples = draw(loaded, wanted, split, progress=progress, **options)
    if out is not None:
        write_query_folder(loaded, Path(out), split, samples, options)
    return samples


def plan(
    question: str,
    graph: Facts | None = None,
    k: int = EngineSettings().k,
    parameters: Mapping[str, str] | None = None,
) -> str:
    """How a question would be answered with `k` candidates kept, as a tree of steps with what each costs.

    With a graph, names are looked up in it and its entities counted; `parameters` are the labels that `$name` stands
    for.
    """
    from tacit.query.compile import compile_query
    from tacit.query.describe import describe
    from tacit.query.names import bind
    from tacit.query.reading import read

    known = None if graph is None else load(graph)
    query = read(question, known, parameters).query
    prepared = compile_query(query)
    if known is not None:
        bind(prepared, known)
    return f"{query}\n\n{describe(prepared, k, known.num_entities if known else None)}"
