"""Numbers and dates that stand where entities are expected: a link predictor sees a name in each, and no size."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.graph.graph import Graph

ADVICE = (
    "A link predictor learns nothing from the size of a number or date. Leave such facts out, or replace values "
    "by ranges that many facts share (1980s, 10-20)."
)
KINDS = ("numbers", "dates")
_SHARED = 10  # facts a value has on average from which it says as much as another entity
_MOSTLY = 0.5  # of a relation's facts end in values
_EXAMPLES = 3
_NUMBER = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:,\d{3})+)?(?:\.\d*)?(?:[eE][+-]?\d+)?%?")
_TIME = r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?(?:Z|[+-]\d{2}:\d{2})?"
_DATE = re.compile(
    rf"-?\d{{4,}}-\d{{2}}(?:-\d{{2}}{_TIME})?|\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}|\d{{4}}/\d{{1,2}}/\d{{1,2}}"
)
_LITERAL = re.compile(r'"(.*)"(?:\^\^(.*))?', re.DOTALL)
_DATED = re.compile(r".*\b(?:date|dateTime|dateTimeStamp|gYear|gYearMonth)>?")  # datatypes of XML Schema


@dataclass(frozen=True)
class ValueRelation:
    """A relation most of whose facts end, or begin, in numbers or in dates."""

    relation: str
    end: str  # head or tail
    kind: str
    facts: int
    distinct: int
    examples: tuple[str, ...]
    shared: bool  # whether a value has facts enough to be an entity like any other


def values(graph: Graph) -> tuple[ValueRelation, ...]:
    """The relations of a graph that have numbers or dates for entities, those with most of them first.

    Where both ends of a fact are numbers, or a number has facts of its own, it is an identifier.
    """
    kinds = np.fromiter((_kind(label) for label in graph.entities), np.int8, graph.num_entities)
    facts = graph.facts()
    if not kinds.any():
        return ()
    total = np.bincount(facts[:, 1], minlength=graph.num_relations)
    valued_relations = []
    for end, near, far in (("tail", 2, 0), ("head", 0, 2)):
        own = np.zeros(graph.num_entities, dtype=bool)
        own[facts[:, far]] = True
        for number, kind in enumerate(KINDS, start=1):
            valued = facts[(kinds[facts[:, near]] == number) & (kinds[facts[:, far]] == 0) & ~own[facts[:, near]]]
            counts = np.bincount(valued[:, 1], minlength=graph.num_relations)
            for relation in np.flatnonzero((counts > 0) & (counts >= _MOSTLY * total)):
                ids: NDArray[np.int32] = valued[valued[:, 1] == relation][:, near]
                distinct = list(dict.fromkeys(ids.tolist()))
                examples = tuple(graph.entities[i] for i in distinct[:_EXAMPLES])
                sizes = len(ids), len(distinct)
                shared = sizes[0] >= _SHARED * sizes[1]
                valued_relations.append(ValueRelation(graph.relations[relation], end, kind, *sizes, examples, shared))
    return tuple(sorted(valued_relations, key=lambda values: -values.facts))


def _kind(label: str) -> int:
    """1 for a number, 2 for a date, 0 for anything else.

    >>> [_kind(label) for label in ("1984", "-3.5e2", "2024-05-01", '"1984"^^xsd:gYear', "Boeing 747", '"7"@en')]
    [1, 1, 2, 2, 0, 0]
    """
    literal = _LITERAL.fullmatch(label) if label[:1] == '"' else None
    text, datatype = (literal[1], literal[2] or "") if literal else (label, "")
    if _DATE.fullmatch(text) or _DATED.fullmatch(datatype):
        return 2
    return int(any(map(str.isdecimal, text[:3])) and _NUMBER.fullmatch(text) is not None)
