"""Proofs with names in place of ids: the reasons that people read."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tacit.engine.answers.answers import Witness, WitnessAtom, WitnessPart
from tacit.engine.answers.reasons import Proof
from tacit.graph.graph import Graph
from tacit.query.plans.plan import Prepared


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
