"""The shapes of questions, the 14 of the benchmarks and any other, and BetaE's tuples.

A *structure* is a nested tuple of `'e'`, `'r'`, `'n'` and `'u'`; a *query* is the same tuple with
entity and relation ids in place of `'e'` and `'r'`, -2 in place of `'n'` and -1 in place of `'u'`:

=============================== ==============================================================
`(head, ('r', 'r', 'n'))`       walk two relations from the head, then take the complement
`(part, part, …)`               the intersection of two or more parts
`(part, part, …, ('u',))`       their union
=============================== ==============================================================

A union in a BetaE file may be written as such (`dnf`) or by De Morgan's law, as the complement of
an intersection of complements (`dm`). That is another *encoding* of the same question: shape and
formula are those of the union.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import count
from reprlib import repr as shortened
from typing import Any, Literal

import numpy as np

from tacit.errors import DataError, QueryError, SettingsError, UnknownName
from tacit.graph.fact_index import Ids
from tacit.query.formula import And, Atom, Entity, Exists, Formula, Not, Or, Query, Term, Variable
from tacit.query.plans.compile import compile_query, compile_template
from tacit.query.plans.plan import (
    Complement,
    Intersect,
    Plan,
    Project,
    Relation,
    Row,
    Step,
    Union,
)

Encoding = Literal["dnf", "dm"]
Structure = tuple[Any, ...]

_MARKS = {"u": -1, "n": -2}
# limits of a structure in a file
_MAX_PARTS = 256
_MAX_DEPTH = 16

_P = ("e", ("r",))
_2P = ("e", ("r", "r"))
_N = ("e", ("r", "n"))
_R = ("r",)
_U = ("u",)

STRUCTURES: dict[str, Structure] = {
    "1p": _P,
    "2p": _2P,
    "3p": ("e", ("r", "r", "r")),
    "2i": (_P, _P),
    "3i": (_P, _P, _P),
    "pi": (_2P, _P),
    "ip": ((_P, _P), _R),
    "2u": (_P, _P, _U),
    "up": ((_P, _P, _U), _R),
    "2in": (_P, _N),
    "3in": (_P, _P, _N),
    "inp": ((_P, _N), _R),
    "pin": (_2P, _N),
    "pni": (("e", ("r", "r", "n")), _P),
}
DE_MORGAN: dict[str, Structure] = {
    "2u": ((_N, _N), ("n",)),
    "up": ((_N, _N), ("n", "r")),
}


def label(structure: Any) -> str:
    """A short name for a structure, built from those of the benchmark shapes.

    >>> label(("e", ("r", "r"))), label(("e", ("r", "r", "r", "r")))
    ('2p', '(e,(r,r,r,r))')
    >>> label((("e", ("r", "r")), ("e", ("r", "r"))))
    '(2p,2p)'
    """
    if isinstance(structure, str):
        return structure
    names = (name for name, benchmark in STRUCTURES.items() if benchmark == structure)
    return next(names, None) or f"({','.join(map(label, structure))})"


def template(structure: Structure) -> Query:
    """The formula of a structure, its names `e1, e2, …` and `r1, r2, …` in BetaE's order."""
    entities, relations, variables = (map(f"{kind}{{}}".format, count(1)) for kind in "erv")

    def walk(part: Any, term: Term) -> Formula:
        if not _is_walk(part):
            parts = tuple(walk(inner, term) for inner in part if inner != ("u",))
            return Or(parts) if part[-1] == ("u",) else And(parts)
        head, steps = part
        if steps == ("r",) and head == "e":
            start = Entity(next(entities))
            return Atom(next(relations), start, term)
        source_part = (head, steps[:-1]) if steps[1:] else head
        if steps[-1] == "n":
            return Not(walk(source_part, term))
        between = Variable(next(variables))
        source = walk(source_part, between)
        return Exists(between, source & Atom(next(relations), between, term))

    target = Variable("t")
    return Query(target, walk(structure, target))


def _is_walk(part: Any) -> bool:
    return len(part) == 2 and part[1] != ("u",) and all(step in ("r", "n") for step in part[1])


def structure_of(step: Step) -> Structure | None:
    """The BetaE structure of a plan step, or None; relations may run either way."""
    match step:
        case Row(_, Relation()):
            return STRUCTURES["1p"]
        case Project(_, part, Relation()) | Complement(part):
            inner = structure_of(part)
            mark = "n" if isinstance(step, Complement) else "r"
            if inner is None:
                return None
            return (inner[0], (*inner[1], mark)) if _is_walk(inner) else (inner, (mark,))
        case Intersect(parts) | Union(parts):
            structures = tuple(map(structure_of, parts))
            marks = (_U,) if isinstance(step, Union) else ()
            return None if None in structures else (*structures, *marks)
    return None


def arranged(structure: Any) -> Any:
    """A structure with its parts in canonical order.

    >>> arranged(STRUCTURES["pi"]) == arranged((STRUCTURES["1p"], STRUCTURES["2p"]))
    True
    """
    if isinstance(structure, str):
        return structure
    if _is_walk(structure):
        return arranged(structure[0]), structure[1]
    return tuple(
        sorted((part if part == ("u",) else arranged(part) for part in structure), key=repr)
    )


def well_formed(structure: Any) -> bool:
    """Whether a value is a structure of bounded size: a walk or several structures.

    A walk starts from an entity or a structure. A small file may repeat one part thousands of
    times, so that parts are counted.
    """
    budget = _MAX_PARTS

    def check(part: Any, depth: int) -> bool:
        nonlocal budget
        budget -= len(part) if isinstance(part, tuple) else 1
        if budget < 0 or not depth or not isinstance(part, tuple) or len(part) < 2:
            return False
        if not all(isinstance(inner, tuple) for inner in part[1:]):
            return False
        if _is_walk(part):
            budget -= len(part[1])
            starts = part[0] == "e" and part[1][:1] == ("r",)
            return len(part[1]) >= 1 and budget >= 0 and (starts or check(part[0], depth - 1))
        parts = part[:-1] if part[-1] == ("u",) else part
        return len(parts) >= 2 and all(check(inner, depth - 1) for inner in parts)

    return check(structure, _MAX_DEPTH)


def from_tuples(queries: Iterable[Any], structure: Structure) -> tuple[Ids, Ids]:
    """The entities `[Q, E]` and relations `[Q, R]` of BetaE queries of one structure."""
    columns: dict[str, list[Ids]] = {"e": [], "r": []}
    for mark, values in _columns(structure, list(queries)):
        # Nested lists would be arrays of many dimensions, with more values than memory.
        ids = np.array(values if set(map(type, values)) <= {int} else [None])
        if ids.dtype.kind != "i":
            raise DataError(
                f"the queries of {label(structure)} hold something other than whole numbers"
            )
        if mark in _MARKS:
            invalid = ids != _MARKS[mark]
        else:
            invalid = (ids < 0) | (ids > np.iinfo(np.int32).max)
            columns[mark].append(ids.astype(np.int32))
        if invalid.any():
            raise DataError(
                f"a query of {label(structure)} holds {ids[invalid][0]} in place of '{mark}'"
            )
    return np.stack(columns["e"], axis=1), np.stack(columns["r"], axis=1)


def _columns(
    structure: Any, queries: list[Any] | tuple[Any, ...]
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Each mark of a structure with its values, by transposing level after level."""
    if isinstance(structure, str):
        yield structure, tuple(queries)
        return
    try:
        inner = list(zip(*queries, strict=True))
    except (TypeError, ValueError):
        inner = []
    if len(inner) != len(structure):
        raise DataError(f"a query does not have the structure {structure} it is listed under")
    for part, column in zip(structure, inner, strict=True):
        yield from _columns(part, column)


def to_tuples(structure: Structure, entities: Ids, relations: Ids) -> list[Any]:
    """BetaE queries of one structure, from the ids in its slots."""
    slots = {"e": iter(entities.T.tolist()), "r": iter(relations.T.tolist())}

    def column(part: Any) -> list[Any]:
        if isinstance(part, str):
            return [_MARKS[part]] * len(entities) if part in _MARKS else next(slots[part])
        return list(zip(*map(column, part), strict=True))

    return column(structure)


POSITIVE = ("1p", "2p", "3p", "2i", "3i", "pi", "ip", "2u", "up")
NEGATIVE = ("2in", "3in", "inp", "pin", "pni")


@dataclass(frozen=True)
class Shape:
    """A question with slots: any names may replace those of `query`.

    >>> print(SHAPES["2p"].query)
    ?t : exists ?v1 . r1(e1, ?v1) & r2(?v1, ?t)
    >>> print(SHAPES["pni"].query)
    ?t : !(exists ?v1 . r1(e1, ?v1) & r2(?v1, ?t)) & r3(e2, ?t)
    """

    name: str
    query: Query = field(repr=False)
    plan: Plan = field(repr=False)
    # None where BetaE's tuples cannot say it
    structure: Structure | None = field(repr=False, default=None)

    @property
    def num_entities(self) -> int:
        """How many entity slots a query of this shape fills."""
        return self.plan.num_entities

    @property
    def num_relations(self) -> int:
        """How many relation slots a query of this shape fills."""
        return self.plan.num_relations

    @classmethod
    def of(cls, name: str, query: Query) -> Shape:
        """The shape of a question: every occurrence of an entity or relation becomes a slot.

        If BetaE's tuples can express it, it is the shape of that tuple: the order of its atoms does
        not matter, nor their direction, since a relation slot holds inverse relations as well.
        """
        if query.kind != "entities":
            raise QueryError(
                f"'{query}' is no template: one asks for the entities in place of a single variable"
            )
        plan = compile_query(query).plan
        structure = structure_of(plan.root)
        if structure is None:
            return cls(name, query, plan)
        for benchmark in STRUCTURES.values():
            if arranged(benchmark) == arranged(structure):
                return cls.of_structure(benchmark, name)
        return cls.of_structure(structure, name)

    @classmethod
    def of_structure(cls, structure: Structure, name: str | None = None) -> Shape:
        """The shape of a BetaE structure."""
        query = template(structure)
        return cls(name or label(structure), query, compile_template(query).plan, structure)

    def encoded(self, encoding: Encoding = "dnf") -> Structure:
        """The BetaE structure that writes this shape in an encoding."""
        structure = self.structure if encoding == "dnf" else DE_MORGAN.get(self.name)
        if structure is None:
            kind = "BetaE tuples" if encoding == "dnf" else "De Morgan's form"
            raise DataError(f"shape '{self.name}' cannot be written as {kind}")
        return structure


SHAPES: dict[str, Shape] = {
    name: Shape.of_structure(betae, name) for name, betae in STRUCTURES.items()
}


def parse_shapes(names: str | Iterable[str]) -> tuple[str, ...]:
    """Parses shape names separated by commas or dots; `all`, `positive`, `negative` expand.

    >>> parse_shapes("2i,3i.2in"), parse_shapes("negative")
    (('2i', '3i', '2in'), ('2in', '3in', 'inp', 'pin', 'pni'))
    """
    groups = {"all": (*POSITIVE, *NEGATIVE), "positive": POSITIVE, "negative": NEGATIVE}
    expansions = {name: (name,) for name in (*SHAPES, *(f"{u}-DM" for u in DE_MORGAN))} | groups
    words = names.replace(".", ",").split(",") if isinstance(names, str) else names
    words = list(words) if isinstance(words, Iterable) else [words]
    if not all(isinstance(word, str) for word in words):
        raise SettingsError(f"shapes is {names!r}; it must be names of shapes", "shapes")
    shapes: dict[str, None] = {}
    for word in filter(None, map(str.strip, words)):
        if word not in expansions:
            raise UnknownName(
                "shape", word, get_close_matches(word, expansions, n=3, cutoff=0.4) or ("all",)
            )
        shapes.update(dict.fromkeys(expansions[word]))
    if not shapes:
        raise UnknownName("shape", ",".join(words), tuple(groups))
    return tuple(shapes)


def shape_of(structure: Structure) -> tuple[Shape, Encoding]:
    """The shape that a BetaE structure writes, and the encoding it uses."""
    for name, shape in SHAPES.items():
        if structure == shape.structure:
            return shape, "dnf"
        if structure == DE_MORGAN.get(name):
            return shape, "dm"
    if not well_formed(structure):
        raise DataError(
            f"{shortened(structure)[:120]} is no BetaE query structure; one looks like "
            f"{STRUCTURES['2i']}"
        )
    return Shape.of_structure(structure), "dnf"
