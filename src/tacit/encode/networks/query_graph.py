"""The query graphs of a plan: the terms that its atoms link, and with which sign.

A plan reads a question as a tree of sets; a query graph undoes the tree. A union makes one graph
for each of its branches, a cut variable is a variable again, so that cycles are cycles, and a
negated atom is a link of negative sign. A negated part of several atoms, or with a variable of its
own, is a question in itself: its answer becomes a new variable `w`, which is *denied* to its term
`u` by a negative link without a relation, one way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import NoReturn

from tacit.encode.spaces.schedule import limited_branches
from tacit.errors import PlanError
from tacit.query.plans.fold import EvalContext, Fold
from tacit.query.plans.plan import (
    Best,
    Cutset,
    Difference,
    Everything,
    Plan,
    Project,
    Relation,
    Unequal,
    Within,
)

# the free variable; others count from 1 on, and the entity of slot `s` is `-1 - s`
FREE = 0


@dataclass(frozen=True)
class Link:
    """An atom between two terms, or the denial of a variable to another, which is no relation."""

    source: int
    target: int
    relation: Relation | None
    negated: bool = False


Links = tuple[Link, ...]


@dataclass(frozen=True)
class QueryGraph:
    """The links of one branch of a question."""

    links: Links

    @cached_property
    def answers(self) -> set[int]:
        """The variables that stand for answers: the free one, and those of negated parts."""
        return {FREE, *(link.source for link in self.links if link.relation is None)}

    @cached_property
    def distances(self) -> dict[int, int]:
        """The number of links from each term to the free variable, along messages."""
        distances = {FREE: 0}
        frontier = [FREE]
        for term in frontier:  # which grows as it is read
            for sender, _, _ in self.messages_to(term):
                if sender not in distances:
                    distances[sender] = distances[term] + 1
                    if sender >= FREE:  # entities do not pass messages on
                        frontier.append(sender)
        return distances

    @property
    def depth(self) -> int:
        """The number of rounds after which messages of every term have arrived."""
        return max(self.distances.values())

    def messages_to(self, term: int) -> list[tuple[int, Relation | None, bool]]:
        """The messages to a term: sender, relation towards the term, and whether negated."""
        messages: list[tuple[int, Relation | None, bool]] = []
        for link in self.links:
            if link.target == term:
                messages.append((link.source, link.relation, link.negated))
            if link.source == term and link.relation is not None:
                inverse = replace(link.relation, flip=not link.relation.flip)
                messages.append((link.target, inverse, link.negated))
        return messages


@lru_cache(maxsize=1024)
def query_graphs(plan: Plan) -> tuple[QueryGraph, ...]:
    """The query graphs of a plan, one for each branch of its unions.

    A `PlanError` names what no graph around one variable can say.

    >>> from tacit.query.sampling.shapes import SHAPES
    >>> query_graphs(SHAPES["1p"].plan)[0].links
    (Link(source=-1, target=0, relation=Relation(slot=0, flip=False), negated=False),)
    """
    graphs = tuple(map(QueryGraph, dict.fromkeys(_Atoms().of(plan.root, EvalContext(target=FREE)))))
    for graph in graphs:
        if not graph.links:
            _refuse("a part that says nothing of its answers (Everything)")
        for link in graph.links:
            ends = {link.source, link.target}
            if max(ends) < FREE or not ends <= graph.distances.keys():
                _refuse("a part that no answer occurs in (Best, At)")
    return graphs


class _Atoms(Fold[int, tuple[Links, ...]]):
    """Values the steps of a plan by their links, branch by branch; an end is a term."""

    def __init__(self) -> None:
        self.count = 0  # variables so far
        self.cut: dict[int, int] = {}  # variables that fill entity slots
        self.scope = [FREE]  # variables of the current part

    def entity(self, slot: int) -> int:
        """The entity of the slot, or the variable that was cut there."""
        return self.cut.get(slot, -1 - slot)

    def relation(self, step: Relation, place: EvalContext[int]) -> tuple[Links, ...]:
        """One link."""
        return ((Link(place.start, place.end, step),),)

    def project(self, step: Project, place: EvalContext[int]) -> tuple[Links, ...]:
        """The links around a new variable."""
        variable = self._new_variable()
        source = self.of(step.source, EvalContext(target=variable))
        edge = self.of(step.edge, replace(place, source=variable))
        self.scope.pop()
        return self.all((source, edge))

    def cutset(self, step: Cutset, place: EvalContext[int]) -> tuple[Links, ...]:
        """The links of the body, with the slot as a variable; candidates add no link."""
        self.cut[step.slot] = self._new_variable()
        links = self.of(step.body, place)
        self.scope.pop()
        del self.cut[step.slot]
        return links

    def everything(self, step: Everything, place: EvalContext[int]) -> tuple[Links, ...]:
        """No link."""
        return ((),)

    def all(self, parts: Sequence[tuple[Links, ...]]) -> tuple[Links, ...]:
        """The links of all parts together, for each choice of branches."""
        return limited_branches(tuple(dict.fromkeys(sum(choice, ()))) for choice in product(*parts))

    def any(self, parts: Sequence[tuple[Links, ...]]) -> tuple[Links, ...]:
        """All branches."""
        return limited_branches(branch for part in parts for branch in part)

    def negation(self, part: tuple[Links, ...]) -> tuple[Links, ...]:
        """Links that deny every branch."""
        return self.all([(self._denial(branch),) for branch in part])

    def best(self, step: Best, place: EvalContext[int]) -> NoReturn:
        """Refused: it says nothing of an answer."""
        _refuse("a part that no answer occurs in (Best)")

    def unequal(self, step: Unequal, place: EvalContext[int]) -> NoReturn:
        """Refused: links are relations."""
        _refuse("an inequality (Unequal)")

    def within(self, step: Within, place: EvalContext[int]) -> NoReturn:
        """Refused: links are relations."""
        _refuse("a comparison of a value (Within)")

    def difference(self, step: Difference, place: EvalContext[int]) -> NoReturn:
        """Refused: links are relations."""
        _refuse("a comparison of two values (Difference)")

    def _denial(self, links: Links) -> Links:
        """The links that negate the conjunction of some links."""
        ends = {end for link in links for end in (link.source, link.target)}
        outer = ends.intersection(self.scope)
        inner = {end for end in ends if end > 0}.difference(self.scope)
        if len(links) == 1 and not inner and links[0].relation is not None:
            return (replace(links[0], negated=not links[0].negated),)
        if len(outer) != 1:
            _refuse(
                "a negation of several atoms that speaks of two variables, or of none (Complement)"
            )
        (term,) = outer
        answer = self._new_variable()
        self.scope.pop()

        renamed = {end: end for end in ends} | {term: answer}
        inside = (
            replace(link, source=renamed[link.source], target=renamed[link.target])
            for link in links
        )
        return (*inside, Link(answer, term, None, negated=True))

    def _new_variable(self) -> int:
        """A new variable, in scope."""
        self.count += 1
        self.scope.append(self.count)
        return self.count


def _refuse(step: str) -> NoReturn:
    raise PlanError(f"a query graph cannot say {step}; ask without it, or with another `search`")
