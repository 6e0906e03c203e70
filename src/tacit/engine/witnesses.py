"""Proofs with names in place of ids: the reasons that people read."""

from __future__ import annotations

import math

from tacit.engine.answers import Witness, WitnessAtom, WitnessPart
from tacit.engine.reasons import Proof
from tacit.graph.graph import Graph
from tacit.query.plan import Prepared


def witness(graph: Graph, prepared: Prepared, proof: Proof) -> Witness:
    """The entity of every bound variable, and the atoms that make an answer true."""
    name = graph.entities.name
    variables = {prepared.variables[v]: name(e) for v, e in sorted(proof.substitution().items())}
    return Witness(math.exp(proof.score), variables, _part(graph, prepared, proof))


def _part(graph: Graph, prepared: Prepared, proof: Proof, negated: bool = False, carried: bool = True) -> WitnessPart:
    name, atom = graph.entities.name, None
    if proof.atom is not None:
        a = proof.atom
        relation = graph.relations.name(a.relation)
        atom = WitnessAtom(name(a.subject), relation, name(a.object), math.exp(a.score), a.observed, negated)
    best = max((part.score for part in proof.parts), default=0.0)
    parts = tuple(
        _part(graph, prepared, part, negated ^ (proof.kind == "not"), proof.kind != "or" or part.score == best)
        for part in proof.parts
    )
    variables = {prepared.variables[v]: name(e) for v, e in proof.values}
    return WitnessPart(proof.kind, math.exp(proof.score), parts, atom, variables, carried)
