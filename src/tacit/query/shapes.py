"""The shapes of questions: the 14 benchmark structures, any template, and BetaE's nested tuples.

A BetaE *structure* is a nested tuple of `'e'`, `'r'`, `'n'` and `'u'`; a BetaE *query* is the same tuple with entity
and relation ids in place of `'e'` and `'r'`, -2 in place of `'n'` and -1 in place of `'u'`:

=============================== ==============================================================
`(head, ('r', 'r', 'n'))`       walk two relations from the head, then take the complement
`(part, part, …)`               the intersection of two or more parts
`(part, part, …, ('u',))`       their union
=============================== ==============================================================

A union may also be written by De Morgan's law, as the complement of an intersection of complements. That is another
*encoding* of the same question: shape and formula are those of the union.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import count
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError, UnknownName
from tacit.query import plan as plans
from tacit.query.formula import And, Atom, Entity, Exists, Formula, Not, Or, Query, Term, Variable

Structure = tuple[Any, ...]
Encoding = Literal["dnf", "dm"]
Ids = NDArray[np.int32]

UNION, NEGATION = -1, -2
_MARKS = {"u": UNION, "n": NEGATION}

STRUCTURES: dict[str, Structure] = {
    "1p": ("e", ("r",)),
    "2p": ("e", ("r", "r")),
    "3p": ("e", ("r", "r", "r")),
    "2i": (("e", ("r",)), ("e", ("r",))),
    "3i": (("e", ("r",)), ("e", ("r",)), ("e", ("r",))),
    "pi": (("e", ("r", "r")), ("e", ("r",))),
    "ip": ((("e", ("r",)), ("e", ("r",))), ("r",)),
    "2u": (("e", ("r",)), ("e", ("r",)), ("u",)),
    "up": ((("e", ("r",)), ("e", ("r",)), ("u",)), ("r",)),
    "2in": (("e", ("r",)), ("e", ("r", "n"))),
    "3in": (("e", ("r",)), ("e", ("r",)), ("e", ("r", "n"))),
    "inp": ((("e", ("r",)), ("e", ("r", "n"))), ("r",)),
    "pin": (("e", ("r", "r")), ("e", ("r", "n"))),
    "pni": (("e", ("r", "r", "n")), ("e", ("r",))),
}
DE_MORGAN: dict[str, Structure] = {
    "2u": ((("e", ("r", "n")), ("e", ("r", "n"))), ("n",)),
    "up": ((("e", ("r", "n")), ("e", ("r", "n"))), ("n", "r")),
}
POSITIVE = ("1p", "2p", "3p", "2i", "3i", "pi", "ip", "2u", "up")
NEGATIVE = ("2in", "3in", "inp", "pin", "pni")


@dataclass(frozen=True)
class Shape:
    """A question with slots: entity and relation names of `query` stand for whatever fills the plan's slots.

    >>> print(SHAPES["2p"].query)
    ?t : exists ?v1 . r1(e1, ?v1) & r2(?v1, ?t)
    >>> print(SHAPES["pni"].query)
    ?t : !(exists ?v1 . r1(e1, ?v1) & r2(?v1, ?t)) & r3(e2, ?t)
    """

    name: str
    query: Query = field(repr=False)
    plan: plans.Plan = field(repr=False)
    structure: Structure | None = field(repr=False, default=None)  # None where BetaE's tuples cannot say it

    @property
    def num_entities(self) -> int:
        """How many entity slots a query of this shape fills."""
        return self.plan.num_entities

    @property
    def num_relations(self) -> int:
        """How many relation slots a query of this shape fills."""
        return self.plan.num_relations

    @classmethod
    def of_structure(cls, structure: Structure, name: str | None = None) -> Shape:
        """The shape of a BetaE structure."""
        return cls(name or label(structure), template(structure), _plan(structure), structure)

    def encoded(self, encoding: Encoding = "dnf") -> Structure:
        """The BetaE structure that writes this shape in an encoding."""
        structure = self.structure if encoding == "dnf" else DE_MORGAN.get(self.name)
        if structure is None:
            kind = "BetaE tuples" if encoding == "dnf" else "De Morgan's form"
            raise DataError(f"shape '{self.name}' cannot be written as {kind}")
        return structure


def template(structure: Structure) -> Query:
    """The formula of a structure, with names `e1, e2, …` and `r1, r2, …` in BetaE's order of slots."""
    entities, relations, variables = (map(f"{kind}{{}}".format, count(1)) for kind in "erv")

    def walk(part: Any, term: Term) -> Formula:
        if not _is_walk(part):
            parts = tuple(walk(inner, term) for inner in part if inner != ("u",))
            return Or(parts) if part[-1] == ("u",) else And(parts)
        head, steps = part
        if steps == ("r",) and head == "e":
            start = Entity(next(entities))
            return Atom(next(relations), start, term)
        rest = (head, steps[:-1]) if steps[1:] else head
        if steps[-1] == "n":
            return Not(walk(rest, term))
        between = Variable(next(variables))
        source = walk(rest, between)
        return Exists(between, source & Atom(next(relations), between, term))

    target = Variable("t")
    return Query(target, walk(structure, target))


def _is_walk(part: Any) -> bool:
    return len(part) == 2 and part[1] != ("u",) and all(step in ("r", "n") for step in part[1])


def _plan(structure: Structure) -> plans.Plan:
    entities, relations, variables = count(), count(), count(1)

    def walk(part: Any) -> plans.Node:
        if not _is_walk(part):
            parts = tuple(walk(inner) for inner in part if inner != ("u",))
            return plans.Union(parts) if part[-1] == ("u",) else plans.Intersect(parts)
        head, steps = part
        if steps == ("r",) and head == "e":
            return plans.Row(next(entities), plans.Relation(next(relations)))
        rest = (head, steps[:-1]) if steps[1:] else head
        if steps[-1] == "n":
            return plans.Complement(walk(rest))
        variable, source = next(variables), walk(rest)
        return plans.Project(variable, source, plans.Relation(next(relations)))

    return plans.Plan(walk(structure), next(entities), next(relations), next(variables))


def label(structure: Any) -> str:
    """A short name for a structure, built from those of the benchmark shapes.

    >>> label(("e", ("r", "r"))), label(("e", ("r", "r", "r", "r"))), label((("e", ("r", "r")), ("e", ("r", "r"))))
    ('2p', '(e,(r,r,r,r))', '(2p,2p)')
    """
    if isinstance(structure, str):
        return structure
    known = (name for name, one in STRUCTURES.items() if one == structure)
    return next(known, None) or "(" + ",".join(map(label, structure)) + ")"


SHAPES: dict[str, Shape] = {name: Shape.of_structure(one, name) for name, one in STRUCTURES.items()}


def parse_shapes(names: str | Iterable[str]) -> tuple[str, ...]:
    """Shape names from a list written with commas or dots; `all`, `positive` and `negative` stand for several.

    >>> parse_shapes("2i,3i.2in"), parse_shapes("negative")
    (('2i', '3i', '2in'), ('2in', '3in', 'inp', 'pin', 'pni'))
    """
    groups = {"all": (*POSITIVE, *NEGATIVE), "positive": POSITIVE, "negative": NEGATIVE}
    known = {**{name: (name,) for name in (*SHAPES, *(f"{u}-DM" for u in DE_MORGAN))}, **groups}
    words = names.replace(".", ",").split(",") if isinstance(names, str) else list(names)
    found: dict[str, None] = {}
    for word in filter(None, map(str.strip, words)):
        if word not in known:
            raise UnknownName("shape", word, get_close_matches(word, known, n=3, cutoff=0.4) or ("all",))
        found.update(dict.fromkeys(known[word]))
    if not found:
        raise UnknownName("shape", ",".join(words), ("all", "positive", "negative"))
    return tuple(found)


def shape_of(structure: Structure) -> tuple[Shape, Encoding]:
    """The shape that a BetaE structure writes, and the encoding it uses."""
    for name, shape in SHAPES.items():
        if structure == shape.structure:
            return shape, "dnf"
        if structure == DE_MORGAN.get(name):
            return shape, "dm"
    if not _well_formed(structure):
        raise DataError(f"{str(structure)[:120]} is no BetaE query structure; one looks like {STRUCTURES['2i']}")
    return Shape.of_structure(structure), "dnf"


def _well_formed(part: Any, depth: int = 16) -> bool:
    """Whether a value is a structure: a walk from an entity or a structure, or several structures, within reason."""
    if not depth or not isinstance(part, tuple) or not 2 <= len(part) <= 64:
        return False
    if not all(isinstance(inner, tuple) for inner in part[1:]):
        return False
    if _is_walk(part):
        starts = part[0] == "e" and part[1][:1] == ("r",)
        return 1 <= len(part[1]) <= 64 and (starts or _well_formed(part[0], depth - 1))
    parts = part[:-1] if part[-1] == ("u",) else part
    return len(parts) >= 2 and all(_well_formed(inner, depth - 1) for inner in parts)


def structure_of(query: Any) -> Structure:
    """The structure of one BetaE query.

    >>> structure_of(((7, (0,)), (9, (3, -2)))) == STRUCTURES["2in"]
    True
    """
    if isinstance(query, tuple) and query and all(type(step) is int for step in query):
        return tuple("u" if step == UNION else "n" if step == NEGATION else "r" for step in query)
    if isinstance(query, tuple) and query:
        return tuple("e" if type(part) is int else structure_of(part) for part in query)
    raise DataError(f"{str(query)[:120]} is no BetaE query; one looks like {((7, (0,)), (9, (3, NEGATION)))}")


def from_tuples(queries: Iterable[Any], structure: Structure) -> tuple[Ids, Ids]:
    """The entities `[Q, E]` and relations `[Q, R]` of BetaE queries of one structure."""
    columns: dict[str, list[Ids]] = {"e": [], "r": []}
    for mark, values in _columns(structure, list(queries)):
        ids = np.array(values)
        if ids.dtype.kind != "i":
            raise DataError(f"the queries of {label(structure)} hold something other than whole numbers")
        if mark in _MARKS:
            wrong = ids != _MARKS[mark]
        else:
            wrong = (ids < 0) | (ids > np.iinfo(np.int32).max)
            columns[mark].append(ids.astype(np.int32))
        if wrong.any():
            raise DataError(f"a query of {label(structure)} holds {ids[wrong][0]} in place of '{mark}'")
    return np.stack(columns["e"], axis=1), np.stack(columns["r"], axis=1)


def _columns(structure: Any, queries: list[Any] | tuple[Any, ...]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Each mark of a structure with the values that stand in its place, by transposing level after level."""
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
    """BetaE queries of one structure from the ids that fill its slots."""
    slots = {"e": iter(entities.T.tolist()), "r": iter(relations.T.tolist())}

    def column(part: Any) -> list[Any]:
        if isinstance(part, str):
            return [_MARKS[part]] * len(entities) if part in _MARKS else next(slots[part])
        return list(zip(*map(column, part), strict=True))

    return column(structure)


def from_tuple(query: Any) -> tuple[Shape, tuple[int, ...], tuple[int, ...], Encoding]:
    """The shape, entities, relations and encoding of one BetaE query.

    >>> from_tuple((7, (0, 3)))[1:]
    ((7,), (0, 3), 'dnf')
    """
    structure = structure_of(query)
    shape, encoding = shape_of(structure)
    entities, relations = from_tuples([query], structure)
    return shape, tuple(entities[0].tolist()), tuple(relations[0].tolist()), encoding


def to_tuple(shape: Shape, entities: Iterable[int], relations: Iterable[int], encoding: Encoding = "dnf") -> Any:
    """One BetaE query: the inverse of `from_tuple`."""
    rows = (np.array([list(ids)], dtype=np.int32) for ids in (entities, relations))
    return to_tuples(shape.encoded(encoding), *rows)[0]
