"""What kind of plan, or of step of a plan, something is, and how much it takes: what decides how it is searched.

What a step reads decides how often it is valued: once for each value of the variables around it that are tried and that
it reads. A hop combines a set for every candidate, unless its edge is made of sets alone: then few candidates matter.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from tacit.query.plans import plan as steps
from tacit.query.plans.plan import Edge, Node, Plan, Step, anchored, children, has, reads, walk

Search = steps.Project | steps.Condition  # the steps that look for the value of a variable
Tried = tuple[tuple[frozenset[int], int], ...]  # slots of variables that are tried together, and how many values
_FEW = 8  # candidates that no other outdoes


def source_of(step: Search) -> Node:
    """Where the candidates of a step come from."""
    return step.source if isinstance(step, steps.Project) else step.candidates


@lru_cache(maxsize=65536)
def settled(step: Step) -> bool:
    """Whether no hop and no cycle is part of a step, so that its value is exact."""
    return not any(isinstance(part, Search) for part in walk(step))


@lru_cache(maxsize=65536)
def drops(step: Step) -> bool:
    """Whether a beam may drop candidates in a step: somewhere it leaves a set that something holds together."""
    return any(isinstance(part, Search) and anchored(source_of(part)) for part in walk(step))


@lru_cache(maxsize=65536)
def negates_hops(step: Step) -> bool:
    """Whether something is negated that a beam may have missed a part of."""
    denied = (part for part in walk(step) if isinstance(part, steps.Complement))
    return any(has(part, steps.Project, steps.Condition, steps.Best) for part in denied)


def beamed(step: Step) -> bool:
    """Whether a step is left to a beam: an edge with hops inside, or a cycle that denies such."""
    if isinstance(step, steps.Project):
        return not settled(step.edge)
    return isinstance(step, steps.Condition) and negates_hops(step.body)


def of_sets(edge: Edge) -> bool:
    """Whether an edge joins nothing but sets at its ends, none of them denied."""
    if isinstance(edge, steps.Intersect | steps.Union):
        return all(map(of_sets, edge.parts))
    return isinstance(edge, steps.Source | steps.Target | steps.Everything)


@lru_cache(maxsize=65536)
def hands_on(step: Step) -> bool:
    """Whether no value of a step exceeds those of the hops and cycles in it."""
    match step:
        case steps.Intersect(parts):
            return all(map(hands_on, parts))
        case steps.Project(_, source, edge):
            return settled(edge) and hands_on(source)
        case steps.Condition(_, _, candidates, body, bounded):
            return bounded and hands_on(candidates) and hands_on(body)
        case steps.At(part) | steps.Best(_, part):
            return hands_on(part)
    return settled(step)


def without_hops(plan: Plan) -> bool:
    """Whether a plan only joins rows, so that an answer is worth what its own atoms are."""
    joined = (steps.Row, steps.Relation, steps.Intersect, steps.Union, steps.Complement)
    return all(isinstance(step, joined) for step in walk(plan.root))


def listable(plan: Plan) -> bool:
    """Whether a plan can be answered over lists: sets held together by atoms, hops over one relation, no denied hop."""
    return anchored(plan.root) and not negates_hops(plan.root) and all(map(_listed, walk(plan.root)))


def _listed(step: Step) -> bool:
    match step:
        case steps.Project(_, source, steps.Relation()):
            return anchored(source)
        case steps.Union(parts):
            return all(map(anchored, parts)) or not any(map(anchored, parts))
        case steps.Row(_, steps.Relation()) | steps.Intersect() | steps.Complement() | steps.Relation():
            return True
    return False


def sets_in(plan: Plan, k: int, num_entities: int) -> int:
    """How many fuzzy sets a plan takes; of the answer variables that are held, `k` values are tried together.

    >>> from tacit.query.plans.compile import compile_query
    >>> from tacit.query.text.text import parse
    >>> sets_in(compile_query(parse("?c : borders(Brazil, ?n) & capital_of(?c, ?n)")).plan, 256, 10_000)
    259
    """
    slots, total = frozenset[int](), 0
    for held in plan.held:
        total += sets_of(held.ranking, k, num_entities, ((slots, min(k, num_entities)),))
        slots |= {held.slot}
    return total + sets_of(plan.root, k, num_entities, ((slots, min(k, num_entities)),))


def sets_of(step: Step, k: int, num_entities: int, tried: Tried = ()) -> int:
    """How many fuzzy sets a step takes, inside variables that are tried."""
    every, times, inside = num_entities, prod(count for slots, count in tried if slots & reads(step)[0]), tried
    match step:
        case steps.Project(_, source, edge):
            times *= min(k if anchored(source) else every, every, _FEW if of_sets(edge) else every)
        case steps.Condition(_, slot, candidates):
            inside = (*tried, (frozenset({slot}), every if isinstance(candidates, steps.Everything) else min(k, every)))
    return times + sum(sets_of(part, k, num_entities, inside) for part in children(step))
