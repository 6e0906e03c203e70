"""Writes a plan as a readable tree, with the cost of each step.

The unit of cost is a *row*: one entity and relation scored against all N entities. A projection
scores the rows of the `k` best values of its variable, or of all `N` where nothing narrows them; a
condition repeats whatever depends on the value it tries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tacit.query.plans import plan as steps
from tacit.query.plans.fold import EvalContext, Fold, Visitor
from tacit.query.plans.plan import CompiledQuery, Step, anchored, ends_of, reads

Cost = Counter[tuple[int, int]]  # (power of k, power of N) -> how many rows
_K = (1, 0)
_N = (0, 1)


def describe(prepared: CompiledQuery, k: int | None = 256, num_entities: int | None = None) -> str:
    """Writes the plan as an indented tree with rows per step, and their sum at `k` candidates.

    Without `k`, no costs are written.

    >>> from tacit.query.plans.compile import compile_query
    >>> from tacit.query.text import parse
    >>> print(describe(compile_query(parse("?c : borders(Brazil, ?n) & capital_of(?c, ?n)"))))
    ?c: from the best ?n over capital_of^-1   k rows
      ?n: from Brazil over borders            1 row
    k + 1 rows in all: 257 at k = 256
    """
    lines = _Description(prepared).lines()
    if k is None:
        return "\n".join("  " * line.indent + line.what for line in lines)
    width = max(2 * line.indent + len(line.what) for line in lines) + 3
    shown = [
        f"{'  ' * line.indent + line.what:{width}}{_shown(line.cost) if line.cost else ''}"
        for line in lines
    ]
    total = sum((line.cost for line in lines), Cost())
    return "\n".join(
        [*map(str.rstrip, shown), f"{_shown(total)} in all{_evaluated(total, k, num_entities)}"]
    )


@dataclass(frozen=True)
class _Line:
    what: str
    cost: Cost
    indent: int = 0


class _Description(Fold[str, list[_Line]]):
    """Writes the lines of a plan; a context has the names of its ends."""

    def __init__(self, prepared: CompiledQuery) -> None:
        self.prepared = prepared
        self.entities = dict(enumerate(prepared.entities))
        # a variable in place of the only one
        self.relations = prepared.relations or (f"?{prepared.variables[0]}",)
        # slots of variables, and what all values cost
        self.tried: list[tuple[frozenset[int], tuple[int, int]]] = []
        self._edge = _EdgeText(self.relations)

    def lines(self) -> list[_Line]:
        """The lines of the enumerated targets, then of the last one.

        A beam keeps `k` values, or pairs of values, of enumerated targets.
        """
        plan = self.prepared.plan
        lines = list[_Line]()
        slots = frozenset[int]()
        for held in plan.held:
            place = EvalContext(target=self.variable(held.variable))
            lines += [
                self._line("the best k, tried one by one", place),
                *self._inner(held.ranking, place),
            ]
            slots |= {held.slot}
            self.entities[held.slot], self.tried = place.end, [(slots, _K)]
        last = set(plan.targets) - {held.variable for held in plan.held}
        return lines + self.of(
            plan.root, EvalContext(target=self.variable(*last) if last else "holds")
        )

    def entity(self, slot: int) -> str:
        return self.entities[slot]

    def variable(self, index: int) -> str:
        """A variable with its question mark, numbered where several share its name."""
        names = self.prepared.variables
        return f"?{names[index]}" + (f"#{index}" if names.count(names[index]) > 1 else "")

    def row(self, step: steps.Row, place: EvalContext[str]) -> list[_Line]:
        if isinstance(step.edge, steps.Unequal):
            return [self._line(f"all but {self.entity(step.slot)}", place)]
        from_ = replace(place, source=self.entity(step.slot))
        return self._over(step, f"from {from_.source}", from_)

    def project(self, step: steps.Project, place: EvalContext[str]) -> list[_Line]:
        name = self.variable(step.variable)
        from_ = replace(place, source=name)
        if isinstance(step.source, steps.Everything):
            return self._over(step, f"from every {name}", from_, _N)
        # nothing narrows what is all but a few
        candidates = ("the best", _K) if anchored(step.source) else ("every", _N)
        head, *ends = self._over(step, f"from {candidates[0]} {name}", from_, candidates[1])
        return [head, *self._inner(step.source, EvalContext(target=name)), *ends]

    def loop(self, step: steps.Loop, place: EvalContext[str]) -> list[_Line]:
        return [self._line(f"itself over {self.relations[step.relation]}", place, step, 1)]

    def at(self, step: steps.At, place: EvalContext[str]) -> list[_Line]:
        name = self.entity(step.slot)
        return [
            self._line(f"whatever it is, how far {name} fits", place),
            *self._inner(step.part, EvalContext(target=name)),
        ]

    def best(self, step: steps.Best, place: EvalContext[str]) -> list[_Line]:
        name = self.variable(step.variable)
        head = self._line(f"whatever it is, how far the best {name} fits", place)
        return [head, *self._inner(step.part, EvalContext(target=name))]

    def cutset(self, step: steps.Cutset, place: EvalContext[str]) -> list[_Line]:
        name = self.entities[step.slot] = self.variable(step.variable)
        which, power = (
            ("every", _N) if isinstance(step.candidates, steps.Everything) else ("the best k", _K)
        )
        lines = [self._line(f"the best over {which} {name}, tried one by one", place)]
        if power == _K:
            lines += self._inner(step.candidates, EvalContext(target=name))
        self.tried.append((frozenset({step.slot}), power))
        lines += self._inner(step.body, EvalContext(target=place.target))
        self.tried.pop()
        return lines

    def everything(self, step: steps.Everything, place: EvalContext[str]) -> list[_Line]:
        return [self._line("every entity", place)]

    def relation(
        self, step: steps.Relation | steps.Unequal, place: EvalContext[str]
    ) -> list[_Line]:
        return []  # part of the line of its edge

    unequal = relation

    def all(self, parts: Sequence[list[_Line]], place: EvalContext[str]) -> list[_Line]:
        return [self._line("all of", place), *(line for part in parts for line in _deeper(part))]

    def any(self, parts: Sequence[list[_Line]], place: EvalContext[str]) -> list[_Line]:
        return [self._line("any of", place), *(line for part in parts for line in _deeper(part))]

    def negation(
        self, step: steps.Complement[Step], part: list[_Line], place: EvalContext[str]
    ) -> list[_Line]:
        return [self._line("not", place), *_deeper(part)]

    def _inner(self, step: Step, place: EvalContext[str]) -> list[_Line]:
        return _deeper(self.of(step, place))

    def _over(
        self,
        step: steps.Row | steps.Project,
        what: str,
        place: EvalContext[str],
        power: tuple[int, int] = (0, 0),
    ) -> list[_Line]:
        """The line of a step along an edge, and those of the sets at its two ends."""
        leaves = list(ends_of(step.edge))
        rows = sum(isinstance(leaf, steps.Relation) for leaf in leaves)
        head = self._line(
            f"{what} over {self._edge.of(step.edge, place)}", place, step, rows, power
        )
        return [head, *(line for leaf in leaves for line in self._inner(leaf, place))]

    def _line(
        self,
        what: str,
        place: EvalContext[str],
        step: Step | None = None,
        rows: int = 0,
        power: tuple[int, int] = (0, 0),
    ) -> _Line:
        """A line with its rows, multiplied for every tried variable it depends on."""
        used = reads(step)[0] if step else frozenset()
        repeated = [power, *(times for slots, times in self.tried if slots & used)]
        k, n = (sum(powers) for powers in zip(*repeated, strict=True))
        return _Line(f"{place.target}: {what}", Cost({(k, n): rows}) if rows else Cost())


@dataclass(frozen=True)
class _EdgeText(Visitor[str, str]):
    """Writes an edge as a formula over relation names.

    Sets at its ends stand in square brackets and follow below.
    """

    relations: Sequence[str]

    def relation(self, step: steps.Relation, place: EvalContext[str]) -> str:
        return self.relations[step.slot] + ("^-1" if step.flip else "")

    def unequal(self, step: steps.Unequal, place: EvalContext[str]) -> str:
        return "!="

    def intersect(self, step: steps.Intersect[Step], place: EvalContext[str]) -> str:
        return "(" + " & ".join(self.of(part, place) for part in step.parts) + ")"

    def union(self, step: steps.Union[Step], place: EvalContext[str]) -> str:
        return "(" + " | ".join(self.of(part, place) for part in step.parts) + ")"

    def complement(self, step: steps.Complement[Step], place: EvalContext[str]) -> str:
        return f"!{self.of(step.part, place)}"

    def source(self, step: steps.Source, place: EvalContext[str]) -> str:
        return f"[{place.source}]"

    def target(self, step: steps.Target, place: EvalContext[str]) -> str:
        return f"[{place.target}]"


def _deeper(lines: list[_Line]) -> list[_Line]:
    return [replace(line, indent=line.indent + 1) for line in lines]


def _shown(cost: Cost) -> str:
    """A cost as a polynomial of k and N, the largest term first."""
    terms = []
    for (k, n), count in sorted(
        cost.items(), key=lambda term: (term[0][1], term[0][0]), reverse=True
    ):
        powers = [
            f"{letter}^{power}".removesuffix("^1")
            for letter, power in (("N", n), ("k", k))
            if power
        ]
        terms.append(" ".join([str(count)] * (count > 1 or not powers) + powers))
    return " + ".join(terms or ["0"]) + (" row" if cost == {(0, 0): 1} else " rows")


def _evaluated(cost: Cost, k: int, num_entities: int | None) -> str:
    if num_entities is None and any(n for _, n in cost):
        return ""
    size = num_entities or 0
    k = min(k, size) if num_entities else k
    rows = sum(count * k**i * size**j for (i, j), count in cost.items())
    where = f"k = {k:,}" + (f", N = {size:,}" if num_entities else "")
    return f": {rows:,} at {where}"
