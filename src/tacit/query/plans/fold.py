"""The one way to walk a plan: each step goes to the method of its name, and is valued at a place.

A `Place` says between which entities a step is valued: from `source` (edges alone have one) to `target`, where None
stands for every entity at once.

A `Visitor` has a method for each step that it speaks of. A `Fold` values a step from what is inside it, and most steps
only move the place: `Row` starts at the entity of its slot, `At` ends there, `Source` and `Target` look at one end. So
an algebra has to say how an entity slot is read, what an atom, `⊤`, `⊥` and `n` are, and what the few steps with a
value of their own are worth.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from tacit.query.plans.plan import At, Complement, Intersect, Loop, Relation, Row, Source, Step, Target, Union

End = TypeVar("End")
Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Place(Generic[End]):
    """Where a step is valued: from an entity of an edge to an entity, or to every one."""

    source: End | None = None
    target: End | None = None

    @property
    def start(self) -> End:
        """The source, which there must be: an atom is followed from somewhere."""
        if self.source is None:
            raise TypeError("a step is valued from no entity, and needs one")
        return self.source

    @property
    def end(self) -> End:
        """The target, which there must be, where nothing is valued at every entity at once."""
        if self.target is None:
            raise TypeError("a step is valued at no entity, and needs one")
        return self.target


EVERYWHERE: Place[Any] = Place()


class Visitor(Generic[End, Value]):
    """Values each step of a plan by the method of its name, a `Row` by `row`; all that it has none for, `otherwise`."""

    def of(self, step: Step, place: Place[End] = EVERYWHERE) -> Value:
        """The value of a step at a place."""
        method: Callable[[Step, Place[End]], Value] = getattr(self, type(step).__name__.lower(), self.otherwise)
        return method(step, place)

    def otherwise(self, step: Step, place: Place[End]) -> Value:
        """The value of a step that there is no method for."""
        raise TypeError(f"{type(self).__name__} has no value for {step!r}")


class Fold(Visitor[End, Value], ABC):
    """Values the steps of a plan: a subclass is an algebra, of a few dozen lines over tensors, sets, vectors or proofs.

    `Project`, `Best`, `Condition` and `Everything` have a value of their own, by the method of an algebra that has one.
    """

    def intersect(self, step: Intersect[Step], place: Place[End]) -> Value:
        """The parts at the same place, joined by the t-norm."""
        return self.all([self.of(part, place) for part in step.parts], place)

    def union(self, step: Union[Step], place: Place[End]) -> Value:
        """The parts at the same place, joined by the t-conorm."""
        return self.any([self.of(part, place) for part in step.parts], place)

    def complement(self, step: Complement[Step], place: Place[End]) -> Value:
        """The negation of what the part is worth at the same place."""
        return self.negation(step, self.of(step.part, place), place)

    def source(self, step: Source, place: Place[End]) -> Value:
        """A set at the source."""
        return self.of(step.part, replace(place, source=None, target=place.source))

    def target(self, step: Target, place: Place[End]) -> Value:
        """A set at the target."""
        return self.of(step.part, replace(place, source=None))

    def row(self, step: Row, place: Place[End]) -> Value:
        """An edge from the entity of a slot."""
        return self.of(step.edge, replace(place, source=self.entity(step.slot)))

    def at(self, step: At, place: Place[End]) -> Value:
        """A set at the entity of a slot."""
        return self.of(step.part, replace(place, source=None, target=self.entity(step.slot)))

    def loop(self, step: Loop, place: Place[End]) -> Value:
        """A relation from an entity to itself."""
        return self.of(Relation(step.relation), replace(place, source=place.target))

    @abstractmethod
    def entity(self, slot: int) -> End:
        """What stands in an entity slot."""

    @abstractmethod
    def relation(self, step: Relation, place: Place[End]) -> Value:
        """An atom from an entity to another, or to every one."""

    @abstractmethod
    def all(self, parts: Sequence[Value], place: Place[End]) -> Value:
        """The t-norm of parts."""

    @abstractmethod
    def any(self, parts: Sequence[Value], place: Place[End]) -> Value:
        """The t-conorm of parts."""

    @abstractmethod
    def negation(self, step: Complement[Step], part: Value, place: Place[End]) -> Value:
        """The negation of a part, which is that of a step."""
