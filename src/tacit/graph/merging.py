"""Several graphs as one, and a graph with or without the facts of another: its ids stay as they are then."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import count
from typing import NamedTuple

import numpy as np

from tacit.errors import DataError
from tacit.graph.builder import Builder, counted, packed
from tacit.graph.fact_index import distinct, within
from tacit.graph.graph import INVERSE, SPLITS, Graph, Triples, is_absolute
from tacit.graph.labels.prefixes import Prefixes
from tacit.graph.labels.vocabulary import Vocabulary

_BLANK = "_:"
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
        label = _relabelling(graph, prefixes, _blank_stem(builder.entities))
        blank = sum(entity.startswith(_BLANK) for entity in graph.entities) if builder.entities else 0
        splits = {split: graph.split(split) // _FORWARD for split in SPLITS}
        builder.add_coded([*map(label, graph.entities)], [*map(label, graph.relations.labels[0::2])], splits)
        for known, given in graph.names.items():
            builder.names.setdefault(label(known), []).extend((0, name) for name in given)
        builder.notes += [f"{graph.name}: {note}" for note in graph.notes]
        if blank:
            builder.notes.append(f"{graph.name}: {counted(blank, 'blank node')} kept apart from those before")
    return replace(builder.graph(name), prefixes=prefixes)


def _blank_stem(earlier: Collection[str]) -> str:
    """How the labels of a graph's blank nodes begin, so that none is that of an earlier graph."""
    numbers = count(2) if earlier else count(0)
    stems = (f"{_BLANK}file{number}." if number else _BLANK for number in numbers)
    return next(stem for stem in stems if not any(label.startswith(stem) for label in earlier))


def _relabelling(graph: Graph, prefixes: Prefixes, blank: str) -> Callable[[str], str]:
    """The function from the labels of a graph to those under prefixes that are not all its own."""

    def label(old: str) -> str:
        if old.startswith(_BLANK):
            return blank + old.removeprefix(_BLANK)
        text, typed, datatype = old.rpartition('"^^')
        if typed and text.startswith('"') and '"' not in datatype:  # else it is quoted itself
            return text + typed + label(datatype)
        iri = graph.prefixes.iri(old) or (old if prefixes and is_absolute(old) else None)
        return old if iri is None else prefixes.label(iri)

    return label


class Merged(NamedTuple):
    """A graph after a change, how many facts changed, and how many of those given did not."""

    graph: Graph
    changed: int
    unchanged: int


def with_facts(graph: Graph, more: Graph, *, apart: bool = True) -> Merged:
    """The graph with the facts of another, whatever their split, as further train facts.

    A label is looked up as in a question: it may be a readable name that one label alone has, or an IRI. What is not
    found gets an id behind all others, a relation and its inverse one after the other; names and prefixes come along.
    Blank nodes are things of their own graph, unless they are not `apart`: then their labels are those of this one.

    >>> graph = Graph.of([("France", "borders", "Spain")])
    >>> merged = with_facts(graph, Graph.of([("Spain", "borders", "Portugal"), ("Spain", "borders^-1", "France")]))
    >>> merged.graph.entities.labels, merged.changed, merged.unchanged
    (['France', 'Spain', 'Portugal'], 1, 1)
    """
    prefixes = _prefixes(graph, more)
    lookup = _Lookup(graph, more, _relabelling(more, prefixes, _blank_stem(graph.entities) if apart else _BLANK))
    heads = [lookup.called(label, graph.entities) for label in more.entities]
    forward = [lookup.called(label, graph.relations) for label in more.relations[0::2]]
    both = [label for name in forward if name not in graph.relations for label in (name, name + INVERSE)]
    larger = replace(
        graph, entities=_extended(graph.entities, heads), relations=_extended(graph.relations, both), prefixes=prefixes
    )
    facts = _facts(larger, more, heads, forward)
    if not more.prefixes:  # statements of RDF have one order
        _check_columns(graph, larger, facts)
    present, given = packed([graph.facts(), facts], larger.num_entities, larger.num_relations)
    _, first = np.unique(given, return_index=True)
    added = facts[np.sort(first[~within(given[first], np.sort(present))])]
    larger = replace(larger, train=np.concatenate((graph.train, added)))
    return Merged(_named(larger, more, heads, forward), len(added), len(first) - len(added))


def _check_columns(graph: Graph, larger: Graph, facts: Triples) -> None:
    """Raise a `DataError` where an added fact has an entity for its relation and a relation at an end."""
    new = range(graph.num_relations, larger.num_relations, 2)
    relations = [i for i in new if larger.relations[i] in graph.entities]
    ends = [i for i in range(graph.num_entities, larger.num_entities) if larger.entities[i] in graph.relations]
    wrong = facts[np.isin(facts[:, 1], relations) & np.isin(facts[:, [0, 2]], ends).any(1)]
    if len(wrong):
        head, relation, tail = (int(id_) for id_ in wrong[0])
        raise DataError(
            f"a fact has the entity '{larger.relations[relation]}' of {graph.name} for its relation, and the relation "
            f"'{larger.entities[head if head in ends else tail]}' at an end; give columns, the order of head, relation "
            "and tail"
        )


def without_facts(graph: Graph, less: Graph) -> Merged:
    """The graph without the facts of another, in whichever split they are; entities and relations stay.

    Where it has none of them that is an error: most likely something is misspelt.
    """
    lookup = _Lookup(graph, less, _relabelling(less, graph.prefixes, _BLANK))
    heads = [lookup.found(label, graph.entities) for label in less.entities]
    forward = [lookup.found(label, graph.relations) for label in less.relations[0::2]]
    splits, given = [graph.split(name) for name in SPLITS], len(less.facts())
    facts = _facts(graph, less, heads, forward)
    *present, keys = packed([*splits, facts], graph.num_entities, graph.num_relations)
    taken = distinct(keys)  # a fact may be given by labels and by names
    kept = [split[~within(keys, taken)] for split, keys in zip(splits, present, strict=True)]
    removed = sum(map(len, splits)) - sum(map(len, kept))
    if given and not removed:
        if None in forward:
            graph.relations.id(less.relations[2 * forward.index(None)])  # which says what may have been meant
        if None in heads:
            graph.entities.id(less.entities[heads.index(None)])
        raise DataError(f"{graph.name} has {'no such fact' if given == 1 else f'none of these {given:,} facts'}")
    train, valid, test = kept
    absent = given - len(facts) + len(taken) - removed
    return Merged(replace(graph, train=train, valid=valid, test=test), removed, absent)


def _prefixes(graph: Graph, more: Graph) -> Prefixes:
    """The prefixes of a graph and of another, but for those by which an IRI of the graph would get another label."""
    prefixes, known = graph.prefixes, set(graph.prefixes.values())
    further = {name: namespace for name, namespace in more.prefixes.items() if namespace not in known}
    if not further:  # nor need all labels be looked at
        return prefixes
    labels = (label.rpartition('"^^')[2] for label in (*graph.entities, *graph.relations))  # of a literal its datatype
    iris = [iri for label in labels if (iri := prefixes.iri(label)) is not None]
    for name, namespace in further.items():
        larger = prefixes.joined({name: namespace})
        if all(larger.label(iri) == prefixes.label(iri) for iri in iris if iri.startswith(namespace)):
            prefixes = larger
    return prefixes


class _Lookup(NamedTuple):
    """Looks for what another graph speaks of; `plain` says what the label of a blank node or a literal is here."""

    graph: Graph
    other: Graph
    plain: Callable[[str], str]

    def found(self, label: str, known: Vocabulary) -> str | None:
        """The label here of what the other graph calls so; None where there is no such entity or relation."""
        iri = self.other.iri(label)
        if iri is not None:
            here = label if label in (iri, f"<{iri}>") and label in known else self.graph.label_of(iri)
            if here is not None and here in known:
                return here
            same = label in known and self.graph.iri(label) in (None, iri)  # else it stands for another IRI
            return label if same else None
        ids = known.meant(label := self.plain(label))
        if len(ids) > 1:
            several = " and ".join(f"'{known[i]}'" for i in ids[:3])
            raise DataError(f"{known.kind} '{label}' is the name of {several}; write the label instead")
        return known[ids[0]] if ids else None

    def called(self, label: str, known: Vocabulary) -> str:
        """The same, or what is not found will be called."""
        if (here := self.found(label, known)) is not None:
            return here
        iri, short = self.other.iri(label), self.plain(label)
        return f"<{iri}>" if iri is not None and short in known else short


def _extended(known: Vocabulary, labels: Iterable[str]) -> Vocabulary:
    further = [label for label in dict.fromkeys(labels) if label not in known]
    return Vocabulary([*known, *further], known.kind, known.names) if further else known


def _facts(graph: Graph, more: Graph, heads: Sequence[str | None], forward: Sequence[str | None]) -> Triples:
    """The facts of another graph by the ids of this one; those that it has no ids for are left out."""
    entities = np.array([-1 if label is None else graph.entities.get(label) for label in heads], dtype=np.int32)
    relations = np.array([-1 if label is None else graph.relations.get(label) for label in forward], dtype=np.int32)
    facts = more.facts()
    rows = np.stack((entities[facts[:, 0]], relations[facts[:, 1] >> 1], entities[facts[:, 2]]), 1)
    rows = rows[(rows >= 0).all(axis=1)]
    back = rows[:, 1] & 1 == 1  # a name may be that of an inverse
    rows[back] = rows[back][:, [2, 1, 0]]
    rows[:, 1] &= ~1
    return rows


def _named(larger: Graph, more: Graph, heads: Sequence[str], forward: Sequence[str]) -> Graph:
    """The graph with the names that another has for its labels, behind those it has."""
    further, before, names = more.names, larger.names, dict[str, list[str]]()
    for theirs, mine in zip((*more.entities, *more.relations[0::2]), (*heads, *forward), strict=True):
        names.setdefault(mine, []).extend(further.get(theirs, ()))
    return larger.named({label: [*before.get(label, ()), *given] for label, given in names.items() if given})
