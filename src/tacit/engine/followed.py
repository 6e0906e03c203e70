"""What a search has followed, as those see it who ask for reasons."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from tacit.engine.frontier import Search, source_of
from tacit.engine.scores import Scores
from tacit.query.plan import Project


@dataclass(eq=False)
class Followed(Scores):
    """The values of a query by the candidates that were followed, which may be more than a beam keeps.

    Cycles, and what is inside edges, were valued by a beam `alone`, whatever was followed around them.
    """

    alone: Scores | None = None
    followed: dict[Search, Tensor] = field(default_factory=dict)  # [1, N]

    def candidates(self, step: Search) -> tuple[Tensor, Tensor]:
        """What a beam keeps, all of which was followed unless less was enough, and what was followed beside it."""
        values, ids = super().candidates(step)
        followed = self.followed.get(step)
        if followed is None or not bool(followed.any()):
            return values, ids
        if isinstance(step, Project):  # whose frontier keeps no account of candidates that are not exact
            followed = followed.scatter(1, ids, True)
        ids = followed.nonzero()[None, :, 1]
        return self.whole(source_of(step)).gather(1, ids), ids

    def repeated(self, times: int, slot: int | None = None, filling: Tensor | None = None) -> Scores:
        """The query `times` over as a beam values it."""
        if self.alone is None:
            return super().repeated(times, slot, filling)
        return replace(self.alone, floor=self.floor).repeated(times, slot, filling)
