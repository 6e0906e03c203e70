"""Questions as SPARQL, through rdflib's parser.

`SELECT ?x WHERE { ... }` with triple patterns, groups, `UNION`, `MINUS`, `FILTER` of `EXISTS` and `NOT EXISTS`,
prefixes and `LIMIT` is a formula; whatever else SPARQL has is refused by its name.

The formula is SPARQL's algebra written out. A solution binds some of the variables, and alternatives may bind
different ones: a pattern is read as *cases*, one for each set of variables that a solution may bind, with a formula
that holds of exactly those solutions. So a join, `MINUS` and `EXISTS` know which variables two solutions share.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import count
from typing import Any

from tacit.errors import QueryError
from tacit.graph.graph import Graph
from tacit.query.formula import MAX_ATOMS, Atom, Entity, Formula, Query, Term, Variable, atoms
from tacit.query.iris import Labels
from tacit.query.quantify import quantified
from tacit.query.reading import Reading
from tacit.query.text import place

MAX_CHARACTERS = 10_000
MAX_TERMS = 300  # of a whole query
MAX_LIST = 32  # between two brackets: the parser's time grows with the square of it
MAX_NESTING = 12
MAX_GROUPS = 1_000  # read in all: a group inside EXISTS is read once for each case around it

Domain = frozenset[Variable]
Cases = dict[Domain, Formula | bool]  # what holds of the solutions that bind these variables; True where nothing need

_NONE: Domain = frozenset()
_SUPPORTED = "(what is: SELECT ?x WHERE with triple patterns, UNION, FILTER [NOT] EXISTS, MINUS and LIMIT)"
_REFUSED = {  # the parser's word for a construct -> its name, and how it is written
    "OptionalGraphPattern": ("OPTIONAL", r"OPTIONAL"),
    "Bind": ("BIND", r"BIND"),
    "InlineData": ("VALUES", r"VALUES"),
    "ValuesClause": ("VALUES", r"VALUES"),
    "SubSelect": ("a sub-query", r"\{\s*SELECT"),
    "GraphGraphPattern": ("GRAPH", r"GRAPH"),
    "ServiceGraphPattern": ("SERVICE", r"SERVICE"),
    "GroupClause": ("grouping", r"GROUP\s+BY"),
    "HavingClause": ("grouping", r"HAVING"),
    "OrderClause": ("ORDER BY (answers come ranked by their score)", r"ORDER\s+BY"),
    "DatasetClause": ("FROM", r"FROM"),
    "AskQuery": ("ASK", r"ASK"),
    "ConstructQuery": ("CONSTRUCT", r"CONSTRUCT"),
    "DescribeQuery": ("DESCRIBE", r"DESCRIBE"),
    "MinusGraphPattern": ("MINUS", r"MINUS"),
    "Filter": ("FILTER on values", r"FILTER"),
}
_CLAUSES = ("groupby", "having", "orderby", "valuesClause")
_AGGREGATE = r"COUNT|SUM|MIN|MAX|AVG|SAMPLE|GROUP_CONCAT"
_PATH = r"[/*+]|!(?!=|\s*(?:NOT|EXISTS|\())|(?<!\|)\|(?!\|)|(?<!\^)\^(?!\^)|(?<=\w)\?(?=\s)"
_OPENING = re.compile(r"(?:\s|#[^\n]*\n)*(?:PREFIX|BASE|SELECT|ASK|CONSTRUCT|DESCRIBE)\b", re.IGNORECASE)
_CODE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U(00(?:0[0-9A-Fa-f]|10)[0-9A-Fa-f]{4})")
_STRING = r"\"{3}.*?\"{3}|'{3}.*?'{3}|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
_OPAQUE = re.compile(rf"{_STRING}|<[^<>\s]*>|#[^\n]*", re.DOTALL)  # where no keyword is one


def parse_sparql(text: str, graph: Graph | None = None) -> Reading:
    """The query a SPARQL text asks and what it says of the answers; IRIs become labels as `tacit.query.iris` says.

    >>> parse_sparql("PREFIX : <tacit:> SELECT ?c { :France :borders ?c MINUS { ?c :speaks :German } }").query
    <?c : borders(France, ?c) & !speaks(?c, German)>
    """
    _check_size(text)
    text = _CODE.sub(lambda code: chr(int(code[1] or code[2], 16)), text)
    try:
        prologue, tree = _parsed(text)
        return _Reader(text, tree, Labels(text, prologue, graph)).query()
    except RecursionError:
        raise QueryError("the query is nested too deeply, or too long") from None


def is_sparql(text: str) -> bool:
    """Whether a text is meant as SPARQL: no question in the text syntax begins with a word.

    >>> is_sparql("PREFIX : <tacit:> SELECT ?c { :France :borders ?c }"), is_sparql("?c : borders(France, ?c)")
    (True, False)
    """
    return _OPENING.match(text) is not None


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


def _parsed(text: str) -> tuple[Any, Any]:
    """Rdflib's tree of the declarations in front of a query, and of the query."""
    try:
        from rdflib.plugins.sparql.parser import parseQuery
    except ImportError:
        raise QueryError("reading SPARQL needs rdflib; install it with: pip install 'tacit[rdf]'") from None
    try:
        prologue, tree = parseQuery(text)
    except RecursionError:
        raise
    except Exception as error:  # rdflib raises bare exceptions beside its parser's
        at = getattr(error, "loc", None)
        if at is None:
            raise QueryError(f"not a SPARQL query: {' '.join(str(error).split())[:200]}") from None
        rest = text[at:].split()
        words = f"'{rest[0][:30]}' is unexpected" if rest else "it ends too early"
        raise QueryError(f"not a SPARQL query: {words}", *place(text, at)) from None
    return prologue, tree


class _Reader:
    """Turns a parsed query into a formula.

    Three sets of variables go down with a group: `outer`, those that an EXISTS around it has given values (None outside
    of any); `around`, those that the patterns it is joined with may bind; and `needed`, those that are spoken of
    elsewhere. All others are quantified as soon as a UNION ends.
    """

    def __init__(self, text: str, tree: Any, labels: Labels) -> None:
        self.text, self.tree, self.labels = text, tree, labels
        self.keywords = _OPAQUE.sub(lambda part: " " * len(part[0]), text)
        self.blanks: dict[str, tuple[Variable, tuple[int, int]]] = {}  # with the block each belongs to
        self.names = {variable.name for variable in _mentioned(tree)}
        self.groups = 0

    def query(self) -> Reading:
        """A whole query: one selected variable, a pattern, and perhaps a limit."""
        tree = self.tree
        if tree.name != "SelectQuery":
            raise self.refused(tree)
        for clause in filter(None, [*(tree.datasetClause or ()), *(getattr(tree, name) for name in _CLAUSES)]):
            raise self.refused(clause)
        if any(column.expr for column in tree.projection or ()):
            aggregate = any(_name(node).startswith("Aggregate_") for node in _walked(tree))
            words, keyword = ("an aggregate", _AGGREGATE) if aggregate else ("a computed column", "AS")
            raise self.error(f"{words} is not supported {_SUPPORTED}", _keyword(keyword))
        limits = tree.limitoffset
        if limits and limits.offset and int(limits.offset):
            raise self.error(f"OFFSET is not supported {_SUPPORTED}", _keyword("OFFSET"))
        target = self.target()
        cases = self.group(tree.where, None, _NONE, frozenset({target}))
        if not cases:
            raise QueryError("the query has no answers whatever the facts: NOT EXISTS of an empty group never holds")
        if any(target not in domain for domain in cases):
            raise self.error(f"{target} is not bound in every alternative", rf"[?$]{target.name}\b")
        formula = _some(cases, frozenset({target}))
        limit = limits.limit if limits else None
        return Reading(Query(target, formula), None if limit is None else int(limit))  # type: ignore[arg-type]

    def target(self) -> Variable:
        """The variable that is selected; `*` selects those that a solution may bind."""
        columns = [Variable(str(column.var)) for column in self.tree.projection or ()]
        selected = sorted(set(columns) or _visible(self.tree.where), key=str)
        if len(selected) != 1:
            listed = ", ".join(map(str, selected)) or "none"
            raise self.error(f"SELECT asks for one variable, not for {listed}", _keyword("SELECT"))
        return selected[0]

    def group(self, node: Any, outer: Domain | None, around: Domain, needed: Domain) -> Cases:
        """What stands between braces: the parts are joined in order, then the filters apply to the whole."""
        if node.name != "GroupGraphPatternSub":
            raise self.refused(node)
        self.groups += 1
        filters = [part for part in node.part or () if part.name == "Filter"]
        parts = [part for part in node.part or () if part.name != "Filter"]
        mentions = Counter(variable for part in (*parts, *filters) for variable in _mentioned(part))
        needed = needed.union(variable for variable, times in mentions.items() if times > 1)
        cases: Cases = {_NONE: True}
        block = 0
        for at, part in enumerate(parts):
            match part.name:
                case "TriplesBlock":
                    block = block if at and parts[at - 1].name == "TriplesBlock" else at
                    cases = _joined(cases, self.triples(part, outer or _NONE, (id(node), block)))
                case "GroupOrUnionGraphPattern":
                    beside = around.union(*(_visible(other) for other in parts if other is not part))
                    branches = [self.group(branch, outer, beside, needed) for branch in part.graph]
                    cases = _joined(cases, _united(branches, needed))
                case "MinusGraphPattern":
                    cases = self.minus(cases, self.group(part.graph, outer, _NONE, needed), part, outer)
                case _:
                    raise self.refused(part)
            self.check(cases)
        for part in filters:
            self.check_scope(part, [(outer or _NONE) | domain for domain in cases], around)
            conditions = {domain: self.condition(part.expr, (outer or _NONE) | domain, part) for domain in cases}
            cases = {domain: _both(cases[domain], conditions[domain]) for domain in cases if conditions[domain]}
            self.check(cases)
        return cases

    def check_scope(self, node: Any, scopes: list[Domain], around: Domain) -> None:
        """Refuse a filter on what is bound only around its group: by definition it sees none of it, yet engines do."""
        for variable in sorted(_mentioned(node) & around, key=str):
            if any(variable not in scope for scope in scopes):
                words = f"FILTER speaks of {variable}, which its group does not bind in every alternative"
                raise self.error(f"{words}; move it out of the braces, or rename the variable", *self.written(node))

    def check(self, cases: Cases) -> None:
        """Refuse what grew too large: alternatives that bind different variables are written out one by one."""
        said = [formula for formula in cases.values() if isinstance(formula, Formula)]
        if self.groups > MAX_GROUPS or sum(1 for formula in said for _ in atoms(formula)) > MAX_ATOMS:
            raise QueryError(f"the query has more than {MAX_ATOMS} triple patterns, written out; ask it in parts")

    def minus(self, cases: Cases, taken: Cases, node: Any, outer: Domain | None) -> Cases:
        """The solutions that agree with none of those taken away, on the variables that the two share."""
        kept = dict(cases)
        for domain in kept:
            for other, formula in taken.items():
                if domain & other:
                    kept[domain] = _both(kept[domain], _not(_closed(formula, other - domain)))
                elif outer is not None:
                    # Whether the values that EXISTS gives count as shared is not agreed upon: engines differ.
                    raise self.error(
                        "MINUS inside EXISTS shares no variable of its own with the pattern before it; "
                        "write FILTER NOT EXISTS",
                        *self.written(node),
                    )
        return kept

    def condition(self, expression: Any, outer: Domain, node: Any) -> Formula | bool:
        """What a filter asks of a solution that binds `outer`: EXISTS and NOT EXISTS, joined by `&&`, `||` and `!`."""
        name, others = _name(expression), getattr(expression, "other", None) or ()
        if name.endswith("Expression") and not others:  # rdflib wraps a term in every operator that binds looser
            return self.condition(expression.expr, outer, node)
        if name in ("ConditionalAndExpression", "ConditionalOrExpression"):
            parts = [self.condition(part, outer, node) for part in (expression.expr, *others)]
            return reduce(_both if "And" in name else _either, parts)
        if name == "UnaryNot":
            return _not(self.condition(expression.expr, outer, node))
        if name not in ("Builtin_EXISTS", "Builtin_NOTEXISTS"):
            raise self.refused(node)
        held = _some(self.group(expression.graph, outer, _NONE, _NONE), _NONE)
        return held if name == "Builtin_EXISTS" else _not(held)

    def triples(self, node: Any, outer: Domain, block: tuple[int, int]) -> Cases:
        """Triple patterns, all of which a solution satisfies."""
        terms = [term for run in node.triples for term in run]
        patterns: list[Formula] = [self.atom(terms[at : at + 3], block) for at in range(0, len(terms), 3)]
        formula = reduce(Formula.__and__, patterns)
        return {formula.free - outer: formula}

    def atom(self, triple: list[Any], block: tuple[int, int]) -> Formula:
        """One triple pattern."""
        subject, predicate, object_ = triple
        while _name(predicate).startswith("Path"):
            inside = predicate.part if isinstance(predicate.part, list) else [predicate.part]
            if len(inside) > 1 or predicate.mod or predicate.name not in ("PathAlternative", "PathSequence", "PathElt"):
                star = not self.tree.projection  # of SELECT *
                raise self.error(f"a property path is not supported {_SUPPORTED}", _PATH, int(star))
            predicate = inside[0]
        if type(predicate).__name__ == "Variable":
            words = f"a variable in place of a relation is not supported {_SUPPORTED}"
            raise self.error(words, rf"[?$]{predicate}\b")
        return Atom(self.labels.relation(predicate), self.term(subject, block), self.term(object_, block))

    def term(self, term: Any, block: tuple[int, int]) -> Term:
        """A variable, a blank node (which stands for some entity, within its block of triples), or an entity."""
        kind = type(term).__name__
        if kind == "Variable":
            return Variable(str(term))
        if kind != "BNode":
            return Entity(self.labels.entity(term))
        if str(term) not in self.blanks:
            name = next(f"_{number}" for number in count(1) if f"_{number}" not in self.names)
            self.names.add(name)
            self.blanks[str(term)] = Variable(name), block
        variable, home = self.blanks[str(term)]
        if home != block:
            raise self.error(f"_:{term} stands in two groups; a variable such as ?{term} can", rf"_:{re.escape(term)}")
        return variable

    def refused(self, node: Any) -> QueryError:
        """The error for a construct that is not read."""
        return self.error(f"{_REFUSED[node.name][0]} is not supported {_SUPPORTED}", *self.written(node))

    def written(self, node: Any) -> tuple[str, int]:
        """How a construct is written, and how many that are written so come before it."""
        keyword = _REFUSED[node.name][1]
        alike = [other for other in _walked(self.tree) if _REFUSED.get(_name(other), ("", ""))[1] == keyword]
        return _keyword(keyword), next(at for at, other in enumerate(alike) if other is node)

    def error(self, message: str, pattern: str, before: int = 0) -> QueryError:
        """An error at a place that matches a pattern, after so many others that do."""
        places = [match.start() for match in re.finditer(pattern, self.keywords, re.IGNORECASE)]
        return QueryError(message, *place(self.text, places[before])) if len(places) > before else QueryError(message)


def _keyword(words: str) -> str:
    """A pattern for words that are no part of a name."""
    return rf"(?<![\w?$:])(?:{words})\b"


def _walked(tree: Any) -> Iterator[Any]:
    """All that a parsed tree holds, in the order in which it was written."""
    yield tree
    if isinstance(tree, dict):
        for part in tree.values():
            yield from _walked(part)
    elif not isinstance(tree, str) and isinstance(tree, Iterable):
        for part in tree:
            yield from _walked(part)


def _name(node: Any) -> str:
    """The parser's word for a part of a tree."""
    return str(getattr(node, "name", "")) if isinstance(node, dict) else ""


def _mentioned(tree: Any) -> Domain:
    """The variables anywhere in a tree."""
    return frozenset(Variable(str(node)) for node in _walked(tree) if type(node).__name__ == "Variable")


def _visible(node: Any) -> Domain:
    """The variables that a solution of a group, or of a part of one, may bind: what MINUS and FILTER hold aside."""
    match node.name:
        case "TriplesBlock":
            return _mentioned(node)
        case "GroupOrUnionGraphPattern":
            return _NONE.union(*map(_visible, node.graph))
        case "GroupGraphPatternSub":
            return _NONE.union(*map(_visible, node.part or ()))
    return _NONE


def _joined(left: Cases, right: Cases) -> Cases:
    """The solutions of both, which agree on what they share."""
    return _merged((a | b, _both(f, g)) for a, f in left.items() for b, g in right.items())


def _united(branches: Iterable[Cases], needed: Domain) -> Cases:
    """The solutions of any, without the variables that nothing else speaks of."""
    cases = [case for branch in branches for case in branch.items()]
    return _merged((domain & needed, _closed(formula, domain - needed)) for domain, formula in cases)


def _merged(cases: Iterable[tuple[Domain, Formula | bool]]) -> Cases:
    """One case for each set of variables."""
    merged: Cases = {}
    for domain, formula in cases:
        merged[domain] = _either(merged.get(domain, False), formula)
    return merged


def _some(cases: Cases, kept: Domain) -> Formula | bool:
    """That there is a solution, with some of its variables left open."""
    nothing: Formula | bool = False
    return reduce(_either, (_closed(formula, domain - kept) for domain, formula in cases.items()), nothing)


def _closed(formula: Formula | bool, variables: Domain) -> Formula | bool:
    return formula if isinstance(formula, bool) else quantified(formula, variables)


def _both(left: Formula | bool, right: Formula | bool) -> Formula | bool:
    if isinstance(left, bool):
        return right if left else False
    if isinstance(right, bool):
        return left if right else False
    return left & right


def _either(left: Formula | bool, right: Formula | bool) -> Formula | bool:
    if isinstance(left, bool):
        return True if left else right
    if isinstance(right, bool):
        return True if right else left
    return left | right


def _not(formula: Formula | bool) -> Formula | bool:
    return not formula if isinstance(formula, bool) else ~formula
