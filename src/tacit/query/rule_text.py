"""Rules as text: `borders(?x, ?z) & in_continent(?z, ?y) => in_continent(?x, ?y)`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from tacit.errors import QueryError
from tacit.graph.graph import Graph
from tacit.query.formula import Atom, Entity, Term, Variable
from tacit.query.question import resolve_name
from tacit.query.text import Parameter, parse_implication, position_of

# Imports of torch are local.
if TYPE_CHECKING:
    from tacit.links.rules.rule_set import Rule

ANYTHING = Variable("_")  # every use of it is a variable of its own


def parse_rule(text: str, graph: Graph) -> Rule:
    """Read a rule, not counted yet, with the names of a graph.

    The atoms of the body, in any order, are a path that starts at the first variable of the head.
    It ends in the second one; or, where the head has a constant, in another constant or in
    anything, `?_`. A `QueryError` or `UnknownName` points at a mistake.

    >>> graph = Graph.of([("France", "borders", "Spain"), ("Spain", "part_of", "Europe")])
    >>> parse_rule("part_of(?z, ?y) & borders(?x, ?z) => part_of(?x, ?y)", graph)[:4]
    ((0, 2), 2, -1, -1)
    >>> parse_rule("borders(Spain, ?c) => part_of(?c, Europe)", graph)[:4]
    ((1,), 2, 1, 2)
    """
    return _RuleReader(text, graph).rule()


@dataclass(frozen=True)
class _RuleReader:
    """The text of a rule, and the graph that it is about."""

    text: str
    graph: Graph

    def rule(self) -> Rule:
        """The rule by ids."""
        from tacit.links.rules.rule_set import LONGEST, NONE, Rule

        body, head = parse_implication(self.text)
        for atom in (*body, head):
            self._check_atom(atom)
        for atom in body:
            if not atom.free:
                raise QueryError(
                    f"{atom} has no variable; it is a fact, which needs no rule: add it to the "
                    "facts"
                )
        if len(body) > LONGEST:
            raise QueryError(
                f"the body has {len(body)} atoms; a rule has at most {LONGEST}; leave some out, or "
                "write two rules"
            )
        relation = self._relation(head)
        start, end = head.terms
        if not isinstance(start, Variable):  # the rule is one of the inverse relation
            start, end = end, start
            relation ^= 1
        if not isinstance(start, Variable):
            raise QueryError(
                f"{head} has no variable; a rule implies more than one fact; write ?x for one end"
            )
        if ANYTHING in (start, end):
            self._refuse(ANYTHING, "the head says ?_, anything; name the variable, as in ?x")
        path, last = self._path(body, start, end)
        tail = self._entity(end) if isinstance(end, Entity) else NONE
        rule = Rule(path, relation, self._entity(last) if isinstance(last, Entity) else NONE, tail)
        own = rule.end == tail if tail != NONE else True
        if rule.body == (relation,) and own:
            raise QueryError(f"the rule says that {head} implies itself; write another body")
        return rule

    def _path(self, body: list[Atom], start: Variable, end: Term) -> tuple[tuple[int, ...], Term]:
        """The relations from the first variable of the head on, and the term they lead to."""
        remaining = list(body)
        at: Term = start
        passed: set[Term] = {start}
        path: list[int] = []
        while remaining:
            onward = [] if at == ANYTHING else [atom for atom in remaining if at in atom.terms]
            if not onward:
                place = f"at {at}" if path else f"from {start}, the first variable of the head, on"
                self._refuse(
                    next(each for each in remaining[0].terms if isinstance(each, Variable)),
                    f"{remaining[0]} is not connected {place}; the atoms of a body are a path "
                    f"that starts at {start}",
                )
            if len(onward) > 1:
                self._refuse(
                    at if isinstance(at, Variable) else start,
                    f"{at} is in {len(onward)} atoms that go on from it; the atoms of a body are "
                    f"a path that starts at {start}, without branches",
                )
            (atom,) = onward
            remaining.remove(atom)
            forward = atom.subject == at
            at = atom.object if forward else atom.subject
            path.append(self._relation(atom) ^ (not forward))
            if at in passed and at != ANYTHING:
                self._refuse(
                    at if isinstance(at, Variable) else start,
                    f"the body comes back to {at}; the atoms of a body are a path through "
                    "different things",
                )
            passed.add(at)
            if isinstance(at, Entity) and remaining:
                raise QueryError(
                    f"{at} is in the middle of the body; a constant stands at its end alone"
                )
        if isinstance(end, Variable) and at != end:
            self._refuse(
                end,
                f"the body leads from {start} to {at}, and the head goes on to {end}; a body ends "
                "in the last variable of the head",
            )
        return tuple(path), at

    def _check_atom(self, atom: Atom) -> None:
        """Refuse what may stand in a question, but not in a rule."""
        names = [atom.relation, *(each.name for each in atom.terms if isinstance(each, Entity))]
        for name in names:
            if isinstance(name, Parameter):
                raise QueryError(f"a rule has no parameters such as ${name}; write the label")
        if isinstance(atom.relation, Variable):
            self._refuse(
                atom.relation, f"the relation of {atom} is a variable; a rule names its relations"
            )
        if atom.subject == atom.object and atom.subject != ANYTHING:
            raise QueryError(
                f"{atom} is about one thing twice; different terms of a rule stand for different "
                "things"
            )

    def _refuse(self, variable: Variable, problem: str) -> NoReturn:
        """Raise the error about a variable, at its first use."""
        use = re.search(rf"\?{variable.name}\b", self.text)
        raise QueryError(problem, *position_of(self.text, use.start() if use else 0))

    def _relation(self, atom: Atom) -> int:
        return resolve_name(self.graph, self.graph.relations, str(atom.relation), self.text)

    def _entity(self, term: Entity) -> int:
        return resolve_name(self.graph, self.graph.entities, term.name, self.text)
