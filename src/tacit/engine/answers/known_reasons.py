"""Why an answer is known: proofs by facts that imply it, also where a search has dropped what leads to it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tacit.engine.answers.reasons import Proof, Reasons
from tacit.engine.search.scores import Scores
from tacit.graph.fact_index import FactIndex, Ints
from tacit.query.plans.fold import Place
from tacit.query.plans.plan import Best, Condition, Project
from tacit.query.plans.sets import Sets
from tacit.query.plans.symbolic import COPIES, Ends, SetFold


class Implied(Reasons):
    """Walks a plan backwards from a known answer, choosing for each variable what facts lead from.

    Where no facts do, as in a branch of an *or* that is not known, the choice is the search's.
    """

    def __init__(self, scores: Scores, index: FactIndex) -> None:
        super().__init__(scores)
        slots = scores.entities.cpu().numpy(), scores.relations.cpu().numpy()
        self.facts = SetFold(index, scores.atoms.num_entities, *slots)

    def best(self, step: Best, place: Place[int]) -> Proof:
        """The first entity of the set that facts imply."""
        for _, members in self.facts.of(step.part).members(COPIES):
            if len(members):
                entity = int(members[0])
                return self.of(step.part, Place(target=entity)).choosing(step.variable, entity)
        return super().best(step, place)

    def _sources(self, step: Project, t: int, count: int) -> list[int]:
        """The first values from which facts lead to `t`."""
        source = self.facts.bounded(self.facts.of(step.source), step.edge)
        leading = (
            (sources, self.facts.of(step.edge, Place(Ends(rows, sources)))) for rows, sources in source.members(COPIES)
        )
        return list(_holding(leading, t))[:count] or super()._sources(step, t, count)

    def _cut(self, step: Condition, t: int) -> int:
        """The first value with which facts lead to `t`."""
        tried = (
            (values, self.facts.copies(step, rows, values).of(step.body))
            for rows, values in self.facts.of(step.candidates).members(COPIES)
        )
        known = next(_holding(tried, t), None)
        return super()._cut(step, t) if known is None else known

    def _inside(self, scores: Scores) -> Reasons:
        return Implied(scores, self.facts.index)


def _holding(tried: Iterator[tuple[Ints, Sets]], t: int) -> Iterator[int]:
    """The values whose set, one each, holds an entity."""
    for values, sets in tried:
        places = np.arange(len(values))
        yield from values[sets.contains(places, np.full_like(places, t))].tolist()
