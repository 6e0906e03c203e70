"""Adding facts to a trained run, or removing them, without training again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from tacit.errors import DataError, RunError
from tacit.fitting.gradients import with_gradients
from tacit.graph.builder import counted
from tacit.graph.formats.label_tables import is_frame, is_rows
from tacit.graph.graph import INVERSE, Graph
from tacit.graph.labels.near_duplicates import quoted_pair, repeated_names, resembling
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.graph.merging import Merged, with_facts, without_facts
from tacit.graph.stored import write_names
from tacit.links.settings import TrainSettings
from tacit.run.mined import PREFIX, check_own
from tacit.run.world import find_run
from tacit.run_folder.files import ADAPTER, ENCODER, ENCODING, INDEX, MODEL, OUTDATED, RULES
from tacit.run_folder.folder import RunFolder
from tacit.sources import NameOrPath, cache_folder, is_world, load

# Imports of torch are local.
if TYPE_CHECKING:
    from tacit.fitting.progress import Progress
    from tacit.graph import datasets
    from tacit.links.scorer import Scorer

    Triples = datasets.Facts | Iterable[Sequence[str]]

SHOWN = 5  # names of a kind in a line
# fields of a change that are long or always the same
_NOT_TRACED = ("new_names", "absent", "dry_run")
_WRITTEN = ("graph", "files", "prefixes")  # tables that a run folder writes itself


@dataclass(frozen=True)
class NewNames:
    """The labels that a run does not know, with the known ones that they resemble.

    `relations` have the nearest known relation, or None. `near` are new entities that nearly repeat
    a known one, `same` new entities and relations that differ from a known one in case, spaces or
    the way Unicode writes them alone, `repeated` those that differ so from another new one.
    """

    entities: tuple[str, ...] = ()
    relations: dict[str, str | None] = field(default_factory=dict, hash=False)
    near: dict[str, str] = field(default_factory=dict, hash=False)
    same: dict[str, str] = field(default_factory=dict, hash=False)
    repeated: dict[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, before: Graph, after: Graph) -> NewNames:
        """The new names of a larger graph."""
        entities = tuple(after.entities[before.num_entities :])
        relations = tuple(after.relations[before.num_relations :: 2])
        of_entities = resembling(entities, _texts(before.entities))
        same = resembling(relations, _texts(before.relations)).same
        nearest = {
            label: same.get(label) or _nearest(before.relations, label) for label in relations
        }
        same |= of_entities.same
        repeated = repeated_names(entities) | repeated_names(relations)
        pairs = {label: other for label, other in repeated.items() if label not in same}
        return cls(entities, nearest, of_entities.near, same, pairs)

    @property
    def is_doubtful(self) -> bool:
        """Whether some of the names need consent."""
        return bool(self.relations or self.near or self.needs_force)

    @property
    def needs_force(self) -> bool:
        """Whether some of the names differ from another in case or the like alone."""
        return bool(self.same or self.repeated)

    def check(self, new: bool, force: bool) -> None:
        """Raise a `DataError` for doubtful names without consent.

        `force` accepts all of them, `new` all but the `same` and `repeated`.
        """
        if force or not self.is_doubtful or (new and not self.needs_force):
            return
        doubts = "; ".join(self.doubts(of_new=not new))
        agree = "`force=True`" if self.needs_force else "`new=True`"
        known = [*self.same.values(), *self.relations.values(), *self.near.values()]
        others = "the known names" if any(known) or not self.repeated else "one name for each"
        raise DataError(
            f"nothing was added: {doubts}; write {others}, or add these as they are with {agree}",
            suggestions=list(dict.fromkeys(filter(None, known)))[:10],
        )

    def lines(self) -> list[str]:
        """All new names as text, one line for each kind."""
        count = counted(len(self.entities), "new entity", "new entities")
        entities = [f"{count}: {join_names(self.entities)}"] if self.entities else []
        return [*entities, *self.doubts()]

    def doubts(self, of_new: bool = True) -> list[str]:
        """The doubtful names as text, a line for each kind; unless `of_new`, what needs force."""
        doubts = []
        if self.same:
            pairs = _pairs(self.same)
            doubts.append(
                f"{counted(len(pairs), 'new name')} differing from a known one in case, spaces or "
                f"Unicode form alone: {join_names(pairs)}"
            )
        if self.repeated:
            pairs = _pairs(self.repeated)
            doubts.append(
                f"{counted(len(pairs), 'new name')} differing from another new one in case, spaces "
                f"or Unicode form alone: {join_names(pairs)}"
            )
        unlike = {label: known for label, known in self.relations.items() if label not in self.same}
        if unlike and of_new:
            pairs = _questions(unlike)
            doubts.append(f"{counted(len(pairs), 'new relation')}: {join_names(pairs)}")
        if self.near and of_new:
            count = counted(len(self.near), "new entity", "new entities")
            doubts.append(
                f"{count} with nearly the name of a known one: {join_names(_questions(self.near))}"
            )
        return doubts


def _pairs(same: Mapping[str, str]) -> list[str]:
    """The new names, each with the one that it differs too little from."""
    quoted = (quoted_pair(*pair) for pair in same.items())
    return [f"{label} ({other})" for label, other in quoted]


def _questions(nearest: Mapping[str, str | None]) -> list[str]:
    """The new names, each with the known one that may have been meant."""
    return [
        f"'{label}'" + (f" (did you mean '{known}'?)" if known else "")
        for label, known in nearest.items()
    ]


def _texts(known: Vocabulary) -> Iterable[str]:
    """The labels and names of a vocabulary, without inverse relations."""
    yield from (known.labels[::2] if known.kind == "relation" else known.labels)
    yield from (
        name for names in known.names.values() for name in names if not name.endswith(INVERSE)
    )


def _nearest(relations: Vocabulary, label: str) -> str | None:
    return next((text for text in relations.nearest(label) if not text.endswith(INVERSE)), None)


def join_names(names: Iterable[str]) -> str:
    """The first of some names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - SHOWN:,} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more


@dataclass(frozen=True)
class Change:
    """The effect of a change on the facts of a run."""

    added: int = 0
    removed: int = 0
    unchanged: int = 0  # facts already known, or to be removed and unknown
    names: int = 0  # new readable ones
    seconds: float = 0.0
    index_removed: bool = False  # because it was one of the old weights
    notes: tuple[str, ...] = ()  # remarks on the input
    new_names: NewNames = field(default_factory=NewNames)
    # some of the unknown facts to be removed, each with similar known ones
    absent: tuple[str, ...] = ()
    dry_run: bool = False  # nothing was written

    @property
    def entities(self) -> int:
        """The number of new entities."""
        return len(self.new_names.entities)

    @property
    def relations(self) -> int:
        """The number of new forward relations."""
        return len(self.new_names.relations)

    def __str__(self) -> str:
        """The change in one line; for a dry run, the change that would be made."""
        if not (self.added or self.removed or self.unchanged):
            return "no facts were given, and nothing changed"
        were = f", {self.unchanged:,} {'was' if self.unchanged == 1 else 'were'}"
        would_be = " would be" if self.dry_run else ""
        if self.removed:
            remainder = f"what was learned of {'it' if self.removed == 1 else 'them'} stays learned"
            absent = f"{were} not there" if self.unchanged else ""
            why = f" ({'; '.join(self.absent)})" if self.absent else ""
            return f"{counted(self.removed, 'fact')}{would_be} removed{absent}{why}; {remainder}"
        parts = [f"{counted(self.added, 'fact')}{would_be} added"]
        if self.unchanged:
            parts[0] += f"{were} there already"
        if self.entities:
            number = counted(self.entities, "new entity", "new entities")
            parts.append(f"{number}: {join_names(self.new_names.entities)}")
        if self.relations:
            number = counted(self.relations, "new relation")
            parts.append(f"{number}: {join_names(self.new_names.relations)}")
        if self.names:
            parts.append(f"{counted(self.names, 'name')} added")
        return "; ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """The change as plain data."""
        return {
            "added": self.added,
            "removed": self.removed,
            "unchanged": self.unchanged,
            "entities": self.entities,
            "relations": self.relations,
            **asdict(self),
            "notes": list(self.notes),
            "absent": list(self.absent),
        }


def add_facts(
    path: NameOrPath,
    facts: Triples,
    *,
    new: bool = False,
    force: bool = False,
    dry_run: bool = False,
    progress: Progress | bool = False,
    **options: Any,
) -> Change:
    """Add facts to the run in a folder.

    The facts are anything that `load` reads, with its options, a graph, or label triples, and
    become train facts. New entities and relations get vectors that are fitted to their facts; all
    others keep theirs. Blank nodes of a file differ from those of the run; blank nodes in label
    triples are the same.

    A new relation, or an entity with nearly the name of a known one, needs `new`; a name that
    differs from another in case or spaces alone needs `force`. With `dry_run` nothing is
    written and nothing refused.
    """
    merge = partial(with_facts, apart=_is_source(facts))
    consent = partial(NewNames.check, new=new or force, force=force)
    return _change(path, _graph_of(facts, **options), merge, consent, dry_run, progress)


def remove_facts(
    path: NameOrPath, facts: Triples, *, dry_run: bool = False, **options: Any
) -> Change:
    """Take facts out of the run in a folder; entities, relations and all vectors stay.

    Predictions still reflect the removed facts until the run is trained again. With `dry_run`
    nothing is written.
    """
    return _change(path, _graph_of(facts, **options), without_facts, lambda _: None, dry_run)


def _graph_of(facts: Triples, **options: Any) -> Graph:
    """The facts of any source, or label triples, as a graph of their own."""
    if _is_source(facts) or not isinstance(facts, Iterable):
        return load(facts, **options)
    rows = facts if is_rows(facts) else list(facts)
    return load(rows, **options) if len(rows) else Graph.of(())


def _is_source(facts: Any) -> TypeGuard[datasets.Facts]:
    """Whether facts are a source that `load` reads, rather than label triples."""
    return isinstance(facts, str | Path | Graph) or is_frame(facts)


@with_gradients
def _change(
    path: NameOrPath,
    facts: Graph,
    merge: Callable[[Graph, Graph], Merged],
    check: Callable[[NewNames], None],
    dry_run: bool,
    progress: Progress | bool = False,
) -> Change:
    """Replace the run in a folder by one with other facts.

    Nothing is written if `check` raises, or in a dry run.
    """
    began = time.perf_counter()
    is_in_cache = Path(path).resolve().parent == cache_folder().resolve()
    if is_world(path) or (is_in_cache and not Path(path).name.startswith(PREFIX)):
        raise RunError(
            "the run of world is Tacit's own; train one on world in a folder of yours, and change "
            "that"
        )
    folder = find_run(path)
    check_own(folder)
    if dry_run:
        _, change = _plan_change(folder, facts, merge)
        return replace(change, dry_run=True, seconds=round(time.perf_counter() - began, 3))
    with folder.exchange() as (run, draft):
        graph, change = _plan_change(run, facts, merge)
        check(change.new_names)
        if change.added or change.removed:
            _write(run, draft, graph, change, progress)
        elif change.names:  # no weights or results depend on names
            write_names(graph, run.path)
    change = replace(change, seconds=round(time.perf_counter() - began, 3))
    if change.added or change.removed or change.names:
        counts = {
            name: value for name, value in change.to_dict().items() if name not in _NOT_TRACED
        }
        run.trace({"event": "change", **counts})
    return change


def _plan_change(
    run: RunFolder, facts: Graph, merge: Callable[[Graph, Graph], Merged]
) -> tuple[Graph, Change]:
    """The graph that a run will have, and the change that leads to it."""
    _check_finished(run)
    before = run.graph()
    graph, count, unchanged, absent = merge(before, facts)
    is_removal = merge is without_facts
    change = Change(
        added=0 if is_removal else count,
        removed=count if is_removal else 0,
        unchanged=unchanged,
        names=sum(map(len, graph.names.values())) - sum(map(len, before.names.values())),
        index_removed=count > 0 and run.has(INDEX),
        notes=facts.notes,
        new_names=NewNames.of(before, graph),
        absent=absent,
    )
    if (change.entities or change.relations) and run.has(ENCODER):
        without = "drop it, or " if run.has_predictor else ""
        raise RunError(
            f"the facts name {counted(change.entities, 'entity', 'entities')} and "
            f"{counted(change.relations, 'relation')} that run '{run.path}' does not know "
            f"({'; '.join(change.new_names.lines())}), and its encoder learns no others; {without}"
            "train anew on the larger graph"
        )
    return graph, change


def _check_finished(run: RunFolder) -> None:
    """Raise a `RunError` while a training of the run is unfinished."""
    from tacit.links.training.finished import is_complete

    if (
        run.has(ENCODING)
        or ("train" in run.settings and not is_complete(run))
        or ("encode" in run.settings and not run.has(ENCODER))
    ):
        raise RunError(
            f"the training of run '{run.path}' has not finished; go on with `resume=True` before "
            "its facts change",
            command="encode" if run.has(ENCODING) else "train",
        )


def _write(
    run: RunFolder, draft: Path, graph: Graph, change: Change, progress: Progress | bool
) -> None:
    """Write the changed run without the files that depend on its old weights and facts.

    An encoder keeps its weights, since it knows all entities of the changed graph. Rules keep their
    counts, and look at the changed facts.
    """
    from tacit.adapt.adapter import load_adapter, save_adapter
    from tacit.links.factors import FactorModel
    from tacit.links.models import load_model, save_model
    from tacit.links.rules.rule_files import load_rules, rule_scorer
    from tacit.links.training.new_embeddings import fit_new_embeddings

    # before anything is written
    model = load_model(run) if run.has(MODEL) else None
    rules = load_rules(run)[0] if run.has(RULES) else None
    predictor: Scorer | None = model
    larger: Scorer | None = model
    if model is not None and (change.entities or change.relations):
        chosen = TrainSettings.of(run.settings["train"])
        larger = fit_new_embeddings(model, graph, chosen, progress)
    elif model is None and rules is not None:
        predictor, larger = rule_scorer(rules, run.graph()), rule_scorer(rules, graph)
    settings = run.settings
    first, *others = (table for table in settings if table not in _WRITTEN)
    new_run = RunFolder.create(draft, graph, settings[first], table=first)
    before = run.results()
    totals = before.pop("changes", {})
    before.pop("versions", None)
    results = {name: _mark_outdated(value) for name, value in before.items()}
    if isinstance(larger, FactorModel):
        save_model(new_run, larger)
    if predictor is not None and larger is not None and run.has(ADAPTER):
        adapter, adapted = load_adapter(run, predictor)
        save_adapter(new_run, adapter.with_larger_scorer(larger), adapted)
    for table in others:  # after the model, whose saving deletes an adapter's table
        new_run.write_settings(table, settings[table])
    for name in (RULES, ENCODER, ADAPTER):
        if run.has(name) and not new_run.has(name):
            about, tensors = run.contents(name)
            new_run.write_tensors(name, tensors, about)
    results["changes"] = {
        "added": totals.get("added", 0) + change.added,
        "removed": totals.get("removed", 0) + change.removed,
    }
    new_run.write_results(results)


def _mark_outdated(result: Any) -> Any:
    """Mark results as measured before a change."""
    if isinstance(result, list):
        return [_mark_outdated(each) for each in result]
    if isinstance(result, Mapping):
        return {**result, "outdated": OUTDATED.format("graph has")}
    return result
