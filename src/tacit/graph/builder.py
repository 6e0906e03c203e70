"""Builds a graph from label facts, and notes duplicates and other oddities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any

import numpy as np

from tacit.errors import LimitError
from tacit.graph.attributes import VALUE_ROW, Attribute, Attributes, Rows
from tacit.graph.fact_index import Ids, Ints, paired, within
from tacit.graph.graph import INVERSE, SPLITS, Graph, Triples, directed, no_triples
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.graph.qualifiers import STATEMENT_ROW, Qualifiers, triples_of
from tacit.graph.qualifiers import Rows as Statements
from tacit.graph.quantities import PRECISIONS, Quantity

# readable names of each term, with ranks: the lower, the better
Ranked = dict[str, list[tuple[int, str]]]


class Builder:
    """Collects label facts split by split.

    >>> builder = Builder()
    >>> builder.add("train", ["France", "borders", "Spain", "France", "borders", "Spain"])
    >>> graph = builder.graph("europe")
    >>> graph, graph.notes
    (Graph(europe: 2 entities, 1 relations, 1 train facts), ('train: 1 duplicate fact dropped',))
    """

    def __init__(self) -> None:
        # A defaultdict that counts gives an id to each label it first sees, without leaving C.
        self.entities: defaultdict[str, int] = defaultdict(count().__next__)
        self.relations: defaultdict[str, int] = defaultdict(count().__next__)
        # each kind and unit of an attribute has an id of its own until the graph is built
        self.attributes: defaultdict[Attribute, int] = defaultdict(count().__next__)
        self._chunks: dict[str, list[Triples]] = {split: [] for split in SPLITS}
        self._values: list[Rows] = []
        self.sources: defaultdict[str, int] = defaultdict(count().__next__)  # of facts
        self._statements: list[Statements] = []
        self.names: Ranked = {}
        self.notes: list[str] = []
        self.prefixes: dict[str, str] = {}  # that files declare
        self.order: tuple[int, ...] = (
            0,
            1,
            2,
        )  # where head, relation and tail stand in the tables read so far

    def add(self, split: str, fields: list[str]) -> None:
        """Adds facts from a flat list `head, relation, tail, head, ...`, which it consumes."""
        rows = len(fields) // 3
        relations = fields[1::3]
        del fields[1::3]
        chunk = np.empty((rows, 3), dtype=np.int32)
        ends = _ids(self.entities, fields)
        chunk[:, 0], chunk[:, 2] = ends[0::2], ends[1::2]
        chunk[:, 1] = _ids(self.relations, relations)
        self._chunks[split].append(chunk)

    def add_coded(
        self, entities: list[str], relations: list[str], splits: Mapping[str, Triples]
    ) -> None:
        """Adds facts as positions in lists of labels; it overwrites the arrays.

        Labels come in order of first occurrence.
        """
        entity_ids = _ids(self.entities, entities)
        relation_ids = _ids(self.relations, relations)
        for split, rows in splits.items():
            for column, ids in enumerate((entity_ids, relation_ids, entity_ids)):
                rows[:, column] = ids[rows[:, column]]
            self._chunks[split].append(rows)

    def add_values(
        self, entities: Sequence[str], attributes: Sequence[Attribute], rows: Rows
    ) -> None:
        """Adds values, whose rows have positions in a list of labels and one of attributes."""
        rows = rows.copy()
        rows["entity"] = _ids(self.entities, entities)[rows["entity"]]
        rows["attribute"] = _ids(self.attributes, attributes)[rows["attribute"]]
        self._values.append(rows)

    def add_quantities(self, split: str, values: Sequence[tuple[str, str, Quantity]]) -> None:
        """Adds the quantities of entities, as triples of entity, attribute and quantity."""
        rows = np.zeros(len(values), VALUE_ROW)
        rows["entity"] = rows["attribute"] = np.arange(len(values))
        rows["value"] = [quantity.value for _, _, quantity in values]
        rows["precision"] = [PRECISIONS.index(quantity.precision) for _, _, quantity in values]
        rows["split"] = SPLITS.index(split)
        attributes = [Attribute(name, each.kind, each.unit) for _, name, each in values]
        self.add_values([entity for entity, _, _ in values], attributes, rows)

    def add_statements(
        self,
        entities: Sequence[str],
        relations: Sequence[str],
        sources: Sequence[str],
        rows: Statements,
    ) -> None:
        """Adds statements about facts, whose rows have positions in lists of labels.

        A source of -1 is none. A statement about anything but a fact is dropped and noted.
        """
        rows = rows.copy()
        entity_ids = _ids(self.entities, entities)
        rows["head"], rows["tail"] = entity_ids[rows["head"]], entity_ids[rows["tail"]]
        rows["relation"] = _ids(self.relations, relations)[rows["relation"]]
        rows["source"] = np.append(_ids(self.sources, sources), np.int32(-1))[rows["source"]]
        self._statements.append(rows)

    def facts(self, split: str) -> Triples:
        """The facts of a split so far, as term ids."""
        self._chunks[split] = [np.concatenate([no_triples(), *self._chunks[split]])]
        return self._chunks[split][0]

    def terms(self) -> Iterator[str]:
        """Every entity, relation, attribute and source so far, as passed to `add`."""
        attributes = (each.name for each in self.attributes)
        return chain(self.entities, self.relations, attributes, self.sources)

    def graph(
        self,
        name: str,
        label: Callable[[str], str] = str,
        source_label: Callable[[str], str] = str,
    ) -> Graph:
        """Builds the graph of all facts added; `label` maps terms to labels where they differ."""
        splits = [self.facts(split) for split in SPLITS]
        self._chunks.clear()
        statements = np.concatenate([np.empty(0, STATEMENT_ROW), *self._statements])
        self._statements.clear()
        stated = triples_of(statements)
        forward = _without_inverses(list(map(label, self.relations)), [*splits, stated])
        for column, ids in zip(("head", "relation", "tail"), stated.T, strict=True):
            statements[column] = ids
        # the vocabulary takes the dict over
        entities = Vocabulary(self.entities if label is str else map(label, self.entities))
        graph = assemble(entities, directed(forward), splits, name, self.notes)
        attributes, notes = self._attributes(label)
        qualifiers = Qualifiers(tuple(map(source_label, self.sources)), statements)
        about = qualifiers.about(graph.facts())
        if lost := len(qualifiers) - len(about):
            notes.append(f"{counted(lost, 'statement')} about what is no fact here skipped")
        graph = replace(
            graph, attributes=attributes, qualifiers=about, notes=(*graph.notes, *notes)
        )
        known = {*self.relations, *(each.name for each in self.attributes)}
        names = {
            label(term): by_rank(ranked)
            for term, ranked in self.names.items()
            # files of names speak of many terms without facts
            if label is str or term in self.entities or term in known
        }
        return graph.named(names)

    def _attributes(self, label: Callable[[str], str]) -> tuple[Attributes, list[str]]:
        """The attributes, each of its most frequent kind and unit, and notes on other values."""
        rows = np.concatenate([np.empty(0, VALUE_ROW), *self._values])
        self._values.clear()
        forms = list(self.attributes)
        sizes = np.bincount(rows["attribute"], minlength=len(forms))
        best: dict[str, int] = {}
        for form in np.argsort(-sizes, kind="stable").tolist():
            best.setdefault(forms[form].name, form)
        listed = tuple(replace(forms[i], name=label(forms[i].name)) for i in sorted(best.values()))
        new_ids = np.full(len(forms), -1)
        new_ids[sorted(best.values())] = np.arange(len(best))
        rows["attribute"] = new_ids[rows["attribute"]] if len(forms) else 0
        notes = []
        for form, attribute in enumerate(forms):
            if new_ids[form] < 0:
                chosen = forms[best[attribute.name]]
                values = counted(int(sizes[form]), "value")
                notes.append(
                    f"{label(attribute.name)}: {values} in {attribute.unit or attribute.kind} "
                    f"skipped, since most are in {chosen.unit or chosen.kind}"
                )
        return Attributes(listed, rows[rows["attribute"] >= 0]), notes


def by_rank(names: Iterable[tuple[int, str]]) -> list[str]:
    """Names in order of rank, the best first."""
    return [name for _, name in sorted(names, key=lambda pair: pair[0])]


def _ids(known: Mapping[Any, int], labels: Sequence[Any]) -> Ids:
    """The ids of labels."""
    try:
        return np.fromiter(map(known.__getitem__, labels), np.int32, len(labels))
    except OverflowError:
        raise LimitError(
            f"the graph has more than {2**31:,} labels, and an id has 32 bits; leave some out"
        ) from None


def _without_inverses(relations: list[str], splits: Sequence[Triples]) -> list[str]:
    """Turns `(a, r^-1, b)` into `(b, r, a)`, in place; returns the forward relations."""
    ids: dict[str, int] = {}
    forward = np.empty(len(relations), dtype=np.int32)
    flipped = np.zeros(len(relations), dtype=bool)
    for i, label in enumerate(relations):
        while label.endswith(INVERSE) and label != INVERSE:
            label = label.removesuffix(INVERSE).rstrip(" ")
            flipped[i] = not flipped[i]
        forward[i] = 2 * ids.setdefault(label, len(ids))
    for split in splits:
        if flipped.any():
            inverse = flipped[split[:, 1]]
            split[inverse] = split[inverse][:, [2, 1, 0]]
        split[:, 1] = forward[split[:, 1]]
    return list(ids)


def assemble(
    entities: Vocabulary,
    relations: Vocabulary,
    splits: Sequence[Triples],
    name: str,
    notes: Iterable[str] = (),
) -> Graph:
    """Builds a graph of forward facts, each in the first split that has it.

    Notes say what was dropped.
    """
    notes = list(notes)
    distinct_facts: list[Triples] = []
    earlier: list[Ints] = []  # the keys of each split so far, sorted
    for split, facts, keys in zip(
        SPLITS, splits, fact_keys(splits, len(entities), len(relations)), strict=True
    ):
        ordered = np.sort(keys)
        duplicates = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(duplicates):
            keep = ~within(keys, duplicates)
            repeated = np.flatnonzero(~keep)
            # where each first occurs
            keep[repeated[np.unique(keys[repeated], return_index=True)[1]]] = True
            notes.append(f"{split}: {counted(len(duplicates), 'duplicate fact')} dropped")
            facts = facts[keep]
            keys = keys[keep]
        repeated = np.zeros(len(keys), dtype=bool)
        for others in earlier:
            repeated |= within(keys, others)
        if repeated.any():
            before = "train" if split == "valid" else "train or valid"
            notes.append(
                f"{split}: {counted(int(repeated.sum()), 'fact')} dropped that {before} has too"
            )
            facts = facts[~repeated]
        earlier.append(ordered)
        distinct_facts.append(facts)
    train, valid, test = distinct_facts
    return Graph(entities, relations, train, valid, test, name, notes=tuple(notes))


def with_unseen_noted(graph: Graph) -> Graph:
    """The graph with notes on the facts of valid and test that no model can predict."""
    notes = list(graph.notes)
    for split in SPLITS[1:]:
        unseen = len(graph.split(split)) - len(graph.evaluable(split))
        if unseen:
            subject = "it names" if unseen == 1 else "they name"
            what = f"{counted(unseen, 'fact')} that nothing is learned about"
            notes.append(f"{split}: {what}: {subject} entities or relations not in train")
    return replace(graph, notes=tuple(notes))


def as_forward(facts: Triples) -> Triples:
    """A copy of facts in which those of an inverse relation are turned around."""
    facts = facts.copy()
    inverse = facts[:, 1] & 1 == 1
    facts[inverse] = facts[inverse][:, ::-1]
    facts[:, 1] &= ~1
    return facts


def fact_keys(parts: Sequence[Triples], num_entities: int, num_relations: int) -> list[Ints]:
    """One integer per fact of each part, equal exactly where facts are, across parts too."""
    facts = np.concatenate(parts)
    pairs = facts[:, 0].astype(np.int64) * num_relations + facts[:, 1]
    return np.split(
        paired(pairs, facts[:, 2], max(num_entities, 1)),
        np.cumsum([len(part) for part in parts[:-1]]),
    )


def counted(number: int, noun: str, plural: str = "") -> str:
    """Formats a number and its noun.

    >>> counted(1, "fact"), counted(1200, "fact"), counted(2, "entity", "entities")
    ('1 fact', '1,200 facts', '2 entities')
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
