"""A knowledge graph: labels, and integer facts in three splits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError, SettingsError
from tacit.graph.fact_index import FactIndex
from tacit.graph.labels.prefixes import Prefixes
from tacit.graph.labels.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tacit.graph.statistics import Statistics

Triples = NDArray[np.int32]
NamesByLabel = Mapping[str, Sequence[str]]  # readable ones by label, the best first
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
    """The same names, and those of inverses: their relations' where they have none of their own."""
    pairs = zip(relations[0::2], relations[1::2], strict=True)
    return {back: [name + INVERSE for name in names[label]] for label, back in pairs if label in names} | dict(names)


def _checked(row: Sequence[str], split: str, number: int) -> list[str]:
    """A row of three labels, without spaces around them; anything else is an error that says which row it is."""
    listed = isinstance(row, Sequence | np.ndarray) and not isinstance(row, str)
    labels = [label.strip(" ") for label in row if isinstance(label, str)] if listed else []
    if len(labels) != 3 or len(row) != 3 or "" in labels:
        shown = " ".join(repr(row).split())[:80]
        raise DataError(f"{split} fact {number} is {shown}; expected head, relation and tail, none of them empty")
    return labels


@dataclass(frozen=True, eq=False)
class Graph:
    """Facts `(head, relation, tail)` over labelled entities and relations, as train, valid and test splits.

    Facts are stored forward, with even relation ids; the inverse of relation `r` is `r ^ 1`, an id like any other,
    and `triples` and `index` speak of both directions.

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
    notes: tuple[str, ...] = ()  # what was noticed while reading: duplicates, literals, facts that cannot be predicted
    prefixes: Prefixes = field(default_factory=Prefixes)  # of labels that stand for IRIs

    @classmethod
    def of(
        cls,
        train: Iterable[Sequence[str]],
        valid: Iterable[Sequence[str]] = (),
        test: Iterable[Sequence[str]] = (),
        name: str = "graph",
    ) -> Graph:
        """A graph from label triples, read as files are: duplicates and outer spaces go, and `(a, r^-1, b)` is
        `(b, r, a)`.

        Ids are given in the order of first occurrence; `Graph.notes` says what was dropped.
        """
        from tacit.graph.builder import Builder

        builder = Builder()
        for split, facts in zip(SPLITS, (train, valid, test), strict=True):
            builder.add(split, [label for number, row in enumerate(facts, 1) for label in _checked(row, split, number)])
        return builder.graph(name)

    @property
    def num_entities(self) -> int:
        """How many entities there are, N."""
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        """How many relation ids there are, inverses included."""
        return len(self.relations)

    def named(self, names: NamesByLabel) -> Graph:
        """The same graph with readable names for labels, before those they have; an inverse has its relation's.

        A text in place of several names is one name.

        >>> graph = Graph.of([("Q90", "P36", "Q142")]).named({"Q90": ["Paris"], "P36": ["capital"]})
        >>> graph.entities.name(0), graph.relations.name(1)
        ('Paris', 'capital^-1')
        """
        listed = {label: [given] if isinstance(given, str) else given for label, given in names.items()}
        worded = {label: words for label in listed if (words := [name for name in listed[label] if name.strip()])}
        if not worded:
            return self
        given = names_both_ways(worded, self.relations)

        def renamed(known: Vocabulary) -> Vocabulary:
            labels = {**given, **known.names}
            names = {label: dict.fromkeys((*given.get(label, ()), *known.names.get(label, ()))) for label in labels}
            return Vocabulary(known.labels, known.kind, names)

        return replace(self, entities=renamed(self.entities), relations=renamed(self.relations))

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The readable names of entities and relations, by label; of inverses those that are not their relations'."""
        given = dict(self.relations.names)
        for label, back in zip(self.relations[0::2], self.relations[1::2], strict=True):
            if given.get(back) == tuple(name + INVERSE for name in given.get(label, ())):
                del given[back]
        return given | self.entities.names

    def label_of(self, iri: str) -> str | None:
        """The label that stands for an IRI: its short form, or the IRI as it is or in angle brackets; else None.

        >>> graph = Graph.of([("http://a.org/Oslo", "in", "Norway")])
        >>> graph.label_of("http://a.org/Oslo"), graph.label_of("http://b.org/Oslo"), graph.iri("Norway")
        ('http://a.org/Oslo', None, None)
        """
        labels = [self.prefixes.label(iri), f"<{iri}>"]
        if is_absolute(iri) and self.prefixes.iri(iri) is None:
            labels.insert(1, iri)
        return next((label for label in labels if label in self.entities or label in self.relations), None)

    def iri(self, label: str) -> str | None:
        """The IRI that a label of the graph stands for: the one whose `label_of` it is; None where there is none."""
        iri = self.prefixes.iri(label) or (label[1:-1] if label[:1] + label[-1:] == "<>" else label)
        return iri if self.label_of(iri) == label else None

    def split(self, name: str) -> Triples:
        """One split by name."""
        if name not in SPLITS:
            raise SettingsError(f"no split '{name}'; the splits are {', '.join(SPLITS)}")
        split: Triples = getattr(self, name)
        return split

    def facts(self, *splits: str) -> Triples:
        """The forward facts of some splits (all of them by default)."""
        return np.concatenate([self.split(name) for name in splits or SPLITS])

    def facts_by(self, relation: int) -> Triples:
        """The forward facts of one relation, in all splits."""
        splits = map(self.split, SPLITS)
        return np.concatenate([facts[facts[:, 1] == relation & ~1] for facts in splits])

    def evaluable(self, split: str) -> Triples:
        """The forward facts of a split whose entities and relation all occur in train: others cannot be predicted."""
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
        """What there is to know before training: sizes, relations, degrees, the largest `hubs`, numbers as entities.

        >>> Graph.of([("France", "borders", "Spain")]).statistics().hubs
        (('France', 1), ('Spain', 1))
        """
        from tacit.graph.statistics import Statistics

        return Statistics.of(self, hubs)

    def write(self, path: str | Path) -> None:
        """Write label facts: all together to a `.tsv` or `.txt` file, packed or not, or its splits to a folder."""
        from tacit.graph.formats.label_tables import write_tsv

        write_tsv(self, path)

    def index(self, *splits: str) -> FactIndex:
        """The sorted index of some splits (all of them by default), both directions; built once."""
        for name in splits:
            self.split(name)  # which refuses a typo
        wanted = tuple(name for name in SPLITS if name in (splits or SPLITS))
        if wanted not in self._indexes:
            self._indexes[wanted] = FactIndex(self.triples(*wanted), self.num_relations)
        return self._indexes[wanted]

    def indexed(self, index: FactIndex) -> Graph:
        """The same graph with an index of all its splits that was made before."""
        graph = replace(self)
        graph._indexes[SPLITS] = index
        return graph

    @cached_property
    def _indexes(self) -> dict[tuple[str, ...], FactIndex]:
        return {}

    def __repr__(self) -> str:
        facts = ", ".join(f"{len(self.split(name)):,} {name}" for name in SPLITS if len(self.split(name))) or "no"
        labels = f"{self.num_entities:,} entities, {self.num_relations // 2:,} relations"
        return f"Graph({self.name}: {labels}, {facts} facts)"

    def _repr_html_(self) -> str:
        """The same for notebooks, with the first few training facts."""
        facts = ((self.entities[h], self.relations[r], self.entities[t]) for h, r, t in self.train[:5].tolist())
        rows = "".join("<tr>" + "".join(f"<td>{escape(label)}</td>" for label in fact) + "</tr>" for fact in facts)
        header = "<tr><th>head</th><th>relation</th><th>tail</th></tr>"
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return f"<div><p>{escape(repr(self))}</p><table>{header}{rows}</table><ul>{notes}</ul></div>"
