"""The terms of a graph as RDF: their cells, labels and readable names.

A term of the graph is a number, that of its entity or, behind all entities, of its relation or
attribute; other terms stand for themselves, such as the literals of values. The readable names of a
term are its values of `rdfs:label`, in a graph from tables also a label without a name.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.errors import UnknownName
from tacit.graph.graph import Graph
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.query.sparql.tables import Cell
from tacit.query.sparql.terms import RDFS_LABEL, Term, term_of

LABEL = Term("uri", RDFS_LABEL)  # the predicate of names


@dataclass(frozen=True, eq=False)
class GraphTerms:
    """The cells of the terms of a graph."""

    graph: Graph

    @property
    def entities(self) -> range:
        """The cells of all entities."""
        return range(self.graph.num_entities)

    def cell(self, label: str) -> Cell:
        """The cell of the entity, else the relation, else the attribute with a label."""
        start = 0
        for vocabulary in self._vocabularies:
            if label in vocabulary:
                return start + vocabulary.id(label)
            start += len(vocabulary)
        raise UnknownName("entity", label, self.graph.entities.nearest(label))

    @property
    def _vocabularies(self) -> tuple[Vocabulary, ...]:
        """The labels of cells, one after the other."""
        return self.graph.entities, self.graph.relations, self.graph.attributes.names

    def _place(self, cell: int) -> tuple[Vocabulary, int]:
        """The vocabulary of a cell, and its id there."""
        for vocabulary in self._vocabularies:
            if cell < len(vocabulary):
                break
            cell -= len(vocabulary)
        return vocabulary, cell

    def label(self, cell: Cell) -> str | None:
        """The label of a cell; None for a term that is not the graph's."""
        if not isinstance(cell, int):
            return None
        vocabulary, i = self._place(cell)
        return str(vocabulary[i])

    def term(self, cell: Cell) -> Term:
        """The RDF term of a cell."""
        prefixes = self.graph.prefixes
        return cell if isinstance(cell, Term) else term_of(self.label(cell) or "", prefixes)

    def readable_name(self, cell: Cell) -> str:
        """The readable name of a cell."""
        if not isinstance(cell, int):
            return str(cell)
        vocabulary, i = self._place(cell)
        return vocabulary.name(i)

    def literal(self, term: Term) -> Cell:
        """The cell of a literal: an entity of the graph, or the term itself."""
        if term.language or term.datatype or not self.graph.prefixes:
            return term
        label = '"' + term.value.replace("\\", r"\\").replace('"', r"\"") + '"'
        return self.graph.entities.id(label) if label in self.graph.entities else term

    def names(self, cell: Cell) -> list[Cell]:
        """The readable names of a term, as literals."""
        label = self.label(cell)
        if label is None:
            return []
        name_lists = (vocabulary.names.get(label) for vocabulary in self._vocabularies)
        names = next(filter(None, name_lists), None)
        if not names and not self.graph.prefixes:
            names = (label,)
        return [self.literal(Term("literal", name)) for name in names or ()]

    def find_named(self, text: str) -> list[Cell]:
        """The terms with a readable name."""
        cells: list[Cell] = []
        for vocabulary in self._vocabularies:
            labels = [vocabulary[i] for i in vocabulary.called(text)]
            if text in vocabulary:
                labels.append(text)
            cells += [self.cell(label) for label in labels if not label.endswith("^-1")]
        name = self.literal(Term("literal", text))
        return [cell for cell in dict.fromkeys(cells) if name in self.names(cell)]
