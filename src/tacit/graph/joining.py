"""Several graphs as one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import count

import numpy as np
from numpy.typing import NDArray

from tacit.graph.builder import assemble, counted, without_inverses
from tacit.graph.graph import SPLITS, Graph, Triples, directed, is_absolute
from tacit.graph.prefixes import Prefixes
from tacit.graph.vocabulary import Vocabulary

BLANK = "_:"


def joined(graphs: Sequence[Graph], name: str) -> Graph:
    """One graph of several, split by split: equal labels are one entity, and so are labels that stand for one IRI.

    A blank node is a thing of its own graph: those of later graphs get labels that no earlier one has.

    >>> joined([Graph.of([("a", "r", "b")]), Graph.of([("b", "r", "c")])], "both").entities.labels
    ['a', 'b', 'c']
    """
    declared = [graph.prefixes for graph in graphs if graph.prefixes]
    prefixes = reduce(Prefixes.joined, declared) if declared else Prefixes()
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    names: dict[str, list[str]] = {}
    notes: list[str] = []
    splits: dict[str, list[Triples]] = {split: [] for split in SPLITS}
    for graph in graphs:
        label = relabelling(graph, prefixes, blank_stem(entities))
        blank = sum(entity.startswith(BLANK) for entity in graph.entities) if entities else 0
        ends = _numbers(map(label, graph.entities), entities)
        kinds = _numbers(map(label, graph.relations.labels[0::2]), relations)
        for split in SPLITS:
            head, relation, tail = graph.split(split).T
            splits[split].append(np.stack([ends[head], kinds[relation // 2], ends[tail]], axis=1))
        for known, given in graph.names.items():
            names.setdefault(label(known), []).extend(given)
        notes += [f"{graph.name}: {note}" for note in graph.notes]
        if blank:
            notes.append(f"{graph.name}: {counted(blank, 'blank node')} kept apart from those before")
    facts = [np.concatenate(parts) for parts in splits.values()]
    forward = without_inverses(list(relations), facts)  # which the labels of a BetaE folder may be
    whole = assemble(Vocabulary(entities), directed(forward), facts, name, notes)
    return replace(whole, prefixes=prefixes).named(names)


def _numbers(labels: Iterable[str], known: dict[str, int]) -> NDArray[np.int32]:
    """The ids of labels; those that are not known yet get the next ones."""
    return np.fromiter((known.setdefault(label, len(known)) for label in labels), np.int32)


def blank_stem(earlier: Collection[str]) -> str:
    """How the labels of a graph's blank nodes begin, so that none is that of an earlier graph."""
    numbers = count(2) if earlier else count(0)
    stems = (f"{BLANK}file{number}." if number else BLANK for number in numbers)
    return next(stem for stem in stems if not any(label.startswith(stem) for label in earlier))


def relabelling(graph: Graph, prefixes: Prefixes, blank: str) -> Callable[[str], str]:
    """The function from the labels of a graph to those under prefixes that are not all its own."""

    def label(old: str) -> str:
        if old.startswith(BLANK):
            return blank + old.removeprefix(BLANK)
        text, typed, datatype = old.rpartition('"^^')
        if typed and text.startswith('"') and '"' not in datatype:  # else it is quoted itself
            return text + typed + label(datatype)
        iri = graph.prefixes.iri(old) or (old if prefixes and is_absolute(old) else None)
        return old if iri is None else prefixes.label(iri)

    return label
