"""Why an answer came, for people: proofs with names in place of ids."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tacit.engine.answers.aligned_cells import harmless

if TYPE_CHECKING:
    from tacit.engine.answers.reasons import Proof
    from tacit.graph.graph import Graph
    from tacit.query.plans.plan import Prepared


@dataclass(frozen=True)
class WitnessAtom:
    """One atom of a witness, by names: its score, and whether it is an observed fact or a prediction."""

    subject: str
    relation: str
    object: str
    score: float
    observed: bool
    negated: bool = False
    subject_label: str = ""  # where names are shown, two entities may have the same one
    object_label: str = ""

    def __str__(self) -> str:
        mark = "known" if self.observed else "predicted"
        return (
            f"{'not ' if self.negated else ''}{self.relation}({self.subject}, {self.object})  {self.score:.3f} {mark}"
        )


@dataclass(frozen=True)
class WitnessPart:
    """A part of a witness: an atom, or `and`, `or`, `not` of smaller parts, with the variables that were chosen here.

    Of an `or` the part that `carried` it is the one with the highest score; the others are what else was considered.
    """

    kind: str  # "atom", "and", "or", "not" or "true"
    score: float
    parts: tuple[WitnessPart, ...] = ()
    atom: WitnessAtom | None = None
    variables: dict[str, str] = field(default_factory=dict)
    carried: bool = True

    def atoms(self) -> Iterator[WitnessAtom]:
        """All atoms below."""
        if self.atom is not None:
            yield self.atom
        for part in self.parts:
            yield from part.atoms()

    @property
    def chosen(self) -> dict[str, str]:
        """The entity of every variable bound in this part."""
        values = dict(self.variables)
        for part in self.parts:
            values |= part.chosen
        return values

    @property
    def counter_example(self) -> bool:
        """Whether this is a `not exists`: its part is then the candidate that comes nearest to what is denied."""
        return self.kind == "not" and bool(self.parts[0].chosen)

    def lines(self) -> list[tuple[str, bool]]:
        """The part for people: lines, each with whether it carries the answer."""
        if self.atom is not None:
            return [(str(self.atom), True)]
        if self.kind == "or":
            told: list[tuple[str, bool]] = []
            for part in sorted(self.parts, key=lambda part: not part.carried):
                inner = part.lines()
                told += inner if part.carried else [(f"or {part.score:.3f}", False), *_indented(inner, False)]
            return told
        if self.counter_example:
            denied = self.parts[0]
            nearest = ", ".join(f"?{name} = {value}" for name, value in denied.chosen.items())
            return [(f"nothing found; nearest: {nearest}  {denied.score:.3f}", True), *_indented(denied.lines(), True)]
        return [line for part in self.parts for line in part.lines()]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as JSON needs it."""
        data: dict[str, Any] = {"kind": self.kind, "score": self.score, "carried": self.carried}
        if self.atom is not None:
            data["atom"] = vars(self.atom) | {}
        if self.parts:
            data["parts"] = [part.to_dict() for part in self.parts]
        if self.variables:
            data["variables"] = self.variables
        return data


def _indented(lines: list[tuple[str, bool]], carried: bool) -> list[tuple[str, bool]]:
    return [(f"  {text}", carried and plain) for text, plain in lines]


@dataclass(frozen=True)
class Witness:
    """The entity of every bound variable, and the atoms that make an answer true."""

    score: float
    variables: dict[str, str]
    tree: WitnessPart
    labels: dict[str, str] = field(default_factory=dict)  # of the variables, which go by names

    @property
    def atoms(self) -> tuple[WitnessAtom, ...]:
        """All atoms, from left to right."""
        return tuple(self.tree.atoms())

    @property
    def predicted(self) -> int:
        """How many of the atoms are predictions."""
        return sum(not atom.observed for atom in self.atoms)

    def lines(self) -> list[tuple[str, bool]]:
        """The witness for people: lines, each with whether it carries the answer, and what share is predicted."""
        lines, total = [(harmless(text), carries) for text, carries in self.tree.lines()], len(self.atoms)
        return [*lines, (f"{self.predicted} of {total} atoms predicted", False)] if total > 1 else lines

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as JSON needs it."""
        return {
            "score": self.score,
            "variables": self.variables,
            "labels": self.labels,
            "atoms": [vars(atom) | {} for atom in self.atoms],
            "facts": len(self.atoms),
            "predicted": self.predicted,
            "tree": self.tree.to_dict(),
        }


def witness(graph: Graph, prepared: Prepared, proof: Proof) -> Witness:
    """The entity of every bound variable, and the atoms that make an answer true."""
    names = apart(prepared.variables)
    chosen = [(names[v], e) for v, e in sorted(proof.substitution().items())]
    readable = {variable: graph.entities.name(e) for variable, e in chosen}
    labels = {variable: graph.entities[e] for variable, e in chosen}
    return Witness(math.exp(proof.score), readable, _part(graph, names, proof), labels)


def apart(names: Sequence[str]) -> list[str]:
    """Names of variables, with a stroke more each time that one is bound again in a scope of its own.

    >>> apart(("t", "x", "x"))
    ['t', 'x', "x'"]
    """
    return [name + "'" * names[:place].count(name) for place, name in enumerate(names)]


def _part(graph: Graph, names: Sequence[str], proof: Proof, negated: bool = False, carried: bool = True) -> WitnessPart:
    entities, atom = graph.entities, None
    if proof.atom is not None:
        s, r, o = proof.atom
        named = entities.name(s), graph.relations.name(r), entities.name(o)
        atom = WitnessAtom(*named, math.exp(proof.score), proof.observed, negated, entities[s], entities[o])
    best = max((part.score for part in proof.parts), default=0.0)
    parts = tuple(
        _part(graph, names, part, negated ^ (proof.kind == "not"), proof.kind != "or" or part.score == best)
        for part in proof.parts
    )
    variables = {names[v]: entities.name(e) for v, e in proof.values}
    return WitnessPart(proof.kind, math.exp(proof.score), parts, atom, variables, carried)
