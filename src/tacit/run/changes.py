"""Facts added to a trained run or taken out of it: known at once, and nothing that was learned is learned again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from tacit.errors import DataError, RunError
from tacit.graph.builder import counted
from tacit.graph.formats.label_tables import is_frame
from tacit.graph.graph import Graph
from tacit.graph.merging import Merged, with_facts, without_facts
from tacit.graph.stored import write_names
from tacit.links.settings import TrainSettings
from tacit.run.folder import ADAPTER, ENCODER, ENCODING, INDEX, MODEL, OUTDATED, RunFolder
from tacit.sources import NameOrPath, cache_folder, is_world, load

# What needs torch is imported where it is used.
if TYPE_CHECKING:
    from tacit.fitting.progress import Progress
    from tacit.graph import datasets
    from tacit.links.factors import FactorModel

    Triples = datasets.Facts | Iterable[Sequence[str]]

_WRITTEN = ("graph", "files", "prefixes")  # tables that a run folder writes itself


@dataclass(frozen=True)
class Change:
    """What became of the facts of a run."""

    added: int = 0
    removed: int = 0
    unchanged: int = 0  # facts given that were there already, or were not there to be removed
    entities: int = 0  # those that are new
    relations: int = 0  # forward ones
    names: int = 0  # readable ones that came along
    seconds: float = 0.0
    index_removed: bool = False  # of weights that the run no longer has
    notes: tuple[str, ...] = ()  # what was noticed while the facts were read

    def __str__(self) -> str:
        """The change in a line."""
        if not (self.added or self.removed or self.unchanged):
            return "no facts were given, and nothing changed"
        if self.removed:
            kept = f"what was learned of {'it' if self.removed == 1 else 'them'} stays learned"
            absent = f", {self.unchanged:,} were not there" if self.unchanged else ""
            return f"{counted(self.removed, 'fact')} removed{absent}; {kept}"
        there = f", {self.unchanged:,} were there already" if self.unchanged else ""
        fitted = f"; vectors for {counted(self.entities, 'entity', 'entities')}" if self.entities else ""
        if self.relations:
            fitted += f"{' and' if fitted else '; vectors for'} {counted(self.relations, 'relation')}"
        named = f"; {counted(self.names, 'name')} added" if self.names else ""
        return f"{counted(self.added, 'fact')} added{there}{fitted}{named}"

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self) | {"notes": list(self.notes)}


def add_facts(path: NameOrPath, facts: Triples, *, progress: Progress | bool = False, **options: Any) -> Change:
    """Add facts to the run in a folder.

    They are anything that `load` reads, with its options, a graph, or label triples, and become train facts. Entities
    and relations that the run does not know get vectors that are fitted to their facts; all others keep theirs. Blank
    nodes of a file are not those of the run; in label triples they are.
    """
    return _change(path, facts_of(facts, **options), partial(with_facts, apart=_is_source(facts)), progress)


def remove_facts(path: NameOrPath, facts: Triples, **options: Any) -> Change:
    """Take facts out of the run in a folder; entities, relations and all vectors stay.

    So predictions still carry what was learned of the facts: only training anew forgets it.
    """
    return _change(path, facts_of(facts, **options), without_facts, False)


def facts_of(facts: Triples, **options: Any) -> Graph:
    """The facts that are meant, as a graph of their own."""
    if _is_source(facts):
        return load(facts, **options)
    if not isinstance(facts, Iterable):
        raise DataError(f"a {type(facts).__name__} is no source of facts; expected a path, a DataFrame or triples")
    return load(Graph.of(cast("Iterable[Sequence[str]]", facts), name="facts"), **options)


def _is_source(facts: Any) -> TypeGuard[datasets.Facts]:
    """Whether facts are what `load` reads, and no label triples."""
    return isinstance(facts, str | Path | Graph) or is_frame(facts)


def _change(
    path: NameOrPath, facts: Graph, merge: Callable[[Graph, Graph], Merged], progress: Progress | bool
) -> Change:
    """Exchange the run in a folder for one of other facts."""
    from tacit.links.loading import load_model
    from tacit.links.training.growing import grown

    began = time.perf_counter()
    if is_world(path) or Path(path).resolve().parent == cache_folder().resolve():
        raise RunError("the run of world is Tacit's own; train one on world in a folder of yours, and change that")
    with RunFolder.open(path).exchanged() as (run, draft):
        _check_finished(run)
        before = run.graph()
        graph, changed, unchanged = merge(before, facts)
        more = graph.num_entities - before.num_entities, (graph.num_relations - before.num_relations) // 2
        if any(more) and run.has(ENCODER):
            without = "drop it, or " if run.has(MODEL) else ""
            raise RunError(
                f"the facts name {counted(more[0], 'entity', 'entities')} and {counted(more[1], 'relation')} that run "
                f"'{path}' does not know, and its encoder learns no others; {without}train anew on the larger graph"
            )
        counts = (changed, 0) if len(graph.facts()) > len(before.facts()) else (0, changed)
        names = sum(map(len, graph.names.values())) - sum(map(len, before.names.values()))
        index_removed = changed > 0 and run.has(INDEX)
        change = Change(*counts, unchanged, *more, names, index_removed=index_removed, notes=facts.notes)
        if changed:
            model = load_model(run) if run.has(MODEL) else None
            larger = model
            if model is not None and any(more):
                larger = grown(model, graph, TrainSettings.of(run.settings["train"]), progress)
            _write(run, draft, graph, model, larger, change)
        elif names:  # on which nothing depends that was trained or measured
            write_names(graph, run.path)
    change = replace(change, seconds=round(time.perf_counter() - began, 3))
    if changed or names:
        run.trace({"event": "change", **change.to_dict()})
    return change


def _check_finished(run: RunFolder) -> None:
    """Raise a `RunError` while something is being trained in a run, or where nothing was."""
    from tacit.links.training.finished import is_complete

    wanted = {"train": is_complete(run), "encode": run.has(ENCODER)}
    if run.has(ENCODING) or not all(done for table, done in wanted.items() if table in run.settings):
        raise RunError(f"the training of run '{run.path}' has not finished; go on with resume before its facts change")


def _write(
    run: RunFolder, draft: Path, graph: Graph, model: FactorModel | None, larger: FactorModel | None, change: Change
) -> None:
    """Write what a run becomes; what was of use with its weights and facts alone is not there.

    An encoder keeps its weights, as a link predictor does, among entities that are all known to it.
    """
    from tacit.adapt.adapter import load_adapter, save_adapter
    from tacit.links.loading import save_model

    settings = run.settings
    first, *others = (table for table in settings if table not in _WRITTEN)
    changed = RunFolder.create(draft, graph, settings[first], table=first)
    results = {name: _outdated(value) for name, value in run.results().items() if name not in ("changes", "versions")}
    if model is not None and larger is not None:
        save_model(changed, larger)
        if run.has(ADAPTER):
            adapter, adapted = load_adapter(run, model)
            save_adapter(changed, adapter.grown(larger), adapted)
    for table in others:  # after the model, with which an adapter's would go
        changed.write_settings(table, settings[table])
    for name in (ENCODER, ADAPTER):
        if run.has(name) and not changed.has(name):
            about, tensors = run.contents(name)
            changed.write_tensors(name, tensors, about)
    before = run.results().get("changes", {})
    totals = {name: before.get(name, 0) + getattr(change, name) for name in ("added", "removed")}
    changed.write_results({**results, "changes": totals})


def _outdated(measured: Any) -> Any:
    """Results with a mark that they were measured before a change."""
    if isinstance(measured, list):
        return [_outdated(each) for each in measured]
    return {**measured, "outdated": OUTDATED.format("graph has")} if isinstance(measured, Mapping) else measured
