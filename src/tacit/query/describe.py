"""A plan as a tree a person can read, with what each step costs.

The unit of cost is a *row*: one entity and relation scored against all N entities. A projection scores the rows of the
`k` best values of its variable, or of all `N` where nothing narrows them; a condition repeats whatever depends on the
value it tries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields

from tacit.query import plan as p

Cost = Counter[tuple[int, int]]  # (power of k, power of N) -> how many rows


def describe(prepared: p.Prepared, k: int = 256, num_entities: int | None = None) -> str:
    """The plan as an indented tree, a step a line with its rows, and the sum at `k` candidates.

    >>> from tacit.query.compile import compile_query
    >>> from tacit.query.text import parse
    >>> print(describe(compile_query(parse("?c : borders(Brazil, ?n) & capital_of(?c, ?n)"))))
    ?c: from the best ?n over capital_of^-1   k rows
      ?n: from Brazil over borders            1 row
    k + 1 rows in all: 257 at k = 256
    """
    steps = list(_Reader(prepared).steps(prepared.plan.root, f"?{prepared.variables[0]}", (), 0))
    width = max(2 * step.indent + len(step.what) for step in steps) + 3
    lines = [f"{'  ' * s.indent + s.what:{width}}{_shown(s.cost) if s.cost else ''}".rstrip() for s in steps]
    total = sum((step.cost for step in steps), Cost())
    return "\n".join([*lines, f"{_shown(total)} in all{_evaluated(total, k, num_entities)}"])


@dataclass(frozen=True)
class _Step:
    indent: int
    what: str
    cost: Cost


_Loops = tuple[
    tuple[int, tuple[int, int]], ...
]  # around a step: cut slots, each with what one more value multiplies by


class _Reader:
    """Puts names to the slots of a plan."""

    def __init__(self, prepared: p.Prepared) -> None:
        self.prepared = prepared
        self.entities = dict(enumerate(prepared.entities))

    def variable(self, index: int) -> str:
        """A variable with its question mark, and its number where several share its name."""
        names = self.prepared.variables
        return f"?{names[index]}" + (f"#{index}" if names.count(names[index]) > 1 else "")

    def steps(self, node: p.Edge, over: str, loops: _Loops, indent: int) -> Iterator[_Step]:
        """The lines of a node, which is a set of values for the variable `over`."""

        def step(what: str, *rows: tuple[int, int]) -> _Step:
            return _Step(indent, f"{over}: {what}", self.cost(node, rows, loops))

        match node:
            case p.Row(slot, edge):
                name = self.entities[slot]
                yield step(f"from {name} over {self.edge(edge, name, over)}", *[(0, 0)] * _relations(edge))
                yield from self.ends(edge, name, over, loops, indent + 1)
            case p.Project(variable, source, edge):
                name, every = self.variable(variable), isinstance(source, p.Everything)
                rows = [(0, 1) if every else (1, 0)] * _relations(edge)
                yield step(f"from {'every' if every else 'the best'} {name} over {self.edge(edge, name, over)}", *rows)
                if not every:
                    yield from self.steps(source, name, loops, indent + 1)
                yield from self.ends(edge, name, over, loops, indent + 1)
            case p.Loop(relation):
                yield step(f"itself over {self.prepared.relations[relation]}", (0, 0))
            case p.Everything():
                yield step("every entity")
            case p.Is(slot):
                yield step(f"{self.entities[slot]} itself")
            case p.Intersect(parts) | p.Union(parts):
                yield step("all of" if isinstance(node, p.Intersect) else "any of")
                for part in parts:
                    yield from self.steps(part, over, loops, indent + 1)
            case p.Complement(part):
                yield step("not")
                yield from self.steps(part, over, loops, indent + 1)
            case p.At(part, slot):
                yield step(f"whatever it is, how far {self.entities[slot]} fits")
                yield from self.steps(part, self.entities[slot], loops, indent + 1)
            case p.Any(variable, part):
                name = self.variable(variable)
                yield step(f"whatever it is, how far the best {name} fits")
                yield from self.steps(part, name, loops, indent + 1)
            case p.Condition(variable, slot, candidates, body):
                name, every = self.variable(variable), isinstance(candidates, p.Everything)
                self.entities[slot] = name
                yield step(f"the best over {'every' if every else 'the best k'} {name}, tried one by one")
                if not every:
                    yield from self.steps(candidates, name, loops, indent + 1)
                inside = (*loops, (slot, (0, 1) if every else (1, 0)))
                yield from self.steps(body, over, inside, indent + 1)

    def ends(self, edge: p.Edge, source: str, target: str, loops: _Loops, indent: int) -> Iterator[_Step]:
        """The sets an edge asks at its two ends."""
        for part in _inside(edge):
            if isinstance(part, p.Source | p.Target):
                yield from self.steps(part.part, source if isinstance(part, p.Source) else target, loops, indent)

    def edge(self, edge: p.Edge, source: str, target: str) -> str:
        """An edge as a formula over relation names; sets at its ends stand in square brackets, and follow below."""
        match edge:
            case p.Relation(slot, flip):
                return self.prepared.relations[slot] + ("^-1" if flip else "")
            case p.Intersect(parts) | p.Union(parts):
                sign = " & " if isinstance(edge, p.Intersect) else " | "
                return "(" + sign.join(self.edge(part, source, target) for part in parts) + ")"
            case p.Complement(part):
                return f"!{self.edge(part, source, target)}"
            case p.Source():
                return f"[{source}]"
            case _:
                return f"[{target}]"

    def cost(self, node: p.Edge, rows: tuple[tuple[int, int], ...], loops: _Loops) -> Cost:
        """The rows of a step, repeated for every cut variable it depends on."""
        used = set(_slots(node)) if rows and loops else set()
        repeated = [power for slot, power in loops if slot in used]
        times = tuple(sum(powers) for powers in zip(*repeated, strict=True)) if repeated else (0, 0)
        return Cost((k + times[0], n + times[1]) for k, n in rows)


def _inside(edge: p.Edge) -> Iterator[p.Edge]:
    """An edge and the edges it combines."""
    yield edge
    if isinstance(edge, p.Intersect | p.Union):
        for part in edge.parts:
            yield from _inside(part)
    elif isinstance(edge, p.Complement):
        yield from _inside(edge.part)


def _relations(edge: p.Edge) -> int:
    return sum(isinstance(part, p.Relation) for part in _inside(edge))


def _slots(node: object) -> Iterator[int]:
    """The entity slots a node reads, itself or in its parts."""
    if isinstance(node, tuple):
        for part in node:
            yield from _slots(part)
    elif isinstance(node, p.Edge):
        if isinstance(node, p.Row | p.At | p.Is):
            yield node.slot
        for part in fields(node):
            yield from _slots(getattr(node, part.name))


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
