"""The one way to walk a plan: a fold over its steps, each valued at a place.

A `Place` says between which entities a step is valued: from `source` (edges alone have one) to `target`, where None
stands for every entity at once. Most steps only move the place and value what is inside them there: `Row` starts at the
entity of its slot, `At` ends there, `Source` and `Target` look at one end. So an algebra has to say how an entity slot
is read, what `⊤`, `⊥` and `n` are, and what the few steps with a value of their own are worth.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from tacit.query.plan import (
    At,
    Best,
    Complement,
    Condition,
    Everything,
    Intersect,
    Loop,
    Project,
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
class Place(Generic[End]):
    """Where a step is valued: from an entity of an edge to an entity, or to every one."""

    source: End | None = None
    target: End | None = None


EVERYWHERE: Place[Any] = Place()


class Fold(ABC, Generic[End, Value]):
    """Values the steps of a plan: a subclass is an algebra, with one method for each step that has a value of its own.

    An algebra over tensors, sets, vectors, proofs or text is a few dozen lines; the walk is written here, once.
    """

    def of(self, step: Step, place: Place[End] = EVERYWHERE) -> Value:
        """The value of a step at a place."""
        match step:
            case Intersect(parts):
                return self.all([self.of(part, place) for part in parts], place)
            case Union(parts):
                return self.any([self.of(part, place) for part in parts], place)
            case Complement(part):
                return self.negation(step, self.of(part, place), place)
            case Relation():
                if place.source is None:
                    raise TypeError("a relation is followed from somewhere")
                return self.relation(step, place.source, place.target)
            case Source(part):
                return self.of(part, replace(place, source=None, target=place.source))
            case Target(part):
                return self.of(part, replace(place, source=None))
            case Row():
                return self.row(step, place)
            case At():
                return self.at(step, place)
            case Project():
                return self.project(step, place)
            case Loop():
                return self.loop(step, place)
            case Best():
                return self.best(step, place)
            case Condition():
                return self.condition(step, place)
            case Everything():
                return self.everything(place)
        raise TypeError(f"not a step of a plan: {step!r}")

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
    def relation(self, step: Relation, source: End, target: End | None) -> Value:
        """An atom from an entity to another, or to every one."""

    def project(self, step: Project, place: Place[End]) -> Value:
        """The best way over an edge from a set."""
        raise self.refused(step)

    def best(self, step: Best, place: Place[End]) -> Value:
        """The largest value of a set."""
        raise self.refused(step)

    def condition(self, step: Condition, place: Place[End]) -> Value:
        """The best of a body over the values of a cut variable."""
        raise self.refused(step)

    def everything(self, place: Place[End]) -> Value:
        """The set of all entities."""
        raise self.refused(Everything())

    def refused(self, step: Step) -> Exception:
        """What to raise of a step that an algebra has no value for."""
        return TypeError(f"{type(self).__name__} has no value for {step!r}")

    @abstractmethod
    def all(self, parts: Sequence[Value], place: Place[End]) -> Value:
        """The t-norm of parts."""

    @abstractmethod
    def any(self, parts: Sequence[Value], place: Place[End]) -> Value:
        """The t-conorm of parts."""

    @abstractmethod
    def negation(self, step: Complement[Any], part: Value, place: Place[End]) -> Value:
        """The negation of a part, which is that of a step."""
