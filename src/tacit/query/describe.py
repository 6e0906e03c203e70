"""Writes a plan as a readable tree, with the cost of each step.

The unit of cost is a *row*: one entity and relation scored against all N entities. A projection
scores the rows of the `k` best values of its variable, or of all `N` where nothing narrows them; a
cutset repeats all that depends on the value it tries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from tacit.errors import QueryError, UnknownName
from tacit.graph.attributes import Attribute
from tacit.graph.graph import Graph
from tacit.query.formula import Query
from tacit.query.plans import plan as steps
from tacit.query.plans.compile import compile_query
from tacit.query.plans.fold import EvalContext, Visitor
from tacit.query.plans.plan import (
    Compared,
    CompiledQuery,
    Edge,
    Step,
    anchored,
    children,
    ends_of,
    reads,
)
from tacit.query.question import bind
from tacit.query.value_binding import bind_values, supposed_attributes
from tacit.query.value_text import range_text
from tacit.sources import load

if TYPE_CHECKING:
    from tacit.graph.datasets import Facts

Power = tuple[int, int]  # of k, and of N
Cost = Counter[Power]  # the number of rows of each power
Context = EvalContext[str]
_K = (1, 0)
_N = (0, 1)
_CONNECTIVES = {steps.Intersect: "all of", steps.Union: "any of", steps.Complement: "not"}


def describe(
    compiled: CompiledQuery,
    k: int | None = 256,
    num_entities: int | None = None,
    attributes: Sequence[Attribute] = (),
) -> str:
    """Writes the plan as an indented tree, with the rows of each step and of all at `k`.

    Without `k`, no costs are written. The `attributes` say which ends of ranges are dates.

    >>> from tacit.query.text import parse
    >>> print(describe(compile_query(parse("?c : borders(Brazil, ?n) & capital_of(?c, ?n)"))))
    ?c: from the best ?n over capital_of^-1   k rows
      ?n: from Brazil over borders            1 row
    k + 1 rows in all: 257 at k = 256
    """
    lines = _Description(compiled, attributes).lines()
    texts = ["  " * line.indent + line.text for line in lines]
    if k is None:
        return "\n".join(texts)
    width = max(map(len, texts)) + 3
    rows = [
        f"{text:{width}}{_polynomial(line.cost)}" if line.cost else text
        for text, line in zip(texts, lines, strict=True)
    ]
    total = sum((line.cost for line in lines), Cost())
    return "\n".join([*rows, f"{_polynomial(total)} in all{_sum(total, k, num_entities)}"])


def describe_query(query: Query, graph: Facts | None, k: int) -> str:
    """Describes the plan of a query, with its names resolved in a graph."""
    if graph is None:
        attributes = supposed_attributes(query)
        alone = query
        with suppress(QueryError, UnknownName):  # which the graph would tell
            alone = bind_values(query, replace(Graph.of([]), attributes=attributes))
        plan = describe(compile_query(alone), k, attributes=attributes.listed)
        return f"{query}\n\n{plan}"
    facts = load(graph)
    compiled = compile_query(bind_values(query, facts))
    bind(compiled, facts)
    return f"{query}\n\n{describe(compiled, k, facts.num_entities, facts.attributes.listed)}"


@dataclass(frozen=True)
class _Line:
    text: str
    cost: Cost
    indent: int = 0


class _Description(Visitor[str, list[_Line]]):
    """Writes the lines of a plan; a context has the names of its ends."""

    def __init__(self, compiled: CompiledQuery, attributes: Sequence[Attribute] = ()) -> None:
        self.attributes = {attribute.name: attribute for attribute in attributes}
        self.plan = compiled.plan
        self.names = compiled.variables
        self.entities = dict(enumerate(compiled.entities))
        # a relation that is asked for is the only variable
        self.relations = compiled.relations or tuple(f"?{name}" for name in compiled.variables)
        # slots of variables, and the power of their number of values
        self.tried: list[tuple[frozenset[int], Power]] = []

    def lines(self) -> list[_Line]:
        """The lines of the enumerated targets, then of the last one.

        A beam keeps `k` values, or pairs of values, of enumerated targets.
        """
        lines = list[_Line]()
        slots = frozenset[int]()
        last = set(self.plan.targets)
        for target in self.plan.enumerated:
            name = self.variable(target.variable)
            lines += self._under("the best k, tried one by one", target.ranking, name, name)
            last.remove(target.variable)
            slots |= {target.slot}
            self.entities[target.slot] = name
            self.tried = [(slots, _K)]
        end = self.variable(*last) if last else "holds"
        return lines + self.of(self.plan.root, EvalContext(target=end))

    def variable(self, index: int) -> str:
        """A variable with its question mark, numbered where several share its name."""
        name = self.names[index]
        return f"?{name}" + (f"#{index}" if self.names.count(name) > 1 else "")

    def row(self, step: steps.Row, place: Context) -> list[_Line]:
        name = self.entities[step.slot]
        if isinstance(step.edge, steps.Unequal):
            return [self._line(f"all but {name}", place)]
        if isinstance(step.edge, steps.Difference):
            return [self._line(_compared(self.attributes, step.edge, name, place.target), place)]
        return self._along(step, f"from {name}", replace(place, source=name))

    def project(self, step: steps.Project, place: Context) -> list[_Line]:
        name = self.variable(step.variable)
        # nothing narrows a set that is all but a few
        which, power = ("the best", _K) if anchored(step.source) else ("every", _N)
        head, *ends = self._along(step, f"from {which} {name}", replace(place, source=name), power)
        if isinstance(step.source, steps.Everything):
            return [head, *ends]
        return [head, *self._inner(step.source, name), *ends]

    def loop(self, step: steps.Loop, place: Context) -> list[_Line]:
        return [self._line(f"itself over {self.relations[step.relation]}", place, step, 1)]

    def at(self, step: steps.At, place: Context) -> list[_Line]:
        name = self.entities[step.slot]
        return self._under(f"whatever it is, how far {name} fits", step.part, name, place.end)

    def best(self, step: steps.Best, place: Context) -> list[_Line]:
        name = self.variable(step.variable)
        text = f"whatever it is, how far the best {name} fits"
        return self._under(text, step.part, name, place.end)

    def cutset(self, step: steps.Cutset, place: Context) -> list[_Line]:
        name = self.entities[step.slot] = self.variable(step.variable)
        all_values = isinstance(step.candidates, steps.Everything)
        which = "every" if all_values else "the best k"
        lines = [self._line(f"the best over {which} {name}, tried one by one", place)]
        if not all_values:
            lines += self._inner(step.candidates, name)
        self.tried.append((frozenset({step.slot}), _N if all_values else _K))
        lines += self._inner(step.body, place.end)
        self.tried.pop()
        return lines

    def everything(self, step: steps.Everything, place: Context) -> list[_Line]:
        return [self._line("every entity", place)]

    def within(self, step: steps.Within, place: Context) -> list[_Line]:
        return [self._line(_compared(self.attributes, step, place.target, place.target), place)]

    def relation(
        self, step: steps.Relation | steps.Unequal | steps.Difference, place: Context
    ) -> list[_Line]:
        return []  # part of the line of its edge

    unequal = difference = relation

    def intersect(self, step: Step, place: Context) -> list[_Line]:
        parts = chain.from_iterable(self.of(part, place) for part in children(step))
        return [self._line(_CONNECTIVES[type(step)], place), *_indented(parts)]

    union = complement = intersect

    def source(self, step: steps.Source, place: Context) -> list[_Line]:
        return self.of(step.part, EvalContext(target=place.source))

    def target(self, step: steps.Target, place: Context) -> list[_Line]:
        return self.of(step.part, EvalContext(target=place.target))

    def _inner(self, step: Step, target: str) -> list[_Line]:
        return _indented(self.of(step, EvalContext(target=target)))

    def _under(self, text: str, step: Step, end: str, target: str) -> list[_Line]:
        """A line about a target, and the lines of a step at another end."""
        return [self._line(text, EvalContext(target=target)), *self._inner(step, end)]

    def _along(
        self,
        step: steps.Row | steps.Project,
        text: str,
        place: Context,
        power: Power = (0, 0),
    ) -> list[_Line]:
        """The line of a step along an edge, and those of the sets at its two ends."""
        leaves = list(ends_of(step.edge))
        rows = sum(isinstance(leaf, steps.Relation) for leaf in leaves)
        text = f"{text} over {self._edge_text(step.edge, place)}"
        ends = chain.from_iterable(self.of(leaf, place) for leaf in leaves)
        return [self._line(text, place, step, rows, power), *_indented(ends)]

    def _edge_text(self, edge: Edge, place: Context) -> str:
        """An edge as a formula over relation names, with the sets at its ends in brackets."""
        match edge:
            case steps.Relation(slot, flip):
                return self.relations[slot] + "^-1" * flip
            case steps.Unequal():
                return "!="
            case steps.Difference():
                return _compared(self.attributes, edge, place.source, place.target)
            case steps.Intersect(parts) | steps.Union(parts):
                sign = " & " if isinstance(edge, steps.Intersect) else " | "
                return f"({sign.join(self._edge_text(part, place) for part in parts)})"
            case steps.Complement(part):
                return f"!{self._edge_text(part, place)}"
            case steps.Source():
                return f"[{place.source}]"
        return f"[{place.target}]"

    def _line(
        self,
        text: str,
        place: Context,
        step: Step | None = None,
        rows: int = 0,
        power: Power = (0, 0),
    ) -> _Line:
        """A line with its rows, multiplied for every tried variable it depends on."""
        slots = reads(step)[0] if step else frozenset()
        powers = [power, *(power for tried, power in self.tried if tried & slots)]
        k, n = map(sum, zip(*powers, strict=True))
        return _Line(f"{place.target}: {text}", Cost({(k, n): rows} if rows else ()))


def _compared(
    attributes: Mapping[str, Attribute], step: Compared, source: str | None, target: str | None
) -> str:
    """A comparison of values of two ends, or of one."""
    if isinstance(step, steps.Within):
        names = [step.attribute, *filter(None, [step.minus])]
    else:
        names = [step.left, step.right]
    value = " - ".join(f"{name}({end})" for name, end in zip(names, (source, target), strict=False))
    own = attributes.get(names[0], Attribute(names[0]))
    before, after = range_text(step.low, step.high, own if len(names) == 1 else Attribute(""))
    return f"{before}{value}{after}"


def _indented(lines: Iterable[_Line]) -> list[_Line]:
    return [replace(line, indent=line.indent + 1) for line in lines]


def _polynomial(cost: Cost) -> str:
    """A cost as a polynomial of k and N, the largest term first."""
    terms = []
    for (k, n), count in sorted(cost.items(), key=lambda term: term[0][::-1], reverse=True):
        powers = [
            f"{letter}^{power}".removesuffix("^1")
            for letter, power in (("N", n), ("k", k))
            if power
        ]
        terms.append(" ".join([str(count)] * (count > 1 or not powers) + powers))
    return " + ".join(terms or ["0"]) + (" row" if cost == {(0, 0): 1} else " rows")


def _sum(cost: Cost, k: int, num_entities: int | None) -> str:
    """The number of rows of a cost, where it can be counted."""
    if num_entities is None and any(n for _, n in cost):
        return ""
    size = num_entities or 0
    k = min(k, size) if num_entities else k
    rows = sum(count * k**i * size**j for (i, j), count in cost.items())
    where = f"k = {k:,}" + (f", N = {size:,}" if num_entities else "")
    return f": {rows:,} at {where}"
