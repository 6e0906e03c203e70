"""Writes questions as SPARQL that reads back as a question with the same answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from tacit.errors import QueryError
from tacit.graph.labels.prefixes import SCHEME, Prefixes, n_triples
from tacit.query.comparison import Comparison
from tacit.query.formula import (
    Atom,
    Exists,
    Formula,
    Inequality,
    Not,
    Or,
    Query,
    Term,
    Variable,
    children,
    leaves,
    walk,
)
from tacit.query.plans.canonical import skeleton
from tacit.query.plans.scopes import factored

_LOCAL = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def to_sparql(query: Query, prefixes: Prefixes | None = None) -> str:
    """Writes a query as SELECT or ASK; labels become IRIs by the prefixes of their graph.

    >>> from tacit.query.text import parse
    >>> print(to_sparql(parse("?c : borders(France, ?c) & !speaks(?c, German)")))
    PREFIX : <tacit:>
    SELECT ?c WHERE {
      :France :borders ?c .
      FILTER NOT EXISTS {
        ?c :speaks :German .
      }
    }
    """
    if query.kind == "relations":
        raise QueryError(
            "SPARQL is written for entities, tuples of them, yes or no, and how many entities"
        )
    if query.order or any(isinstance(leaf, Comparison) for leaf in leaves(query.formula)):
        raise QueryError(
            "SPARQL is written for questions that compare no values; write ?c :population ?p . "
            "FILTER(?p > 1000) for population(?c) > 1000"
        )
    if unbound := [target for target in query.targets if target not in query.formula.free]:
        raise QueryError(
            f"{unbound[0]} occurs nowhere in the formula, and SPARQL could not give it a value"
        )
    shape, entities, relations, variables = skeleton(query)  # since a group of SPARQL has one scope
    names: list[str] = []
    for name in variables:
        names.append(_unused(name, names))
    writer = _Writer(prefixes or Prefixes({}), entities, relations, names)
    selected = " ".join(map(str, query.targets))
    if query.count:
        selected = f"(COUNT(DISTINCT {selected}) AS ?{_unused('count', names)})"
    group = _indented(writer.group(shape.formula, frozenset()))
    lines = [f"SELECT {selected} WHERE {{" if selected else "ASK {", *group, "}"]
    opening = [f"PREFIX : <{SCHEME}>"] if writer.uses_scheme else []
    return "\n".join([*opening, *lines])


@dataclass
class _Writer:
    """Writes a formula over numbered slots as groups of patterns, with the names of slots."""

    prefixes: Prefixes
    entities: Sequence[str]
    relations: Sequence[str]
    variables: Sequence[str]
    uses_scheme: bool = False  # whether a name was written with the empty prefix

    def group(self, formula: Formula, bound: frozenset[Variable]) -> Iterator[str]:
        """The lines of a group whose solutions satisfy a formula, given bound variables."""
        # a variable of a group stands for some value without a quantifier
        _, parts = factored(formula)
        for atom in (part for part in parts if isinstance(part, Atom)):
            relation = self.name(self.relations[int(str(atom.relation))])
            yield f"{self.term(atom.subject)} {relation} {self.term(atom.object)} ."
        bound = bound.union(*(part.free for part in parts if isinstance(part, Atom)))
        unions = [part for part in parts if isinstance(part, Or) and _binds_all(part)]
        for union in unions:
            for number, part in enumerate(union.parts):
                yield f"{'UNION ' * bool(number)}{{"
                yield from _indented(self.group(part, frozenset()))
                yield "}"
        bound = bound.union(*(union.free for union in unions))
        for part in parts:
            if not isinstance(part, Atom) and part not in unions:
                if not part.free <= bound:
                    name = min(map(self.term, part.free - bound))
                    raise QueryError(f"{name} is open where SPARQL needs it to have a value")
                yield from self.filter(part, bound)

    def filter(self, formula: Formula, bound: frozenset[Variable]) -> Iterator[str]:
        """The lines of a filter for a formula."""
        if not isinstance(formula, Or):
            yield from self.condition(formula, bound, "FILTER ")
            return
        yield "FILTER ("
        for number, part in enumerate(formula.parts):
            yield from _indented(self.condition(part, bound, "|| " * bool(number)))
        yield ")"

    def condition(
        self, formula: Formula, bound: frozenset[Variable], opening: str
    ) -> Iterator[str]:
        if not any(isinstance(part, Atom | Exists) for part in walk(formula)):
            yield f"{opening}({self.expression(formula)})"
            return
        denied = isinstance(formula, Not)
        yield f"{opening}{'NOT ' * denied}EXISTS {{"
        yield from _indented(
            self.group(formula.part if isinstance(formula, Not) else formula, bound)
        )
        yield "}"

    def expression(self, formula: Formula) -> str:
        """A formula of inequalities; `sameTerm` compares literals, as `!=` compares values."""
        if isinstance(formula, Inequality):
            left, right = sorted(map(self.term, formula.terms), key=lambda term: term[0] != "?")
            literal = '"' in (left[0], right[0])
            return f"!sameTerm({left}, {right})" if literal else f"{left} != {right}"
        parts = [f"({self.expression(part)})" for part in children(formula)]
        if isinstance(formula, Not):
            return f"!{parts[0]}"
        return (" || " if isinstance(formula, Or) else " && ").join(parts)

    def term(self, term: Term) -> str:
        slot = int(term.name)
        if isinstance(term, Variable):
            return f"?{self.variables[slot]}"
        return self.name(self.entities[slot])

    def name(self, label: str) -> str:
        written = n_triples(label, self.prefixes)
        if written.startswith("_:"):
            raise QueryError(f"'{label}' has no IRI, by which SPARQL could name it")
        local = written.removeprefix(f"<{SCHEME}").removesuffix(">")
        if written != f"<{SCHEME}{local}>" or not _LOCAL.fullmatch(local):
            return written
        self.uses_scheme = True
        return f":{local}"


def _binds_all(formula: Formula) -> bool:
    """Whether every solution of a formula, as its own group, binds all its variables."""
    if isinstance(formula, Or):
        return all(part.free == formula.free and _binds_all(part) for part in formula.parts)
    _, parts = factored(formula)
    binding = [
        part
        for part in parts
        if isinstance(part, Atom) or (isinstance(part, Or) and _binds_all(part))
    ]
    bound = frozenset[Variable]().union(*(part.free for part in binding))
    return all(part.free <= bound for part in parts)


def _unused(name: str, used: Sequence[str]) -> str:
    """A variable name, numbered where it is taken."""
    names = (f"{name}{number or ''}" for number in count())
    return next(each for each in names if each not in used)


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
