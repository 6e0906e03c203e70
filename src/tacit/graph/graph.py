"""A knowledge graph: labels, and integer facts in three splits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from html import escape
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError, SettingsError
from tacit.graph.attributes import Attributes
from tacit.graph.conversions import Conversions
from tacit.graph.fact_index import FactIndex
from tacit.graph.labels.prefixes import Prefixes
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.graph.qualifiers import FactSelection, Qualifiers

if TYPE_CHECKING:
    from tacit.graph.statistics import Statistics
    from tacit.graph.value_index import ValueIndex

Triples = NDArray[np.int32]
# the numbers of entities and relations, and a hash of their labels
LabelStamp = tuple[int, int, str]
NamesByLabel = Mapping[str, Sequence[str]]  # the readable names of a label, the best first
SPLITS = ("train", "valid", "test")
INVERSE = "^-1"
_ABSOLUTE = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*://[^\x00-\x20<>"{}|\\^`]*')


def is_absolute(text: str) -> bool:
    """Whether a text is an absolute IRI with a host or path, as it stands in a table."""
    return _ABSOLUTE.fullmatch(text) is not None


def no_triples() -> Triples:
    """An empty split."""
    return np.empty((0, 3), dtype=np.int32)


def directed(relations: Iterable[str]) -> Vocabulary:
    """The vocabulary of relation ids: each relation at `2i`, its inverse at `2i + 1`.

    >>> directed(["borders"]).labels
    ['borders', 'borders^-1']
    """
    return Vocabulary((name for r in relations for name in (r, r + INVERSE)), kind="relation")


def names_both_ways(names: NamesByLabel, relations: Sequence[str]) -> dict[str, Sequence[str]]:
    """The names, with those of inverses taken from their relations where absent."""
    pairs = zip(relations[0::2], relations[1::2], strict=True)
    return {
        inverse: [name + INVERSE for name in names[label]]
        for label, inverse in pairs
        if label in names
    } | dict(names)


def _check_row(row: Sequence[str], split: str, number: int) -> list[str]:
    """Checks a row of three labels and strips their spaces; an error names the row."""
    listed = isinstance(row, Sequence | np.ndarray) and not isinstance(row, str)
    labels = [label.strip(" ") for label in row if isinstance(label, str)] if listed else []
    if len(labels) != 3 or len(row) != 3 or "" in labels:
        shown = " ".join(repr(row).split())[:80]
        raise DataError(
            f"{split} fact {number} is {shown}; expected head, relation and tail, none of them "
            "empty"
        )
    return labels


@dataclass(frozen=True, eq=False)
class Graph(Conversions):
    """Facts `(head, relation, tail)` over labelled entities and relations, in three splits.

    Facts are stored forward, with even relation ids; the inverse of relation `r` is `r ^ 1`, an id
    like any other, and `triples` and `index` have both directions.

    >>> graph = Graph.of([("France", "borders", "Spain")])
    >>> graph.index().tails(graph.entities.id("Spain"), graph.relations.id("borders^-1"))
    array([0], dtype=int32)
    """

    entities: Vocabulary
    relations: Vocabulary  # directed: 2i forward, 2i + 1 inverse
    train: Triples
    valid: Triples = field(default_factory=no_triples)
    test: Triples = field(default_factory=no_triples)
    name: str = "graph"
    # remarks from reading: duplicates, literals, facts that cannot be predicted
    notes: tuple[str, ...] = ()
    prefixes: Prefixes = field(default_factory=Prefixes)  # of labels that stand for IRIs
    attributes: Attributes = field(default_factory=Attributes)  # numbers and dates of entities
    qualifiers: Qualifiers = field(default_factory=Qualifiers)  # sources and times of facts

    @classmethod
    def of(
        cls,
        train: Iterable[Sequence[str]],
        valid: Iterable[Sequence[str]] = (),
        test: Iterable[Sequence[str]] = (),
        name: str = "graph",
        *,
        attributes: Iterable[str] = (),
    ) -> Graph:
        """Builds a graph from label triples, read as files are.

        Duplicates and outer spaces are dropped, and `(a, r^-1, b)` is `(b, r, a)`. Ids are in the
        order of first occurrence; `Graph.notes` lists what was dropped. Relations that are named as
        `attributes` have numbers, dates or durations for tails.

        >>> graph = Graph.of([("Oslo", "founded", "1048")], attributes=["founded[date]"])
        >>> graph.entities.labels, str(graph.attributes.quantities(0, 0)[0])
        (['Oslo'], '1048')
        """
        from tacit.graph.builder import Builder, with_unseen_noted
        from tacit.graph.recognition import recognise

        builder = Builder()
        for split, facts in zip(SPLITS, (train, valid, test), strict=True):
            rows = (_check_row(row, split, number) for number, row in enumerate(facts, 1))
            builder.add(split, list(chain.from_iterable(rows)))
        return with_unseen_noted(recognise(builder.graph(name), tuple(attributes)))

    @property
    def num_entities(self) -> int:
        """The number of entities, N."""
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        """The number of relation ids, inverses included."""
        return len(self.relations)

    def named(self, names: NamesByLabel) -> Graph:
        """The same graph with more readable names, put before those it has.

        An inverse takes the names of its relation. A text in place of several names is one name.

        >>> graph = Graph.of([("Q90", "P36", "Q142")]).named({"Q90": ["Paris"], "P36": ["capital"]})
        >>> graph.entities.name(0), graph.relations.name(1)
        ('Paris', 'capital^-1')
        """
        listed = {label: [text] if isinstance(text, str) else text for label, text in names.items()}
        readable = {
            label: words for label in listed if (words := [*filter(str.strip, listed[label])])
        }
        if not readable:
            return self
        both = names_both_ways(readable, self.relations)

        def renamed(known: Vocabulary) -> Vocabulary:
            names = {
                label: dict.fromkeys((*both.get(label, ()), *known.names.get(label, ())))
                for label in {**both, **known.names}
            }
            return Vocabulary(known.labels, known.kind, names)

        own = self.attributes.readable
        of_attributes = {
            label: tuple(dict.fromkeys((*readable.get(label, ()), *own.get(label, ()))))
            for label in {**readable, **own}
        }
        return replace(
            self,
            entities=renamed(self.entities),
            relations=renamed(self.relations),
            attributes=self.attributes.named(of_attributes),
        )

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The readable names of entities, relations and attributes, by label.

        An inverse is listed only where its names differ from its relation's.
        """
        names = dict(self.relations.names)
        for label, inverse in zip(self.relations[0::2], self.relations[1::2], strict=True):
            if names.get(inverse) == tuple(name + INVERSE for name in names.get(label, ())):
                del names[inverse]
        return self.attributes.names.names | names | self.entities.names

    def label_of(self, iri: str) -> str | None:
        """The label of an IRI: its short form, or the IRI, bare or in angle brackets; or None.

        >>> graph = Graph.of([("http://a.org/Oslo", "in", "Norway")])
        >>> graph.label_of("http://a.org/Oslo"), graph.label_of("http://b.org/Oslo")
        ('http://a.org/Oslo', None)
        >>> graph.iri("Norway") is None
        True
        """
        labels = [self.prefixes.label(iri), f"<{iri}>"]
        if is_absolute(iri) and self.prefixes.iri(iri) is None:
            labels.insert(1, iri)
        known = self.entities, self.relations, self.attributes.names
        return next((label for label in labels if any(label in each for each in known)), None)

    def iri(self, label: str) -> str | None:
        """The IRI whose `label_of` is a label; None where there is none."""
        iri = self.prefixes.iri(label) or (label[1:-1] if label[:1] + label[-1:] == "<>" else label)
        return iri if self.label_of(iri) == label else None

    def split(self, name: str) -> Triples:
        """One split by name."""
        if name not in SPLITS:
            raise SettingsError(
                f"split is '{name}'; it must be one of {', '.join(SPLITS)}", "split"
            )
        split: Triples = getattr(self, name)
        return split

    def facts(self, *splits: str) -> Triples:
        """The forward facts of some splits (all of them by default)."""
        return np.concatenate([self.split(name) for name in splits or SPLITS])

    def evaluable(self, split: str) -> Triples:
        """The forward facts of a split whose entities and relation all occur in train.

        No model can predict the others.
        """
        facts = self.split(split)
        if not len(facts):
            return facts
        ends = np.isin(facts[:, [0, 2]], self.train[:, [0, 2]]).all(axis=1)
        return facts[ends & np.isin(facts[:, 1], self.train[:, 1])]

    def triples(self, *splits: str) -> Triples:
        """The triples of some splits (all of them by default), each followed by its inverse."""
        facts = self.facts(*splits)
        both = np.empty((2 * len(facts), 3), dtype=np.int32)
        both[0::2] = facts
        both[1::2, 0], both[1::2, 1], both[1::2, 2] = facts[:, 2], facts[:, 1] ^ 1, facts[:, 0]
        return both

    def statistics(self, hubs: int = 10) -> Statistics:
        """Counts facts, degrees and relations, with the largest `hubs` and values as entities.

        >>> Graph.of([("France", "borders", "Spain")]).statistics().hubs
        (('France', 1), ('Spain', 1))
        """
        from tacit.graph.statistics import Statistics

        return Statistics.of(self, hubs)

    def index(self, *splits: str) -> FactIndex:
        """The sorted index of some splits (default: all), in both directions; cached."""
        for name in splits:
            self.split(name)  # refuses unknown names
        chosen = tuple(name for name in SPLITS if name in (splits or SPLITS))
        if chosen not in self.indexes:
            self.indexes[chosen] = FactIndex(self.triples(*chosen), self.num_relations)
        return self.indexes[chosen]

    @cached_property
    def indexes(self) -> dict[tuple[str, ...], FactIndex]:
        """The indexes that were built before or read from files, by their splits."""
        return {}

    def selected(self, selection: FactSelection) -> Graph:
        """The same graph with the facts and statements of a selection alone; cached.

        Without a selection it is this graph.
        """
        if not selection:
            return self
        if selection not in self._derived:
            self.qualifiers.check(selection)
            splits = map(self.split, SPLITS)
            train, valid, test = (f[self.qualifiers.selects(f, selection)] for f in splits)
            said = self.qualifiers.where(self.qualifiers.admitted(selection))
            self._derived[selection] = replace(
                self, train=train, valid=valid, test=test, qualifiers=said
            )
        graph: Graph = self._derived[selection]
        return graph

    def values(self, *splits: str) -> ValueIndex:
        """The index of the values of attributes in some splits; cached."""
        from tacit.graph.value_index import ValueIndex

        if splits not in self._derived:
            self._derived[splits] = ValueIndex(self.attributes, splits, self.num_entities)
        index: ValueIndex = self._derived[splits]
        return index

    def label_stamp(self, entities: int | None = None, relations: int | None = None) -> LabelStamp:
        """The first entities and relations (default: all): their counts and a hash; cached."""
        sizes = (
            self.num_entities if entities is None else entities,
            self.num_relations if relations is None else relations,
        )
        if sizes not in self._derived:
            digest = sha256()
            for vocabulary, size in zip((self.entities, self.relations), sizes, strict=True):
                for label in islice(vocabulary, size):
                    digest.update(label.encode("utf-8", "surrogatepass") + b"\n")
                digest.update(b"\0")
            self._derived[sizes] = (*sizes, digest.hexdigest()[:32])
        stamp: LabelStamp = self._derived[sizes]
        return stamp

    @cached_property
    def _derived(self) -> dict[FactSelection | tuple[str, ...] | tuple[int, int], Any]:
        """The graphs of selections, value indexes of splits and label stamps made before."""
        return {}

    def __repr__(self) -> str:
        sizes = {name: len(self.split(name)) for name in SPLITS}
        facts = ", ".join(f"{size:,} {name}" for name, size in sizes.items() if size) or "no"
        labels = f"{self.num_entities:,} entities, {self.num_relations // 2:,} relations"
        values = f", {len(self.attributes):,} values" if len(self.attributes) else ""
        return f"Graph({self.name}: {labels}, {facts} facts{values})"

    def _repr_html_(self) -> str:
        """The graph for notebooks, with its first training facts."""
        facts = (
            (self.entities[h], self.relations[r], self.entities[t])
            for h, r, t in self.train[:5].tolist()
        )
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(label)}</td>" for label in fact) + "</tr>"
            for fact in facts
        )
        header = "<tr><th>head</th><th>relation</th><th>tail</th></tr>"
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return (
            f"<div><p>{escape(repr(self))}</p><table>{header}{rows}</table><ul>{notes}</ul></div>"
        )


def facts_by(graph: Graph, relation: int) -> Triples:
    """The forward facts of one relation, in all splits."""
    splits = map(graph.split, SPLITS)
    return np.concatenate([facts[facts[:, 1] == relation & ~1] for facts in splits])


def without_attributes(graph: Graph) -> Graph:
    """The same graph without numbers and dates."""
    return replace(graph, attributes=Attributes())
