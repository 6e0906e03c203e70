"""What kind of plan, or of step of a plan, something is: what decides how it can be searched."""

from __future__ import annotations

from functools import lru_cache

from tacit.query.plans.plan import (
    At,
    Best,
    Complement,
    Condition,
    Edge,
    Everything,
    Intersect,
    Node,
    Plan,
    Project,
    Relation,
    Row,
    Source,
    Step,
    Target,
    Union,
    anchored,
    has,
    walk,
)

Search = Project | Condition  # the steps that look for the value of a variable


def source_of(step: Search) -> Node:
    """Where the candidates of a step come from."""
    return step.source if isinstance(step, Project) else step.candidates


@lru_cache(maxsize=65536)
def settled(step: Step) -> bool:
    """Whether no hop and no cycle is part of a step, so that its value is exact."""
    return not has(step, Project, Condition)


@lru_cache(maxsize=65536)
def drops(step: Step) -> bool:
    """Whether a beam may drop candidates in a step: somewhere it leaves a set that something holds together."""
    return any(isinstance(part, Project | Condition) and anchored(source_of(part)) for part in walk(step))


@lru_cache(maxsize=65536)
def negates_hops(step: Step) -> bool:
    """Whether something is negated that a beam may have missed a part of."""
    return any(has(part, Project, Condition, Best) for part in walk(step) if isinstance(part, Complement))


def beamed(step: Step) -> bool:
    """Whether a step is left to a beam: an edge with hops inside, or a cycle that denies such."""
    if isinstance(step, Project):
        return not settled(step.edge)
    return isinstance(step, Condition) and negates_hops(step.body)


def of_sets(edge: Edge) -> bool:
    """Whether an edge joins nothing but sets at its ends, none of them denied."""
    if isinstance(edge, Intersect | Union):
        return all(map(of_sets, edge.parts))
    return isinstance(edge, Source | Target | Everything)


@lru_cache(maxsize=65536)
def hands_on(step: Step) -> bool:
    """Whether no value of a step exceeds those of the hops and cycles in it."""
    match step:
        case Intersect(parts):
            return all(map(hands_on, parts))
        case Project(_, source, edge):
            return settled(edge) and hands_on(source)
        case Condition(_, _, candidates, body, bounded):
            return bounded and hands_on(candidates) and hands_on(body)
        case At(part) | Best(_, part):
            return hands_on(part)
    return settled(step)


def without_hops(plan: Plan) -> bool:
    """Whether a plan only joins rows, so that an answer is worth what its own atoms are."""
    return all(isinstance(step, Row | Relation | Intersect | Union | Complement) for step in walk(plan.root))


def listable(plan: Plan) -> bool:
    """Whether a plan can be answered over lists: sets held together by atoms, hops over one relation, no denied hop."""
    return anchored(plan.root) and not negates_hops(plan.root) and all(map(_listed, walk(plan.root)))


def _listed(step: Step) -> bool:
    match step:
        case Project(_, source, Relation()):
            return anchored(source)
        case Union(parts):
            return all(map(anchored, parts)) or not any(map(anchored, parts))
        case Row(_, Relation()) | Intersect() | Complement() | Relation():
            return True
    return False
