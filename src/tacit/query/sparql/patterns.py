"""Triple patterns as formulas: terms, relations and paths.

`^p` is `p` backwards, `p/q` is `p` to some entity and `q` from there, `p|q` is either; they nest as they like. `*`, `+`
and `?` are refused: no formula says how often a relation is followed. So is `!`, since a question names relations.
"""

from __future__ import annotations

import re
from functools import reduce
from itertools import count
from typing import Any

from tacit.query.formula import Atom, Entity, Formula, Term, Variable, exists
from tacit.query.sparql.iris import TermLabels
from tacit.query.sparql.source import SUPPORTED, SparqlText, is_variable, kind

ANSWER = "tacit:answer#"  # the namespace of what is said of answers; an IRI of a label has no # in it
_NOT_A_FORMULA = r"(?<=[\w>)])[*+?](?=[\s/|)<:^]|$)|!(?!=|\s*(?:NOT|EXISTS|\(\s*[?$]|[?$]))"
TripleBlock = tuple[int, int]  # a group, and which of its blocks of triples


class Terms:
    """Turns the triples of one query into formulas; blank nodes and steps of paths become variables of their own."""

    def __init__(self, source: SparqlText, labels: TermLabels) -> None:
        self.source, self.labels = source, labels
        self.names = {variable.name for variable in source.variables}
        self.blanks: dict[str, tuple[Variable, TripleBlock]] = {}  # with the block each belongs to

    def formula(self, triple: list[Any], block: TripleBlock) -> Formula:
        """One triple pattern."""
        subject, predicate, object_ = triple
        ends = self.term(subject, block), self.term(object_, block)
        if is_variable(predicate):
            return Atom(Variable(str(predicate)), *ends)
        return self._path(predicate, *ends)

    def told(self, predicate: Any) -> str:
        """What a predicate says of an answer, `score` or `known`; nothing where it is a relation or a path."""
        while kind(predicate).startswith("Path"):
            parts = predicate.part if isinstance(predicate.part, list) else [predicate.part]
            if len(parts) > 1 or predicate.mod or predicate.name == "PathEltOrInverse":
                return ""
            predicate = parts[0]
        iri = "" if is_variable(predicate) or kind(predicate) not in ("", "pname") else self.labels.iri(predicate)
        return iri.removeprefix(ANSWER) if iri.startswith(ANSWER) else ""

    def _path(self, path: Any, subject: Term, object_: Term) -> Formula:
        """A path between two terms."""
        if told := self.told(path):
            raise self.source.error(
                f"answer:{told} speaks of answers, not of entities: it is one of score and known, of a selected "
                "variable, in the outermost braces",
                rf"[\w-]*:{re.escape(told)}\b",
            )
        if not kind(path).startswith("Path"):
            return Atom(self.labels.relation(path), subject, object_)
        if path.mod or path.name == "PathNegatedPropertySet":
            words = f"the path modifier {path.mod}" if path.mod else "a negated path"
            raise self.source.error(f"{words} is not supported {SUPPORTED}", _NOT_A_FORMULA)
        parts = path.part if isinstance(path.part, list) else [path.part]
        match path.name:
            case "PathEltOrInverse":
                return self._path(path.part, object_, subject)
            case "PathAlternative":
                return reduce(Formula.__or__, dict.fromkeys(self._path(part, subject, object_) for part in parts))
        steps = [self.fresh() for _ in parts[1:]]
        ends = [subject, *steps, object_]
        hops = [self._path(part, ends[at], ends[at + 1]) for at, part in enumerate(parts)]
        return exists(steps, reduce(Formula.__and__, hops))

    def term(self, term: Any, block: TripleBlock) -> Term:
        """A variable, a blank node (which stands for some entity, within its block of triples), or an entity."""
        if is_variable(term):
            return Variable(str(term))
        if type(term).__name__ != "BNode":
            return Entity(self.labels.entity(term))
        if str(term) not in self.blanks:
            self.blanks[str(term)] = self.fresh(), block
        variable, home = self.blanks[str(term)]
        if home != block:
            words = f"_:{term} stands in two groups; a variable such as ?{term} can"
            raise self.source.error(words, rf"_:{re.escape(term)}")
        return variable

    def fresh(self) -> Variable:
        """A variable that the query does not have."""
        name = next(f"_{number}" for number in count(1) if f"_{number}" not in self.names)
        self.names.add(name)
        return Variable(name)
