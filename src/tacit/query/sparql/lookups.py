"""What known facts say of the parts of a query that no formula says, as tables.

These are `OPTIONAL`, a variable in place of a relation, the paths `?`, `*` and `+`, `rdfs:label`,
and filters on texts; and whole queries whose solutions are counted. Groups are evaluated as
SPARQL's algebra says, from the inside. The values that a variable has outside restrict what is
looked up inside, where that changes no result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from tacit.query.sparql.answer_properties import refuse_answer_property
from tacit.query.sparql.cases import NONE, Domain, bound_variables, visible_variables
from tacit.query.sparql.conditions import Conditions, is_supported
from tacit.query.sparql.iris import TermLabels
from tacit.query.sparql.known_graph import KnownGraph, Path, PathEvaluator
from tacit.query.sparql.source import is_literal, is_variable, kind, triples, unwrap, variables_in
from tacit.query.sparql.tables import MAX_ROWS, UNIT, Cell, Table, Values, table_of, united

Binding = Mapping[str, Cell]
_GROUP = 100  # facts that could be looked at in the time that a group of EXISTS takes
_MODIFIERS = {"?": "maybe", "*": "star", "+": "plus"}


def check(node: Any, labels: TermLabels, around: Domain = NONE, left: Domain = NONE) -> None:
    """Raises a `QueryError` for a part that is not looked up.

    `around` are the variables that the patterns beside it may bind, `left` those of the solutions
    that an OPTIONAL extends.
    """
    match kind(node):
        case "TriplesBlock":
            for _, path, _ in triples(node):
                path_of(path, labels, None)
        case "GroupGraphPatternSub":
            for part in node.part or ():
                if kind(part) == "Filter":
                    _check_scope(part, labels, around - left - bound_variables(node))
                others = [visible_variables(each) for each in node.part if each is not part]
                check(part, labels, around.union(left, *others))
        case "GroupOrUnionGraphPattern":
            for branch in node.graph:
                check(branch, labels, around)
        case "OptionalGraphPattern":
            check(node.graph, labels, around, around)
        case "MinusGraphPattern":
            check(node.graph, labels)
        case "Filter":
            if not is_supported(node.expr):
                raise labels.source.unsupported(node)
            for inner in groups_in(node.expr):
                check(inner, labels)
        case "InlineData":
            return
        case _:
            raise labels.source.unsupported(node)


def _check_scope(node: Any, labels: TermLabels, hidden: Domain) -> None:
    """Refuses a filter on a variable that is bound outside of its group alone."""
    for variable in sorted(hidden.intersection(variables_in(node)), key=str):
        raise labels.source.at(
            node,
            f"FILTER speaks of {variable}, which its group does not bind in every alternative; "
            "move it out of the braces, or rename the variable",
        )


def groups_in(expression: Any) -> Iterator[Any]:
    """The groups of EXISTS and NOT EXISTS in a condition."""
    expression = unwrap(expression)
    if kind(expression) in ("Builtin_EXISTS", "Builtin_NOTEXISTS"):
        yield expression.graph
    elif kind(expression) in ("ConditionalAndExpression", "ConditionalOrExpression", "UnaryNot"):
        for part in (expression.expr, *(expression.other or ())):
            yield from groups_in(part)


def path_of(path: Any, labels: TermLabels, known: KnownGraph | None) -> Path | str:
    """A parsed path, or the name of the variable in its place; None in place of cells to check."""
    path = unwrap(path)
    if is_variable(path):
        return str(path)
    match kind(path):
        case "PathEltOrInverse":
            name, parts = "inverse", [path.part]
        case "PathAlternative":
            name, parts = "either", path.part
        case "PathSequence":
            name, parts = "sequence", path.part
        case "PathElt" if str(path.mod) in _MODIFIERS:
            name, parts = _MODIFIERS[str(path.mod)], [path.part]
        case "" | "pname":
            refuse_answer_property(path, labels)
            return Path("relation", relation=labels.predicate(path, known.terms) if known else None)
        case _:
            raise labels.source.unsupported_path(path)
    inside = (path_of(part, labels, known) for part in parts)
    return Path(name, tuple(part for part in inside if isinstance(part, Path)))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Lookups:
    """Parts of a group, in the order of writing, with the labels of their terms."""

    parts: tuple[Any, ...]
    labels: TermLabels

    def extend(self, table: Table, known: KnownGraph) -> Table:
        """The solutions of a table, joined with those of the parts in the known facts."""
        return _Evaluator(self.labels, known).joined(table, self.parts, {}, {})


class _Evaluator:
    """Evaluates groups over known facts.

    `values` are the only values that variables may have in a solution that matters outside;
    `outer` is the row that an EXISTS is decided for.
    """

    def __init__(self, labels: TermLabels, known: KnownGraph) -> None:
        self.labels = labels
        self.known = known
        self.paths = PathEvaluator(known)
        self._is_node = cache(known.is_node)

    def group(self, node: Any, values: Values, outer: Binding) -> Table:
        """The solutions of a group."""
        return self.joined(UNIT, node.part or (), values, outer)

    def joined(self, table: Table, parts: Sequence[Any], values: Values, outer: Binding) -> Table:
        """A table joined with the parts of a group, and then filtered."""
        for part in parts:
            if kind(part) != "Filter" and table.rows:
                table = self._join(table, part, {**values, **table.values()}, outer)
        for part in parts:
            if kind(part) == "Filter":
                table = table.filtered(self._condition([part], outer))
        return table

    def _join(self, table: Table, part: Any, values: Values, outer: Binding) -> Table:
        match kind(part):
            case "TriplesBlock":
                return self._triples(table, part, values)
            case "InlineData" | "ValuesClause":
                return table.joined(self._values(part))
            case "GroupOrUnionGraphPattern":
                branches = [self.group(branch, values, outer) for branch in part.graph]
                return table.joined(united(branches))
            case "MinusGraphPattern":
                return table.without(self.group(part.graph, table.values(), outer))
        # OPTIONAL, whose own filters see the row that it extends
        filters = [each for each in part.graph.part or () if kind(each) == "Filter"]
        others = [each for each in part.graph.part or () if kind(each) != "Filter"]
        added = self.joined(UNIT, others, table.values(), outer)
        return table.extended(added, self._condition(filters, outer))

    def _condition(self, filters: Sequence[Any], outer: Binding) -> Any:
        """The test whether a row passes filters."""
        found = dict[tuple[int, frozenset[tuple[str, Cell]]], bool]()

        def exists(group: Any, row: Binding) -> bool:
            names = {variable.name for variable in variables_in(group)}
            fixed = {name: cell for name, cell in row.items() if name in names}
            key = id(group), frozenset(fixed.items())
            if key not in found:
                self.known.spend(_GROUP)
                values = {name: frozenset([cell]) for name, cell in fixed.items()}
                solutions = self.group(group, values, fixed)
                found[key] = bool(table_of([fixed]).joined(solutions).rows)
            return found[key]

        conditions = Conditions(self.labels, self.known, exists)

        def passes(row: Binding) -> bool:
            seen = {**outer, **row}
            return all(conditions.holds(each.expr, seen) is True for each in filters)

        return passes

    def _values(self, node: Any) -> Table:
        """The rows of inline data."""
        names = tuple(map(str, node.var or ()))
        rows = []
        for row in node.value or ():
            terms = [row] if isinstance(row, str | dict) else list(row)
            if len(terms) != len(names):
                raise self.labels.source.at(
                    node, f"a row of VALUES has {len(terms)} values for {len(names)} variables"
                )
            cells = [
                None  # as UNDEF is
                if type(term) is str
                else self.labels.cell_of(self.labels.value(name, term), self.known.terms)
                for name, term in zip(names, terms, strict=True)
            ]
            rows.append(tuple(cells))
        return Table(names, rows)

    def _triples(self, table: Table, node: Any, values: Values) -> Table:
        """A table joined with triple patterns, those first of which most is known."""
        pending = [
            [self._end(s), path_of(path, self.labels, self.known), self._end(o, path)]
            for s, path, o in triples(node)
        ]
        while pending and table.rows:
            bound = {*table.variables}

            def open_ends(pattern: list[Any], bound: set[str] = bound) -> tuple[int, int]:
                names = [each for each in pattern if isinstance(each, str) and each not in bound]
                return sum(name not in values for name in names), len(names)

            pattern = min(pending, key=open_ends)
            pending.remove(pattern)
            table = self._matches(table, pattern, values)
        return table

    def _end(self, term: Any, path: Any = None) -> Any:
        """The name of a variable or blank node, or the cell of a term in brackets of a tuple."""
        if is_variable(term):
            return str(term)
        if type(term).__name__ == "BNode":
            return f"_:{term}"
        if path is not None and self.labels.is_naming(path) and is_literal(term):
            name = self.labels.literal_term(term)
            return (self.known.terms.literal(name._replace(language="")),)
        if is_literal(term):
            value = self.known.value(self.labels.literal_term(term))
            if self.known.is_value(value):
                return (value,)
        return (self.labels.cell(term, self.known.terms),)

    def _matches(self, table: Table, pattern: list[Any], values: Values) -> Table:
        """A table joined with one pattern."""
        subject, path, object_ = pattern
        names = [each for each in (subject, path, object_) if isinstance(each, str)]
        added = [name for name in dict.fromkeys(names) if name not in table.variables]

        @cache
        def found(s: Cell, p: Cell, o: Cell) -> list[tuple[Cell, ...]]:
            if isinstance(path, Path):
                return [(a, None, b) for a, b in self.paths.pairs(path, s, o)]
            return list(self.known.facts(s, p, o))

        def rows() -> Iterator[tuple[Cell, ...]]:
            for row in table.rows:
                binding = dict(zip(table.variables, row, strict=True))
                for ends in self._starts(pattern, binding, values):
                    p = binding.get(path) if isinstance(path, str) else None
                    facts = found(ends[0], p, ends[1])
                    self.known.spend(len(facts))
                    for fact in facts:
                        merged = _unified(binding, (subject, path, object_), fact, values)
                        if merged is not None:
                            yield (
                                *(merged[n] for n in table.variables),
                                *(merged[n] for n in added),
                            )

        return Table((*table.variables, *added), list(islice(rows(), MAX_ROWS + 1)))

    def _starts(
        self, pattern: list[Any], binding: Binding, values: Values
    ) -> Iterator[tuple[Cell, Cell]]:
        """The ends to look up: what is bound, else the values that an open end may have.

        They are terms of the graph alone, even where a path has no length.
        """
        names = pattern[0], pattern[2]
        ends = [each[0] if isinstance(each, tuple) else binding.get(each) for each in names]
        starts = [(ends[0], ends[1])]
        if ends == [None, None]:
            at = next((at for at, name in enumerate(names) if name in values), None)
            if at is not None:
                starts = [(cell, None) if at == 0 else (None, cell) for cell in values[names[at]]]
        for start in starts:
            if all(cell is None or self._is_node(cell) for cell in start):
                yield start


def _unified(
    binding: Binding, pattern: Sequence[Any], fact: Sequence[Cell], values: Values
) -> dict[str, Cell] | None:
    """A row with the values of a fact; None where they do not agree."""
    merged = dict(binding)
    for name, cell in zip(pattern, fact, strict=True):
        if not isinstance(name, str):
            continue
        if merged.get(name) is None:
            if name in values and cell not in values[name]:
                return None
            merged[name] = cell
        elif merged[name] != cell:
            return None
    return merged
