"""Several graphs as one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import reduce
from itertools import count

import numpy as np

from tacit.graph.builder import Builder, counted
from tacit.graph.graph import SPLITS, Graph, is_absolute
from tacit.graph.labels.prefixes import Prefixes

BLANK = "_:"
_FORWARD = np.array([1, 2, 1], dtype=np.int32)  # facts divided by these have the number of their relation alone


def joined(graphs: Sequence[Graph], name: str) -> Graph:
    """One graph of several, split by split: equal labels are one entity, and so are labels that stand for one IRI.

    A blank node is a thing of its own graph: those of later graphs get labels that no earlier one has.

    >>> joined([Graph.of([("a", "r", "b")]), Graph.of([("b", "r", "c")])], "both").entities.labels
    ['a', 'b', 'c']
    """
    declared = [graph.prefixes for graph in graphs if graph.prefixes]
    prefixes = reduce(Prefixes.joined, declared) if declared else Prefixes()
    builder = Builder()
    for graph in graphs:
        label = relabelling(graph, prefixes, blank_stem(builder.entities))
        blank = sum(entity.startswith(BLANK) for entity in graph.entities) if builder.entities else 0
        splits = {split: graph.split(split) // _FORWARD for split in SPLITS}
        builder.add_coded([*map(label, graph.entities)], [*map(label, graph.relations.labels[0::2])], splits)
        for known, given in graph.names.items():
            builder.names.setdefault(label(known), []).extend((0, name) for name in given)
        builder.notes += [f"{graph.name}: {note}" for note in graph.notes]
        if blank:
            builder.notes.append(f"{graph.name}: {counted(blank, 'blank node')} kept apart from those before")
    return replace(builder.graph(name), prefixes=prefixes)


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
