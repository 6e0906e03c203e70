"""A plan as a tree a person can read, with what each step costs.

The unit of cost is a *row*: one entity and relation scored against all N entities. A projection scores the rows of the
`k` best values of its variable, or of all `N` where nothing narrows them; a condition repeats whatever depends on the
value it tries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tacit.query.plans.fold import Fold, Place, Visitor
from tacit.query.plans.plan import (
    At,
    Best,
    Complement,
    Condition,
    Edge,
    Everything,
    Intersect,
    Loop,
    Prepared,
    Project,
    Relation,
    Row,
    Source,
    Step,
    Target,
    Union,
    ends_of,
    reads,
)

Cost = Counter[tuple[int, int]]  # (power of k, power of N) -> how many rows
_K, _N = (1, 0), (0, 1)


def describe(prepared: Prepared, k: int | None = 256, num_entities: int | None = None) -> str:
    """The plan as an indented tree, a step a line with its rows, and the sum at `k` candidates; without `k`, no costs.

    >>> from tacit.query.plans.compile import compile_query
    >>> from tacit.query.text.text import parse
    >>> print(describe(compile_query(parse("?c : borders(Brazil, ?n) & capital_of(?c, ?n)"))))
    ?c: from the best ?n over capital_of^-1   k rows
      ?n: from Brazil over borders            1 row
    k + 1 rows in all: 257 at k = 256
    """
    lines = _Description(prepared).lines()
    if k is None:
        return "\n".join("  " * line.indent + line.what for line in lines)
    width = max(2 * line.indent + len(line.what) for line in lines) + 3
    shown = [f"{'  ' * line.indent + line.what:{width}}{_shown(line.cost) if line.cost else ''}" for line in lines]
    total = sum((line.cost for line in lines), Cost())
    return "\n".join([*map(str.rstrip, shown), f"{_shown(total)} in all{_evaluated(total, k, num_entities)}"])


@dataclass(frozen=True)
class _Line:
    what: str
    cost: Cost
    indent: int = 0


@dataclass(frozen=True, eq=False)
class _Spot(Place[str]):
    """The names of the two ends, and the variables around that are tried: their slots, with what all values cost."""

    loops: tuple[tuple[frozenset[int], tuple[int, int]], ...] = ()


class _Description(Fold[str, list[_Line]]):
    """Puts names to the slots of a plan; the value of a step is its lines."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        self.entities = dict(enumerate(prepared.entities))
        self.relations = prepared.relations or (f"?{prepared.variables[0]}",)  # a variable in place of the only one
        self._edge = _EdgeText(self.relations)

    def lines(self) -> list[_Line]:
        """The held answer variables, then the last one; a beam keeps `k` values, or pairs of values, of the former."""
        plan, lines, slots = self.prepared.plan, list[_Line](), frozenset[int]()
        for held in plan.held:
            name, loops = self.variable(held.variable), ((slots, _K),)
            lines.append(self._line("the best k, tried one by one", _Spot(target=name)))
            lines += self._inner(held.ranking, _Spot(target=name, loops=loops))
            slots |= {held.slot}
            self.entities[held.slot] = name
        last = set(plan.targets) - {held.variable for held in plan.held}
        target = self.variable(*last) if last else "holds"
        return [*lines, *self.of(plan.root, _Spot(target=target, loops=((slots, _K),)))]

    def entity(self, slot: int) -> str:
        return self.entities[slot]

    def variable(self, index: int) -> str:
        """A variable with its question mark, and its number where several share its name."""
        names = self.prepared.variables
        return f"?{names[index]}" + (f"#{index}" if names.count(names[index]) > 1 else "")

    def row(self, step: Row, place: Place[str]) -> list[_Line]:
        from_ = replace(place, source=self.entity(step.slot))
        head = self._line(f"from {from_.source} over {self._edge.of(step.edge, from_)}", from_, step, _rows(step.edge))
        return [head, *self._ends(step.edge, from_)]

    def project(self, step: Project, place: Place[str]) -> list[_Line]:
        from_ = replace(place, source=self.variable(step.variable))
        which, power = ("every", _N) if isinstance(step.source, Everything) else ("the best", _K)
        what = f"from {which} {from_.source} over {self._edge.of(step.edge, from_)}"
        source = [] if power == _N else self._inner(step.source, replace(from_, source=None, target=from_.source))
        return [self._line(what, from_, step, _rows(step.edge), power), *source, *self._ends(step.edge, from_)]

    def loop(self, step: Loop, place: Place[str]) -> list[_Line]:
        return [self._line(f"itself over {self.relations[step.relation]}", place, step, 1)]

    def at(self, step: At, place: Place[str]) -> list[_Line]:
        name = self.entity(step.slot)
        head = self._line(f"whatever it is, how far {name} fits", place)
        return [head, *self._inner(step.part, replace(place, target=name))]

    def best(self, step: Best, place: Place[str]) -> list[_Line]:
        name = self.variable(step.variable)
        head = self._line(f"whatever it is, how far the best {name} fits", place)
        return [head, *self._inner(step.part, replace(place, target=name))]

    def condition(self, step: Condition, place: Place[str]) -> list[_Line]:
        name = self.entities[step.slot] = self.variable(step.variable)
        which, power = ("every", _N) if isinstance(step.candidates, Everything) else ("the best k", _K)
        candidates = [] if power == _N else self._inner(step.candidates, replace(place, target=name))
        loops = place.loops if isinstance(place, _Spot) else ()
        body = self._inner(step.body, _Spot(None, place.target, (*loops, (frozenset({step.slot}), power))))
        return [self._line(f"the best over {which} {name}, tried one by one", place), *candidates, *body]

    def everything(self, step: Everything, place: Place[str]) -> list[_Line]:
        return [self._line("every entity", place)]

    def relation(self, step: Relation, place: Place[str]) -> list[_Line]:
        return []  # part of the line of its edge

    def all(self, parts: Sequence[list[_Line]], place: Place[str]) -> list[_Line]:
        return [self._line("all of", place), *(line for part in parts for line in _deeper(part))]

    def any(self, parts: Sequence[list[_Line]], place: Place[str]) -> list[_Line]:
        return [self._line("any of", place), *(line for part in parts for line in _deeper(part))]

    def negation(self, step: Complement[Step], part: list[_Line], place: Place[str]) -> list[_Line]:
        return [self._line("not", place), *_deeper(part)]

    def _inner(self, step: Step, place: Place[str]) -> list[_Line]:
        return _deeper(self.of(step, place))

    def _ends(self, edge: Edge, place: Place[str]) -> list[_Line]:
        """The sets an edge asks at its two ends."""
        ends = (leaf for leaf in ends_of(edge) if isinstance(leaf, Source | Target))
        return [line for end in ends for line in self._inner(end, place)]

    def _line(
        self, what: str, place: Place[str], step: Step | None = None, rows: int = 0, power: tuple[int, int] = (0, 0)
    ) -> _Line:
        """A line with its rows, repeated for every cut variable that the step depends on."""
        used = reads(step)[0] if step else frozenset()
        loops = place.loops if isinstance(place, _Spot) else ()
        repeated = [power, *(times for slots, times in loops if slots & used)]
        k, n = (sum(powers) for powers in zip(*repeated, strict=True))
        return _Line(f"{place.target}: {what}", Cost({(k, n): rows}) if rows else Cost())


@dataclass(frozen=True)
class _EdgeText(Visitor[str, str]):
    """An edge as a formula over relation names; sets at its ends stand in square brackets, and follow below."""

    relations: Sequence[str]

    def relation(self, step: Relation, place: Place[str]) -> str:
        return self.relations[step.slot] + ("^-1" if step.flip else "")

    def intersect(self, step: Intersect[Step], place: Place[str]) -> str:
        return "(" + " & ".join(self.of(part, place) for part in step.parts) + ")"

    def union(self, step: Union[Step], place: Place[str]) -> str:
        return "(" + " | ".join(self.of(part, place) for part in step.parts) + ")"

    def complement(self, step: Complement[Step], place: Place[str]) -> str:
        return f"!{self.of(step.part, place)}"

    def source(self, step: Source, place: Place[str]) -> str:
        return f"[{place.source}]"

    def target(self, step: Target, place: Place[str]) -> str:
        return f"[{place.target}]"


def _deeper(lines: list[_Line]) -> list[_Line]:
    return [replace(line, indent=line.indent + 1) for line in lines]


def _rows(edge: Edge) -> int:
    """How many relations an edge itself is made of, those of sets at its ends aside."""
    return sum(isinstance(leaf, Relation) for leaf in ends_of(edge))


def _shown(cost: Cost) -> str:
    """A cost as a polynomial of k and N, the dearest part first."""
    terms = []
    for (k, n), count in sorted(cost.items(), key=lambda term: (term[0][1], term[0][0]), reverse=True):
        powers = " ".join(_power(letter, power) for letter, power in (("N", n), ("k", k)) if power)
        terms.append(powers if powers and count == 1 else f"{count} {powers}".strip())
    return " + ".join(terms or ["0"]) + (" row" if cost == {(0, 0): 1} else " rows")


def _power(letter: str, power: int) -> str:
    return letter if power == 1 else f"{letter}^{power}"


def _evaluated(cost: Cost, k: int, num_entities: int | None) -> str:
    if num_entities is None and any(n for _, n in cost):
        return ""
    size = num_entities or 0
    k = min(k, size) if num_entities else k
    rows = sum(count * k**i * size**j for (i, j), count in cost.items())
    where = f"k = {k:,}" + (f", N = {size:,}" if num_entities else "")
    return f": {rows:,} at {where}"
