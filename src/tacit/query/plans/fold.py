"""Visitors of a plan: each step is evaluated by the method of its name, in a context.

An `EvalContext` says between which entities a step is evaluated: from `source` (only edges have
one) to `target`, where None stands for every entity at once.

A `Visitor` has a method for each kind of step it handles. A `Fold` evaluates a step from its
children, and most steps only change the context: `Row` starts at the entity of its slot, `At` ends
at it, `Source` and `Target` look at one end. So an algebra defines how an entity slot is read, what
an atom, `⊤`, `⊥` and `n` are, and the values of the few remaining steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from tacit.query.plans.plan import (
    At,
    Complement,
    Intersect,
    Loop,
    Relation,
    Row,
    Source,
    Step,
    Target,
    Union,
)

End = TypeVar("End")
Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class EvalContext(Generic[End]):
    """The entities between which a step is evaluated; None stands for every entity."""

    source: End | None = None
    target: End | None = None

    @property
    def start(self) -> End:
        """The source; an error where the context has none."""
        if self.source is None:
            raise TypeError("a step is valued from no entity, and needs one")
        return self.source

    @property
    def end(self) -> End:
        """The target; an error where the context has none."""
        if self.target is None:
            raise TypeError("a step is valued at no entity, and needs one")
        return self.target


EVERYWHERE: EvalContext[Any] = EvalContext()


class Visitor(Generic[End, Value]):
    """Evaluates each step of a plan by the method of its name, a `Row` by `row`.

    Steps without a method of their own go to `generic_visit`.
    """

    def of(self, step: Step, place: EvalContext[End] = EVERYWHERE) -> Value:
        """Evaluates a step in a context."""
        method: Callable[[Step, EvalContext[End]], Value] = getattr(
            self, type(step).__name__.lower(), self.generic_visit
        )
        return method(step, place)

    def generic_visit(self, step: Step, place: EvalContext[End]) -> Value:
        """Evaluates a step that has no method; an error unless overridden."""
        raise TypeError(f"{type(self).__name__} has no value for {step!r}")


class Fold(Visitor[End, Value], ABC):
    """Evaluates the steps of a plan; a subclass is an algebra over tensors, sets or proofs.

    `Project`, `Best`, `Cutset`, `Everything`, `Unequal`, `Within` and `Difference` have methods
    only in algebras that support them.
    """

    def intersect(self, step: Intersect[Step], place: EvalContext[End]) -> Value:
        """The t-norm of the parts in the same context."""
        return self.all([self.of(part, place) for part in step.parts])

    def union(self, step: Union[Step], place: EvalContext[End]) -> Value:
        """The t-conorm of the parts in the same context."""
        return self.any([self.of(part, place) for part in step.parts])

    def complement(self, step: Complement[Step], place: EvalContext[End]) -> Value:
        """The negation of the part in the same context."""
        return self.negation(self.of(step.part, place))

    def source(self, step: Source, place: EvalContext[End]) -> Value:
        """The set at the source."""
        return self.of(step.part, replace(place, source=None, target=place.source))

    def target(self, step: Target, place: EvalContext[End]) -> Value:
        """The set at the target."""
        return self.of(step.part, replace(place, source=None))

    def row(self, step: Row, place: EvalContext[End]) -> Value:
        """The edge from the entity of a slot."""
        return self.of(step.edge, replace(place, source=self.entity(step.slot)))

    def at(self, step: At, place: EvalContext[End]) -> Value:
        """The set at the entity of a slot."""
        return self.of(step.part, replace(place, source=None, target=self.entity(step.slot)))

    def loop(self, step: Loop, place: EvalContext[End]) -> Value:
        """The relation from an entity to itself."""
        return self.of(Relation(step.relation), replace(place, source=place.target))

    @abstractmethod
    def entity(self, slot: int) -> End:
        """The value of an entity slot."""

    @abstractmethod
    def relation(self, step: Relation, place: EvalContext[End]) -> Value:
        """The value of an atom from an entity to another, or to every one."""

    @abstractmethod
    def all(self, parts: Sequence[Value]) -> Value:
        """The t-norm of parts."""

    @abstractmethod
    def any(self, parts: Sequence[Value]) -> Value:
        """The t-conorm of parts."""

    @abstractmethod
    def negation(self, part: Value) -> Value:
        """The negation of a part."""
