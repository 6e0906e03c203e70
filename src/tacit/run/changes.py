"""Adding facts to a trained run, or removing them, without training again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from tacit.errors import RunError
from tacit.fitting.gradients import with_gradients
from tacit.graph.builder import counted
from tacit.graph.formats.frames import is_frame
from tacit.graph.formats.label_tables import is_rows
from tacit.graph.graph import Graph
from tacit.graph.merging import Merged, with_facts, without_facts
from tacit.graph.stored import write_names
from tacit.links.settings import TrainSettings
from tacit.query.rule_words import named_rule
from tacit.run.mined import PREFIX, check_own
from tacit.run.new_names import NewNames, join_names
from tacit.run.world import find_run
from tacit.run_folder.files import ADAPTER, ENCODER, ENCODING, INDEX, MODEL, OUTDATED, RULES
from tacit.run_folder.folder import RunFolder
from tacit.run_folder.run_cache import SAVED_PREFIX, cache_folder
from tacit.sources import NameOrPath, is_world, load

# Imports of torch are local.
if TYPE_CHECKING:
    from tacit.fitting.progress import Progress
    from tacit.graph import datasets
    from tacit.links.rules.rule_set import RuleSet
    from tacit.links.scorer import Scorer

    Triples = datasets.Facts | Iterable[Sequence[str]]

# fields of a change that are long or always the same
_NOT_TRACED = ("new_names", "absent", "dry_run")
_WRITTEN = ("graph", "files", "prefixes", "attributes")  # tables that a run folder writes itself


@dataclass(frozen=True)
class Change:
    """The effect of a change on the facts and values of a run."""

    added: int = 0
    removed: int = 0
    unchanged: int = 0  # facts and values already known, or to be removed and unknown
    values: int = 0  # of attributes, among those added or removed
    statements: int = 0  # new ones about the sources and times of facts
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
            return f"{self._facts(self.removed)}{would_be} removed{absent}{why}; {remainder}"
        parts = [f"{self._facts(self.added)}{would_be} added"]
        if self.unchanged:
            parts[0] += f"{were} there already"
        if self.entities:
            number = counted(self.entities, "new entity", "new entities")
            parts.append(f"{number}: {join_names(self.new_names.entities)}")
        if self.relations:
            number = counted(self.relations, "new relation")
            parts.append(f"{number}: {join_names(self.new_names.relations)}")
        if attributes := self.new_names.attributes:
            parts.append(f"{counted(len(attributes), 'new attribute')}: {join_names(attributes)}")
        if self.statements:
            parts.append(f"{counted(self.statements, 'statement')} about facts added")
        if self.names:
            parts.append(f"{counted(self.names, 'name')} added")
        return "; ".join(parts)

    def _facts(self, number: int) -> str:
        """A number of facts and values, of which so many are values as were changed."""
        values = [counted(self.values, "value")] if self.values else []
        facts = (
            [counted(number - self.values, "fact")] if number > self.values or not values else []
        )
        return " and ".join(facts + values)

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
    """Add facts, and values of attributes, to the run in a folder.

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
    return _change(path, _graph_of(path, facts, **options), merge, consent, dry_run, progress)


def remove_facts(
    path: NameOrPath, facts: Triples, *, dry_run: bool = False, **options: Any
) -> Change:
    """Take facts and values out of the run in a folder; entities, relations and vectors stay.

    Predictions still reflect the removed facts until the run is trained again. With `dry_run`
    nothing is written.
    """
    less = _graph_of(path, facts, **options)
    return _change(path, less, without_facts, lambda _: None, dry_run)


def _graph_of(path: NameOrPath, facts: Triples, **options: Any) -> Graph:
    """The facts of any source, or label triples, as a graph of their own.

    What is an attribute or a relation in the run in a folder is one in them.
    """
    if isinstance(facts, Graph) and not options:
        return facts
    rows = (
        facts
        if _is_source(facts) or is_rows(facts) or not isinstance(facts, Iterable)
        else [*facts]
    )
    if isinstance(rows, list) and not rows:
        return Graph.of(())
    return load(rows, like=own_run(path).graph(), **options)


def _is_source(facts: Any) -> TypeGuard[datasets.Facts]:
    """Whether facts are a source that `load` reads, rather than label triples."""
    return isinstance(facts, str | Path | Graph) or is_frame(facts)


def own_run(path: NameOrPath) -> RunFolder:
    """The run in a folder, which people may change; a `RunError` for one in Tacit's cache."""
    is_in_cache = Path(path).resolve().parent == cache_folder().resolve()
    if is_world(path) or (is_in_cache and not Path(path).name.startswith((PREFIX, SAVED_PREFIX))):
        raise RunError(
            "the run of world is Tacit's own; train one on world in a folder of yours, and change "
            "that"
        )
    folder = find_run(path)
    check_own(folder)
    return folder


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
    folder = own_run(path)
    if dry_run:
        _, change = _plan_change(folder, facts, merge)
        return replace(change, dry_run=True, seconds=round(time.perf_counter() - began, 3))
    with folder.exchange() as (run, draft):
        graph, change = _plan_change(run, facts, merge)
        check(change.new_names)
        if change.added or change.removed or change.statements:
            _write(run, draft, graph, change, progress)
        elif change.names:  # no weights or results depend on names
            write_names(graph, run.path)
    change = replace(change, seconds=round(time.perf_counter() - began, 3))
    if change.added or change.removed or change.statements or change.names:
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
    graph, count, unchanged, absent, values, statements = merge(before, facts)
    is_removal = merge is without_facts
    change = Change(
        added=0 if is_removal else count,
        removed=count if is_removal else 0,
        unchanged=unchanged,
        values=values,
        statements=statements,
        names=sum(map(len, graph.names.values())) - sum(map(len, before.names.values())),
        index_removed=(count > 0 or statements > 0) and run.has(INDEX),
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
    from tacit.links.rules.deduction import deduce
    from tacit.links.rules.rule_files import load_rules, rule_scorer
    from tacit.links.training.new_embeddings import fit_new_embeddings

    # before anything is written
    model = load_model(run) if run.has(MODEL) else None
    rules = load_rules(run)[0] if run.has(RULES) else None
    if rules is not None:  # raises if too much would follow
        deduce(graph.index(), rules, partial(_name_rule, graph, rules))
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


def _name_rule(graph: Graph, rules: RuleSet, id: int) -> str:
    """A rule as errors name it."""
    return named_rule(graph, rules[id], id)


def _mark_outdated(result: Any) -> Any:
    """Mark results as measured before a change."""
    if isinstance(result, list):
        return [_mark_outdated(each) for each in result]
    if isinstance(result, Mapping):
        return {**result, "outdated": OUTDATED.format("graph has")}
    return result
