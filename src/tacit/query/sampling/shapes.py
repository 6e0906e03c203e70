"""The shapes of questions: the 14 of the benchmarks, and any other.

A union in a BetaE file may be written as such (`dnf`) or by De Morgan's law, as the complement of
an intersection of complements (`dm`). That is another *encoding* of the same question: shape and
formula are those of the union.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from reprlib import repr as shortened
from typing import Literal

from tacit.errors import DataError, QueryError, SettingsError, UnknownName
from tacit.query.formula import Query
from tacit.query.plans.compile import compile_query, compile_template
from tacit.query.plans.plan import Plan
from tacit.query.sampling.betae_structures import (
    DE_MORGAN,
    STRUCTURES,
    Structure,
    arranged,
    label,
    structure_of_plan,
    template,
    well_formed,
)

Encoding = Literal["dnf", "dm"]

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

        Where BetaE's tuples can say it, it is the shape of its tuple, in whatever order its atoms
        are written and whichever way they point: a relation slot holds inverse relations as well.
        """
        if query.kind != "entities":
            raise QueryError(
                f"'{query}' is no template: one asks for the entities in place of a single variable"
            )
        plan = compile_query(query).plan
        structure = structure_of_plan(plan.root)
        if structure is None:
            return cls(name, query, plan)
        usual = (shape for shape in STRUCTURES.values() if arranged(shape) == arranged(structure))
        return cls.of_structure(next(usual, structure), name)

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
    known = {**{name: (name,) for name in (*SHAPES, *(f"{u}-DM" for u in DE_MORGAN))}, **groups}
    words = names.replace(".", ",").split(",") if isinstance(names, str) else names
    words = list(words) if isinstance(words, Iterable) else [words]
    if not all(isinstance(word, str) for word in words):
        raise SettingsError(f"shapes is {names!r}; it must be names of shapes", "shapes")
    chosen: dict[str, None] = {}
    for word in filter(None, map(str.strip, words)):
        if word not in known:
            raise UnknownName(
                "shape", word, get_close_matches(word, known, n=3, cutoff=0.4) or ("all",)
            )
        chosen.update(dict.fromkeys(known[word]))
    if not chosen:
        raise UnknownName("shape", ",".join(words), ("all", "positive", "negative"))
    return tuple(chosen)


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
