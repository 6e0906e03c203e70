"""The known facts of a graph as RDF: facts with any part open, values, names, and paths."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np

from tacit.errors import LimitError
from tacit.graph.attributes import Attributes, Rows
from tacit.graph.fact_index import FactIndex, Ints
from tacit.graph.graph import Graph
from tacit.query.sparql.graph_terms import LABEL, GraphTerms
from tacit.query.sparql.tables import Cell
from tacit.query.sparql.terms import Term, quantity_of, quantity_term

MAX_FACTS = 3_000_000  # that a query looks at, which takes some seconds
_VALUES = 1_000  # that are compared in the time that a fact takes
_TERMS = 32  # of a path, which are compared in the time that a fact takes
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
        self.terms = GraphTerms(graph)
        self.index = index
        self.values = values or Attributes()  # of the graph's attributes, those that are known
        self._rows = dict[int, tuple[Ints, Rows]]()
        self._looked_at = 0
        self.path_ends = dict[tuple[Path, Cell, bool], list[Cell]]()  # cache of `PathEvaluator`

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
        if subject is not None:
            if isinstance(subject, int) and subject in self.terms.entities:
                for r, tail in self._edges(subject, relation, 0):
                    if object_ is None or tail == object_:
                        yield subject, self._predicates[r], tail
        elif object_ is not None:
            if isinstance(object_, int) and object_ in self.terms.entities:
                for r, head in self._edges(object_, relation, 1):
                    yield head, self._predicates[r], object_
        else:
            for r in self._predicates if relation is None else [relation]:
                for head in self.index.sources.tails(r, 0).tolist():
                    for tail in self.index.tails(head, r).tolist():
                        yield head, self._predicates[r], tail

    def _value_facts(self, subject: Cell, predicate: Cell, object_: Cell) -> Iterator[Fact]:
        """The values of attributes, as literals; `object_` is one that `value` returned."""
        quantity = quantity_of(object_) if isinstance(object_, Term) else None
        if object_ is not None and quantity is None:
            return
        cells = self._attributes
        for cell in cells if predicate is None else [predicate] if predicate in cells else ():
            entities, rows = self._columns(cells[cell])
            if subject is not None:
                if not isinstance(subject, int) or subject not in self.terms.entities:
                    return
                rows = rows[slice(*np.searchsorted(entities, [subject, subject + 1]))]
            if quantity is not None:
                self.spend(len(rows) // _VALUES)
                rows = rows[rows["value"] == quantity.value]
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
        return {self.terms.cell(each.name): i for i, each in enumerate(self.values.listed)}

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
            term = self.terms.term(object_)
            plain = term.kind == "literal" and not term.language and not term.datatype
            subjects = self.terms.find_named(term.value) if plain else []
        elif not self.graph.prefixes or self.graph.entities.names or self.graph.relations.names:
            terms = *self.terms.entities, *self._predicates.values(), *self._attributes
            subjects = list(dict.fromkeys(terms))
        else:
            subjects = []
        for each in subjects:
            for name in self.terms.names(each):
                if object_ is None or name == object_:
                    yield each, LABEL, name

    def is_node(self, cell: Cell) -> bool:
        """Whether a term is the subject or object of some fact."""
        if cell in self.terms.entities or self.terms.names(cell):
            return True
        return self.is_value(cell) or any(True for _ in self._label_facts(None, cell))

    def nodes(self) -> list[Cell]:
        """The subjects and objects of all facts, those of names included."""
        facts = chain(self._label_facts(None, None), self._value_facts(None, None, None))
        others = (cell for s, _, value in facts for cell in (s, value))
        return list(dict.fromkeys(chain[Cell](self.terms.entities, others)))

    @cached_property
    def _predicates(self) -> dict[int, Cell]:
        """The cell of each forward relation id."""
        relations = self.graph.relations
        return {r: self.terms.cell(relations[r]) for r in range(0, len(relations), 2)}

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


@dataclass(frozen=True, eq=False)
class PathEvaluator:
    """Finds the ends of property paths in known facts."""

    known: KnownGraph

    def pairs(self, path: Path, start: Cell, end: Cell) -> Pairs:
        """The ends of a path, of which None is open, as often as the path joins them.

        `?`, `*` and `+` join two ends once.
        """
        match path.kind:
            case "relation":
                return ((s, o) for s, _, o in self.known.facts(start, path.relation, end))
            case "inverse":
                return ((s, o) for o, s in self.pairs(path.parts[0], end, start))
            case "either":
                return (pair for part in path.parts for pair in self.pairs(part, start, end))
            case "sequence":
                return self._sequence(path.parts, start, end)
        if start is None and end is not None:
            return ((each, end) for each in self._closure_from(path, end, backward=True))
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
            starts = self.known.nodes()
        for each in starts:
            for other in self._closure_from(path, each, backward=False):
                if end is None or other == end:
                    yield each, other

    def _closure_from(self, path: Path, start: Cell, backward: bool) -> list[Cell]:
        """The terms that `?`, `*` or `+` lead to from one, in the order of their distance."""
        terms = dict.fromkeys(() if path.kind == "plus" else (start,))
        queue = deque([start])
        while queue:
            ends = self._ends(path.parts[0], queue.popleft(), backward)
            self.known.spend(1 + len(ends) // _TERMS)
            fresh = [each for each in ends if each not in terms]
            terms |= dict.fromkeys(fresh)
            if path.kind != "maybe":
                queue.extend(fresh)
        return list(terms)

    def _ends(self, path: Path, node: Cell, backward: bool) -> list[Cell]:
        """The distinct terms that a path leads to from one, or from which it leads to it."""
        key = path, node, backward
        if key not in self.known.path_ends:
            self.known.path_ends[key] = list(dict.fromkeys(self._find_ends(path, node, backward)))
        return self.known.path_ends[key]

    def _find_ends(self, path: Path, node: Cell, backward: bool) -> Iterable[Cell]:
        match path.kind:
            case "relation" if backward:
                return (s for s, _, _ in self.known.facts(None, path.relation, node))
            case "relation":
                return (o for _, _, o in self.known.facts(node, path.relation, None))
            case "inverse":
                return self._ends(path.parts[0], node, not backward)
            case "either":
                return chain.from_iterable(self._ends(part, node, backward) for part in path.parts)
            case "sequence":
                ends = [node]
                for part in reversed(path.parts) if backward else path.parts:
                    several = (self._ends(part, each, backward) for each in ends)
                    ends = list(dict.fromkeys(chain.from_iterable(several)))
                    self.known.spend(1 + len(ends) // _TERMS)
                return ends
        return self._closure_from(path, node, backward)
