"""How much a plan takes to compute: so many fuzzy sets over all entities.

What a step reads decides how often it is valued: once for each value of the variables around it that are tried and that
it reads. A hop combines a set for every candidate, unless its edge is made of sets alone: then few candidates matter.
"""

from __future__ import annotations

from math import prod

from tacit.query.plans.plan import Condition, Everything, Plan, Project, Step, anchored, children, reads
from tacit.query.plans.traits import of_sets

Tried = tuple[tuple[frozenset[int], int], ...]  # slots of variables that are tried together, and how many values
_FEW = 8  # candidates that no other outdoes


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
        case Project(_, source, edge):
            times *= min(k if anchored(source) else every, every, _FEW if of_sets(edge) else every)
        case Condition(_, slot, candidates):
            inside = (*tried, (frozenset({slot}), every if isinstance(candidates, Everything) else min(k, every)))
    return times + sum(sets_of(part, k, num_entities, inside) for part in children(step))
