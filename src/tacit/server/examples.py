"""Questions to start with, made from the facts of whatever graph is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tacit.graph.graph import Graph, Triples
from tacit.graph.index import Ints
from tacit.query.compile import compile_query
from tacit.query.formula import And, Atom, Entity, Exists, Formula, Not, Query, Variable, atoms
from tacit.query.names import bind
from tacit.query.plan import Plan
from tacit.query.symbolic import answers

TARGET, BETWEEN = Variable("x"), Variable("y")
TRIED = 200  # questions of each shape, of which the best is shown
FACTS = 200_000  # looked at, at most, so that a large graph does not delay the start
LONGEST = 24  # characters of a name that reads well
TITLES = {
    "1p": "One step",
    "2i": "Both at once",
    "2p": "Two steps",
    "2in": "One but not the other",
    "2u": "Either of two",
    "pi": "Two steps, and more",
}


@dataclass(frozen=True)
class ExampleQuestion:
    """A question with the name of its shape and what that means."""

    query: str
    shape: str
    title: str


def examples(graph: Graph, seed: int = 0) -> list[ExampleQuestion]:
    """One question per shape that the graph has some, but not many, answers to; always the same for one graph."""
    if not len(graph.facts()):
        return []
    walks, found, used = _Walks(graph, seed), [], set[str]()
    for shape, title in TITLES.items():
        drawn = list(dict.fromkeys(walks.questions(shape)))
        best = _best(drawn, graph, walks.degrees, used)
        if best is not None:
            used |= _relations(best.formula)
            found.append(ExampleQuestion(str(best), shape, title))
    return found


class _Walks:
    """Draws questions by walking back from random facts, so that each has an answer."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self.graph = graph
        self.random = np.random.default_rng(seed)
        facts = graph.facts()
        if len(facts) > FACTS:
            facts = facts[self.random.choice(len(facts), FACTS, replace=False)]
        both = np.concatenate([facts, np.stack([facts[:, 2], facts[:, 1] ^ 1, facts[:, 0]], axis=1)])
        self.into: Triples = both[np.argsort(both[:, 2], kind="stable")]  # triples (a, r, t) by t
        self.starts: Ints = np.searchsorted(self.into[:, 2], np.arange(graph.num_entities + 1)).astype(np.int64)
        self.degrees: Ints = np.diff(self.starts)

    def questions(self, shape: str) -> Iterator[Query]:
        """Questions of one shape; fewer where the graph has no such pattern."""
        # Well-connected entities are those people know: an edge's own draw favours them.
        for last in self.into[self.random.choice(len(self.into), TRIED)]:
            formula = self._formula(shape, last)
            if formula is not None:
                yield Query(TARGET, formula)

    def _formula(self, shape: str, last: Triples) -> Formula | None:
        target = int(last[2])
        first = self._atom(last, TARGET)
        if shape == "1p":
            return first
        if shape in ("2p", "pi"):
            before = self._another(int(last[0]), avoid=(target,))
            if before is None:
                return None
            steps = And((self._atom(before, BETWEEN), self._atom(last, TARGET, BETWEEN)))
            if shape == "2p":
                return Exists(BETWEEN, steps)
            other = self._another(target, avoid=(int(last[0]),))
            return None if other is None else And((Exists(BETWEEN, steps), self._atom(other, TARGET)))
        other = self._another(target, avoid=(int(last[0]),))
        if other is None:
            return None
        second = self._atom(other, TARGET)
        return first & Not(second) if shape == "2in" else first | second if shape == "2u" else first & second

    def _another(self, target: int, avoid: tuple[int, ...]) -> Triples | None:
        """A fact about an entity, by chance, from none of those to avoid."""
        rows = self.into[self.starts[target] : self.starts[target + 1]]
        rows = rows[~np.isin(rows[:, 0], avoid)]
        found: Triples | None = rows[self.random.integers(len(rows))] if len(rows) else None
        return found

    def _atom(self, triple: Triples, end: Variable, start: Variable | None = None) -> Atom:
        """A triple as an atom, its end and perhaps its start left open; inverses are turned round."""
        source = start or Entity(self.graph.entities[int(triple[0])])
        relation = self.graph.relations[int(triple[1]) & ~1]
        return Atom(relation, end, source) if triple[1] & 1 else Atom(relation, source, end)


def _best(drawn: list[Query], graph: Graph, degrees: Ints, used: set[str]) -> Query | None:
    """The question with a handful of answers, relations not shown yet, short names and well-known entities."""
    best: tuple[tuple[bool, int, bool, int], Query] | None = None
    groups: dict[Plan, list[tuple[Query, list[int], list[int]]]] = {}
    for query in drawn:
        prepared = compile_query(query)
        groups.setdefault(prepared.plan, []).append((query, *bind(prepared, graph)))
    for plan, members in groups.items():
        entities = np.array([slots for _, slots, _ in members], dtype=np.int32)
        relations = np.array([slots for *_, slots in members], dtype=np.int32)
        found = answers(plan, entities, relations, graph.index(), graph.num_entities)
        sizes = found.offsets[1:] - found.offsets[:-1]
        for (query, anchors, _), size in zip(members, sizes.tolist(), strict=True):
            if not size:
                continue
            names = [graph.entities[i] for i in anchors]
            order = (
                2 <= size <= 12,
                len(_relations(query.formula) - used),
                all(len(name) <= LONGEST for name in names),
                int(min(degrees[i] for i in anchors)),
            )
            if best is None or order > best[0]:
                best = order, query
    return best[1] if best else None


def _relations(formula: Formula) -> set[str]:
    return {atom.relation for atom in atoms(formula)}
