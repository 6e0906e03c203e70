"""Reasons for people: proofs with names in place of ids."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tacit.engine.answers.aligned_cells import escape_control_chars
from tacit.engine.answers.evidence import (
    NO_EVIDENCE,
    AtomEvidence,
    Evidence,
    EvidenceFact,
)
from tacit.engine.answers.witness_comparison import WitnessComparison, witness_comparison
from tacit.graph.qualifiers import Statement, in_words

if TYPE_CHECKING:
    from tacit.engine.answers.evidence_finder import EvidenceFinder
    from tacit.engine.search.proofs import Proof
    from tacit.graph.graph import Graph
    from tacit.query.plans.plan import CompiledQuery


@dataclass(frozen=True)
class WitnessAtom:
    """An atom of a witness by names: its score, and whether it is observed or predicted.

    A predicted atom has `evidence`, the rules that speak for it, and `rule_share`, how much of its
    score they carry (None without rules). Where none does, `analogies` are similar known facts. A
    known atom that is no fact of the graph `follows_by` the rule with an id; `statements` say where
    a fact comes from and when it holds.
    """

    subject: str
    relation: str
    object: str
    score: float
    observed: bool
    negated: bool = False
    subject_label: str = ""  # two entities may share a name
    object_label: str = ""
    found: AtomEvidence = NO_EVIDENCE
    follows_by: int | None = None
    statements: tuple[Statement, ...] = ()

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The rules that speak for the atom, or for what it denies."""
        return self.found.rules

    @property
    def analogies(self) -> tuple[EvidenceFact, ...]:
        """The known facts most similar to an atom that no rule speaks for."""
        return self.found.analogies

    @property
    def rule_share(self) -> float | None:
        """How much of the score rules carry, from 0 to 1; None where there are none."""
        return self.found.share

    def to_dict(self) -> dict[str, Any]:
        """The atom as plain data for JSON."""
        absent = {"found", "statements"}
        if self.follows_by is None:
            absent.add("follows_by")
        data = {name: value for name, value in vars(self).items() if name not in absent}
        if self.statements:
            data["statements"] = [statement.to_dict() for statement in self.statements]
        return data | self.found.to_dict()

    def __str__(self) -> str:
        mark = "known" if self.observed else "predicted"
        if self.follows_by is not None:
            mark += f", follows by rule {self.follows_by}"
        if self.statements:
            mark += f", {in_words(self.statements)}"
        atom = f"{'not ' * self.negated}{self.relation}({self.subject}, {self.object})"
        return f"{atom}  {self.score:.3f} {mark}"


@dataclass(frozen=True)
class WitnessPart:
    """A part of a witness: an atom, a comparison, or `and`, `or`, `not` of smaller parts.

    `variables` are those chosen here. Of an `or` the part that `carried` it is the one with the
    highest score; the others were considered, too.
    """

    kind: str  # "atom", "inequality", "comparison", "and", "or", "not" or "true"
    score: float
    parts: tuple[WitnessPart, ...] = ()
    atom: WitnessAtom | None = None
    variables: dict[str, str] = field(default_factory=dict, hash=False)
    carried: bool = True
    text: str = ""  # of an inequality or a comparison
    comparison: WitnessComparison | None = None

    def comparisons(self) -> Iterator[WitnessComparison]:
        """Yield all comparisons below."""
        if self.comparison is not None:
            yield self.comparison
        for part in self.parts:
            yield from part.comparisons()

    def atoms(self) -> Iterator[WitnessAtom]:
        """Yield all atoms below."""
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
        """Whether this is a `not exists`, whose part is the nearest counter-example."""
        return self.kind == "not" and bool(self.parts[0].chosen)

    def lines(self) -> list[tuple[str, bool]]:
        """The part as lines of text, each with whether it carries the answer."""
        if self.atom is not None:
            evidence = [(text, False) for text in self.atom.found.lines(self.atom.negated)]
            return [(str(self.atom), True), *_indented(evidence, False)]
        if self.text:
            return [(self.text, True)]
        if self.kind == "or":
            lines: list[tuple[str, bool]] = []
            for part in sorted(self.parts, key=lambda part: not part.carried):
                inner = part.lines()
                lines += (
                    inner
                    if part.carried
                    else [(f"or {part.score:.3f}", False), *_indented(inner, False)]
                )
            return lines
        if self.counter_example:
            denied = self.parts[0]
            nearest = ", ".join(f"?{name} = {value}" for name, value in denied.chosen.items())
            return [
                (f"nothing found; nearest: {nearest}  {denied.score:.3f}", True),
                *_indented(denied.lines(), True),
            ]
        return [line for part in self.parts for line in part.lines()]

    def to_dict(self) -> dict[str, Any]:
        """The part as plain data for JSON."""
        data: dict[str, Any] = {"kind": self.kind, "score": self.score, "carried": self.carried}
        if self.atom is not None:
            data["atom"] = self.atom.to_dict()
        if self.text:
            data["text"] = self.text
        if self.comparison is not None:
            data["comparison"] = self.comparison.to_dict()
        if self.parts:
            data["parts"] = [part.to_dict() for part in self.parts]
        if self.variables:
            data["variables"] = self.variables
        return data


def _indented(lines: list[tuple[str, bool]], carried: bool) -> list[tuple[str, bool]]:
    return [(f"  {text}", carried and plain) for text, plain in lines]


@dataclass(frozen=True)
class Witness:
    """The entity of every bound variable, and the atoms that make an answer true.

    The first witness of a `known` answer rests on known facts: its predicted atoms are denied, or
    carry nothing.
    """

    score: float
    variables: dict[str, str] = field(hash=False)
    tree: WitnessPart
    # the labels of the variables' entities
    labels: dict[str, str] = field(default_factory=dict, hash=False)
    known: bool = False

    @property
    def atoms(self) -> tuple[WitnessAtom, ...]:
        """All atoms, from left to right."""
        return tuple(self.tree.atoms())

    @property
    def comparisons(self) -> tuple[WitnessComparison, ...]:
        """All comparisons of values, from left to right."""
        return tuple(self.tree.comparisons())

    @property
    def predicted(self) -> int:
        """How many of the atoms and comparisons are predictions."""
        atoms = sum(not atom.observed for atom in self.atoms)
        return atoms + sum(not comparison.observed for comparison in self.comparisons)

    def lines(self) -> list[tuple[str, bool]]:
        """The witness as lines of text, each with whether it carries the answer.

        The last line says how many atoms are predicted.
        """
        lines = [(escape_control_chars(text), carries) for text, carries in self.tree.lines()]
        total = len(self.atoms) + len(self.comparisons)
        if total < 2 or (self.known and self.predicted):
            return lines
        return [*lines, (f"{self.predicted} of {total} atoms predicted", False)]

    def to_dict(self) -> dict[str, Any]:
        """The witness as plain data for JSON."""
        return {
            "score": self.score,
            "variables": self.variables,
            "labels": self.labels,
            "atoms": [atom.to_dict() for atom in self.atoms],
            "facts": len(self.atoms) + len(self.comparisons),
            "predicted": self.predicted,
            "known": self.known,
            "tree": self.tree.to_dict(),
        }


def witness(
    graph: Graph,
    compiled: CompiledQuery,
    proof: Proof,
    known: bool = False,
    finder: EvidenceFinder | None = None,
) -> Witness:
    """Turn a proof into a witness by names; its answer may be `known`.

    The `finder` finds the evidence of predicted atoms, and the compared values.
    """
    names = _distinct_names(compiled.variables)
    entities = graph.entities
    chosen = [(names[v], e) for v, e in sorted(proof.substitution().items())]
    return Witness(
        math.exp(proof.score),
        {variable: entities.name(e) for variable, e in chosen},
        _Naming(graph, names, known, finder).part(proof),
        {variable: entities[e] for variable, e in chosen},
        known,
    )


def _distinct_names(names: Sequence[str]) -> list[str]:
    """Make names of variables distinct: each reuse in another scope gets a prime more.

    >>> _distinct_names(("t", "x", "x"))
    ['t', 'x', "x'"]
    """
    return [name + "'" * names[:place].count(name) for place, name in enumerate(names)]


@dataclass(frozen=True, eq=False)
class _Naming:
    """Turns proofs into parts by names.

    Within a `known` answer, a branch of an `or` that known facts imply carries it.
    """

    graph: Graph
    names: Sequence[str]
    known: bool
    finder: EvidenceFinder | None

    def part(self, proof: Proof, negated: bool = False, carried: bool = True) -> WitnessPart:
        """A proof by names, which may be negated, and may carry the answer."""
        entities = self.graph.entities
        score = math.exp(proof.score)
        text = ""
        if proof.sides is not None:
            text = f"{'not ' * negated}{' != '.join(map(entities.name, proof.sides))}"
        carriers = proof.parts
        if self.known and proof.implied:
            carriers = tuple(part for part in proof.parts if part.implied) or proof.parts
        best = max((part.score for part in carriers), default=0.0)
        flipped = negated ^ (proof.kind == "not")
        parts = []
        for part in proof.parts:
            carries = proof.kind != "or" or (part.score == best and part in carriers)
            parts.append(self.part(part, flipped, carries))
        variables = {self.names[v]: entities.name(e) for v, e in proof.values}
        atom = self.atom(proof, negated)
        comparison = None
        if proof.compared is not None and self.finder is not None:
            values = self.finder.parts.comparisons
            comparison = witness_comparison(self.graph, values, proof, negated)
            text = str(comparison)
        return WitnessPart(
            proof.kind, score, tuple(parts), atom, variables, carried, text, comparison
        )

    def atom(self, proof: Proof, negated: bool) -> WitnessAtom | None:
        """The atom of a proof by names; None where it is joined of smaller proofs."""
        if proof.atom is None:
            return None
        s, r, o = proof.atom
        entities = self.graph.entities
        named = entities.name(s), self.graph.relations.name(r), entities.name(o)
        found = NO_EVIDENCE
        if self.finder is not None and proof.scored is not None and not proof.observed:
            found = self.finder.of(*proof.scored, negated, proof.score)
        rule = None
        statements: tuple[Statement, ...] = ()
        if self.finder is not None and proof.observed:
            parts = self.finder.parts
            rule = parts.deduced_by(s, r, o)
            statements = parts.selected.qualifiers.statements(s, r, o)
        if self.finder is not None and rule is not None:
            found = self.finder.of_deduction(s, r, o, rule)
        labels = entities[s], entities[o]
        score = math.exp(proof.score)
        return WitnessAtom(*named, score, proof.observed, negated, *labels, found, rule, statements)
