"""BetaE's nested tuples: the structure of a query, and the ids that fill it.

A *structure* is a nested tuple of `'e'`, `'r'`, `'n'` and `'u'`; a *query* is the same tuple with
entity and relation ids in place of `'e'` and `'r'`, -2 in place of `'n'` and -1 in place of `'u'`:

=============================== ==============================================================
`(head, ('r', 'r', 'n'))`       walk two relations from the head, then take the complement
`(part, part, …)`               the intersection of two or more parts
`(part, part, …, ('u',))`       their union
=============================== ==============================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError
from tacit.query.formula import And, Atom, Entity, Exists, Formula, Not, Or, Query, Term, Variable
from tacit.query.plans.fold import EvalContext, Visitor
from tacit.query.plans.plan import Complement, Intersect, Project, Relation, Row, Step, Union

Structure = tuple[Any, ...]
Ids = NDArray[np.int32]

UNION = -1
NEGATION = -2
_MARKS = {"u": UNION, "n": NEGATION}
# of a structure in a file
_MOST_PARTS = 256
_DEEPEST = 16

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


def label(structure: Any) -> str:
    """A short name for a structure, built from those of the benchmark shapes.

    >>> label(("e", ("r", "r"))), label(("e", ("r", "r", "r", "r")))
    ('2p', '(e,(r,r,r,r))')
    >>> label((("e", ("r", "r")), ("e", ("r", "r"))))
    '(2p,2p)'
    """
    if isinstance(structure, str):
        return structure
    known = (name for name, shape in STRUCTURES.items() if shape == structure)
    return next(known, None) or "(" + ",".join(map(label, structure)) + ")"


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


def structure_of_plan(node: Step) -> Structure | None:
    """The BetaE structure of a plan, or None; relations may run either way."""
    return _Structures().of(node)


class _Structures(Visitor[None, Structure | None]):
    """Evaluates plain steps to their structures, and all other steps to None."""

    def row(self, step: Row, place: EvalContext[None]) -> Structure | None:
        return ("e", ("r",)) if isinstance(step.edge, Relation) else None

    def project(self, step: Project, place: EvalContext[None]) -> Structure | None:
        return self._extended(step.source, "r") if isinstance(step.edge, Relation) else None

    def complement(self, step: Complement[Step], place: EvalContext[None]) -> Structure | None:
        return self._extended(step.part, "n")

    def intersect(self, step: Intersect[Step], place: EvalContext[None]) -> Structure | None:
        return self._joined(step.parts)

    def union(self, step: Union[Step], place: EvalContext[None]) -> Structure | None:
        return self._joined(step.parts, ("u",))

    def generic_visit(self, step: Step, place: EvalContext[None]) -> None:
        return None

    def _joined(self, parts: Iterable[Step], *mark: Structure) -> Structure | None:
        inner = tuple(map(self.of, parts))
        return None if None in inner else (*inner, *mark)

    def _extended(self, part: Step, mark: str) -> Structure | None:
        inner = self.of(part)
        if inner is None:
            return None
        return (inner[0], (*inner[1], mark)) if _is_walk(inner) else (inner, (mark,))


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

    A walk starts from an entity or a structure.

    Parts are counted on the way: what is small in a file may be one part named thousands of times.
    """
    left = _MOST_PARTS

    def is_whole(part: Any, depth: int) -> bool:
        nonlocal left
        left -= len(part) if isinstance(part, tuple) else 1
        if left < 0 or not depth or not isinstance(part, tuple) or len(part) < 2:
            return False
        if not all(isinstance(inner, tuple) for inner in part[1:]):
            return False
        if _is_walk(part):
            left -= len(part[1])
            starts = part[0] == "e" and part[1][:1] == ("r",)
            return len(part[1]) >= 1 and left >= 0 and (starts or is_whole(part[0], depth - 1))
        parts = part[:-1] if part[-1] == ("u",) else part
        return len(parts) >= 2 and all(is_whole(inner, depth - 1) for inner in parts)

    return is_whole(structure, _DEEPEST)


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
            wrong = ids != _MARKS[mark]
        else:
            wrong = (ids < 0) | (ids > np.iinfo(np.int32).max)
            columns[mark].append(ids.astype(np.int32))
        if wrong.any():
            raise DataError(
                f"a query of {label(structure)} holds {ids[wrong][0]} in place of '{mark}'"
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
