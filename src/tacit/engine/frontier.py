"""How far a step of a plan was followed, and what kind of step it is to a search that follows the best first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from tacit.engine.atoms import Atoms
from tacit.engine.found import unsettled
from tacit.query.plan import Best, Complement, Condition, Intersect, Node, Project, Step, children, walk

_FEW = 2**20  # scores of rows that take no longer than some looks at bounds
Search = Project | Condition  # the steps that look for the value of a variable


@dataclass(eq=False)
class Frontier:
    """How far a step was followed for each query: what was reached, from which candidates."""

    reached: Tensor  # [2B, N]: from lower and from upper bounds of the candidates
    beam: Tensor  # [B, N]: from the values that a beam gives them
    followed: Tensor  # [B, N]: whether an entity was
    counts: list[int]  # [B]: how many were
    ahead: list[tuple[float, int]] = field(default_factory=list)  # [B]: the best candidate that is left

    def only(self, rows: Tensor, both: Tensor) -> Frontier:
        """The same for some of the queries."""
        reached, counts = self.reached[both], [self.counts[i] for i in rows.tolist()]
        beam = reached[: len(rows)] if self.at_once else self.beam[rows]
        return Frontier(reached, beam, self.followed[rows], counts)

    @property
    def at_once(self) -> bool:
        """Whether what a beam reaches is the lower bound, in the same memory."""
        return self.beam.data_ptr() == self.reached.data_ptr()


def beamed(step: Step) -> bool:
    """Whether a step is left to a beam: an edge with hops inside, or a cycle that denies such."""
    if isinstance(step, Project):
        return not settled(step.edge)
    return isinstance(step, Condition) and negates_hops(step.body)


def source_of(step: Search) -> Node:
    """Where the candidates of a step come from."""
    return step.source if isinstance(step, Project) else step.candidates


@lru_cache(maxsize=65536)
def settled(step: Step) -> bool:
    """Whether no hop and no cycle is part of a step, so that its value is exact."""
    return not any(isinstance(part, Project | Condition) for part in walk(step))


@lru_cache(maxsize=65536)
def negates_hops(step: Step) -> bool:
    """Whether something is negated that a beam may have missed a part of."""
    negated = (part for part in walk(step) if isinstance(part, Complement))
    return any(isinstance(inner, Project | Condition | Best) for part in negated for inner in walk(part))


def hardly_proven(root: Node, atoms: Atoms, k: int | None) -> bool:
    """Whether all that a beam keeps are to be followed at once, since the best candidates rule few answers out.

    That is where answers are a hop and a negation together and predictions come close to what is known; and where the
    hop is negated and what a beam keeps are so few scores that to look at bounds in between would take as long.
    """
    parts = root.parts if isinstance(root, Intersect) else (root,)
    if settled(root) or not any(isinstance(part, Complement) for part in parts):
        return False
    few = (k or atoms.num_entities) * atoms.num_entities <= _FEW
    return atoms.calibration.pointwise or (few and negates_hops(root))


def loose(lower: float, upper: float) -> bool:
    """Whether bounds of one value leave more open than rounding does."""
    return bool(unsettled(torch.tensor(lower), torch.tensor(upper)))


def from_inside(step: Step) -> Iterator[Step]:
    """All steps inside a step and then itself."""
    for inner in children(step):
        yield from from_inside(inner)
    yield step
