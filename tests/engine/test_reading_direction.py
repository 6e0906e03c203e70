"""Atoms are read towards the answer, with scores that differ by direction.

Where a variable has to be tried value by value (in a cycle, or where a negation ties three
variables together), it counts as given, and which one that is depends on the question alone; the
definition here is that of all others.
"""

from __future__ import annotations

from functools import reduce
from random import Random

import numpy as np
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bruteforce import LOGICS, Values
from formulas import ENTITIES, RELATIONS, queries
from seeds import seeds
from tables import TableScorer
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import CALIBRATIONS, calibration
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.logic import Logic
from tacit.engine.search.message_reasoner import MessageReasoner
from tacit.graph.fact_index import FactIndex
from tacit.query.formula import (
    And,
    Atom,
    Entity,
    Exists,
    Formula,
    Inequality,
    Not,
    Or,
    Query,
    Variable,
    leaves,
)
from tacit.query.plans.compile import compile_query
from tacit.query.plans.plan import Cutset
from tacit.query.text import parse
from writings import cycles, rewritten

SIZE = 5


class TwoWayScorer(TableScorer):
    """Logits of every relation and of its inverse, drawn apart from each other."""

    def __init__(self, seed: int) -> None:
        self._logits = 3 * torch.randn(
            2 * len(RELATIONS), SIZE, SIZE, generator=torch.Generator().manual_seed(seed)
        )
        self.num_relations = 2 * len(RELATIONS)
        self.num_entities = SIZE
        self.device = torch.device("cpu")


def counted(seed: int) -> FactIndex:
    random = np.random.default_rng(seed)
    return FactIndex(
        random.integers(0, [SIZE, 2 * len(RELATIONS), SIZE], (20, 3)), 2 * len(RELATIONS)
    )


def probabilities(scorer: TwoWayScorer, how: str, index: FactIndex) -> Values:
    """Calibrated scores of all atoms by their formulas, `[R, N, N]`."""
    x = scorer._logits.double().numpy()
    if how == "sigmoid":
        return 1 / (1 + np.exp(-x))
    if how == "minmax":
        low = x.min(axis=2, keepdims=True)
        high = x.max(axis=2, keepdims=True)
        return (x - low) / (high - low)
    share = np.exp(x) / np.exp(x).sum(axis=2, keepdims=True)
    if how == "softmax-observed":
        for r, h in np.ndindex(len(x), SIZE):
            known = index.tails(h, r)
            share[r, h] *= len(known) / share[r, h, known].sum() if len(known) else 1.0
        return np.minimum(share, 0.999)
    counts = np.array(
        [[max(1, len(index.tails(h, r))) for h in range(SIZE)] for r in range(len(x))]
    )
    return np.minimum(counts[:, :, None] * share, 1 - 2.0**-10)


class Towards:
    """The value by definition, with each atom read from its end farther from the answer."""

    def __init__(self, query: Query, scores: Values, logic: str) -> None:
        self.query = self._apart(query)
        self.scores = scores
        self.norm, self.conorm = LOGICS[logic]
        self.distance = {query.target: 0}
        edges = [
            a.terms
            for a in leaves(self.query.formula)
            if all(isinstance(e, Variable) for e in a.terms)
        ]
        self.is_tree = self._measure([set(pair) for pair in edges if pair[0] != pair[1]])

    def _apart(self, query: Query) -> Query:
        numbers = iter(range(1000))

        def walk(formula: Formula, names: dict[Variable, Variable]) -> Formula:
            match formula:
                case Atom(relation, subject, object_):
                    ends = [names[e] if isinstance(e, Variable) else e for e in (subject, object_)]
                    return Atom(relation, ends[0], ends[1])
                case Inequality():
                    return Inequality(
                        *(names[e] if isinstance(e, Variable) else e for e in formula.terms)
                    )
                case And(parts) | Or(parts):
                    return type(formula)(tuple(walk(part, names) for part in parts))
                case Not(part):
                    return Not(walk(part, names))
                case Exists(variable, part):
                    fresh = Variable(f"{variable.name}_{next(numbers)}")
                    return Exists(fresh, walk(part, {**names, variable: fresh}))
            raise AssertionError(formula)

        return Query(query.target, walk(query.formula, {query.target: query.target}))

    def _measure(self, edges: list[set[Variable]]) -> bool:
        """Distances from the target; False for a cycle or a part without the target."""
        distinct = {frozenset(edge) for edge in edges}
        while True:
            known = {
                e: next(iter(e & set(self.distance)))
                for e in distinct
                if len(e & set(self.distance)) == 1
            }
            if not known:
                break
            for edge, near in known.items():
                (far,) = edge - {near}
                if far in self.distance:
                    return False
                self.distance[far] = self.distance[near] + 1
        return len(distinct) == len(self.distance) - 1

    def value(self, formula: Formula, where: dict[Variable, int]) -> Values:
        match formula:
            case Atom(relation, subject, object_):
                s, o = (
                    ENTITIES.index(e.name) if isinstance(e, Entity) else where[e]
                    for e in (subject, object_)
                )
                r = 2 * RELATIONS.index(relation)
                far_s, far_o = (
                    np.inf if isinstance(e, Entity) else self.distance.get(e, 0)
                    for e in formula.terms
                )
                return self.scores[r + 1, o, s] if far_o > far_s else self.scores[r, s, o]
            case Inequality():
                left, right = (
                    ENTITIES.index(e.name) if isinstance(e, Entity) else where[e]
                    for e in formula.terms
                )
                return np.float64(left != right)
            case And(parts):
                return reduce(self.norm, [self.value(part, where) for part in parts])
            case Or(parts):
                return reduce(self.conorm, [self.value(part, where) for part in parts])
            case Not(part):
                return 1 - self.value(part, where)
            case Exists(variable, part):
                return np.max([self.value(part, {**where, variable: e}) for e in range(SIZE)])
        raise AssertionError(formula)

    def answers(self) -> Values:
        return np.array(
            [self.value(self.query.formula, {self.query.target: e}) for e in range(SIZE)]
        )


def searched(
    query: Query,
    scorer: TwoWayScorer,
    how: str,
    index: FactIndex,
    logic: str,
    k: int | None,
    bounds: bool = False,
) -> torch.Tensor:
    """The scores `[N]`, or lower and upper bounds `[2, N]`."""
    prepared = compile_query(query, safe=False)
    entities = torch.tensor([[ENTITIES.index(name) for name in prepared.entities]]).long()
    relations = torch.tensor([[2 * RELATIONS.index(name) for name in prepared.relations]]).long()
    reasoner = MessageReasoner(Atoms(scorer, calibration(how, KnownFacts(index))), Logic(logic), k)
    if bounds:
        return torch.cat(reasoner.bounds(prepared.plan, entities, relations))
    return reasoner.scores(prepared.plan, entities, relations)[0]


HOW = st.sampled_from(sorted(CALIBRATIONS))
LOGIC = st.sampled_from(sorted(LOGICS))


@given(queries(), st.integers(0, 2**32 - 1), HOW, LOGIC)
@settings(max_examples=200, deadline=None)
def test_every_atom_is_read_from_its_farther_end(
    query: Query, seed: int, how: str, logic: str
) -> None:
    scorer = TwoWayScorer(seed)
    index = counted(seed)
    towards = Towards(query, probabilities(scorer, how, index), logic)
    assume(towards.is_tree and not compile_query(query, safe=False).plan.has(Cutset))
    found = searched(query, scorer, how, index, logic, None).exp().numpy()
    np.testing.assert_allclose(found, towards.answers(), atol=2e-5)


@given(
    st.one_of(queries(), cycles()),
    st.integers(0, 2**32 - 1),
    HOW,
    LOGIC,
    st.sampled_from([None, 2]),
)
@settings(max_examples=150, deadline=None)
def test_no_order_of_writing_changes_a_bit_of_a_score(
    query: Query, seed: int, how: str, logic: str, k: int | None
) -> None:
    scorer = TwoWayScorer(seed)
    index = counted(seed)
    once, again = (
        searched(q, scorer, how, index, logic, k) for q in (query, rewritten(query, Random(seed)))
    )
    assert torch.equal(once, again)


def test_bounds_of_a_beam_hold_whichever_way_an_atom_is_read() -> None:
    """The ranking of a cut variable's values reads an atom against its body's direction."""
    hub = (
        "exists ?h ?a ?b ?c . r(e0, ?a) & q(?a, ?h) & r(?h, ?b) & q(?c, ?h) & r(?a, ?b) & "
        "q(?b, ?c) & r(?c, ?t)"
    )
    query = parse(f"?t : {hub} & q(?h, ?t)")
    for seed in seeds(40):
        scorer = TwoWayScorer(seed)
        index = counted(seed)
        exact = searched(query, scorer, "sigmoid", index, "product", None)
        lower, upper = searched(query, scorer, "sigmoid", index, "product", 1, bounds=True)
        assert (lower <= exact + 1e-4).all()
        assert (upper >= exact - 1e-4).all()


def test_the_two_directions_differ_in_these_tests() -> None:
    """Otherwise the tests above would prove nothing."""
    for how in CALIBRATIONS:
        scores = probabilities(TwoWayScorer(0), how, counted(0))
        assert np.abs(scores[0] - scores[1].T).max() > 0.3
