"""The rules of a run: to read, to switch off, and to add own ones to."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tacit import disk
from tacit.engine.answers.evidence import EvidenceFact, NamedRule
from tacit.errors import QueryError, RunError
from tacit.graph.fact_index import Ints
from tacit.graph.graph import Graph
from tacit.query.question import resolve_label
from tacit.query.rule_text import parse_rule
from tacit.query.rule_words import named_rule
from tacit.run.answering import QuestionAnswering
from tacit.run.changes import own_run
from tacit.run_folder.files import ADAPTER, MODEL, OUTDATED, RULES
from tacit.run_folder.folder import RunFolder
from tacit.sources import NameOrPath

# Imports of torch are local.
if TYPE_CHECKING:
    from torch import Tensor

    from tacit.links.rules.rule_set import Rule, RuleSet
    from tacit.loaded_run import LoadedWeights

    Weights = Mapping[str, Tensor]
    Edit = Callable[[Graph, RuleSet], RuleSet]

_NEARLY_ONE = float(np.nextafter(np.float32(1), np.float32(0)))
_NUMBER = (int, float, np.integer, np.floating)
EXAMPLES = 3  # facts that a rule was right about, and pairs that it was not


@dataclass(frozen=True)
class ListedRule(NamedRule):
    """A rule of a run by names, and whether a person switched it off."""

    off: bool = False
    _source: tuple[Graph, Rule] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def at(cls, graph: Graph, rules: RuleSet, id: int) -> Self:
        """The rule with an id among the rules of a graph."""
        rule = rules[id]
        named = NamedRule.of(graph, rule, id)
        return cls(**vars(named), off=rule.off, _source=(graph, rule))

    def examples(self, count: int = EXAMPLES) -> tuple[EvidenceFact, ...]:
        """The first train facts that the rule implies by others."""
        return self._implied(count, right=True)

    def counter_examples(self, count: int = EXAMPLES) -> tuple[EvidenceFact, ...]:
        """The first that the rule implies and no split of the graph has."""
        return self._implied(count, right=False)

    def _implied(self, count: int, right: bool) -> tuple[EvidenceFact, ...]:
        from tacit.engine.questions import check_number
        from tacit.links.rules.consequences import consequences

        check_number("examples", count, 0)
        if self._source is None or not count:
            return ()
        graph, rule = self._source
        train = graph.index("train")
        known = train if right else graph.index()

        def triples() -> Iterator[tuple[int, int, int]]:
            for heads, tails in consequences(train, rule):
                facts = known.contains(heads, np.full(len(heads), rule.relation), tails)
                for place in np.flatnonzero(facts == right).tolist():
                    head, tail = int(heads[place]), int(tails[place])
                    if rule.relation & 1:
                        head, tail = tail, head
                    yield head, rule.relation & ~1, tail

        return tuple(EvidenceFact.of(graph, triple) for triple in islice(triples(), count))

    def to_dict(self, examples: int = EXAMPLES) -> dict[str, Any]:
        """The rule as plain data for JSON."""
        data = {name: value for name, value in vars(self).items() if name != "_source"}
        return data | {
            "examples": [fact.to_dict() for fact in self.examples(examples)],
            "counter_examples": [fact.to_dict() for fact in self.counter_examples(examples)],
        }


def list_rules(
    graph: Graph,
    rules: RuleSet,
    relation: str | None = None,
    top: int | None = None,
    *,
    offset: int = 0,
    written: bool = False,
) -> list[ListedRule]:
    """The `top` rules from `offset` on that imply a relation, or any, the surest first.

    With `written` they are those that a person wrote. A rule and its mirror image, which says the
    same of the inverse relation, are listed once.
    """
    from tacit.engine.questions import check_number
    from tacit.links.rules.editing import first_forms
    from tacit.links.rules.rule_set import WRITTEN

    if top is not None:
        check_number("top", top, 0)
    places: Ints = np.arange(len(rules))
    if relation is not None:
        chosen = resolve_label(graph.relations, relation) & ~1
        places = np.flatnonzero(rules.relation & ~1 == chosen)
    if written:
        places = places[(rules.flags[places] & WRITTEN) != 0]
    places = places[np.argsort(-rules.confidence[places], kind="stable")]
    stop = None if top is None else offset + top
    if stop is not None:
        places = places[: 2 * stop]  # as many if all are in pairs
    listed = first_forms(rules, places)[offset:stop].tolist()
    return [ListedRule.at(graph, rules, place) for place in listed]


def rules_of(run: RunFolder) -> RuleSet:
    """The rules in a run's folder, maybe none."""
    from tacit.links.rules.rule_files import load_rules
    from tacit.links.rules.rule_set import RuleSet

    return load_rules(run)[0] if run.has(RULES) else RuleSet.of([])


def add_rule(path: NameOrPath, text: str, confidence: float | None = None) -> ListedRule:
    """Add a written rule to the run in a folder; without a confidence, that of the graph.

    It takes the place of mined rules that say the same. One of confidence 1 holds without
    exception: what follows by it is known.
    """
    from tacit.links.rules.consequences import measured
    from tacit.links.rules.editing import same_statement, with_rule

    if confidence is not None and not (isinstance(confidence, _NUMBER) and 0 < confidence <= 1):
        raise QueryError(
            f"confidence is {confidence!r}; it must be above 0 and at most 1",
            parameter="confidence",
        )
    added: list[Rule] = []

    def edit(graph: Graph, rules: RuleSet) -> RuleSet:
        rule = measured(graph.index("train"), parse_rule(text, graph))
        if confidence is not None:
            # rounding makes no rule without exception of one with few
            rounded = 1.0 if confidence == 1 else min(confidence, _NEARLY_ONE)
            rule = rule._replace(confidence=rounded)
        elif not rule.support:
            raise QueryError(
                f"the rule is right for none of the {rule.groundings:,} that it speaks of, so the "
                "graph has no confidence for it; say one by `confidence=0.5`"
            )
        added[:] = [rule]
        return with_rule(rules, rule)

    graph, rules = _change(path, edit, "write", adds=True)
    same = same_statement(rules, added[0])
    return ListedRule.at(graph, rules, next(id for id in same.tolist() if rules[id].written))


def drop_rules(path: NameOrPath, ids: Iterable[int]) -> None:
    """Drop written rules of the run in a folder; mined ones that say the same are on again."""
    from tacit.links.rules.editing import without_rules

    chosen = list(ids)
    _change(path, lambda _, rules: without_rules(rules, chosen), "drop")


def switch_rules(path: NameOrPath, off: Iterable[int] = (), on: Iterable[int] = ()) -> None:
    """Switch rules of the run in a folder off and on."""
    from tacit.links.rules.editing import switched

    chosen = list(off), list(on)
    _change(path, lambda _, rules: switched(rules, *chosen), "switch")


def import_rules(path: NameOrPath, file: NameOrPath) -> tuple[int, list[str]]:
    """Add the rules of an AnyBURL file that a run lacks.

    Returns how many these are, and what was left out.
    """
    from tacit.links.rules.anyburl import read_rules
    from tacit.links.rules.editing import with_others

    report: list[Any] = []

    def edit(graph: Graph, rules: RuleSet) -> RuleSet:
        file_read = read_rules(Path(file), graph)
        rules, count = with_others(rules, file_read.rules)
        report[:] = count, file_read.notes
        return rules

    _change(path, edit, "import", adds=True)
    return report[0], report[1]


def _change(path: NameOrPath, edit: Edit, what: str, adds: bool = False) -> tuple[Graph, RuleSet]:
    """Write the rules that `edit` makes of those of a run, and return them.

    One change waits for another, so none is lost. A run without rules is changed if `adds`.
    """
    from tacit.links.rules.deduction import deduce, hard_forms
    from tacit.links.rules.rule_files import save_rules
    from tacit.links.rules.rule_set import WRITTEN

    run = own_run(path)
    with _changing(run):
        run = RunFolder.open(run.path)  # as the change before left it
        if not run.has_predictor:
            raise RunError(
                f"run '{run.path}' holds an encoder alone, which rules do not change; train a link "
                "predictor, or rules, on its graph"
            )
        if not (adds or run.has(RULES)):
            raise RunError(f"run '{run.path}' has no rules")
        if run.has(ADAPTER) and not run.has(RULES):
            raise RunError(
                f"run '{run.path}' has an adapter that was trained without rules; drop it first",
                command=run.repair(ADAPTER),
            )
        graph = run.graph()
        before, weights = _content(run, graph)
        rules = edit(graph, before)
        # raises if too much would follow
        deduce(graph.index(), rules, lambda id: named_rule(graph, rules[id], id))
        if rules is not before and not _same(before, rules):
            all_own = [bool((each.flags & WRITTEN).all()) for each in (before, rules)]
            if weights and all_own == [True, False]:
                weights = usual_weights(graph)  # so that imported ones count
            save_rules(run, rules, weights)
            if hard_forms(before) != hard_forms(rules):  # other facts are known
                with run.changed_results() as results:
                    for each in results.get("eval", []):
                        each.setdefault("outdated", OUTDATED.format("rules have"))
            run.trace({"event": "rules", "change": what, "rules": len(rules)})
    return graph, rules


@contextmanager
def _changing(run: RunFolder) -> Iterator[None]:
    """Keep other processes from changing rules, and from using the weights of the run."""
    lock = run.path / f"{disk.LOCK}-rules"
    with disk.written(run.path), disk.locked(lock), run.in_use(changes=True):
        yield


def _content(run: RunFolder, graph: Graph) -> tuple[RuleSet, Weights | None]:
    """The rules of a run and the weights of its mixture, which first rules get."""
    from tacit.links.rules.rule_files import load_rules
    from tacit.links.rules.rule_set import RuleSet

    if run.has(RULES):
        rules, weights = load_rules(run)
        return rules, weights or None
    if not run.has(MODEL):
        return RuleSet.of([]), None
    return RuleSet.of([]), first_weights(graph)


def first_weights(graph: Graph) -> Weights:
    """The weights of a mixture that leaves scores as they are, where no written rule speaks."""
    import torch

    from tacit.engine.atoms.mixture import RuleMixture
    from tacit.links.rules.rule_files import rule_scorer
    from tacit.links.rules.rule_set import RuleSet

    scorer = rule_scorer(RuleSet.of([]), graph)
    return RuleMixture(scorer, torch.zeros(graph.num_relations)).to_tensors()


def usual_weights(graph: Graph) -> Weights:
    """The weights of a mixture that was not fitted to validation facts."""
    from tacit.adapt.mixing import usual_mixture
    from tacit.links.rules.rule_files import rule_scorer
    from tacit.links.rules.rule_set import RuleSet

    return usual_mixture(rule_scorer(RuleSet.of([]), graph)).to_tensors()


def _same(before: RuleSet, after: RuleSet) -> bool:
    """Whether two sets of rules are equal."""
    one, other = before.to_tensors(), after.to_tensors()
    return all(one[name].equal(other[name]) for name in one)


class RuleAccess(QuestionAnswering):
    """The rules of a run, to read and to change in its folder and in memory."""

    @property
    @abstractmethod
    def folder(self) -> RunFolder:
        """The folder of the run."""

    @property
    @abstractmethod
    def weights(self) -> LoadedWeights:
        """The trained models of the run."""

    @abstractmethod
    def _reread(self) -> None:
        """Open the folder again."""

    def rules(self, relation: str | None = None, top: int | None = None) -> list[ListedRule]:
        """The run's rules that imply a relation, or any, those of the highest confidence first.

        Each has its `words`, `formula`, `support` of `groundings`, `confidence`, whether it is
        `written` by a person or `off`, and `examples()` and `counter_examples()` in the graph.
        """
        scorer = self.weights.rule_scorer
        return [] if scorer is None else list_rules(self.graph, scorer.rules, relation, top)

    def add_rule(self, text: str, confidence: float | None = None) -> ListedRule:
        """Add an own rule, such as `borders(?x, ?z) & speaks(?z, ?y) => speaks(?x, ?y)`.

        Without a confidence it has that of the graph, `support / (groundings + 5)`. One of
        confidence 1 holds without exception: what follows by it is known.
        """
        rule = add_rule(self.folder.path, text, confidence)
        self._reread()
        return rule

    def drop_rule(self, *ids: int) -> None:
        """Drop written rules; mined ones are switched off instead, by `switch_rules`."""
        drop_rules(self.folder.path, ids)
        self._reread()

    def switch_rules(self, *, off: Iterable[int] = (), on: Iterable[int] = ()) -> None:
        """Switch rules off, and on again, by their ids."""
        switch_rules(self.folder.path, off, on)
        self._reread()
