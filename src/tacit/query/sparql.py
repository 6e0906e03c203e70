"""Questions as SPARQL, through rdflib's parser and algebra.

`SELECT ?x WHERE { ... }` with triple patterns, `UNION`, `FILTER NOT EXISTS`, `FILTER EXISTS`, `MINUS`, prefixes and
`LIMIT` is a formula; whatever else SPARQL has is refused by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import reduce
from typing import Any

from tacit.errors import QueryError, TacitError
from tacit.graph.graph import Graph
from tacit.query.formula import (
    MAX_ATOMS,
    And,
    Atom,
    Entity,
    Exists,
    Formula,
    Not,
    Or,
    Query,
    Term,
    Variable,
    atoms,
    free_variables,
)
from tacit.query.iris import Labels
from tacit.query.quantify import bind_loose

MAX_CHARACTERS = 10_000
MAX_TERMS = 300  # of a whole query
MAX_LIST = 32  # between two brackets: the parser's time grows with the square of it
MAX_NESTING = 12

_REFUSED = {
    "LeftJoin": ("OPTIONAL", "OPTIONAL"),
    "Extend": ("BIND or a computed column", r"BIND|\bAS\b"),
    "ToMultiSet": ("VALUES or a sub-query", r"VALUES|\{\s*SELECT"),
    "Graph": ("GRAPH", "GRAPH"),
    "ServiceGraphPattern": ("SERVICE", "SERVICE"),
    "OrderBy": ("ORDER BY (answers come ranked by their score)", r"ORDER\s+BY"),
    "AggregateJoin": ("grouping or an aggregate", r"GROUP\s+BY|COUNT|SUM|MIN|MAX|AVG|SAMPLE|GROUP_CONCAT|HAVING"),
    "AskQuery": ("ASK", "ASK"),
    "ConstructQuery": ("CONSTRUCT", "CONSTRUCT"),
    "DescribeQuery": ("DESCRIBE", "DESCRIBE"),
}
_SUPPORTED = "(what is: SELECT ?x WHERE with triple patterns, UNION, FILTER NOT EXISTS, MINUS and LIMIT)"

_OPENING = re.compile(r"(?:\s|#[^\n]*\n)*(?:PREFIX|BASE|SELECT|ASK|CONSTRUCT|DESCRIBE)\b", re.IGNORECASE)


def parse_sparql(text: str, graph: Graph | None = None) -> tuple[Query, int | None]:
    """The query a SPARQL text asks and its LIMIT; IRIs become labels as `tacit.query.iris` says.

    >>> parse_sparql("PREFIX : <tacit:> SELECT ?c { :France :borders ?c MINUS { ?c :speaks :German } } LIMIT 5")
    (<?c : borders(France, ?c) & !speaks(?c, German)>, 5)
    """
    _check_size(text)
    algebra, prefixes = _algebra(text)
    reader = _Reader(text, Labels(text, prefixes, graph))
    try:
        return reader.query(algebra)
    except RecursionError:
        raise QueryError("the query is nested too deeply") from None


def is_sparql(text: str) -> bool:
    """Whether a text is meant as SPARQL: no question in the text syntax begins with a word.

    >>> is_sparql("PREFIX : <tacit:> SELECT ?c { :France :borders ?c }"), is_sparql("?c : borders(France, ?c)")
    (True, False)
    """
    return _OPENING.match(text) is not None


def _algebra(text: str) -> tuple[Any, dict[str, str]]:
    """Rdflib's algebra of a query, and its prefixes."""
    try:
        from rdflib.plugins.sparql.algebra import translateQuery
        from rdflib.plugins.sparql.parser import parseQuery
    except ImportError:
        raise QueryError("reading SPARQL needs rdflib; install it with: pip install 'tacit[rdf]'") from None
    try:
        translated = translateQuery(parseQuery(text))
        prefixes = {name: str(space) for name, space in translated.prologue.namespace_manager.namespaces()}
    except RecursionError:
        raise QueryError("the query is nested too deeply, or too long") from None
    except Exception as error:  # rdflib raises bare exceptions beside its parser's
        raise _mistake(error, text) from None
    return translated.algebra, prefixes


def _mistake(error: Exception, text: str) -> QueryError:
    prefix = re.match(r"Unknown namespace prefix : (\S*)", str(error))
    if prefix:
        name = "" if prefix[1] == "None" and "None:" not in text else prefix[1]  # rdflib's word for the empty one
        return _refusal(
            f"the prefix '{name}:' is not declared; PREFIX {name}: <tacit:> declares it",
            text,
            rf"(?<![\w?<]){re.escape(name)}:",
        )
    line, column, at = (getattr(error, name, None) for name in ("lineno", "col", "loc"))
    if line is None or at is None:
        return QueryError(f"not a SPARQL query: {' '.join(str(error).split())[:200]}")
    rest = text[at:].split()
    found = f"'{rest[0][:30]}' is unexpected" if rest else "it ends too early"
    return QueryError(f"not a SPARQL query: {found}", line, column)


def _refusal(message: str, text: str, pattern: str) -> QueryError:
    """An error at the first place where the text, strings and IRIs aside, matches a pattern."""
    plain = re.sub(r"\"[^\"\n]*\"|'[^'\n]*'|<[^<>\s]*>|#[^\n]*", lambda part: " " * len(part[0]), text)
    found = re.search(pattern, plain, re.IGNORECASE)
    if found is None:
        return QueryError(message)
    at = found.start()
    return QueryError(message, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def _check_size(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise QueryError(f"the query is {len(text):,} characters long; at most {MAX_CHARACTERS:,} are read")
    depth = 0
    for bracket in re.findall(r"[{}()\[\]]", text):
        depth += 1 if bracket in "{([" else -1
        if depth > MAX_NESTING:
            raise QueryError(f"brackets are nested deeper than {MAX_NESTING} levels")
    if len(re.findall(r"[^\s{}()\[\].;,]+", text)) > MAX_TERMS:
        raise QueryError(f"the query has more than {MAX_TERMS} terms; ask it in parts")
    if any(len(inside.split()) > MAX_LIST for inside in re.findall(r"\(([^(){}\[\]]*)", text)):
        raise QueryError(f"a list in brackets has more than {MAX_LIST} terms")


class _Reader:
    """Turns algebra into a formula; a pattern that says nothing is None."""

    def __init__(self, text: str, labels: Labels) -> None:
        self.text, self.labels = text, labels
        self.blank: dict[str, Variable] = {}

    def query(self, algebra: Any) -> tuple[Query, int | None]:
        """A whole query: one selected variable, a pattern, and perhaps a limit."""
        if algebra.name != "SelectQuery":
            raise self.refused(algebra.name)
        if algebra.datasetClause:
            raise _refusal(f"FROM is not supported {_SUPPORTED}", self.text, r"\bFROM\b")
        pattern, limit = algebra.p, None
        while pattern.name in ("Slice", "Distinct", "Reduced"):  # answers are distinct as they are
            if pattern.name == "Slice":
                if pattern.start:
                    raise _refusal(f"OFFSET is not supported {_SUPPORTED}", self.text, r"\bOFFSET\b")
                limit = pattern.length
            pattern = pattern.p
        if pattern.name != "Project":
            raise self.refused(pattern.name)
        if "AggregateJoin" in _chain(pattern.p):  # it hides below the columns computed from it
            raise self.refused("AggregateJoin")
        formula = self.pattern(pattern.p)
        if len(algebra.PV) != 1:
            names = ", ".join(f"?{name}" for name in algebra.PV) or "none"
            raise _refusal(f"SELECT asks for one variable, not for {names}", self.text, r"\bSELECT\b")
        target = Variable(str(algebra.PV[0]))
        if formula is None or target not in _bound(formula):
            raise QueryError(f"{target} is not bound by a triple pattern in every alternative")
        if sum(1 for _ in atoms(formula)) > MAX_ATOMS:
            raise QueryError(f"the query has more than {MAX_ATOMS} triple patterns; ask it in parts")
        return Query(target, bind_loose(formula, target)), limit

    def pattern(self, node: Any) -> Formula | None:
        """The formula of a graph pattern."""
        match node.name:
            case "BGP":
                return _all(self.atom(*triple) for triple in node.triples)
            case "Join":
                return _all([self.pattern(node.p1), self.pattern(node.p2)])
            case "Union":
                either = [self.pattern(node.p1), self.pattern(node.p2)]
                if None in either:
                    raise _refusal("an empty alternative of UNION holds of everything", self.text, "UNION")
                return reduce(Formula.__or__, [part for part in either if part is not None])
            case "Minus":
                kept, taken = self.pattern(node.p1), self.pattern(node.p2)
                # By definition MINUS takes nothing away where the two sides share no variable.
                if kept is None or taken is None or not free_variables(kept) & free_variables(taken):
                    return kept
                return kept & Not(_closed(taken, kept))
            case "Filter":
                kept = self.pattern(node.p)
                return _all([kept, *self.conditions(node.expr, kept)])
        raise self.refused(node.name)

    def conditions(self, expression: Any, kept: Formula | None) -> list[Formula]:
        """The conditions of a filter on a pattern."""
        name = getattr(expression, "name", "")
        if name == "ConditionalAndExpression":
            return [c for part in (expression.expr, *expression.other) for c in self.conditions(part, kept)]
        if name not in ("Builtin_EXISTS", "Builtin_NOTEXISTS"):
            raise _refusal(
                f"FILTER on values is not supported {_SUPPORTED}", self.text, r"\bFILTER\b(?!\s+(NOT\s+)?EXISTS)"
            )
        inside = self.pattern(_translated(expression.graph))
        if inside is None:
            raise _refusal("an empty EXISTS holds of everything", self.text, "EXISTS")
        condition = _closed(inside, kept)
        return [condition if name == "Builtin_EXISTS" else Not(condition)]

    def atom(self, subject: Any, predicate: Any, object_: Any) -> Formula:
        """A triple pattern."""
        if not hasattr(predicate, "defrag"):
            variable = type(predicate).__name__ == "Variable"
            words = "a variable in place of a relation" if variable else "a property path"
            place = re.escape(f"?{predicate}") if variable else r"[/|^*+]|(?<=\w)\?(?=\s)"
            raise _refusal(f"{words} is not supported {_SUPPORTED}", self.text, place)
        return Atom(self.labels.relation(predicate), self.term(subject), self.term(object_))

    def term(self, term: Any) -> Term:
        """A variable, a blank node (which stands for some entity), or an entity."""
        kind = type(term).__name__
        if kind == "Variable":
            return Variable(str(term))
        if kind == "BNode":
            return self.blank.setdefault(str(term), Variable(f"_{len(self.blank) + 1}"))
        return Entity(self.labels.entity(term))

    def refused(self, name: str) -> TacitError:
        """The error for a construct that is not read."""
        words, pattern = _REFUSED.get(name, (name, re.escape(name)))
        return _refusal(f"{words} is not supported {_SUPPORTED}", self.text, rf"(?<![\w?:])(?:{pattern})")


def _chain(pattern: Any) -> list[str]:
    """The names of a pattern and of the patterns it wraps."""
    names = []
    while hasattr(pattern, "name"):
        names.append(pattern.name)
        pattern = pattern.get("p")
    return names


def _translated(group: Any) -> Any:
    """The algebra of a group inside EXISTS, which rdflib leaves as it was parsed."""
    from rdflib.plugins.sparql.algebra import translateGroupGraphPattern

    return translateGroupGraphPattern(group) if group.name.startswith("GroupGraphPattern") else group


def _all(parts: Iterable[Formula | None]) -> Formula | None:
    """The conjunction of those patterns that say something."""
    said = [part for part in parts if part is not None]
    return reduce(Formula.__and__, said) if said else None


def _closed(inside: Formula, kept: Formula | None) -> Formula:
    """The formula with the variables that the pattern around it does not bind existential."""
    local = free_variables(inside) - (free_variables(kept) if kept is not None else frozenset())
    for variable in sorted(local, key=str, reverse=True):
        inside = Exists(variable, inside)
    return inside


def _bound(formula: Formula) -> frozenset[Variable]:
    """The variables that every way to satisfy a formula gives a value."""
    match formula:
        case And(parts):
            return frozenset[Variable]().union(*map(_bound, parts))
        case Or(parts):
            return frozenset.intersection(*map(_bound, parts))
        case Exists(variable, part):
            return _bound(part) - {variable}
        case Not():
            return frozenset()
    return free_variables(formula)
