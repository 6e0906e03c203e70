"""The known facts of a graph as RDF: its terms, facts with any part open, names, and paths.

A term of the graph is a number, that of its entity or, behind all entities, of its relation or
attribute; other terms stand for themselves, such as the literals of values. The readable names of a
term are its values of `rdfs:label`, in a graph from tables also a label without a name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np

from tacit.errors import LimitError
from tacit.graph.attributes import Attributes, Rows
from tacit.graph.fact_index import FactIndex, Ints
from tacit.graph.graph import Graph
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.query.sparql.tables import Cell
from tacit.query.sparql.terms import RDFS_LABEL, Term, quantity_of, quantity_term, term_of

MAX_FACTS = 3_000_000  # that a query looks at, which takes some seconds
_VALUES = 1_000  # that are compared in the time that a fact takes
_TERMS = 32  # of a path, which are compared in the time that a fact takes
LABEL = Term("uri", RDFS_LABEL)  # the predicate of names
Fact = tuple[Cell, Cell, Cell]
Pairs = Iterator[tuple[Cell, Cell]]


class Path(NamedTuple):
    """A property path: a relation, or an operation on other paths.

    `maybe` is `?`, `star` is `*`, `plus` is `+`.
    """

    kind: Literal["relation", "inverse", "either", "sequence", "maybe", "star", "plus"]
    parts: tuple[Path, ...] = ()
    relation: Cell = None


class KnownGraph:
    """The facts of an index over a graph, of which one query may look at `MAX_FACTS`."""

    def __init__(self, graph: Graph, index: FactIndex, values: Attributes | None = None) -> None:
        self.graph = graph
        self.index = index
        self.values = values or Attributes()  # of the graph's attributes, those that are known
        self._rows = dict[int, tuple[Ints, Rows]]()
        self._looked_at = 0
        # what the steps of closures lead to
        self._followed = dict[tuple[Path, Cell, bool], list[Cell]]()

    def entity(self, label: str) -> Cell:
        """The cell of an entity."""
        return self.graph.entities.id(label)

    def relation(self, label: str) -> Cell:
        """The cell of a relation; one with the label of an entity is the same term."""
        i = self.graph.entities.get(label) if label in self.graph.entities else None
        return self.graph.num_entities + self.graph.relations.id(label) if i is None else i

    def attribute(self, label: str) -> Cell:
        """The cell of an attribute; one with the label of an entity or relation is that term."""
        for vocabulary, cell_of in (
            (self.graph.entities, self.entity),
            (self.graph.relations, self.relation),
        ):
            if label in vocabulary:
                return cell_of(label)
        return sum(map(len, self._vocabularies[:2])) + self.graph.attributes.names.id(label)

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
        if isinstance(cell, Term):
            return cell
        return term_of(self.label(cell) or "", self.graph.prefixes)

    def shown(self, cell: Cell) -> str:
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
        named = (vocabulary.names.get(label) for vocabulary in self._vocabularies)
        names = next(filter(None, named), None)
        if not names and not self.graph.prefixes:
            names = (label,)
        return [self.literal(Term("literal", name)) for name in names or ()]

    def named(self, text: str) -> list[Cell]:
        """The terms with a readable name."""
        cells: list[Cell] = []
        cells_of = self.entity, self.relation, self.attribute
        for vocabulary, cell_of in zip(self._vocabularies, cells_of, strict=True):
            labels = [vocabulary[i] for i in vocabulary.called(text)]
            if text in vocabulary:
                labels.append(text)
            cells += [cell_of(label) for label in labels if not label.endswith("^-1")]
        name = self.literal(Term("literal", text))
        return [cell for cell in dict.fromkeys(cells) if name in self.names(cell)]

    def facts(self, subject: Cell, predicate: Cell, object_: Cell) -> Iterator[Fact]:
        """The facts with some parts fixed, among them those of names; None leaves a part open."""
        for fact in self._facts(subject, predicate, object_):
            self.spend(1)
            yield fact

    def spend(self, facts: int) -> None:
        """Raises a `LimitError` where the query has looked at too many facts."""
        self._looked_at += facts
        if self._looked_at > MAX_FACTS:
            raise LimitError(
                f"the query looks at more than {MAX_FACTS:,} known facts; name an entity or a "
                "relation in each pattern, or ask in parts"
            )

    def _facts(self, subject: Cell, predicate: Cell, object_: Cell) -> Iterator[Fact]:
        if predicate is None or predicate == LABEL:
            yield from self._label_facts(subject, object_)
        if predicate == LABEL:
            return
        yield from self._value_facts(subject, predicate, object_)
        relation = self._relations.get(predicate)
        if predicate is not None and relation is None:
            return
        size = self.graph.num_entities
        if subject is not None:
            if isinstance(subject, int) and subject < size:
                for r, tail in self._edges(subject, relation, 0):
                    if object_ is None or tail == object_:
                        yield subject, self._predicates[r], tail
        elif object_ is not None:
            if isinstance(object_, int) and object_ < size:
                for r, head in self._edges(object_, relation, 1):
                    yield head, self._predicates[r], object_
        else:
            for r in self._predicates if relation is None else [relation]:
                for head in self.index.sources.tails(r, 0).tolist():
                    for tail in self.index.tails(head, r).tolist():
                        yield head, self._predicates[r], tail

    def _value_facts(self, subject: Cell, predicate: Cell, object_: Cell) -> Iterator[Fact]:
        """The values of attributes, as literals; `object_` is one that `value` returned."""
        wanted = quantity_of(object_) if isinstance(object_, Term) else None
        if object_ is not None and wanted is None:
            return
        cells = self._attributes
        for cell in cells if predicate is None else [predicate] if predicate in cells else ():
            entities, rows = self._columns(cells[cell])
            if subject is not None:
                if not isinstance(subject, int) or subject not in self.entities:
                    return
                rows = rows[slice(*np.searchsorted(entities, [subject, subject + 1]))]
            if wanted is not None:
                self.spend(len(rows) // _VALUES)
                rows = rows[rows["value"] == wanted.value]
            for row in rows:
                value = quantity_term(self.values.quantity(row))
                if object_ is None or value == object_:
                    yield int(row["entity"]), cell, value

    def _columns(self, attribute: int) -> tuple[Ints, Rows]:
        """The values of an attribute, in the order of their entities."""
        if attribute not in self._rows:
            rows = self.values.rows[self.values.rows["attribute"] == attribute]
            self._rows[attribute] = rows["entity"].astype(np.int64), rows
        return self._rows[attribute]

    @cached_property
    def _attributes(self) -> dict[Cell, int]:
        """The id of each attribute, by its cell."""
        return {self.attribute(each.name): i for i, each in enumerate(self.values.listed)}

    def value(self, term: Term) -> Cell:
        """The literal of a value as facts have it, whatever its datatype is written."""
        quantity = quantity_of(term) if self._attributes else None
        return term if quantity is None else quantity_term(quantity)

    def is_value(self, cell: Cell) -> bool:
        """Whether a literal is a value of some entity."""
        return any(True for _ in self._value_facts(None, None, cell))

    def _label_facts(self, subject: Cell, object_: Cell) -> Iterator[Fact]:
        if subject is not None:
            subjects = [subject]
        elif object_ is not None:
            term = self.term(object_)
            plain = term.kind == "literal" and not term.language and not term.datatype
            subjects = self.named(term.value) if plain else []
        elif not self.graph.prefixes or self.graph.entities.names or self.graph.relations.names:
            terms = *self.entities, *self._predicates.values(), *self._attributes
            subjects = list(dict.fromkeys(terms))
        else:
            subjects = []
        for each in subjects:
            for name in self.names(each):
                if object_ is None or name == object_:
                    yield each, LABEL, name

    @property
    def entities(self) -> range:
        """The cells of all entities."""
        return range(self.graph.num_entities)

    def is_node(self, cell: Cell) -> bool:
        """Whether a term is the subject or object of some fact."""
        if cell in self.entities or self.names(cell):
            return True
        if not isinstance(cell, Term):
            return False
        return self.is_value(cell) or any(True for _ in self._label_facts(None, cell))

    def _nodes(self) -> list[Cell]:
        """The subjects and objects of all facts, those of names included."""
        facts = chain(self._label_facts(None, None), self._value_facts(None, None, None))
        named = (cell for s, _, value in facts for cell in (s, value))
        return list(dict.fromkeys(chain[Cell](self.entities, named)))

    @cached_property
    def _predicates(self) -> dict[int, Cell]:
        """The cell of each forward relation id."""
        relations = self.graph.relations
        return {r: self.relation(relations[r]) for r in range(0, len(relations), 2)}

    @cached_property
    def _relations(self) -> dict[Cell, int]:
        return {cell: r for r, cell in self._predicates.items()}

    def _edges(self, entity: int, relation: int | None, flip: int) -> Iterator[tuple[int, int]]:
        """The edges from an entity, or to it where flipped: the relation, and the other end."""
        if relation is not None:
            others = self.index.tails(entity, relation ^ flip).tolist()
            yield from ((relation, other) for other in others)
            return
        first = entity * self.index.num_relations
        keys = self.index.keys
        start, end = np.searchsorted(keys, [first, first + self.index.num_relations]).tolist()
        for at in range(start, end):
            directed = int(keys[at]) - first
            if directed & 1 == flip:
                tails = self.index.all_tails[self.index.offsets[at] : self.index.offsets[at + 1]]
                yield from ((directed ^ flip, tail) for tail in tails.tolist())

    def pairs(self, path: Path, start: Cell, end: Cell) -> Pairs:
        """The ends of a path, of which None is open, as often as the path joins them.

        `?`, `*` and `+` join two ends once.
        """
        match path.kind:
            case "relation":
                return ((s, o) for s, _, o in self.facts(start, path.relation, end))
            case "inverse":
                return ((s, o) for o, s in self.pairs(path.parts[0], end, start))
            case "either":
                return (pair for part in path.parts for pair in self.pairs(part, start, end))
            case "sequence":
                return self._sequence(path.parts, start, end)
        if start is None and end is not None:
            return ((each, end) for each in self._reached(path, end, backward=True))
        return self._closure(path, start, end)

    def _sequence(self, parts: tuple[Path, ...], start: Cell, end: Cell) -> Pairs:
        """The ends of paths one after the other, followed from the end that is known."""
        first, rest = parts[0], parts[1:]
        if not rest:
            yield from self.pairs(first, start, end)
        elif start is None and end is not None:
            for middle, last in self.pairs(parts[-1], None, end):
                for each, _ in self._sequence(parts[:-1], None, middle):
                    yield each, last
        else:
            for each, middle in self.pairs(first, start, None):
                for _, last in self._sequence(rest, middle, end):
                    yield each, last

    def _closure(self, path: Path, start: Cell, end: Cell) -> Pairs:
        if start is not None:
            starts = [start]
        elif path.kind == "plus":
            starts = list(dict.fromkeys(s for s, _ in self.pairs(path.parts[0], None, None)))
        else:
            starts = self._nodes()
        for each in starts:
            for other in self._reached(path, each, backward=False):
                if end is None or other == end:
                    yield each, other

    def _reached(self, path: Path, start: Cell, backward: bool) -> list[Cell]:
        """The terms that `?`, `*` or `+` lead to from one, in the order of their distance."""
        reached = dict.fromkeys(() if path.kind == "plus" else (start,))
        queue = deque([start])
        while queue:
            following = self._following(path.parts[0], queue.popleft(), backward)
            self.spend(1 + len(following) // _TERMS)
            fresh = [each for each in following if each not in reached]
            reached |= dict.fromkeys(fresh)
            if path.kind != "maybe":
                queue.extend(fresh)
        return list(reached)

    def _following(self, path: Path, node: Cell, backward: bool) -> list[Cell]:
        """The distinct terms that a path leads to from one, or from which it leads to it."""
        key = path, node, backward
        if key not in self._followed:
            self._followed[key] = list(dict.fromkeys(self._follow(path, node, backward)))
        return self._followed[key]

    def _follow(self, path: Path, node: Cell, backward: bool) -> Iterable[Cell]:
        match path.kind:
            case "relation" if backward:
                return (s for s, _, _ in self.facts(None, path.relation, node))
            case "relation":
                return (o for _, _, o in self.facts(node, path.relation, None))
            case "inverse":
                return self._following(path.parts[0], node, not backward)
            case "either":
                several = (self._following(part, node, backward) for part in path.parts)
                return chain.from_iterable(several)
            case "sequence":
                ends = [node]
                for part in reversed(path.parts) if backward else path.parts:
                    ends = list(
                        dict.fromkeys(
                            other
                            for each in ends
                            for other in self._following(part, each, backward)
                        )
                    )
                    self.spend(1 + len(ends) // _TERMS)
                return ends
        return self._reached(path, node, backward)
