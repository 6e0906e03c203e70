"""Schedules that turn a mix of plans into batches of operators of a space.

A schedule is computed once for a mix, whatever the numbers of queries: it is an algebra over plans
whose values are operations, so that equal steps of a plan are one operation. Operations of one kind
that can run at the same time are one step, those of all plans together, and hops run when nothing
else can: a mix takes as many projections as its longest chain has hops.

Where a space has no union, the value of a step is a tuple of branches, of which the best counts:
hops and intersections are distributed over them, and a complement is the intersection of their
complements.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple, NoReturn, TypeVar

from tacit.errors import PlanError
from tacit.query.plans.fold import EVERYWHERE, EvalContext, Fold
from tacit.query.plans.plan import (
    At,
    Best,
    Cutset,
    Difference,
    Everything,
    Loop,
    Plan,
    Project,
    Relation,
    Step,
    Unequal,
    Within,
)

MOST_BRANCHES = 16
# the order of kinds among operations that are ready
KINDS = ("anchor", "everything", "complement", "union", "intersect", "project")
REFUSED: dict[type, str] = {
    # a state is matched with all entities at once
    At: "a part that speaks of named entities alone (At)",
    Best: "a part that no answer occurs in (Best)",
    Loop: "an atom with one variable at both ends (Loop)",  # a hop leads from a state to another
    Cutset: "a cycle of variables (Cutset)",  # operators follow trees
    Unequal: "an inequality (Unequal)",  # which tells entities apart, and a state is of many
    Difference: "a comparison of two values (Difference)",
    Within: "a comparison of a value (Within)",
}
Branches = tuple[int, ...]  # operations, by number
_T = TypeVar("_T")


class Operation(NamedTuple):
    """An operator of a space on all queries of one plan of a mix."""

    kind: str
    plan: int  # which of the mix
    inputs: tuple[int, ...] = ()
    slot: int = 0  # of the entity of an anchor, of the relation of a projection
    flip: bool = False  # whether a projection follows the inverse relation


class Schedule(NamedTuple):
    """The operations of a mix of plans, their order in steps, and each plan's branches."""

    operations: tuple[Operation, ...]
    steps: tuple[tuple[int, ...], ...]
    outputs: tuple[Branches, ...]


@lru_cache(maxsize=1024)
def schedule_of(plans: tuple[Plan, ...], unions: bool) -> Schedule:
    """The schedule of a mix of plans, for a space with a union of its own or without.

    A `PlanError` names the first step that no operator stands for.
    """
    operations: dict[Operation, int] = {}
    outputs = tuple(
        _Operations(operations, number, unions).of(plan.root) for number, plan in enumerate(plans)
    )
    return Schedule(tuple(operations), _steps(list(operations)), outputs)


def _steps(operations: Sequence[Operation]) -> tuple[tuple[int, ...], ...]:
    """Operations in the order they run, batched by kind and arity."""
    waiting = dict(enumerate(operations))
    steps = []
    while waiting:
        ready = defaultdict[tuple[int, int], list[int]](list)  # by kind and arity
        for number, (kind, _, inputs, *_) in waiting.items():
            if waiting.keys().isdisjoint(inputs):
                ready[KINDS.index(kind), len(inputs)].append(number)
        steps.append(tuple(ready[min(ready)]))
        for number in steps[-1]:
            del waiting[number]
    return tuple(steps)


class _Operations(Fold[int, Branches]):
    """Values the steps of a plan by their operations; an end is an entity's slot."""

    def __init__(self, operations: dict[Operation, int], plan: int, unions: bool) -> None:
        self.operations = operations
        self.plan = plan
        self.unions = unions

    def of(self, step: Step, place: EvalContext[int] = EVERYWHERE) -> Branches:
        """The operations of a step; a `PlanError` for a step about single entities."""
        if place.target is not None:
            _refuse("a part of an edge that speaks of its source alone (Source)")
        if type(step) in REFUSED:
            _refuse(REFUSED[type(step)])
        return super().of(step, place)

    def entity(self, slot: int) -> int:
        """The slot itself."""
        return slot

    def relation(self, step: Relation, place: EvalContext[int]) -> Branches:
        """A hop from an anchor."""
        return self._hops((self._number("anchor", slot=place.start),), step)

    def project(self, step: Project, place: EvalContext[int]) -> Branches:
        """A hop from each branch of a source."""
        if not isinstance(step.edge, Relation):
            _refuse("an edge of several relations between two variables, or of a negated one")
        return self._hops(self.of(step.source), step.edge)

    def everything(self, step: Everything, place: EvalContext[int]) -> Branches:
        """The state of all entities."""
        return (self._number("everything"),)

    def all(self, parts: Sequence[Branches]) -> Branches:
        """An intersection for each choice of branches."""
        return limited_branches(
            self._number("intersect", choice) if len(choice) > 1 else choice[0]
            for choice in product(*parts)
        )

    def any(self, parts: Sequence[Branches]) -> Branches:
        """A union, or all branches."""
        branches = tuple(branch for part in parts for branch in part)
        return (self._number("union", branches),) if self.unions else limited_branches(branches)

    def negation(self, part: Branches) -> Branches:
        """The complement; of branches, the intersection of their complements."""
        return self.all([(self._number("complement", (branch,)),) for branch in part])

    def _hops(self, sources: Branches, edge: Relation) -> Branches:
        return tuple(self._number("project", (source,), edge.slot, edge.flip) for source in sources)

    def _number(
        self, kind: str, inputs: tuple[int, ...] = (), slot: int = 0, flip: bool = False
    ) -> int:
        """The number of an operation, the same for equal ones."""
        new = len(self.operations)
        return self.operations.setdefault(Operation(kind, self.plan, inputs, slot, flip), new)


def limited_branches(branches: Iterable[_T]) -> tuple[_T, ...]:
    """Distinct branches; a `PlanError` as soon as there are too many."""
    distinct: dict[_T, None] = {}
    for branch in branches:
        distinct[branch] = None
        if len(distinct) > MOST_BRANCHES:
            raise PlanError(
                f"the unions of a question make more than {MOST_BRANCHES} branches, which are all "
                "that an encoder without a union of its own keeps; ask with fewer unions, or with "
                "another `search`"
            )
    return tuple(distinct)


def _refuse(step: str) -> NoReturn:
    raise PlanError(
        f"no operator of query embeddings stands for {step}; ask without it, or with another "
        "`search`"
    )
