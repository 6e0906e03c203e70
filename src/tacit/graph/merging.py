"""Joins graphs, and adds or removes facts without changing the ids of a graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain, count, islice
from typing import NamedTuple

import numpy as np

from tacit.errors import DataError
from tacit.graph.builder import Builder, as_forward, counted, fact_keys
from tacit.graph.fact_index import distinct, within
from tacit.graph.graph import SPLITS, Graph, Triples, directed, is_absolute, no_triples
from tacit.graph.labels.prefixes import Prefixes, relabelled_source
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.graph.merged_values import absent_values, check_alike, with_values, without_values
from tacit.graph.qualifiers import Qualifiers, triples_of
from tacit.graph.recognition import recognise

_LISTED_FACTS = 3  # missing facts in a message
_LISTED_TAILS = 3  # known tails in the reason why a fact is missing
_BLANK = "_:"
# divides facts, so that their relation ids become positions among the forward relations
_FORWARD = np.array([1, 2, 1], dtype=np.int32)


def join_graphs(graphs: Sequence[Graph], name: str) -> Graph:
    """Joins graphs split by split; equal labels, or labels of one IRI, are one entity.

    A blank node belongs to its own graph: those of later graphs get labels that are not in use.

    >>> graphs = [Graph.of([("a", "r", "b")]), Graph.of([("b", "r", "c")])]
    >>> join_graphs(graphs, "both").entities.labels
    ['a', 'b', 'c']
    """
    declared = [graph.prefixes for graph in graphs if graph.prefixes]
    prefixes = reduce(Prefixes.joined, declared) if declared else Prefixes()
    builder = Builder()
    for graph in graphs:
        label = _relabelling(graph, prefixes, _blank_stem(builder.entities))
        blank = (
            sum(entity.startswith(_BLANK) for entity in graph.entities) if builder.entities else 0
        )
        splits = {split: graph.split(split) // _FORWARD for split in SPLITS}
        labels = [*map(label, graph.entities)]
        builder.add_coded(labels, [*map(label, graph.relations.labels[0::2])], splits)
        listed = [replace(each, name=label(each.name)) for each in graph.attributes.listed]
        for attribute in listed:
            check_alike(builder.attributes, attribute, graph.name)
        builder.add_values(labels, listed, graph.attributes.rows)
        if len(graph.qualifiers):
            sources = [
                relabelled_source(each, graph.prefixes, prefixes)
                for each in graph.qualifiers.sources
            ]
            rows = graph.qualifiers.rows.copy()
            rows["relation"] >>= 1
            builder.add_statements(
                labels, [*map(label, graph.relations.labels[0::2])], sources, rows
            )
        for known, more in graph.names.items():
            builder.names.setdefault(label(known), []).extend((0, name) for name in more)
        builder.notes += [f"{graph.name}: {note}" for note in graph.notes]
        if blank:
            builder.notes.append(
                f"{graph.name}: {counted(blank, 'blank node')} kept apart from those before"
            )
    return replace(builder.graph(name), prefixes=prefixes)


def _blank_stem(earlier: Collection[str]) -> str:
    """A prefix for blank nodes' labels that no earlier graph uses."""
    numbers = count(2) if earlier else count(0)
    stems = (f"{_BLANK}file{number}." if number else _BLANK for number in numbers)
    return next(stem for stem in stems if not any(label.startswith(stem) for label in earlier))


def _relabelling(graph: Graph, prefixes: Prefixes, blank: str) -> Callable[[str], str]:
    """The function from a graph's labels to labels under other prefixes."""

    def label(old: str) -> str:
        if old.startswith(_BLANK):
            return blank + old.removeprefix(_BLANK)
        text, typed, datatype = old.rpartition('"^^')
        if typed and text.startswith('"') and '"' not in datatype:  # a literal with a datatype
            return text + typed + label(datatype)
        iri = graph.prefixes.iri(old) or (old if prefixes and is_absolute(old) else None)
        return old if iri is None else prefixes.label(iri)

    return label


class Merged(NamedTuple):
    """A changed graph, the counts of changed and unchanged facts and values, and some reasons."""

    graph: Graph
    changed: int
    unchanged: int
    # facts or values to remove that the graph lacks, each with similar ones that it has
    absent: tuple[str, ...] = ()
    values: int = 0  # of attributes, among the changed
    statements: int = 0  # new ones about facts


def with_facts(graph: Graph, more: Graph, *, apart: bool = True) -> Merged:
    """Adds the facts and values of another graph, of any split, to train.

    A label is looked up as in a question: it may be a readable name of a single label, or an IRI.
    New labels get ids behind all others, a relation and its inverse side by side; names and
    prefixes come along. Blank nodes stay `apart` from those of this graph, or else equal labels
    are one node.

    >>> graph = Graph.of([("France", "borders", "Spain")])
    >>> facts = [("Spain", "borders", "Portugal"), ("Spain", "borders^-1", "France")]
    >>> merged = with_facts(graph, Graph.of(facts))
    >>> merged.graph.entities.labels, merged.changed, merged.unchanged
    (['France', 'Spain', 'Portugal'], 1, 1)
    """
    more = recognise(more, (), like=graph)
    prefixes = _prefixes(graph, more)
    lookup = _Lookup(
        graph, more, _relabelling(more, prefixes, _blank_stem(graph.entities) if apart else _BLANK)
    )
    heads = [lookup.find_or_name(label, graph.entities) for label in more.entities]
    forward = [lookup.find_or_name(label, graph.relations) for label in more.relations[0::2]]
    unknown = [label for label in forward if label not in graph.relations]
    larger = replace(
        graph,
        entities=_extend(graph.entities, heads),
        relations=_extend(graph.relations, directed(dict.fromkeys(unknown))),
        prefixes=prefixes,
    )
    facts = _facts_in_ids(larger, more, heads, forward)
    if not more.prefixes:  # statements of RDF have one order
        _check_columns(graph, larger, facts)
    present, new = fact_keys([graph.facts(), facts], larger.num_entities, larger.num_relations)
    _, first = np.unique(new, return_index=True)
    added = facts[np.sort(first[~within(new[first], np.sort(present))])]
    larger = replace(larger, train=np.concatenate((graph.train, added)))
    attributes, values = with_values(larger, more, heads, lookup.find_or_name)
    qualifiers = graph.qualifiers.joined(_statements(larger, more, heads, forward))
    larger = replace(larger, attributes=attributes, qualifiers=qualifiers)
    merged = _add_names(larger, more, heads, forward)
    unchanged = len(first) - len(added) + len(more.attributes) - values
    statements = len(qualifiers) - len(graph.qualifiers)
    return Merged(merged, len(added) + values, unchanged, (), values, statements)


def _statements(
    graph: Graph, more: Graph, heads: Sequence[str], forward: Sequence[str]
) -> Qualifiers:
    """The statements of another graph in the ids of this one."""
    qualifiers = more.qualifiers
    if not len(qualifiers):
        return qualifiers
    stated = replace(more, train=triples_of(qualifiers.rows), valid=no_triples(), test=no_triples())
    rows = qualifiers.rows.copy()
    facts = _facts_in_ids(graph, stated, heads, forward)
    for column, ids in zip(("head", "relation", "tail"), facts.T, strict=True):
        rows[column] = ids
    sources = (relabelled_source(s, more.prefixes, graph.prefixes) for s in qualifiers.sources)
    return Qualifiers(tuple(sources), rows)


def _check_columns(graph: Graph, larger: Graph, facts: Triples) -> None:
    """Raises a `DataError` if an added fact seems to have its columns swapped.

    Its relation is an entity of the graph, and one of its ends a relation.
    """
    new_relations = range(graph.num_relations, larger.num_relations, 2)
    relations = [i for i in new_relations if larger.relations[i] in graph.entities]
    new_entities = range(graph.num_entities, larger.num_entities)
    ends = [i for i in new_entities if larger.entities[i] in graph.relations]
    wrong = facts[np.isin(facts[:, 1], relations) & np.isin(facts[:, [0, 2]], ends).any(1)]
    if len(wrong):
        head, relation, tail = (int(id_) for id_ in wrong[0])
        raise DataError(
            f"a fact has the entity '{larger.relations[relation]}' of {graph.name} for its "
            f"relation, and the relation '{larger.entities[head if head in ends else tail]}' at an "
            "end; give the order of the columns, such as `columns='1,3,2'`"
        )


def without_facts(graph: Graph, less: Graph) -> Merged:
    """Removes the facts and values of another graph from every split; all labels stay.

    It is an error if the graph has none of them: most likely something is misspelt.
    """
    less = recognise(less, (), like=graph)
    lookup = _Lookup(graph, less, _relabelling(less, graph.prefixes, _BLANK))
    heads = [lookup.find(label, graph.entities) for label in less.entities]
    forward = [lookup.find(label, graph.relations) for label in less.relations[0::2]]
    splits = [graph.split(name) for name in SPLITS]
    num_listed = len(less.facts())
    facts = _facts_in_ids(graph, less, heads, forward)
    *present, keys = fact_keys([*splits, facts], graph.num_entities, graph.num_relations)
    targets = distinct(keys)  # labels and names may list a fact twice
    remaining = [split[~within(own, targets)] for split, own in zip(splits, present, strict=True)]
    removed = sum(map(len, splits)) - sum(map(len, remaining))
    attributes, gone = without_values(graph, less, heads, lookup.find)
    values = int(gone.sum())
    absences = islice(
        chain(
            _absences(graph, less, heads, forward),
            absent_values(graph, less, heads, gone),
        ),
        _LISTED_FACTS,
    )
    listed_facts = num_listed + len(gone)
    absent = listed_facts - len(facts) + len(targets) - removed - values
    if listed_facts and not removed and not values:
        # an unknown name is an error with suggestions
        if None in forward:
            graph.relations.id(less.relations[2 * forward.index(None)])
        if None in heads:
            graph.entities.id(less.entities[heads.index(None)])
        none = "no such fact" if listed_facts == 1 else f"none of these {listed_facts:,} facts"
        raise DataError(f"{graph.name} has {none}: {'; '.join(absences)}")
    train, valid, test = remaining
    why = tuple(absences) if absent else ()
    qualifiers = graph.qualifiers.about(np.concatenate(remaining))
    less_known = replace(
        graph, train=train, valid=valid, test=test, attributes=attributes, qualifiers=qualifiers
    )
    return Merged(less_known, removed + values, absent, why, values)


def _absences(
    graph: Graph, less: Graph, heads: Sequence[str | None], forward: Sequence[str | None]
) -> Iterator[str]:
    """Yields the facts of another graph that this one lacks, each with a suggestion."""
    index = graph.index()
    for head, relation, tail in less.facts().tolist():
        fact = (less.entities[head], less.relations[relation], less.entities[tail])
        labels = (heads[head], forward[relation >> 1], heads[tail])
        vocabularies = (graph.entities, graph.relations, graph.entities)
        if None in labels:
            at = labels.index(None)
            nearest = vocabularies[at].nearest(fact[at], 1)
            hint = f", did you mean '{nearest[0]}'?" if nearest else ""
            yield f"{' '.join(fact)}: no {vocabularies[at].kind} '{fact[at]}'{hint}"
            continue
        h, r, t = (known.id(str(label)) for label, known in zip(labels, vocabularies, strict=True))
        tails = index.tails(h, r)
        if t in tails:
            continue
        if h in index.tails(t, r):
            reason = f"the graph has it the other way round, {' '.join(fact[::-1])}"
        elif len(tails):
            shown = ", ".join(graph.entities[i] for i in tails[:_LISTED_TAILS].tolist())
            more = ", ..." if len(tails) > _LISTED_TAILS else ""
            reason = f"the graph has {fact[0]} {fact[1]} {shown}{more}"
        else:
            reason = f"the graph has no {fact[1]} of {fact[0]}"
        yield f"{' '.join(fact)}: {reason}"


def _prefixes(graph: Graph, more: Graph) -> Prefixes:
    """The prefixes of both graphs, except those that would change an IRI's label."""
    prefixes = graph.prefixes
    known = set(graph.prefixes.values())
    further = {
        name: namespace for name, namespace in more.prefixes.items() if namespace not in known
    }
    if not further:  # spares a look at all labels
        return prefixes
    # the IRI of a literal is that of its datatype
    labels = (label.rpartition('"^^')[2] for label in (*graph.entities, *graph.relations))
    iris = [iri for label in labels if (iri := prefixes.iri(label)) is not None]
    for name, namespace in further.items():
        larger = prefixes.joined({name: namespace})
        if all(
            larger.label(iri) == prefixes.label(iri) for iri in iris if iri.startswith(namespace)
        ):
            prefixes = larger
    return prefixes


class _Lookup(NamedTuple):
    """Looks up the labels of another graph; `plain` rewrites labels that are no IRIs."""

    graph: Graph
    other: Graph
    plain: Callable[[str], str]

    def find(self, label: str, known: Vocabulary) -> str | None:
        """The label in this graph for a label of the other; None where there is none."""
        iri = self.other.iri(label)
        if iri is not None:
            if label in known and label in (iri, f"<{iri}>"):
                return label
            own = self.graph.label_of(iri)
            if own is not None and own in known:
                return own
            # the same label may stand for another IRI here
            same = label in known and self.graph.iri(label) in (None, iri)
            return label if same else None
        ids = known.resolve(label := self.plain(label))
        if len(ids) > 1:
            several = " and ".join(f"'{known[i]}'" for i in ids[:3])
            raise DataError(
                f"{known.kind} '{label}' is the name of {several}; write the label instead"
            )
        return known[ids[0]] if ids else None

    def find_or_name(self, label: str, known: Vocabulary) -> str:
        """The label in this graph for a label of the other, or a new one."""
        if (own := self.find(label, known)) is not None:
            return own
        iri = self.other.iri(label)
        short = self.plain(label)
        return f"<{iri}>" if iri is not None and short in known else short


def _extend(known: Vocabulary, labels: Iterable[str]) -> Vocabulary:
    further = [label for label in dict.fromkeys(labels) if label not in known]
    return Vocabulary([*known, *further], known.kind, known.names) if further else known


def _facts_in_ids(
    graph: Graph, more: Graph, heads: Sequence[str | None], forward: Sequence[str | None]
) -> Triples:
    """The facts of another graph in the ids of this one, without those it cannot express."""
    entities, relations = (
        np.array([-1 if label is None else known.id(label) for label in labels], dtype=np.int32)
        for known, labels in ((graph.entities, heads), (graph.relations, forward))
    )
    facts = more.facts()
    rows = np.stack((entities[facts[:, 0]], relations[facts[:, 1] >> 1], entities[facts[:, 2]]), 1)
    # a forward relation there may be an inverse here
    return as_forward(rows[(rows >= 0).all(axis=1)])


def _add_names(larger: Graph, more: Graph, heads: Sequence[str], forward: Sequence[str]) -> Graph:
    """The graph with the names of another added behind its own."""
    further = more.names
    names = {label: list(texts) for label, texts in larger.names.items()}
    labels = (*more.entities, *more.relations[0::2])
    for label, known in zip(labels, (*heads, *forward), strict=True):
        names.setdefault(known, []).extend(further.get(label, ()))
    return larger.named(names)
