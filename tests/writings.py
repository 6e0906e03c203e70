"""Other ways to write a question, and questions whose variables form cycles."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import strategies as st

from formulas import RELATIONS
from tacit.query.comparison import Comparison
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
)

A = Entity("e0")
B = Entity("e1")
T = Variable("t")


def rewritten(query: Query, random: Random) -> Query:
    """The same question, with parts and quantifiers shuffled and variables renamed."""
    numbers = iter(random.sample(range(1000), 200))

    def fresh() -> Variable:
        return Variable(f"n{next(numbers)}")

    def grouped(kind: type[And] | type[Or], parts: list[Formula]) -> Formula:
        random.shuffle(parts)
        if len(parts) > 2 and random.random() < 0.5:
            cut = random.randrange(2, len(parts))
            return kind((kind(tuple(parts[:cut])), *parts[cut:]))
        return kind(tuple(parts))

    def walk(formula: Formula, names: dict[Variable, Variable]) -> Formula:
        match formula:
            case Atom(relation, subject, object_):
                ends = [names[e] if isinstance(e, Variable) else e for e in (subject, object_)]
                return Atom(relation, ends[0], ends[1])
            case Inequality():
                sides = [names[e] if isinstance(e, Variable) else e for e in formula.terms]
                return Inequality(*random.sample(sides, 2))
            case Comparison():
                terms = [names[e] if isinstance(e, Variable) else e for e in formula.terms]
                changed = formula.with_terms(terms)
                return changed.flipped() if random.random() < 0.5 else changed
            case And(parts) | Or(parts):
                return grouped(type(formula), [walk(part, names) for part in parts])
            case Not(part):
                return Not(walk(part, names))
        bound = []
        names = dict(names)
        while isinstance(formula, Exists):
            names[formula.variable] = fresh()
            bound.append(names[formula.variable])
            formula = formula.part
        result = walk(formula, names)
        for variable in random.sample(bound, len(bound)):
            result = Exists(variable, result)
        return result

    targets = {target: fresh() for target in query.targets}
    return Query(targets.values(), walk(query.formula, targets))


@st.composite
def cycles(draw: st.DrawFn) -> Query:
    """Rings of variables through the target, with chords and anchors: many of them look alike."""
    size = draw(st.integers(2, 5))
    ring = [T, *(Variable(f"v{i}") for i in range(size)), T]
    relations = draw(st.lists(st.sampled_from(RELATIONS[:2]), min_size=size + 1, max_size=size + 1))
    atoms = [Atom(r, *pair) for r, pair in zip(relations, pairwise(ring), strict=True)]
    chords = draw(
        st.lists(st.tuples(st.sampled_from(ring), st.sampled_from([*ring, A, B])), max_size=3)
    )
    atoms += [Atom(draw(st.sampled_from(RELATIONS[:2])), *chord) for chord in chords]
    formula: Formula = And(tuple(~a if draw(st.integers(0, 5)) == 0 else a for a in atoms))
    for variable in ring[1:-1]:
        formula = Exists(variable, formula)
    return Query(T, formula)
