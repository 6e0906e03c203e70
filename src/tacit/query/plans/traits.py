"""Properties and costs of plans and steps, by which a search is chosen.

A step is evaluated once for each value of the cut variables that it reads. A hop combines a set for
every candidate, unless its edge joins sets alone: then few candidates matter.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from tacit.query.plans import plan as steps
from tacit.query.plans.plan import Edge, Node, Plan, Step, anchored, children, has, reads, walk

Search = steps.Project | steps.Cutset  # the steps that look for the value of a variable
# slots of variables that are tried together, and how many values
Tried = tuple[tuple[frozenset[int], int], ...]
_FEW = 8  # candidates of an edge of sets, since no other exceeds them


def source_of(step: Search) -> Node:
    """The set that the candidates of a step come from."""
    return step.source if isinstance(step, steps.Project) else step.candidates


@lru_cache(maxsize=65536)
def is_hop_free(step: Step) -> bool:
    """Whether a step contains no hop and no cycle, so that its value is exact."""
    return not any(isinstance(part, Search) for part in walk(step))


@lru_cache(maxsize=65536)
def negates_hops(step: Step) -> bool:
    """Whether a step negates a hop; a beam may have missed a part of that hop."""
    return any(
        has(part, steps.Project, steps.Cutset, steps.Best)
        for part in walk(step)
        if isinstance(part, steps.Complement)
    )


def requires_beam(step: Step) -> bool:
    """Whether only a beam evaluates a step: an edge or a negation with hops inside."""
    if isinstance(step, steps.Project):
        return not is_hop_free(step.edge)
    return isinstance(step, steps.Cutset) and negates_hops(step.body)


def of_sets(edge: Edge) -> bool:
    """Whether an edge joins only sets at its ends, none of them negated."""
    if isinstance(edge, steps.Intersect | steps.Union):
        return all(map(of_sets, edge.parts))
    return isinstance(edge, steps.Source | steps.Target | steps.Everything)


@lru_cache(maxsize=65536)
def is_bounded_by_parts(step: Step) -> bool:
    """Whether the value of a step never exceeds those of its hops and cycles."""
    match step:
        case steps.Intersect(parts):
            return all(map(is_bounded_by_parts, parts))
        case steps.Project(_, source, edge):
            return is_hop_free(edge) and is_bounded_by_parts(source)
        case steps.Cutset(_, _, candidates, body, bounded):
            return bounded and is_bounded_by_parts(candidates) and is_bounded_by_parts(body)
        case steps.At(part) | steps.Best(_, part):
            return is_bounded_by_parts(part)
    return is_hop_free(step)


def without_hops(plan: Plan) -> bool:
    """Whether a plan only joins rows, so that an answer has the value of its own atoms."""
    connectives = steps.Intersect, steps.Union, steps.Complement
    plain = steps.Row, steps.Relation, steps.Unequal, steps.Within, steps.Difference, *connectives
    return all(isinstance(step, plain) for step in walk(plan.root))


def listable(plan: Plan) -> bool:
    """Whether lists can answer a plan: anchored sets, simple hops, no negated hop."""
    return (
        anchored(plan.root)
        and not negates_hops(plan.root)
        and all(map(_is_listable, walk(plan.root)))
    )


def _is_listable(step: Step) -> bool:
    match step:
        case steps.Project(_, source, steps.Relation()):
            return anchored(source)
        case steps.Union(parts):
            return all(map(anchored, parts)) or not any(map(anchored, parts))
        case steps.Row(_, edge):
            return isinstance(edge, steps.Relation | steps.Unequal)
        case steps.Relation() | steps.Unequal() | steps.Intersect() | steps.Complement():
            return True
    return False


def sets_in(plan: Plan, k: int, num_entities: int) -> int:
    """How many fuzzy sets a plan computes, with `k` values of enumerated targets at once.

    >>> from tacit.query.plans.compile import compile_query
    >>> from tacit.query.text import parse
    >>> query = parse("?c : borders(Brazil, ?n) & capital_of(?c, ?n)")
    >>> sets_in(compile_query(query).plan, 256, 10_000)
    259
    """
    width = min(k, num_entities)
    total = 0
    for i, root in enumerate(plan.roots):
        slots = frozenset(target.slot for target in plan.enumerated[:i])
        total += sets_of(root, k, num_entities, ((slots, width),))
    return total


def sets_of(step: Step, k: int, num_entities: int, tried: Tried = ()) -> int:
    """How many fuzzy sets a step computes, inside variables that are tried."""
    times = prod(count for slots, count in tried if slots & reads(step)[0])
    width = min(k, num_entities)
    match step:
        case steps.Project(_, source, edge):
            few = min(_FEW, num_entities) if of_sets(edge) else num_entities
            times *= min(few, width) if anchored(source) else few
        case steps.Cutset(_, slot, candidates):
            values = num_entities if isinstance(candidates, steps.Everything) else width
            tried = (*tried, (frozenset({slot}), values))
    return times + sum(sets_of(part, k, num_entities, tried) for part in children(step))
